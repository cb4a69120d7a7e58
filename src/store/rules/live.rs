//! A turn in flight.

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::store::{Begin, InFlight, Pending, Share};
use crate::task::{Attempt, ClientTask, OpenedBy};
use crate::turn::Bound;

/// A turn in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Live {
    pub(in crate::store) lease: InFlight,
    /// The ids that the holder of the lease has bound or observed.
    pub(in crate::store) bound: Option<Bound>,
    /// Whether what is pending is the turn before, which the holder has taken over and not yet replaced.
    pub(in crate::store) inherited: bool,
    /// Whether the contextId is provisional.
    pub(in crate::store) provisional: bool,
    /// The client task of the turn, once the agent's id of it has come to mean another.
    pub(in crate::store) superseded: Option<Box<str>>,
    /// Ids that were bound and are in the context only once the turn has settled.
    pub(in crate::store) ids: Vec<Box<str>>,
    /// The client task that it is known to answer from the first, where it runs beside others.
    answers: Option<Box<str>>,
    since: u64,
    max_turn: u64,
}

impl Live {
    /// The turn, as others see it.
    pub(in crate::store) fn seen(&self) -> InFlight {
        InFlight { superseded: self.superseded.is_some(), ..self.lease.clone() }
    }

    /// A turn that takes the place of `before`, whose ids stay known until this one ends.
    pub(in crate::store) fn new(begin: &Begin, token: u64, provisional: bool, before: Option<Self>) -> Self {
        let (pending, superseded, ids) = before.map_or_else(Default::default, |mut before| {
            (before.lease.pending.take(), before.superseded.take(), std::mem::take(&mut before.ids))
        });
        // A client may ask for the task of the turn before until that turn is settled; nobody else may take it meanwhile.
        let pending = pending.filter(|pending| pending.bound.is_some());
        Self {
            inherited: pending.is_some(),
            lease: InFlight {
                token,
                until: begin.until,
                pending: pending.map(|pending| Pending { idle: false, ..pending }),
                superseded: false,
            },
            bound: None,
            provisional,
            superseded,
            ids,
            answers: match &begin.share {
                Share::Beside(Some(task)) => Some(task.as_str().into()),
                Share::Beside(None) | Share::Alone => None,
            },
            since: begin.now,
            max_turn: begin.max_turn,
        }
    }

    /// What outlives the process of a turn that the agent may be asked for, as it is found then: nobody reads its reply any more.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn unsettled(&self) -> Option<Self> {
        let bound = self.shown().filter(|bound| !bound.upstream_task.is_empty())?.clone();
        let pending = self.lease.pending.clone()?;
        let pending = Pending { idle: true, bound: Some(bound.clone()), ..pending };
        let lease = InFlight { until: 0, pending: Some(pending), ..self.lease };
        Some(Self { lease, bound: Some(bound), inherited: false, provisional: false, ..self.clone() })
    }

    /// Whether it is the turn that a record is of, taken over, and nothing else by now.
    #[cfg(feature = "disk")]
    pub(super) fn is_inherited_from(&self, record: &Self) -> bool {
        self.inherited && self.shown() == record.shown() && self.superseded == record.superseded
    }

    /// The ids under which the client knows what is in flight.
    pub(in crate::store) fn shown(&self) -> Option<&Bound> {
        self.bound.as_ref().or_else(|| self.lease.pending.as_ref()?.bound.as_ref())
    }

    /// Whether it is a turn of this client task.
    pub(in crate::store) fn is_of(&self, task: &str) -> bool {
        let pending = self.lease.pending.as_ref().and_then(|pending| pending.opening.task.as_deref());
        let shown = self.shown().map(|bound| &*bound.task_id);
        [self.answers.as_deref(), pending, shown].contains(&Some(task))
    }

    /// Tells the ids to whoever reads what is pending.
    pub(in crate::store) fn show(&mut self, bound: &Bound) {
        if let Some(pending) = &mut self.lease.pending {
            pending.bound = Some(bound.clone());
        }
    }

    /// When the turn may be taken from its holder by anybody, if the agent is asked `max_turn` long.
    pub(in crate::store) fn free_at(&self, max_turn: u64) -> u64 {
        // Of a bare message there is nothing to ask the agent for.
        if self.shown().is_none_or(|bound| bound.upstream_task.is_empty()) {
            return self.lease.until;
        }
        let started = self.lease.pending.as_ref().map_or(self.since, |pending| pending.opening.started_at);
        // A turn that nobody reads has no holder: what is left of its lease is that of whoever looked at it last.
        let idle = self.lease.pending.as_ref().is_some_and(|pending| pending.idle);
        let held = if idle { 0 } else { self.lease.until };
        held.max(started.saturating_add(max_turn))
    }

    /// When the holder's own settings free the turn.
    pub(in crate::store) fn abandoned_at(&self) -> u64 {
        self.free_at(self.max_turn)
    }

    /// How long, in milliseconds, its holder's settings let the turn stay unsettled.
    #[cfg(feature = "redis")]
    pub(in crate::store) fn max_turn(&self) -> u64 {
        self.max_turn
    }

    pub(in crate::store) fn may_begin(&self, begin: &Begin) -> bool {
        let idle = self.lease.pending.as_ref().is_some_and(|pending| pending.idle);
        let taken = begin.take == Some(self.lease.token) && (idle || begin.now >= self.lease.until);
        taken || begin.now >= self.free_at(begin.max_turn)
    }

    /// Notes an id that is bound from now on.
    pub(in crate::store) fn note(&mut self, id: &str) {
        if !id.is_empty() && !self.ids.iter().any(|known| **known == *id) {
            self.ids.push(id.into());
        }
    }

    /// Takes in what was observed of the turn.
    pub(in crate::store) fn observe(&mut self, mut pending: Pending) {
        match &pending.bound {
            // One who has taken a turn over observes it under the ids that were bound before.
            Some(bound) => {
                let bound = bound.clone();
                self.note_both(&bound);
                self.bound = Some(bound);
            }
            None => pending.bound.clone_from(&self.bound),
        }
        self.inherited = false;
        self.lease.pending = Some(pending);
    }

    pub(super) fn note_both(&mut self, bound: &Bound) {
        self.note(&bound.task_id);
        self.note(&bound.upstream_task);
    }

    /// Leaves the turn that was taken over to whoever takes it next.
    pub(in crate::store) fn leave(&mut self, token: u64) {
        self.lease = InFlight { token, until: 0, pending: self.lease.pending.take(), superseded: false };
        if let Some(pending) = &mut self.lease.pending {
            pending.idle = true;
        }
    }
}

impl Live {
    /// The client task of the turn, as the client was last told: also one that is not in the context before the turn has settled.
    pub(super) fn task(&self, context: &Context) -> Option<ClientTask> {
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
