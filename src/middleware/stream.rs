//! A streamed turn: events go on as they come, the closing one when the turn has settled, and nothing behind it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::agent::AgentBody;
use super::body::ReplyBody;
use super::core::{mint, timestamp};
use super::respond;
use super::send::{Exchange, Reply, Running, is_ambiguous, wrapped};
use super::settle::{Ended, end, fail};
use crate::a2a::jsonrpc::{self, Verb};
use crate::a2a::{Dialect, Payload, Shape, State};
use crate::conversation::policy::OnDisconnect;
use crate::exchange::{Refusal, Send};
use crate::json::{Doc, Edits, quote};
use crate::sse::{Event, Splitter};
use crate::turn::{Tail, spliced_id, task_of_message};

/// So long a client hears nothing before it hears that the connection stands.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// So long the rest of a stream is read behind its closing event, so that the agent is not cut off and its connection can be used again.
const REST: Duration = Duration::from_secs(2);

/// So often a cut stream is taken up again.
const SUBSCRIPTIONS: usize = 3;

impl Exchange {
    /// The answer to a streaming send: its head now, its events as they come.
    pub(super) fn stream(
        self,
        send: &Send<'_, '_>,
        running: Running,
        answer: Response<AgentBody>,
    ) -> Response<ReplyBody> {
        let (mut head, body) = answer.into_parts();
        respond::drop_framing(&mut head.headers);
        head.headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        let finishes = self.core.policy.on_disconnect == OnDisconnect::Finish;
        let tracker = finishes.then(|| self.core.tracker.clone());
        let (out, pieces) = mpsc::channel(1);
        let limit = self.core.policy.limits.reply_bytes;
        let mut response = Response::from_parts(head, ReplyBody::empty());
        self.debug(&mut response, &running, None);
        let pump = Pump {
            exchange: self,
            running,
            id: send.call.id.to_owned(),
            splitter: Splitter::new(limit),
            out,
            tail: Tail::default(),
            seen: Vec::new(),
            dialect: send.call.dialect,
            began: false,
        };
        response.map(|_| ReplyBody::pumped(Box::pin(pump.run(body)), pieces, tracker))
    }
}

/// Reads a stream of the agent's, and writes the client's.
struct Pump {
    exchange: Exchange,
    running: Running,
    /// The JSON-RPC id of the request, as JSON.
    id: String,
    splitter: Splitter,
    out: mpsc::Sender<Bytes>,
    tail: Tail,
    /// The artifacts that the client has seen of this turn: ids at the agent.
    seen: Vec<String>,
    /// The dialect in which events are made.
    dialect: Dialect,
    /// Whether an event went out.
    began: bool,
}

/// What becomes of a stream after an event.
enum Next {
    /// More is awaited.
    More,
    /// The closing event went out, or there is nothing more to say.
    Done,
}

/// How the reading of a body ended.
enum Cut {
    /// After its closing event.
    Closed,
    /// Before it.
    Early,
}

impl Pump {
    async fn run(mut self, mut body: AgentBody) {
        for _ in 0..=SUBSCRIPTIONS {
            match self.read(&mut body).await {
                Cut::Closed => {
                    // The client's stream ends here and now; the agent's is read on without it.
                    drop(self);
                    return drain(body).await;
                }
                Cut::Early => match self.after_cut().await {
                    Some(next) => body = next,
                    None => return,
                },
            }
        }
        self.fail("the agent's stream was cut again and again").await;
    }

    /// Reads events until the closing one, or until the stream ends without.
    async fn read(&mut self, body: &mut AgentBody) -> Cut {
        loop {
            match self.splitter.take() {
                Ok(Some(event)) => match self.event(event).await {
                    Next::More => continue,
                    Next::Done => return Cut::Closed,
                },
                Ok(None) => {}
                Err(error) => {
                    self.fail(&format!("the agent's stream cannot be read: {error}")).await;
                    return Cut::Closed;
                }
            }
            let frame =
                self.running.guard.renewing(next_frame(body, &self.out, self.exchange.core.policy.timeouts.idle)).await;
            match frame {
                Some(Ok(data)) => self.splitter.push(&data),
                Some(Err(error)) => {
                    tracing::debug!(%error, "the agent's stream broke off");
                    return Cut::Early;
                }
                None => return Cut::Early,
            }
        }
    }

