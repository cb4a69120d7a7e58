//! Operations on client tasks: they agree with what the client was told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::acquire::{SUPERSEDED, is_not_found};
use super::agent::Answer;
use super::body::ReplyBody;
use super::guard::Guard;
use super::reply::Reply;
use super::respond;
use super::running::Running;
use super::send::{Exchange, Outcome, refused_task, store_refusal};
use super::settle::{self, end};
use crate::a2a::{Call, Dialect, Part, Payload, State, Verb};
use crate::context::{Settlement, TaskChange};
use crate::conversation::policy::{Inline, Mode, UnknownIds};
use crate::conversation::transcript::Turn;
use crate::exchange::Refusal;
use crate::json::{Doc, Edits, Value};
use crate::store::{Begun, Found, InFlight, Pending};
use crate::task::{Chain, ClientTask, OpenedBy};
use crate::turn::{Told, View, continuation};

/// How long an operation waits for a turn that is about to settle.
const SETTLING: Duration = Duration::from_secs(2);

pub(super) async fn operate(exchange: &mut Exchange, call: Call<'_, '_>, bytes: Bytes) -> Outcome {
    if exchange.core.policy.mode == Mode::Observe {
        return exchange.pass(bytes).await;
    }
    match call.verb {
        Verb::Push => Err(Refusal::push_not_supported()),
        Verb::ExtendedCard => exchange.extended_card(&call, bytes).await,
        Verb::List => exchange.list(&call).await,
        _ => exchange.on_task(call, bytes).await,
    }
}

/// A client task in the hands of an operation.
pub(super) struct Subject {
    pub(super) id: String,
    pub(super) found: Found,
    /// Its turn in flight, if that is its.
    pub(super) pending: Option<(InFlight, Pending)>,
}

impl Exchange {
    async fn on_task(&mut self, call: Call<'_, '_>, bytes: Bytes) -> Outcome {
        let id = call
            .params
            .some("id")
            .and_then(|id| id.str())
            .ok_or_else(|| Refusal::invalid_params("id is required, a string"))?;
        if !self.identified {
            return if self.core.is_unclaimed(&self.route, &id) {
                self.pass(bytes).await
            } else {
                Err(Refusal::task_not_found())
            };
        }
        if let Some(refused) = self.core.refused(&self.route, &self.principal, &id) {
            return match call.verb {
                Verb::Get => Ok(respond::own(
                    &call.binding.wrap(&refused_task(&refused, self.shape(call.dialect).dialect)),
                    false,
                    200,
                )),
                Verb::Cancel => Err(Refusal::not_cancelable(State::Failed)),
                _ => Err(Refusal::unsupported("subscribing to a task that has ended")),
            };
        }
        let Some(subject) = self.subject(&id).await? else {
            return if self.core.policy.unknown_ids == UnknownIds::Forward {
                self.pass(bytes).await
            } else {
                Err(Refusal::task_not_found())
            };
        };
        match call.verb {
            Verb::Get => self.get(&call, subject).await,
            Verb::Cancel => self.cancel(&call, subject).await,
            _ => Err(Refusal::unsupported("SubscribeToTask")),
        }
    }

