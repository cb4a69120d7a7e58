//! `guard.mode = "queue"`: messages wait their turn.

use std::sync::Arc;
use std::time::Duration;

use a2a_multiturn::conversation::policy::{GuardMode, OnDisconnect, Policy};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::operations::{beside, gated};
use super::support::*;

fn queueing() -> Policy {
    policy(|policy| policy.guard.mode = GuardMode::Queue)
}

/// A message of context `c` that cannot be sent yet.
async fn queued(proxy: &Proxy, text: &str, ids: Value) -> JoinHandle<Value> {
    let mut named = json!({ "contextId": "c" });
    named.as_object_mut().unwrap().extend(ids.as_object().cloned().unwrap());
    let (proxy, request) = (proxy.clone(), send_03(text, named));
    let waiting = tokio::spawn(async move { proxy.call(&request).await });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    waiting
}

fn replying(gate: &Arc<Semaphore>) -> Agent {
    let answer = |seen: &Seen| json!({ "result": completed(seen, &format!("reply {}", seen.sends)) });
    gated(gate, answer, |_| json!({ "error": { "code": -32001, "message": "Task not found" } }))
}

#[tokio::test]
async fn messages_are_sent_in_the_order_in_which_they_came_and_each_sees_the_turn_before_it() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = replying(&gate);
    let proxy = Proxy::with(&agent, queueing());
    let mut running = vec![beside(&proxy, &agent, send_03("word 0", json!({ "contextId": "c" })), 1).await];
    for n in 1..5 {
        running.push(queued(&proxy, &format!("word {n}"), json!({})).await);
    }
    assert_eq!(agent.calls(), 1);
    gate.add_permits(1);
    running.remove(0).await.unwrap();
    // One that comes now goes behind those that wait, though nothing may be in flight at this moment.
    running.push(queued(&proxy, "word 5", json!({})).await);
    gate.add_permits(10);
    for answer in running {
        assert_eq!(state(&answer.await.unwrap()["result"]), "completed");
    }
    for (n, seen) in agent.sends().iter().enumerate() {
        assert!(seen.text().ends_with(&format!("word {n}")), "{}", seen.text());
        let shown = (0..n).all(|before| seen.text().contains(&format!("reply {before}")));
        assert!(shown && !seen.text().contains(&format!("reply {n}")), "{}", seen.text());
    }
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_in_length_and_in_time() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = replying(&gate);
    let policy = policy(|policy| {
        policy.guard.mode = GuardMode::Queue;
        policy.guard.queue_length = 2;
        policy.guard.queue_time = Duration::from_secs(30);
    });
    let proxy = Proxy::with(&agent, policy);
    let first = beside(&proxy, &agent, send_03("one", json!({ "contextId": "c" })), 1).await;
    let (second, third) = (queued(&proxy, "two", json!({})).await, queued(&proxy, "three", json!({})).await);
    let began = tokio::time::Instant::now();
    assert!(is_busy(&proxy.call(&send_03("four", json!({ "contextId": "c" }))).await));
    assert_eq!(began.elapsed(), Duration::ZERO, "beyond its length nobody waits");
    assert!(is_busy(&second.await.unwrap()) && is_busy(&third.await.unwrap()));
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    gate.add_permits(10);
    first.await.unwrap();
    assert_eq!(state(&proxy.send("five", json!({ "contextId": "c" })).await), "completed");
    assert_eq!(agent.calls(), 2);
    // Another context has a line of its own.
    assert_eq!(state(&proxy.send("six", json!({ "contextId": "d" })).await), "completed");
}

#[tokio::test]
async fn a_turn_that_fails_does_not_poison_the_next() {
    let gate = Arc::new(Semaphore::new(0));
    let answer = |seen: &Seen| match seen.sends {
        0 => json!({ "error": { "code": -32603, "message": "boom" } }),
        1 => json!({ "result": { "kind": "task", "id": "f", "contextId": "c", "status": { "state": "failed" } } }),
        2 => json!({ "result": 7 }),
        n => json!({ "result": completed(seen, &format!("reply {n}")) }),
    };
    let agent = gated(&gate, answer, |_| json!({}));
    let proxy = Proxy::with(&agent, queueing());
    let first = beside(&proxy, &agent, send_03("zero", json!({ "contextId": "c" })), 1).await;
    let others = [
        queued(&proxy, "one", json!({})).await,
        queued(&proxy, "two", json!({})).await,
        queued(&proxy, "three", json!({})).await,
    ];
    gate.add_permits(10);
    assert_eq!(first.await.unwrap()["error"]["message"], "boom");
    let [one, two, three] = others;
    assert_eq!(state(&one.await.unwrap()["result"]), "failed");
    assert!(two.await.unwrap()["error"].is_object());
    assert_eq!(state(&three.await.unwrap()["result"]), "completed");
    assert_eq!(agent.last().text(), "three", "nothing of the failed turns is shown");
}

