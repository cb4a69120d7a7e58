//! A turn that is being run: its lease, its machine, and what its view takes.

use std::sync::Arc;

use super::core::{Core, mint, timestamp};
use super::guard::Guard;
use super::push;
use super::settle::Ended;
use crate::a2a::{Part, Payload, Shape, State};
use crate::context::Context;
use crate::json::Edits;
use crate::store::{Bind, Pending, StoreError};
use crate::turn::{Bound, Turn, View, task_of_message};

/// A turn that is being run: its lease, its machine, and what its view takes.
pub(super) struct Running {
    pub(super) guard: Guard,
    pub(super) context: Arc<Context>,
    pub(super) turn: Turn,
    /// The contextId that the client knows; `None` while it knows none.
    pub(super) context_id: Option<String>,
    pub(super) bound: Option<Bound>,
    /// The client's own messages, to be put back where the agent echoes them.
    pub(super) originals: Vec<(String, Vec<Part>)>,
    /// The `historyLength` of the request that is answered.
    pub(super) history_length: Option<u64>,
    pub(super) injected: usize,
    /// Whether the message joins a turn that waits: where it fails the turn goes on waiting.
    pub(super) joins: bool,
    /// The state in which the turn was left, where it was begun by another request.
    pub(super) left: State,
    /// The state that webhooks were last told; `None` where the task is new to them.
    pub(super) told: Option<State>,
    /// Whether the send came with a push configuration.
    pub(super) wished: bool,
}

impl Running {
    /// A turn of which nothing has come back yet.
    pub(super) fn begun(
        guard: Guard,
        context: Arc<Context>,
        turn: Turn,
        context_id: Option<String>,
        injected: usize,
    ) -> Self {
        Self {
            guard,
            context,
            turn,
            context_id,
            bound: None,
            originals: Vec::new(),
            history_length: None,
            injected,
            joins: false,
            left: State::Working,
            told: None,
            wished: false,
        }
    }

    /// Says that the turn is under way: from here on its task reads as working.
    pub(super) async fn begin(&mut self, now: u64) -> Result<(), StoreError> {
        let pending = Pending {
            opening: Arc::clone(&self.turn.opening),
            bound: self.bound.clone(),
            state: State::Working,
            idle: false,
            looked_at: now,
        };
        self.guard.observe(pending).await?;
        push::under_way(self).await;
        Ok(())
    }

    pub(super) fn bind(&self, payload: &Payload<'_, '_>) -> Bind {
        let opening = &self.turn.opening;
        let upstream_task = payload.task_id().map(std::borrow::Cow::into_owned).unwrap_or_default();
        Bind {
            // What a bare message says of tasks counts only where it answers one.
            upstream_task: if matches!(payload, Payload::Message(_)) { String::new() } else { upstream_task },
            upstream_context: payload.context_id().map(std::borrow::Cow::into_owned).unwrap_or_default(),
            task: opening.task.clone(),
            minted_context: mint(),
            minted_task: mint(),
        }
    }

    /// Whether the agent works on, and nobody here waits for it.
    pub(super) fn is_left_running(&self) -> bool {
        let works = matches!(self.turn.state(), Some(State::Submitted | State::Working));
        works && self.guard.key().is_none()
    }

    /// Tells others how the turn stands that is read here.
    pub(super) async fn say_where_it_stands(&self, now: u64) -> Result<(), StoreError> {
        let pending = Pending {
            opening: Arc::clone(&self.turn.opening),
            bound: self.bound.clone(),
            state: self.turn.state().unwrap_or(self.left),
            idle: false,
            looked_at: now,
        };
        self.guard.observe(pending).await
    }

    /// The response ends, the turn does not: whoever sees its end settles it.
    pub(super) async fn leave_unsettled(&mut self, now: u64) -> Result<(), StoreError> {
        let pending = Pending {
            opening: Arc::clone(&self.turn.opening),
            bound: self.bound.clone(),
            state: self.turn.state().unwrap_or(self.left),
            idle: true,
            looked_at: now,
        };
        self.guard.observe(pending).await?;
        push::under_way(self).await;
        self.guard.leave();
        Ok(())
    }

    pub(super) fn view<'a>(&'a self, core: &'a Core, bound: &'a Bound, artifacts: bool) -> View<'a> {
        View {
            task_id: &bound.task_id,
            context_id: &bound.context_id,
            everywhere: !self.turn.opening.named.1,
            chain: &self.turn.chain,
            fence: &self.context.fence,
            policy: &core.policy,
            originals: &self.originals,
            history_length: self.history_length,
            artifacts,
        }
    }

    /// Edits `payload` to what the client is to see; or a whole result in its place.
    pub(super) fn shown(
        &self,
        core: &Core,
        edits: &mut Edits,
        payload: &Payload<'_, '_>,
        shape: Shape,
        ended: Option<&Ended>,
    ) -> Option<String> {
        let bound = self.bound.as_ref()?;
        let view = self.view(core, bound, true);
        let told = ended.map(Ended::told);
        if let (Payload::Message(_), Some(told), Some(turn), false) =
            (payload, &told, ended.and_then(|ended| ended.turn.as_deref()), bound.task_id.is_empty())
        {
            // A message that answers an open task is reported as that task.
            let dialect = shape.made_in();
            let task = task_of_message(&view, turn, dialect, told, &timestamp(turn.settled_at));
            return Some(if shape.wrapped { format!("{{\"task\":{task}}}") } else { task });
        }
        view.show(edits, payload, shape.dialect, told.as_ref());
        None
    }
}

pub(super) fn unbound(context_id: &str) -> Bound {
    Bound {
        task_id: String::new(),
        context_id: context_id.to_owned(),
        upstream_task: String::new(),
        upstream_context: String::new(),
    }
}
