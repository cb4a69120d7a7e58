//! An agent whose streams are given frame by frame, and a client that reads them event by event.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::middleware::{BoxError, Clock, ConversationLayer, ReplyBody};
use a2a_multiturn::store::Store;
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Agent, AgentBody, Proxy, Seen, body, json_response, memory, message_03};

/// What an agent answers to GetTask.
#[derive(Clone, Debug)]
pub enum Known {
    Task(Value),
    NotFound,
    Silent,
}

#[derive(Default)]
struct Plans {
    streams: VecDeque<Response<AgentBody>>,
    subscriptions: VecDeque<Response<AgentBody>>,
    known: Option<Known>,
    canceled: Option<Value>,
}

/// What the agent is going to do.
#[derive(Clone, Default)]
pub struct Stage(Arc<Mutex<Plans>>);

impl Stage {
    pub fn agent(&self) -> Agent {
        let this = self.clone();
        Agent::scripted(move |seen| {
            let answer = this.answer(&seen);
            async move {
                match answer {
                    Some(answer) => Ok(answer),
                    None => std::future::pending().await,
                }
            }
        })
    }

    fn answer(&self, seen: &Seen) -> Option<Response<AgentBody>> {
        let mut plans = self.0.lock().unwrap();
        let error = |code: i32| json!({ "error": { "code": code, "message": "no" } });
        let answer = match seen.method() {
            "message/stream" | "SendStreamingMessage" | "message/send" | "SendMessage" => {
                return Some(plans.streams.pop_front().expect("a stream was given"));
            }
            "tasks/resubscribe" | "SubscribeToTask" => match plans.subscriptions.pop_front() {
                Some(stream) => return Some(stream),
                None => error(-32004),
            },
            "tasks/cancel" | "CancelTask" => json!({ "result": plans.canceled.clone()? }),
            _ => match plans.known.clone() {
                Some(Known::Task(task)) => json!({ "result": task }),
                Some(Known::Silent) => return None,
                Some(Known::NotFound) | None => error(-32001),
            },
        };
        let mut answer = answer;
        if seen.line.1 != "/" {
            let found = answer.get("result").cloned();
            let mut response = json_response(found.as_ref().unwrap_or(&json!({ "message": "Task not found" })));
            *response.status_mut() = if found.is_some() { http::StatusCode::OK } else { http::StatusCode::NOT_FOUND };
            return Some(response);
        }
        answer["id"] = seen.json["id"].clone();
        answer["jsonrpc"] = json!("2.0");
        Some(json_response(&answer))
    }

    /// A stream for the next streaming send.
    pub fn stream(&self) -> Feed {
        let (feed, response) = feed();
        self.0.lock().unwrap().streams.push_back(response);
        feed
    }

    /// A stream that is there as a whole.
    pub fn whole(&self, raw: impl Into<Bytes>) {
        self.pieces(vec![raw.into()]);
    }

    /// A stream that comes in these pieces.
    pub fn pieces(&self, pieces: Vec<Bytes>) {
        let feed = self.stream();
        pieces.into_iter().for_each(|piece| feed.bytes(piece));
    }

    /// Any answer to the next send.
    pub fn answer_with(&self, response: Response<AgentBody>) {
        self.0.lock().unwrap().streams.push_back(response);
    }

    /// A stream for the next subscription.
    pub fn subscription(&self) -> Feed {
        let (feed, response) = feed();
        self.0.lock().unwrap().subscriptions.push_back(response);
        feed
    }

    pub fn knows(&self, known: Known) {
        self.0.lock().unwrap().known = Some(known);
    }

    pub fn cancels_with(&self, task: Value) {
        self.0.lock().unwrap().canceled = Some(task);
    }
}

fn feed() -> (Feed, Response<AgentBody>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut response = Response::new(Fed(receiver).boxed_unsync());
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    (Feed(sender), response)
}

/// The agent's end of a stream; dropped, the stream ends.
pub struct Feed(mpsc::UnboundedSender<Result<Bytes, BoxError>>);

impl Feed {
    pub fn bytes(&self, bytes: impl Into<Bytes>) {
        let _ = self.0.send(Ok(bytes.into()));
    }

    /// An event with this result.
    pub fn result(&self, result: &Value) {
        self.bytes(event(result));
    }

    /// The connection breaks.
    pub fn breaks(self) {
        let _ = self.0.send(Err("the connection was reset".into()));
    }

    /// Returns once nobody reads the stream any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

struct Fed(mpsc::UnboundedReceiver<Result<Bytes, BoxError>>);

impl Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

/// An event of the agent's: the request's id is 1 throughout.
pub fn event(result: &Value) -> String {
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }))
}

/// The events of 0.3 of one task.
#[derive(Clone)]
pub struct Task03(pub &'static str, pub &'static str);

impl Task03 {
    pub fn task(&self, state: &str) -> Value {
        json!({ "kind": "task", "id": self.0, "contextId": self.1, "status": { "state": state } })
    }

    pub fn status(&self, state: &str) -> Value {
        let last = !matches!(state, "working" | "submitted");
        json!({ "kind": "status-update", "taskId": self.0, "contextId": self.1, "final": last, "status": { "state": state } })
    }

    pub fn said(&self, state: &str, text: &str) -> Value {
        let mut update = self.status(state);
        update["status"]["message"] = json!({
            "kind": "message", "messageId": format!("m-{}", self.0), "role": "agent", "parts": [{ "kind": "text", "text": text }],
        });
        update
    }

