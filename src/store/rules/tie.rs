//! The agent's ids tied to the client's.

use std::sync::Arc;

use super::{Live, was_upstream};
use crate::context::Context;
use crate::store::Bind;
use crate::task::ClientTask;
use crate::turn::Bound;

/// The client task that a turn is bound to, where it is known before the agent has told its own.
pub(in crate::store) fn task_of(live: &Live, bind: &Bind) -> Option<String> {
    // A turn that the client knows stays the task that it is, whatever else the agent comes to call it.
    let bound = live.bound.as_ref().map(|bound| bound.task_id.clone()).filter(|id| !id.is_empty());
    bound.or_else(|| bind.task.clone())
}

/// Whether the agent's id means another task from now on than it did: then who had it before is superseded.
pub(in crate::store) fn is_fresh(context: &Context, live: &Live, bind: &Bind) -> bool {
    let id = &bind.upstream_task;
    let chain = task_of(live, bind).and_then(|task| context.task(&task));
    // Of a superseded chain the id has meant another task meanwhile: it is no less taken over for having been this one's before.
    !id.is_empty() && !chain.is_some_and(|chain| !chain.superseded && was_upstream(chain, id))
}

impl Live {
    /// The holder goes on with a turn of its own: what it took over is no longer what is in flight.
    pub(in crate::store) fn go_on(&mut self) {
        if std::mem::take(&mut self.inherited) {
            self.lease.pending = None;
        }
    }

    /// The ids, where the bind tells of the turn nothing but what is bound, or a contextId that was not.
    pub(in crate::store) fn bound_again(&mut self, bind: &Bind) -> Option<Bound> {
        let same = |bound: &&mut Bound| bind.upstream_task.is_empty() || bind.upstream_task == bound.upstream_task;
        let bound = self.bound.as_mut().filter(same)?;
        if bound.upstream_context.is_empty() {
            bound.upstream_context.clone_from(&bind.upstream_context);
        }
        let bound = bound.clone();
        self.note_both(&bound);
        self.show(&bound);
        Some(bound)
    }

    /// Ties the agent's ids to the client's.
    pub(in crate::store) fn tie(&mut self, task_id: String, context_id: &str, bind: Bind) -> Bound {
        let Bind { upstream_task, upstream_context, .. } = bind;
        let bound = Bound { task_id, context_id: context_id.to_owned(), upstream_task, upstream_context };
        self.note_both(&bound);
        self.show(&bound);
        self.bound = Some(bound.clone());
        bound
    }
}

/// The agent's id has come to mean another task. `own` is that task, where it is in the same context.
pub(in crate::store) fn supersede(context: &mut Arc<Context>, live: Option<&mut Live>, id: &str, own: Option<&str>) {
    let older = |id_of: &str| own != Some(id_of);
    let stale = |task: &ClientTask| !task.superseded && older(&task.id) && (*task.id == *id || was_upstream(task, id));
    if context.tasks.iter().any(stale) {
        let context = Arc::make_mut(context);
        context.tasks.iter_mut().filter(|task| stale(task)).for_each(|task| task.superseded = true);
    }
    if let Some(live) = live {
        let shown = live.shown().filter(|bound| older(&bound.task_id));
        let stale = shown.filter(|bound| bound.task_id == id || bound.upstream_task == id);
        if let Some(task) = stale.map(|bound| bound.task_id.as_str().into()) {
            live.superseded = Some(task);
        }
    }
}
