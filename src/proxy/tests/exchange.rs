//! One request and its reply: headers, framing, methods, versions.

use http::{Method, Request};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;
use crate::middleware::RequestBody;

// hop-by-hop
#[tokio::test]
async fn hop_by_hop_and_framing_end_at_the_proxy_both_ways() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    client
        .send(
            "POST /rpc?a=%20b HTTP/1.1\r\nhost: front.example\r\nconnection: keep-alive, x-hop\r\nx-hop: secret\r\nte: trailers\r\n\
             keep-alive: 5\r\nupgrade: websocket\r\nproxy-authorization: Basic eA==\r\nexpect: 100-continue\r\n\
             content-type: application/json\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        )
        .await;
    let mut upstream = Wire::accept(&listener).await;
    let head = upstream.head().await;
    assert!(head.starts_with("POST /rpc?a=%20b HTTP/1.1\r\n"), "{head}");
    assert_eq!(headers(&head, "host"), [listener.local_addr().unwrap().to_string()]);
    let gone =
        ["x-hop", "te", "keep-alive", "upgrade", "proxy-authorization", "connection", "expect", "content-length"];
    for name in gone {
        assert_eq!(header(&head, name), None, "{name}");
    }
    assert_eq!(headers(&head, "transfer-encoding"), ["chunked"]);
    assert_eq!(upstream.until("0\r\n\r\n").await, "2\r\n{}\r\n0\r\n\r\n");

    upstream
        .send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\
             connection: x-up-secret\r\nx-up-secret: 1\r\nkeep-alive: timeout=5\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        )
        .await;
    let head = client.until("HTTP/1.1 200 OK\r\n").await + &client.head().await;
    for name in ["x-up-secret", "keep-alive", "content-length"] {
        assert_eq!(header(&head, name), None, "{name}");
    }
    assert_eq!(client.until("0\r\n\r\n").await, "2\r\n{}\r\n0\r\n\r\n");
}