    async fn event(&mut self, event: Event) -> Next {
        let Some(data) = event.data().filter(|data| !data.is_empty()) else {
            // A comment, or a field that says nothing of A2A.
            self.write(event.raw).await;
            return Next::More;
        };
        let Ok(doc) = Doc::scan(&data) else {
            self.fail("the agent sent an event that is no JSON").await;
            return Next::Done;
        };
        let root = doc.root();
        if root.some("error").is_some() {
            return self.error_event(&event, &doc).await;
        }
        if is_ambiguous(root) {
            self.fail("the agent sent an event in which a member stands twice").await;
            return Next::Done;
        }
        let Some((payload, shape)) = root.some("result").and_then(Payload::read) else {
            // Something that the protocol does not have yet.
            self.write(event.raw).await;
            return Next::More;
        };
        self.payload(&event, &doc, &payload, shape).await
    }

    async fn error_event(&mut self, event: &Event, doc: &Doc<'_>) -> Next {
        fail(&self.exchange.core, &mut self.running, "the agent answered with an error").await;
        let mut edits = Edits::new();
        spliced_id(&mut edits, doc.root(), &self.id);
        self.write_edited(event, doc, edits).await;
        Next::Done
    }

    async fn payload(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape) -> Next {
        self.running.turn.hear(payload, shape);
        self.dialect = if shape.wrapped { Dialect::V10 } else { shape.dialect };
        if !self.bind(payload).await {
            return Next::Done;
        }
        let ends = payload.state().is_some_and(State::settles) || matches!(payload, Payload::Message(_));
        if !ends {
            return self.pass(event, doc, payload, shape).await;
        }
        self.release_tail(true).await;
        if let Some(bound) = self.running.bound.clone().filter(|_| self.running.turn.lacks_reply()) {
            self.exchange.look_for_reply(&mut self.running, &bound).await;
        }
        let ended = end(&self.exchange.core, &mut self.running).await;
        self.close(event, doc, payload, shape, &ended).await;
        Next::Done
    }

    /// Ties the agent's ids to the client's before the first byte goes out that shows them. Whether the stream can go on.
    async fn bind(&mut self, payload: &Payload<'_, '_>) -> bool {
        let known = self.running.bound.as_ref().is_some_and(|bound| !bound.upstream_task.is_empty());
        if known || (self.running.bound.is_some() && payload.task_id().is_none()) {
            return true;
        }
        let bind = self.running.bind(payload);
        match self.running.guard.bind(bind).await {
            Ok(bound) => {
                self.running.context_id = Some(bound.context_id.clone());
                self.running.bound = Some(bound);
                true
            }
            Err(error) => {
                tracing::error!(%error, "a turn's ids could not be kept");
                self.write_line(&Refusal::not_recorded().json_rpc(&self.id)).await;
                false
            }
        }
    }

    /// An event that closes nothing: as it came, but for ids and what may be a marker.
    async fn pass(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape) -> Next {
        let mut edits = Edits::new();
        spliced_id(&mut edits, doc.root(), &self.id);
        match payload {
            Payload::ArtifactUpdate(update) => {
                let id = update.artifact.some("artifactId").and_then(|id| id.str()).unwrap_or_default();
                if !self.tail.goes_on(&id, update.appends()) {
                    self.release_tail(false).await;
                }
                if !self.seen.iter().any(|seen| *seen == id) {
                    self.seen.push(id.clone().into_owned());
                }
                self.hold_tail(&mut edits, &id, update.appends(), update.artifact);
            }
            _ => self.release_tail(false).await,
        }
        let first = !self.began;
        if let Some(bound) = &self.running.bound {
            // A stream's first task carries the chain's history and no earlier artifacts; a later one neither.
            let view = self.running.view(&self.exchange.core, bound, false);
            let view = if first { view } else { crate::turn::View { history_length: Some(0), ..view } };
            view.show(&mut edits, payload, shape.dialect, None);
        }
        self.write_edited(event, doc, edits).await;
        Next::More
    }

