//! What the verbs do to a context and the turns in flight in it: the same for every store. Pure: a store brings atomicity, and the index that
//! says which context knows an id.

mod live;
mod lives;
mod page;
mod settle;
mod tie;

pub(super) use self::live::Live;
pub(super) use self::lives::{Lives, in_flight};
pub(super) use self::page::Page;
pub(super) use self::settle::settle;
pub(super) use self::tie::{is_fresh, supersede, task_of};
use crate::context::Context;
use crate::task::ClientTask;

/// All ids that a client task has, here and at the agent.
pub(super) fn ids(task: &ClientTask) -> impl Iterator<Item = &str> {
    let upstream = task.attempts.iter().filter_map(|attempt| attempt.upstream_task.as_deref());
    std::iter::once(&*task.id).chain(upstream)
}

/// Whether the agent has known the task under this id.
pub(super) fn was_upstream(task: &ClientTask, id: &str) -> bool {
    task.attempts.iter().any(|attempt| attempt.upstream_task.as_deref().unwrap_or(&task.id) == id)
}

/// Whether the client knows a task under this id here.
pub(super) fn knows(context: &Context, lives: &[Live], id: &str) -> bool {
    let mut bound = lives.iter().filter_map(Live::shown);
    bound.any(|bound| bound.task_id == id) || context.task(id).is_some()
}
