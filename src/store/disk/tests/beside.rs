//! What is there after a restart of turns beside one another, of push configurations and of notes.

use super::restart::{left_by, open};
use super::*;
use crate::a2a::Dialect;
use crate::push::PushConfig;
use crate::store::Share;

fn beside(task: Option<&str>, now: u64) -> Begin {
    Begin { share: Share::Beside(task.map(str::to_owned)), ..ask(&key("ada", "c"), now) }
}

async fn running(store: &Disk, task: &str, now: u64) -> (Lease, Bound) {
    let (lease, ..) = begin(store, beside(None, now)).await;
    store.observe(&lease, pending(None, 1, now)).await.unwrap();
    store.bind(&lease, bind(task, "c")).await.unwrap()
}

fn config(id: &str) -> PushChange {
    PushChange::Set(PushConfig {
        task: "u1".into(),
        id: id.to_owned(),
        dialect: Dialect::V10,
        url: "https://client.example".to_owned(),
        token: None,
        schemes: Vec::new(),
        credentials: None,
        active: false,
    })
}

#[tokio::test]
async fn each_unsettled_turn_that_the_agent_knows_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (first, one) = running(&store, "u1", 1).await;
    // Between the two is one that the agent is not known to know.
    let (unbound, ..) = begin(&store, beside(None, 2)).await;
    let (second, two) = running(&store, "u2", 3).await;
    let left = left_by(folder.path());
    let store = open(left.path());
    assert!(matches!(store.renew(&unbound, 9).await, Err(StoreError::LeaseLost)));
    for (task, lease) in [("u1", &first), ("u2", &second)] {
        let told = find(&store, "ada", task).await.unwrap().in_flight.unwrap();
        assert_eq!((told.token, told.pending.unwrap().idle), (lease.token, true));
    }
    let (lease, context, _) = begin(&store, Begin { take: Some(second.token), ..beside(Some("u2"), 4) }).await;
    store.settle(&lease, settlement(&context, &two, TaskState::Completed, 5)).await.unwrap();
    let left = left_by(left.path());
    let store = open(left.path());
    assert_eq!(busy(&store, ask(&key("ada", "c"), 6)).await.token, first.token);
    let (lease, context, _) = begin(&store, Begin { take: Some(first.token), ..beside(Some("u1"), 6) }).await;
    store.settle(&lease, settlement(&context, &one, TaskState::Completed, 7)).await.unwrap();
    let left = left_by(left.path());
    let found = open(left.path()).context(&key("ada", "c")).await.unwrap().unwrap();
    assert_eq!((found.context.turns.len(), found.in_flight), (2, None));
}

/// Who looks at a turn takes it over, and gives it back: what is on disk of it stays, and of the one beside it too.
#[tokio::test]
async fn a_turn_that_was_looked_at_is_there_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    running(&store, "u1", 1).await;
    let (second, _) = running(&store, "u2", 2).await;
    let left = left_by(folder.path());
    let store = open(left.path());
    let (lease, ..) = begin(&store, Begin { take: Some(second.token), ..beside(Some("u2"), 3) }).await;
    let taken = left_by(left.path());
    store.release(&lease).await.unwrap();
    for folder in [taken, left] {
        let left = left_by(folder.path());
        let store = open(left.path());
        for task in ["u1", "u2"] {
            let told = find(&store, "ada", task).await.unwrap().in_flight.unwrap().pending.unwrap();
            assert_eq!((&*told.bound.unwrap().task_id, told.idle), (task, true));
        }
    }
}

#[tokio::test]
async fn push_configurations_and_notes_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let key = key("ada", "c");
    let (lease, bound) = running(&store, "u1", 1).await;
    assert!(store.configure(&key, config("1")).await.unwrap());
    store.note("a", Some(vec![1]), 10).await.unwrap();
    store.note("b", Some(vec![2]), 10).await.unwrap();
    let left = left_by(folder.path());
    let other = open(left.path());
    assert_eq!(find(&other, "ada", "u1").await.unwrap().context.push_of("u1").count(), 1);
    assert_eq!((other.noted("a", 9).await.unwrap(), other.noted("a", 10).await.unwrap()), (Some(vec![1]), None));
    let context = store.context(&key).await.unwrap().unwrap().context;
    store.settle(&lease, settlement(&context, &bound, TaskState::Completed, 11)).await.unwrap();
    assert!(store.configure(&key, config("2")).await.unwrap());
    assert!(store.configure(&key, PushChange::Delete { task: "u1".into(), id: "1".to_owned() }).await.unwrap());
    store.note("c", Some(vec![3]), 20).await.unwrap();
    let left = left_by(folder.path());
    let other = open(left.path());
    let found = find(&other, "ada", "u1").await.unwrap();
    assert_eq!(found.context.push_of("u1").map(|config| &*config.id).collect::<Vec<_>>(), ["2"]);
    assert_eq!(other.noted("c", 1).await.unwrap(), Some(vec![3]));
    let on_disk = other.records().scan(b"N", b"N", usize::MAX);
    assert_eq!(on_disk.len(), 1, "those whose time is over leave the disk with the next");
}
