//! The agent's ids tied to the client's.

use std::sync::Arc;

use super::{Engine, Shelf, Slot, State};
use crate::conversation::principal::ContextKey;
use crate::store::rules::{self, Live};
use crate::store::{Bind, Lease, StoreError};
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
            let mut state = before.lock();
            // One that went meanwhile stays gone.
            if self.shelf.is_there(&state.mark) {
                let State { context, running, .. } = &mut *state;
                let lives = running.as_mut().map(|running| running.lives.all()).unwrap_or_default();
                rules::supersede(context, lives, &tied.bound.upstream_task, own);
                self.note(before, &mut state);
            }
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
        live.go_on();
        if live.provisional {
            self.move_out(slot, state, &bind)?;
            live.provisional = false;
        }
        let lease = Lease { key: slot.key(state), token: lease.token };
        if let Some(bound) = live.bound_again(&bind) {
            self.enter(slot, live, &bound.task_id, &bound.upstream_task);
            return Ok(Tied { lease, bound, slot: slot.clone(), before: Vec::new() });
        }
        let (task_id, before) = self.tie_task(slot, state, live, &bind);
        let bound = live.tie(task_id, &state.context_id, bind);
        self.enter(slot, live, &bound.task_id, &bound.upstream_task);
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
        let task = rules::task_of(live, bind);
        if !rules::is_fresh(&state.context, live, bind) {
            return (task.unwrap_or_default(), Vec::new());
        }
        let before = self.shelf.take_agent(slot, &bind.upstream_task);
        let minted = || if before.is_empty() { bind.upstream_task.clone() } else { bind.minted_task.clone() };
        (task.unwrap_or_else(minted), before)
    }

    /// Enters the ids of a turn in flight, to be looked through when it ends.
    pub(in crate::store) fn enter(&self, slot: &Arc<Slot<S>>, live: &mut Live, task: &str, upstream: &str) {
        if !task.is_empty() {
            self.shelf.add_client(slot, task);
        }
        if !upstream.is_empty() {
            self.shelf.add_agent(slot, upstream);
        }
        live.note(task);
        live.note(upstream);
    }
}
