//! A plain model of a store: slow, without a lock, and short enough to be read as the contract.

use std::collections::HashMap;

use super::*;
use crate::task::ClientTask;

/// A turn in flight.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) in_flight: InFlight,
    pub(super) bound: Option<Bound>,
    pub(super) inherited: bool,
    pub(super) provisional: bool,
    pub(super) since: u64,
    pub(super) superseded: Option<String>,
    /// Ids that were bound since the last settlement.
    pub(super) ids: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) context: Context,
    pub(super) live: Option<Live>,
}

#[derive(Default)]
pub(super) struct Model {
    /// By a number that never comes again.
    pub(super) contexts: HashMap<u64, Kept>,
    pub(super) keys: HashMap<ContextKey, u64>,
    /// Whose client task an id is, and whose task of the agent's it last was.
    pub(super) client: HashMap<String, u64>,
    pub(super) agent: HashMap<String, u64>,
    pub(super) made: u64,
}

impl Live {
    pub(super) fn seen(&self) -> InFlight {
        InFlight { superseded: self.superseded.is_some(), ..self.in_flight.clone() }
    }

    pub(super) fn shown(&self) -> Option<&Bound> {
        self.bound.as_ref().or_else(|| self.in_flight.pending.as_ref()?.bound.as_ref())
    }

    fn may_be_taken(&self, begin: &Begin) -> bool {
        let expired = begin.now >= self.in_flight.until;
        let pending = self.in_flight.pending.as_ref();
        let idle = pending.is_some_and(|pending| pending.idle);
        if begin.take == Some(self.in_flight.token) && (expired || idle) {
            return true;
        }
        if self.shown().is_none_or(|bound| bound.upstream_task.is_empty()) {
            return expired;
        }
        let started = pending.map_or(self.since, |pending| pending.opening.started_at);
        (expired || idle) && begin.now >= started + MAX_TURN
    }
}

impl Kept {
    fn upstream(&self, id: &str, but: &str) -> bool {
        let tasks = self.context.tasks.iter().filter(|task| &*task.id != but);
        tasks.flat_map(|task| task.attempts.iter().map(|attempt| task.upstream_task(attempt))).any(|known| known == id)
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        let shown = self.live.as_ref().and_then(Live::shown);
        self.context.task(id).is_some() || shown.is_some_and(|bound| bound.task_id == id)
    }

    fn supersede(&mut self, id: &str, but: &str) {
        for task in self.context.tasks.iter_mut().filter(|task| &*task.id != but) {
            let knew = task.attempts.iter().any(|attempt| task.upstream_task(attempt) == id);
            task.superseded |= knew || &*task.id == id;
        }
        if let Some(live) = &mut self.live {
            let stale = live.shown().filter(|bound| bound.task_id != but);
            let stale = stale.filter(|bound| bound.task_id == id || bound.upstream_task == id);
            live.superseded = stale.map(|bound| bound.task_id.clone()).or(live.superseded.take());
        }
    }
}

impl Model {
    /// Who may begin gets the context as it is; the store alone makes tokens.
    pub(super) fn begin(&mut self, begin: &Begin, token: u64) -> Result<(Context, Option<InFlight>), Box<InFlight>> {
        let new = !self.keys.contains_key(&begin.key);
        if new {
            self.made += 1;
            self.keys.insert(begin.key.clone(), self.made);
            self.contexts.insert(self.made, Kept { context: Context::new(begin.fence.clone()), live: None });
        }
        let kept = self.contexts.get_mut(&self.keys[&begin.key]).unwrap();
        if let Some(live) = kept.live.as_ref().filter(|live| !live.may_be_taken(begin)) {
            return Err(live.seen().into());
        }
        let before = kept.live.take();
        let previous = before.as_ref().map(Live::seen);
        let pending = previous.as_ref().and_then(|turn| turn.pending.clone()).filter(|pending| pending.bound.is_some());
        kept.live = Some(Live {
            inherited: pending.is_some(),
            in_flight: InFlight {
                token,
                until: begin.until,
                pending: pending.map(|p| Pending { idle: false, ..p }),
                superseded: false,
            },
            bound: None,
            provisional: new && begin.provisional,
            since: begin.now,
            superseded: before.as_ref().and_then(|live| live.superseded.clone()),
            ids: before.map(|live| live.ids).unwrap_or_default(),
        });
        Ok((kept.context.clone(), previous))
    }

