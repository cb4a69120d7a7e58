//! Messages that wait for their turn: in each context first come, first served, bounded in number and in time.
//!
//! The order is that of this proxy; between several that share a store the lease goes to whoever asks first when it is free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::acquire::{Acquired, Place};
use super::core::Core;
use super::send::{Exchange, Outcome, own_result, store_refusal};
use crate::a2a::State;
use crate::conversation::policy::GuardMode;
use crate::conversation::principal::ContextKey;
use crate::exchange::{Refusal, Send};
use crate::store::{InFlight, Share};

/// Where messages stand in line, by their contexts.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<ContextKey, Line>>);

/// Those who wait in one context.
struct Line {
    /// Whoever has it is the first; the others get it in the order in which they came.
    first: Arc<Semaphore>,
    standing: Vec<Standing>,
    /// A number for the next.
    next: u64,
}

struct Standing {
    number: u64,
    /// The client task that the message answers.
    task: Option<String>,
    withdrawn: CancellationToken,
}

/// A place in line, given up when it is dropped.
struct Ticket {
    core: Arc<Core>,
    key: ContextKey,
    number: u64,
    first: Arc<Semaphore>,
    withdrawn: CancellationToken,
}

impl Queues {
    /// Stands in line, behind at most `length` others less one.
    fn enter(core: &Arc<Core>, key: &ContextKey, task: Option<&str>, length: usize) -> Option<Ticket> {
        let mut lines = core.queues.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.get(key).is_some_and(|line| line.standing.len() >= length) {
            return None;
        }
        let new = || Line { first: Arc::new(Semaphore::new(1)), standing: Vec::new(), next: 0 };
        let line = lines.entry(key.clone()).or_insert_with(new);
        let (number, withdrawn) = (line.next, CancellationToken::new());
        line.next += 1;
        line.standing.push(Standing { number, task: task.map(str::to_owned), withdrawn: withdrawn.clone() });
        Some(Ticket { core: Arc::clone(core), key: key.clone(), number, first: Arc::clone(&line.first), withdrawn })
    }

    /// Takes those out of the line who would answer `task`.
    fn withdraw(&self, key: &ContextKey, task: &str) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = lines.get(key).into_iter().flat_map(|line| &line.standing);
        standing.filter(|standing| standing.task.as_deref() == Some(task)).for_each(|one| one.withdrawn.cancel());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lines = self.core.queues.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = lines.get_mut(&self.key) else { return };
        line.standing.retain(|standing| standing.number != self.number);
        if line.standing.is_empty() {
            lines.remove(&self.key);
        }
    }
}

/// How long a message waits for the lease, and what ends that early.
pub(super) struct Patience {
    until: Instant,
    /// The client has left.
    gone: CancellationToken,
    ticket: Option<Ticket>,
}

/// Why nothing is waited for any more.
pub(super) enum Stop {
    /// The client has left: its message is not sent.
    Gone,
    /// The client cancelled the task that its message answers.
    Withdrawn,
}

impl Patience {
    /// None at all.
    pub(super) fn none() -> Self {
        Self::until(Instant::now(), CancellationToken::new())
    }

