//! Conversations over real sockets: HTTP/1.1 and HTTP/2, TLS to the agent, encodings, browsers, headers, callers.

use std::io::Write;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::agent::{Agent, Answer, said, saying};
use super::process::{File, Proxy};
use super::wire::{Message, Request, Wire2};
use crate::support::{get_03, send_03};

/// Knows what it is given, and asks for a city.
fn clerk(text: &str) -> String {
    match text.lines().last().unwrap_or_default() {
        "What is my name?" if text.contains("My name is Ada") => "Your name is Ada.".into(),
        "What is my name?" => "I don't know your name.".into(),
        "Book a room" => "Which city do you mean?".into(),
        _ => "Noted.".into(),
    }
}

fn in_context(id: &str) -> Value {
    json!({ "contextId": id })
}

fn send_10(text: &str, ids: &Value) -> Value {
    let mut message = json!({
        "messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{ "text": text }],
    });
    message.as_object_mut().unwrap().extend(ids.as_object().cloned().unwrap_or_default());
    json!({ "jsonrpc": "2.0", "id": "s", "method": "SendMessage", "params": { "message": message } })
}

fn reply(answer: &Value) -> &str {
    let task = answer["result"].get("task").unwrap_or(&answer["result"]);
    task["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn a_conversation_over_one_connection() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    let mut send = async |text: &str, ids: Value| wire.ask(&Request::call("/", &send_03(text, ids))).await.json();
    send("My name is Ada", in_context("c")).await;
    assert_eq!(reply(&send("What is my name?", in_context("c")).await), "Your name is Ada.");
    let asked = send("Book a room", in_context("c")).await["result"].clone();
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    let answered = send("Oslo", json!({ "contextId": "c", "taskId": asked["id"] })).await["result"].clone();
    assert_eq!((answered["status"]["state"].as_str(), &answered["id"]), (Some("completed"), &asked["id"]));
    assert!(said(&agent.last().json()).ends_with("\nOslo"));
    let got = wire.ask(&Request::call("/", &get_03(asked["id"].as_str().unwrap()))).await.json();
    assert_eq!(got["result"]["status"]["state"], "completed", "{got}");
}

#[tokio::test]
async fn requests_that_were_sent_ahead_are_answered_in_order() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    let texts = ["My name is Ada", "What is my name?", "Book a room"];
    let bytes: Vec<_> =
        texts.iter().flat_map(|text| Request::call("/", &send_03(text, in_context("c"))).bytes()).collect();
    wire.send(bytes).await;
    for expected in ["Noted.", "Your name is Ada.", "Which city do you mean?"] {
        let answer = wire.answer("POST").await.json();
        assert_eq!(reply(&answer), expected);
    }
}

#[tokio::test]
async fn a_request_may_come_in_chunks_and_after_a_question() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    let body = send_03("My name is Ada", in_context("c")).to_string();
    wire.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n").await;
    assert_eq!(wire.continued().await, "HTTP/1.1 100 Continue\r\n\r\n");
    for piece in body.as_bytes().chunks(7) {
        wire.send(format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap())).await;
    }
    wire.send("0\r\n\r\n").await;
    let answer = wire.answer("POST").await;
    assert_eq!(reply(&answer.json()), "Noted.");
    assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()));
    // The first message of a context goes up byte for byte.
    assert_eq!(agent.last().text(), body);
    assert!(agent.last().header("expect").is_none());
}

#[tokio::test]
async fn http2_with_prior_knowledge() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let wire = Wire2::connect(proxy.address).await;
    let ask = async |context: &str, text: &str| wire.call(&send_10(text, &in_context(context))).await;
    ask("c", "My name is Ada").await;
    // Side by side on one connection.
    let (known, unknown) = tokio::join!(ask("c", "What is my name?"), ask("d", "What is my name?"));
    assert_eq!((reply(&known), reply(&unknown)), ("Your name is Ada.", "I don't know your name."));
    assert_eq!(agent.last().header("a2a-version"), Some("1.0"));
    let asked = ask("c", "Book a room").await["result"]["task"].clone();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
}

