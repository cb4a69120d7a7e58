//! What is too large, too slow or broken: the client is told in its own binding, and the process goes on.

use serde_json::{Value, json};
use tokio::sync::watch;

use super::agent::{Agent, Answer, saying};
use super::process::Proxy;
use super::wire::{Message, Request};
use crate::support::send_03;

fn hello(context: &str) -> Value {
    send_03("hello", json!({ "contextId": context }))
}

/// An agent that answers its first send so, and any further one well.
fn once(first: impl Fn() -> Answer + Send + Sync + 'static) -> Agent {
    let (script, spent) = (saying(|_| "Noted.".into()), std::sync::atomic::AtomicBool::new(false));
    Agent::start(move |request: Message| {
        let is_first = request.method() == "POST" && !spent.swap(true, std::sync::atomic::Ordering::Relaxed);
        let (first, rest) = (is_first.then(&first), script(request));
        async move {
            match first {
                Some(first) => first,
                None => rest.await,
            }
        }
    })
}

/// The reason in an error of the proxy's own, which carries the request's id.
fn reason(answer: &Message) -> String {
    let error = answer.json();
    assert_eq!((answer.status(), error["id"].as_i64(), error["error"]["code"].as_i64()), (200, Some(1), Some(-32603)));
    assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    error["error"]["data"][0]["reason"].as_str().unwrap().to_owned()
}

async fn goes_on(proxy: &Proxy, context: &str) {
    let answer = proxy.call("/", &hello(context)).await;
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
}

#[tokio::test]
async fn a_request_over_the_limit_is_not_read() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::with(&format!(
        "[upstream]\nurl = '{}'\n[limits]\nrequest_bytes = '64KiB'\n[history]\nmax_bytes = '32KiB'\n",
        agent.url()
    ))
    .await;
    let large = send_03(&"x".repeat(70_000), json!({})).to_string();
    let chunked = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let known = format!("content-length: {}\r\n\r\n{large}", large.len());
    for rest in [known, chunked] {
        let mut wire = proxy.connect().await;
        wire.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{rest}")).await;
        let refused = wire.answer("POST").await;
        let error = refused.json();
        assert_eq!((refused.status(), &error["id"], &error["error"]["code"]), (413, &Value::Null, &json!(-32602)));
        assert!(error["error"]["message"].as_str().unwrap().contains("65536"), "{error}");
    }
    assert!(agent.seen().is_empty());
    goes_on(&proxy, "c").await;
}

#[tokio::test]
async fn a_client_that_sends_far_too_much_still_reads_why() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy =
        Proxy::with(&format!("[upstream]\nurl = '{}'\n[limits]\nrequest_bytes = '256KiB'\n", agent.url())).await;
    for _ in 0..10 {
        let mut wire = proxy.connect().await;
        let request = Request::call("/", &send_03(&"x".repeat(4 << 20), json!({})));
        // As most clients do: all of it, and only then the answer.
        wire.send(request.bytes()).await;
        assert_eq!(wire.answer("POST").await.status(), 413);
    }
}

#[tokio::test]
async fn a_message_that_fits_only_without_its_history_drops_the_history() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::with(&format!(
        "[upstream]\nurl = '{}'\n[limits]\nrequest_bytes = '8KiB'\n[history]\nmax_bytes = '4KiB'\nturn_bytes = '4KiB'\n",
        agent.url()
    ))
    .await;
    let send = |size: usize| send_03(&"x".repeat(size), json!({ "contextId": "c" }));
    for size in [3000, 7000, 7000] {
        let answer = proxy.call("/", &send(size)).await;
        assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
        assert!(agent.last().body.len() <= 8192, "{}", agent.last().body.len());
    }
}

