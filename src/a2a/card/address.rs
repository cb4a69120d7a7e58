//! The URL of an interface, as an agent wrote it: split with care, since agents write `0.0.0.0`, bare paths, and worse.

/// Where an interface is said to stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host and port, in one spelling; `None` for a URL relative to the agent.
    pub origin: Option<String>,
    /// Path and query as they were written; empty, or starting with a slash or a question mark.
    pub path: String,
    /// It is no absolute URL: most clients cannot use it.
    pub relative: bool,
}

/// Why a text is no URL that a client could be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// An interface without one.
    #[error("there is no URL")]
    Missing,
    /// Quotes, spaces, control characters, backslashes and the like.
    #[error("it has characters that a URL cannot have")]
    Characters,
    /// Neither `http` nor `https`.
    #[error("it is neither http nor https")]
    Scheme,
    /// No host, or a port that is none.
    #[error("its host or port is not valid")]
    Authority,
    /// `.` or `..` in the path: a client resolves them, and would leave the route.
    #[error("its path climbs with . or ..")]
    Climbs,
}

impl Address {
    /// Reads `text`; a relative path stands under `mount`.
    pub fn parse(text: &str, mount: &str) -> Result<Self, Fault> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Err(Fault::Missing);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)) {
            return Err(Fault::Characters);
        }
        let text = text.split('#').next().unwrap_or_default();
        let address = Self::split(text, mount)?;
        if climbs(&address.path) { Err(Fault::Climbs) } else { Ok(address) }
    }

    fn split(text: &str, mount: &str) -> Result<Self, Fault> {
        if let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?'])) {
            return Self::absolute(scheme, rest, false);
        }
        let path = if text.starts_with("//") {
            return Err(Fault::Scheme);
        } else if text.starts_with('/') {
            text.to_owned()
        } else if is_host_and_port(text) {
            // `localhost:9001`: an agent that forgot the scheme.
            return Self::absolute("http", text, true);
        } else if path_of(text).contains(':') {
            return Err(Fault::Scheme);
        } else {
            format!("{mount}/{text}")
        };
        Ok(Self { origin: None, path, relative: true })
    }

    fn absolute(scheme: &str, rest: &str, relative: bool) -> Result<Self, Fault> {
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        Ok(Self { origin: Some(origin(scheme, authority)?), path: path.to_owned(), relative })
    }
}

/// An origin in one spelling: lower case, the port written out, no credentials.
pub(super) fn origin(scheme: &str, authority: &str) -> Result<String, Fault> {
    let scheme = scheme.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return Err(Fault::Scheme),
    };
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    let colon = host_and_port.rfind(':').filter(|colon| !host_and_port[*colon..].contains(']'));
    let (host, port) = host_and_port.split_at(colon.unwrap_or(host_and_port.len()));
    let port: u16 = match port {
        "" | ":" => usual,
        digits => digits[1..].parse().map_err(|_| Fault::Authority)?,
    };
    let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    if host.is_empty() || (!bracketed && host.contains(['[', ']', ':'])) {
        return Err(Fault::Authority);
    }
    Ok(format!("{scheme}://{}:{port}", host.to_ascii_lowercase()))
}

fn is_host_and_port(text: &str) -> bool {
    let authority = text.split(['/', '?']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Without the query.
pub(super) fn path_of(path_and_query: &str) -> &str {
    path_and_query.split('?').next().unwrap_or_default()
}

/// Browsers and most libraries read `%2e` as a dot.
fn climbs(path_and_query: &str) -> bool {
    let dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    path_of(path_and_query).split('/').any(dots)
}

/// What follows `mount` in `path`, by whole segments: `/a` is under `/a`, and `/a/b`, but not `/ab`.
pub(super) fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    path.strip_prefix(mount).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}