/// A certificate for localhost by an authority of the test's own, and the authority as PEM.
pub fn tls() -> (TlsAcceptor, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

#[tokio::test]
async fn an_agent_behind_https_with_an_authority_of_its_own() {
    let (acceptor, authority) = tls();
    let agent = Agent::over_tls(acceptor, saying(clerk));
    let port = agent.address.port();
    let text = |more: &str| {
        format!("[listener]\naddress = '127.0.0.1:0'\n[upstream]\nurl = 'https://localhost:{port}'\n{more}")
    };
    let proxy = Proxy::of(File::new(&text("ca = 'agent-ca.pem'")).beside("agent-ca.pem", &authority)).await;
    assert!(proxy.messages().iter().any(|line| line.contains("\"Clerk\"")), "{:#?}", proxy.lines());
    proxy.call("/", &send_03("My name is Ada", in_context("c"))).await;
    let answer = proxy.call("/", &send_03("What is my name?", in_context("c"))).await;
    assert_eq!(reply(&answer), "Your name is Ada.");
    // Another authority does not vouch for it.
    let (_, other) = tls();
    let proxy = Proxy::of(File::new(&text("ca = 'agent-ca.pem'")).beside("agent-ca.pem", &other)).await;
    assert!(proxy.messages().iter().any(|line| line.contains("not there yet") && line.contains("certificate")));
    let answer = proxy.call("/", &send_03("hello", in_context("c"))).await;
    assert_eq!(answer["error"]["data"][0]["reason"], "UPSTREAM_UNREACHABLE", "{answer}");
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_agent_that_compresses_whatever_it_is_asked_is_read() {
    let script = saying(clerk);
    let agent = Agent::start(move |request: Message| {
        let answer = script(request);
        async move {
            match answer.await {
                Answer::Http(200, headers, body) => {
                    Answer::Http(200, headers, gzipped(&body)).with("content-encoding", "gzip")
                }
                other => other,
            }
        }
    });
    let proxy = Proxy::before(&agent.url()).await;
    let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await;
    assert_eq!(card.json()["url"], format!("{}/", proxy.url()));
    let call = Request::call("/", &send_03("Book a room", in_context("c"))).with("accept-encoding", "gzip, br");
    let answer = proxy.ask(&call).await;
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.json()["result"]["status"]["state"], "input-required");
    assert_eq!(agent.last().header("accept-encoding"), Some("identity"));
    // What is no message stays as the agent sent it.
    let other = proxy.ask(&Request::call("/", &json!({ "jsonrpc": "2.0", "id": 1, "method": "other" }))).await;
    assert_eq!(other.header("content-encoding"), Some("gzip"));
}

#[tokio::test]
async fn browsers_are_let_in_where_the_route_says_so() {
    let agent = Agent::saying(clerk);
    let url = agent.url();
    let proxy = Proxy::with(&format!("[upstream]\nurl = '{url}'\n[cors]\norigins = ['https://app.example']\n")).await;
    let origin = |request: Request, origin: &str| request.with("origin", origin);
    let preflight = Request::method("OPTIONS", "/")
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "authorization,content-type,a2a-version");
    let allowed = proxy.ask(&origin(preflight.clone(), "https://app.example")).await;
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization,content-type,a2a-version"));
    assert_eq!(allowed.header("access-control-max-age"), Some("600"));
    let foreign = proxy.ask(&origin(preflight, "https://evil.example")).await;
    assert_eq!(foreign.header("access-control-allow-origin"), None);
    let answer =
        proxy.ask(&origin(Request::call("/", &send_03("hello", in_context("c"))), "https://app.example")).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    let card = proxy.ask(&origin(Request::get("/.well-known/agent-card.json"), "https://app.example")).await;
    assert_eq!(card.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(card.header("access-control-expose-headers").unwrap().contains("etag"));
    drop(agent);
    // A page has to be able to read why.
    for call in [send_03("hello", in_context("c")), json!({ "jsonrpc": "2.0", "id": 1, "method": "other" }), json!([])]
    {
        let error = proxy.ask(&origin(Request::call("/", &call), "https://app.example")).await;
        assert!(error.json()["error"].is_object(), "{}", error.text());
        assert_eq!(error.header("access-control-allow-origin"), Some("https://app.example"), "{}", error.text());
    }
}

#[tokio::test]
async fn the_agent_is_told_of_the_client_and_nothing_else_is_changed() {
    let agent = Agent::saying(clerk);
    let url = agent.url();
    let proxy = Proxy::with(&format!("[upstream]\nurl = '{url}'\n[upstream.headers]\nX-Api-Key = 'k'\n")).await;
    let request = Request::call("/", &send_03("hello", json!({})))
        .with("x-forwarded-for", "10.0.0.1")
        .with("x-mine", "1")
        .with("x-api-key", "mine")
        .with("connection", "keep-alive, x-hop")
        .with("x-hop", "1")
        .with("a2a-multiturn-hop", "1");
    proxy.ask(&request).await;
    let seen = agent.last();
    for (name, expected) in [
        ("host", &[&*agent.address.to_string()][..]),
        ("x-forwarded-for", &["127.0.0.1"]),
        ("x-forwarded-host", &["proxy.test"]),
        ("x-forwarded-proto", &["http"]),
        ("forwarded", &["for=127.0.0.1;host=\"proxy.test\";proto=http"]),
        ("x-mine", &["1"]),
        ("x-api-key", &["k"]),
        ("x-hop", &[]),
        ("a2a-multiturn-hop", &["1"]),
        ("content-type", &["application/json"]),
    ] {
        assert_eq!(seen.all(name), expected, "{name}");
    }
}

#[tokio::test]
async fn callers_with_different_credentials_never_meet() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let ask = async |who: &str, call: Value| {
        let request = Request::call("/", &call);
        let request = if who.is_empty() { request } else { request.with("authorization", who) };
        proxy.ask(&request).await.json()
    };
    let named = ask("Bearer alice", send_03("My name is Ada", in_context("c"))).await;
    let task = named["result"]["id"].as_str().unwrap().to_owned();
    assert_eq!(agent.last().header("authorization"), Some("Bearer alice"));
    for (who, expected) in [
        ("Bearer bob", "I don't know your name."),
        ("", "I don't know your name."),
        ("Bearer alice", "Your name is Ada."),
        ("bearer", "I don't know your name."),
    ] {
        let answer = ask(who, send_03("What is my name?", in_context("c"))).await;
        assert_eq!(reply(&answer), expected, "{who}");
    }
    // Without a credential, on loopback, they are one.
    ask("", send_03("My name is Ada", in_context("d"))).await;
    assert_eq!(reply(&ask("", send_03("What is my name?", in_context("d"))).await), "Your name is Ada.");
    // Somebody else's task is one that does not exist.
    let no_such = ask("Bearer bob", get_03("no-such-task")).await;
    for who in ["Bearer bob", ""] {
        assert_eq!(ask(who, get_03(&task)).await, no_such, "{who}");
        let answer = ask(who, send_03("and?", json!({ "taskId": task }))).await;
        assert_eq!(answer["error"]["code"], -32001, "{answer}");
    }
    assert_eq!(ask("Bearer alice", get_03(&task)).await["result"]["id"], *task);
}

