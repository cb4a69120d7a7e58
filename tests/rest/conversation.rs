//! The main job over HTTP+JSON, and over both bindings in turns.

use a2a_multiturn::conversation::policy::Policy;
use http::Method;
use serde_json::json;

use super::agent::{Answer, BOTH, Client, Spelling, agent, stage};
use crate::support::{Agent, Proxy, TestClock, URI, completed, json_response, send_03};

#[tokio::test]
async fn a_question_is_asked_answered_and_remembered() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let asked = client.send("Which city do you mean?", json!({})).await;
        assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
        let question = &asked["status"]["message"];
        assert_eq!(question[spelling.parts()][0]["text"], "Which city do you mean?", "{asked}");
        assert_eq!((&question["role"], &question["taskId"]), (&json!("ROLE_AGENT"), &asked["id"]));
        assert!(question.get("kind").is_none() && asked["metadata"][URI]["expected_input"] == "free_text", "{asked}");
        let ids = json!({ "taskId": asked["id"], "contextId": asked["contextId"] });
        let answered = client.send("Paris.", ids).await;
        assert_eq!((&answered["id"], &answered["contextId"]), (&asked["id"], &asked["contextId"]));
        assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(answered["artifacts"][0]["artifactId"], "response~2");
        let history = answered["history"].as_array().unwrap();
        let said: Vec<_> =
            history.iter().map(|message| message[spelling.parts()][0]["text"].as_str().unwrap()).collect();
        assert_eq!(said, ["Which city do you mean?", "Which city do you mean?", "Paris."], "{answered}");
        let sent = agent.last();
        assert!(sent.message().get("taskId").is_none() && sent.text().contains("Which city"), "{}", sent.raw);
        assert!(
            sent.message()[spelling.parts()].is_array() && sent.entry()["history_turns"].is_array(),
            "{}",
            sent.raw
        );
        assert_eq!(sent.headers["a2a-multiturn-hop"], "1");
    }
}

#[tokio::test]
async fn the_first_message_goes_as_it_came() {
    let snake = r#"{ "request": {"message_id":"m-1", "role":"ROLE_USER","content":[{"text":"a"}]},"configuration":{"blocking":true,"x":1e3} }"#;
    let json = r#"{"configuration":{},"message":{"role":"ROLE_USER","parts":[{"text":"a"}],"messageId":"m-1"}}"#;
    for (spelling, body) in [(Spelling::V03, snake), (Spelling::V10, json)] {
        let (agent, client) = stage(spelling);
        let answer = client.call(Method::POST, "/message:send", body).await;
        assert_eq!(answer.status, if spelling == Spelling::V03 { 201 } else { 200 });
        // The answer got its ids, and is no longer what the agent's tag stands for.
        assert_eq!(answer.header("etag"), "");
        assert_eq!(agent.last().raw, body);
    }
}

#[tokio::test]
async fn protobuf_names_are_read_where_they_name_a_task() {
    let (agent, client) = stage(Spelling::V03);
    let asked = client.send("Which city do you mean?", json!({})).await;
    let body = json!({ "request": {
        "message_id": "m-2", "role": "ROLE_USER", "content": [{ "text": "Paris." }],
        "task_id": asked["id"], "context_id": asked["contextId"],
    } });
    let answered = client.post("/message:send", &body).await.json()["task"].clone();
    assert_eq!((&answered["id"], &answered["status"]["state"]), (&asked["id"], &json!("TASK_STATE_COMPLETED")));
    assert!(!agent.last().raw.contains("task_id") && !agent.last().raw.contains("taskId"), "{}", agent.last().raw);
    for twice in [
        json!({ "message": { "messageId": "m", "content": [], "task_id": "a", "taskId": "b" } }),
        json!({ "message": { "messageId": "m", "content": [] }, "request": { "messageId": "m", "content": [] } }),
        json!({ "message": { "messageId": "m", "content": [], "TaskId": "b" } }),
    ] {
        let before = agent.calls();
        assert_eq!(client.post("/message:send", &twice).await.status, 422, "{twice}");
        assert_eq!(agent.calls(), before, "{twice}");
    }
}

#[tokio::test]
async fn structured_data_is_one_thing_in_every_spelling() {
    let (agent, client) = stage(Spelling::V03);
    let mut message = client.spelling.message("a", json!({ "contextId": "c" }));
    message["message"]["content"] = json!([{ "text": "a" }, { "data": { "data": { "k": 1 } } }]);
    client.post("/message:send", &message).await;
    client.send("b", json!({ "contextId": "c" })).await;
    let shown = agent.last().text();
    assert!(shown.contains(r#""data":[{"data":{"k":1}}]"#), "{shown}");
}

/// An agent that serves both bindings on one store of tasks, as the SDKs do.
fn both_bindings() -> Agent {
    Agent::scripted(|seen| async move {
        if seen.line.1 != "/rpc" {
            let mut task = completed(&seen, seen.text().lines().last().unwrap_or_default());
            task["contextId"] = seen.message()["contextId"].clone();
            task["status"]["state"] = json!("TASK_STATE_COMPLETED");
            return Ok(json_response(&json!({ "task": task })));
        }
        let task = completed(&seen, seen.text().lines().last().unwrap_or_default());
        Ok(json_response(&json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": task })))
    })
}

#[tokio::test]
async fn a_conversation_goes_on_in_the_other_binding() {
    let agent = both_bindings();
    let proxy = Proxy::new(&agent);
    let client = Client::new(&proxy, Spelling::V10);
    let asked = client.send("Which city do you mean?", json!({ "contextId": "c" })).await;
    let ids = json!({ "taskId": asked["id"], "contextId": "c" });
    let rpc = send_03("Paris.", ids).to_string();
    let answer = Answer::of(proxy.response_to(Method::POST, "/rpc", rpc).await).await.json();
    assert_eq!((&answer["result"]["id"], &answer["result"]["status"]["state"]), (&asked["id"], &json!("completed")));
    assert_eq!(answer["result"]["artifacts"][0]["artifactId"], "response~2");
    assert!(agent.last().text().contains("Which city do you mean?"));
    let third = client.send("Thanks.", json!({ "contextId": "c" })).await;
    assert_eq!(third["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(agent.last().text().contains("Paris."), "{}", agent.last().raw);
    assert_eq!(agent.last().line.1, "/rest/message:send");
}

#[tokio::test]
async fn the_agent_is_asked_where_the_turn_went() {
    for spelling in BOTH {
        let agent = agent(spelling);
        let clock = TestClock::new();
        let proxy = Proxy::timed(&agent, Policy::default(), &clock);
        let client = Client::new(&proxy, spelling);
        let left = client.send("!working", json!({ "contextId": "c" })).await;
        assert_eq!(left["status"]["state"], "TASK_STATE_WORKING");
        clock.forward(2000);
        let rpc = send_03("Hello?", json!({ "contextId": "c" })).to_string();
        let refused = Answer::of(proxy.response_to(Method::POST, "/rpc", rpc).await).await.json();
        assert_eq!(refused["result"]["status"]["state"], "failed", "{refused}");
        let looks: Vec<_> = agent.seen().into_iter().filter(|seen| seen.line.0 == Method::GET).collect();
        assert_eq!(looks[0].line.1, format!("{}/tasks/u-1?historyLength=100", spelling.base()));
        let version = looks[0].headers.get("a2a-version").map(|value| value.to_str().unwrap());
        assert_eq!(version, (spelling == Spelling::V10).then_some("1.0"));
    }
}
