//! `auth-required` does not settle: the turn waits, is joined by its answer, or set apart.

use serde_json::{Value, json};

use super::chains::key;
use super::record::turns;
use super::support::*;

fn auth(id: &str) -> Value {
    task_03(
        id,
        "auth-required",
        json!({ "contextId": "agents-own", "status": { "state": "auth-required",
        "message": { "kind": "message", "messageId": "s", "role": "agent", "parts": [{ "kind": "text", "text": "Log in, please?" }] } } }),
    )
}

fn done(id: &str, text: &str) -> Value {
    task_03(id, "completed", json!({ "contextId": "agents-own", "artifacts": [artifact_03("response", text)] }))
}

#[tokio::test]
async fn a_message_to_the_waiting_task_joins_its_turn() {
    let agent = Agent::answering(|seen| {
        json!({ "result": match seen.sends {
        0 => completed(seen, "Hello."),
        1 => auth("u-2"),
        2 => done("u-2", "Here it is."),
        _ => completed(seen, "ok"),
    } })
    });
    let proxy = Proxy::new(&agent).active();
    proxy.send("hi", json!({ "contextId": "c" })).await;
    let waiting = proxy.send("my mail", json!({ "contextId": "c" })).await;
    assert_eq!(
        (waiting["id"].as_str(), state(&waiting), waiting["contextId"].as_str()),
        (Some("u-2"), "auth-required", Some("c"))
    );
    assert!(told(&waiting)["expected_input"].is_null());
    let answer = proxy.send("token-abc-123", json!({ "contextId": "c", "taskId": "u-2" })).await;
    let given = agent.last();
    assert_eq!(
        (given.text(), &given.message()["taskId"], &given.message()["contextId"]),
        ("token-abc-123".into(), &json!("u-2"), &json!("agents-own"))
    );
    assert!(given.entry().is_null(), "without a block");
    assert_eq!(
        (answer["id"].as_str(), state(&answer), answer["contextId"].as_str()),
        (Some("u-2"), "completed", Some("c"))
    );
    proxy.send("thanks", json!({ "contextId": "c" })).await;
    let given = agent.last();
    assert!(!given.raw.contains("token-abc-123"), "{}", given.raw);
    let shown: Vec<_> = turns(&given).iter().map(|turn| turn["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(shown, ["hi", "Hello.", "my mail", "Here it is."], "the turn keeps its first user message");
    let found = proxy.store.context(&key("c")).await.unwrap().unwrap();
    assert_eq!(found.context.turn(2).unwrap().joined.len(), 1, "a receipt is noted with it");
}

#[tokio::test]
async fn a_message_in_the_context_sets_the_waiting_turn_apart() {
    let agent = Agent::keeping(|seen| match seen.sends {
        0 => auth("u-1"),
        _ => completed(seen, "Sunny."),
    });
    let proxy = Proxy::new(&agent);
    proxy.send("my mail", json!({ "contextId": "c" })).await;
    let next = proxy.send("forget it: the weather?", json!({ "contextId": "c" })).await;
    assert_eq!(state(&next), "completed");
    assert!(!agent.last().text().contains("my mail"));
    proxy.send("again", json!({ "contextId": "c" })).await;
    let shown = turns(&agent.last());
    assert_eq!((shown.len(), shown[0]["text"].as_str()), (2, Some("forget it: the weather?")));
}

#[tokio::test]
async fn what_fails_to_join_leaves_the_turn_waiting() {
    let agent = Agent::scripted(|seen| async move {
        let result = match seen.sends {
            0 => auth("u-1"),
            1 => return Err("gone".into()),
            2 => {
                return Ok(json_response(
                    &json!({ "id": seen.json["id"], "error": { "code": -32603, "message": "wrong token" } }),
                ));
            }
            3 => auth("u-1"),
            4 => done("u-1", "Here it is."),
            _ => completed(&seen, "ok"),
        };
        Ok(json_response(&json!({ "id": seen.json["id"], "result": result })))
    });
    let proxy = Proxy::new(&agent);
    proxy.send("my mail", json!({ "contextId": "c" })).await;
    let ids = json!({ "contextId": "c", "taskId": "u-1" });
    for _ in 0..2 {
        let failed = proxy.call(&send_03("token-bad", ids.clone())).await;
        assert!(failed["error"].is_object(), "{failed}");
    }
    let calls = agent.calls();
    assert_eq!(state(&proxy.send("token-none", ids.clone()).await), "auth-required", "it is still joined");
    assert_eq!(state(&proxy.send("token-good", ids).await), "completed");
    assert_eq!(agent.calls(), calls + 2, "without a look");
    proxy.send("thanks", json!({ "contextId": "c" })).await;
    assert!(!agent.last().raw.contains("token-"), "{}", agent.last().raw);
    assert_eq!(turns(&agent.last()).len(), 2);
}

#[tokio::test]
async fn a_poll_of_a_waiting_task_shows_it_and_settles_it_when_it_has_ended() {
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&over);
    let agent = Agent::answering(move |seen| {
        json!({ "result": match (seen.method(), seen.sends) {
        ("message/send", 0) => auth("u-1"),
        ("message/send", _) => completed(seen, "ok"),
        _ if flag.load(std::sync::atomic::Ordering::SeqCst) => done("u-1", "Which mail?"),
        _ => auth("u-1"),
    } })
    });
    let proxy = Proxy::new(&agent);
    proxy.send("my mail", json!({ "contextId": "c" })).await;
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!((state(&got), got["contextId"].as_str()), ("auth-required", Some("c")));
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!((state(&got), got["contextId"].as_str()), ("input-required", Some("c")));
    assert_eq!(state(&proxy.send("the last", json!({ "taskId": "u-1" })).await), "completed");
}

#[tokio::test]
async fn a_waiting_task_is_cancelled_at_the_agent() {
    let agent = Agent::keeping(|seen| if seen.sends == 0 { auth("u-1") } else { completed(seen, "ok") });
    let proxy = Proxy::new(&agent);
    proxy.send("my mail", json!({ "contextId": "c" })).await;
    let canceled = proxy.call(&cancel_03("u-1")).await["result"].clone();
    assert_eq!(
        (canceled["id"].as_str(), state(&canceled), canceled["contextId"].as_str()),
        (Some("u-1"), "canceled", Some("c"))
    );
    assert!(!is_busy(&proxy.call(&send_03("next", json!({ "contextId": "c" }))).await));
}

#[tokio::test]
async fn a_turn_that_the_agent_no_longer_knows_frees_its_context() {
    let agent = Agent::answering(|seen| match (seen.method(), seen.sends) {
        ("message/send", 0) => json!({ "result": task_03("u-1", "working", json!({})) }),
        ("message/send", _) => json!({ "result": completed(seen, "ok") }),
        _ => json!({ "error": { "code": -32001, "message": "Task not found" } }),
    });
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    proxy.send("q", json!({ "contextId": "c" })).await;
    clock.forward(1001);
    assert!(!is_busy(&proxy.call(&send_03("next", json!({ "contextId": "c" }))).await));
    assert_eq!(
        state(&proxy.call(&get_03("u-1")).await["result"]),
        "failed",
        "and from then on every operation says so"
    );
}

#[tokio::test]
async fn a_turn_known_to_the_agent_is_freed_by_time_alone_after_max_turn() {
    let agent = Agent::answering(|seen| match seen.method() {
        "message/send" if seen.sends > 0 => json!({ "result": completed(seen, "ok") }),
        _ => json!({ "result": task_03("u-1", "working", json!({})) }),
    });
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    proxy.send("q", json!({ "contextId": "c" })).await;
    for _ in 0..5 {
        clock.forward(600_000);
        assert!(is_busy(&proxy.call(&send_03("next", json!({ "contextId": "c" }))).await));
    }
    clock.forward(700_000);
    assert!(!is_busy(&proxy.call(&send_03("next", json!({ "contextId": "c" }))).await));
}