#[tokio::test]
async fn a_reply_over_the_limit_is_never_passed_on() {
    let huge = || json!({ "jsonrpc": "2.0", "id": 1, "result": "x".repeat(5000) }).to_string();
    let known = move || Answer::of(200, "application/json", huge());
    let chunked = move || {
        let body = huge();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        Answer::Raw(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes())
    };
    let bomb = || {
        let zeros = std::io::Read::take(std::io::repeat(b' '), 1 << 20);
        let mut packed = Vec::new();
        let mut encoder = flate2::read::GzEncoder::new(zeros, flate2::Compression::best());
        std::io::Read::read_to_end(&mut encoder, &mut packed).unwrap();
        Answer::of(200, "application/json", packed).with("content-encoding", "gzip")
    };
    let known: Box<dyn Fn() -> Answer + Send + Sync> = Box::new(known);
    for (first, expected) in
        [(known, "REPLY_TOO_LARGE"), (Box::new(chunked), "REPLY_TOO_LARGE"), (Box::new(bomb), "UPSTREAM_MALFORMED")]
    {
        let agent = once(first);
        let proxy =
            Proxy::with(&format!("[upstream]\nurl = '{}'\n[limits]\nreply_bytes = '4KiB'\n", agent.url())).await;
        let answer = proxy.ask(&Request::call("/", &hello("c"))).await;
        assert_eq!(reason(&answer), expected);
        goes_on(&proxy, "c").await;
    }
}

#[tokio::test]
async fn an_agent_that_does_not_begin_in_time_is_given_up() {
    let (open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let proxy = Proxy::with(&format!("[upstream]\nurl = '{}'\n[timeouts]\nfirst_byte = '300ms'\n", agent.url())).await;
    let answer = proxy.ask(&Request::call("/", &hello("c"))).await;
    assert_eq!(reason(&answer), "UPSTREAM_TIMEOUT");
    // What passes untouched has no binding to be told in.
    let other = proxy.ask(&Request::call("/x", &json!({ "jsonrpc": "2.0", "id": 1, "method": "mine" }))).await;
    assert_eq!((other.status(), other.json()["error"]["reason"].as_str()), (504, Some("UPSTREAM_TIMEOUT")));
    open.send(true).unwrap();
    goes_on(&proxy, "c").await;
}

#[tokio::test]
async fn an_agent_that_stops_in_mid_reply_is_given_up() {
    let agent = once(|| Answer::Raw(Vec::new()));
    let proxy = Proxy::before(&agent.url()).await;
    let closed = proxy.ask(&Request::call("/", &hello("c"))).await;
    assert_eq!(reason(&closed), "UPSTREAM_UNREACHABLE");
    goes_on(&proxy, "c").await;
    for (bytes, expected) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":"[..], "UPSTREAM_UNREACHABLE"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"jso", "UPSTREAM_UNREACHABLE"),
        // Without a length only the JSON shows that something is missing.
        (b"HTTP/1.1 200 OK\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", "UPSTREAM_MALFORMED"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "UPSTREAM_MALFORMED"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "UPSTREAM_MALFORMED"),
    ] {
        let agent = once(|| Answer::Raw(bytes.to_vec()));
        let proxy = Proxy::before(&agent.url()).await;
        let answer = proxy.ask(&Request::call("/", &hello("c"))).await;
        assert_eq!(reason(&answer), expected, "{}", String::from_utf8_lossy(bytes));
        goes_on(&proxy, "c").await;
    }
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_malformed() {
    let agent = once(|| Answer::Raw(b"220 mail.example ESMTP\r\n\r\n".to_vec()));
    let proxy = Proxy::before(&agent.url()).await;
    assert_eq!(reason(&proxy.ask(&Request::call("/", &hello("c"))).await), "UPSTREAM_MALFORMED");
    goes_on(&proxy, "c").await;
}

#[tokio::test]
async fn an_agent_that_pauses_in_mid_reply_is_given_up() {
    let script = saying(|_| "Noted.".into());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let mut wire = super::wire::Wire::over(listener.accept().await.unwrap().0);
            let script = &script;
            let Some(request) = wire.request().await else { continue };
            if request.method() == "GET" {
                let _ = script;
                wire.send("HTTP/1.1 404 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
                continue;
            }
            wire.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
            // Until the proxy goes.
            wire.rest().await;
        }
    });
    let proxy = Proxy::with(&format!("[upstream]\nurl = 'http://{address}'\n[timeouts]\nidle = '300ms'\n")).await;
    assert_eq!(reason(&proxy.ask(&Request::call("/", &hello("c"))).await), "UPSTREAM_TIMEOUT");
}