    pub fn piece(&self, artifact: &str, text: &str, append: bool) -> Value {
        json!({
            "kind": "artifact-update", "taskId": self.0, "contextId": self.1, "append": append, "lastChunk": false,
            "artifact": { "artifactId": artifact, "parts": [{ "kind": "text", "text": text }] },
        })
    }

    pub fn with_artifact(&self, state: &str, text: &str) -> Value {
        let mut task = self.task(state);
        task["artifacts"] = json!([{ "artifactId": "response", "parts": [{ "kind": "text", "text": text }] }]);
        task
    }

    /// A whole reply: a task, its text in one artifact, the end.
    pub fn reply(&self, text: &str) -> String {
        [self.task("submitted"), self.status("working"), self.piece("response", text, false), self.status("completed")]
            .iter()
            .map(event)
            .collect()
    }
}

pub fn stream_03(text: &str, ids: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": message_03(text, ids) } })
}

pub fn resubscribe(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "sub", "method": "tasks/resubscribe", "params": { "id": id } })
}

pub fn cancel(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "x", "method": "tasks/cancel", "params": { "id": id } })
}

/// A client that reads a stream.
pub struct Reader {
    body: ReplyBody,
    buffer: Vec<u8>,
}

impl Reader {
    pub async fn open(proxy: &Proxy, request: &Value) -> Self {
        let response = proxy.response(request.to_string()).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next event's bytes; `None` at the end.
    pub async fn raw(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let rest = self.buffer.split_off(at + 2);
                return Some(String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap());
            }
            match self.body.frame().await {
                Some(frame) => self.buffer.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                None => {
                    assert!(self.buffer.is_empty(), "the stream ends amid an event");
                    return None;
                }
            }
        }
    }

    /// The next event that is no comment.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let raw = self.raw().await?;
            if let Some(event) = crate::support::events(&raw).pop() {
                return Some(event);
            }
        }
    }

    pub async fn result(&mut self) -> Value {
        self.next().await.expect("another event")["result"].take()
    }

    /// All that is left.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

/// Time as tokio has it, so that it can be paused.
pub struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub fn start() -> Arc<Self> {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> u64 {
        1_800_000_000_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

/// A proxy whose clock is tokio's.
pub fn timed(agent: &Agent, policy: Policy, store: Arc<dyn Store>) -> Proxy {
    Proxy::around(agent, ConversationLayer::with_clock(policy, Arc::clone(&store), TokioClock::start()), store)
}

pub fn proxy(stage: &Stage) -> (Proxy, Agent) {
    with(stage, Policy::default())
}

pub fn with(stage: &Stage, policy: Policy) -> (Proxy, Agent) {
    let agent = stage.agent();
    (timed(&agent, policy, memory()), agent)
}

/// The state that an event tells.
pub fn state(event: &Value) -> &str {
    let result = event.get("result").unwrap_or(event);
    let inside = ["task", "statusUpdate"].iter().find_map(|name| result.get(name)).unwrap_or(result);
    inside["status"]["state"].as_str().unwrap_or_default()
}

/// The text of an artifact as a client has it that reads all events.
pub fn text_of(events: &[Value], artifact: &str) -> String {
    let mut text = String::new();
    for event in events {
        let result = event.get("result").unwrap_or(event);
        let update = result.get("artifactUpdate").unwrap_or(result);
        let task = result.get("task").unwrap_or(result);
        let whole = task["artifacts"].as_array().cloned().unwrap_or_default();
        for found in whole.iter().chain(update.get("artifact")).filter(|found| found["artifactId"] == artifact) {
            if update["append"] != true {
                text.clear();
            }
            let parts = found["parts"].as_array().cloned().unwrap_or_default();
            parts.iter().for_each(|part| text += part["text"].as_str().unwrap_or_default());
        }
    }
    text
}

/// The next turn in the context is taken, and its message is given what `history` says of the turn before.
pub async fn goes_on(proxy: &Proxy, stage: &Stage, agent: &Agent, context: &str) -> String {
    let next = Task03("next", "agent-context");
    stage.whole(next.reply("Fine."));
    let events = proxy.events(&stream_03("and now?", json!({ "contextId": context }))).await;
    let last = events.last().expect("an answer");
    assert_eq!(state(last), "completed", "{events:?}");
    agent.last().text()
}

/// Everything that outlived its request has ended.
pub async fn settles_down(proxy: &Proxy) {
    tokio::time::timeout(Duration::from_secs(30), proxy.layer.drained()).await.expect("nothing goes on");
}

pub fn sse(raw: impl Into<Bytes>) -> Response<AgentBody> {
    let mut response = Response::new(body(raw));
    response.headers_mut().insert("content-type", "text/event-stream; charset=utf-8".parse().unwrap());
    response
}

/// The events of a streaming call, whatever its line ends.
pub async fn played(proxy: &Proxy, request: &Value) -> Vec<Value> {
    let raw = proxy.raw(request.to_string()).await;
    crate::support::events(&raw.replace("\r\n", "\n").replace('\r', "\n"))
}

/// A body that is there once `bytes` are.
pub fn late(bytes: impl Future<Output = Result<Bytes, BoxError>> + Send + 'static) -> AgentBody {
    let frames = futures_util::stream::once(async move { Ok(Frame::data(bytes.await?)) });
    http_body_util::StreamBody::new(frames).boxed_unsync()
}
