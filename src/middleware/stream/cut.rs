//! A stream that ended and a turn that did not: the agent is asked how it stands, and its stream taken up again.

use std::sync::Arc;

use super::{Next, Origin, Pump};
use crate::a2a::{Dialect, Payload, Shape, State, Task, text_of};
use crate::conversation::policy;
use crate::conversation::question::Level;
use crate::conversation::reply::{Heard, Hearing};
use crate::exchange::{Refusal, sse_event};
use crate::json::{Doc, Value};
use crate::middleware::agent::{AgentBody, Answer, Got};
use crate::middleware::core::timestamp;
use crate::middleware::listeners::Listener;
use crate::middleware::reply::Reply;
use crate::middleware::running::unbound;
use crate::middleware::send::wrapped;
use crate::middleware::settle::{cancel, fail};
use crate::sse::{Event, Splitter};
use crate::turn::{Bound, Told};

/// How a task stands, as far as it could be learnt.
enum Standing {
    /// Told to the client; it has ended.
    Ended,
    /// Told to the client; it has not.
    Runs,
    /// The agent has no such task.
    Unknown,
    /// The agent did not say.
    Silent,
}

impl Pump {
    /// The agent is asked once. The stream to go on with, where the turn is still under way. `why` is what is said of the cut where no task is
    /// known.
    pub(super) async fn after_cut(&mut self, why: &Refusal) -> Option<AgentBody> {
        if self.running.turn.state() == Some(State::AuthRequired) {
            // Ends so legitimately: the turn waits for its authorisation.
            self.leave().await;
            return None;
        }
        let Some(upstream) = self.upstream() else {
            self.fail("the agent's stream ended before the task was known", why).await;
            return None;
        };
        match self.ask(&upstream).await {
            Standing::Ended => None,
            Standing::Runs if self.running.turn.state() == Some(State::AuthRequired) && self.origin == Origin::Send => {
                self.leave().await;
                None
            }
            Standing::Runs => self.subscribe(&upstream).await,
            Standing::Unknown => {
                self.fail("the agent's stream was cut, and the agent does not know the task any more", why).await;
                None
            }
            Standing::Silent => {
                self.break_off("the agent's stream was cut, and the agent does not say how the task stands", why).await;
                None
            }
        }
    }

    fn upstream(&self) -> Option<String> {
        let bound = self.running.bound.as_ref()?;
        Some(bound.upstream_task.clone()).filter(|id| !id.is_empty())
    }

    async fn leave(&mut self) {
        if let Err(error) = self.running.leave_unsettled(self.exchange.core.now()).await {
            tracing::error!(%error, "an unsettled turn could not be kept");
        }
    }

    /// Asks the agent for the task, and tells the client what it has not seen of it.
    async fn ask(&mut self, upstream: &str) -> Standing {
        let Some(answer) = self.look(upstream).await else { return Standing::Silent };
        let doc = match Reply::read(&answer.body, &answer.binding, true) {
            Reply::Result(doc) => doc,
            Reply::Error(Some(doc)) if answer.binding.says_not_found(doc.root(), answer.head.status.as_u16()) => {
                return Standing::Unknown;
            }
            Reply::Error(_) | Reply::Unreadable(_) => return Standing::Silent,
        };
        let Some((payload @ Payload::Task(task), shape)) = answer.binding.payload_of(doc.root()) else {
            return Standing::Silent;
        };
        if !self.is_ours(&payload).await {
            return Standing::Unknown;
        }
        self.dialect = shape.dialect;
        let next = if self.began { self.snapshot(task, shape).await } else { self.first_task(task, shape).await };
        match next {
            Next::Done => Standing::Ended,
            Next::More => Standing::Runs,
        }
    }

    /// Whether the task is still this turn's: an agent that was started anew may count from 1 again and give its id to another.
    async fn is_ours(&self, payload: &Payload<'_, '_>) -> bool {
        let Some(bound) = &self.running.bound else { return false };
        let told = payload.context_id().unwrap_or_default();
        if !told.is_empty() && !bound.upstream_context.is_empty() && *told != *bound.upstream_context {
            return false;
        }
        let found = self.exchange.find(&bound.task_id).await.ok().flatten();
        found.and_then(|found| found.in_flight).is_some_and(|in_flight| !in_flight.superseded)
    }

    async fn look(&mut self, upstream: &str) -> Option<Answer> {
        let within = self.exchange.core.policy.timeouts.look;
        let asking = self.exchange.agent.task_in(upstream, &self.voice, within);
        self.running.guard.renewing(asking).await.ok()
    }

