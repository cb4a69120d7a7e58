//! An agent that serves HTTP+JSON as the SDKs do, each dialect in its own way, and a client of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use a2a_multiturn::middleware::ReplyBody;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{Agent, AgentBody, Proxy, Seen, body, events, json_response};

/// How an agent spells, and where it serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spelling {
    V03,
    V10,
}

pub const BOTH: [Spelling; 2] = [Spelling::V03, Spelling::V10];

impl Spelling {
    /// What stands in front of the operations.
    pub fn base(self) -> &'static str {
        if self == Self::V03 { "/rest/v1" } else { "/rest" }
    }

    pub fn parts(self) -> &'static str {
        if self == Self::V03 { "content" } else { "parts" }
    }

    pub fn canceled(self) -> &'static str {
        if self == Self::V03 { "TASK_STATE_CANCELLED" } else { "TASK_STATE_CANCELED" }
    }

    pub fn message(self, text: &str, ids: Value) -> Value {
        let mut message = json!({ "messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER" });
        message[self.parts()] = json!([{ "text": text }]);
        for (name, id) in ids.as_object().into_iter().flatten() {
            message[name] = id.clone();
        }
        json!({ "message": message })
    }

    /// Agents of 0.3 have a body of their own for errors, those of 1.0 that of AIP-193.
    fn not_found(self) -> Response<AgentBody> {
        let mut response = json_response(&match self {
            Self::V03 => json!({ "message": "Task not found" }),
            Self::V10 => json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "Task not found" } }),
        });
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}

type Tasks = Arc<Mutex<HashMap<String, Value>>>;

/// What it says is the last line of what it is told. `!working` is left to work, `!input` is asked for; both are completed when they are next
/// asked for after `!end`.
pub fn agent(spelling: Spelling) -> Agent {
    let tasks = Tasks::default();
    Agent::scripted(move |seen| {
        let answer = answer(spelling, &tasks, &seen);
        async move { Ok(answer) }
    })
}

fn answer(spelling: Spelling, tasks: &Tasks, seen: &Seen) -> Response<AgentBody> {
    let mut tasks = tasks.lock().unwrap();
    let (method, target) = &seen.line;
    let path = target.split('?').next().unwrap_or_default();
    let Some(rest) = path.strip_prefix(spelling.base()) else { return lost() };
    match (method.as_str(), rest) {
        ("POST", "/message:send") => {
            let task = task(spelling, seen);
            tasks.insert(task["id"].as_str().unwrap().to_owned(), task.clone());
            let mut response = json_response(&json!({ "task": task }));
            if spelling == Spelling::V03 {
                *response.status_mut() = StatusCode::CREATED;
            }
            response.headers_mut().insert("etag", "W/\"1\"".parse().unwrap());
            response
        }
        ("POST", "/message:stream") => {
            let task = task(spelling, seen);
            tasks.insert(task["id"].as_str().unwrap().to_owned(), task.clone());
            streamed(spelling, &task)
        }
        _ => on_task(spelling, &mut tasks, seen, rest).unwrap_or_else(lost),
    }
}

fn on_task(
    spelling: Spelling,
    tasks: &mut HashMap<String, Value>,
    seen: &Seen,
    rest: &str,
) -> Option<Response<AgentBody>> {
    let id = rest.strip_prefix("/tasks/")?;
    let get = seen.line.0 == Method::GET;
    if let Some(id) = id.strip_suffix(":cancel").filter(|_| !get) {
        let Some(task) = tasks.get_mut(id) else { return Some(spelling.not_found()) };
        task["status"] = json!({ "state": spelling.canceled() });
        return Some(json_response(task));
    }
    if let Some(id) = id.strip_suffix(":subscribe").filter(|_| get == (spelling == Spelling::V03)) {
        return Some(tasks.get(id).map_or_else(|| spelling.not_found(), |task| streamed(spelling, task)));
    }
    if id.contains(':') || !get {
        return None;
    }
    let id = id.replace("%2F", "/").replace("%3A", ":");
    Some(tasks.get(&id).map_or_else(|| spelling.not_found(), json_response))
}