#[tokio::test]
async fn a_client_that_leaves_the_line_is_not_sent_and_holds_up_nobody() {
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let gate = Arc::new(Semaphore::new(0));
        let agent = replying(&gate);
        let policy = policy(|policy| {
            policy.guard.mode = GuardMode::Queue;
            policy.guard.queue_length = 2;
            policy.on_disconnect = on_disconnect;
        });
        let proxy = Proxy::with(&agent, policy);
        let first = beside(&proxy, &agent, send_03("one", json!({ "contextId": "c" })), 1).await;
        // The first in line, and one behind it.
        let (head, second) = (queued(&proxy, "head", json!({})).await, queued(&proxy, "second", json!({})).await);
        for leaves in [head, second] {
            leaves.abort();
            assert!(leaves.await.unwrap_err().is_cancelled());
        }
        let stays = queued(&proxy, "stays", json!({})).await;
        gate.add_permits(10);
        first.await.unwrap();
        assert_eq!(state(&stays.await.unwrap()["result"]), "completed");
        proxy.layer.drained().await;
        let texts: Vec<_> = agent.sends().iter().map(Seen::text).collect();
        assert!(texts.len() == 2 && texts[1].ends_with("stays"), "{texts:?}");
    }
}

#[tokio::test]
async fn cancelling_a_task_takes_the_messages_out_of_the_line_that_would_answer_it() {
    let gate = Arc::new(Semaphore::new(1));
    let answer = |seen: &Seen| {
        let text = if seen.sends == 0 { "Which one?" } else { "Done." };
        json!({ "result": completed(seen, text) })
    };
    let agent = gated(&gate, answer, |_| json!({}));
    let proxy = Proxy::with(&agent, queueing());
    let open = proxy.send("book", json!({ "contextId": "c" })).await;
    assert_eq!(state(&open), "input-required");
    let running = beside(&proxy, &agent, send_03("something else", json!({ "contextId": "c" })), 2).await;
    let answers = queued(&proxy, "the first", json!({ "taskId": open["id"] })).await;
    let other = queued(&proxy, "and now", json!({})).await;
    let canceled = proxy.call(&cancel_03(open["id"].as_str().unwrap())).await;
    assert_eq!(state(&canceled["result"]), "canceled", "{canceled}");
    let told = answers.await.unwrap();
    assert_eq!((state(&told["result"]), &told["result"]["id"]), ("canceled", &open["id"]), "{told}");
    gate.add_permits(10);
    assert_eq!(state(&running.await.unwrap()["result"]), "completed");
    assert_eq!(state(&other.await.unwrap()["result"]), "completed");
    assert!(agent.sends().iter().all(|seen| !seen.text().ends_with("the first")));
}

#[tokio::test]
async fn the_answer_that_the_turn_in_flight_waits_for_does_not_stand_in_line() {
    let answer = |seen: &Seen| {
        let state = if seen.sends == 0 { "auth-required" } else { "completed" };
        let mut task = completed(seen, "Done.");
        (task["id"], task["status"]) = (json!("u-1"), json!({ "state": state }));
        json!({ "result": task })
    };
    let agent = Agent::answering(answer);
    let proxy = Proxy::with(&agent, queueing());
    let waits = proxy.send("pay", json!({ "contextId": "c" })).await;
    assert_eq!(state(&waits), "auth-required");
    let other = proxy.send("other", json!({ "contextId": "d" })).await;
    // Of another task of the same context, so that it has to wait.
    let line = queued(&proxy, "later", json!({ "taskId": other["id"] })).await;
    drop(line);
    let done = proxy.send("the code", json!({ "taskId": waits["id"] })).await;
    assert_eq!(state(&done), "completed");
}

#[tokio::test]
async fn a_question_can_be_cancelled_while_another_turn_runs() {
    let gate = Arc::new(Semaphore::new(1));
    let say = |seen: &Seen| if seen.sends == 0 { "Which one?" } else { "Done." };
    let agent = gated(&gate, move |seen| json!({ "result": completed(seen, say(seen)) }), |_| json!({}));
    let proxy = Proxy::new(&agent);
    let open = proxy.send("book", json!({ "contextId": "c" })).await;
    let running = beside(&proxy, &agent, send_03("something else", json!({ "contextId": "c" })), 2).await;
    let canceled = proxy.call(&cancel_03(open["id"].as_str().unwrap())).await;
    assert_eq!(state(&canceled["result"]), "canceled", "{canceled}");
    // The turn that runs keeps its lease, and the cancelled task its state.
    assert!(is_busy(&proxy.call(&send_03("more", json!({ "contextId": "c" }))).await));
    gate.add_permits(1);
    assert_eq!(state(&running.await.unwrap()["result"]), "completed");
    let got = proxy.call(&get_03(open["id"].as_str().unwrap())).await;
    assert_eq!(state(&got["result"]), "canceled", "{got}");
}
