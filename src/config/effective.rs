//! What the configuration means: every value checked, every default filled in. The defaults of the layer's own settings are
//! [`Policy::default`]; all others are here, and nowhere else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use serde::Deserialize;

use super::store::Store;
use crate::conversation::policy::{Mode, Policy};
use crate::conversation::principal::RouteId;
use crate::push::Webhooks;

/// Where clients are served when nothing else is said.
pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where clients are served.
    pub listener: Listener,
    /// The agents, each under its path prefix; at least one.
    pub routes: Vec<Route>,
    /// What is kept.
    pub store: Store,
    /// What is logged.
    pub log: Log,
    /// The proxy itself, as its agents see it.
    pub proxy: Proxy,
    /// How notifications are delivered.
    pub push: Delivery,
}

impl Config {
    /// The defaults for one agent, served at the root: what `serve` does without a file. [`Config::findings`] says what is wrong with the
    /// two.
    pub fn quick(listen: SocketAddr, upstream: Uri) -> Self {
        let listener = Listener { address: listen, ..Listener::default() };
        Self {
            listener,
            routes: vec![Route::new(upstream)],
            store: Store::default(),
            log: Log::default(),
            proxy: Proxy::default(),
            push: Delivery::default(),
        }
    }

    /// The base at which agents reach the proxy (semantics 9), without a slash at the end: as configured; else the listener's address, where
    /// that is loopback, so that an agent beside it is meant; else the public URL. `local` is where it listens, `public` how clients reach it.
    pub fn agent_base(&self, local: SocketAddr, public: &Uri) -> String {
        let base = match &self.proxy.agent_url {
            Some(url) => url.to_string(),
            None if local.ip().to_canonical().is_loopback() => format!("http://{local}"),
            None => public.to_string(),
        };
        base.trim_end_matches('/').to_owned()
    }

    /// Whether agents can be told where they reach the proxy.
    pub(super) fn knows_agent_url(&self) -> bool {
        let listener = &self.listener;
        self.proxy.agent_url.is_some() || listener.public_url.is_some() || !listener.address.ip().is_unspecified()
    }
}

/// Where clients are served.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The address.
    pub address: SocketAddr,
    /// The base at which clients reach the proxy, typed without a slash at the end (but a [`Uri`] without a path says `/`); `None`: the
    /// listener's own address.
    pub public_url: Option<Uri>,
    /// The path prefix of `/livez` and `/readyz`, without a slash at the end (so that of the root, the default, is empty); `None`: they
    /// are not served.
    pub health_path: Option<String>,
    /// Connections at most; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// After SIGTERM, how long running requests may take to finish.
    pub drain: Duration,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            address: ADDRESS,
            public_url: None,
            health_path: Some(String::new()),
            connections: 4096,
            header_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}

/// The proxy itself, as its agents see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// The base at which they reach it; `None`: see [`Config::agent_base`].
    pub agent_url: Option<Uri>,
}

/// How notifications are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where webhooks may be, beside public addresses over TLS.
    pub webhooks: Webhooks,
    /// A PEM file with the authorities that a webhook's certificate may come from; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Notifications that wait at most; further ones are lost.
    pub outbox: usize,
    /// How long one attempt may take, connecting among it.
    pub timeout: Duration,
    /// How long a notification is tried.
    pub give_up: Duration,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            webhooks: Webhooks::default(),
            ca: None,
            outbox: 10_000,
            timeout: Duration::from_secs(10),
            give_up: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What becomes of push notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Push {
    /// The agent pushes to the proxy, the proxy to the clients' webhooks.
    Relay,
    /// There are none.
    Off,
}

/// One agent as the proxy offers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its name: in logs, and in the key of every conversation.
    pub id: RouteId,
    /// The path prefix under which it is served, starting with a slash, without one at the end (so that of the root is empty).
    pub prefix: String,
    /// The agent behind it.
    pub upstream: Upstream,
    /// What the layer does.
    pub policy: Policy,
    /// Who is calling.
    pub identity: Identity,
    /// What browsers from elsewhere may do; `None`: what the agent itself answers.
    pub cors: Option<Cors>,
    /// What becomes of push notifications; `None`: relayed, where the agent can be told how to reach the proxy.
    pub push: Option<Push>,
    /// How long a conversation is kept that nobody uses; `None`: the store's.
    pub ttl: Option<Duration>,
}

impl Route {
    /// The defaults, at the root.
    pub fn new(upstream: Uri) -> Self {
        Self {
            id: RouteId::default(),
            prefix: String::new(),
            upstream: Upstream::new(upstream),
            policy: Policy::default(),
            identity: Identity::default(),
            cors: None,
            push: None,
            ttl: None,
        }
    }

    /// Whether push notifications are relayed. Where nothing is changed, nothing is.
    pub fn relays_push(&self) -> bool {
        self.push != Some(Push::Off) && self.policy.mode == Mode::Converse
    }
}

/// The agent behind a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Its base URL or the URL of its card, `http` or `https`.
    pub url: Uri,
    /// The path of its JSON-RPC interface, where the card's is not to be believed.
    pub path: Option<String>,
    /// A PEM file with the authorities that its certificate may come from; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a connection is kept for the next request; shorter than the agent keeps it (5 s with uvicorn and Node).
    pub pool_idle: Duration,
    /// Connections at most; further requests wait.
    pub connections: usize,
    /// Headers that are set on every forwarded request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Upstream {
    /// The defaults.
    pub fn new(url: Uri) -> Self {
        Self {
            url,
            path: None,
            ca: None,
            connect_timeout: Duration::from_secs(5),
            pool_idle: Duration::from_secs(4),
            connections: 1024,
            headers: Vec::new(),
        }
    }
}

/// Who is calling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// The credential in `Authorization`, as a keyed hash. Requests without one: one anonymous principal where the listener is loopback,
    /// else forwarded without conversation.
    #[default]
    Authorization,
    /// The value of a header that a trusted proxy in front sets.
    Header(HeaderName),
    /// Everybody is the same principal.
    Anonymous,
}

/// What browsers from elsewhere may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins that may call, `*` for any.
    pub origins: Vec<String>,
    /// Whether they may send credentials; not with `*`.
    pub credentials: bool,
    /// How long a preflight's answer holds.
    pub max_age: Duration,
}

impl Default for Cors {
    fn default() -> Self {
        Self { origins: Vec::new(), credentials: false, max_age: Duration::from_secs(600) }
    }
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// A filter as `tracing` has it: `info`, `a2a_multiturn=debug,info`.
    pub filter: String,
    /// How lines look.
    pub format: LogFormat,
    /// Whether bodies are logged: everything that users and agents say.
    pub bodies: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Auto, bodies: false }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text where standard error is a terminal, else JSON.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}