#[tokio::test]
async fn every_other_header_passes_once_and_none_is_invented() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].upstream.headers = vec![
        ("x-tenant".parse().unwrap(), "blue".parse().unwrap()),
        ("x-twice".parse().unwrap(), "1".parse().unwrap()),
        ("x-twice".parse().unwrap(), "2".parse().unwrap()),
    ];
    let running = serve_bare(&config).await;
    let mut client = running.connect().await;
    client
        .send(
            "POST / HTTP/1.1\r\nhost: front.example\r\na2a-version: 1.0\r\na2a-extensions: https://ex.test/e1,https://ex.test/e2\r\n\
             x-a2a-extensions: https://ex.test/e3\r\nauthorization: Bearer t\r\ntraceparent: 00-01-02-03\r\nx-multi: 1\r\nx-multi: 2\r\n\
             x-tenant: mine\r\na2a-multiturn-hop: 1\r\nx-forwarded-for: 10.0.0.1\r\ncontent-length: 2\r\n\r\n{}",
        )
        .await;
    let mut upstream = Wire::accept(&listener).await;
    let (head, body) = upstream.message().await;
    assert_eq!(body, "{}");
    let mut names: Vec<_> = head.lines().skip(1).filter_map(|line| line.split(':').next()).collect();
    names.sort_unstable();
    names.dedup();
    let expected = [
        "",
        "a2a-extensions",
        "a2a-version",
        "authorization",
        "content-length",
        "forwarded",
        "host",
        "traceparent",
        "x-a2a-extensions",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-multi",
        "x-tenant",
        "x-twice",
    ];
    assert_eq!(names, expected);
    assert_eq!(headers(&head, "x-multi"), ["1", "2"]);
    assert_eq!(headers(&head, "x-tenant"), ["blue"]);
    assert_eq!(headers(&head, "x-twice"), ["1", "2"]);
    assert_eq!(headers(&head, "a2a-extensions"), ["https://ex.test/e1,https://ex.test/e2"]);
    assert_eq!(headers(&head, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(headers(&head, "forwarded"), ["for=127.0.0.1;host=\"front.example\";proto=http"]);

    upstream
        .send(
            "HTTP/1.1 200 Fine\r\na2a-extensions: https://ex.test/e1\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ndate: then\r\n\
             server: agent\r\ncontent-length: 2\r\n\r\n{}",
        )
        .await;
    let (head, body) = client.message().await;
    assert_eq!(body, "{}");
    assert!(head.starts_with("HTTP/1.1 200 Fine\r\n"));
    assert_eq!(headers(&head, "set-cookie"), ["a=1", "b=2"]);
    assert_eq!(headers(&head, "a2a-extensions"), ["https://ex.test/e1"]);
    assert_eq!(headers(&head, "date"), ["then"]);
    assert_eq!(head.lines().count(), 8, "{head}");
}

/// What the layer does: bodies both ways become longer than their headers say.
#[tokio::test]
async fn a_changed_body_is_framed_by_its_own_length() {
    let (listener, url) = agent().await;
    let running = serve(&config(&url), |_, upstream| {
        let agent = RouteService::from_fn(move |request| {
            let mut upstream = upstream.clone();
            async move {
                let response = upstream.call(request.map(|_| RequestBody::whole("longer than before"))).await?;
                Ok(response.map(|_| ReplyBody::whole("input-required")))
            }
        });
        Mount { agent, card: None }
    })
    .await;
    let mut client = running.connect().await;
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
    client.send([request, request].concat()).await;
    for _ in 0..2 {
        let mut upstream = Wire::accept(&listener).await;
        let (head, body) = upstream.message().await;
        assert_eq!((headers(&head, "content-length"), &*body), (vec!["18"], "longer than before"));
        upstream.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\ncompleted").await;
        let (head, body) = client.message().await;
        assert_eq!((headers(&head, "content-length"), &*body), (vec!["14"], "input-required"));
    }
}

#[tokio::test]
async fn replies_without_a_body_neither_hang_nor_lose_their_length() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    let mut upstream = None;
    for (method, reply, length) in [
        ("HEAD", "200 OK\r\ncontent-length: 123", Some("123")),
        ("HEAD", "200 OK\r\ntransfer-encoding: chunked", None),
        ("OPTIONS", "204 No Content\r\naccess-control-allow-origin: *", None),
        ("GET", "304 Not Modified\r\netag: \"x\"\r\ncontent-length: 55", None),
        ("DELETE", "200 OK\r\ncontent-length: 0", Some("0")),
        ("POST", "204 No Content", None),
    ] {
        client.send(format!("{method} /x HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let upstream = match &mut upstream {
            Some(upstream) => upstream,
            none => none.insert(Wire::accept(&listener).await),
        };
        let asked = upstream.head().await;
        assert!(asked.starts_with(&format!("{method} /x ")), "{asked}");
        assert_eq!(header(&asked, "transfer-encoding"), None, "{asked}");
        upstream.send(format!("HTTP/1.1 {reply}\r\n\r\n")).await;
        let head = client.head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {}", &reply[..3])), "{head}");
        assert_eq!(header(&head, "content-length"), length, "{method} {reply}");
        if method == "OPTIONS" {
            assert_eq!(header(&head, "access-control-allow-origin"), Some("*"));
        }
    }
}

#[tokio::test]
async fn an_http2_client_reaches_an_http1_agent() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request =
        Request::post(format!("http://{}/rpc", running.address)).header("cookie", "a=1").header("cookie", "b=2");
    let answer = tokio::spawn(client.send_request(request.body(Full::<bytes::Bytes>::from("{}")).unwrap()));
    let mut upstream = Wire::accept(&listener).await;
    let (head, body) = upstream.message().await;
    assert!(head.starts_with("POST /rpc HTTP/1.1\r\n"));
    assert_eq!(headers(&head, "host"), [listener.local_addr().unwrap().to_string()]);
    assert_eq!(headers(&head, "x-forwarded-host"), [running.address.to_string()]);
    assert_eq!(headers(&head, "cookie"), ["a=1; b=2"]);
    assert_eq!(body, "{}");
    upstream
        .send("HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n")
        .await;
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
}

#[tokio::test]
async fn an_http10_agent_does_not_close_the_clients_connection() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut upstream = Wire::accept(&listener).await;
        upstream.head().await;
        upstream.send("HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
        drop(upstream);
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 200 OK") && header(&head, "transfer-encoding") == Some("chunked"), "{head}");
        assert!(client.until("\r\n0\r\n\r\n").await.contains("until the end"));
    }
}

#[tokio::test]
async fn a_redirect_leads_back_to_the_proxy() {
    let (listener, url) = agent().await;
    let mut config = config(&format!("{url}/base"));
    config.routes[0].prefix = "/ada".to_owned();
    let running = serve_bare(&config).await;
    let mut client = running.connect().await;
    client.send("GET /ada/.well-known/agent.json HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut upstream = Wire::accept(&listener).await;
    assert!(upstream.head().await.starts_with("GET /base/.well-known/agent.json HTTP/1.1\r\n"));
    let location = format!("{url}/base/.well-known/agent-card.json?v=1");
    upstream.send(format!("HTTP/1.1 307 Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")).await;
    let head = client.head().await;
    let expected = format!("http://{}/ada/.well-known/agent-card.json?v=1", running.address);
    assert_eq!(headers(&head, "location"), [expected]);
}

#[tokio::test]
async fn the_upstream_is_a_service_of_its_own() {
    let (listener, url) = agent().await;
    let mut upstream = an_upstream(&route(&url));
    let mut request = Request::new(RequestBody::untouched(Empty::<bytes::Bytes>::new()));
    *request.method_mut() = Method::GET;
    let answer = tokio::spawn(upstream.call(request));
    let mut wire = Wire::accept(&listener).await;
    assert_eq!(header(&wire.head().await, "x-forwarded-for"), None);
    wire.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!(answer.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes(), "ok");
}
