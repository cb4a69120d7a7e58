//! A context, and the turn in flight in it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Shelf, lock};
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::{Begin, InFlight, Pending};
use crate::task::ClientTask;
use crate::turn::Bound;

/// A context.
pub(in crate::store) struct Slot<S: Shelf> {
    /// Tells it from every other slot there ever was.
    pub(in crate::store) serial: u64,
    /// Whose it is: never changes, so it is read without the lock.
    pub(in crate::store) owner: (RouteId, Principal),
    state: Mutex<State<S>>,
}

/// What changes in a context.
pub(in crate::store) struct State<S: Shelf> {
    /// The contextId: changes once, where it was provisional.
    pub(in crate::store) context_id: Arc<str>,
    pub(in crate::store) context: Arc<Context>,
    /// The turn in flight; boxed, since most contexts have none.
    pub(in crate::store) live: Option<Box<Live>>,
    /// When it was last used.
    pub(in crate::store) used: u64,
    /// Bytes of its turns.
    pub(in crate::store) bytes: usize,
    /// What the shelf notes beside it.
    pub(in crate::store) mark: S::Mark,
}

/// A turn in flight.
pub(in crate::store) struct Live {
    pub(in crate::store) lease: InFlight,
    /// The ids that the holder of the lease has bound or observed.
    pub(in crate::store) bound: Option<Bound>,
    /// Whether what is pending is the turn before, which the holder has taken over and not yet replaced.
    pub(in crate::store) inherited: bool,
    /// Whether the contextId is provisional.
    pub(in crate::store) provisional: bool,
    /// The client task of the turn, once the agent's id of it has come to mean another.
    pub(in crate::store) superseded: Option<Box<str>>,
    /// Ids that were bound and are in the context only once the turn has settled.
    pub(in crate::store) ids: Vec<Box<str>>,
    pub(in crate::store) since: u64,
    pub(in crate::store) max_turn: u64,
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
pub(in crate::store) fn ids(task: &ClientTask) -> impl Iterator<Item = &str> {
    let upstream = task.attempts.iter().filter_map(|attempt| attempt.upstream_task.as_deref());
    std::iter::once(&*task.id).chain(upstream)
}

/// Whether the agent has known the task under this id.
pub(in crate::store) fn was_upstream(task: &ClientTask, id: &str) -> bool {
    task.attempts.iter().any(|attempt| attempt.upstream_task.as_deref().unwrap_or(&task.id) == id)
}

impl<S: Shelf> Slot<S> {
    pub(in crate::store) fn new(
        serial: u64,
        owner: (RouteId, Principal),
        context_id: Arc<str>,
        context: Context,
    ) -> Self {
        let (bytes, context) = (context.size(), Arc::new(context));
        let state = State { context_id, context, live: None, used: u64::MAX, bytes, mark: S::Mark::default() };
        Self { serial, owner, state: Mutex::new(state) }
    }

    pub(in crate::store) fn lock(&self) -> MutexGuard<'_, State<S>> {
        lock(&self.state)
    }

    /// Its state, unless somebody has it.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn try_lock(&self) -> Option<MutexGuard<'_, State<S>>> {
        self.state.try_lock().ok()
    }

    pub(in crate::store) fn key(&self, state: &State<S>) -> ContextKey {
        let (route, principal) = self.owner.clone();
        ContextKey { route, principal, context_id: state.context_id.clone() }
    }
}

impl<S: Shelf> State<S> {
    pub(in crate::store) fn in_flight(&self) -> Option<InFlight> {
        self.live.as_ref().map(|live| live.seen())
    }

    /// Whether the client knows a task under this id here.
    pub(in crate::store) fn knows(&self, id: &str) -> bool {
        let bound = self.live.as_ref().and_then(|live| live.shown());
        bound.is_some_and(|bound| bound.task_id == id) || self.context.task(id).is_some()
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(in crate::store) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let live = self.live.as_mut().filter(|live| live.lease.token == token)?;
        Some(live.waiting.0.get_or_insert_default().clone().notified_owned())
    }
}

impl Live {
    /// The turn, as others see it.
    pub(in crate::store) fn seen(&self) -> InFlight {
        InFlight { superseded: self.superseded.is_some(), ..self.lease.clone() }
    }

    /// A turn that takes the place of `before`, whose ids stay known until this one ends.
    pub(in crate::store) fn new(begin: &Begin, token: u64, provisional: bool, before: Option<Box<Self>>) -> Self {
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

    /// A turn that another process left unsettled. `since` it holds a lease, and for `max_turn` at most, in milliseconds.
    pub(in crate::store) fn restored(
        lease: InFlight,
        bound: Bound,
        superseded: Option<Box<str>>,
        ids: Vec<Box<str>>,
        (since, max_turn): (u64, u64),
    ) -> Self {
        let waiting = Waiting::default();
        Self { lease, bound: Some(bound), inherited: false, provisional: false, superseded, ids, since, max_turn, waiting }
    }

    /// The ids under which the client knows what is in flight.
    pub(in crate::store) fn shown(&self) -> Option<&Bound> {
        self.bound.as_ref().or_else(|| self.lease.pending.as_ref()?.bound.as_ref())
    }

    /// Tells the ids to whoever reads what is pending.
    pub(in crate::store) fn show(&mut self, bound: &Bound) {
        if let Some(pending) = &mut self.lease.pending {
            pending.bound = Some(bound.clone());
        }
    }

    /// When the turn may be taken from its holder by anybody, if the agent is asked `max_turn` long.
    pub(in crate::store) fn free_at(&self, max_turn: u64) -> u64 {
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
    pub(in crate::store) fn abandoned_at(&self) -> u64 {
        self.free_at(self.max_turn)
    }

    pub(in crate::store) fn may_begin(&self, begin: &Begin) -> bool {
        let idle = self.lease.pending.as_ref().is_some_and(|pending| pending.idle);
        let taken = begin.take == Some(self.lease.token) && (idle || begin.now >= self.lease.until);
        taken || begin.now >= self.free_at(begin.max_turn)
    }

    /// Leaves the turn that was taken over to whoever takes it next.
    pub(in crate::store) fn leave(&mut self, token: u64) {
        self.lease = InFlight { token, until: 0, pending: self.lease.pending.take(), superseded: false };
        if let Some(pending) = &mut self.lease.pending {
            pending.idle = true;
        }
        self.waiting = Waiting::default();
    }
}
