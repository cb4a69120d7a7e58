//! A context as it is kept in memory, and the turn in flight in it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::ledger::Seat;
use super::lock;
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::{Begin, InFlight, Pending};
use crate::task::ClientTask;
use crate::turn::Bound;

/// A context.
pub(super) struct Slot {
    /// Tells it from every other slot there ever was.
    pub(super) serial: u64,
    /// Whose it is: never changes, so it is read without the lock.
    pub(super) owner: (RouteId, Principal),
    state: Mutex<State>,
}

/// What changes in a context.
pub(super) struct State {
    /// The contextId: changes once, where it was provisional.
    pub(super) context_id: Arc<str>,
    pub(super) context: Arc<Context>,
    /// The turn in flight; boxed, since most contexts have none.
    pub(super) live: Option<Box<Live>>,
    /// Its place in the ledger; none before the first lease, and none once the context is gone.
    pub(super) seat: Option<Seat>,
    /// When it was last used.
    pub(super) used: u64,
    /// Bytes that the ledger counts for it.
    pub(super) bytes: usize,
}

/// A turn in flight.
pub(super) struct Live {
    pub(super) lease: InFlight,
    /// The ids that the holder of the lease has bound or observed.
    pub(super) bound: Option<Bound>,
    /// Whether what is pending is the turn before, which the holder has taken over and not yet replaced.
    pub(super) inherited: bool,
    /// Whether the contextId is provisional.
    pub(super) provisional: bool,
    /// The client task of the turn, once the agent's id of it has come to mean another.
    pub(super) superseded: Option<Box<str>>,
    /// Ids that were bound and are in the context only once the turn has settled.
    pub(super) ids: Vec<Box<str>>,
    since: u64,
    max_turn: u64,
    waiting: Waiting,
}

/// Who waits for the end of a turn. They are woken when this is dropped, so on every way out.
#[derive(Default)]
struct Waiting(Option<Arc<Notify>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(notify) = &self.0 {
            notify.notify_waiters();
        }
    }
}

/// All ids that a client task has, here and at the agent.
pub(super) fn ids(task: &ClientTask) -> impl Iterator<Item = &str> {
    let upstream = task.attempts.iter().filter_map(|attempt| attempt.upstream_task.as_deref());
    std::iter::once(&*task.id).chain(upstream)
}

/// Whether the agent has known the task under this id.
pub(super) fn was_upstream(task: &ClientTask, id: &str) -> bool {
    task.attempts.iter().any(|attempt| attempt.upstream_task.as_deref().unwrap_or(&task.id) == id)
}

impl Slot {
    pub(super) fn new(serial: u64, owner: (RouteId, Principal), context_id: Arc<str>, fence: String) -> Self {
        let context = Arc::new(Context::new(fence));
        let state = State { context_id, context, live: None, seat: None, used: u64::MAX, bytes: 0 };
        Self { serial, owner, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn key(&self, state: &State) -> ContextKey {
        let (route, principal) = self.owner.clone();
        ContextKey { route, principal, context_id: state.context_id.clone() }
    }
}

impl State {
    pub(super) fn in_flight(&self) -> Option<InFlight> {
        self.live.as_ref().map(|live| live.seen())
    }

    /// Whether the client knows a task under this id here.
    pub(super) fn knows(&self, id: &str) -> bool {
        let bound = self.live.as_ref().and_then(|live| live.shown());
        bound.is_some_and(|bound| bound.task_id == id) || self.context.task(id).is_some()
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(super) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let live = self.live.as_mut().filter(|live| live.lease.token == token)?;
        Some(live.waiting.0.get_or_insert_default().clone().notified_owned())
    }
}

impl Live {
    /// The turn, as others see it.
    pub(super) fn seen(&self) -> InFlight {
        InFlight { superseded: self.superseded.is_some(), ..self.lease.clone() }
    }

    /// A turn that takes the place of `before`, whose ids stay known until this one ends.
    pub(super) fn new(begin: &Begin, token: u64, provisional: bool, before: Option<Box<Self>>) -> Self {
        let (pending, superseded, ids) = before.map_or_else(Default::default, |mut before| {
            (before.lease.pending.take(), before.superseded.take(), std::mem::take(&mut before.ids))
        });
        // A client may ask for the task of the turn before until that turn is settled; nobody else may take it meanwhile.
        let pending = pending.filter(|pending| pending.bound.is_some());
        Self {
            inherited: pending.is_some(),
            lease: InFlight {
                token,
                until: begin.until,
                pending: pending.map(|pending| Pending { idle: false, ..pending }),
                superseded: false,
            },
            bound: None,
            provisional,
            superseded,
            ids,
            since: begin.now,
            max_turn: begin.max_turn,
            waiting: Waiting::default(),
        }
    }

    /// The ids under which the client knows what is in flight.
    pub(super) fn shown(&self) -> Option<&Bound> {
        self.bound.as_ref().or_else(|| self.lease.pending.as_ref()?.bound.as_ref())
    }

    /// Tells the ids to whoever reads what is pending.
    pub(super) fn show(&mut self, bound: &Bound) {
        if let Some(pending) = &mut self.lease.pending {
            pending.bound = Some(bound.clone());
        }
    }

    /// When the turn may be taken from its holder by anybody, if the agent is asked `max_turn` long.
    pub(super) fn free_at(&self, max_turn: u64) -> u64 {
        // Of a bare message there is nothing to ask the agent for.
        if self.shown().is_none_or(|bound| bound.upstream_task.is_empty()) {
            return self.lease.until;
        }
        let started = self.lease.pending.as_ref().map_or(self.since, |pending| pending.opening.started_at);
        // A turn that nobody reads has no holder: what is left of its lease is that of whoever looked at it last.
        let idle = self.lease.pending.as_ref().is_some_and(|pending| pending.idle);
        let held = if idle { 0 } else { self.lease.until };
        held.max(started.saturating_add(max_turn))
    }

    /// When the holder's own settings free the turn.
    pub(super) fn abandoned_at(&self) -> u64 {
        self.free_at(self.max_turn)
    }

    pub(super) fn may_begin(&self, begin: &Begin) -> bool {
        let idle = self.lease.pending.as_ref().is_some_and(|pending| pending.idle);
        let taken = begin.take == Some(self.lease.token) && (idle || begin.now >= self.lease.until);
        taken || begin.now >= self.free_at(begin.max_turn)
    }

    /// Leaves the turn that was taken over to whoever takes it next.
    pub(super) fn leave(&mut self, token: u64) {
        self.lease = InFlight { token, until: 0, pending: self.lease.pending.take(), superseded: false };
        if let Some(pending) = &mut self.lease.pending {
            pending.idle = true;
        }
        self.waiting = Waiting::default();
    }
}