    /// Shortens the last text of an artifact's piece by what may be a marker, and puts what was held before in front of its first.
    fn hold_tail(&mut self, edits: &mut Edits, id: &str, append: bool, artifact: crate::json::Value<'_, '_>) {
        let settings = &self.exchange.core.policy.rewrite.question;
        if settings.level == crate::conversation::question::Level::Off || settings.markers.is_empty() {
            return;
        }
        let parts = artifact.some("parts").into_iter().flat_map(|parts| parts.elements());
        let texts: Vec<_> = parts.filter_map(|part| part.some("text")).collect();
        for (at, value) in texts.iter().enumerate() {
            let Some(text) = value.str() else { continue };
            let passed = self.tail.pass(id, append || at > 0, &text, &settings.markers);
            edits.set_string(*value, &passed);
        }
    }

    /// What was held back turns out to be text: it goes out in an event of its own.
    async fn release_tail(&mut self, at_end: bool) {
        let markers = &self.exchange.core.policy.rewrite.question.markers;
        let Some((artifact, text)) = self.tail.release(at_end, markers) else { return };
        let Some(bound) = &self.running.bound else { return };
        let id = self.running.turn.chain.artifact_id(&artifact);
        let part = crate::a2a::write_part(&crate::a2a::Part::Text(text), self.dialect);
        let artifact = format!("{{\"artifactId\":{},\"parts\":[{part}]}}", quote(&id));
        let event = artifact_update(self.dialect, (&bound.task_id, &bound.context_id), &artifact, true);
        self.write_result("artifactUpdate", &event).await;
    }

    async fn close(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape, ended: &Ended) {
        let Some(bound) = self.running.bound.clone() else { return };
        let told = ended.told();
        if let (Payload::Message(_), Some(turn), false) = (payload, ended.turn.as_deref(), bound.task_id.is_empty()) {
            // A message that answers an open task is reported as that task.
            let view = self.running.view(&self.exchange.core, &bound, false);
            let task = task_of_message(&view, turn, self.dialect, &told, &timestamp(turn.settled_at));
            self.write_result("task", &task).await;
            return;
        }
        let mut edits = Edits::new();
        spliced_id(&mut edits, doc.root(), &self.id);
        let view = self.running.view(&self.exchange.core, &bound, !self.began);
        view.show(&mut edits, payload, shape.dialect, Some(&told));
        self.write_edited(event, doc, edits).await;
    }

    /// The stream ended and the turn did not: the agent is asked once. The stream to go on with, where the turn is still under way.
    async fn after_cut(&mut self) -> Option<AgentBody> {
        if self.running.turn.state() == Some(State::AuthRequired) {
            // Ends so legitimately: the turn waits for its authorisation.
            if let Err(error) = self.running.leave_unsettled(self.exchange.core.now()).await {
                tracing::error!(%error, "a waiting turn could not be kept");
            }
            return None;
        }
        let Some(bound) = self.running.bound.clone().filter(|bound| !bound.upstream_task.is_empty()) else {
            self.fail("the agent's stream ended before the task was known").await;
            return None;
        };
        let dialect = self.running.turn.opening.dialect;
        let within = self.exchange.core.policy.timeouts.look;
        let answer = self.running.guard.renewing(self.exchange.agent.task(&bound.upstream_task, dialect, within)).await;
        let body = answer.ok().map(|answer| answer.body).unwrap_or_default();
        let Reply::Result(doc) = Reply::read(&body, true) else {
            self.fail("the agent's stream was cut, and the agent does not know how the task ended").await;
            return None;
        };
        match doc.root().get("result").and_then(Payload::read) {
            Some((payload @ Payload::Task(task), shape)) if task.state().settles() => {
                self.running.turn.hear(&payload, shape);
                self.close_from_snapshot(task).await;
                None
            }
            Some((Payload::Task(_), _)) => self.subscribe(&bound.upstream_task).await,
            _ => {
                self.fail("the agent's stream was cut, and what it says of the task cannot be read").await;
                None
            }
        }
    }

    /// Tells the end of a turn that only a snapshot shows: artifacts that the client has not seen, and a closing event; no second task.
    async fn close_from_snapshot(&mut self, task: crate::a2a::Task<'_, '_>) {
        self.release_tail(true).await;
        let ended = end(&self.exchange.core, &mut self.running).await;
        let Some(bound) = self.running.bound.clone() else { return };
        let mut events = Vec::new();
        let view = self.running.view(&self.exchange.core, &bound, false);
        for artifact in task.artifacts() {
            let id = artifact.some("artifactId").and_then(|id| id.str()).unwrap_or_default();
            if !self.seen.iter().any(|seen| *seen == id) {
                events.push(artifact_update(
                    self.dialect,
                    (&bound.task_id, &bound.context_id),
                    &view.artifact(artifact),
                    false,
                ));
            }
        }
        let closing = view.closing(&ended.told(), self.dialect, &timestamp(self.exchange.core.now()));
        for event in events {
            self.write_result("artifactUpdate", &event).await;
        }
        self.write_result("statusUpdate", &closing).await;
    }

