//! Sockets: the listener and its routes, the upstream and its connections.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use http::Uri;

pub mod cors;
pub mod headers;
pub mod health;
pub mod identity;
pub mod route;
pub mod upstream;

pub use upstream::Upstream;

/// Why the proxy could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
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
}