    /// A client that has seen nothing yet gets the task itself.
    async fn first_task(&mut self, task: Task<'_, '_>, shape: Shape) -> Next {
        let result = wrapped("task", task.value.raw(), shape.dialect);
        self.made(&result).await
    }

    /// A snapshot for a client that knows the task: the artifacts that it has not seen, and the status where that ends something.
    pub(super) async fn snapshot(&mut self, task: Task<'_, '_>, shape: Shape) -> Next {
        let before = self.running.turn.heard().to_vec();
        let stood = self.running.turn.state();
        self.running.turn.hear(&Payload::Task(task), shape);
        self.gap = false;
        self.tell_missing(&before, task).await;
        let state = task.state();
        if !state.settles() && (state != State::AuthRequired || stood == Some(state)) {
            return Next::More;
        }
        let update = status_of(task, self.dialect);
        self.made(&wrapped("statusUpdate", &update, self.dialect)).await
    }

    /// An event made of what the agent said elsewhere, as if it had come in the stream.
    pub(super) async fn made(&mut self, result: &str) -> Next {
        let text = self.binding.wrap(result);
        let event = Event { raw: sse_event(&text).into_bytes() };
        let Ok(doc) = Doc::scan(text.as_bytes()) else { return Next::More };
        let Some((payload, shape)) = self.binding.payload_of(doc.root()) else {
            return Next::More;
        };
        self.gap &= !matches!(payload, Payload::Task(_));
        let before = self.running.turn.state();
        self.running.turn.hear(&payload, shape);
        self.follow(before).await;
        if payload.state().is_some_and(State::settles) {
            self.finish(&event, &doc, &payload, shape).await
        } else {
            self.pass(&event, &doc, &payload, shape).await
        }
    }

    /// What of a snapshot's artifacts the client has not seen: the rest of a text where it goes on, else the whole.
    async fn tell_missing(&mut self, before: &[Heard], task: Task<'_, '_>) {
        let core = Arc::clone(&self.exchange.core);
        let markers = markers(&core.policy);
        for artifact in task.artifacts() {
            let id = artifact.some("artifactId").and_then(|id| id.str()).unwrap_or_default();
            let seen = before.iter().find(|heard| heard.id == id);
            match lack(seen, artifact, &core.policy.reply) {
                Lack::Nothing => {}
                Lack::Rest(text) => {
                    let passed = self.tail.pass(&id, true, &text, markers).into_owned();
                    self.tell_text(&id, passed).await;
                }
                Lack::Whole => {
                    let Some(bound) = &self.running.bound else { return };
                    let shown = self.running.view(&core, bound, false).artifact(artifact);
                    self.tail.pass(&id, false, "", markers);
                    self.tell_artifact(&shown, false).await;
                }
            }
        }
    }

    /// The reply was read with a gap in it: the whole task is asked for before the turn settles.
    pub(super) async fn fill_gap(&mut self) {
        let Some(upstream) = self.upstream() else { return };
        let Some(answer) = self.look(&upstream).await else { return };
        let Reply::Result(doc) = Reply::read(&answer.body, &answer.binding, true) else { return };
        if let Some((payload @ Payload::Task(task), shape)) = answer.binding.payload_of(doc.root())
            && task.state().settles()
            && self.is_ours(&payload).await
        {
            let before = self.running.turn.heard().to_vec();
            self.running.turn.hear(&payload, shape);
            self.tell_missing(&before, task).await;
        }
    }

    async fn subscribe(&mut self, upstream: &str) -> Option<AgentBody> {
        match self.running.guard.renewing(self.exchange.agent.subscribe_in(upstream, &self.voice)).await {
            Ok(Got::Stream(answer)) => {
                self.splitter = Splitter::new(self.exchange.core.policy.limits.reply_bytes);
                (self.resumed, self.gap) = (true, true);
                return Some(answer.into_body());
            }
            // It may have ended between the two calls.
            Ok(_) if matches!(self.ask(upstream).await, Standing::Ended) => return None,
            _ => {}
        }
        let why = "the agent's stream was cut and could not be taken up again";
        self.break_off(why, &Refusal::malformed(why)).await;
        None
    }

    /// Nothing more is heard of the turn. One whose own reply was read has failed; another waits for whoever asks next.
    async fn break_off(&mut self, why: &str, refusal: &Refusal) {
        if self.origin == Origin::Send {
            return self.fail(why, refusal).await;
        }
        self.leave().await;
        self.tell_refusal(refusal).await;
    }

