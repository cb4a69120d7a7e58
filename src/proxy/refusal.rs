//! The few answers that are the proxy's own: where no route serves a path, and where a route's service failed without an answer.
//!
//! They say whose fault it is, and nothing of where the agent is.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::upstream::UpstreamError;
use crate::middleware::{BoxError, ReplyBody};

/// No route serves this path.
pub fn no_route() -> Response<ReplyBody> {
    refusal(StatusCode::NOT_FOUND, "NO_ROUTE", "no agent is served at this path")
}

/// The path may lead out of the agent's base path.
pub fn path() -> Response<ReplyBody> {
    refusal(StatusCode::BAD_REQUEST, "BAD_PATH", "the path must not contain '..' segments")
}

/// The proxy builds no tunnels.
pub fn tunnel() -> Response<ReplyBody> {
    refusal(StatusCode::NOT_IMPLEMENTED, "NO_TUNNEL", "CONNECT is not supported")
}

/// What a client gets when a route's service fails: the last resort, since the layer answers in the client's own binding.
pub fn failure(error: &BoxError) -> Response<ReplyBody> {
    match error.downcast_ref::<UpstreamError>() {
        Some(UpstreamError::Timeout(..)) => {
            refusal(StatusCode::GATEWAY_TIMEOUT, "UPSTREAM_TIMEOUT", "the agent took too long")
        }
        Some(UpstreamError::Malformed(_)) => {
            refusal(StatusCode::BAD_GATEWAY, "UPSTREAM_MALFORMED", "the agent's answer is not HTTP")
        }
        Some(UpstreamError::Request(_)) => refusal(StatusCode::BAD_REQUEST, "REQUEST_CUT", "the request ended early"),
        Some(_) => refusal(StatusCode::BAD_GATEWAY, "UPSTREAM_UNREACHABLE", "the agent could not be reached"),
        None => refusal(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "the proxy failed"),
    }
}

fn refusal(status: StatusCode, reason: &str, message: &str) -> Response<ReplyBody> {
    let code = status.as_u16();
    let body = format!(r#"{{"error":{{"code":{code},"reason":"{reason}","message":"{message}"}}}}"#);
    let mut response = Response::new(ReplyBody::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