    pub(super) fn held(&mut self, lease: &Lease) -> Option<(u64, &mut Kept)> {
        let at = *self.keys.get(&lease.key)?;
        let kept = self.contexts.get_mut(&at)?;
        kept.live.as_ref().is_some_and(|live| live.in_flight.token == lease.token).then_some((at, kept))
    }

    pub(super) fn observe(&mut self, lease: &Lease, mut pending: Pending) -> Option<()> {
        let live = self.held(lease)?.1.live.as_mut()?;
        live.inherited = false;
        pending.bound.clone_from(&live.bound);
        live.in_flight.pending = Some(pending);
        Some(())
    }

    pub(super) fn bind(&mut self, lease: &Lease, how: &Bind) -> Option<(Lease, Bound)> {
        self.held(lease)?;
        let lease = self.move_out(lease, how);
        let (at, kept) = self.held(&lease)?;
        let context_id = lease.key.context_id.to_string();
        let live = kept.live.as_mut()?;
        if std::mem::take(&mut live.inherited) {
            live.in_flight.pending = None;
        }
        let id = &how.upstream_task;
        let again = live.bound.clone().filter(|bound| id.is_empty() || bound.upstream_task == *id);
        if let Some(mut bound) = again {
            if bound.upstream_context.is_empty() {
                bound.upstream_context.clone_from(&how.upstream_context);
            }
            return Some((lease, self.show(at, bound)));
        }
        let task = live.bound.as_ref().map(|bound| bound.task_id.clone()).filter(|task| !task.is_empty());
        let task = task.or_else(|| how.task.clone());
        let chain = task.as_ref().and_then(|task| kept.context.task(task));
        let knew = |task: &ClientTask| task.attempts.iter().any(|one| task.upstream_task(one) == *id);
        let continued = chain.is_some_and(|task| !task.superseded && knew(task));
        let before: Vec<u64> = self.client.get(id).into_iter().chain(self.agent.get(id)).copied().collect();
        let fresh = !id.is_empty() && !continued;
        let minted = if fresh && !before.is_empty() { &how.minted_task } else { id };
        let task_id = task.unwrap_or_else(|| minted.clone());
        if fresh {
            for other in before {
                // Of another context every task that had the id; of this one every task but this.
                let but = if other == at { &*task_id } else { "" };
                self.contexts.get_mut(&other)?.supersede(id, but);
            }
            self.agent.insert(id.clone(), at);
        }
        let upstream_context = how.upstream_context.clone();
        let bound = Bound { task_id, context_id, upstream_task: id.clone(), upstream_context };
        Some((lease, self.show(at, bound)))
    }

    fn move_out(&mut self, lease: &Lease, how: &Bind) -> Lease {
        let mut lease = lease.clone();
        let live = self.held(&lease).and_then(|(_, kept)| kept.live.as_mut());
        if live.is_some_and(|live| std::mem::take(&mut live.provisional)) {
            let at = self.keys.remove(&lease.key).unwrap();
            let named = |id: &str| ContextKey { context_id: id.into(), ..lease.key.clone() };
            let agents = named(&how.upstream_context);
            let free = !how.upstream_context.is_empty() && !self.keys.contains_key(&agents) && agents != lease.key;
            lease.key = if free { agents } else { named(&how.minted_context) };
            self.keys.insert(lease.key.clone(), at);
        }
        lease
    }