    /// The proxy stops. Whoever asks for the task when it is back settles the turn, where the agent has named one.
    pub(super) async fn conclude(&mut self) {
        let refusal = Refusal::stopping();
        if self.upstream().is_none() {
            return self.fail(&refusal.message.clone(), &refusal).await;
        }
        self.leave().await;
        self.tell(&refusal.body(&self.binding), true).await;
    }

    /// The turn came to nothing: it is kept apart, and the client told in a closing event, or with `refusal` where no task is known.
    pub(super) async fn fail(&mut self, why: &str, refusal: &Refusal) {
        let ended = fail(&self.exchange.core, &mut self.running, why).await;
        match ended.filter(|_| self.running.bound.as_ref().is_some_and(|bound| !bound.task_id.is_empty())) {
            Some(ended) => self.tell_closing(&ended.told()).await,
            None => self.tell_refusal(refusal).await,
        }
    }

    /// The client cancelled its task before the agent told an id of it.
    pub(super) async fn cancel(&mut self) {
        if let Err(error) = cancel(&self.exchange.core, &mut self.running).await {
            tracing::error!(%error, "a cancelled turn could not be recorded");
            return self.tell_refusal(&Refusal::not_recorded()).await;
        }
        let told = Told { state: State::Canceled, turn: None, continuation: None, inline: false, failure: None };
        self.tell_closing(&told).await;
    }

    async fn tell_closing(&mut self, told: &Told<'_>) {
        let (task, context) = self.ids();
        let bound = Bound { task_id: task, ..unbound(&context) };
        let view = self.running.view(&self.exchange.core, &bound, false);
        let closing = view.closing(told, self.dialect, &timestamp(self.exchange.core.now()));
        self.tell_result("statusUpdate", &closing, true).await;
    }

    /// The client's ids of the task and its context.
    fn ids(&self) -> (String, String) {
        let bound = self.running.bound.as_ref().filter(|bound| !bound.task_id.is_empty());
        let task = bound.map(|bound| bound.task_id.clone()).or_else(|| self.running.turn.opening.task.clone());
        (task.unwrap_or_default(), self.running.context_id.clone().unwrap_or_default())
    }

    /// Lets somebody in who subscribed to the task.
    pub(super) fn admit(&mut self, listener: Listener) {
        let (task, context) = self.ids();
        let bound = Bound { task_id: task, ..unbound(&context) };
        let view = self.running.view(&self.exchange.core, &bound, true);
        let turn = &self.running.turn;
        let (dialect, tail, binding) = (self.dialect, &self.tail, &self.binding);
        self.audience.admit(listener, || {
            let task = turn.standing(&view, tail, dialect, &timestamp(turn.opening.started_at));
            binding.wrap(&wrapped("task", &task, dialect))
        });
    }
}

/// The markers that are held back; none where nothing is to be recognised.
pub(super) fn markers(policy: &policy::Policy) -> &[String] {
    let settings = &policy.rewrite.question;
    if settings.level == Level::Off { &[] } else { &settings.markers }
}

/// What a client has not seen of an artifact.
enum Lack {
    Nothing,
    /// The rest of its text.
    Rest(String),
    Whole,
}

fn lack(seen: Option<&Heard>, artifact: Value<'_, '_>, rules: &policy::Reply) -> Lack {
    let mut hearing = Hearing::default();
    hearing.artifact(artifact, false, rules);
    let (Some(seen), Some(now)) = (seen, hearing.artifacts.first()) else { return Lack::Whole };
    if seen.parts == now.parts {
        return Lack::Nothing;
    }
    let is_text = |heard: &Heard| heard.parts.iter().all(|part| part.text().is_some());
    let (before, after) = (text_of(&seen.parts), text_of(&now.parts));
    match after.strip_prefix(&*before).filter(|_| is_text(seen) && is_text(now)) {
        Some("") => Lack::Nothing,
        Some(rest) => Lack::Rest(rest.to_owned()),
        None => Lack::Whole,
    }
}

/// A task's status as an event of its own.
fn status_of(task: Task<'_, '_>, dialect: Dialect) -> String {
    let member = |name: &str| task.value.some(name).map_or("\"\"", |value| value.raw());
    let (kind, last) = match dialect {
        Dialect::V03 => ("\"kind\":\"status-update\",", ",\"final\":true"),
        Dialect::V10 => ("", ""),
        Dialect::Proto03 => ("", ",\"final\":true"),
    };
    format!(
        "{{{kind}\"taskId\":{},\"contextId\":{},\"status\":{}{last}}}",
        member("id"),
        member("contextId"),
        task.status.raw()
    )
}
