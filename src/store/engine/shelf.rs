//! Where contexts are kept.

use std::sync::{Arc, MutexGuard};

use super::{Going, Limits, Rank, Slot, State};
use crate::conversation::principal::{ContextKey, Principal, RouteId};

/// Where contexts are kept, and by what they are found. It holds no rule but one: there is one slot of a context at a time.
///
/// What is asked for is answered as if nothing could fail; a shelf that fails says so of the verb as a whole.
pub(in crate::store) trait Shelf: Sized + Send + Sync + 'static {
    /// What the shelf notes beside a context.
    type Mark: Default + Send;
    /// What is to be waited for before anybody is told what a context says.
    type Written: Default + Send;

    /// The context under this key, where there is one.
    fn find(&self, key: &ContextKey) -> Option<Arc<Slot<Self>>>;

    /// The same, or a new one.
    fn find_or(&self, key: &ContextKey, make: impl FnOnce() -> Slot<Self>) -> Arc<Slot<Self>>;

    /// The names in the key, as another context of the same owner has them, so that they are in memory once.
    fn owner(&self, key: &ContextKey) -> (RouteId, Principal);

    /// Goes through the contexts of an owner, one after the other.
    fn each_owned(&self, owner: &(RouteId, Principal), visit: &mut dyn FnMut(Arc<Slot<Self>>));

    /// Whether the context is one: somebody began in it, and it has not gone.
    fn is_there(&self, mark: &Self::Mark) -> bool;

    /// The context is as its state says from now on.
    fn note(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>, rank: Rank);

    /// The context goes by another key from now on, unless that is taken.
    fn rename(&self, slot: &Arc<Slot<Self>>, old: &ContextKey, new: &ContextKey) -> bool;

    /// The context goes.
    fn forget(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>);

    /// What the state says is to be waited for.
    fn written(&self, mark: &Self::Mark) -> Self::Written;

    /// The context that goes next, with its place, if one must: because the limits are passed, or, where `sweep`, because its time is over.
    fn next_to_go(&self, limits: &Limits, going: Going) -> Option<(Rank, Arc<Slot<Self>>)>;

    /// While this is held, nobody else binds the agent's id.
    fn alone(&self, route: &RouteId, id: &str) -> MutexGuard<'_, ()>;

    /// Where the client knows a task under this id. An entry of a context that is gone, or knows of no such task, means no record.
    fn client(&self, route: &RouteId, id: &str) -> Option<Arc<Slot<Self>>>;

    /// The id means a task of the agent's in this context from now on. Where it was known before.
    fn take_agent(&self, slot: &Arc<Slot<Self>>, id: &str) -> Vec<Arc<Slot<Self>>>;

    /// The id means a task of the agent's in this context, unless it means another.
    fn add_agent(&self, slot: &Arc<Slot<Self>>, id: &str);

    /// The client knows a task under this id in this context, unless in another.
    fn add_client(&self, slot: &Arc<Slot<Self>>, id: &str);

    /// Leaves of the context's entries under this id what still holds.
    fn keep(&self, slot: &Arc<Slot<Self>>, id: &str, client: bool, agent: bool);
}
