//! The rules of a store that one process has for itself, over a [`Shelf`] that says where its contexts are: in memory alone, or on disk too.
//!
//! Every context is a [`Slot`] behind a lock of its own. Locks are taken in this order and never the other way: an agent's id, a slot (one at
//! a time), a shard of a map, the order of going. No lock is held over an await: a verb does all its work at once.

mod bind;
mod limits;
mod list;
mod room;
mod shelf;
mod slot;
mod turn;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::limits::Limits;
pub(super) use self::limits::{Going, Rank, Standing};
pub(super) use self::shelf::Shelf;
#[cfg(feature = "disk")]
pub(super) use self::slot::Running;
pub(super) use self::slot::{Slot, State};
use super::Found;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;

/// A store's verbs, as one process has them.
pub(super) struct Engine<S: Shelf> {
    pub(super) shelf: S,
    pub(super) limits: Limits,
    /// The newest token; one for all contexts, so that it rises also in a context that went and came anew.
    tokens: AtomicU64,
    /// The latest time that a verb was told: most reads are told none.
    clock: AtomicU64,
}

/// A panic while a lock was held is the caller's to report; the state behind it is as consistent as the verb left it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Shelf> Engine<S> {
    /// Tokens are greater than `tokens`: than every one that was ever given on the shelf.
    pub(super) fn new(shelf: S, limits: Limits, tokens: u64) -> Self {
        Self { shelf, limits, tokens: AtomicU64::new(tokens), clock: AtomicU64::new(0) }
    }

    fn next_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn tell_time(&self, now: u64) {
        self.clock.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// `task` is the one that is asked for.
    pub(super) fn found(&self, slot: &Slot<S>, state: &State<S>, task: Option<&str>) -> (Found, S::Written) {
        let found = Found { key: slot.key(state), context: state.context.clone(), in_flight: state.in_flight(task) };
        (found, self.shelf.written(&state.mark))
    }

    /// Principals are told apart before the record is looked at: one of another is as quickly not found as one that does not exist.
    pub(super) fn find_task(&self, route: &RouteId, principal: &Principal, id: &str) -> Option<(Found, S::Written)> {
        let slot = self.shelf.client(route, id)?;
        if slot.owner.1 != *principal {
            return None;
        }
        let mut state = slot.lock();
        let key = slot.key(&state);
        (self.is_there(&slot, &mut state, &key) && state.knows(id)).then(|| self.found(&slot, &state, Some(id)))
    }

    pub(super) fn configure_now(&self, key: &ContextKey, change: PushChange) -> bool {
        let configured = self.within(key, |slot, state| {
            let changed = Arc::make_mut(&mut state.context).configure(change);
            if changed {
                self.note(slot, state);
            }
            changed
        });
        configured.unwrap_or(false)
    }

    /// Tells the shelf how a context now is.
    pub(super) fn note(&self, slot: &Arc<Slot<S>>, state: &mut State<S>) {
        let rank = state.rank(&self.limits, &slot.owner.0);
        self.shelf.note(slot, state, rank);
    }
}
