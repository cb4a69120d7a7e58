//! A context, and the turn in flight in it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Shelf, lock};
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::InFlight;
use crate::store::rules::{self, Live};

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
    pub(in crate::store) live: Option<Box<Running>>,
    /// When it was last used.
    pub(in crate::store) used: u64,
    /// Bytes of its turns.
    pub(in crate::store) bytes: usize,
    /// What the shelf notes beside it.
    pub(in crate::store) mark: S::Mark,
}

/// A turn in flight, and who waits for its end.
pub(in crate::store) struct Running {
    pub(in crate::store) live: Live,
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

impl Running {
    pub(in crate::store) fn new(live: Live) -> Box<Self> {
        Box::new(Self { live, waiting: Waiting::default() })
    }

    /// Wakes who waits, though what is in flight goes on: under another lease.
    pub(in crate::store) fn wake(&mut self) {
        self.waiting = Waiting::default();
    }
}

impl Deref for Running {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.live
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Live {
        &mut self.live
    }
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

    pub(in crate::store) fn live(&self) -> Option<&Live> {
        self.live.as_deref().map(|running| &running.live)
    }

    /// Whether the client knows a task under this id here.
    pub(in crate::store) fn knows(&self, id: &str) -> bool {
        rules::knows(&self.context, self.live(), id)
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(in crate::store) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let live = self.live.as_mut().filter(|live| live.lease.token == token)?;
        Some(live.waiting.0.get_or_insert_default().clone().notified_owned())
    }
}
