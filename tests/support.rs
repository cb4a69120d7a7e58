//! A scripted agent behind the layer, and a client in front of it; no sockets, no sleeps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::conversation::principal::{Principal, RouteId};
use a2a_multiturn::middleware::{BoxError, Clock, Conversation, ConversationLayer, ReplyBody, RequestBody};
use a2a_multiturn::store::{Limits, Memory, Store};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::{Layer, ServiceExt};

pub type AgentBody = UnsyncBoxBody<Bytes, BoxError>;

/// A request as it reached the agent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// HTTP method, path and query.
    pub line: (http::Method, String),
    pub headers: HeaderMap,
    pub raw: String,
    pub json: Value,
    /// How many came before.
    pub before: usize,
    /// How many of them were sends.
    pub sends: usize,
}

impl Seen {
    /// The method of JSON-RPC; of HTTP+JSON, 1.0's name of the operation.
    pub fn method(&self) -> &str {
        let path = self.line.1.split('?').next().unwrap_or_default();
        match path.rsplit_once(':').map(|(_, verb)| verb) {
            Some("send") => "SendMessage",
            Some("stream") => "SendStreamingMessage",
            Some("cancel") => "CancelTask",
            Some("subscribe") => "SubscribeToTask",
            _ if path.contains("/tasks/") => "GetTask",
            _ => self.json["method"].as_str().unwrap_or_default(),
        }
    }

    pub fn is_send(&self) -> bool {
        matches!(self.method(), "message/send" | "SendMessage" | "message/stream" | "SendStreamingMessage")
    }

    pub fn message(&self) -> &Value {
        if self.json["params"].is_null() { &self.json["message"] } else { &self.json["params"]["message"] }
    }

    /// What stands under the extension URI in the message's metadata.
    pub fn entry(&self) -> &Value {
        &self.message()["metadata"][URI]
    }