    fn show(&mut self, at: u64, bound: Bound) -> Bound {
        let kept = self.contexts.get_mut(&at).unwrap();
        let live = kept.live.as_mut().unwrap();
        if !bound.task_id.is_empty() {
            self.client.entry(bound.task_id.clone()).or_insert(at);
        }
        if !bound.upstream_task.is_empty() {
            self.agent.entry(bound.upstream_task.clone()).or_insert(at);
        }
        live.ids.extend([bound.task_id.clone(), bound.upstream_task.clone()]);
        if let Some(pending) = &mut live.in_flight.pending {
            pending.bound = Some(bound.clone());
        }
        live.bound = Some(bound.clone());
        bound
    }

    pub(super) fn settle(&mut self, lease: &Lease, settlement: Settlement) -> Option<Context> {
        let task = settlement.task.as_ref().map(|change| change.id.clone());
        let (at, kept) = self.held(lease)?;
        let live = kept.live.take()?;
        kept.context.settle(settlement);
        for task in &mut kept.context.tasks {
            task.superseded |= live.superseded.as_deref() == Some(&*task.id);
        }
        let after = kept.context.clone();
        if let Some(task) = task.and_then(|id| after.task(&id)) {
            // A record is known by its ids again, where one that had taken them was given back.
            self.client.entry(task.id.to_string()).or_insert(at);
            if let Some(upstream) = task.newest_upstream() {
                self.agent.entry(upstream).or_insert(at);
            }
        }
        self.tidy();
        Some(after)
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        let Some((_, kept)) = self.held(lease) else { return };
        let live = kept.live.as_mut().unwrap();
        if live.inherited {
            // The store gives it a token of its own; see `catch_up`.
            live.in_flight.until = 0;
            live.in_flight.token = 0;
            live.in_flight.pending.as_mut().unwrap().idle = true;
        } else {
            kept.live = None;
        }
        self.tidy();
    }

    pub(super) fn erase(&mut self, key: &ContextKey) {
        if let Some(at) = self.keys.remove(key) {
            self.contexts.remove(&at);
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        let blank = |kept: &Kept| kept.live.is_none() && kept.context.turns.len() + kept.context.apart.len() == 0;
        self.contexts.retain(|_, kept| !blank(kept));
        let contexts = &self.contexts;
        self.keys.retain(|_, at| contexts.contains_key(at));
        let unsettled = |kept: &Kept, id: &String| kept.live.as_ref().is_some_and(|live| live.ids.contains(id));
        let holds = |at: &u64, of: &dyn Fn(&Kept) -> bool| contexts.get(at).is_some_and(of);
        self.client.retain(|id, at| holds(at, &|kept| kept.context.task(id).is_some() || unsettled(kept, id)));
        self.agent.retain(|id, at| holds(at, &|kept| kept.upstream(id, "") || unsettled(kept, id)));
    }

    pub(super) fn list(&self, principal: &str) -> Vec<(u64, String, State, bool)> {
        let mut tasks = Vec::new();
        for (key, at) in self.keys.iter().filter(|(key, _)| key.principal.as_str() == principal) {
            let kept = &self.contexts[at];
            let told = kept.live.as_ref().and_then(|live| Some((live, live.in_flight.pending.as_ref()?)));
            let told = told.and_then(|(live, pending)| {
                let bound = live.shown().map(|bound| bound.task_id.clone()).filter(|id| !id.is_empty());
                Some((bound.or_else(|| pending.opening.task.clone())?, live, pending))
            });
            for task in &kept.context.tasks {
                if told.as_ref().is_none_or(|(id, ..)| **id != *task.id) {
                    tasks.push((task.updated_at, task.id.to_string(), task.state, task.superseded));
                }
            }
            if let Some((id, live, pending)) = told {
                let known = kept.context.task(&id);
                let (updated_at, superseded) = known.map_or((0, false), |task| (task.updated_at, task.superseded));
                let superseded = superseded || live.superseded.as_ref() == Some(&id);
                tasks.push((updated_at.max(pending.opening.started_at), id, pending.state, superseded));
            }
            assert_eq!(key.route, RouteId::default());
        }
        tasks.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        tasks
    }
}
