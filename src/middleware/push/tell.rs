//! What the webhooks of a task are told: put into the outbox when its state has changed.

use std::sync::Arc;

use super::Relay;
use crate::a2a::State;
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::middleware::core::{Core, timestamp};
use crate::middleware::recorded::{self, Shown};
use crate::middleware::running::Running;
use crate::push::{Notification, PushConfig};
use crate::store::Delivery;
use crate::task::ClientTask;
use crate::turn::{Tail, View};

/// A settlement has changed `task`, and those whose questions it overtook.
pub(in crate::middleware) async fn settled(
    core: &Core,
    key: &ContextKey,
    context: &Context,
    task: Option<&str>,
    now: u64,
) {
    let Some(relay) = &core.push else { return };
    relay.settled(key);
    if context.push.is_empty() {
        return;
    }
    let changed = context.tasks.iter().filter(|known| task == Some(&*known.id) || was_overtaken(context, known, now));
    for task in changed {
        let Some(turn) = recorded::newest_turn(context, task) else { continue };
        for config in context.push_of(&task.id) {
            let shown = Shown { dialect: config.dialect, history_length: None, artifacts: true, active: config.active };
            let text = recorded::task(&core.policy, &key.context_id, context, &turn, shown);
            post(core, relay, key, config, task.state, text).await;
        }
    }
}

/// Whether the client has just gone on without answering the task's question.
fn was_overtaken(context: &Context, task: &ClientTask, now: u64) -> bool {
    task.updated_at == now
        && task.state == State::Completed
        && context.newest_turn_of(task).is_some_and(|turn| turn.is_question())
}

/// A turn in flight may have changed its task's state: a closing one is told when it has settled.
pub(in crate::middleware) async fn under_way(running: &mut Running) {
    let core = Arc::clone(running.guard.core());
    let Some(relay) = &core.push else { return };
    let state = running.turn.state().unwrap_or(State::Working);
    // Of an answer to a question the client is told `working` when it is sent: that the agent takes it up is no news.
    let late = state == State::Submitted && running.told.is_some();
    if state.settles() || state == State::Unknown || running.told == Some(state) || late {
        return;
    }
    let opening = &running.turn.opening;
    let bound = running.bound.as_ref().map(|bound| bound.task_id.clone()).filter(|id| !id.is_empty());
    let (Some(task), Some(key)) = (bound.or_else(|| opening.task.clone()), running.guard.key()) else { return };
    running.told = Some(state);
    let wanted = opening.callback.is_some() || running.wished || running.context.push_of(&task).next().is_some();
    if !wanted && !relay.is_touched(&key) {
        return;
    }
    // Configurations may have been made since the lease was taken.
    let Ok(Some(found)) = core.store.context(&key).await else { return };
    for config in found.context.push_of(&task) {
        let view = View {
            task_id: &task,
            context_id: &key.context_id,
            everywhere: false,
            chain: &running.turn.chain,
            fence: &running.context.fence,
            policy: &core.policy,
            originals: &[],
            history_length: None,
            artifacts: true,
        };
        let text = running.turn.standing(&view, &Tail::default(), config.dialect, &timestamp(core.now()));
        post(&core, relay, &key, config, state, text).await;
    }
}

async fn post(core: &Core, relay: &Relay, key: &ContextKey, config: &PushConfig, state: State, task: String) {
    let now = core.now();
    let notification = Notification::new(key.clone(), config.clone(), state.to_string(), task, now);
    if let Err(why) = put(core, relay, &notification, now).await {
        let route = key.route.as_str();
        tracing::error!(route, task = &*config.task, %state, why, "a push notification is lost");
    }
}

async fn put(core: &Core, relay: &Relay, notification: &Notification, now: u64) -> Result<(), String> {
    let waiting = core.store.outbox_len().await.map_err(|error| error.to_string())?;
    if waiting >= relay.outbox {
        return Err(format!("{waiting} wait already"));
    }
    let body = postcard::to_allocvec(notification).map_err(|error| error.to_string())?;
    let delivery = Delivery { id: 0, lane: notification.lane(), due: now, tries: 0, body };
    core.store.outbox_push(delivery).await.map_err(|error| error.to_string())?;
    relay.wake();
    Ok(())
}
