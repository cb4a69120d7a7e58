//! The end of a turn: closed by the machine, settled by the store, and only then told.

use std::sync::Arc;

use super::core::{Core, mint};
use super::running::{Running, unbound};
use crate::a2a::State;
use crate::conversation::policy::Mode;
use crate::conversation::principal::{ContextKey, RouteId};
use crate::conversation::transcript::Turn;
use crate::store::StoreError;
use crate::turn::{Bound, Told, continuation};

/// A turn that has ended, as the client is to be told.
pub(super) struct Ended {
    pub(super) turn: Option<Arc<Turn>>,
    state: State,
    continuation: Option<String>,
    inline: bool,
    /// Where it failed on this side of the agent: messageId and text of the status message.
    failure: Option<(String, String)>,
}

impl Ended {
    pub(super) fn told(&self) -> Told<'_> {
        Told {
            state: self.state,
            turn: self.turn.as_deref(),
            continuation: self.continuation.as_deref(),
            inline: self.inline,
            failure: self.failure.as_ref().map(|(id, why)| (&**id, &**why)),
        }
    }

    fn not_recorded() -> Self {
        let words = "The turn could not be recorded (NOT_RECORDED): a later message would not go on from it.";
        Self {
            turn: None,
            state: State::Failed,
            continuation: Some("{\"reason\":\"NOT_RECORDED\"}".to_owned()),
            inline: false,
            failure: Some((mint(), words.to_owned())),
        }
    }
}

/// Settles a turn as the agent ended it.
pub(super) async fn end(core: &Core, running: &mut Running) -> Ended {
    let bound = running.bound.clone().unwrap_or_else(|| unbound(running.context_id.as_deref().unwrap_or_default()));
    let key = running.guard.key();
    let settlement = running.turn.close(&bound, core.now(), &mint(), &mint());
    let (turn, success) = (settlement.turn.clone(), settlement.success);
    if let Err(error) = running.guard.settle(settlement).await {
        tracing::error!(%error, "a turn could not be recorded");
        return Ended::not_recorded();
    }
    let Some(turn) = turn else { return Ended::not_recorded() };
    if turn.task != bound.task_id {
        // What was a message is a task from here on.
        running.bound = Some(Bound { task_id: turn.task.clone(), ..bound });
    }
    log(core, running, key.as_ref(), &turn, None);
    let opening = &running.turn.opening;
    let tells = turn.is_question() || opening.active;
    let continuation = tells.then(|| continuation(&turn, &running.context.turns, turn.state));
    let inline = opening.inline && turn.is_question();
    Ended { state: turn.state, turn: success.then_some(turn), continuation, inline, failure: None }
}

/// Settles a turn as failed: kept apart, never shown to the agent. The task that was open stays open where the agent made none.
pub(super) async fn fail(core: &Core, running: &mut Running, why: &str) -> Option<Ended> {
    if running.joins {
        // What joined the turn failed, not the turn.
        if let Err(error) = running.leave_unsettled(core.now()).await {
            tracing::warn!(%error, "a waiting turn was lost");
        }
        return None;
    }
    let Some(context_id) = running.context_id.clone() else {
        let route = running.guard.key().map(|key| key.route);
        tracing::warn!(route = route.as_ref().map(RouteId::as_str), cause = why, "a turn came to nothing");
        running.guard.release().await;
        return None;
    };
    let bound = running.bound.clone().unwrap_or_else(|| unbound(&context_id));
    let message_id = mint();
    let settlement = running.turn.fail(&bound, core.now(), &message_id, why);
    if let (Some(turn), key) = (&settlement.turn, running.guard.key()) {
        log(core, running, key.as_ref(), turn, Some(why));
    }
    if let Err(error) = running.guard.settle(settlement).await {
        tracing::warn!(%error, "a failed turn could not be kept apart");
    }
    Some(Ended {
        turn: None,
        state: State::Failed,
        continuation: None,
        inline: false,
        failure: Some((message_id, why.to_owned())),
    })
}

/// One line a turn: ids and figures, no words of anybody's but the cause of a failure.
fn log(core: &Core, running: &Running, key: Option<&ContextKey>, turn: &Turn, cause: Option<&str>) {
    let reason = turn.decided.map_or("none", |decided| decided.reason.as_str());
    let route = key.map_or("", |key| key.route.as_str());
    let context = key.map_or("", |key| &*key.context_id);
    let ms = core.now().saturating_sub(running.turn.opening.started_at);
    let (number, state, task, injected) = (turn.number, turn.state, &*turn.task, running.injected);
    let asks = turn.is_question();
    match (cause, core.policy.mode) {
        (Some(cause), _) => tracing::warn!(route, context, task, turn = number, %state, ms, cause, "turn failed"),
        (None, Mode::Converse) => {
            tracing::info!(route, context, task, turn = number, %state, asks, reason, injected, ms, "turn settled");
        }
        (None, Mode::Observe) => {
            tracing::info!(
                route,
                context,
                task,
                turn = number,
                would_ask = asks,
                reason,
                would_inject = injected,
                ms,
                "turn observed"
            );
        }
    }
}

/// Settles a turn as cancelled by the client.
pub(super) async fn cancel(core: &Core, running: &mut Running) -> Result<(), StoreError> {
    let context_id = running.context_id.clone().unwrap_or_default();
    let mut bound = running.bound.clone().unwrap_or_else(|| unbound(&context_id));
    if bound.task_id.is_empty() {
        bound.task_id = running.turn.opening.task.clone().unwrap_or_default();
    }
    let settlement = running.turn.cancel(&bound, core.now());
    running.guard.settle(settlement).await.map(drop)
}
