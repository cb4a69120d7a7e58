//! The end of a turn.

use super::Live;
use crate::context::{Context, Settlement};

/// What a settlement did to the ids of its context.
pub(in crate::store) struct Settled {
    /// The task that changed and its newest id at the agent: known from now on, if they were not before.
    pub(in crate::store) known: Option<(Box<str>, String)>,
    /// Ids of which fewer tasks have a part than before, if any still does.
    pub(in crate::store) loose: Vec<Box<str>>,
}

/// Ends the turn, and keeps the context within `context_bytes`.
pub(in crate::store) fn settle(
    context: &mut Context,
    live: &Live,
    settlement: Settlement,
    context_bytes: usize,
) -> Settled {
    grow_by_little(&mut context.turns);
    grow_by_little(&mut context.tasks);
    let changed = settlement.task.as_ref().map(|change| change.id.clone());
    let mut loose = cut_off(context, &settlement);
    context.settle(settlement);
    if let Some(task) = context.tasks.iter_mut().find(|task| live.superseded.as_ref() == Some(&task.id)) {
        task.superseded = true;
    }
    loose.extend(trim(context, context_bytes));
    let task = changed.and_then(|id| context.task(&id));
    Settled { known: task.map(|task| (task.id.clone(), task.newest_upstream().unwrap_or_default())), loose }
}

/// Keeps the context within its own limit. The ids of the tasks that went, the agent's too.
fn trim(context: &mut Context, context_bytes: usize) -> Vec<Box<str>> {
    let turns = context.turns.len() + context.apart.len();
    if context.size() <= context_bytes && context.tasks.len() <= turns {
        return Vec::new();
    }
    let ids: Vec<(Box<str>, Box<str>)> =
        context.tasks.iter().flat_map(|task| super::ids(task).map(|id| (task.id.clone(), id.into()))).collect();
    let gone = context.trim(context_bytes);
    ids.into_iter().filter(|(task, _)| gone.contains(task)).map(|(_, id)| id).collect()
}

/// A vector that doubles would cost as much again as the turns' own heads.
fn grow_by_little<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(1 + items.len() / 8);
    }
}

/// The agent's ids of attempts that the settlement takes back.
fn cut_off(context: &Context, settlement: &Settlement) -> Vec<Box<str>> {
    let change = settlement.task.as_ref();
    let task = change.and_then(|change| Some((context.task(&change.id)?, change.number as usize)));
    let taken_back = task.into_iter().flat_map(|(task, number)| task.attempts.iter().skip(number.saturating_sub(1)));
    taken_back.filter_map(|attempt| attempt.upstream_task.clone()).collect()
}