    fn until(until: Instant, gone: CancellationToken) -> Self {
        Self { until, gone, ticket: None }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Waits for `end` as long as there is patience, and no longer than `most`.
    pub(super) async fn wait(&self, most: Duration, end: impl Future) -> Result<(), Stop> {
        let until = self.until.min(Instant::now() + most);
        let withdrawn = async {
            match &self.ticket {
                Some(ticket) => ticket.withdrawn.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let (gone, withdrawn) = (std::pin::pin!(self.gone.cancelled()), std::pin::pin!(withdrawn));
        match select(std::pin::pin!(tokio::time::timeout_at(until, end)), select(gone, withdrawn)).await {
            Either::Left(_) => Ok(()),
            Either::Right((Either::Left(_), _)) => Err(Stop::Gone),
            Either::Right((Either::Right(_), _)) => Err(Stop::Withdrawn),
        }
    }
}

impl Exchange {
    /// Takes the lease, or waits for it as the route's guard has it.
    pub(super) async fn turn(&mut self, send: &Send<'_, '_>, place: &Place) -> Result<Acquired, Refusal> {
        let guard = &self.core.policy.guard;
        let queues = guard.mode == GuardMode::Queue && !place.provisional && !place.is_waited_for(send);
        if !queues {
            let patience = Patience::until(Instant::now() + guard.wait, self.gone.clone());
            return self.acquire(send, place, &patience).await;
        }
        let until = Instant::now() + guard.queue_time;
        let task = send.task_id.as_deref();
        let Some(ticket) = Queues::enter(&self.core, &place.key, task, guard.queue_length) else {
            return Ok(Acquired::Busy(self.in_flight(&place.key).await?));
        };
        let first = Arc::clone(&ticket.first);
        let patience = Patience { ticket: Some(ticket), ..Patience::until(until, self.gone.clone()) };
        let mut pass = None;
        let turn = async { pass = first.acquire().await.ok() };
        if let Err(stop) = patience.wait(self.core.policy.guard.queue_time, turn).await {
            return Ok(Acquired::Stopped(stop));
        }
        if pass.is_none() {
            return Ok(Acquired::Busy(self.in_flight(&place.key).await?));
        }
        self.acquire(send, place, &patience).await
    }

    /// The turn in flight in a context, or one of which nothing is known (any more).
    async fn in_flight(&self, key: &ContextKey) -> Result<InFlight, Refusal> {
        let found = self.core.store.context(key).await.map_err(|error| store_refusal(&error))?;
        let in_flight = found.and_then(|found| found.in_flight);
        Ok(in_flight.unwrap_or(InFlight { token: 0, until: 0, pending: None, superseded: false }))
    }

    /// Which turns a send bears beside it.
    pub(super) fn share(&self, send: &Send<'_, '_>) -> Share {
        match self.core.policy.guard.mode {
            GuardMode::Exclusive | GuardMode::Queue => Share::Alone,
            GuardMode::Allow => Share::Beside(send.task_id.clone()),
        }
    }

    /// What a message is answered that was never sent.
    pub(super) async fn stopped(&self, send: &Send<'_, '_>, stop: Stop) -> Outcome {
        match (stop, &send.task_id) {
            (Stop::Withdrawn, Some(id)) => self.as_told(send, id).await,
            _ => {
                tracing::info!(route = self.route.as_str(), "dropped a queued message: its client has left");
                Err(Refusal::withdrawn())
            }
        }
    }

    /// What answers a send whose turn another has ended: its task as it was told.
    pub(super) async fn as_told(&self, send: &Send<'_, '_>, id: &str) -> Outcome {
        let found = self.find(id).await?.ok_or_else(Refusal::task_not_found)?;
        let task = found.context.task(id).ok_or_else(Refusal::task_not_found)?;
        let failed = found.context.failed_turn_of(task).filter(|_| task.state != State::InputRequired);
        let turn = failed.or_else(|| found.context.newest_turn_of(task));
        let turn = turn.ok_or_else(Refusal::task_not_found)?;
        let shape = self.shape(send.call.dialect);
        let task = self.recorded_task(&found, &turn, shape.dialect, send.history_length, true);
        Ok(own_result(send, "task", &task, shape))
    }

    /// A task that was cancelled is not answered any more: messages that wait for their turn to do so have none.
    pub(super) async fn withdraw_queued(&self, id: &str) {
        if self.core.policy.guard.mode == GuardMode::Queue
            && let Ok(Some(found)) = self.find(id).await
            && found.context.task(id).is_some_and(|task| task.state == State::Canceled)
        {
            self.core.queues.withdraw(&found.key, id);
        }
    }
}
