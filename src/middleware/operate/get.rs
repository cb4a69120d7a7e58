//! GetTask: a poll of a turn that nobody reads settles it, any other agrees with what the client was told.

use std::sync::Arc;

use super::{SETTLING, Subject, history_length, known_upstream, originals};
use crate::a2a::{Call, Dialect, Payload, State};
use crate::conversation::policy::Inline;
use crate::conversation::transcript::Turn;
use crate::exchange::Refusal;
use crate::json::Edits;
use crate::middleware::acquire::SUPERSEDED;
use crate::middleware::core::timestamp;
use crate::middleware::reply::Reply;
use crate::middleware::respond;
use crate::middleware::send::{Exchange, Outcome};
use crate::middleware::settle::{self, end};
use crate::store::{InFlight, Pending};
use crate::task::{ClientTask, OpenedBy};
use crate::turn::{Told, continuation};

impl Exchange {
    pub(super) async fn get(&mut self, call: &Call<'_, '_>, subject: Subject) -> Outcome {
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
            Reply::Error(Some(doc)) if call.binding.says_not_found(doc.root(), answer.head.status.as_u16()) => {
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
        let Some((payload @ Payload::Task(_), shape)) = call.binding.payload_of(doc.root()) else {
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
                && let Some((payload @ Payload::Task(_), shape)) = call.binding.payload_of(doc.root())
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
        Ok(respond::own(&call.binding, &task, false))
    }

    pub(in crate::middleware) fn working_task(
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
        let timestamp = timestamp(pending.opening.started_at);
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
            && let Some((payload @ Payload::Task(_), shape)) = call.binding.payload_of(doc.root())
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
        let question = newest.as_ref().filter(|turn| task.is_open_by_proxy() || was_cancelled(task, turn));
        let failed = context
            .failed_turn_of(task)
            .filter(|_| task.state == State::Failed && payload.state() != Some(State::Failed));
        let failure = failed.as_ref().map(|turn| (turn.reply.id.clone(), turn.reply_text()));
        let told_of =
            question.or(newest.as_ref()).filter(|turn| turn.is_question() && question.is_some() || self.active);
        let under_uri = told_of.map(|turn| continuation(turn, &context.turns, task.state));
        let plain = newest.as_ref().filter(|turn| task.state == State::Completed && !turn.is_question());
        let told = Told {
            state: task.state,
            turn: question.or(plain),
            continuation: under_uri.as_deref(),
            inline: task.is_open_by_proxy() && self.core.policy.rewrite.inline == Inline::Always,
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
}

/// Whether the task was cancelled while the client was to answer this turn: nobody waits any more, and what was asked stays in the history.
fn was_cancelled(task: &ClientTask, turn: &Turn) -> bool {
    task.state == State::Canceled && turn.is_question() && turn.attempt as usize == task.attempts.len()
}

/// A state that the agent itself told and that stands as it is: what it says by now is newer than the record.
fn is_genuine(task: &ClientTask) -> bool {
    task.state == State::InputRequired && task.opened_by == OpenedBy::Agent
}
