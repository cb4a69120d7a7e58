//! CancelTask: at the agent where the agent knows the task, here where nothing runs.

use std::sync::Arc;

use super::{SETTLING, Subject, known_upstream, originals};
use crate::a2a::{Call, State};
use crate::context::{Settlement, TaskChange};
use crate::exchange::Refusal;
use crate::json::{Doc, Edits};
use crate::middleware::agent::Answer;
use crate::middleware::body::ReplyBody;
use crate::middleware::guard::Guard;
use crate::middleware::reply::Reply;
use crate::middleware::respond;
use crate::middleware::send::{Exchange, Outcome, store_refusal};
use crate::middleware::settle;
use crate::store::{Begun, InFlight, Pending};
use crate::task::{ClientTask, OpenedBy};
use crate::turn::View;

impl Exchange {
    pub(super) async fn cancel(&mut self, call: &Call<'_, '_>, subject: Subject) -> Outcome {
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
        let Begun::Granted { lease, context, .. } = self.begin_on_task(subject.found.key.clone(), &subject.id).await?
        else {
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
        self.core.cancel(&(subject.found.key.clone(), subject.id.clone()));
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
        if let Some((payload, shape)) = call.binding.payload_of(doc.root()) {
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
}

fn says_canceled(answer: &Answer) -> bool {
    let Reply::Result(doc) = Reply::read(&answer.body, &answer.binding, true) else { return false };
    answer.binding.payload_of(doc.root()).and_then(|(payload, _)| payload.state()) == Some(State::Canceled)
}
