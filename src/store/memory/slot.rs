//! A context as it is kept in memory, and the turns in flight in it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::ledger::Seat;
use super::lock;
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::InFlight;
use crate::store::rules::{self, Live, Lives};

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
    /// The turns in flight; boxed, since most contexts have none, and never empty.
    pub(super) running: Option<Box<Running>>,
    /// Its place in the ledger; none before the first lease, and none once the context is gone.
    pub(super) seat: Option<Seat>,
    /// When it was last used.
    pub(super) used: u64,
    /// Bytes that the ledger counts for it.
    pub(super) bytes: usize,
}

/// The turns in flight, and who waits for their ends.
#[derive(Default)]
pub(super) struct Running {
    pub(super) lives: Lives,
    /// By the turn's token.
    waiting: Vec<(u64, Waiting)>,
}

/// Who waits for the end of a turn. They are woken when this is dropped, so on every way out.
#[derive(Default)]
struct Waiting(Arc<Notify>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl Running {
    /// Wakes who waits for a turn that is no longer in flight under its token.
    fn wake(&mut self) {
        let lives = &self.lives;
        self.waiting.retain(|(token, _)| lives.holds(*token));
    }
}

impl Slot {
    pub(super) fn new(serial: u64, owner: (RouteId, Principal), context_id: Arc<str>, fence: String) -> Self {
        let context = Arc::new(Context::new(fence));
        let state = State { context_id, context, running: None, seat: None, used: u64::MAX, bytes: 0 };
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
    /// The turn in flight: of several that of the task `id`, else the one that began first.
    pub(super) fn in_flight(&self, id: Option<&str>) -> Option<InFlight> {
        rules::in_flight(self.lives(), id)
    }

    pub(super) fn lives(&self) -> &[Live] {
        self.running.as_deref().map(|running| &*running.lives).unwrap_or_default()
    }

    /// To be called when the turns in flight are others than before: who waits is woken.
    pub(super) fn changed(&mut self) {
        if let Some(running) = &mut self.running {
            running.wake();
        }
        self.running.take_if(|running| running.lives.is_empty());
    }

    /// Whether the client knows a task under this id here.
    pub(super) fn knows(&self, id: &str) -> bool {
        rules::knows(&self.context, self.lives(), id)
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(super) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let running = self.running.as_mut().filter(|running| running.lives.holds(token))?;
        let known = running.waiting.iter().position(|(of, _)| *of == token);
        let at = known.unwrap_or_else(|| {
            running.waiting.push((token, Waiting::default()));
            running.waiting.len() - 1
        });
        Some(running.waiting[at].1.0.clone().notified_owned())
    }
}
