//! What is there after a restart. A copy of the folder, made while the store is open, is what a process leaves that is killed.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::store::InFlight;

/// What the process would leave if it were killed now.
pub(super) fn left_by(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_all(folder, copy.path());
    copy
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_all(&path, &to);
        } else {
            // A journal is long and mostly zeros.
            let bytes = std::fs::read(&path).unwrap();
            let used = bytes.chunks(4096).rposition(|page| *page != [0; 4096][..page.len()]).map_or(0, |last| last + 1);
            let mut copy = std::fs::File::create(&to).unwrap();
            std::io::Write::write_all(&mut copy, &bytes[..bytes.len().min(used * 4096)]).unwrap();
            copy.set_len(bytes.len() as u64).unwrap();
        }
    }
}

pub(super) fn open(folder: &Path) -> Disk {
    Disk::open(folder, &settings(), [9; 32]).unwrap()
}

async fn whole(store: &dyn Store, context: &str) -> Option<(Context, Option<InFlight>)> {
    let found = store.context(&key("ada", context)).await.unwrap()?;
    Some(((*found.context).clone(), found.in_flight))
}

#[tokio::test]
async fn what_was_told_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Disk::open(folder.path(), &settings(), [7; 32]).unwrap();
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    converse(&store, &key("ada", "a"), bind("u2", "a"), TaskState::InputRequired, 2).await;
    converse(&store, &key("ada", "a"), bind("u3", "a"), TaskState::Failed, 3).await;
    converse(&store, &key("ada", "b"), bind("u4", "b"), TaskState::InputRequired, 4).await;
    converse(&store, &key("bob", "b"), bind("u1", "b"), TaskState::Completed, 5).await;
    let (before, list) = (whole(&store, "a").await, listed(&store, all("ada")).await);
    let (token, ..) = begin(&store, ask(&key("ada", "z"), 5)).await;
    for folder in [left_by(folder.path()), left_by(folder.path())] {
        let store = open(folder.path());
        assert_eq!((whole(&store, "a").await, listed(&store, all("ada")).await), (before.clone(), list.clone()));
        assert_eq!(store.secret(), [7; 32], "credentials are hashed as before");
        // An id of the agent's still means what it meant, and the open question is answered on its task.
        assert!(superseded(&store, "ada", "u1").await && find(&store, "bob", "u1").await.is_none());
        let answer = Bind { task: Some("u4".into()), ..bind("u5", "b") };
        assert_eq!(converse(&store, &key("ada", "b"), answer, TaskState::Completed, 6).await.task_id, "u4");
        assert_eq!(
            converse(&store, &key("ada", "c"), bind("u2", "c"), TaskState::Completed, 7).await.task_id,
            "minted-task"
        );
        let (newer, ..) = begin(&store, ask(&key("ada", "y"), 5)).await;
        assert!(newer.token > token.token);
    }
}

#[tokio::test]
async fn a_store_that_was_closed_is_there_whatever_its_durability() {
    let folder = tempfile::tempdir().unwrap();
    let batched = Settings { durability: Durability::Batched(Duration::from_secs(3600)), ..settings() };
    let store = Disk::open(folder.path(), &batched, [7; 32]).unwrap();
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    drop(store);
    assert_eq!(whole(&open(folder.path()), "a").await.unwrap().0.turns.len(), 1);
}

/// The agent knows the turn: whoever comes may ask it for the end, at once, since nobody reads the reply any more.
#[tokio::test]
async fn an_unsettled_turn_that_the_agent_knows_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let key = key("ada", "a");
    let (lease, ..) = begin(&store, ask(&key, 1)).await;
    store.observe(&lease, pending(None, 1, 1)).await.unwrap();
    let (lease, bound) = store.bind(&lease, bind("u1", "a")).await.unwrap();
    let left = left_by(folder.path());
    let store = open(left.path());
    let told = busy(&store, ask(&key, 2)).await;
    assert_eq!((told.token, told.pending.clone().unwrap().bound), (lease.token, Some(bound.clone())));
    assert!(find(&store, "ada", "u1").await.unwrap().in_flight.unwrap().pending.unwrap().idle);
    assert_eq!(listed(&store, all("ada")).await, (vec!["u1".to_owned()], 1));
    let take = Begin { take: Some(told.token), ..ask(&key, 2) };
    let (lease, context, previous) = begin(&store, take).await;
    assert_eq!(previous.unwrap().pending, told.pending);
    store.settle(&lease, settlement(&context, &bound, TaskState::Completed, 3)).await.unwrap();
    let left = left_by(left.path());
    let (context, in_flight) = whole(&open(left.path()), "a").await.unwrap();
    assert_eq!((context.turns.len(), in_flight), (1, None));
}

