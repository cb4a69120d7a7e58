use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::a2a::{self, Dialect, Part, Role, State, message, read_parts};
use crate::a2a::{Verb, jsonrpc};
use crate::cli::client::Client;
use crate::json::Doc;

/// As much of a proxy as the story needs.
struct Stub {
    agent: Client,
    base: String,
    records: Mutex<HashMap<String, Vec<String>>>,
    busy: Mutex<HashSet<String>>,
}

impl Stub {
    async fn send(&self, text: &str, context: String, task: Option<String>) -> String {
        let shown = |state, id: &str, words: &str| {
            let ids = (id, context.as_str());
            let words = message(Dialect::V10, Role::Agent, "m", &[Part::Text(words.to_owned())], ids, None);
            format!("{{\"task\":{}}}", a2a::task(Dialect::V10, ids, state, Some(&words), "2026-01-01T00:00:00Z", &[]))
        };
        if !self.busy.lock().unwrap().insert(context.clone()) {
            return shown(State::Failed, "refused", "Another turn is in flight");
        }
        let mut record = self.records.lock().unwrap().get(&context).cloned().unwrap_or_default();
        let given = [record.join("\n"), text.to_owned()].join("\n");
        let reply = self.agent.send(given.trim_start(), None, None).await.unwrap();
        record.extend([text.to_owned(), reply.text()]);
        self.records.lock().unwrap().insert(context.clone(), record);
        self.busy.lock().unwrap().remove(&context);
        let state = if reply.text().ends_with('?') { State::InputRequired } else { State::Completed };
        shown(state, &task.or(reply.task.clone()).unwrap(), &reply.text())
    }
}

async fn rpc(Shared(stub): Shared<Arc<Stub>>, body: String) -> String {
    let (id, text, context, task) = {
        let doc = Doc::scan(body.as_bytes()).unwrap();
        let call = jsonrpc::read(doc.root()).unwrap().unwrap();
        assert_eq!(call.verb, Verb::Send);
        let message = call.params.some("message").unwrap();
        let word = |name| message.some(name).map(|word| word.str().unwrap().into_owned());
        let text = a2a::text_of(&read_parts(message));
        (call.binding.id().to_owned(), text, word("contextId").unwrap_or("context-1".to_owned()), word("taskId"))
    };
    jsonrpc::result(&id, &stub.send(&text, context, task).await)
}

