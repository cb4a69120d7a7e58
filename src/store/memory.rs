//! The store in memory: as fast as it gets, and gone with the process.
//!
//! Every context is a [`Slot`] behind a lock of its own. Locks are taken in this order and never the other way: an agent's id, a slot (one at
//! a time), a shard of a map, the ledger. No lock is held over an await: a verb does all its work when its future is first polled.

mod bind;
mod index;
mod ledger;
mod list;
mod notes;
mod outbox;
mod room;
mod slot;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use self::index::TaskIndex;
use self::ledger::Ledger;
use self::notes::Notes;
use self::outbox::Outbox;
use self::slot::{Slot, State};
use super::{Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::turn::Bound;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Contexts at most; beyond that the longest unused one without a turn in flight goes.
    pub contexts: usize,
    /// Bytes of all transcripts at most; beyond that likewise.
    pub bytes: usize,
    /// Bytes of one context's transcript at most; beyond that its oldest turns go.
    pub context_bytes: usize,
    /// How long a context is kept that nobody uses: in which no turn begins or settles.
    pub ttl: Duration,
}

/// Conversations in memory.
///
/// A context with a turn in flight stays whatever the limits say, so they are passed by at most the turns in flight at once; a turn that
/// anybody may take away counts as none.
pub struct Memory {
    limits: MemoryLimits,
    secret: [u8; 32],
    /// The newest token; one for all contexts, so that it rises also in a context that went and came anew.
    tokens: AtomicU64,
    /// The latest time that a verb was told: most reads are told none.
    clock: AtomicU64,
    contexts: DashMap<ContextKey, Arc<Slot>>,
    owners: DashMap<(RouteId, Principal), HashMap<u64, Arc<Slot>>>,
    tasks: TaskIndex,
    ledger: Mutex<Ledger>,
    notes: Mutex<Notes>,
    outbox: Mutex<Outbox>,
}

/// A panic while a lock was held is the caller's to report; the state behind it is as consistent as the verb left it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// An empty store. `secret` is what credentials are hashed with: random, and with the contexts gone there is nothing to keep it for.
    pub fn new(limits: MemoryLimits, secret: [u8; 32]) -> Self {
        Self {
            limits,
            secret,
            tokens: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            contexts: DashMap::new(),
            owners: DashMap::new(),
            tasks: TaskIndex::default(),
            ledger: Mutex::default(),
            notes: Mutex::default(),
            outbox: Mutex::default(),
        }
    }

    fn next_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn tell_time(&self, now: u64) {
        self.clock.fetch_max(now, Ordering::Relaxed);
    }

    fn ttl(&self) -> u64 {
        u64::try_from(self.limits.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    fn found(slot: &Slot, state: &State, task: Option<&str>) -> Found {
        Found { key: slot.key(state), context: state.context.clone(), in_flight: state.in_flight(task) }
    }

    /// Principals are told apart before the record is looked at: one of another is as quickly not found as one that does not exist.
    fn find_task(&self, route: &RouteId, principal: &Principal, id: &str) -> Option<Found> {
        let slot = self.tasks.client(route, id)?;
        if slot.owner.1 != *principal {
            return None;
        }
        let mut state = slot.lock();
        let key = slot.key(&state);
        (self.is_there(&slot, &mut state, &key) && state.knows(id)).then(|| Self::found(&slot, &state, Some(id)))
    }
}

impl Store for Memory {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(async move { Ok(self.begin_now(&begin)) })
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        Box::pin(async move { self.bind_now(lease, bind) })
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        Box::pin(async move { self.observe_now(lease, pending) })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        Box::pin(async move { self.settle_now(lease, settlement) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.renew_now(lease, until) })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        Box::pin(async move {
            self.release_now(lease);
            Ok(())
        })
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        Box::pin(async move { Ok(self.within(key, |slot, state| Self::found(slot, state, None))) })
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        Box::pin(async move { Ok(self.find_task(route, principal, id)) })
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        Box::pin(async move { Ok(self.list_now(&query)) })
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        Box::pin(async move {
            self.within(key, |slot, state| self.discard(slot, state));
            Ok(())
        })
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            // Registered while the slot is locked: a turn that ends from here on wakes it, however late it is polled.
            let end = self.within(key, |_, state| state.end_of(token)).flatten();
            if let Some(end) = end {
                end.await;
            }
            Ok(())
        })
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        let changed = |state: &mut State| Arc::make_mut(&mut state.context).configure(change);
        Box::pin(async move { Ok(self.within(key, |_, state| changed(state)).unwrap_or(false)) })
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            lock(&self.notes).keep(name, value, until, self.clock.load(Ordering::Relaxed));
            Ok(())
        })
    }

    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { Ok(lock(&self.notes).find(name, now)) })
    }

    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        Box::pin(async move { Ok(lock(&self.outbox).push(delivery)) })
    }

    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        Box::pin(async move { Ok(lock(&self.outbox).take(now, until, limit)) })
    }

    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        Box::pin(async move {
            lock(&self.outbox).done(id, again);
            Ok(())
        })
    }

    fn outbox_len(&self) -> Answer<'_, usize> {
        Box::pin(async move { Ok(lock(&self.outbox).len()) })
    }

    fn secret(&self) -> [u8; 32] {
        self.secret
    }
}
