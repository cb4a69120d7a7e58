//! A turn from its lease to its settlement.

use std::sync::Arc;

use super::{Engine, Shelf, Slot, State};
use crate::context::{Context, Settlement};
use crate::conversation::principal::ContextKey;
use crate::store::rules::{self, Live};
use crate::store::{Begin, Begun, Lease, Pending, StoreError};

impl<S: Shelf> Engine<S> {
    pub(in crate::store) fn begin_now(&self, begin: &Begin) -> (Begun, S::Written) {
        self.tell_time(begin.now);
        let begun = loop {
            let slot = self.slot_of(&begin.key, begin.fence.clone());
            let mut state = slot.lock();
            // One that nobody has begun in yet is no context; one that went while its lock was waited for is no longer found either.
            let here = |found: Arc<Slot<S>>| Arc::ptr_eq(&found, &slot);
            let new = !self.shelf.is_there(&state.mark) && self.shelf.find(&begin.key).is_some_and(here);
            if new || self.is_there(&slot, &mut state, &begin.key) {
                let begun = self.grant(&slot, &mut state, begin);
                break (begun, self.shelf.written(&state.mark));
            }
        };
        self.make_room(None);
        begun
    }

    /// The slot under a key: one that there is, or a new one.
    pub(in crate::store) fn slot_of(&self, key: &ContextKey, fence: String) -> Arc<Slot<S>> {
        self.shelf.find_or(key, || {
            let (owner, context_id) = (self.shelf.owner(key), key.context_id.clone());
            Slot::new(self.next_token(), owner, context_id, Context::new(fence))
        })
    }

    fn grant(&self, slot: &Arc<Slot<S>>, state: &mut State<S>, begin: &Begin) -> Begun {
        let new = !self.shelf.is_there(&state.mark);
        let lives = &mut state.running.get_or_insert_default().lives;
        let (token, previous) = match lives.begin(begin, || self.next_token(), new && begin.provisional) {
            Ok(begun) => begun,
            Err(in_flight) => return Begun::Busy(*in_flight),
        };
        state.changed();
        state.used = begin.now;
        self.note(slot, state);
        Begun::Granted { lease: Lease { key: slot.key(state), token }, context: state.context.clone(), previous }
    }

    /// Does something in the context whose lease this is.
    pub(in crate::store) fn holding<T>(
        &self,
        lease: &Lease,
        act: impl FnOnce(&Arc<Slot<S>>, &mut State<S>, &mut Live) -> T,
    ) -> Result<T, StoreError> {
        let held = self.within(&lease.key, |slot, state| {
            let (at, mut live) = state.running.as_mut()?.lives.take(lease.token)?;
            let done = act(slot, state, &mut live);
            state.running.get_or_insert_default().lives.put(at, live);
            self.note(slot, state);
            Some(done)
        });
        held.flatten().ok_or(StoreError::LeaseLost)
    }

    pub(in crate::store) fn observe_now(&self, lease: &Lease, pending: Pending) -> Result<(), StoreError> {
        self.tell_time(pending.looked_at);
        self.holding(lease, |slot, _, live| {
            if let Some(bound) = &pending.bound {
                self.enter(slot, live, &bound.task_id, &bound.upstream_task);
            }
            live.observe(pending);
        })
    }

    pub(in crate::store) fn renew_now(&self, lease: &Lease, until: u64) -> Result<(), StoreError> {
        self.holding(lease, |_, _, live| live.lease.until = until)
    }

    pub(in crate::store) fn settle_now(
        &self,
        lease: &Lease,
        settlement: Settlement,
    ) -> Result<Arc<Context>, StoreError> {
        self.tell_time(settlement.now);
        let settled = self.within(&lease.key, |slot, state| {
            let (_, mut live) = state.running.as_mut()?.lives.take(lease.token)?;
            state.used = settlement.now;
            self.apply(slot, state, &mut live, settlement);
            self.end(slot, state, &live);
            Some((slot.serial, state.context.clone()))
        });
        let (newest, context) = settled.flatten().ok_or(StoreError::LeaseLost)?;
        self.make_room(Some(newest));
        Ok(context)
    }

    pub(in crate::store) fn release_now(&self, lease: &Lease) {
        self.within(&lease.key, |slot, state| {
            let Some(lives) = state.running.as_mut().map(|running| &mut running.lives) else { return };
            let Some((at, mut live)) = lives.take(lease.token) else { return };
            if live.inherited {
                // The turn that was taken over is as unsettled as it was: dropped here it would be lost.
                live.leave(self.next_token());
                lives.put(at, live);
                state.changed();
                self.note(slot, state);
            } else {
                self.end(slot, state, &live);
            }
        });
    }

    /// A turn is no longer in flight: of what it bound, what did not get into the context is forgotten.
    fn end(&self, slot: &Arc<Slot<S>>, state: &mut State<S>, live: &Live) {
        state.changed();
        for id in &live.ids {
            self.tidy(slot, state, id);
        }
        if state.running.is_none() && state.context.is_blank() {
            self.discard(slot, state);
        } else {
            self.note(slot, state);
        }
    }

    fn tidy(&self, slot: &Arc<Slot<S>>, state: &State<S>, id: &str) {
        let context = &state.context;
        // What runs beside may have bound it too.
        let bound = state.lives().iter().any(|live| live.ids.iter().any(|known| **known == *id));
        let upstream = context.tasks.iter().any(|task| rules::was_upstream(task, id));
        self.shelf.keep(slot, id, bound || context.task(id).is_some(), bound || upstream);
    }

    fn apply(&self, slot: &Arc<Slot<S>>, state: &mut State<S>, live: &mut Live, settlement: Settlement) {
        let limit = self.limits.context_bytes;
        let settled = rules::settle(Arc::make_mut(&mut state.context), live, settlement, limit);
        if let Some((task, upstream)) = settled.known {
            self.enter(slot, live, &task, &upstream);
        }
        for id in settled.loose {
            self.tidy(slot, state, &id);
        }
        state.bytes = state.context.size();
    }
}
