//! Contexts in memory: maps, and nothing behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use dashmap::{DashMap, Entry};

use super::index::TaskIndex;
use super::ledger::{Ledger, Seat};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::engine::Going;
use crate::store::engine::{Limits, Rank, Shelf, Slot, State, lock};

/// The contexts of an owner, by their serial numbers.
type Owned = HashMap<u64, Arc<Slot<Maps>>>;

/// Contexts in memory.
#[derive(Default)]
pub(in crate::store) struct Maps {
    pub(super) contexts: DashMap<ContextKey, Arc<Slot<Self>>>,
    pub(super) owners: DashMap<(RouteId, Principal), Owned>,
    pub(super) tasks: TaskIndex,
    pub(super) ledger: Mutex<Ledger>,
}

/// What memory notes beside a context.
#[derive(Default)]
pub(in crate::store) struct Mark {
    /// Its place in the ledger; none before the first lease, and none once the context is gone.
    pub(super) seat: Option<Seat>,
    /// Bytes that the ledger counts for it.
    pub(super) bytes: usize,
}

impl Shelf for Maps {
    type Mark = Mark;
    type Written = ();

    fn find(&self, key: &ContextKey) -> Option<Arc<Slot<Self>>> {
        self.contexts.get(key).map(|slot| slot.value().clone())
    }

    fn find_or(&self, key: &ContextKey, make: impl FnOnce() -> Slot<Self>) -> Arc<Slot<Self>> {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let (route, principal) = self.owner(key);
        let key = ContextKey { route, principal, ..key.clone() };
        self.contexts.entry(key).or_insert_with(|| Arc::new(make())).value().clone()
    }

    fn owner(&self, key: &ContextKey) -> (RouteId, Principal) {
        let owner = (key.route.clone(), key.principal.clone());
        let known = self.owners.get(&owner).map(|known| known.key().clone());
        known.unwrap_or(owner)
    }

    fn each_owned(&self, owner: &(RouteId, Principal), visit: &mut dyn FnMut(Arc<Slot<Self>>)) {
        let owned: Vec<_> = self.owners.get(owner).map(|slots| slots.values().cloned().collect()).unwrap_or_default();
        owned.into_iter().for_each(visit);
    }

    fn is_there(&self, mark: &Mark) -> bool {
        mark.seat.is_some()
    }

    fn note(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>, rank: Rank) {
        if state.mark.seat.is_none() {
            self.owners.entry(slot.owner.clone()).or_default().insert(slot.serial, slot.clone());
        }
        lock(&self.ledger).seat(slot, state, rank);
    }

    fn rename(&self, slot: &Arc<Slot<Self>>, old: &ContextKey, new: &ContextKey) -> bool {
        let Entry::Vacant(vacant) = self.contexts.entry(new.clone()) else { return false };
        vacant.insert(slot.clone());
        self.contexts.remove(old);
        true
    }

    fn forget(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>) {
        lock(&self.ledger).leave(state);
        self.contexts.remove_if(&slot.key(state), |_, found| Arc::ptr_eq(found, slot));
        if let Entry::Occupied(mut owned) = self.owners.entry(slot.owner.clone()) {
            owned.get_mut().remove(&slot.serial);
            if owned.get().is_empty() {
                owned.remove();
            }
        }
    }

    fn written(&self, _: &Mark) {}

    fn next_to_go(&self, limits: &Limits, going: Going) -> Option<(Rank, Arc<Slot<Self>>)> {
        lock(&self.ledger).next_to_go(limits, going)
    }

    fn alone(&self, route: &RouteId, id: &str) -> MutexGuard<'_, ()> {
        self.tasks.alone(route, id)
    }

    fn client(&self, route: &RouteId, id: &str) -> Option<Arc<Slot<Self>>> {
        self.tasks.client(route, id)
    }

    fn take_agent(&self, slot: &Arc<Slot<Self>>, id: &str) -> Vec<Arc<Slot<Self>>> {
        self.tasks.take_agent(slot, id)
    }

    fn add_agent(&self, slot: &Arc<Slot<Self>>, id: &str) {
        self.tasks.add_agent(slot, id);
    }

    fn add_client(&self, slot: &Arc<Slot<Self>>, id: &str) {
        self.tasks.add_client(slot, id);
    }

    fn keep(&self, slot: &Arc<Slot<Self>>, id: &str, client: bool, agent: bool) {
        self.tasks.keep(slot, id, client, agent);
    }
}