    /// The text of the message's text parts.
    pub fn text(&self) -> String {
        let message = self.message();
        let parts = message["parts"].as_array().or(message["content"].as_array()).cloned().unwrap_or_default();
        parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

type Script = dyn Fn(Seen) -> BoxFuture<'static, Result<Response<AgentBody>, BoxError>> + Send + Sync;

/// An agent that does what its script says, and remembers what it was sent.
#[derive(Clone)]
pub struct Agent {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub const URI: &str = "https://github.com/a2aproject/A2A/issues/2061#v1";

pub fn body(bytes: impl Into<Bytes>) -> AgentBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn json_response(value: &Value) -> Response<AgentBody> {
    let mut response = Response::new(body(value.to_string()));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

impl Agent {
    /// An agent whose answers are made by an async function.
    pub fn scripted<F, A>(script: F) -> Self
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Response<AgentBody>, BoxError>> + Send + 'static,
    {
        Self { script: Arc::new(move |seen| Box::pin(script(seen))), seen: Arc::default() }
    }

    /// An agent that answers JSON at once; the request's id is put into the answer.
    pub fn answering(answer: impl Fn(&Seen) -> Value + Send + Sync + 'static) -> Self {
        Self::scripted(move |seen| {
            let mut value = answer(&seen);
            value["id"] = seen.json["id"].clone();
            value["jsonrpc"] = json!("2.0");
            async move { Ok(json_response(&value)) }
        })
    }

    /// An agent of 0.3 that answers every send with a completed task of its own and one artifact with the text that `say` gives.
    pub fn saying(say: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        Self::answering(move |seen| json!({ "result": completed(seen, &say(seen)) }))
    }

    /// An agent of 0.3 that answers every send as [`saying`](Self::saying) does, and keeps its tasks: they can be asked for and cancelled.
    pub fn keeping(task: impl Fn(&Seen) -> Value + Send + Sync + 'static) -> Self {
        let tasks: Mutex<HashMap<String, Value>> = Mutex::default();
        Self::answering(move |seen| {
            let mut tasks = tasks.lock().unwrap();
            let id = seen.json["params"]["id"].as_str().unwrap_or_default().to_owned();
            match (seen.method(), tasks.get_mut(&id)) {
                ("tasks/get" | "GetTask", Some(task)) => json!({ "result": task }),
                ("tasks/cancel" | "CancelTask", Some(task)) => {
                    let open = ["submitted", "working", "input-required", "auth-required"];
                    if !open.contains(&task["status"]["state"].as_str().unwrap_or_default()) {
                        return json!({ "error": { "code": -32002, "message": "not cancelable" } });
                    }
                    task["status"] = json!({ "state": "canceled" });
                    json!({ "result": task })
                }
                _ if seen.is_send() => {
                    let task = task(seen);
                    tasks.insert(task["id"].as_str().unwrap_or_default().to_owned(), task.clone());
                    json!({ "result": task })
                }
                _ => json!({ "error": { "code": -32001, "message": "Task not found" } }),
            }
        })
    }

    /// An agent that answers the n-th send with the n-th of these texts as they are, and with the last one from then on; `ID` stands for the
    /// request's id.
    pub fn raw(answers: &[&str]) -> Self {
        let answers: Vec<_> = answers.iter().map(|&answer| answer.to_owned()).collect();
        Self::scripted(move |seen| {
            let answer = answers[seen.before.min(answers.len() - 1)].replace("ID", &seen.json["id"].to_string());
            async move {
                let mut response = Response::new(body(answer));
                response.headers_mut().insert("content-type", "application/json".parse().unwrap());
                Ok(response)
            }
        })
    }

    /// The sends that reached it.
    pub fn sends(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_send).collect()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn last(&self) -> Seen {
        self.seen().pop().expect("the agent was called")
    }

    pub fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// A completed task of 0.3 whose id counts up; its contextId is the client's, or the agent's own.
pub fn completed(seen: &Seen, text: &str) -> Value {
    let context = seen.json["params"]["message"]["contextId"].as_str().unwrap_or("agent-context").to_owned();
    json!({
        "kind": "task", "id": format!("u-{}", seen.before + 1), "contextId": context, "status": { "state": "completed" },
        "artifacts": [{ "artifactId": "response", "parts": [{ "kind": "text", "text": text }] }],
    })
}

impl tower::Service<Request<RequestBody>> for Agent {
    type Response = Response<AgentBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AgentBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let raw = body.collect().await?.to_bytes();
            let raw = String::from_utf8_lossy(&raw).into_owned();
            let json = serde_json::from_str(&raw).unwrap_or(Value::Null);
            let seen = {
                let mut all = this.seen.lock().unwrap();
                let sends = all.iter().filter(|seen: &&Seen| seen.is_send()).count();
                let target = head.uri.path_and_query().map(|target| target.as_str().to_owned());
                let line = (head.method, target.unwrap_or_default());
                let seen = Seen { line, headers: head.headers, raw, json, before: all.len(), sends };
                all.push(seen.clone());
                seen
            };
            (this.script)(seen).await
        })
    }
}

pub fn memory() -> Arc<dyn Store> {
    let limits = Limits::default();
    Arc::new(Memory::new(limits, [7; 32]))
}

/// A proxy: the layer around an agent.
#[derive(Clone)]
pub struct Proxy {
    service: Conversation<Agent>,
    pub layer: ConversationLayer,
    pub store: Arc<dyn Store>,
    pub principal: Option<Principal>,
    pub route: Option<RouteId>,
    pub headers: Vec<(&'static str, String)>,
}

impl Proxy {
    pub fn new(agent: &Agent) -> Self {
        Self::with(agent, Policy::default())
    }

    pub fn with(agent: &Agent, policy: Policy) -> Self {
        Self::over(agent, policy, memory())
    }

    pub fn over(agent: &Agent, policy: Policy, store: Arc<dyn Store>) -> Self {
        Self::around(agent, ConversationLayer::new(policy, Arc::clone(&store)), store)
    }

    pub fn around(agent: &Agent, layer: ConversationLayer, store: Arc<dyn Store>) -> Self {
        let service = layer.layer(agent.clone());
        Self { service, layer, store, principal: None, route: None, headers: Vec::new() }
    }

    pub fn timed(agent: &Agent, policy: Policy, clock: &Arc<TestClock>) -> Self {
        let store = memory();
        let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
        let layer = ConversationLayer::with_clock(policy, Arc::clone(&store), clock);
        let service = layer.layer(agent.clone());
        Self { service, layer, store, principal: None, route: None, headers: Vec::new() }
    }

    /// The extension, activated by header.
    pub fn active(&self) -> Self {
        self.with_header("a2a-extensions", URI)
    }

    pub fn service(&self) -> Conversation<Agent> {
        self.service.clone()
    }

    pub fn as_principal(&self, name: &str) -> Self {
        Self { principal: Some(name.into()), ..self.clone() }
    }

    pub fn on_route(&self, name: &str) -> Self {
        Self { route: Some(name.into()), ..self.clone() }
    }

    pub fn with_header(&self, name: &'static str, value: &str) -> Self {
        let mut this = self.clone();
        this.headers.push((name, value.to_owned()));
        this
    }

    pub fn request(&self, raw: impl Into<Bytes>) -> Request<Full<Bytes>> {
        self.request_to(http::Method::POST, "/", raw)
    }

    pub fn request_to(&self, method: http::Method, target: &str, raw: impl Into<Bytes>) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri(target);
        let mut request = request.header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(Full::new(raw.into())).unwrap();
        if let Some(principal) = &self.principal {
            request.extensions_mut().insert(principal.clone());
        }
        if let Some(route) = &self.route {
            request.extensions_mut().insert(route.clone());
        }
        request
    }

    pub async fn response(&self, raw: impl Into<Bytes>) -> Response<ReplyBody> {
        self.service.clone().oneshot(self.request(raw)).await.unwrap()
    }

    pub async fn response_to(&self, method: http::Method, target: &str, raw: impl Into<Bytes>) -> Response<ReplyBody> {
        self.service.clone().oneshot(self.request_to(method, target, raw)).await.unwrap()
    }

    pub async fn raw(&self, raw: impl Into<Bytes>) -> String {
        let bytes = self.response(raw).await.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub async fn call(&self, request: &Value) -> Value {
        let raw = self.raw(request.to_string()).await;
        serde_json::from_str(&raw).unwrap_or_else(|_| panic!("no JSON: {raw}"))
    }

    /// The events of a streaming call.
    pub async fn events(&self, request: &Value) -> Vec<Value> {
        events(&self.raw(request.to_string()).await)
    }

    /// Sends a text in 0.3 and returns the result.
    pub async fn send(&self, text: &str, ids: Value) -> Value {
        let answer = self.call(&send_03(text, ids)).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }
}

/// A clock that stands still until it is put forward.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_800_000_000_000)))
    }

    pub fn forward(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A policy, changed from the default.
pub fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy);
    policy
}

/// A task of 0.3 in a state, with further members.
pub fn task_03(id: &str, state: &str, more: Value) -> Value {
    let mut task = json!({ "kind": "task", "id": id, "contextId": "c", "status": { "state": state } });
    task.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    task
}

/// An artifact of one text.
pub fn artifact_03(id: &str, text: &str) -> Value {
    json!({ "artifactId": id, "parts": [{ "kind": "text", "text": text }] })
}

/// Whether an answer is the refusal because a turn is in flight: the task of 0.3 or 1.0.
pub fn is_busy(answer: &Value) -> bool {
    let task = answer["result"].get("task").unwrap_or(&answer["result"]);
    task["metadata"][URI]["reason"] == "context_busy"
}

pub fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("no state: {task}"))
}

