//! A context as it is kept in memory, and the turn in flight in it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::ledger::Seat;
use super::lock;
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::InFlight;
use crate::store::rules::{self, Live};

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
    pub(super) live: Option<Box<Running>>,
    /// Its place in the ledger; none before the first lease, and none once the context is gone.
    pub(super) seat: Option<Seat>,
    /// When it was last used.
    pub(super) used: u64,
    /// Bytes that the ledger counts for it.
    pub(super) bytes: usize,
}

/// A turn in flight, and who waits for its end.
pub(super) struct Running {
    pub(super) live: Live,
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
    pub(super) fn new(live: Live) -> Box<Self> {
        Box::new(Self { live, waiting: Waiting::default() })
    }

    /// Wakes who waits, though what is in flight goes on: under another lease.
    pub(super) fn wake(&mut self) {
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

    pub(super) fn live(&self) -> Option<&Live> {
        self.live.as_deref().map(|running| &running.live)
    }

    /// Whether the client knows a task under this id here.
    pub(super) fn knows(&self, id: &str) -> bool {
        rules::knows(&self.context, self.live(), id)
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(super) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let live = self.live.as_mut().filter(|live| live.lease.token == token)?;
        Some(live.waiting.0.get_or_insert_default().clone().notified_owned())
    }
}