#[tokio::test]
async fn a_listener_that_all_may_reach_gives_nobody_a_conversation_who_cannot_be_told_from_others() {
    let agent = Agent::saying(clerk);
    let mut proxy = Proxy::with(&format!(
        "[listener]\naddress = '0.0.0.0:0'\npublic_url = 'http://agents.example.com'\n[upstream]\nurl = '{}'\n",
        agent.url()
    ))
    .await;
    proxy.address.set_ip([127, 0, 0, 1].into());
    for _ in 0..2 {
        proxy.call("/", &send_03("My name is Ada", in_context("c"))).await;
    }
    assert_eq!(reply(&proxy.call("/", &send_03("What is my name?", in_context("c"))).await), "I don't know your name.");
    proxy.line("forwarded without conversation").await;
    let ada = |text: &str| Request::call("/", &send_03(text, in_context("c"))).with("authorization", "Bearer ada");
    proxy.ask(&ada("My name is Ada")).await;
    assert_eq!(reply(&proxy.ask(&ada("What is my name?")).await.json()), "Your name is Ada.");
    let warned = proxy.messages().iter().filter(|line| line.contains("cannot be told from others")).count();
    assert_eq!(warned, 1, "said once a route");
}

#[tokio::test]
async fn what_is_no_message_passes_byte_for_byte() {
    let agent = Agent::start(|request: Message| async move {
        let answer = format!("{} {} ", request.method(), request.path()).into_bytes();
        Answer::Http(207, vec![("x-agent", "yes".into())], [answer, request.body].concat())
    });
    let proxy = Proxy::before(&agent.url()).await;
    for (method, path, body) in [
        ("GET", "/metrics?a=%2F&b", ""),
        ("POST", "/upload//x%20y", "not { json"),
        ("POST", "/", "{\"jsonrpc\": \"2.0\", \"id\":1e3,  \"method\":\"mine\",\"n\":100000000000000000001}"),
        ("POST", "/", "  {\"message\":{\"hello\": 1.0}}"),
        ("DELETE", "/x", ""),
    ] {
        let request = match method {
            "POST" => Request::post(path, body),
            _ => Request::method(method, path),
        };
        let answer = proxy.ask(&request).await;
        assert_eq!((answer.status(), answer.header("x-agent")), (207, Some("yes")), "{}", answer.text());
        assert_eq!(answer.text(), format!("{method} {path} {body}"));
    }
}

/// A film (`ftyp`) and a WebAssembly module begin with zeros, as JSON in UTF-16 or UTF-32 does; but no brace comes after them.
#[tokio::test]
async fn what_begins_with_zeros_is_not_yet_json() {
    let agent = Agent::start(|request: Message| async move { Answer::Http(207, Vec::new(), request.body) });
    let proxy = Proxy::before(&agent.url()).await;
    for body in [&b"\0\0\0\x18ftypmp42"[..], b"\0asm\x01\0\0\0"] {
        let answer = proxy.ask(&Request::post("/upload", body)).await;
        assert_eq!((answer.status(), answer.body), (207, body.to_vec()));
    }
}