    pub(super) async fn subject(&self, id: &str) -> Result<Option<Subject>, Refusal> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        let is_its = |pending: &Pending| {
            let bound = pending.bound.as_ref().map(|bound| &*bound.task_id);
            bound == Some(id) || pending.opening.task.as_deref() == Some(id)
        };
        let in_flight = found.in_flight.clone();
        let pending =
            in_flight.and_then(|flight| flight.pending.clone().filter(is_its).map(|pending| (flight, pending)));
        Ok(Some(Subject { id: id.to_owned(), found, pending }))
    }

    async fn get(&mut self, call: &Call<'_, '_>, subject: Subject) -> Outcome {
        match &subject.pending {
            Some((in_flight, pending)) if pending.idle => {
                let (in_flight, pending) = (in_flight.clone(), pending.clone());
                self.get_unsettled(call, subject, &in_flight, pending).await
            }
            Some((in_flight, pending)) => {
                let (in_flight, pending) = (in_flight.clone(), pending.clone());
                self.get_running(call, subject, &in_flight, &pending).await
            }
            None => self.get_settled(call, &subject).await,
        }
    }

    /// A turn that nobody reads: what this poll sees of its end settles it.
    async fn get_unsettled(
        &mut self,
        call: &Call<'_, '_>,
        subject: Subject,
        in_flight: &InFlight,
        pending: Pending,
    ) -> Outcome {
        let Some(guard) = self.take(&subject, in_flight.token).await? else {
            return self.get_running(call, subject, in_flight, &pending).await;
        };
        let context = Arc::clone(&subject.found.context);
        if in_flight.superseded {
            self.set_apart(guard, context, pending, SUPERSEDED).await;
            return self.as_recorded(call, &subject.id).await;
        }
        let mut running = self.resumed(guard, context, pending);
        running.originals =
            originals(&subject.found, running.turn.opening.user.parts.clone(), &running.turn.opening.user.id);
        let upstream = running.bound.as_ref().map(|bound| bound.upstream_task.clone()).unwrap_or_default();
        let answer = running.guard.renewing(self.forward(call, &upstream)).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(refusal) => {
                self.leave(&mut running).await;
                return Err(refusal);
            }
        };
        let body = answer.body.clone();
        let doc = match Reply::read(&body, &call.binding, answer.head.status.is_success()) {
            Reply::Result(doc) => doc,
            Reply::Error(Some(doc)) if is_not_found(&doc, &call.binding) => {
                let ended = settle::fail(&self.core, &mut running, "the agent no longer knows the task").await;
                drop(ended);
                return self.as_recorded(call, &subject.id).await;
            }
            Reply::Error(_) => {
                self.leave(&mut running).await;
                return Ok(respond::untouched(answer.head, answer.body, answer.decoded));
            }
            Reply::Unreadable(what) => {
                self.leave(&mut running).await;
                return Err(Refusal::malformed(what));
            }
        };
        let Some((payload @ Payload::Task(_), shape)) = call.binding.result_of(doc.root()).and_then(Payload::read)
        else {
            self.leave(&mut running).await;
            return Err(Refusal::malformed("its result is no task"));
        };
        running.turn.hear(&payload, shape);
        let ended = if running.turn.has_ended() {
            if running.turn.lacks_reply()
                && let Some(bound) = running.bound.clone()
            {
                self.look_for_reply(&mut running, &bound).await;
            }
            Some(end(&self.core, &mut running).await)
        } else {
            self.leave(&mut running).await;
            None
        };
        let mut edits = Edits::new();
        call.binding.readdress(&mut edits, doc.root());
        running.history_length = history_length(call);
        running.shown(&self.core, &mut edits, &payload, shape, ended.as_ref());
        Ok(respond::rewritten(answer.head, edits.apply(doc.text())))
    }

    async fn leave(&self, running: &mut Running) {
        if let Err(error) = running.leave_unsettled(self.core.now()).await {
            tracing::warn!(%error, "an unsettled turn was lost");
        }
    }

    /// Takes over the turn in flight; `None` where somebody else was faster.
    pub(super) async fn take(&self, subject: &Subject, token: u64) -> Result<Option<Guard>, Refusal> {
        let begun = self.begin_on(subject, Some(token)).await?;
        Ok(match begun {
            Begun::Granted { lease, .. } => Some(Guard::new(Arc::clone(&self.core), lease)),
            Begun::Busy(_) => None,
        })
    }

    async fn begin_on(&self, subject: &Subject, take: Option<u64>) -> Result<Begun, Refusal> {
        self.begin_in(subject.found.key.clone(), false, take).await
    }

    /// A turn whose reply is being read: it reads as working until it has settled.
    async fn get_running(
        &mut self,
        call: &Call<'_, '_>,
        subject: Subject,
        in_flight: &InFlight,
        pending: &Pending,
    ) -> Outcome {
        if let Some(upstream) = known_upstream(in_flight, pending) {
            let answer = self.forward(call, &upstream).await?;
            let body = answer.body.clone();
            if let Reply::Result(doc) = Reply::read(&body, &call.binding, answer.head.status.is_success())
                && let Some((payload @ Payload::Task(_), shape)) =
                    call.binding.result_of(doc.root()).and_then(Payload::read)
                && !payload.state().is_some_and(State::settles)
            {
                let chain = self.chain(&subject.found.context, &pending.opening, pending.bound.as_ref());
                let originals = originals(&subject.found, pending.opening.user.parts.clone(), &pending.opening.user.id);
                let mut edits = Edits::new();
                call.binding.readdress(&mut edits, doc.root());
                let view = self.view(&subject, &chain, &originals, history_length(call));
                view.show(&mut edits, &payload, shape.dialect, None);
                return Ok(respond::rewritten(answer.head, edits.apply(doc.text())));
            }
            // It has ended and is about to settle.
            let settled = self.core.store.wait_turn(&subject.found.key, in_flight.token);
            if tokio::time::timeout(SETTLING, settled).await.is_ok()
                && let Some(again) = self.subject(&subject.id).await?.filter(|again| again.pending.is_none())
            {
                return self.get_settled(call, &again).await;
            }
        }
        self.working(call, &subject, pending)
    }

    /// The task while its agent's id is not known yet, from the record.
    fn working(&self, call: &Call<'_, '_>, subject: &Subject, pending: &Pending) -> Outcome {
        let task = self.working_task(self.shape(call.dialect).dialect, history_length(call), subject, pending);
        Ok(respond::own(&call.binding.wrap(&task), false, 200))
    }

    pub(super) fn working_task(
        &self,
        dialect: Dialect,
        history_length: Option<u64>,
        subject: &Subject,
        pending: &Pending,
    ) -> String {
        let user = (crate::a2a::Role::User, pending.opening.user.id.clone(), pending.opening.user.parts.clone());
        let chain = self.chain(&subject.found.context, &pending.opening, pending.bound.as_ref());
        let mut said = chain.messages();
        said.push(user);
        let ids = (&*subject.id, &*subject.found.key.context_id);
        let history: Vec<_> =
            said.iter().map(|(role, id, parts)| crate::a2a::message(dialect, *role, id, parts, ids, None)).collect();
        let first = history_length.map_or(0, |most| history.len().saturating_sub(most as usize));
        let members = [format!("\"history\":[{}]", history[first..].join(","))];
        let timestamp = super::core::timestamp(pending.opening.started_at);
        crate::a2a::task(dialect, ids, State::Working, None, &timestamp, &members)
    }

    async fn get_settled(&mut self, call: &Call<'_, '_>, subject: &Subject) -> Outcome {
        let Some(task) = subject.found.context.task(&subject.id).cloned() else {
            return Err(Refusal::task_not_found());
        };
        let Some(upstream) = task.newest_upstream() else { return self.recorded(call, subject, &task) };
        let Ok(answer) = self.forward(call, &upstream).await else {
            return self.recorded(call, subject, &task);
        };
        let body = answer.body.clone();
        if let Reply::Result(doc) = Reply::read(&body, &call.binding, answer.head.status.is_success())
            && let Some((payload @ Payload::Task(_), shape)) =
                call.binding.result_of(doc.root()).and_then(Payload::read)
        {
            let mut edits = Edits::new();
            call.binding.readdress(&mut edits, doc.root());
            self.show_settled(&mut edits, call, subject, &task, &payload, shape.dialect);
            return Ok(match edits.is_empty() {
                true => respond::untouched(answer.head, answer.body, answer.decoded),
                false => respond::rewritten(answer.head, edits.apply(doc.text())),
            });
        }
        self.recorded(call, subject, &task)
    }

    fn show_settled(
        &self,
        edits: &mut Edits,
        call: &Call<'_, '_>,
        subject: &Subject,
        task: &ClientTask,
        payload: &Payload<'_, '_>,
        dialect: Dialect,
    ) {
        let context = &subject.found.context;
        let newest = context.newest_turn_of(task);
        let question = newest.as_ref().filter(|_| task.is_open_by_proxy());
        let failed = context
            .failed_turn_of(task)
            .filter(|_| task.state == State::Failed && payload.state() != Some(State::Failed));
        let failure = failed.as_ref().map(|turn| (turn.reply.id.clone(), turn.reply_text()));
        let told_of =
            question.or(newest.as_ref()).filter(|turn| turn.is_question() && question.is_some() || self.active);
        let under_uri = told_of.map(|turn| continuation(turn, &context.turns, task.state));
        let told = Told {
            state: task.state,
            turn: question,
            continuation: under_uri.as_deref(),
            inline: question.is_some() && self.core.policy.rewrite.inline == Inline::Always,
            failure: failure.as_ref().map(|(id, why)| (&**id, &**why)),
        };
        let upstream = task.newest_upstream();
        let chain = context.chain(task, task.attempts.len() as u32, upstream.as_deref());
        let originals = originals(&subject.found, Vec::new(), "");
        let view = self.view(subject, &chain, &originals, history_length(call));
        // A genuine state of the agent's own stands as it is.
        let told = (!is_genuine(task)).then_some(&told);
        view.show(edits, payload, dialect, told);
    }

    fn view<'a>(
        &'a self,
        subject: &'a Subject,
        chain: &'a Chain,
        originals: &'a [(String, Vec<Part>)],
        history_length: Option<u64>,
    ) -> View<'a> {
        View {
            task_id: &subject.id,
            context_id: &subject.found.key.context_id,
            everywhere: false,
            chain,
            fence: &subject.found.context.fence,
            policy: &self.core.policy,
            originals,
            history_length,
            artifacts: true,
        }
    }

    /// The task from the record: the agent has forgotten it, or does not answer.
    fn recorded(&self, call: &Call<'_, '_>, subject: &Subject, task: &ClientTask) -> Outcome {
        let context = &subject.found.context;
        let newest = context
            .failed_turn_of(task)
            .filter(|_| task.state != State::InputRequired)
            .or_else(|| context.newest_turn_of(task));
        let Some(turn) = newest else { return Err(Refusal::task_not_found()) };
        let dialect = self.shape(call.dialect).dialect;
        let task = self.recorded_task(&subject.found, &turn, dialect, history_length(call), true);
        Ok(respond::own(&call.binding.wrap(&task), false, 200))
    }

    async fn as_recorded(&self, call: &Call<'_, '_>, id: &str) -> Outcome {
        let subject = self.subject(id).await?.ok_or_else(Refusal::task_not_found)?;
        let Some(task) = subject.found.context.task(id) else { return Err(Refusal::task_not_found()) };
        self.recorded(call, &subject, task)
    }

    /// The client's request with the agent's id in place of the client's.
    async fn forward(&mut self, call: &Call<'_, '_>, upstream: &str) -> Result<Answer, Refusal> {
        let mut edits = Edits::new();
        if let Some(id) = call.params.some("id") {
            edits.set_string(id, upstream);
        }
        let answer = self.agent.send(edits.apply(call.params.doc().text()).into()).await?;
        self.agent.read(answer).await
    }

    async fn cancel(&mut self, call: &Call<'_, '_>, subject: Subject) -> Outcome {
        if let Some((in_flight, pending)) = subject.pending.clone() {
            return match known_upstream(&in_flight, &pending) {
                Some(upstream) => self.cancel_at_agent(call, subject, &in_flight, pending, &upstream).await,
                None => self.cancel_call(call, &subject, &in_flight).await,
            };
        }
        let Some(task) = subject.found.context.task(&subject.id).cloned() else {
            return Err(Refusal::task_not_found());
        };
        if task.state.is_terminal() {
            return Err(Refusal::not_cancelable(task.state));
        }
        if let Some(upstream) = task.newest_upstream().filter(|_| !task.is_open_by_proxy()) {
            let answer = self.forward(call, &upstream).await?;
            if !says_canceled(&answer) {
                return Ok(self.not_canceled(call, &subject, answer));
            }
        }
        self.mark_canceled(&subject, &task).await?;
        self.as_recorded(call, &subject.id).await
    }

    /// Nothing runs, nothing is called: the open task is closed here.
    async fn mark_canceled(&self, subject: &Subject, task: &ClientTask) -> Result<(), Refusal> {
        let Begun::Granted { lease, context, .. } = self.begin_on(subject, None).await? else {
            return Err(Refusal::busy(None));
        };
        let mut guard = Guard::new(Arc::clone(&self.core), lease);
        // While the agent was asked the client may have answered the task.
        let stands = context.task(&task.id).filter(|now| *now == task);
        let Some(attempt) = stands.and_then(|task| task.attempts.last().cloned()) else {
            guard.release().await;
            return Err(Refusal::not_cancelable(context.task(&task.id).map_or(task.state, |now| now.state)));
        };
        let change = TaskChange {
            id: task.id.to_string(),
            number: task.attempts.len() as u32,
            state: State::Canceled,
            opened_by: OpenedBy::Agent,
            dialect: task.dialect,
            attempt,
        };
        let settlement = Settlement {
            turn: None,
            success: false,
            record_bytes: 0,
            task: Some(change),
            answered: None,
            window_start: 0,
            rewrites: 0,
            now: self.core.now(),
        };
        guard.settle(settlement).await.map(drop).map_err(|error| store_refusal(&error))
    }

    /// The agent has not told its id yet: the call is dropped, and the send that waits for it is answered with the cancelled task.
    async fn cancel_call(&mut self, call: &Call<'_, '_>, subject: &Subject, in_flight: &InFlight) -> Outcome {
        self.core.cancel(&subject.found.key);
        let settled = self.core.store.wait_turn(&subject.found.key, in_flight.token);
        if tokio::time::timeout(SETTLING, settled).await.is_err() {
            return Err(Refusal::not_cancelable(State::Working));
        }
        self.as_recorded(call, &subject.id).await
    }

    /// The agent knows the task: it is asked. Whoever reads the turn's reply settles it; where nobody does, this answer does.
    async fn cancel_at_agent(
        &mut self,
        call: &Call<'_, '_>,
        subject: Subject,
        in_flight: &InFlight,
        pending: Pending,
        upstream: &str,
    ) -> Outcome {
        let answer = self.forward(call, upstream).await?;
        if !says_canceled(&answer) {
            return Ok(self.not_canceled(call, &subject, answer));
        }
        if pending.idle {
            if let Some(guard) = self.take(&subject, in_flight.token).await? {
                let mut running = self.resumed(guard, Arc::clone(&subject.found.context), pending);
                settle::cancel(&self.core, &mut running).await.map_err(|error| store_refusal(&error))?;
            }
        } else {
            let settled = self.core.store.wait_turn(&subject.found.key, in_flight.token);
            let _ = tokio::time::timeout(SETTLING, settled).await;
        }
        match self.subject(&subject.id).await?.filter(|again| again.pending.is_none()) {
            Some(again) => {
                let task = again.found.context.task(&again.id).cloned().ok_or_else(Refusal::task_not_found)?;
                self.recorded(call, &again, &task)
            }
            None => Ok(self.not_canceled(call, &subject, answer)),
        }
    }

    /// What the agent says instead of having cancelled the task, or of a turn that has not settled by it yet: under the client's ids.
    fn not_canceled(&self, call: &Call<'_, '_>, subject: &Subject, answer: Answer) -> http::Response<ReplyBody> {
        let body = answer.body.clone();
        let Ok(doc) = Doc::scan(&body) else {
            return respond::untouched(answer.head, answer.body, answer.decoded);
        };
        let mut edits = Edits::new();
        call.binding.readdress(&mut edits, doc.root());
        if let Some((payload, shape)) = call.binding.result_of(doc.root()).and_then(Payload::read) {
            let context = &subject.found.context;
            let settled = || {
                let task = context.task(&subject.id)?;
                Some(context.chain(task, task.attempts.len() as u32, task.newest_upstream().as_deref()))
            };
            let chain = match &subject.pending {
                Some((_, pending)) => self.chain(context, &pending.opening, pending.bound.as_ref()),
                None => settled().unwrap_or_default(),
            };
            let originals = originals(&subject.found, Vec::new(), "");
            let view = View { artifacts: false, ..self.view(subject, &chain, &originals, Some(0)) };
            view.show(&mut edits, &payload, shape.dialect, None);
        }
        respond::rewritten(answer.head, edits.apply(doc.text()))
    }

    async fn extended_card(&mut self, call: &Call<'_, '_>, bytes: Bytes) -> Outcome {
        let Some(rewrite) = self.core.card.clone() else { return self.pass(bytes).await };
        let answer = self.agent.send(bytes).await?;
        let answer = self.agent.read(answer).await?;
        let body = answer.body.clone();
        let Reply::Result(doc) = Reply::read(&body, &call.binding, answer.head.status.is_success()) else {
            return Ok(respond::untouched(answer.head, answer.body, answer.decoded));
        };
        let mut edits = Edits::new();
        call.binding.readdress(&mut edits, doc.root());
        if let Some(card) = call.binding.result_of(doc.root()) {
            rewrite(card, &mut edits).map_err(|what| Refusal::malformed(&what))?;
        }
        Ok(respond::rewritten(answer.head, edits.apply(doc.text())))
    }
}