/// What a task tells under the extension URI.
pub fn told(task: &Value) -> &Value {
    &task["metadata"][URI]
}

pub fn events(raw: &str) -> Vec<Value> {
    let data = raw.split("\n\n").map(|event| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
    });
    data.filter(|data| !data.is_empty())
        .map(|data| serde_json::from_str(&data).unwrap_or_else(|_| panic!("{data}")))
        .collect()
}

/// A message of 0.3; `ids` are further members of the message.
pub fn message_03(text: &str, ids: Value) -> Value {
    let mut message = json!({
        "kind": "message", "messageId": uuid::Uuid::new_v4().to_string(), "role": "user", "parts": [{ "kind": "text", "text": text }],
    });
    message.as_object_mut().unwrap().extend(ids.as_object().cloned().unwrap_or_default());
    message
}

pub fn send_03(text: &str, ids: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": message_03(text, ids) } })
}

pub fn get_03(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "g", "method": "tasks/get", "params": { "id": id } })
}

pub fn cancel_03(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "x", "method": "tasks/cancel", "params": { "id": id } })
}

/// A message of 1.0; `ids` are further members of the message.
pub fn message_10(text: &str, ids: Value) -> Value {
    let mut message = json!({
        "messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{ "text": text }],
    });
    message.as_object_mut().unwrap().extend(ids.as_object().cloned().unwrap_or_default());
    message
}

pub fn send_10(text: &str, ids: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message_10(text, ids) } })
}

pub fn list_10(params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "l", "method": "ListTasks", "params": params })
}
