//! A client task as the record has it, where nothing of the agent's is at hand.

use super::core::timestamp;
use crate::a2a::{Dialect, State};
use crate::context::Context;
use crate::conversation::policy::{Inline, Policy};
use crate::conversation::transcript::Turn;
use crate::task::ClientTask;
use crate::turn::{Told, View, continuation, task_of_message};

/// How much of a task is shown, and to whom.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    pub(super) dialect: Dialect,
    pub(super) history_length: Option<u64>,
    pub(super) artifacts: bool,
    /// Whether the client activated the extension.
    pub(super) active: bool,
}

/// A client task, written, with `turn` as its newest.
pub(super) fn task(policy: &Policy, context_id: &str, context: &Context, turn: &Turn, shown: Shown) -> String {
    let task = context.task(&turn.task);
    let chain = task.map(|task| context.chain(task, turn.attempt, None)).unwrap_or_default();
    let view = View {
        task_id: &turn.task,
        context_id,
        everywhere: false,
        chain: &chain,
        fence: &context.fence,
        policy,
        originals: &[],
        history_length: shown.history_length,
        artifacts: shown.artifacts,
    };
    let state = task.map_or(turn.state, |task| task.state);
    let told_continuation = (turn.is_question() || shown.active).then(|| continuation(turn, &context.turns, state));
    let inline = state == State::InputRequired && policy.rewrite.inline == Inline::Always;
    let told = Told { state, turn: Some(turn), continuation: told_continuation.as_deref(), inline, failure: None };
    task_of_message(&view, turn, shown.dialect, &told, &timestamp(turn.settled_at))
}

/// The turn that tells how a client task stands.
pub(super) fn newest_turn(context: &Context, task: &ClientTask) -> Option<Turn> {
    let failed = context.failed_turn_of(task).filter(|_| task.state != State::InputRequired);
    failed.or_else(|| context.newest_turn_of(task))
}
