//! Push notifications: the agent pushes to the proxy, and the proxy tells the clients' webhooks what it would tell the clients.
//!
//! What a webhook is told is made from the turn and its record and never from what the agent pushed: that is one more way to see how the turn
//! stands. So a webhook is told also what an agent never pushes, and each change once, whichever way it was seen.

mod callback;
mod operate;
mod relay;
mod tell;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(super) use callback::{call, name};
pub(super) use relay::Bell;
pub use relay::{AgentPushes, Relay};
pub(super) use tell::{settled, under_way};

use super::core::{Core, millis, mint};
use super::guard::Guard;
use super::send::{Exchange, store_refusal};
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::exchange::{Refusal, Rules, Send};
use crate::push::{Callback, PushChange, PushConfig};
use crate::store::StoreError;
use crate::task::ClientTask;
use crate::turn::Bound;

/// Where the turn of a callback is; kept in the store under the callback's name, so that it is found after a restart and by every replica.
#[derive(Serialize, Deserialize)]
struct Place {
    key: ContextKey,
    /// The path at which the agent takes calls.
    path: String,
}

/// What a turn's holder keeps for its notifications.
pub(super) struct Pushing {
    /// `None` where the agent was given no callback.
    callback: Option<(Arc<Bell>, Place)>,
    /// The configuration that came with the send, until its task is known.
    wish: Option<PushConfig>,
}

impl Exchange {
    /// The configuration that comes with a send.
    ///
    /// # Errors
    /// -32003 where none are served, -32602 for one that cannot be.
    pub(super) fn push_wish(&self, send: &Send<'_, '_>) -> Result<Option<PushConfig>, Refusal> {
        match &self.core.push {
            None if send.pushes => Err(Refusal::push_not_supported()),
            None => Ok(None),
            Some(relay) => self.rules(relay).in_send(send),
        }
    }

    fn rules<'a>(&'a self, relay: &'a Relay) -> Rules<'a> {
        Rules { webhooks: &relay.webhooks, limits: &self.core.policy.limits, active: self.active }
    }

    /// The callback that goes up with a send: where a client wants to be notified of its task, and the agent pushes.
    pub(super) fn callback(&self, wishes: bool, context: &Context, task: Option<&ClientTask>) -> Option<Callback> {
        let relay = self.core.push.as_ref()?;
        let wanted = wishes || task.is_some_and(|task| context.push_of(&task.id).next().is_some());
        (wanted && relay.agent_pushes()).then(|| self.new_callback(relay))
    }

    fn new_callback(&self, relay: &Relay) -> Callback {
        let name = mint().replace('-', "");
        Callback::new(&self.core.store.secret(), &self.route, relay.base(), name)
    }

    /// Gives the turn's holder what it needs for its notifications, and notes where the callback's turn is.
    pub(super) async fn push_with(
        &self,
        guard: &mut Guard,
        callback: Option<&Callback>,
        wish: Option<PushConfig>,
    ) -> Result<(), Refusal> {
        let Some(relay) = self.core.push.as_ref().filter(|_| callback.is_some() || wish.is_some()) else {
            return Ok(());
        };
        let key = guard.key();
        let callback = callback
            .zip(key)
            .map(|(callback, key)| (relay.bell(&callback.name), Place { key, path: self.agent.path().to_owned() }));
        if let Some((bell, place)) = &callback {
            self.core.note(&bell.name, place).await.map_err(|error| store_refusal(&error))?;
        }
        guard.push = Some(Box::new(Pushing { callback, wish }));
        Ok(())
    }
}

impl Pushing {
    /// The task is known now, and where its context is.
    pub(super) async fn bound(&mut self, core: &Core, key: &ContextKey, bound: &Bound) -> Result<(), StoreError> {
        if let Some((bell, place)) = self.callback.as_mut().filter(|(_, place)| place.key != *key) {
            place.key = key.clone();
            core.note(&bell.name, place).await?;
        }
        if bound.task_id.is_empty() {
            return Ok(());
        }
        if let Some(wish) = self.wish.take()
            && !core.store.configure(key, PushChange::Set(wish.of_task(&bound.task_id))).await?
        {
            tracing::warn!(task = bound.task_id, "a task has too many push configurations: one was left out");
        }
        Ok(())
    }

    /// The turn has settled: what the agent pushes of it from here on tells nothing.
    pub(super) async fn settled(&self, core: &Core) {
        if let Some((bell, _)) = &self.callback
            && let Err(error) = core.store.note(&bell.name, None, 0).await
        {
            tracing::debug!(%error, "a callback's place stays noted until its time is over");
        }
    }
}

impl Core {
    async fn note(&self, name: &str, place: &Place) -> Result<(), StoreError> {
        let until = self.now().saturating_add(millis(self.policy.guard.max_turn));
        let place = postcard::to_allocvec(place).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        self.store.note(name, Some(place), until).await
    }
}