/// The agent's id of the task in flight, as far as it is known and still means that task.
fn known_upstream(in_flight: &InFlight, pending: &Pending) -> Option<String> {
    let bound = pending.bound.as_ref().map(|bound| &bound.upstream_task).filter(|id| !id.is_empty());
    let continued = pending.opening.continued.as_ref().map(|(task, _)| task);
    bound.or(continued).filter(|_| !in_flight.superseded).cloned()
}

/// A state that the agent itself told and that stands as it is: what it says by now is newer than the record.
fn is_genuine(task: &ClientTask) -> bool {
    task.state == State::InputRequired && task.opened_by == OpenedBy::Agent
}

fn says_canceled(answer: &Answer) -> bool {
    let Reply::Result(doc) = Reply::read(&answer.body, &answer.binding, true) else { return false };
    answer.binding.result_of(doc.root()).and_then(Payload::read).and_then(|(payload, _)| payload.state())
        == Some(State::Canceled)
}

fn history_length(call: &Call<'_, '_>) -> Option<u64> {
    call.params.some("historyLength").and_then(|length: Value<'_, '_>| length.u64())
}

/// The client's own messages by id, as far as they are kept: of the context's turns, and of the one in flight.
pub(super) fn originals(found: &Found, parts: Vec<Part>, id: &str) -> Vec<(String, Vec<Part>)> {
    let kept = found.context.turns.iter().filter_map(|kept| kept.turn().ok());
    let mut all: Vec<_> = kept.map(|turn: Turn| (turn.user.id, turn.user.parts)).collect();
    if !id.is_empty() {
        all.push((id.to_owned(), parts));
    }
    all
}

/// A page token: where the next page begins, opaque to the client.
pub(super) fn page_token(updated_at: u64, id: &str) -> String {
    crate::json::hex(format!("{updated_at}:{id}").as_bytes())
}