    async fn subscribe(&mut self, upstream: &str) -> Option<AgentBody> {
        let method = Verb::Subscribe.method(self.running.turn.opening.dialect);
        let request = jsonrpc::request(&quote(&mint()), method, &format!("{{\"id\":{}}}", quote(upstream)));
        let got = self.running.guard.renewing(self.exchange.agent.exchange(request.into(), true)).await;
        if let Ok(super::agent::Got::Stream(answer)) = got {
            self.splitter = Splitter::new(self.exchange.core.policy.limits.reply_bytes);
            return Some(answer.into_body());
        }
        self.fail("the agent's stream was cut and could not be taken up again").await;
        None
    }

    /// The turn came to nothing: it is kept apart, and the client told in a closing event.
    async fn fail(&mut self, why: &str) {
        let ended = fail(&self.exchange.core, &mut self.running, why).await;
        match (ended, self.running.bound.clone().filter(|bound| !bound.task_id.is_empty())) {
            (Some(ended), Some(bound)) => {
                let view = self.running.view(&self.exchange.core, &bound, false);
                let closing = view.closing(&ended.told(), self.dialect, &timestamp(self.exchange.core.now()));
                self.write_result("statusUpdate", &closing).await;
            }
            _ => self.write_line(&Refusal::malformed(why).json_rpc(&self.id)).await,
        }
    }

    async fn write_edited(&mut self, event: &Event, doc: &Doc<'_>, edits: Edits) {
        if edits.is_empty() {
            self.write(event.raw.clone()).await;
        } else {
            let data = one_line(edits.apply(doc.text()));
            self.write(event.with_data(&data)).await;
        }
        self.began = true;
    }

    async fn write_result(&mut self, name: &str, noun: &str) {
        let result = wrapped(name, noun, self.dialect);
        self.write_line(&jsonrpc::result(&self.id, &result)).await;
    }

    async fn write_line(&mut self, json: &str) {
        self.write(crate::exchange::sse_event(json).into_bytes()).await;
        self.began = true;
    }

    /// One write an event. A client that has left hears nothing more; the turn goes on to its end.
    async fn write(&mut self, bytes: Vec<u8>) {
        let _ = self.out.send(bytes.into()).await;
    }
}

/// JSON on one line: where it was pretty-printed, line ends stand between its values alone.
fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// The next piece of a body. In silence the client is told that the connection stands; too long a silence is an end.
async fn next_frame(
    body: &mut AgentBody,
    out: &mpsc::Sender<Bytes>,
    idle: Duration,
) -> Option<Result<Bytes, super::BoxError>> {
    let mut waited = Duration::ZERO;
    loop {
        let step = KEEP_ALIVE.min(idle.saturating_sub(waited));
        match tokio::time::timeout(step, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => return Some(Err(error)),
            Ok(None) => return None,
            Err(_) => {
                waited += step;
                if waited >= idle {
                    return Some(Err("the agent was silent for too long".into()));
                }
                let _ = out.try_send(Bytes::from_static(b": keep-alive\n\n"));
            }
        }
    }
}

/// Reads what is left of a stream behind its closing event, for a while.
async fn drain(mut body: AgentBody) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(REST, rest).await;
}

/// A piece of an artifact, written.
fn artifact_update(dialect: Dialect, (task_id, context_id): (&str, &str), artifact: &str, append: bool) -> String {
    let ids = format!("\"taskId\":{},\"contextId\":{}", quote(task_id), quote(context_id));
    match dialect {
        Dialect::V03 => format!(
            "{{\"kind\":\"artifact-update\",{ids},\"artifact\":{artifact},\"append\":{append},\"lastChunk\":true}}"
        ),
        Dialect::V10 => format!("{{{ids},\"artifact\":{artifact},\"append\":{append},\"lastChunk\":true}}"),
    }
}
