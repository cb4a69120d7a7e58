//! The watch: a turn whose response ended before it did is looked at now and then, so that it settles also where nobody asks for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::acquire::TOOK_TOO_LONG;
use super::core::millis;
use super::guard::Guard;
use super::send::Exchange;
use crate::a2a::State;
use crate::conversation::principal::ContextKey;
use crate::store::{Begun, InFlight, Pending};

/// Looks grow apart to this.
const APART: Duration = Duration::from_secs(60);

impl Exchange {
    /// Watches turn `number`, of a client task, until it has settled, `max_turn` is over, or the layer is drained. It goes with the credential
    /// of the send that began the turn, which is kept for so long and no longer.
    pub(super) fn watch(self, task: String, number: u32) {
        let core = Arc::clone(&self.core);
        let first = core.policy.guard.watch;
        if first.is_zero() {
            return;
        }
        let closing = core.closing.clone();
        core.tracker.spawn(async move {
            closing.run_until_cancelled(self.watching(&task, number, first)).await;
        });
    }

    async fn watching(mut self, task: &str, number: u32, first: Duration) {
        let mut pause = first;
        loop {
            sleep(pause).await;
            let Some((key, in_flight, pending)) = self.unsettled(task, number).await else { return };
            let due = self.core.now().saturating_sub(pending.looked_at) >= millis(first);
            if pending.idle && due && self.look_on_watch(&key, &in_flight, pending).await {
                return;
            }
            pause = (pause * 2).min(APART);
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
