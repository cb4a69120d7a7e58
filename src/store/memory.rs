//! The store in memory: as fast as it gets, and gone with the process.

mod index;
mod ledger;
mod notes;
mod outbox;
mod shelf;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

pub(super) use self::notes::Notes;
pub(super) use self::outbox::Outbox;
use self::shelf::Maps;
use super::engine::{Engine, Limits, lock};
use super::{Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::turn::Bound;

/// Conversations in memory.
///
/// A context with a turn in flight stays whatever the limits say, so they are passed by at most the turns in flight at once; a turn that
/// anybody may take away counts as none.
pub struct Memory {
    engine: Engine<Maps>,
    secret: [u8; 32],
    notes: Mutex<Notes>,
    outbox: Mutex<Outbox>,
}

impl Memory {
    /// An empty store. `secret` is what credentials are hashed with: random, and with the contexts gone there is nothing to keep it for.
    pub fn new(limits: Limits, secret: [u8; 32]) -> Self {
        Self::starting_at(limits, secret, 0)
    }

    /// The same, with tokens that are greater than `tokens`.
    pub(super) fn starting_at(limits: Limits, secret: [u8; 32], tokens: u64) -> Self {
        let engine = Engine::new(Maps::default(), limits, tokens);
        Self { engine, secret, notes: Mutex::default(), outbox: Mutex::default() }
    }
}

impl Store for Memory {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(async move { Ok(self.engine.begin_now(&begin).0) })
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        Box::pin(async move { self.engine.bind_now(lease, bind) })
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        Box::pin(async move { self.engine.observe_now(lease, pending) })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        Box::pin(async move { self.engine.settle_now(lease, settlement) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.engine.renew_now(lease, until) })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        Box::pin(async move {
            self.engine.release_now(lease);
            Ok(())
        })
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        Box::pin(async move { Ok(self.engine.within(key, |slot, state| self.engine.found(slot, state, None).0)) })
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        Box::pin(async move { Ok(self.engine.find_task(route, principal, id).map(|(found, ())| found)) })
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        Box::pin(async move { Ok(self.engine.list_now(&query)) })
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        Box::pin(async move {
            self.engine.within(key, |slot, state| self.engine.discard(slot, state));
            Ok(())
        })
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            // Registered while the slot is locked: a turn that ends from here on wakes it, however late it is polled.
            let end = self.engine.within(key, |_, state| state.end_of(token)).flatten();
            if let Some(end) = end {
                end.await;
            }
            Ok(())
        })
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.engine.configure_now(key, change)) })
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut notes = lock(&self.notes);
            notes.clear(self.engine.now());
            notes.keep(name, value, until);
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
