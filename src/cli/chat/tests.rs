use std::collections::VecDeque;
use std::sync::Mutex;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use clap::Parser;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::cli::demo;

#[derive(Debug, clap::Parser)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Talk.
    Chat(ChatArgs),
}

fn args(words: &[&str]) -> ChatArgs {
    let Sub::Chat(args) = Cli::try_parse_from(["a2a-multiturn", "chat"].iter().chain(words)).unwrap().command;
    args
}

/// What a conversation came to.
#[derive(Debug)]
struct Ended {
    code: u8,
    out: String,
    notes: String,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Pipe,
    Terminal,
}

async fn talk(words: &[&str], lines: &[&str], at: At) -> Ended {
    let notes: Arc<Mutex<String>> = Arc::default();
    let shared = Arc::clone(&notes);
    let noted = move |line: &str| *shared.lock().unwrap() += &format!("{line}\n");
    let mut out = Vec::new();
    let mut screen = Screen::new(&mut out, Arc::new(noted), at == At::Terminal, at == At::Terminal);
    let code = converse(args(words), Input::typed(lines), &mut screen).await.unwrap();
    let notes = notes.lock().unwrap().clone();
    Ended { code, out: String::from_utf8(out).unwrap(), notes }
}

/// Status, media type, body.
type Answer = (u16, &'static str, String);

/// A server that gives prepared answers, whatever it is asked, and remembers what it was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<(String, HeaderMap, Value)>>>,
}

impl Script {
    async fn start(answers: Vec<Answer>) -> (Self, String) {
        let script = Self { answers: Arc::new(Mutex::new(answers.into())), ..Self::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (script, url)
    }

    /// The bodies of the calls, without the card's.
    fn calls(&self) -> Vec<Value> {
        self.asked.lock().unwrap().iter().map(|(.., body)| body.clone()).filter(|body| !body.is_null()).collect()
    }
}

async fn answer(Shared(script): Shared<Script>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let asked =
        (format!("{} {}", head.method, head.uri), head.headers, serde_json::from_slice(&body).unwrap_or_default());
    script.asked.lock().unwrap().push(asked);
    let next = script.answers.lock().unwrap().pop_front();
    let (status, media_type, body) = next.unwrap_or((404, "text/plain", "not found".to_owned()));
    let response = Response::builder().status(status).header("content-type", media_type);
    response.header("location", "https://elsewhere.example/").body(body.into()).unwrap()
}

fn ok(body: Value) -> Answer {
    (200, "application/json", body.to_string())
}

fn card_v03() -> Answer {
    ok(json!({"name": "Old", "url": "http://0.0.0.0:1/rpc", "preferredTransport": "JSONRPC"}))
}

fn card_v10() -> Answer {
    let interface = json!({"url": "http://localhost/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
    ok(json!({"name": "New", "supportedInterfaces": [interface]}))
}

fn result(result: Value) -> Answer {
    ok(json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}

fn task_v03(id: &str, state: &str, text: &str) -> Value {
    let message =
        json!({"kind": "message", "role": "agent", "messageId": "m", "parts": [{"kind": "text", "text": text}]});
    json!({"kind": "task", "id": id, "contextId": "c-1", "status": {"state": state, "message": message}})
}

fn task_v10(id: &str, state: &str, text: &str) -> Value {
    let message = json!({"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": text}]});
    json!({"id": id, "contextId": "c-1", "status": {"state": state, "message": message}})
}

#[tokio::test]
async fn a_pipe_talks_to_the_demo_agent() {
    let agent = demo::start().await.unwrap();
    let url = format!("http://{}", agent.addr());
    let ended = talk(&[&url], &["My name is Ada", "", "What is my name?", "/new", "/context", "/task"], At::Pipe).await;
    let out = "[completed] Nice to meet you, Ada.\n[completed] I don't know your name.\nno context yet\nno task\n";
    assert_eq!((ended.code, ended.out.as_str(), ended.notes.as_str()), (0, out, ""));
}

#[tokio::test]
async fn a_question_is_answered_on_its_task_in_both_dialects() {
    let v03 = vec![
        card_v03(),
        result(task_v03("t-1", "input-required", "Which\ncity?")),
        result(task_v03("t-1", "completed", "Booked.")),
        result(task_v03("t-2", "completed", "Bye.")),
    ];
    let v10 = vec![
        card_v10(),
        result(json!({"task": task_v10("t-1", "TASK_STATE_INPUT_REQUIRED", "Which\ncity?")})),
        result(json!({"task": task_v10("t-1", "TASK_STATE_COMPLETED", "Booked.")})),
        result(json!({"task": task_v10("t-2", "TASK_STATE_COMPLETED", "Bye.")})),
    ];
    for (answers, method, role, version) in
        [(v03, "message/send", "user", None), (v10, "SendMessage", "ROLE_USER", Some("1.0"))]
    {
        let (script, url) = Script::start(answers).await;
        let credential = "Authorization: Bearer abc";
        let ended = talk(&[&url, "--header", credential], &["Book a room", "Oslo", "Bye"], At::Pipe).await;
        let out = "[input-required] Which\\ncity?\n[completed] Booked.\n[completed] Bye.\n";
        assert_eq!((ended.code, ended.out.as_str(), ended.notes.as_str()), (0, out, ""));
        let calls = script.calls();
        let ids: Vec<_> = calls.iter().map(|call| call["params"]["message"].clone()).collect();
        assert_eq!(ids[0]["contextId"], Value::Null);
        assert_eq!((&ids[1]["taskId"], &ids[1]["contextId"]), (&json!("t-1"), &json!("c-1")));
        assert_eq!((&ids[2]["taskId"], &ids[2]["contextId"]), (&Value::Null, &json!("c-1")));
        for (call, (place, headers, _)) in calls.iter().zip(script.asked.lock().unwrap().iter().skip(1)) {
            assert_eq!((&call["method"], place.as_str()), (&json!(method), "POST /rpc"));
            assert_eq!(call["params"]["message"]["role"], role);
            assert_eq!(headers.get("a2a-version").map(|version| version.to_str().unwrap()), version);
            assert_eq!(headers["authorization"], "Bearer abc");
        }
    }
}

#[tokio::test]
async fn a_person_sees_prompts_and_no_escapes() {
    let hostile = "\u{1b}]0;owned\u{7}Which\nyou> city?";
    let answers = vec![
        card_v03(),
        result(task_v03("t-1", "input-required", hostile)),
        ok(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "no \u{1b}[31mway"}})),
        result(
            json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "Hello"}]}),
        ),
    ];
    let (_, url) = Script::start(answers).await;
    let ended = talk(&[&url], &["Book", "/task", "Oslo", "/oops", "Hi", "/quit"], At::Terminal).await;
    let expected = format!(
        "Old, A2A 0.3 at {url}/rpc; /help lists the commands\n\
         (its card names http://0.0.0.0:1/rpc; messages go to the host that you named)\n\
         you> [input-required] ␛]0;owned␇Which\n  you> city?\n\
         answer> task t-1 input-required\nanswer> answer> answer> [message] Hello\nyou> "
    );
    assert_eq!((ended.code, ended.out), (0, expected));
    assert_eq!(
        ended.notes,
        "the agent answered with an error: no ␛[31mway (-32004)\nthere is no command /oops; /help lists them, //… sends a slash\n"
    );
}