#[tokio::test]
async fn a_turn_that_the_agent_may_still_work_on_is_free_after_max_turn() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let key = key("ada", "a");
    let (lease, ..) = begin(&store, ask(&key, 1)).await;
    store.observe(&lease, pending(None, 1, 1)).await.unwrap();
    store.bind(&lease, bind("u1", "a")).await.unwrap();
    let left = left_by(folder.path());
    let store = open(left.path());
    busy(&store, ask(&key, MAX_TURN)).await;
    begin(&store, ask(&key, 1 + MAX_TURN)).await;
}

/// Nobody was told of such a turn, and the agent cannot be asked for it.
#[tokio::test]
async fn a_turn_that_was_not_bound_ends_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::InputRequired, 1).await;
    let before = whole(&store, "a").await;
    for context in ["a", "b"] {
        let (lease, ..) = begin(&store, ask(&key("ada", context), 2)).await;
        store.observe(&lease, pending(Some("u1"), 2, 2)).await.unwrap();
    }
    let left = left_by(folder.path());
    let store = open(left.path());
    assert_eq!((whole(&store, "a").await, whole(&store, "b").await), (before, None));
    begin(&store, ask(&key("ada", "a"), 3)).await;
}

#[tokio::test]
async fn erased_is_erased_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    store.erase(&key("ada", "a")).await.unwrap();
    let left = left_by(folder.path());
    let store = open(left.path());
    assert!(whole(&store, "a").await.is_none() && find(&store, "ada", "u1").await.is_none());
    assert_eq!(listed(&store, all("ada")).await, (vec![], 0));
    assert_eq!(converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 2).await.task_id, "u1");
}

#[tokio::test]
async fn notifications_wait_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let delivery = |lane: &str| Delivery { id: 0, lane: lane.into(), due: 1, tries: 0, body: vec![1] };
    let (first, second) =
        (store.outbox_push(delivery("a")).await.unwrap(), store.outbox_push(delivery("a")).await.unwrap());
    let other = store.outbox_push(delivery("b")).await.unwrap();
    store.outbox_take(1, u64::MAX, 9).await.unwrap();
    store.outbox_done(first, Some(7)).await.unwrap();
    store.outbox_done(other, None).await.unwrap();
    let left = left_by(folder.path());
    let store = open(left.path());
    let taken = store.outbox_take(9, 10, 9).await.unwrap();
    assert_eq!(taken, [Delivery { id: first, due: 7, tries: 1, ..delivery("a") }]);
    store.outbox_done(first, None).await.unwrap();
    assert_eq!(store.outbox_take(9, 10, 9).await.unwrap()[0].id, second);
    assert!(store.outbox_push(delivery("c")).await.unwrap() > other);
}

/// What a settlement writes and reads does not depend on how long the conversation or the store is.
#[tokio::test]
async fn a_turn_costs_the_same_however_much_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = Disk::open(folder.path(), &forgetful(), [7; 32]).unwrap();
    let counts = || {
        let records = store.records();
        let count = |of: &std::sync::atomic::AtomicU64| of.load(std::sync::atomic::Ordering::Relaxed);
        (count(&records.written), count(&records.reads))
    };
    let mut costs = Vec::new();
    for now in 1..=300_u64 {
        converse(
            &store,
            &key("ada", &format!("other-{now}")),
            bind(&format!("o{now}"), "c"),
            TaskState::Completed,
            now,
        )
        .await;
        let before = counts();
        converse(&store, &key("ada", "c"), bind(&format!("u{now}"), "c"), TaskState::Completed, now).await;
        let after = counts();
        costs.push((after.0 - before.0, after.1 - before.1));
    }
    let most = |range: &[(u64, u64)]| (range.iter().map(|cost| cost.0).max(), range.iter().map(|cost| cost.1).max());
    assert_eq!(most(&costs[10..20]), most(&costs[290..]), "{costs:?}");
    let (written, read) = most(&costs);
    assert!(written <= Some(16) && read <= Some(12), "{written:?} records, {read:?} reads");
}

