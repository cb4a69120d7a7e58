//! What the webhooks are told: each change once, in order, in the words that the client was told.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_question_and_its_answer_are_told_as_one_task() {
    let agent = Agent::saying(|seen| if seen.sends == 0 { "Which city do you mean?" } else { "Sunny." }.to_owned());
    let proxy = relay(&agent);
    let first = with_config(
        send_03("weather?", json!({ "contextId": "c" })),
        json!({ "url": HOOK, "token": "mine", "authentication": { "schemes": ["Bearer"], "credentials": "s3cret" } }),
    );
    let asked = proxy.call(&first).await["result"].clone();
    assert_eq!(state(&asked), "input-required");
    let seen = agent.last();
    let callback = given(&seen);
    assert!(!seen.raw.contains("hooks.example") && !seen.raw.contains("s3cret"), "{}", seen.raw);
    let answer = proxy.send("Berlin", json!({ "contextId": "c", "taskId": "u-1" })).await;
    assert_eq!((state(&answer), &answer["id"]), ("completed", &json!("u-1")));
    assert_ne!(given(&agent.last()), callback, "each attempt has its own");
    let all = outbox(&proxy).await;
    let states: Vec<_> = all.iter().map(|told| &*told.state).collect();
    assert_eq!(states, ["input-required", "working", "completed"]);
    for told in &all {
        let config = &told.config;
        assert_eq!((&*config.url, config.token.as_deref(), &*config.id), (HOOK, Some("mine"), "u-1"));
        assert_eq!((told.authorization().as_deref(), told.content_type()), (Some("Bearer s3cret"), "application/json"));
        let body: Value = serde_json::from_str(&told.body).unwrap();
        assert_eq!((&body["kind"], &body["id"], &body["contextId"]), (&json!("task"), &json!("u-1"), &json!("c")));
        assert_eq!(state(&body), told.state);
        assert!(!told.body.contains("record of earlier turns"), "{}", told.body);
    }
    let body: Value = serde_json::from_str(&all[0].body).unwrap();
    assert_eq!(body["status"]["message"]["parts"][0]["text"], "Which city do you mean?");
    assert!(body["metadata"][URI]["expected_input"].is_string());
    let body: Value = serde_json::from_str(&all[2].body).unwrap();
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(body["artifacts"], got["artifacts"], "as the client is told");
}

