//! What the agent pushes, and what others do who would like to be it.

use std::time::Duration;

use super::*;
use tokio::sync::Semaphore;

/// Answers every send with a task that works on, and every question for one with `done`.
fn slow(done: impl Fn(&str) -> Value + Send + Sync + 'static) -> Agent {
    Agent::answering(move |seen| {
        let id = seen.json["params"]["id"].as_str().unwrap_or_default().to_owned();
        json!({ "result": if seen.is_send() { working(&format!("u-{}", seen.sends + 1)) } else { done(&id) } })
    })
}

async fn begun(proxy: &Proxy, agent: &Agent, context: &str) -> Given {
    let send = with_config(send_03("go", json!({ "contextId": context })), json!({ "url": HOOK }));
    assert_eq!(state(&proxy.call(&send).await["result"]), "working");
    given(&agent.last())
}

#[tokio::test]
async fn a_whole_task_that_is_pushed_settles() {
    let agent = slow(|_| panic!("nobody needs to ask"));
    let proxy = relay(&agent);
    let callback = begun(&proxy, &agent, "c").await;
    assert_eq!(push(&proxy, &callback, &working("u-1")).await, StatusCode::NO_CONTENT);
    assert_eq!(standing(&proxy, "u-1").await, (0, true, "none".to_owned()));
    assert_eq!(push(&proxy, &callback, &ended("u-1", "Which city do you mean?")).await, StatusCode::NO_CONTENT);
    assert_eq!(standing(&proxy, "u-1").await, (1, false, "input-required".to_owned()));
    // And again, as an agent does that had no answer in time.
    assert_eq!(push(&proxy, &callback, &ended("u-1", "Something else.")).await, StatusCode::NO_CONTENT);
    let (states, bodies) = told_states(&proxy).await;
    assert_eq!(states, ["working", "input-required"]);
    assert_eq!(bodies[1]["status"]["message"]["parts"][0]["text"], "Which city do you mean?");
}