#[tokio::test]
async fn a_task_that_runs_is_looked_at_until_it_is_done() {
    let answers = vec![
        card_v10(),
        result(json!({"task": task_v10("t-1", "TASK_STATE_SUBMITTED", "")})),
        result(task_v10("t-1", "TASK_STATE_WORKING", "thinking")),
        result(task_v10("t-1", "TASK_STATE_COMPLETED", "Done.")),
    ];
    let (script, url) = Script::start(answers).await;
    let ended = talk(&[&url, "--message", "/raw", "--context", "c-0"], &["not read"], At::Pipe).await;
    assert_eq!(ended.out, "[completed] Done.\n", "{ended:?}");
    let calls = script.calls();
    assert_eq!(calls[0]["params"]["message"]["contextId"], "c-0");
    assert_eq!((&calls[2]["method"], &calls[2]["params"]["id"]), (&json!("GetTask"), &json!("t-1")));
}

#[tokio::test]
async fn errors_say_what_to_do_and_set_the_code() {
    let html = || (200, "text/html", "<!doctype html><title>Welcome</title>".to_owned());
    let refused = ok(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32050, "message": "busy"}}));
    let grpc = ok(json!({"name": "G", "url": "http://x", "preferredTransport": "GRPC"}));
    for (answers, code, words) in [
        (vec![], 1, "there is no agent card at"),
        (vec![html(), html()], 1, "answers with a web page (200 OK)"),
        (vec![(401, "text/plain", "no".to_owned()); 2], 1, "--header 'Authorization: Bearer …'"),
        (vec![(307, "text/plain", String::new()); 2], 1, "points to https://elsewhere.example/"),
        (vec![grpc], 1, "no JSON-RPC interface, only GRPC"),
        (vec![card_v03(), html()], 1, "answers with a web page"),
        (
            vec![card_v03(), (200, "application/json", "{\"detail\":1}".to_owned())],
            1,
            "no A2A (200 OK): {\"detail\":1}",
        ),
        (vec![card_v03(), refused], 1, "an error: busy (-32050)"),
        (vec![card_v03(), result(json!({"ok": true}))], 1, "neither a task nor a message"),
    ] {
        let (_, url) = Script::start(answers).await;
        let ended = talk(&[&url], &["Hi", "not sent"], At::Pipe).await;
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{words}: {}", ended.notes);
        assert!(ended.notes.contains(words), "{words}: {}", ended.notes);
    }
}