async fn card(Shared(stub): Shared<Arc<Stub>>) -> String {
    format!(r#"{{"name":"Stub","supportedInterfaces":[{{"url":"{}/a2a","protocolBinding":"JSONRPC"}}]}}"#, stub.base)
}

async fn stub(agent: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let agent = Client::connect(&format!("http://{agent}"), Default::default(), Duration::from_secs(9), None).await;
    let stub = Stub {
        agent: agent.unwrap(),
        base: format!("http://{addr}"),
        records: Mutex::default(),
        busy: Mutex::default(),
    };
    let app = Router::new().route("/.well-known/agent-card.json", get(card)).route("/a2a", post(rpc));
    let app = app.with_state(Arc::new(stub));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(addr)
}

#[tokio::test]
async fn with_a_proxy_the_story_ends_well_on_one_screen() {
    let agent = start().await.unwrap();
    let proxy = stub(agent.addr()).await.unwrap();
    let mut out = Vec::new();
    let told = story(&agent, &format!("http://{proxy}"), &mut out).await;
    let out = String::from_utf8(out).unwrap();
    assert!(told.is_ok(), "{told:?}\n{out}");
    assert!(out.lines().count() <= 39, "{out}");
    assert_eq!(out.lines().find(|line| line.chars().count() > 100), None);
    for line in [
        "[completed] I don't know your name.",
        "[completed] Your name is Ada.",
        "[input-required] Which city",
        "… 5 lines …",
        "curl http:",
        "context-1",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
}

#[tokio::test]
async fn without_one_it_says_what_is_missing() {
    let agent = start().await.unwrap();
    let mut out = Vec::new();
    let told = story(&agent, &format!("http://{}", agent.addr()), &mut out).await;
    let Err(StoryError::Unmet(unmet)) = told else { panic!("{told:?}") };
    for expected in ["knows the name", "input-required", "refused at once", "each earlier turn once"] {
        assert!(unmet.iter().any(|line| line.contains(expected)), "{expected}: {unmet:?}");
    }
    assert_eq!(String::from_utf8(out).unwrap().matches("✗").count(), unmet.len());
}

#[tokio::test]
async fn the_demo_fails_where_the_proxy_does() {
    let mut screen = Screen { out: Vec::new(), colours: true };
    assert!(told(true, stub, &mut screen).await.is_ok());
    assert!(String::from_utf8(screen.out.clone()).unwrap().contains("\u{1b}[33m[input-required] \u{1b}[0mWhich"));
    let failed = told(true, async |agent| Ok(agent), &mut screen).await;
    assert!(matches!(failed, Err(StoryError::Unmet(_))));
    let failed = told(true, async |_| Err(io::ErrorKind::AddrInUse.into()), &mut screen).await;
    assert!(matches!(failed, Err(StoryError::Start(_))));
}

/// A request on a connection of its own; everything behind the head of the response.
async fn raw(agent: &Agent, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(agent.addr()).await.unwrap();
    let length = body.len();
    let request = format!("{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

async fn call(agent: &Agent, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).to_string();
    let response: Value = serde_json::from_str(&raw(agent, "POST /", &body).await).unwrap();
    assert_eq!(response["id"], "x");
    assert_eq!(agent.last_given(), body);
    response
}

fn says(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "user", "contextId": "c", "parts": [{"text": text}]}})
}

#[tokio::test]
async fn the_agent_speaks_both_dialects() {
    let agent = start().await.unwrap();
    for (send, get, inside, state) in [
        ("message/send", "tasks/get", "/result", "completed"),
        ("SendMessage", "GetTask", "/result/task", "TASK_STATE_COMPLETED"),
    ] {
        let sent = call(&agent, send, says("My name is Ada")).await;
        let task = sent.pointer(inside).unwrap();
        assert_eq!((&task["status"]["state"], &task["contextId"]), (&json!(state), &json!("c")));
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "Nice to meet you, Ada.");
        assert_eq!(&call(&agent, get, json!({"id": task["id"]})).await["result"], task);
        let again = json!({"message": {"messageId": "m", "taskId": task["id"], "parts": [{"text": "Hi"}]}});
        let refused = call(&agent, send, again).await;
        assert!(refused["error"]["message"].as_str().unwrap().contains("is in terminal state"), "{refused}");
        assert_eq!(call(&agent, get, json!({"id": "none"})).await["error"]["code"], -32001);
    }
    assert_eq!(call(&agent, "tasks/paint", json!({})).await["error"]["code"], -32601);
    assert_eq!(call(&agent, "CancelTask", json!({"id": "x"})).await["error"]["code"], -32601);
    assert!(raw(&agent, "POST /", "{").await.contains("-32700"));
    assert_eq!(raw(&agent, "GET /other", "").await, "404 Not Found");
}

#[tokio::test]
async fn the_agent_streams_three_events() {
    let agent = start().await.unwrap();
    for (method, last, wrapped) in
        [("message/stream", "completed", false), ("SendStreamingMessage", "TASK_STATE_COMPLETED", true)]
    {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": says("Book a room")}).to_string();
        let stream = raw(&agent, "POST /", &body).await;
        let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = events.map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!(events.len(), 3, "{stream}");
        assert!(events.iter().all(|event| event["id"] == 7));
        let end = if wrapped { &events[2]["result"]["statusUpdate"] } else { &events[2]["result"] };
        assert_eq!((&end["status"]["state"], end.get("final").is_some()), (&json!(last), !wrapped));
    }
}
