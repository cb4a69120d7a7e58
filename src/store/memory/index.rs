//! Which context has a task of an id: one index for the client's ids and the agent's.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use dashmap::{DashMap, Entry};

use super::lock;
use super::slot::Slot;
use crate::conversation::principal::RouteId;

/// Binds of one agent's id are made one after the other, without those of others waiting.
const STRIPES: usize = 64;

/// A route and an id, as two hashes under random keys: an id takes 16 bytes however long it is, and nobody can make two collide.
type IdHash = (u64, u64);

/// The contexts that know an id.
#[derive(Default)]
struct Holders {
    /// Where the client knows a task under it.
    client: Option<Arc<Slot>>,
    /// Where it last came to mean a task of the agent's.
    agent: Option<Arc<Slot>>,
}

/// The index. What it says is checked against the context; an entry of one that is gone means no record.
pub(super) struct TaskIndex {
    keys: [RandomState; 2],
    ids: DashMap<IdHash, Holders>,
    stripes: Box<[Mutex<()>]>,
}

impl Default for TaskIndex {
    fn default() -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Self { keys: [RandomState::new(), RandomState::new()], ids: DashMap::new(), stripes }
    }
}

impl TaskIndex {
    fn hash(&self, route: &RouteId, id: &str) -> IdHash {
        let [first, second] = &self.keys;
        (first.hash_one((route, id)), second.hash_one((route, id)))
    }

    /// While this is held, nobody else binds the agent's id.
    pub(super) fn alone(&self, route: &RouteId, id: &str) -> MutexGuard<'_, ()> {
        lock(&self.stripes[self.hash(route, id).0 as usize % STRIPES])
    }

    /// Where the client knows a task under this id.
    pub(super) fn client(&self, route: &RouteId, id: &str) -> Option<Arc<Slot>> {
        self.ids.get(&self.hash(route, id))?.client.clone()
    }

    /// The id means a task of the agent's in this context from now on. Where it was known before.
    pub(super) fn take_agent(&self, slot: &Arc<Slot>, id: &str) -> Vec<Arc<Slot>> {
        let mut holders = self.ids.entry(self.hash(&slot.owner.0, id)).or_default();
        let agent = holders.agent.replace(slot.clone());
        let client =
            holders.client.clone().filter(|client| agent.as_ref().is_none_or(|agent| !Arc::ptr_eq(agent, client)));
        client.into_iter().chain(agent).collect()
    }

    /// The id means a task of the agent's in this context, unless it means another.
    pub(super) fn add_agent(&self, slot: &Arc<Slot>, id: &str) {
        self.ids.entry(self.hash(&slot.owner.0, id)).or_default().agent.get_or_insert_with(|| slot.clone());
    }

    /// The client knows a task under this id in this context.
    pub(super) fn add_client(&self, slot: &Arc<Slot>, id: &str) {
        self.ids.entry(self.hash(&slot.owner.0, id)).or_default().client.get_or_insert_with(|| slot.clone());
    }

    /// Leaves of the context's entries under this id what still holds.
    pub(super) fn keep(&self, slot: &Arc<Slot>, id: &str, client: bool, agent: bool) {
        let Entry::Occupied(mut entry) = self.ids.entry(self.hash(&slot.owner.0, id)) else { return };
        let holders = entry.get_mut();
        let ours = |held: &mut Arc<Slot>| Arc::ptr_eq(held, slot);
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
        self.ids.len()
    }
}
