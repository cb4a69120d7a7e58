//! The agent's ids tied to the client's.

use std::sync::Arc;

use super::{Engine, Live, Shelf, Slot, State, slot};
use crate::conversation::principal::ContextKey;
use crate::store::{Bind, Lease, StoreError};
use crate::task::ClientTask;
use crate::turn::Bound;

/// What a bind comes to in its own context.
struct Tied<S: Shelf> {
    lease: Lease,
    bound: Bound,
    slot: Arc<Slot<S>>,
    /// Where the agent's id was known before, under another task.
    before: Vec<Arc<Slot<S>>>,
}

impl<S: Shelf> Engine<S> {
    pub(in crate::store) fn bind_now(&self, lease: &Lease, bind: Bind) -> Result<(Lease, Bound), StoreError> {
        self.drop_expired(lease, &bind);
        let _alone = self.shelf.alone(&lease.key.route, &bind.upstream_task);
        let tied = self.holding(lease, |slot, state, live| self.tie(slot, state, live, lease, bind))??;
        for before in &tied.before {
            // One slot at a time: what another task loses is told to it when this one's lock is given back.
            let own = Arc::ptr_eq(before, &tied.slot).then_some(&*tied.bound.task_id);
            self.supersede(before, &tied.bound.upstream_task, own);
        }
        Ok((tied.lease, tied.bound))
    }

    /// A context whose time is over is none that the agent's contextId could clash with.
    fn drop_expired(&self, lease: &Lease, bind: &Bind) {
        if *lease.key.context_id != *bind.upstream_context {
            self.within(
                &ContextKey { context_id: bind.upstream_context.as_str().into(), ..lease.key.clone() },
                |_, _| (),
            );
        }
    }

    fn tie(
        &self,
        slot: &Arc<Slot<S>>,
        state: &mut State<S>,
        live: &mut Live,
        lease: &Lease,
        bind: Bind,
    ) -> Result<Tied<S>, StoreError> {
        if live.inherited {
            // The holder goes on with a turn of its own.
            live.inherited = false;
            live.lease.pending = None;
        }
        if live.provisional {
            self.move_out(slot, state, &bind)?;
            live.provisional = false;
        }
        let lease = Lease { key: slot.key(state), token: lease.token };
        if let Some(bound) = live.bound.as_mut().filter(|bound| same_turn(bound, &bind)) {
            if bound.upstream_context.is_empty() {
                bound.upstream_context = bind.upstream_context;
            }
            let bound = bound.clone();
            self.enter(slot, live, &bound.task_id, &bound.upstream_task);
            live.show(&bound);
            return Ok(Tied { lease, bound, slot: slot.clone(), before: Vec::new() });
        }
        let (task_id, before) = self.tie_task(slot, state, live, &bind);
        let context_id = state.context_id.as_ref().to_owned();
        let Bind { upstream_task, upstream_context, .. } = bind;
        let bound = Bound { task_id, context_id, upstream_task, upstream_context };
        self.enter(slot, live, &bound.task_id, &bound.upstream_task);
        live.show(&bound);
        live.bound = Some(bound.clone());
        Ok(Tied { lease, bound, slot: slot.clone(), before })
    }

    /// Moves a provisional context to its contextId.
    fn move_out(&self, slot: &Arc<Slot<S>>, state: &mut State<S>, bind: &Bind) -> Result<(), StoreError> {
        let old = slot.key(state);
        let wished = (!bind.upstream_context.is_empty()).then_some(&bind.upstream_context);
        for context_id in wished.into_iter().chain([&bind.minted_context]) {
            let key = ContextKey { context_id: context_id.as_str().into(), ..old.clone() };
            if self.shelf.rename(slot, &old, &key) {
                state.context_id = key.context_id;
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("a contextId that was minted exists already".to_owned()))
    }

    /// The client task of the turn, and where the agent's id was known before.
    fn tie_task(&self, slot: &Arc<Slot<S>>, state: &State<S>, live: &Live, bind: &Bind) -> (String, Vec<Arc<Slot<S>>>) {
        // A turn that the client knows stays the task that it is, whatever else the agent comes to call it.
        let bound = live.bound.as_ref().map(|bound| bound.task_id.clone()).filter(|id| !id.is_empty());
        let task = bound.or_else(|| bind.task.clone());
        let id = &bind.upstream_task;
        if id.is_empty() {
            return (task.unwrap_or_default(), Vec::new());
        }
        let chain = task.as_ref().and_then(|task| state.context.task(task));
        // Of a superseded chain the id has meant another task meanwhile: it is no less taken over for having been this one's before.
        if chain.is_some_and(|chain| !chain.superseded && slot::was_upstream(chain, id)) {
            return (task.unwrap_or_default(), Vec::new());
        }
        let before = self.shelf.take_agent(slot, id);
        let minted = || if before.is_empty() { id.clone() } else { bind.minted_task.clone() };
        (task.unwrap_or_else(minted), before)
    }

    /// Enters the ids of a turn in flight, to be looked through when it ends.
    pub(in crate::store) fn enter(&self, slot: &Arc<Slot<S>>, live: &mut Live, task: &str, upstream: &str) {
        let mut note = |id: &str| {
            if !live.ids.iter().any(|known| **known == *id) {
                live.ids.push(id.into());
            }
        };
        if !task.is_empty() {
            self.shelf.add_client(slot, task);
            note(task);
        }
        if !upstream.is_empty() {
            self.shelf.add_agent(slot, upstream);
            note(upstream);
        }
    }

    /// The agent's id has come to mean another task. `own` is that task, where it is in the same context.
    fn supersede(&self, slot: &Arc<Slot<S>>, id: &str, own: Option<&str>) {
        let mut state = slot.lock();
        // One that went meanwhile stays gone.
        if !self.shelf.is_there(&state.mark) {
            return;
        }
        let older = |id_of: &str| own != Some(id_of);
        let stale = |task: &ClientTask| {
            !task.superseded && older(&task.id) && (*task.id == *id || slot::was_upstream(task, id))
        };
        if state.context.tasks.iter().any(stale) {
            let context = Arc::make_mut(&mut state.context);
            context.tasks.iter_mut().filter(|task| stale(task)).for_each(|task| task.superseded = true);
        }
        if let Some(live) = &mut state.live {
            let shown = live.shown().filter(|bound| older(&bound.task_id));
            let stale = shown.filter(|bound| bound.task_id == id || bound.upstream_task == id);
            if let Some(task) = stale.map(|bound| bound.task_id.as_str().into()) {
                live.superseded = Some(task);
            }
        }
        self.note(slot, &mut state);
    }
}

/// Whether the bind tells nothing new of a turn that is bound.
fn same_turn(bound: &Bound, bind: &Bind) -> bool {
    bind.upstream_task.is_empty() || bind.upstream_task == bound.upstream_task
}