#[tokio::test]
async fn an_end_without_artifacts_makes_the_proxy_ask_with_the_credential_of_the_send() {
    for body in [
        json!({ "statusUpdate": { "taskId": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
        task_03("u-1", "completed", json!({})),
        json!({ "kind": "status-update", "taskId": "u-1", "contextId": "c", "status": { "state": "completed" }, "final": true }),
    ] {
        let agent = slow(|id| ended(id, "All done."));
        let proxy = relay(&agent);
        let client = proxy.with_header("authorization", "Bearer hers");
        let callback = begun(&client, &agent, "c").await;
        assert_eq!(push(&proxy, &callback, &body).await, StatusCode::NO_CONTENT);
        tokio::time::timeout(Duration::from_secs(5), async {
            while standing(&proxy, "u-1").await.1 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("settled");
        let asked = agent.last();
        assert_eq!((asked.method(), &asked.headers["authorization"]), ("tasks/get", &"Bearer hers".parse().unwrap()));
        assert_eq!(told_states(&proxy).await.0, ["working", "completed"], "{body}");
    }
}

#[tokio::test]
async fn after_a_restart_the_callback_still_finds_its_turn() {
    let agent = slow(|id| ended(id, "All done."));
    let store = memory();
    let before = relaying(&agent, true, Policy::default(), Arc::clone(&store));
    let callback = begun(&before, &agent, "c").await;
    // Another process, with the same store and nothing else.
    let after = relaying(&agent, true, Policy::default(), store);
    let body = json!({ "statusUpdate": { "taskId": "u-1", "status": { "state": "TASK_STATE_COMPLETED" } } });
    assert_eq!(push(&after, &callback, &body).await, StatusCode::NO_CONTENT);
    tokio::time::timeout(Duration::from_secs(5), async {
        while standing(&after, "u-1").await.1 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("settled");
    assert!(agent.last().headers.get("authorization").is_none(), "nobody's credential");
    assert_eq!(told_states(&after).await.0, ["working", "completed"]);
}

#[tokio::test]
async fn who_is_not_the_agent_changes_nothing() {
    let agent = slow(|_| panic!("nobody asks"));
    let proxy = relay(&agent);
    let (mine, other) = (begun(&proxy, &agent, "c").await, begun(&proxy, &agent, "d").await);
    outbox(&proxy).await;
    let done = ended("u-1", "You are paid.").to_string();
    let unknown = mine.path.rsplit_once('/').unwrap().0.to_owned() + "/00000000000000000000000000000000";
    let shorter = &mine.token[1..];
    for (path, token) in [
        (&mine.path, None),
        (&mine.path, Some("")),
        (&mine.path, Some("x")),
        (&mine.path, Some(shorter)),
        (&mine.path, Some(&*other.token)),
        (&unknown, Some(&*mine.token)),
    ] {
        assert_eq!(push_with(&proxy, path, token, &done).await, StatusCode::UNAUTHORIZED, "{path} {token:?}");
    }
    // The agent's own callback says nothing of another task, nor what is no push.
    assert_eq!(push(&proxy, &other, &ended("u-1", "You are paid.")).await, StatusCode::NO_CONTENT);
    assert_eq!(push(&proxy, &mine, &json!({ "hello": 1 })).await, StatusCode::BAD_REQUEST);
    assert_eq!(push_with(&proxy, &mine.path, Some(&mine.token), "no json").await, StatusCode::BAD_REQUEST);
    let elsewhere = proxy.on_route("other");
    assert_eq!(push(&elsewhere, &mine, &ended("u-1", "Paid.")).await, StatusCode::UNAUTHORIZED);
    let large = " ".repeat(64 << 20);
    assert_eq!(push_with(&proxy, &mine.path, Some(&mine.token), &large).await, StatusCode::PAYLOAD_TOO_LARGE);
    for task in ["u-1", "u-2"] {
        assert_eq!(standing(&proxy, task).await, (0, true, "none".to_owned()));
    }
    assert!(outbox(&proxy).await.is_empty());
    assert_eq!(agent.sends().len(), agent.calls(), "and made nobody ask");
}

#[tokio::test]
async fn while_the_reply_is_read_a_push_waits_for_it() {
    let open = Arc::new(Semaphore::new(0));
    let (gate, arrived) = (Arc::clone(&open), Arc::new(Notify::new()));
    let called = Arc::clone(&arrived);
    let agent = Agent::scripted(move |seen| {
        let (gate, called) = (Arc::clone(&gate), Arc::clone(&called));
        async move {
            called.notify_one();
            gate.acquire().await.unwrap().forget();
            Ok(json_response(&json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": ended("u-1", "Which one?") })))
        }
    });
    let proxy = relay(&agent);
    let send = with_config(send_03("go", json!({ "contextId": "c" })), json!({ "url": HOOK }));
    let waiting = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.call(&send).await }
    });
    arrived.notified().await;
    let callback = given(&agent.last());
    assert_eq!(push(&proxy, &callback, &ended("u-1", "Which one?")).await, StatusCode::NO_CONTENT);
    assert!(outbox(&proxy).await.is_empty(), "nobody is told before the settle");
    open.add_permits(1);
    assert_eq!(state(&waiting.await.unwrap()["result"]), "input-required");
    assert_eq!(told_states(&proxy).await.0, ["input-required"]);
}

#[tokio::test]
async fn an_end_pushed_before_the_reply_that_leaves_the_turn_is_not_lost() {
    let open = Arc::new(Semaphore::new(0));
    let (gate, arrived) = (Arc::clone(&open), Arc::new(Notify::new()));
    let called = Arc::clone(&arrived);
    let agent = Agent::scripted(move |seen| {
        let (gate, called) = (Arc::clone(&gate), Arc::clone(&called));
        async move {
            let result = if seen.is_send() {
                called.notify_one();
                gate.acquire().await.unwrap().forget();
                working("u-1")
            } else {
                ended("u-1", "All done.")
            };
            Ok(json_response(&json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": result })))
        }
    });
    // Nothing but the push makes it look.
    let mut policy = Policy::default();
    policy.guard.watch = Duration::ZERO;
    let proxy = relaying(&agent, true, policy, memory());
    let send = with_config(send_03("go", json!({ "contextId": "c" })), json!({ "url": HOOK }));
    let waiting = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.call(&send).await }
    });
    arrived.notified().await;
    push(&proxy, &given(&agent.last()), &ended("u-1", "All done.")).await;
    open.add_permits(1);
    assert_eq!(state(&waiting.await.unwrap()["result"]), "working");
    tokio::time::timeout(Duration::from_secs(5), async {
        while standing(&proxy, "u-1").await.1 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("settled");
    assert_eq!(told_states(&proxy).await.0, ["working", "completed"]);
}

#[tokio::test]
async fn without_a_relay_the_path_is_the_agent_s() {
    let agent = Agent::answering(|_| json!({ "result": {} }));
    let proxy = Proxy::new(&agent);
    let path = "/a2a-multiturn/push/00000000000000000000000000000000";
    assert_eq!(push_with(&proxy, path, None, "{}").await, StatusCode::OK);
    assert_eq!(agent.calls(), 1);
}
