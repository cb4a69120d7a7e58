//! A principal's client tasks, page by page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Live;
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::store::{ListQuery, Listed};
use crate::task::ClientTask;

/// The order of a list: the newest first, then by id.
type Rank = (Reverse<u64>, Box<str>);

/// The best tasks found so far: never more than the page has, however many there are.
pub(in crate::store) struct Page<'q> {
    query: &'q ListQuery,
    after: Option<Rank>,
    best: BTreeMap<Rank, (ContextKey, Arc<Context>, ClientTask)>,
    total: usize,
}

impl<'q> Page<'q> {
    pub(in crate::store) fn new(query: &'q ListQuery) -> Self {
        let after = query.after.as_ref().map(|(updated_at, id)| (Reverse(*updated_at), id.as_str().into()));
        Self { query, after, best: BTreeMap::new(), total: 0 }
    }

    /// Takes in the tasks of a context as it is.
    pub(in crate::store) fn look_at(&mut self, key: &ContextKey, context: &Arc<Context>, live: Option<&Live>) {
        let current = live.and_then(|live| live.task(context));
        let settled = context.tasks.iter();
        let settled = settled.filter(|task| current.as_ref().is_none_or(|current| current.id != task.id));
        for task in settled.chain(&current) {
            self.offer(key, context, task);
        }
    }

    fn offer(&mut self, key: &ContextKey, context: &Arc<Context>, task: &ClientTask) {
        let query = self.query;
        let wanted = query.state.is_none_or(|state| state == task.state);
        if !wanted || query.updated_since.is_some_and(|since| task.updated_at < since) {
            return;
        }
        self.total += 1;
        let rank = (Reverse(task.updated_at), &*task.id);
        let behind = |other: &Rank| rank > (other.0, &*other.1);
        let full = self.best.len() >= query.limit;
        let last = self.best.last_key_value().filter(|_| full);
        if query.limit == 0 || !self.after.as_ref().is_none_or(behind) || last.is_some_and(|(last, _)| behind(last)) {
            return;
        }
        self.best.insert((rank.0, task.id.clone()), (key.clone(), context.clone(), task.clone()));
        if full {
            self.best.pop_last();
        }
    }

    /// The page.
    pub(in crate::store) fn listed(self) -> Listed {
        Listed { tasks: self.best.into_values().collect(), total: self.total }
    }
}
