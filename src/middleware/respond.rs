//! Answers to the client.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::ReplyBody;
use crate::a2a::{Binding, Dialect};
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

/// An answer of our own with `result` (JSON) in it: one of `binding`, or the one event of a stream where the call streams, since half of the
/// clients do not read JSON there.
pub(super) fn own(binding: &Binding, result: &str, streams: bool) -> Response<ReplyBody> {
    let json = binding.wrap(result);
    if streams { stream(ReplyBody::whole(sse_event(&json))) } else { json_of(binding, json, 200) }
}

/// JSON, of the type that the binding has for it.
pub(super) fn json_of(binding: &Binding, json: String, status: u16) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::whole(json));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let content_type = match binding {
        Binding::HttpJson { dialect: Dialect::V10 } => "application/a2a+json",
        Binding::HttpJson { .. } | Binding::JsonRpc { .. } => "application/json",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
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
    let body = refusal.body(binding);
    match binding {
        // What was not read is answered in plain HTTP too: nothing is known of the call.
        Binding::JsonRpc { .. } if streams && refusal.status == 200 => stream(ReplyBody::whole(sse_event(&body))),
        Binding::JsonRpc { .. } => json_of(binding, body, refusal.status),
        Binding::HttpJson { dialect } => {
            let mut response = json_of(binding, body, refusal.http_status(*dialect));
            if refusal.is_for_now() {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    }
}

/// A JSON answer as the one event of a stream.
pub(super) fn as_stream(response: Response<ReplyBody>) -> Response<ReplyBody> {
    let (mut head, body) = response.into_parts();
    drop_framing(&mut head.headers);
    let event = stream(ReplyBody::empty());
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
