//! Sockets: the listener and its routes, the upstream and its connections.
//!
//! A request goes through [`listener`] (connections), [`App`] (health, [`route`], [`headers`], [`identity`], [`cors`]), the service that the
//! caller put on the route, and [`upstream`]. Nothing here reads a body.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use http::Uri;

use crate::config::{Config, Route};
use crate::conversation::policy::OnDisconnect;

pub mod card;
pub mod cors;
pub mod drain;
pub mod gateway;
pub mod headers;
pub mod health;
pub mod identity;
pub mod inflow;
pub mod listener;
pub mod push;
pub mod refusal;
pub mod route;
pub mod service;
pub mod store;
pub mod upstream;

mod app;

pub use app::{App, Mount};
pub use drain::DrainOutcome;
pub use gateway::Gateway;
pub use service::RouteService;
pub use upstream::Upstream;

#[cfg(test)]
mod tests;

/// Why the proxy could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The folder for conversations cannot be used.
    #[cfg(feature = "disk")]
    #[error("conversations cannot be kept")]
    Disk(#[source] crate::store::OpenError),
    /// The environment names no folder for conversations.
    #[error(
        "neither STATE_DIRECTORY nor XDG_STATE_HOME nor HOME says where conversations may be kept: name a folder with --store disk:PATH, or keep them in memory with --store memory"
    )]
    NoStateFolder,
    /// A kind of store that was not compiled in.
    #[error("this program was built without the store {0}: keep conversations in memory with --store memory")]
    NoSuchStore(String),
    /// The listener's address is not to be had.
    #[error("cannot listen on {0}")]
    Bind(SocketAddr, #[source] io::Error),
    /// The file with a route's certificate authorities cannot be read, or holds none.
    #[error("cannot read certificate authorities from {0}")]
    Authorities(PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system has no certificate authorities, and the route names none.
    #[error("the system has no certificate authorities; name a file with them")]
    NoAuthorities,
    /// The TLS library refuses its own settings.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// An upstream's URL lacks scheme or host.
    #[error("{0} is not an http or https URL with a host")]
    Url(Uri),
    /// An origin that is not the value of a header.
    #[error("{0:?} is not an origin")]
    Origin(String),
    /// Browsers refuse this combination, and rightly so.
    #[error("credentials cannot be allowed to every origin")]
    CredentialsForAll,
    /// The Redis or Valkey that is to keep conversations cannot be used.
    #[cfg(feature = "redis")]
    #[error("cannot keep conversations in Redis")]
    Redis(#[from] crate::store::redis::ConnectError),
}

/// An error with what stands behind it, each said once.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// The proxy, listening but not yet serving.
#[derive(Debug)]
pub struct Proxy {
    server: listener::Server,
    app: App,
    public: Uri,
}

impl Proxy {
    /// Binds the listener and puts every route behind it. `mount` gets each route with its upstream and says what serves it: the layer around
    /// that upstream, and whatever answers for the agent card. `key` is the store's own, with which credentials are hashed.
    pub async fn bind(
        config: &Config,
        key: &[u8; 32],
        mut mount: impl FnMut(&Route, Upstream) -> Mount,
    ) -> Result<Self, SetupError> {
        let listener = &config.listener;
        let server = listener::Server::bind(listener).await.map_err(|e| SetupError::Bind(listener.address, e))?;
        let aborts = |route: &Route| route.policy.on_disconnect == OnDisconnect::Abort;
        let server = server.watching_clients(config.routes.iter().any(aborts));
        let public = listener.public_url.clone().unwrap_or_else(|| server.url());
        let mut mounts = Vec::with_capacity(config.routes.len());
        for route in &config.routes {
            mounts.push((route, mount(route, Upstream::new(route, &public)?)));
        }
        let app = App::new(listener, &public, key, mounts)?;
        Ok(Self { server, app, public })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The base at which clients reach it.
    pub fn public_url(&self) -> &Uri {
        &self.public
    }

    /// Serves until `shutdown`, then lets running requests finish. When they were waited for long enough, `conclude` is called to end them with
    /// an answer; `at_once` cuts them without.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
        conclude: impl FnOnce(),
    ) -> DrainOutcome {
        let health = self.app.health().clone();
        let shutdown = async move {
            shutdown.await;
            health.drain();
        };
        self.server.serve(self.app, shutdown, at_once, conclude).await
    }
}
