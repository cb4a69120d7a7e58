//! Random verbs, told to a store and to its model.

use proptest::prelude::*;

use super::model::Model;
use super::*;

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
                self.begin(who, name, provisional, take, later).await;
            }
            Verb::Erase { who, name } => {
                let key = key(PRINCIPALS[who], NAMES[name]);
                self.store.erase(&key).await.unwrap();
                self.model.erase(&key);
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
            Begun::Busy(in_flight) => assert_eq!(*self.model.begin(&begin, 0).unwrap_err(), in_flight),
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
            assert_eq!(found.in_flight, kept.live.as_ref().map(model::Live::seen));
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