#[tokio::test]
async fn the_agents_own_errors_pass_as_they_are() {
    for (status, content_type, body) in [
        (404, "text/plain", "nothing here"),
        (500, "text/html", "<h1>Oops</h1>"),
        (503, "application/json", "{\"detail\":  \"busy\"}"),
        (401, "application/json", "{\"detail\":\"who?\"}"),
        (
            200,
            "application/json",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32099,\"message\":\"no\"}, \"x\":1.0}",
        ),
    ] {
        let agent = once(move || Answer::of(status, content_type, body).with("x-agent", "yes"));
        let proxy = Proxy::before(&agent.url()).await;
        let answer = proxy.ask(&Request::call("/", &hello("c"))).await;
        assert_eq!((answer.status(), &*answer.text()), (status, body));
        assert_eq!((answer.header("content-type"), answer.header("x-agent")), (Some(content_type), Some("yes")));
        goes_on(&proxy, "c").await;
    }
}

#[tokio::test]
async fn a_second_message_is_refused_or_waits_as_the_route_says() {
    for (guard, waits) in [("wait = '10s'", true), ("reject = 'error'", false), ("reject = 'failed_task'", false)] {
        let (open, gate) = watch::channel(false);
        let agent = Agent::latched(gate);
        let proxy = Proxy::with(&format!("[upstream]\nurl = '{}'\n[guard]\n{guard}\n", agent.url())).await;
        let (mut first, mut second) = (proxy.connect().await, proxy.connect().await);
        first.send(Request::call("/", &hello("c")).bytes()).await;
        agent.called(1).await;
        second.send(Request::call("/", &hello("c")).bytes()).await;
        if !waits {
            let refused = second.answer("POST").await.json();
            match guard.contains("error") {
                true => assert_eq!(refused["error"]["data"][0]["reason"], "CONTEXT_BUSY", "{refused}"),
                false => assert_eq!(refused["result"]["status"]["state"], "failed", "{refused}"),
            }
            assert_eq!(agent.seen().len(), 1);
        }
        open.send(true).unwrap();
        assert_eq!(first.answer("POST").await.json()["result"]["status"]["state"], "completed");
        if waits {
            assert_eq!(second.answer("POST").await.json()["result"]["status"]["state"], "completed");
            assert_eq!(agent.seen().len(), 2);
        }
        goes_on(&proxy, "c").await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_leaves_nothing_behind() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::before(&agent.url()).await;
    let send = hello("c").to_string();
    for (request, status, code, id) in [
        (Request::post("/", "{\"jsonrpc\":"), 200, -32700, Value::Null),
        (Request::post("/", format!("[{send}]")), 200, -32600, Value::Null),
        (Request::post("/", send.clone()).with("content-encoding", "br"), 415, -32600, Value::Null),
        (Request::post("/", send.replace("\"params\"", "\"x\"")), 200, -32602, json!(1)),
        (Request::post("/", send.replace("\"c\"", "7")), 200, -32602, json!(1)),
        (Request::post("/", send.replace("\"c\"", "\"c\",\"contextId\":\"d\"")), 200, -32602, json!(1)),
        (Request::post("/", send.replace("\"c\"", &format!("\"{}\"", "c".repeat(513)))), 200, -32602, json!(1)),
    ] {
        let answer = proxy.ask(&request).await;
        let error = answer.json();
        assert_eq!((answer.status(), &error["error"]["code"], &error["id"]), (status, &json!(code), &id), "{error}");
    }
    for (path, body, status) in [
        ("/v1/message:send", "{}", 422),
        ("/message:send", "{\"message\":", 400),
        ("/Message:send", "{}", 404),
        ("/a2a.v1.A2AService/SendMessage", "{}", 501),
    ] {
        let rest = proxy.ask(&Request::post(path, body)).await;
        assert_eq!((rest.status(), rest.json().is_object()), (status, true), "{path}");
    }
    let climbs = proxy.ask(&Request::get("/a/%2e%2e/b")).await;
    assert_eq!(climbs.status(), 400);
    assert!(agent.seen().is_empty());
    goes_on(&proxy, "c").await;
}