#[tokio::test]
async fn limits_hold_beyond_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |contexts| Settings { limits: Limits { contexts, ..NO_LIMITS }, ..settings() };
    let store = Disk::open(folder.path(), &limited(4), [7; 32]).unwrap();
    // The oldest has an open question, so it goes after the others.
    converse(&store, &key("ada", "q"), bind("q", "q"), TaskState::InputRequired, 1).await;
    for (context, now) in [("a", 2), ("b", 3), ("c", 4), ("a", 5)] {
        converse(&store, &key("ada", context), bind(&format!("{context}{now}"), context), TaskState::Completed, now)
            .await;
    }
    drop(store);
    let store = Disk::open(folder.path(), &limited(3), [7; 32]).unwrap();
    let there = async |store: &Disk| {
        let mut there = String::new();
        for context in ["q", "a", "b", "c", "d"] {
            there += if whole(store, context).await.is_some() { context } else { "-" };
        }
        there
    };
    assert_eq!(there(&store).await, "qabc-");
    converse(&store, &key("ada", "d"), bind("d", "d"), TaskState::Completed, 6).await;
    assert_eq!(there(&store).await, "qa--d");
    assert!(find(&store, "ada", "b3").await.is_none());
    drop(store);
    let store = Disk::open(folder.path(), &limited(1), [7; 32]).unwrap();
    converse(&store, &key("ada", "d"), bind("e", "d"), TaskState::Completed, 7).await;
    assert_eq!(there(&store).await, "----d", "what was settled just now stays");
}

#[tokio::test]
async fn time_is_told_by_the_route() {
    let folder = tempfile::tempdir().unwrap();
    let route_ttl = vec![("short".into(), Duration::from_millis(10))];
    let limits = Limits { ttl: Duration::from_millis(100), route_ttl, ..NO_LIMITS };
    let store = Disk::open(folder.path(), &Settings { limits, ..settings() }, [7; 32]).unwrap();
    let short = ContextKey { route: "short".into(), ..key("ada", "a") };
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    converse(&store, &short, bind("u1", "a"), TaskState::Completed, 5).await;
    converse(&store, &key("ada", "b"), bind("u2", "b"), TaskState::Completed, 15).await;
    assert_eq!(
        store.shared.engine.shelf.totals.contexts.load(std::sync::atomic::Ordering::Relaxed),
        2,
        "it went with the next"
    );
    assert!(store.context(&short).await.unwrap().is_none() && whole(&store, "a").await.is_some());
    converse(&store, &key("ada", "b"), bind("u3", "b"), TaskState::Completed, 101).await;
    assert!(whole(&store, "a").await.is_none() && whole(&store, "b").await.is_some());
}

/// Contexts that are not in use leave the memory, and come back whole.
#[tokio::test]
async fn memory_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let bounded = Settings { cache_bytes: 64 << 10, ..settings() };
    let store = Disk::open(folder.path(), &bounded, [7; 32]).unwrap();
    for now in 1..=500 {
        converse(&store, &key("ada", &format!("c{now}")), bind(&format!("u{now}"), "c"), TaskState::Completed, now)
            .await;
    }
    let held = store.shared.engine.shelf.cache.len();
    assert!(held < 100, "{held} contexts are in memory");
    for now in 1..=500 {
        assert_eq!(whole(&store, &format!("c{now}")).await.unwrap().0.turns.len(), 1);
    }
    assert_eq!(listed(&store, all("ada")).await.1, 500);
}
