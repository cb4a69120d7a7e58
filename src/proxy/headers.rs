//! Headers that end at this hop, and those that tell the agent of the hop before it. Everything else is not ours and passes.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri, Version};

/// Where the request came from: put into its extensions by the listener.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Tells a proxy behind a proxy that the conversation is already cared for.
pub const HOP: HeaderName = HeaderName::from_static("a2a-multiturn-hop");

/// RFC 9110 section 7.6.1. TE goes as a whole, `trailers` too: whether the next hop is HTTP/1.1, where it would have to be named in
/// Connection, is known only once a connection is picked; and nothing in A2A's JSON bindings has trailers.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What a client could use to pass for another. Not all of `x-forwarded-*`: X-Forwarded-User and its like are somebody's identity header.
const FORWARDED: [HeaderName; 8] = [
    header::FORWARDED,
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-real-ip"),
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Makes a client's request fit to be looked at: what ends at this hop is gone, the forwarding headers are the proxy's own. `proto` is the
/// scheme under which clients know the proxy: behind a proxy that ends TLS an agent would otherwise redirect to https for ever.
///
/// This comes before anything else sets a header: a client could name that header in Connection, and have it removed later on.
pub fn arrive<B>(request: &mut Request<B>, proto: &str) {
    hop_by_hop(request.headers_mut());
    let host = host(request.headers(), request.uri());
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip().to_canonical());
    let version = request.version();
    let headers = request.headers_mut();
    headers.remove(HOP);
    for name in FORWARDED {
        headers.remove(name);
    }
    if version == Version::HTTP_2 {
        join_cookies(headers);
    }
    forward(headers, peer, host.as_ref(), proto);
}

/// Removes what is about one connection and not about the message.
pub fn hop_by_hop(headers: &mut HeaderMap) {
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// The host that the client meant; HTTP/2 says it in the URI.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<HeaderValue> {
    let of_uri = || uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    headers.get(header::HOST).cloned().or_else(of_uri)
}

/// HTTP/2 may split the cookies (RFC 9113 section 8.2.3), HTTP/1.1 must not.
fn join_cookies(headers: &mut HeaderMap) {
    let Entry::Occupied(mut cookies) = headers.entry(header::COOKIE) else { return };
    if cookies.iter().nth(1).is_none() {
        return;
    }
    let joined = cookies.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        cookies.insert(joined);
    }
}

fn forward(headers: &mut HeaderMap, peer: Option<IpAddr>, host: Option<&HeaderValue>, proto: &str) {
    let mut insert = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    if let Some(peer) = peer {
        insert(X_FORWARDED_FOR, &peer.to_string());
    }
    insert(X_FORWARDED_PROTO, proto);
    let host = host.and_then(|host| host.to_str().ok()).filter(|host| !host.contains(['"', '\\']));
    if let Some(host) = host {
        insert(X_FORWARDED_HOST, host);
    }
    insert(header::FORWARDED, &forwarded(peer, host, proto));
}

/// RFC 7239 section 4.
fn forwarded(peer: Option<IpAddr>, host: Option<&str>, proto: &str) -> String {
    let peer = match peer {
        Some(IpAddr::V4(peer)) => format!("for={peer};"),
        Some(IpAddr::V6(peer)) => format!("for=\"[{peer}]\";"),
        None => String::new(),
    };
    let host = host.map(|host| format!("host=\"{host}\";")).unwrap_or_default();
    format!("{peer}{host}proto={proto}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(Peer("[::ffff:192.0.2.7]:4711".parse().unwrap()));
        request
    }

    #[test]
    fn what_is_about_the_connection_goes() {
        let mut request = request(&[
            ("connection", "keep-alive, X-Hop"),
            ("connection", "x-other ,, bad name"),
            ("x-hop", "1"),
            ("x-other", "2"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("x-kept", "3"),
        ]);
        hop_by_hop(request.headers_mut());
        assert_eq!(request.headers().keys().collect::<Vec<_>>(), ["x-kept"]);
    }

    #[test]
    fn a_client_cannot_forge_where_it_comes_from() {
        let mut request = request(&[
            ("host", "agents.example"),
            ("forwarded", "for=evil"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-real-ip", "10.0.0.3"),
            ("x-forwarded-user", "ada"),
            ("a2a-multiturn-hop", "1"),
            ("connection", "x-forwarded-for"),
        ]);
        arrive(&mut request, "https");
        let seen = |name: &str| request.headers().get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(seen("x-forwarded-for"), ["192.0.2.7"]);
        assert_eq!(seen("x-forwarded-proto"), ["https"]);
        assert_eq!(seen("x-forwarded-host"), ["agents.example"]);
        assert_eq!(seen("forwarded"), ["for=192.0.2.7;host=\"agents.example\";proto=https"]);
        assert_eq!(seen("x-forwarded-user"), ["ada"]);
        assert!(seen("x-real-ip").is_empty() && seen("a2a-multiturn-hop").is_empty());
    }

    #[test]
    fn a_host_that_would_break_out_of_its_quotes_is_not_passed_on() {
        let mut request = request(&[("host", "a\";for=\"10.0.0.1")]);
        arrive(&mut request, "http");
        assert_eq!(request.headers()["forwarded"], "for=192.0.2.7;proto=http");
        assert!(!request.headers().contains_key("x-forwarded-host"));
    }

    #[test]
    fn cookies_that_http2_split_are_joined() {
        let mut request = request(&[("cookie", "a=1"), ("cookie", "b=2")]);
        *request.version_mut() = Version::HTTP_2;
        arrive(&mut request, "http");
        assert_eq!(request.headers().get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }
}
