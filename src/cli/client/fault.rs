//! What can go wrong between the command line and an agent, in words that a person can act on.

use std::error::Error;
use std::io;
use std::time::Duration;

use ::http::{StatusCode, Uri};
use hyper_util::client::legacy;

use super::http::Received;

/// How much of an answer that is not understood is shown.
const EXCERPT: usize = 200;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// What was typed cannot be used.
    #[error("{0}")]
    Usage(String),
    /// Nobody answers, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody answers, but not as an A2A agent.
    #[error("{0}")]
    NotA2a(String),
    /// The agent, or the proxy in front of it, says no.
    #[error("the agent answered with an error: {message} ({code})")]
    Refused {
        /// The JSON-RPC code.
        code: i64,
        /// The error's own words.
        message: String,
    },
}

impl ClientError {
    /// The exit code of a program that ends with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { .. } | Self::NotA2a(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

/// Nobody answered within `limit`.
pub(super) fn too_slow(url: &Uri, limit: Duration) -> ClientError {
    ClientError::Unreachable(format!("no answer from {url} within {}", humantime::format_duration(limit)))
}

/// The answer is longer than what is read of one.
pub(super) fn too_long(url: &Uri, limit: usize) -> ClientError {
    ClientError::NotA2a(format!("the answer from {url} is longer than {limit} bytes, and was not read"))
}

/// The answer broke off.
pub(super) fn cut(url: &Uri, error: &(dyn Error + 'static)) -> ClientError {
    ClientError::Unreachable(format!("the answer from {url} broke off: {}", chain(error)))
}

/// There was no connection, or none that lasted until an answer.
pub(super) fn unreachable(url: &Uri, error: &legacy::Error) -> ClientError {
    let place = url.authority().map_or("the agent", |authority| authority.as_str());
    let host = url.host().unwrap_or_default();
    ClientError::Unreachable(match cause(error) {
        Cause::Refused => format!("nothing listens at {place}: is the agent running?"),
        Cause::TimedOut => format!("{place} does not take connections: is it the right host and port?"),
        Cause::Untrusted(why) => format!(
            "the certificate of {place} is not trusted ({why}); SSL_CERT_FILE can name a file with its authority"
        ),
        Cause::NotTls(why) => format!("{place} does not speak TLS ({why}): is it http:// instead of https://?"),
        // The resolver's own errors have no type: a name that is unknown is all that is left without an address.
        Cause::Other if chain(error).contains("dns error") => format!("there is no host called {host}"),
        Cause::Other if error.is_connect() => format!("cannot connect to {place}: {}", chain(error)),
        Cause::Other => {
            let hint = if url.scheme_str() == Some("http") { " (does it want https://?)" } else { "" };
            format!("{place} closed the connection without an answer{hint}: {}", chain(error))
        }
    })
}

enum Cause {
    Refused,
    TimedOut,
    Untrusted(String),
    NotTls(String),
    Other,
}

fn cause(error: &(dyn Error + 'static)) -> Cause {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Cause::Refused,
                io::ErrorKind::TimedOut => return Cause::TimedOut,
                _ => {}
            }
            match of_tls(io) {
                Some(rustls::Error::InvalidCertificate(why)) => return Cause::Untrusted(why.to_string()),
                Some(other) => return Cause::NotTls(other.to_string()),
                None => {}
            }
        }
        next = error.source();
    }
    Cause::Other
}

/// The error of TLS inside one of I/O, which does not name it as its source, however often it was wrapped.
fn of_tls(io: &io::Error) -> Option<&rustls::Error> {
    let inner = io.get_ref()?;
    inner.downcast_ref().or_else(|| of_tls(inner.downcast_ref()?))
}

/// An error with its causes, each said once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = error.source();
    }
    text
}

/// What stands where the card should.
pub(super) fn no_card(received: &Received, url: &Uri) -> ClientError {
    let hint = "is it an agent's base URL? The URL of the card itself will do too";
    match received.status {
        StatusCode::NOT_FOUND => ClientError::NotA2a(format!("there is no agent card at {url}: {hint}")),
        _ => match not_json(received, url) {
            ClientError::NotA2a(why) if received.status.is_success() => ClientError::NotA2a(format!("{why}: {hint}")),
            other => other,
        },
    }
}

/// An answer that is no JSON-RPC.
pub(super) fn not_json(received: &Received, url: &Uri) -> ClientError {
    let Received { status, location, .. } = received;
    ClientError::NotA2a(match (status.as_u16(), location) {
        (401 | 403, _) => {
            format!("{url} wants a credential ({status}): give it with --header 'Authorization: Bearer …'")
        }
        (300..=399, Some(place)) => format!("{url} points to {place}, which is not followed: is that the agent's URL?"),
        _ if received.is_html() => format!("{url} answers with a web page ({status}) and not with JSON"),
        _ => format!("{url} answers with something that is no A2A ({status}): {}", excerpt(&received.body)),
    })
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    match text.char_indices().nth(EXCERPT) {
        _ if text.is_empty() => "nothing".to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
