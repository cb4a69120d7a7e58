//! Where conversations are kept, and how that is written.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// Where conversations are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory`: in this process; they end with it.
    Memory,
    /// `disk:PATH`: in a folder, for one process at a time.
    Disk(PathBuf),
    /// `redis://…`, `rediss://…` with TLS, `redis+unix://…` for a socket, `redis+cluster://…` or `rediss+cluster://…` for a cluster: in Redis
    /// or Valkey, for many.
    Redis(String),
}

impl StoreUrl {
    /// The folder where nothing is said: what the service manager or the user's environment has for state, in this order
    /// `$STATE_DIRECTORY`, `$XDG_STATE_HOME/a2a-multiturn`, `~/.local/state/a2a-multiturn`. `None` where the environment names none of them.
    pub fn of_environment(var: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let set = |name| var(name).filter(|path| !path.as_os_str().is_empty());
        // systemd lists several with colons; the first is the service's own.
        let first = |path: PathBuf| path.to_str().and_then(|list| list.split(':').next()).map(PathBuf::from);
        let absolute = |path: &PathBuf| path.is_absolute();
        let user = || set("XDG_STATE_HOME").filter(absolute).or_else(|| Some(set("HOME")?.join(".local/state")));
        let folder = set("STATE_DIRECTORY").and_then(first).or_else(|| Some(user()?.join("a2a-multiturn")));
        folder.map(Self::Disk)
    }

    /// As [`Self::of_environment`], with the process's own.
    pub fn default_of_process() -> Option<Self> {
        Self::of_environment(|name| std::env::var_os(name).map(PathBuf::from))
    }

    /// A path in it that is not absolute is taken from `folder`.
    pub fn beside(&mut self, folder: &Path) {
        if let Self::Disk(path) = self {
            *path = folder.join(&path);
        }
    }
}

/// How the address of a Redis or Valkey may begin.
const REDIS: &[&str] = &["redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster"];

impl FromStr for StoreUrl {
    type Err = &'static str;

    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        match typed.split_once(':') {
            None if typed == "memory" => Ok(Self::Memory),
            Some(("disk", path)) if !path.is_empty() && !path.starts_with("//") => Ok(Self::Disk(PathBuf::from(path))),
            Some((scheme, rest)) if REDIS.contains(&scheme) && rest.len() > 2 && rest.starts_with("//") => {
                Ok(Self::Redis(typed.to_owned()))
            }
            _ => Err("write \"memory\", \"disk:PATH\" or \"redis://HOST:PORT\""),
        }
    }
}

/// As it is written, without a password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Disk(path) => write!(f, "disk:{}", path.display()),
            Self::Redis(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
                // A socket's address has user and password behind a question mark.
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                write!(f, "{scheme}://{}", host.split('?').next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// What is kept, where, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Where; `None`: [`StoreUrl::default_of_process`].
    pub url: Option<StoreUrl>,
    /// When what was written counts as kept.
    pub durability: Durability,
    /// How long what was written may wait for the disk, where the durability is `batched`.
    pub batch: Duration,
    /// Bytes of conversations that a store on disk holds in memory too.
    pub cache_bytes: usize,
    /// What a send comes to while the store fails.
    pub on_error: OnStoreError,
    /// Contexts at most; beyond that the longest unused one without a turn in flight goes.
    pub contexts: usize,
    /// Bytes of all transcripts at most; beyond that likewise.
    pub bytes: usize,
    /// Bytes of one context's transcript at most; beyond that its oldest turns go.
    pub context_bytes: usize,
    /// How long a context is kept that nobody uses.
    pub ttl: Duration,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: None,
            durability: Durability::Acknowledged,
            batch: Duration::from_millis(20),
            cache_bytes: 64 << 20,
            on_error: OnStoreError::Refuse,
            contexts: 100_000,
            bytes: 1 << 30,
            context_bytes: 4 << 20,
            ttl: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// When what was written counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// When it is on disk: before the client is told of it.
    Acknowledged,
    /// At once; it is on disk a moment later.
    Batched,
}

/// What a send comes to while the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStoreError {
    /// An error.
    Refuse,
    /// The agent's answer, without memory.
    Passthrough,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (typed, meant) in [
            ("memory", StoreUrl::Memory),
            ("disk:/var/lib/x", StoreUrl::Disk("/var/lib/x".into())),
            ("disk:state", StoreUrl::Disk("state".into())),
            ("redis://127.0.0.1:6379/1", StoreUrl::Redis("redis://127.0.0.1:6379/1".into())),
        ] {
            assert_eq!((typed.parse::<StoreUrl>().unwrap(), meant.to_string()), (meant, typed.to_owned()));
        }
        for typed in
            ["", "disk", "disk:", "disk://x", "Memory", "memory:", "redis:x", "redis://", "http://x", "/var/lib/x"]
        {
            assert!(typed.parse::<StoreUrl>().is_err(), "{typed}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let url: StoreUrl = "rediss://ada:p@ss@redis.example:6380/0".parse().unwrap();
        let socket: StoreUrl = "redis+unix:///run/redis.sock?db=1&pass=p".parse().unwrap();
        assert_eq!(socket.to_string(), "redis+unix:///run/redis.sock");
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            ("rediss://redis.example:6380/0".into(), "StoreUrl(rediss://redis.example:6380/0)".into())
        );
    }

    #[test]
    fn the_environment_names_a_folder() {
        for (set, folder) in [
            (&[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), ("XDG_STATE_HOME", "/x")][..], Some("/var/lib/a")),
            (&[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Some("/x/a2a-multiturn")),
            (&[("XDG_STATE_HOME", "x"), ("HOME", "/h")], Some("/h/.local/state/a2a-multiturn")),
            (&[("HOME", "/h")], Some("/h/.local/state/a2a-multiturn")),
            (&[], None),
        ] {
            let var = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value));
            assert_eq!(StoreUrl::of_environment(var), folder.map(|folder| StoreUrl::Disk(folder.into())), "{set:?}");
        }
    }
}
