//! A principal's client tasks, page by page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Engine, Live, Shelf, Slot, State};
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::store::{ListQuery, Listed, Pending};
use crate::task::{Attempt, ClientTask, OpenedBy};

/// The order of a list: the newest first, then by id.
type Rank = (Reverse<u64>, Box<str>);

/// The best tasks found so far: never more than the page has, however many there are.
struct Page<'q> {
    query: &'q ListQuery,
    after: Option<Rank>,
    best: BTreeMap<Rank, (ContextKey, Arc<Context>, ClientTask)>,
    total: usize,
}

impl<S: Shelf> Engine<S> {
    /// Every context is read as it is when its turn comes: a task that changes meanwhile may be listed by its old state or by its new one.
    pub(in crate::store) fn list_now(&self, query: &ListQuery) -> Listed {
        let after = query.after.as_ref().map(|(updated_at, id)| (Reverse(*updated_at), id.as_str().into()));
        let mut page = Page { query, after, best: BTreeMap::new(), total: 0 };
        self.each_of(query, |slot| {
            let mut state = slot.lock();
            let key = slot.key(&state);
            if self.is_there(&slot, &mut state, &key) {
                page.look_at(&key, &state);
            }
        });
        Listed { tasks: page.best.into_values().collect(), total: page.total }
    }

    fn each_of(&self, query: &ListQuery, mut visit: impl FnMut(Arc<Slot<S>>)) {
        let (route, principal) = (query.route.clone(), query.principal.clone());
        match &query.context_id {
            Some(id) => {
                let key = ContextKey { route, principal, context_id: id.as_str().into() };
                self.shelf.find(&key).into_iter().for_each(visit);
            }
            None => self.shelf.each_owned(&(route, principal), &mut visit),
        }
    }
}

impl Page<'_> {
    fn look_at<S: Shelf>(&mut self, key: &ContextKey, state: &State<S>) {
        let current = state.live.as_ref().and_then(|live| live.task(&state.context));
        let settled = state.context.tasks.iter();
        let settled = settled.filter(|task| current.as_ref().is_none_or(|current| current.id != task.id));
        for task in settled.chain(&current) {
            self.offer(key, &state.context, task);
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
}

impl Live {
    /// The client task of the turn, as the client was last told: also one that is not in the context before the turn has settled.
    fn task(&self, context: &Context) -> Option<ClientTask> {
        let pending = self.lease.pending.as_ref()?;
        let bound = self.shown().filter(|bound| !bound.task_id.is_empty());
        let id = bound.map(|bound| &bound.task_id).or(pending.opening.task.as_ref())?;
        let mut task = context.task(id).cloned().or_else(|| self.new_task(pending))?;
        task.state = pending.state;
        task.updated_at = task.updated_at.max(pending.opening.started_at);
        task.superseded |= self.superseded.as_deref() == Some(id);
        Some(task)
    }

    fn new_task(&self, pending: &Pending) -> Option<ClientTask> {
        let bound = self.shown()?;
        let other = |upstream: &str, shown: &str| (upstream != shown).then(|| upstream.into());
        let attempt = Attempt {
            upstream_task: other(&bound.upstream_task, &bound.task_id),
            upstream_context: other(&bound.upstream_context, &bound.context_id),
            turn: None,
        };
        Some(ClientTask {
            id: bound.task_id.as_str().into(),
            state: pending.state,
            opened_by: OpenedBy::Agent,
            updated_at: pending.opening.started_at,
            dialect: pending.opening.dialect,
            attempts: vec![attempt],
            superseded: false,
        })
    }
}