#[tokio::test]
async fn version_1_is_told_a_response_of_a_stream() {
    let agent = Agent::answering(|_| {
        json!({ "result": { "task": { "id": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "artifactId": "response", "parts": [{ "text": "Done." }] }] } } })
    });
    let proxy = relay(&agent);
    proxy.call(&with_config(send_10("go", json!({})), json!({ "id": "p1", "url": HOOK }))).await;
    assert!(given(&agent.last()).path.starts_with("/a2a-multiturn/push/"));
    let all = outbox(&proxy).await;
    assert_eq!((all.len(), all[0].content_type(), &*all[0].config.id), (1, "application/a2a+json", "p1"));
    let body: Value = serde_json::from_str(&all[0].body).unwrap();
    assert_eq!(body["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(body["task"]["artifacts"][0]["parts"][0]["text"], "Done.");
}

#[tokio::test]
async fn a_stream_s_states_are_told_once_each() {
    let update = |state: &str, last: bool| {
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "status-update", "taskId": "u-1", "contextId": "c",
            "status": { "state": state }, "final": last } })
    };
    let artifact = json!({ "jsonrpc": "2.0", "id": 1, "result": { "kind": "artifact-update", "taskId": "u-1",
        "contextId": "c", "artifact": artifact_03("response", "All done."), "append": false, "lastChunk": true } });
    let first = json!({ "jsonrpc": "2.0", "id": 1, "result": task_03("u-1", "submitted", json!({})) });
    let events = [first, update("working", false), update("working", false), artifact, update("completed", true)];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let agent = Agent::scripted(move |_| {
        let mut response = http::Response::new(super::super::support::body(body.clone()));
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        async move { Ok(response) }
    });
    let proxy = relay(&agent);
    let mut send = with_config(send_03("go", json!({})), json!({ "url": HOOK }));
    send["method"] = json!("message/stream");
    let events = proxy.events(&send).await;
    assert_eq!(state(&events.last().unwrap()["result"]), "completed");
    assert_eq!(told_states(&proxy).await.0, ["submitted", "working", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_never_pushes_is_told_too() {
    let agent = Agent::answering(
        |seen| json!({ "result": if seen.is_send() { working("u-1") } else { ended("u-1", "Long job done.") } }),
    );
    let proxy = relaying(&agent, false, Policy::default(), memory());
    let send = with_config(send_03("go", json!({ "contextId": "c" })), json!({ "url": HOOK }));
    assert_eq!(state(&proxy.call(&send).await["result"]), "working");
    assert!(
        !agent.last().raw.contains("ushNotification"),
        "an agent that does not push is given nothing: {}",
        agent.last().raw
    );
    // The test's own clock stands still: what makes the proxy look is the time of the runtime.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let (states, bodies) = told_states(&proxy).await;
    // The look that finds it ended comes by the system's clock, so it may be the poll that does.
    let states = if states.len() == 1 {
        proxy.call(&get_03("u-1")).await;
        [states, told_states(&proxy).await.0].concat()
    } else {
        states
    };
    assert_eq!(states, ["working", "completed"]);
    assert_eq!(bodies[0]["history"][0]["parts"][0]["text"], "go");
}

#[tokio::test]
async fn a_failure_a_cancellation_and_a_question_left_behind_are_told() {
    let agent = Agent::keeping(|seen| match seen.sends {
        0 | 2 => completed(seen, "Which one do you mean?"),
        3 => task_03("u-f", "failed", json!({ "contextId": "c" })),
        _ => completed(seen, "Fine."),
    });
    let proxy = relay(&agent);
    let send = |text: &str| with_config(send_03(text, json!({ "contextId": "c" })), json!({ "url": HOOK }));
    proxy.call(&send("one")).await;
    assert_eq!(told_states(&proxy).await.0, ["input-required"]);
    proxy.call(&send("two")).await;
    let told = outbox(&proxy).await;
    let mut told: Vec<_> = told.iter().map(|told| (&*told.config.task, &*told.state)).collect();
    told.sort_unstable();
    assert_eq!(told, [("u-1", "completed"), ("u-2", "completed")], "the question was overtaken");
    let asked = proxy.call(&send("three")).await["result"].clone();
    proxy.call(&cancel_03(asked["id"].as_str().unwrap())).await;
    assert_eq!(told_states(&proxy).await.0, ["input-required", "canceled"]);
    proxy.call(&send("four")).await;
    assert_eq!(told_states(&proxy).await.0, ["failed"]);
}

#[tokio::test]
async fn an_answer_that_comes_to_nothing_leaves_the_question_told() {
    let agent = Agent::answering(|seen| match seen.sends {
        0 => json!({ "result": completed(seen, "Which city?") }),
        _ => json!({ "error": { "code": -32603, "message": "no" } }),
    });
    let proxy = relay(&agent);
    proxy.call(&with_config(send_03("weather", json!({ "contextId": "c" })), json!({ "url": HOOK }))).await;
    let answer = proxy.call(&send_03("Berlin", json!({ "contextId": "c", "taskId": "u-1" }))).await;
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(told_states(&proxy).await.0, ["input-required", "working", "input-required"]);
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "input-required");
}

#[tokio::test]
async fn a_full_outbox_takes_no_more() {
    let agent = Agent::saying(|_| "Fine.".to_owned());
    let store = memory();
    let says = AgentPushes::default();
    let relay = Arc::new(Relay::new(Webhooks::default(), 2, says, Arc::new(Notify::new())));
    relay.set_base(BASE);
    let layer = ConversationLayer::new(Policy::default(), Arc::clone(&store)).with_push(relay);
    let proxy = Proxy::around(&agent, layer, store);
    for _ in 0..4 {
        let answer = proxy.call(&with_config(send_03("go", json!({})), json!({ "url": HOOK }))).await;
        assert_eq!(state(&answer["result"]), "completed", "the turn does not suffer by it");
    }
    assert_eq!(proxy.store.outbox_len().await.unwrap(), 2);
}

#[tokio::test]
async fn an_authorisation_that_is_wanted_is_told_with_its_words() {
    let agent = Agent::answering(|seen| {
        json!({ "result": match seen.sends {
            0 => task_03("u-1", "auth-required", json!({ "status": { "state": "auth-required", "message": { "kind": "message",
                "messageId": "s", "role": "agent", "parts": [{ "kind": "text", "text": "Log in at https://login.example" }] } } })),
            _ => ended("u-1", "Here it is."),
        } })
    });
    let proxy = relay(&agent);
    proxy.call(&with_config(send_03("my mail", json!({ "contextId": "c" })), json!({ "url": HOOK }))).await;
    let (states, bodies) = told_states(&proxy).await;
    assert_eq!(states, ["auth-required"]);
    assert_eq!(bodies[0]["status"]["message"]["parts"][0]["text"], "Log in at https://login.example");
    proxy.send("done", json!({ "contextId": "c", "taskId": "u-1" })).await;
    assert_eq!(told_states(&proxy).await.0, ["working", "completed"]);
}
