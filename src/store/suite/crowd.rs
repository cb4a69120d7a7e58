//! Many at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;

use super::*;

pub(super) async fn one_of_fifty_begins_is_granted(store: Arc<dyn Store>) {
    for round in 0..20 {
        let key = key("ada", &format!("c{round}"));
        let barrier = Arc::new(Barrier::new(50));
        let mut begins = JoinSet::new();
        for _ in 0..50 {
            let (store, barrier, key) = (store.clone(), barrier.clone(), key.clone());
            begins.spawn(async move {
                barrier.wait().await;
                store.begin(ask(&key, 1)).await.unwrap()
            });
        }
        let begun = begins.join_all().await;
        let granted: Vec<_> = begun.iter().filter_map(|begun| token(begun, true)).collect();
        assert_eq!(granted.len(), 1);
        assert!(begun.iter().filter_map(|begun| token(begun, false)).all(|token| token == granted[0]));
    }
}

fn token(begun: &Begun, granted: bool) -> Option<u64> {
    match begun {
        Begun::Granted { lease, .. } if granted => Some(lease.token),
        Begun::Busy(in_flight) if !granted => Some(in_flight.token),
        _ => None,
    }
}

/// The client answers the moment it has its reply; another waits for the turn from the moment it began.
pub(super) async fn the_next_begin_behind_a_settle_is_never_refused(store: Arc<dyn Store>) {
    let key = key("ada", "c");
    for round in 1..=300 {
        let (lease, context, _) = begin(&*store, ask(&key, 1)).await;
        let (told, heard) = oneshot::channel();
        let (waiting, waited, token) = (store.clone(), key.clone(), lease.token);
        let waiter = tokio::spawn(async move { waiting.wait_turn(&waited, token).await });
        let settling = store.clone();
        let settler = tokio::spawn(async move {
            let (lease, bound) = settling.bind(&lease, bind(&format!("u{round}"), "c")).await.unwrap();
            settling.settle(&lease, settlement(&context, &bound, State::Completed, 1)).await.unwrap();
            told.send(()).unwrap();
        });
        heard.await.unwrap();
        let (lease, context, _) = begin(&*store, ask(&key, 1)).await;
        assert_eq!(context.turns.len(), round);
        tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("woken").unwrap().unwrap();
        store.release(&lease).await.unwrap();
        settler.await.unwrap();
    }
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[derive(Default)]
struct Seen {
    /// The token of the lease that is held.
    holder: AtomicU64,
    settled: AtomicUsize,
    newest: AtomicU64,
}

/// No id of the agent's means two tasks.
pub(super) async fn random_verbs_keep_ids_apart(store: Arc<dyn Store>) {
    let current = random_verbs_keep_the_order(store).await;
    let distinct: HashSet<_> = current.iter().collect();
    assert_eq!(current.len(), distinct.len(), "two tasks that the same id of the agent's means");
}

/// No two hold a lease, tokens rise, and of every settled turn there is exactly one. The agent's ids, as they are by then.
pub(super) async fn random_verbs_keep_the_order(store: Arc<dyn Store>) -> Vec<Option<String>> {
    let seen: Arc<[Seen; 4]> = Arc::default();
    let mut crowd = JoinSet::new();
    for seed in 1..=8 {
        let (store, seen) = (store.clone(), seen.clone());
        crowd.spawn(async move {
            let mut dice = Dice(seed * 0x9E37_79B9);
            for step in 0..400 {
                let at = dice.roll(4) as usize;
                one_step(&*store, &seen[at], &key("ada", &format!("c{at}")), &mut dice, seed * 1000 + step).await;
                if step % 16 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    crowd.join_all().await;
    for (at, seen) in seen.iter().enumerate() {
        let found = store.context(&key("ada", &format!("c{at}"))).await.unwrap().unwrap();
        let numbers: Vec<_> = found.context.turns.iter().map(|turn| turn.number as usize).collect();
        assert_eq!(numbers, (1..=seen.settled.load(Ordering::SeqCst)).collect::<Vec<_>>());
        assert_eq!(found.in_flight, None);
    }
    let listed = store.list(ListQuery { limit: 10_000, ..all("ada") }).await.unwrap();
    let settled: usize = seen.iter().map(|seen| seen.settled.load(Ordering::SeqCst)).sum();
    assert_eq!((listed.total, listed.tasks.len()), (settled, settled));
    assert!(listed.tasks.iter().all(|(_, context, task)| context.task(&task.id).is_some()));
    listed.tasks.iter().filter(|(.., task)| !task.superseded).map(|(.., task)| task.newest_upstream()).collect()
}

async fn one_step(store: &dyn Store, seen: &Seen, key: &ContextKey, dice: &mut Dice, step: u64) {
    let (lease, context) = match store.begin(ask(key, 1)).await.unwrap() {
        Begun::Granted { lease, context, .. } => (lease, context),
        Begun::Busy(in_flight) => {
            if dice.roll(2) == 0 {
                let wait = store.wait_turn(key, in_flight.token);
                tokio::time::timeout(Duration::from_secs(10), wait).await.expect("woken").unwrap();
            }
            return;
        }
    };
    assert_eq!(seen.holder.swap(lease.token, Ordering::SeqCst), 0, "somebody else holds the lease");
    assert!(seen.newest.swap(lease.token, Ordering::SeqCst) < lease.token);
    store.observe(&lease, pending(None, 1, 1)).await.unwrap();
    // Half of the agents' ids are used again and again.
    let upstream = if dice.roll(2) == 0 { format!("u{}", dice.roll(5)) } else { format!("u-{step}") };
    let how = Bind { minted_task: format!("m-{step}"), ..bind(&upstream, "agents") };
    let (lease, bound) = store.bind(&lease, how).await.unwrap();
    if dice.roll(3) == 0 {
        tokio::task::yield_now().await;
    }
    let found = find(store, "ada", &bound.task_id).await.unwrap();
    assert_eq!(found.in_flight.unwrap().token, lease.token);
    seen.holder.store(0, Ordering::SeqCst);
    if dice.roll(4) == 0 {
        store.release(&lease).await.unwrap();
    } else {
        seen.settled.fetch_add(1, Ordering::SeqCst);
        store.settle(&lease, settlement(&context, &bound, State::Completed, 1)).await.unwrap();
    }
}
