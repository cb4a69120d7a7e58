//! Random verbs against a plain model of the store: slow, without a lock, and short enough to be read as the contract.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::task::ClientTask;

const PRINCIPALS: [&str; 2] = ["ada", "bob"];
const NAMES: [&str; 3] = ["c0", "c1", "c2"];
const UPSTREAM: [&str; 4] = ["u0", "u1", "u2", ""];
const AGENTS: [&str; 4] = ["c0", "c1", "x", ""];

#[derive(Clone, Debug)]
enum Verb {
    Begin { who: usize, name: usize, provisional: bool, take: bool, later: u64 },
    Observe { lease: usize, idle: bool, answers: bool },
    Bind { lease: usize, upstream: usize, context: usize },
    Settle { lease: usize, state: State },
    Release { lease: usize },
    Renew { lease: usize },
    Erase { who: usize, name: usize },
}

fn verb() -> impl Strategy<Value = Verb> {
    // Mostly the newest leases: the others are lost.
    let lease = || prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => 0..8_usize];
    let later = prop_oneof![6 => 0..10_u64, 1 => Just(LEASE), 1 => Just(MAX_TURN)];
    let state = prop_oneof![Just(State::Completed), Just(State::InputRequired), Just(State::Failed)];
    prop_oneof![
        6 => (0..2_usize, 0..3_usize, prop::bool::weighted(0.3), any::<bool>(), later).prop_map(
            |(who, name, provisional, take, later)| Verb::Begin { who, name, provisional, take, later }
        ),
        4 => (lease(), any::<bool>(), any::<bool>()).prop_map(|(lease, idle, answers)| Verb::Observe { lease, idle, answers }),
        5 => (lease(), 0..4_usize, 0..4_usize).prop_map(|(lease, upstream, context)| Verb::Bind { lease, upstream, context }),
        5 => (lease(), state).prop_map(|(lease, state)| Verb::Settle { lease, state }),
        1 => lease().prop_map(|lease| Verb::Release { lease }),
        1 => lease().prop_map(|lease| Verb::Renew { lease }),
        1 => (0..2_usize, 0..3_usize).prop_map(|(who, name)| Verb::Erase { who, name }),
    ]
}

/// A turn in flight.
#[derive(Clone, Debug)]
struct Live {
    in_flight: InFlight,
    bound: Option<Bound>,
    inherited: bool,
    provisional: bool,
    since: u64,
    superseded: Option<String>,
    /// Ids that were bound since the last settlement.
    ids: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    context: Context,
    live: Option<Live>,
}

#[derive(Default)]
struct Model {
    /// By a number that never comes again.
    contexts: HashMap<u64, Kept>,
    keys: HashMap<ContextKey, u64>,
    /// Whose client task an id is, and whose task of the agent's it last was.
    client: HashMap<String, u64>,
    agent: HashMap<String, u64>,
    made: u64,
}

impl Live {
    fn shown(&self) -> Option<&Bound> {
        self.bound.as_ref().or_else(|| self.in_flight.pending.as_ref()?.bound.as_ref())
    }

    fn may_be_taken(&self, begin: &Begin) -> bool {
        let expired = begin.now >= self.in_flight.until;
        let pending = self.in_flight.pending.as_ref();
        if begin.take == Some(self.in_flight.token) && (expired || pending.is_some_and(|pending| pending.idle)) {
            return true;
        }
        let known = self.shown().is_some_and(|bound| !bound.upstream_task.is_empty());
        let started = pending.map_or(self.since, |pending| pending.opening.started_at);
        expired && (!known || begin.now >= started + MAX_TURN)
    }
}

impl Kept {
    fn upstream(&self, id: &str, but: &str) -> bool {
        let tasks = self.context.tasks.iter().filter(|task| &*task.id != but);
        tasks.flat_map(|task| task.attempts.iter().map(|attempt| task.upstream_task(attempt))).any(|known| known == id)
    }

