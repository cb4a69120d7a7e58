//! Which contexts are there, and which go.

use std::sync::Arc;

use super::{Engine, Going, Shelf, Slot, State};
use crate::conversation::principal::ContextKey;
use crate::store::rules;

/// Contexts that go, because nobody used them for long, with every one that comes.
const SWEPT_AT_ONCE: usize = 8;

impl<S: Shelf> Engine<S> {
    /// Does something in the context under this key, where there is one.
    pub(in crate::store) fn within<T>(
        &self,
        key: &ContextKey,
        act: impl FnOnce(&Arc<Slot<S>>, &mut State<S>) -> T,
    ) -> Option<T> {
        let slot = self.shelf.find(key)?;
        let mut state = slot.lock();
        self.is_there(&slot, &mut state, key).then(|| act(&slot, &mut state))
    }

    /// Whether the slot, now that it is locked, still is the context under this key. One that nobody used for too long goes here.
    pub(in crate::store) fn is_there(&self, slot: &Arc<Slot<S>>, state: &mut State<S>, key: &ContextKey) -> bool {
        if state.running.is_none() && state.used.saturating_add(self.limits.ttl_of(&slot.owner.0)) <= self.now() {
            self.discard(slot, state);
        }
        self.shelf.is_there(&state.mark) && state.context_id == key.context_id
    }

    /// Forgets a context, wherever it is mentioned.
    pub(in crate::store) fn discard(&self, slot: &Arc<Slot<S>>, state: &mut State<S>) {
        self.shelf.forget(slot, state);
        let left = state.running.take();
        let left = left.iter().flat_map(|running| running.lives.iter()).flat_map(|live| &live.ids);
        let context = std::mem::take(&mut state.context);
        for id in context.tasks.iter().flat_map(rules::ids).chain(left.map(|id| &**id)) {
            self.shelf.keep(slot, id, false, false);
        }
    }

    /// Brings contexts and bytes down to the limits, and lets a few go that nobody used for long. `newest` stays.
    pub(super) fn make_room(&self, newest: Option<u64>) {
        let mut swept = 0;
        loop {
            let going = Going { clock: self.now(), newest, sweep: swept < SWEPT_AT_ONCE };
            let Some((rank, slot)) = self.shelf.next_to_go(&self.limits, going) else { return };
            swept += 1;
            let mut state = slot.lock();
            if self.shelf.is_there(&state.mark) && state.rank(&self.limits, &slot.owner.0) == rank {
                self.discard(&slot, &mut state);
            }
        }
    }
}
