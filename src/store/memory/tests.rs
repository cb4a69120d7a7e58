//! The suite over memory, and what memory alone promises: its limits, and no growth beyond them.

use std::time::Duration;

use super::*;
use crate::a2a::State as TaskState;
use crate::store::Begun;
use crate::store::suite::*;

const NO_LIMITS: Limits = Limits {
    contexts: usize::MAX,
    bytes: usize::MAX,
    context_bytes: usize::MAX,
    ttl: Duration::MAX,
    route_ttl: Vec::new(),
};

fn memory(limits: Limits) -> Memory {
    Memory::new(limits, [7; 32])
}

fn any_store() -> Arc<dyn Store> {
    Arc::new(memory(NO_LIMITS))
}

#[tokio::test]
async fn behaves_as_a_store() {
    table(any_store).await;
    assert_eq!(any_store().secret(), [7; 32]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_keep_the_order() {
    concurrency(any_store).await;
}

#[test]
fn agrees_with_the_model() {
    against_the_model(any_store, 256);
}

#[test]
#[ignore = "the long run of agrees_with_the_model"]
fn agrees_with_the_model_for_long() {
    against_the_model(any_store, 50_000);
}

mod rss;

/// Contexts, owners, ids, seats and bytes.
fn counts(store: &Memory) -> (usize, usize, usize, usize, usize) {
    let (seats, bytes) = lock(&store.engine.shelf.ledger).contexts_and_bytes();
    (store.engine.shelf.contexts.len(), store.engine.shelf.owners.len(), store.engine.shelf.tasks.len(), seats, bytes)
}

async fn is_there(store: &Memory, context: &str) -> bool {
    store.context(&key("ada", context)).await.unwrap().is_some()
}

async fn one_turn(store: &Memory, context: &str, now: u64) {
    converse(store, &key("ada", context), bind(&format!("{context}-{now}"), context), TaskState::Completed, now).await;
}

async fn bytes_of_a_turn(context: &str) -> usize {
    let store = memory(NO_LIMITS);
    one_turn(&store, context, 1).await;
    counts(&store).4
}

#[tokio::test]
async fn the_longest_unused_context_goes() {
    let store = memory(Limits { contexts: 3, ..NO_LIMITS });
    for (context, now) in [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("d", 5)] {
        one_turn(&store, context, now).await;
    }
    assert!(!is_there(&store, "b").await && is_there(&store, "a").await && is_there(&store, "d").await);
    assert!(find(&store, "ada", "b-2").await.is_none());
    let (contexts, owners, ids, seats, _) = counts(&store);
    assert_eq!((contexts, owners, ids, seats), (3, 1, 4, 3));
}

#[tokio::test]
async fn a_context_with_a_turn_in_flight_stays() {
    let store = memory(Limits { contexts: 1, ..NO_LIMITS });
    one_turn(&store, "a", 1).await;
    let (lease, ..) = begin(&store, ask(&key("ada", "a"), 2)).await;
    one_turn(&store, "b", 3).await;
    one_turn(&store, "c", 4).await;
    assert!(is_there(&store, "a").await);
    store.release(&lease).await.unwrap();
    // One whose turn anybody may take away is not in flight.
    begin(&store, ask(&key("ada", "a"), 5)).await;
    begin(&store, ask(&key("ada", "d"), 5 + LEASE)).await;
    assert!(!is_there(&store, "a").await && is_there(&store, "d").await);
}

#[tokio::test]
async fn bytes_in_all_are_limited_and_what_was_just_settled_stays() {
    let turn = bytes_of_a_turn("c1").await;
    let store = memory(Limits { bytes: 3 * turn, ..NO_LIMITS });
    for now in 1..=9 {
        one_turn(&store, &format!("c{now}"), now).await;
    }
    assert_eq!(counts(&store), (3, 1, 3, 3, 3 * turn));
    let store = memory(Limits { bytes: 1, ..NO_LIMITS });
    one_turn(&store, "a", 1).await;
    one_turn(&store, "b", 2).await;
    assert!(is_there(&store, "b").await && !is_there(&store, "a").await);
}

#[tokio::test]
async fn a_context_loses_its_oldest_turns_and_their_ids() {
    let turn = bytes_of_a_turn("a").await;
    let store = memory(Limits { context_bytes: 5 * turn, ..NO_LIMITS });
    for now in 1..=9 {
        one_turn(&store, "a", now).await;
    }
    assert_eq!(counts(&store), (1, 1, 5, 1, 5 * turn));
    assert!(find(&store, "ada", "a-4").await.is_none() && find(&store, "ada", "a-5").await.is_some());
    assert_eq!(listed(&store, all("ada")).await.1, 5);
}

#[tokio::test]
async fn failed_turns_do_not_pile_up() {
    let store = memory(NO_LIMITS);
    for now in 1..=50 {
        converse(&store, &key("ada", "a"), bind(&format!("u{now}"), "a"), TaskState::Failed, now).await;
    }
    let (contexts, _, ids, ..) = counts(&store);
    assert_eq!((contexts, ids), (1, 16));
}

#[tokio::test]
async fn what_nobody_uses_goes_in_time() {
    let ttl = Duration::from_millis(100);
    let store = memory(Limits { ttl, ..NO_LIMITS });
    for context in ["a", "b", "c"] {
        one_turn(&store, context, 10).await;
    }
    one_turn(&store, "a", 50).await;
    one_turn(&store, "d", 109).await;
    assert_eq!(counts(&store).0, 4);
    // The next one that comes takes those along.
    one_turn(&store, "e", 110).await;
    assert_eq!(counts(&store).0, 3);
    // What is asked for after its time is not there, and made anew.
    let Begun::Granted { context, .. } = store.begin(ask(&key("ada", "a"), 150)).await.unwrap() else { panic!("busy") };
    assert!(context.turns.is_empty() && find(&store, "ada", "a-50").await.is_none());
}

#[tokio::test]
async fn nothing_is_left_of_contexts_that_went() {
    let store = memory(Limits { contexts: 10, ..NO_LIMITS });
    for now in 1..=500 {
        let context = key(&format!("principal-{}", now % 40), &format!("c{}", now % 100));
        let how = Bind { minted_task: format!("m{now}"), ..bind(&format!("u{}", now % 30), "agents") };
        let state = if now % 3 == 0 { TaskState::Failed } else { TaskState::InputRequired };
        converse(&store, &context, how, state, now).await;
        let (lease, ..) = begin(&store, provisional(&key("eve", "p"), now)).await;
        let how = Bind { minted_task: format!("n{now}"), ..bind(&format!("u{}", now % 30), "") };
        let (lease, _) = store.bind(&lease, how).await.unwrap();
        store.release(&lease).await.unwrap();
    }
    let (contexts, owners, ids, seats, _) = counts(&store);
    assert!(contexts <= 10 && seats == contexts && owners <= 10 && ids <= 40, "{:?}", counts(&store));
    let keys: Vec<_> = store.engine.shelf.contexts.iter().map(|slot| slot.key().clone()).collect();
    for key in keys {
        store.erase(&key).await.unwrap();
    }
    assert_eq!(counts(&store), (0, 0, 0, 0, 0));
}

#[tokio::test]
async fn the_outbox_keeps_nothing_that_is_done() {
    let store = memory(NO_LIMITS);
    for lane in ["a", "b", "a"] {
        let id =
            store.outbox_push(Delivery { id: 0, lane: lane.into(), due: 1, tries: 0, body: vec![] }).await.unwrap();
        store.outbox_take(1, 5, 9).await.unwrap();
        store.outbox_done(id, Some(2)).await.unwrap();
        store.outbox_done(id, None).await.unwrap();
    }
    assert_eq!(lock(&store.outbox).entries(), 0);
}
