//! Which context has a task of an id: one index for the client's ids and the agent's.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use super::shelf::Maps;
use crate::conversation::principal::RouteId;
use crate::store::engine::{Slot, lock};

/// Parts of the index, each behind a lock of its own.
const PARTS: usize = 64;

/// A route and an id, as two hashes under random keys: an id takes 16 bytes however long it is, and nobody can make two collide.
type IdHash = (u64, u64);

/// The contexts that know an id.
#[derive(Default)]
struct Holders {
    /// Where the client knows a task under it.
    client: Option<Arc<Slot<Maps>>>,
    /// Where it last came to mean a task of the agent's.
    agent: Option<Arc<Slot<Maps>>>,
}

#[derive(Default)]
struct Part {
    /// Binds of one of the agent's ids are made one after the other, without those of others waiting.
    alone: Mutex<()>,
    /// No hash table: one that is at its limit doubles sooner or later, whatever goes as new ids come, and this is most of the store's own.
    ids: Mutex<BTreeMap<IdHash, Holders>>,
}

/// The index. What it says is checked against the context; an entry of one that is gone means no record.
pub(super) struct TaskIndex {
    keys: [RandomState; 2],
    parts: Box<[Part]>,
}

impl Default for TaskIndex {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Self { keys: [RandomState::new(), RandomState::new()], parts }
    }
}

impl TaskIndex {
    fn locate(&self, route: &RouteId, id: &str) -> (IdHash, &Part) {
        let [first, second] = &self.keys;
        let hash = (first.hash_one((route, id)), second.hash_one((route, id)));
        (hash, &self.parts[hash.1 as usize % PARTS])
    }

    /// Looks at an id's entry, made where there is none.
    fn at<T>(&self, slot: &Slot<Maps>, id: &str, act: impl FnOnce(&mut Holders) -> T) -> T {
        let (hash, part) = self.locate(&slot.owner.0, id);
        act(lock(&part.ids).entry(hash).or_default())
    }

    /// While this is held, nobody else binds the agent's id.
    pub(super) fn alone(&self, route: &RouteId, id: &str) -> MutexGuard<'_, ()> {
        lock(&self.locate(route, id).1.alone)
    }

    /// Where the client knows a task under this id.
    pub(super) fn client(&self, route: &RouteId, id: &str) -> Option<Arc<Slot<Maps>>> {
        let (hash, part) = self.locate(route, id);
        lock(&part.ids).get(&hash)?.client.clone()
    }

    /// The id means a task of the agent's in this context from now on. Where it was known before.
    pub(super) fn take_agent(&self, slot: &Arc<Slot<Maps>>, id: &str) -> Vec<Arc<Slot<Maps>>> {
        self.at(slot, id, |holders| {
            let agent = holders.agent.replace(slot.clone());
            let other = |client: &Arc<Slot<Maps>>| agent.as_ref().is_none_or(|agent| !Arc::ptr_eq(agent, client));
            let client = holders.client.clone().filter(other);
            client.into_iter().chain(agent.clone()).collect()
        })
    }

    /// The id means a task of the agent's in this context, unless it means another.
    pub(super) fn add_agent(&self, slot: &Arc<Slot<Maps>>, id: &str) {
        self.at(slot, id, |holders| _ = holders.agent.get_or_insert_with(|| slot.clone()));
    }

    /// The client knows a task under this id in this context.
    pub(super) fn add_client(&self, slot: &Arc<Slot<Maps>>, id: &str) {
        self.at(slot, id, |holders| _ = holders.client.get_or_insert_with(|| slot.clone()));
    }

    /// Leaves of the context's entries under this id what still holds.
    pub(super) fn keep(&self, slot: &Arc<Slot<Maps>>, id: &str, client: bool, agent: bool) {
        let (hash, part) = self.locate(&slot.owner.0, id);
        let mut ids = lock(&part.ids);
        let Entry::Occupied(mut entry) = ids.entry(hash) else { return };
        let holders = entry.get_mut();
        let ours = |held: &mut Arc<Slot<Maps>>| Arc::ptr_eq(held, slot);
        if !client {
            holders.client.take_if(ours);
        }
        if !agent {
            holders.agent.take_if(ours);
        }
        if holders.client.is_none() && holders.agent.is_none() {
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(&part.ids).len()).sum()
    }
}
