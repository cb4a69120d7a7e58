//! The watch: a turn whose response ended before it did is looked at now and then, so that it settles also where nobody asks for it.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::TOOK_TOO_LONG;
use super::core::millis;
use super::guard::Guard;
use super::push::Bell;
use super::send::Exchange;
use crate::a2a::State;
use crate::conversation::principal::ContextKey;
use crate::store::{Begun, InFlight, Pending};
use crate::turn::Opening;

/// Looks grow apart to this.
const APART: Duration = Duration::from_secs(60);

impl Exchange {
    /// Watches a turn of a client task until it has settled, `max_turn` is over, or the layer is drained. It goes with the credential of the
    /// send that began the turn, which is kept for so long and no longer.
    pub(super) fn watch(self, task: String, opening: &Opening) {
        let core = Arc::clone(&self.core);
        let first = core.policy.guard.watch;
        let relay = core.push.as_ref();
        let bell = opening.callback.as_ref().and_then(|name| Some(relay?.bell(name)));
        if first.is_zero() && bell.is_none() {
            return;
        }
        let number = opening.number;
        let closing = core.closing.clone();
        core.tracker.spawn(async move {
            closing.run_until_cancelled(self.watching(&task, number, bell.as_deref())).await;
        });
    }

    async fn watching(mut self, task: &str, number: u32, bell: Option<&Bell>) {
        let (first, max_turn) = (self.core.policy.guard.watch, self.core.policy.guard.max_turn);
        // Where the route does not watch, only a push makes it look; the end of the turn's time does, too.
        let mut pause = if first.is_zero() { max_turn } else { first };
        loop {
            let rung = tokio::time::timeout(pause, pushed(bell)).await.is_ok();
            let Some((key, in_flight, pending)) = self.unsettled(task, number).await else { return };
            let due = rung || self.core.now().saturating_sub(pending.looked_at) >= millis(first);
            if pending.idle && due && self.look_on_watch(&key, &in_flight, pending).await {
                return;
            }
            pause = if first.is_zero() { max_turn } else { (pause * 2).min(APART) };
        }
    }

    /// The turn in flight, if that is still this one and waits for nobody.
    async fn unsettled(&self, task: &str, number: u32) -> Option<(ContextKey, InFlight, Pending)> {
        let found = self.find(task).await.ok()??;
        let in_flight = found.in_flight?;
        let pending = in_flight.pending.clone()?;
        let of_task = pending.bound.as_ref().is_some_and(|bound| bound.task_id == task);
        let ours = of_task && pending.opening.number == number && pending.state != State::AuthRequired;
        ours.then_some((found.key, in_flight, pending))
    }

    /// Whether the turn is over with this look.
    async fn look_on_watch(&mut self, key: &ContextKey, in_flight: &InFlight, pending: Pending) -> bool {
        let begun = self.take_turn_of(key.clone(), in_flight.token).await;
        let Ok(Begun::Granted { lease, context, .. }) = begun else { return false };
        let guard = Guard::new(Arc::clone(&self.core), lease);
        let over =
            self.core.now().saturating_sub(pending.opening.started_at) >= millis(self.core.policy.guard.max_turn);
        if over || in_flight.superseded {
            self.set_apart(guard, context, pending, TOOK_TOO_LONG).await;
            return true;
        }
        self.look(guard, context, pending).await
    }
}

/// Waits until the agent has pushed that the turn has ended.
async fn pushed(bell: Option<&Bell>) {
    match bell {
        Some(bell) => bell.rung().await,
        None => std::future::pending().await,
    }
}