#[tokio::test]
async fn a_task_that_fails_ends_a_pipe() {
    let answers =
        vec![card_v03(), result(task_v03("t-1", "failed", "no money")), result(task_v03("t", "completed", "x"))];
    let (script, url) = Script::start(answers).await;
    let ended = talk(&[&url], &["Hi", "Hi again"], At::Pipe).await;
    assert_eq!((ended.code, ended.out.as_str(), script.calls().len()), (1, "[failed] no money\n", 1));
}

#[tokio::test]
async fn nobody_there_is_another_code_than_a_refusal() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (url, code, words) in [
        (format!("http://{free}"), 3, format!("nothing listens at {free}: is the agent running?")),
        ("http://nowhere.invalid".to_owned(), 3, "there is no host called nowhere.invalid".to_owned()),
        ("ftp://x".to_owned(), 2, "is no URL of an agent".to_owned()),
    ] {
        let ended = talk(&[&url], &["Hi"], At::Pipe).await;
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.notes.contains(&words), "{ended:?}");
    }
    let (_, url) = Script::start(vec![card_v03()]).await;
    let ended = talk(&[&url.replace("http", "https")], &["Hi"], At::Pipe).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.notes.contains("does not speak TLS"), "{ended:?}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_told_as_such() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = rustls::ServerConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { acceptor.accept(listener.accept().await.unwrap().0).await.map(drop) });
    let ended = talk(&[&format!("https://localhost:{port}")], &["Hi"], At::Pipe).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    // A machine without authorities of its own says that.
    assert!(ended.notes.contains("is not trusted") || ended.notes.contains("no certificate authorities"), "{ended:?}");
}

#[tokio::test]
async fn the_wire_is_shown_beside_the_conversation_without_credentials() {
    let (_, url) = Script::start(vec![card_v03(), result(task_v03("t-1", "completed", "Hi"))]).await;
    let ended = talk(&[&url, "--raw", "--header", "X-Key: secret"], &["Hi"], At::Pipe).await;
    assert_eq!(ended.out, "[completed] Hi\n");
    for shown in [
        &format!("> GET {url}/.well-known/agent-card.json"),
        "\"method\": \"message/send\"",
        "< 200 OK application/json",
        "    \"id\": \"t-1\"",
    ] {
        assert!(ended.notes.contains(shown), "{shown}: {}", ended.notes);
    }
    assert!(!ended.notes.contains("secret"));
}

#[tokio::test]
async fn an_agent_that_is_silent_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap();
    let (script, url) = Script::start(vec![]).await;
    script
        .answers
        .lock()
        .unwrap()
        .extend([card_v10(), result(json!({"task": task_v10("t-1", "TASK_STATE_WORKING", "")}))]);
    script.answers.lock().unwrap().extend((0..9).map(|_| result(task_v10("t-1", "TASK_STATE_WORKING", ""))));
    let ended = talk(&[&url, "--timeout", "300ms"], &["Hi"], At::Pipe).await;
    assert_eq!((ended.code, ended.notes.as_str()), (3, "task t-1 is not done within 300ms; --timeout sets this\n"));
    tokio::time::pause();
    let ended = talk(&[&format!("http://{addr}")], &["Hi"], At::Pipe).await;
    assert_eq!(ended.code, 3);
    assert!(ended.notes.contains("within 15s"), "{ended:?}");
}

#[test]
fn help_tells_the_codes_and_wrong_headers_are_usage() {
    let help = Cli::try_parse_from(["a2a-multiturn", "chat", "--help"]).unwrap_err().to_string();
    assert!(help.contains("Exit codes: 0") && help.contains("/context"), "{help}");
    for header in ["novalue", "a b: c", "X: a\nb"] {
        assert_eq!(Cli::try_parse_from(["x", "chat", "u", "--header", header]).unwrap_err().exit_code(), 2);
    }
}
