//! A turn whose response ended before it did settles also where nobody asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use serde_json::json;

use super::stage::timed;
use crate::support::{Agent, Proxy, completed, memory};

/// Says `working` until `done`, and counts how often it was asked.
fn slow(done: &Arc<AtomicBool>, asked: &Arc<AtomicUsize>) -> Agent {
    let (done, asked) = (Arc::clone(done), Arc::clone(asked));
    Agent::answering(move |seen| {
        if seen.json["method"] == "message/send" {
            return json!({ "result": { "kind": "task", "id": "u-1", "contextId": "c", "status": { "state": "working" } } });
        }
        asked.fetch_add(1, Ordering::Relaxed);
        let mut task = completed(seen, "It is done.");
        (task["id"], task["contextId"]) = (json!("u-1"), json!("c"));
        if !done.load(Ordering::Relaxed) {
            task["status"]["state"] = json!("working");
        }
        json!({ "result": task })
    })
}

async fn turns(proxy: &Proxy) -> (usize, bool) {
    let key = ContextKey { route: RouteId::default(), principal: Principal::default(), context_id: "c".into() };
    let found = proxy.store.context(&key).await.unwrap().unwrap();
    (found.context.turns.len(), found.in_flight.is_some())
}

fn policy(watch: u64) -> Policy {
    let mut policy = Policy::default();
    policy.guard.watch = Duration::from_secs(watch);
    policy.guard.max_turn = Duration::from_secs(600);
    policy
}

#[tokio::test(start_paused = true)]
async fn the_watch_settles_it_and_looks_ever_more_rarely() {
    let (done, asked) = (Arc::default(), Arc::default());
    let proxy = timed(&slow(&done, &asked), policy(5), memory());
    proxy.send("long job", json!({ "contextId": "c" })).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(turns(&proxy).await, (0, true));
    let before = asked.load(Ordering::Relaxed);
    assert!((4..=7).contains(&before), "{before} looks in 200 s");
    done.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(turns(&proxy).await, (1, false));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(asked.load(Ordering::Relaxed), before + 1, "nobody looks at what has settled");
    proxy.layer.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_never_ends_is_kept_apart_after_max_turn() {
    let (done, asked) = (Arc::default(), Arc::default());
    let proxy = timed(&slow(&done, &asked), policy(5), memory());
    proxy.send("long job", json!({ "contextId": "c" })).await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(turns(&proxy).await, (0, false));
    proxy.layer.drained().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_nobody_looks_and_a_drain_does_not_wait_for_one() {
    let (done, asked) = (Arc::default(), Arc::default());
    let proxy = timed(&slow(&done, &asked), policy(0), memory());
    proxy.send("long job", json!({ "contextId": "c" })).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((asked.load(Ordering::Relaxed), turns(&proxy).await), (0, (0, true)));
    let watched = timed(&slow(&done, &asked), policy(5), memory());
    watched.send("long job", json!({ "contextId": "c" })).await;
    watched.layer.drained().await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}
