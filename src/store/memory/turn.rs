//! A turn from its lease to its settlement.

use std::sync::Arc;

use super::slot::{Slot, State};
use super::{Memory, lock};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::rules::{self, Live};
use crate::store::{Begin, Begun, Lease, Pending, StoreError};

impl Memory {
    pub(super) fn begin_now(&self, begin: &Begin) -> Begun {
        self.tell_time(begin.now);
        let begun = loop {
            let slot = self.slot_or_new(begin);
            let mut state = slot.lock();
            // One that nobody has begun in yet has no seat; one that went while its lock was waited for is no longer in the map either.
            let new = state.seat.is_none() && self.contexts.get(&begin.key).is_some_and(|at| Arc::ptr_eq(&at, &slot));
            if new || self.is_there(&slot, &mut state, &begin.key) {
                break self.grant(&slot, &mut state, begin);
            }
        };
        self.make_room(None);
        begun
    }

    fn slot_or_new(&self, begin: &Begin) -> Arc<Slot> {
        if let Some(slot) = self.contexts.get(&begin.key) {
            return slot.value().clone();
        }
        let owner = self.shared_owner(&begin.key);
        let key = ContextKey { route: owner.0.clone(), principal: owner.1.clone(), ..begin.key.clone() };
        let new = |context_id| Slot::new(self.next_token(), owner, context_id, begin.fence.clone());
        let context_id = key.context_id.clone();
        self.contexts.entry(key).or_insert_with(|| Arc::new(new(context_id))).value().clone()
    }

    /// The names as another context of the same owner has them, so that they are in memory once.
    fn shared_owner(&self, key: &ContextKey) -> (RouteId, Principal) {
        let owner = (key.route.clone(), key.principal.clone());
        let known = self.owners.get(&owner).map(|known| known.key().clone());
        known.unwrap_or(owner)
    }

    fn grant(&self, slot: &Arc<Slot>, state: &mut State, begin: &Begin) -> Begun {
        let new = state.seat.is_none();
        let lives = &mut state.running.get_or_insert_default().lives;
        let (token, previous) = match lives.begin(begin, || self.next_token(), new && begin.provisional) {
            Ok(begun) => begun,
            Err(in_flight) => return Begun::Busy(*in_flight),
        };
        if new {
            self.owners.entry(slot.owner.clone()).or_default().insert(slot.serial, slot.clone());
        }
        state.changed();
        state.used = begin.now;
        lock(&self.ledger).seat(slot, state);
        Begun::Granted { lease: Lease { key: slot.key(state), token }, context: state.context.clone(), previous }
    }

    /// Does something in the context whose lease this is.
    pub(super) fn holding<T>(
        &self,
        lease: &Lease,
        act: impl FnOnce(&Arc<Slot>, &mut State, &mut Live) -> T,
    ) -> Result<T, StoreError> {
        let held = self.within(&lease.key, |slot, state| {
            let (at, mut live) = state.running.as_mut()?.lives.take(lease.token)?;
            let done = act(slot, state, &mut live);
            state.running.get_or_insert_default().lives.put(at, live);
            lock(&self.ledger).seat(slot, state);
            Some(done)
        });
        held.flatten().ok_or(StoreError::LeaseLost)
    }

    pub(super) fn observe_now(&self, lease: &Lease, pending: Pending) -> Result<(), StoreError> {
        self.tell_time(pending.looked_at);
        self.holding(lease, |slot, _, live| {
            if let Some(bound) = &pending.bound {
                self.enter(slot, live, &bound.task_id, &bound.upstream_task);
            }
            live.observe(pending);
        })
    }

    pub(super) fn renew_now(&self, lease: &Lease, until: u64) -> Result<(), StoreError> {
        self.holding(lease, |_, _, live| live.lease.until = until)
    }

    pub(super) fn settle_now(&self, lease: &Lease, settlement: Settlement) -> Result<Arc<Context>, StoreError> {
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

    pub(super) fn release_now(&self, lease: &Lease) {
        self.within(&lease.key, |slot, state| {
            let Some(lives) = state.running.as_mut().map(|running| &mut running.lives) else { return };
            let Some((at, mut live)) = lives.take(lease.token) else { return };
            if live.inherited {
                // The turn that was taken over is as unsettled as it was: dropped here it would be lost.
                live.leave(self.next_token());
                lives.put(at, live);
                state.changed();
                lock(&self.ledger).seat(slot, state);
            } else {
                self.end(slot, state, &live);
            }
        });
    }

    /// A turn is no longer in flight: of what it bound, what did not get into the context is forgotten.
    fn end(&self, slot: &Arc<Slot>, state: &mut State, live: &Live) {
        state.changed();
        for id in &live.ids {
            self.tidy(slot, state, id);
        }
        if state.running.is_none() && rules::is_blank(&state.context) {
            self.discard(slot, state);
        } else {
            lock(&self.ledger).seat(slot, state);
        }
    }

    fn tidy(&self, slot: &Arc<Slot>, state: &State, id: &str) {
        let context = &state.context;
        // What runs beside may have bound it too.
        let bound = state.lives().iter().any(|live| live.ids.iter().any(|known| **known == *id));
        let upstream = context.tasks.iter().any(|task| rules::was_upstream(task, id));
        self.tasks.keep(slot, id, bound || context.task(id).is_some(), bound || upstream);
    }

    fn apply(&self, slot: &Arc<Slot>, state: &mut State, live: &mut Live, settlement: Settlement) {
        let limit = self.limits.context_bytes;
        let settled = rules::settle(Arc::make_mut(&mut state.context), live, settlement, limit);
        if let Some((task, upstream)) = settled.known {
            self.enter(slot, live, &task, &upstream);
        }
        for id in settled.loose {
            self.tidy(slot, state, &id);
        }
        let bytes = state.context.size();
        lock(&self.ledger).count(state, bytes);
    }
}
