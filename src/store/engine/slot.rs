//! A context, and the turns in flight in it.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::{Shelf, lock};
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::InFlight;
use crate::store::rules::{self, Live, Lives};

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
    /// The turns in flight; boxed, since most contexts have none, and never empty.
    pub(in crate::store) running: Option<Box<Running>>,
    /// When it was last used.
    pub(in crate::store) used: u64,
    /// Bytes of its turns.
    pub(in crate::store) bytes: usize,
    /// What the shelf notes beside it.
    pub(in crate::store) mark: S::Mark,
}

/// The turns in flight, and who waits for their ends.
#[derive(Default)]
pub(in crate::store) struct Running {
    pub(in crate::store) lives: Lives,
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
    /// Turns that nobody waits for yet; none where there are none.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn new(lives: Lives) -> Option<Box<Self>> {
        (!lives.is_empty()).then(|| Box::new(Self { lives, waiting: Vec::new() }))
    }

    /// Wakes who waits for a turn that is no longer in flight under its token.
    fn wake(&mut self) {
        let lives = &self.lives;
        self.waiting.retain(|(token, _)| lives.holds(*token));
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
        let state = State { context_id, context, running: None, used: u64::MAX, bytes, mark: S::Mark::default() };
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
    /// The turn in flight: of several that of the task `id`, else the one that began first.
    pub(in crate::store) fn in_flight(&self, id: Option<&str>) -> Option<InFlight> {
        rules::in_flight(self.lives(), id)
    }

    pub(in crate::store) fn lives(&self) -> &[Live] {
        self.running.as_deref().map(|running| &*running.lives).unwrap_or_default()
    }

    /// To be called when the turns in flight are others than before: who waits is woken.
    pub(in crate::store) fn changed(&mut self) {
        if let Some(running) = &mut self.running {
            running.wake();
        }
        self.running.take_if(|running| running.lives.is_empty());
    }

    /// Whether the client knows a task under this id here.
    pub(in crate::store) fn knows(&self, id: &str) -> bool {
        rules::knows(&self.context, self.lives(), id)
    }

    /// The end of the turn with this token; none where it is not in flight.
    pub(in crate::store) fn end_of(&mut self, token: u64) -> Option<OwnedNotified> {
        let running = self.running.as_mut().filter(|running| running.lives.holds(token))?;
        let known = running.waiting.iter().position(|(of, _)| *of == token);
        let at = known.unwrap_or_else(|| {
            running.waiting.push((token, Waiting::default()));
            running.waiting.len() - 1
        });
        Some(running.waiting[at].1.0.clone().notified_owned())
    }
}