/// As a framework answers what it has no route for.
fn lost() -> Response<AgentBody> {
    let mut response = json_response(&json!({ "detail": "Not Found" }));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn task(spelling: Spelling, seen: &Seen) -> Value {
    let text = seen.text();
    let last = text.lines().last().unwrap_or_default();
    let message = seen.message();
    let id = if last == "!odd" { "a/b:c".to_owned() } else { format!("u-{}", seen.before + 1) };
    let context = message["contextId"].as_str().unwrap_or("agent-context");
    let mut echo = message.clone();
    echo["taskId"] = json!(id);
    let state = match last {
        "!working" => "WORKING",
        "!input" => "INPUT_REQUIRED",
        _ => "COMPLETED",
    };
    let mut task = json!({
        "id": id, "contextId": context, "status": { "state": format!("TASK_STATE_{state}") }, "history": [echo],
    });
    if state == "COMPLETED" {
        task["artifacts"] = json!([{ "artifactId": "response", "parts": [{ "text": last }] }]);
    }
    if state == "INPUT_REQUIRED" {
        let mut asks = json!({ "messageId": "asks", "role": "ROLE_AGENT" });
        asks[spelling.parts()] = json!([{ "text": "Which colour?" }]);
        task["status"]["message"] = asks;
    }
    task
}

/// The task as a stream: 0.3's widespread server prints its JSON over many lines.
fn streamed(spelling: Spelling, task: &Value) -> Response<AgentBody> {
    let ids = json!({ "taskId": task["id"], "contextId": task["contextId"] });
    let with = |name: &str, value: Value| {
        let mut all = ids.clone();
        all[name] = value;
        all
    };
    let begun = json!({ "task": { "id": task["id"], "contextId": task["contextId"], "status": { "state": "TASK_STATE_SUBMITTED" } } });
    let mut all = vec![begun];
    for artifact in task["artifacts"].as_array().into_iter().flatten() {
        all.push(json!({ "artifactUpdate": with("artifact", artifact.clone()) }));
    }
    if task["status"]["state"] != "TASK_STATE_WORKING" {
        let mut update = with("status", task["status"].clone());
        if spelling == Spelling::V03 {
            update["final"] = json!(true);
        }
        all.push(json!({ "statusUpdate": update }));
    }
    let mut response = Response::new(body(all.iter().map(|event| sse(spelling, event)).collect::<String>()));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    response
}

pub fn sse(spelling: Spelling, event: &Value) -> String {
    match spelling {
        Spelling::V10 => format!("data: {event}\n\n"),
        Spelling::V03 => {
            let text = serde_json::to_string_pretty(event).unwrap();
            text.lines().map(|line| format!("data: {line}\r\n")).collect::<String>() + "\r\n"
        }
    }
}

/// An answer, read.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub raw: String,
}

impl Answer {
    pub async fn of(response: Response<ReplyBody>) -> Self {
        let (head, body) = response.into_parts();
        let raw = body.collect().await.unwrap().to_bytes();
        Self { status: head.status.as_u16(), headers: head.headers, raw: String::from_utf8(raw.to_vec()).unwrap() }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.raw).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn events(&self) -> Vec<Value> {
        assert!(self.header("content-type").starts_with("text/event-stream"), "{self:?}");
        events(&self.raw.replace("\r\n", "\n"))
    }
}

/// A client of HTTP+JSON.
#[derive(Clone)]
pub struct Client {
    pub proxy: Proxy,
    pub spelling: Spelling,
}

impl Client {
    pub fn new(proxy: &Proxy, spelling: Spelling) -> Self {
        let proxy = if spelling == Spelling::V10 { proxy.with_header("a2a-version", "1.0") } else { proxy.clone() };
        Self { proxy, spelling }
    }

    pub async fn call(&self, method: Method, operation: &str, body: impl Into<Bytes>) -> Answer {
        let target = format!("{}{operation}", self.spelling.base());
        Answer::of(self.proxy.response_to(method, &target, body).await).await
    }

    pub async fn post(&self, operation: &str, body: &Value) -> Answer {
        self.call(Method::POST, operation, body.to_string()).await
    }

    pub async fn get(&self, operation: &str) -> Answer {
        self.call(Method::GET, operation, "").await
    }

    /// Sends a text; the task that answers it.
    pub async fn send(&self, text: &str, ids: Value) -> Value {
        let answer = self.post("/message:send", &self.spelling.message(text, ids)).await;
        assert!(answer.status < 300, "{answer:?}");
        answer.json()["task"].clone()
    }
}

/// A proxy with its agent, and a client.
pub fn stage(spelling: Spelling) -> (Agent, Client) {
    let agent = agent(spelling);
    let client = Client::new(&Proxy::new(&agent), spelling);
    (agent, client)
}
