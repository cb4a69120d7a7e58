//! What can go wrong on the way to the agent and back.

use std::error::Error;
use std::fmt;
use std::io;

use hyper_util::client::legacy;

use super::body::RequestCut;
use super::connect::ConnectTimeout;
use crate::middleware::BoxError;

/// Why there is no reply, or no more of it. The reply's body fails with it too, so that `downcast_ref` finds it in either place.
///
/// Who must not name this type knows a [`Timeout`](Self::Timeout) by an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut) among its
/// sources, and [`Malformed`](Self::Malformed) by one of kind [`InvalidData`](io::ErrorKind::InvalidData).
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// There is no such host, no connection, no trust in its certificate; or the connection closed before an answer.
    #[error("the agent could not be reached")]
    Unreachable(#[source] BoxError),
    /// It took longer than it may.
    #[error("the agent took too long: {0}")]
    Timeout(Phase, #[source] io::Error),
    /// What it sent is not HTTP.
    #[error("the agent's answer cannot be read")]
    Malformed(#[source] io::Error),
    /// The reply ended before its end.
    #[error("the agent's reply was cut off")]
    Cut(#[source] BoxError),
    /// The fault is not the agent's: the request's own body failed, or its URI cannot be sent.
    #[error("the request could not be sent whole")]
    Request(#[source] BoxError),
}

/// What the agent was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A connection, TLS included.
    Connect,
    /// The reply's head.
    FirstByte,
    /// More of the reply's body.
    Idle,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::FirstByte => "no answer",
            Self::Idle => "its reply stalled",
        })
    }
}

impl UpstreamError {
    pub(super) fn timeout(phase: Phase) -> Self {
        Self::Timeout(phase, io::ErrorKind::TimedOut.into())
    }

    /// What the agent sent is not HTTP.
    pub(super) fn malformed(cause: impl Into<BoxError>) -> Self {
        Self::Malformed(io::Error::new(io::ErrorKind::InvalidData, cause))
    }

    /// The client's error before there was a reply.
    pub(super) fn of_client(error: legacy::Error) -> Self {
        if find::<ConnectTimeout>(&error).is_some() {
            return Self::timeout(Phase::Connect);
        }
        if find::<RequestCut>(&error).is_some() {
            return Self::Request(error.into());
        }
        match find::<hyper::Error>(&error) {
            Some(cause) if cause.is_parse() => Self::malformed(error),
            _ => Self::Unreachable(error.into()),
        }
    }

    /// The error of a reply's body.
    pub(super) fn of_body(error: hyper::Error) -> Self {
        if error.is_parse() { Self::malformed(error) } else { Self::Cut(error.into()) }
    }
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    error.downcast_ref().or_else(|| find(error.source()?))
}
