//! What the configuration means: every value checked, every default filled in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

use crate::conversation::policy::Policy;
use crate::conversation::principal::RouteId;

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients are served.
    pub listener: Listener,
    /// The agents, each under its path prefix; at least one.
    pub routes: Vec<Route>,
    /// What is kept.
    pub store: Store,
    /// What is logged.
    pub log: Log,
}

/// Where clients are served.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The address.
    pub address: SocketAddr,
    /// The base at which clients reach the proxy, without a slash at the end; `None`: the listener's own address.
    pub public_url: Option<Uri>,
    /// Where `/livez` and `/readyz` stand (`/` in front of them by default); `None`: nowhere.
    pub health_path: Option<String>,
    /// Connections at most; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// After SIGTERM, how long running requests may take to finish.
    pub drain: Duration,
}

/// One agent as the proxy offers it.
#[derive(Clone, Debug)]
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
}

/// The agent behind a route.
#[derive(Clone, Debug)]
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

/// Who is calling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The credential in `Authorization`, as a keyed hash. Requests without one: one anonymous principal where the listener is loopback,
    /// else forwarded without conversation.
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

/// What is kept, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Contexts at most; beyond that the longest unused one without a turn in flight goes.
    pub contexts: usize,
    /// Bytes of all transcripts at most; beyond that likewise.
    pub bytes: usize,
    /// Bytes of one context's transcript at most; beyond that its oldest turns go.
    pub context_bytes: usize,
    /// How long a context is kept that nobody uses.
    pub ttl: Duration,
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

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text where standard error is a terminal, else JSON.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}
