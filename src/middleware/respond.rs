//! Answers to the client.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::ReplyBody;
use crate::a2a::Binding;
use crate::exchange::{Foreign, Refusal, sse_event};

/// Headers that speak of a body's bytes, and are wrong once these are others.
const OF_BYTES: [HeaderName; 9] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONTENT_ENCODING,
    header::ETAG,
    header::ACCEPT_RANGES,
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("content-md5"),
];

pub(super) fn drop_framing(headers: &mut HeaderMap) {
    for name in OF_BYTES {
        headers.remove(name);
    }
}

/// The agent's answer with another body.
pub(super) fn rewritten(mut head: http::response::Parts, body: String) -> Response<ReplyBody> {
    drop_framing(&mut head.headers);
    Response::from_parts(head, ReplyBody::whole(body))
}

/// The agent's answer as it came.
pub(super) fn untouched(mut head: http::response::Parts, body: Bytes, decoded: bool) -> Response<ReplyBody> {
    if decoded {
        drop_framing(&mut head.headers);
    } else {
        // The body goes out as one piece of known length, however it came.
        head.headers.remove(header::TRANSFER_ENCODING);
    }
    Response::from_parts(head, ReplyBody::whole(body))
}

/// An answer of our own: JSON, or the one event of a stream where the call streams, since half of the clients do not read JSON there.
pub(super) fn own(json: &str, streams: bool, status: u16) -> Response<ReplyBody> {
    let body = if streams { sse_event(json) } else { json.to_owned() };
    let body = ReplyBody::whole(body);
    let mut response = if streams { stream(body) } else { Response::new(body) };
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if !streams {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// A stream of our own.
pub(super) fn stream(body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// A refusal of a request in `binding`.
pub(super) fn refused(refusal: &Refusal, binding: &Binding, streams: bool) -> Response<ReplyBody> {
    // What was not read is answered in plain HTTP too: nothing is known of the call.
    own(&refusal.body(binding), streams && refusal.status == 200, refusal.status)
}

/// A JSON answer as the one event of a stream.
pub(super) fn as_stream(response: Response<ReplyBody>) -> Response<ReplyBody> {
    let (mut head, body) = response.into_parts();
    drop_framing(&mut head.headers);
    let event = own("", true, 200);
    for (name, value) in event.headers() {
        head.headers.insert(name, value.clone());
    }
    Response::from_parts(head, body.framed(b"data: ", b"\n\n"))
}

/// The refusal of a binding that is not served.
pub(super) fn foreign(binding: Foreign) -> Response<ReplyBody> {
    let (status, content_type, body) = binding.refusal();
    let mut response = Response::new(ReplyBody::whole(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_IMPLEMENTED);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if binding == Foreign::Grpc {
        // 12: UNIMPLEMENTED.
        headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static("12"));
        headers.insert(HeaderName::from_static("grpc-message"), HeaderValue::from_static("gRPC is not served here"));
    }
    response
}
