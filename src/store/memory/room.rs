//! Which contexts are there, and which go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dashmap::Entry;

use super::slot::{Slot, State};
use super::{Memory, lock};
use crate::conversation::principal::ContextKey;
use crate::store::rules;

/// Contexts that go, because nobody used them for long, with every one that comes.
const SWEPT_AT_ONCE: usize = 8;

impl Memory {
    /// Does something in the context under this key, where there is one.
    pub(super) fn within<T>(&self, key: &ContextKey, act: impl FnOnce(&Arc<Slot>, &mut State) -> T) -> Option<T> {
        let slot = self.contexts.get(key)?.value().clone();
        let mut state = slot.lock();
        self.is_there(&slot, &mut state, key).then(|| act(&slot, &mut state))
    }

    /// Whether the slot, now that it is locked, still is the context under this key. One that nobody used for too long goes here.
    pub(super) fn is_there(&self, slot: &Arc<Slot>, state: &mut State, key: &ContextKey) -> bool {
        if state.running.is_none() && state.used.saturating_add(self.ttl()) <= self.clock.load(Ordering::Relaxed) {
            self.discard(slot, state);
        }
        state.seat.is_some() && state.context_id == key.context_id
    }

    /// Forgets a context, wherever it is mentioned.
    pub(super) fn discard(&self, slot: &Arc<Slot>, state: &mut State) {
        lock(&self.ledger).leave(state);
        self.contexts.remove_if(&slot.key(state), |_, found| Arc::ptr_eq(found, slot));
        if let Entry::Occupied(mut owned) = self.owners.entry(slot.owner.clone()) {
            owned.get_mut().remove(&slot.serial);
            if owned.get().is_empty() {
                owned.remove();
            }
        }
        let left = state.running.take();
        let left = left.iter().flat_map(|running| running.lives.iter()).flat_map(|live| &live.ids);
        let context = std::mem::take(&mut state.context);
        for id in context.tasks.iter().flat_map(rules::ids).chain(left.map(|id| &**id)) {
            self.tasks.keep(slot, id, false, false);
        }
    }

    /// Brings contexts and bytes down to the limits, and lets a few go that nobody used for long. `newest` stays.
    pub(super) fn make_room(&self, newest: Option<u64>) {
        let mut sweep = SWEPT_AT_ONCE;
        loop {
            let clock = self.clock.load(Ordering::Relaxed);
            let due = clock.saturating_sub(self.ttl());
            let next = lock(&self.ledger).next_to_go(&self.limits, newest, (due, clock), sweep > 0);
            let Some((seat, slot)) = next else { return };
            sweep = sweep.saturating_sub(1);
            let mut state = slot.lock();
            if state.seat == Some(seat) {
                self.discard(&slot, &mut state);
            }
        }
    }
}