    fn knows(&self, id: &str) -> bool {
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
    fn begin(&mut self, begin: &Begin, token: u64) -> Result<(Context, Option<InFlight>), InFlight> {
        let new = !self.keys.contains_key(&begin.key);
        if new {
            self.made += 1;
            self.keys.insert(begin.key.clone(), self.made);
            self.contexts.insert(self.made, Kept { context: Context::new(begin.fence.clone()), live: None });
        }
        let kept = self.contexts.get_mut(&self.keys[&begin.key]).unwrap();
        if let Some(live) = kept.live.as_ref().filter(|live| !live.may_be_taken(begin)) {
            return Err(live.in_flight.clone());
        }
        let before = kept.live.take();
        let previous = before.as_ref().map(|live| live.in_flight.clone());
        let pending = previous.as_ref().and_then(|turn| turn.pending.clone()).filter(|pending| pending.bound.is_some());
        kept.live = Some(Live {
            inherited: pending.is_some(),
            in_flight: InFlight { token, until: begin.until, pending: pending.map(|p| Pending { idle: false, ..p }) },
            bound: None,
            provisional: new && begin.provisional,
            since: begin.now,
            superseded: before.as_ref().and_then(|live| live.superseded.clone()),
            ids: before.map(|live| live.ids).unwrap_or_default(),
        });
        Ok((kept.context.clone(), previous))
    }

    fn held(&mut self, lease: &Lease) -> Option<(u64, &mut Kept)> {
        let at = *self.keys.get(&lease.key)?;
        let kept = self.contexts.get_mut(&at)?;
        kept.live.as_ref().is_some_and(|live| live.in_flight.token == lease.token).then_some((at, kept))
    }

    fn observe(&mut self, lease: &Lease, mut pending: Pending) -> Option<()> {
        let live = self.held(lease)?.1.live.as_mut()?;
        live.inherited = false;
        pending.bound.clone_from(&live.bound);
        live.in_flight.pending = Some(pending);
        Some(())
    }

    fn bind(&mut self, lease: &Lease, how: &Bind) -> Option<(Lease, Bound)> {
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

    fn settle(&mut self, lease: &Lease, settlement: Settlement) -> Option<Context> {
        let (_, kept) = self.held(lease)?;
        let live = kept.live.take()?;
        kept.context.settle(settlement);
        for task in &mut kept.context.tasks {
            task.superseded |= live.superseded.as_deref() == Some(&*task.id);
        }
        let after = kept.context.clone();
        self.tidy();
        Some(after)
    }

    fn release(&mut self, lease: &Lease) {
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

    fn list(&self, principal: &str) -> Vec<(u64, String, State, bool)> {
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

/// A store and its model, told the same.
struct Pair {
    store: Arc<dyn Store>,
    model: Model,
    now: u64,
    step: usize,
    leases: Vec<Lease>,
    ids: Vec<String>,
}

pub(super) fn agrees(make: impl Fn() -> Arc<dyn Store>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(verbs in prop::collection::vec(verb(), 1..60))| {
        let ids = UPSTREAM.iter().filter(|id| !id.is_empty()).map(|id| (*id).to_owned()).collect();
        let mut pair = Pair { store: make(), model: Model::default(), now: 1, step: 0, leases: vec![], ids };
        runtime.block_on(async {
            for verb in verbs {
                pair.tell(verb).await;
                pair.compare().await;
            }
        });
    });
}

impl Pair {
    fn lease(&self, back: usize) -> Option<Lease> {
        self.leases.iter().rev().nth(back).cloned()
    }

    async fn tell(&mut self, verb: Verb) {
        self.step += 1;
        match verb {
            Verb::Begin { who, name, provisional, take, later } => {
                self.begin(who, name, provisional, take, later).await
            }
            Verb::Erase { who, name } => {
                let key = key(PRINCIPALS[who], NAMES[name]);
                self.store.erase(&key).await.unwrap();
                if let Some(at) = self.model.keys.remove(&key) {
                    self.model.contexts.remove(&at);
                }
                self.model.tidy();
            }
            Verb::Observe { lease, .. }
            | Verb::Bind { lease, .. }
            | Verb::Settle { lease, .. }
            | Verb::Release { lease }
            | Verb::Renew { lease } => {
                if let Some(lease) = self.lease(lease) {
                    self.hold(lease, verb).await;
                }
            }
        }
    }

    async fn begin(&mut self, who: usize, name: usize, provisional: bool, take: bool, later: u64) {
        self.now += later;
        let name = if provisional { format!("p{}", self.step) } else { NAMES[name].to_owned() };
        let key = key(PRINCIPALS[who], &name);
        let in_flight = self.store.context(&key).await.unwrap().and_then(|found| found.in_flight);
        let take = in_flight.filter(|_| take).map(|turn| turn.token);
        let begin = Begin { provisional, take, ..ask(&key, self.now) };
        match self.store.begin(begin.clone()).await.unwrap() {
            Begun::Granted { lease, context, previous } => {
                let newest = self.leases.iter().map(|lease| lease.token).max();
                assert!(newest.is_none_or(|newest| newest < lease.token));
                assert_eq!(self.model.begin(&begin, lease.token).unwrap(), ((*context).clone(), previous));
                self.leases.push(lease);
            }
            Begun::Busy(in_flight) => assert_eq!(self.model.begin(&begin, 0).unwrap_err(), in_flight),
        }
    }

    /// The open question of the context, where there is one.
    fn question(&self, lease: &Lease) -> Option<String> {
        let kept = self.model.contexts.get(self.model.keys.get(&lease.key)?)?;
        kept.context.tasks.iter().find(|task| task.state == State::InputRequired).map(|task| task.id.to_string())
    }

    async fn hold(&mut self, lease: Lease, verb: Verb) {
        let (store, now) = (self.store.clone(), self.now);
        match verb {
            Verb::Observe { idle, answers, .. } => {
                let task = self.question(&lease).filter(|_| answers);
                let pending = Pending { idle, ..pending(task.as_deref(), 1, now) };
                let observed = self.model.observe(&lease, pending.clone());
                assert_eq!(store.observe(&lease, pending).await.ok(), observed);
            }
            Verb::Bind { upstream, context, .. } => self.bind(lease, UPSTREAM[upstream], AGENTS[context]).await,
            Verb::Settle { state, .. } => {
                let live = self.model.held(&lease).map(|(_, kept)| (kept.context.clone(), kept.live.clone().unwrap()));
                let bound = live.as_ref().and_then(|(_, live)| live.shown().cloned());
                let (context, bound) = (live.map(|live| live.0).unwrap_or_default(), bound.unwrap_or_else(nothing));
                let settlement = settlement(&context, &bound, state, now);
                let settled = self.model.settle(&lease, settlement.clone());
                assert_eq!(store.settle(&lease, settlement).await.ok().map(|after| (*after).clone()), settled);
            }
            Verb::Release { .. } => {
                self.model.release(&lease);
                store.release(&lease).await.unwrap();
            }
            Verb::Renew { .. } => {
                let held = self.model.held(&lease).and_then(|(_, kept)| kept.live.as_mut());
                let renewed = held.map(|live| live.in_flight.until = now + LEASE);
                assert_eq!(store.renew(&lease, now + LEASE).await.ok(), renewed);
            }
            Verb::Begin { .. } | Verb::Erase { .. } => {}
        }
    }

    async fn bind(&mut self, lease: Lease, upstream: &str, context: &str) {
        let task = self.model.held(&lease).and_then(|(_, kept)| kept.live.as_ref()?.in_flight.pending.clone());
        let how = Bind {
            task: task.and_then(|pending| pending.opening.task.clone()),
            minted_context: format!("x{}", self.step),
            minted_task: format!("m{}", self.step),
            ..bind(upstream, context)
        };
        self.ids.push(how.minted_task.clone());
        let bound = self.store.bind(&lease, how.clone()).await.ok();
        assert_eq!(bound, self.model.bind(&lease, &how));
        if let Some((moved, _)) = bound
            && let Some(known) = self.leases.iter_mut().find(|known| known.token == moved.token)
        {
            *known = moved;
        }
    }

    /// A turn that was given back unsettled has a token that the store made.
    async fn catch_up(&mut self) {
        for (key, at) in &self.model.keys {
            let live = self.model.contexts.get_mut(at).and_then(|kept| kept.live.as_mut());
            if let Some(live) = live.filter(|live| live.in_flight.token == 0) {
                live.in_flight.token = self.store.context(key).await.unwrap().unwrap().in_flight.unwrap().token;
                assert!(self.leases.iter().all(|lease| lease.token < live.in_flight.token));
            }
        }
    }

    async fn compare(&mut self) {
        self.catch_up().await;
        for (key, at) in &self.model.keys {
            let (found, kept) = (self.store.context(key).await.unwrap().unwrap(), &self.model.contexts[at]);
            assert_eq!((&*found.context, &found.key), (&kept.context, key));
            assert_eq!(found.in_flight, kept.live.as_ref().map(|live| live.in_flight.clone()));
        }
        for principal in PRINCIPALS {
            for id in &self.ids {
                let found = find(&*self.store, principal, id).await.map(|found| found.key);
                let at = self.model.client.get(id).filter(|at| self.model.contexts[*at].knows(id));
                let keys = self.model.keys.iter().filter(|(key, _)| key.principal.as_str() == principal);
                let expected = keys.into_iter().find(|(_, one)| Some(*one) == at).map(|(key, _)| key.clone());
                assert_eq!(found, expected, "{id} of {principal}");
            }
            let listed = self.store.list(all(principal)).await.unwrap();
            let tasks = listed.tasks.iter().map(|(.., task)| task);
            let tasks: Vec<_> =
                tasks.map(|task| (task.updated_at, task.id.to_string(), task.state, task.superseded)).collect();
            assert_eq!((listed.total, tasks.clone()), (tasks.len(), self.model.list(principal)));
        }
    }
}

fn nothing() -> Bound {
    Bound {
        task_id: String::new(),
        context_id: String::new(),
        upstream_task: String::new(),
        upstream_context: String::new(),
    }
}
