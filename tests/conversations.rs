//! A stateless agent holds a conversation.

use serde_json::json;

use crate::support::{Agent, Proxy, get_03, send_03};

/// Knows what it is given, and nothing else.
fn forgetful() -> Agent {
    Agent::saying(|seen| {
        let text = seen.text();
        let last = text.lines().last().unwrap_or_default();
        match last {
            "What is my name?" if text.contains("My name is Ada") => "Your name is Ada.".into(),
            "What is my name?" => "I don't know.".into(),
            "book a room" => "Which city do you mean?".into(),
            _ => "Noted.".into(),
        }
    })
}

#[tokio::test]
async fn the_agent_is_given_what_was_said() {
    let agent = forgetful();
    let proxy = Proxy::new(&agent);
    let first = proxy.send("My name is Ada", json!({})).await;
    assert_eq!(first["contextId"], "agent-context");
    let ids = json!({ "contextId": "agent-context" });
    let second = proxy.send("What is my name?", ids.clone()).await;
    assert_eq!(second["artifacts"][0]["parts"][0]["text"], "Your name is Ada.");
    proxy.send("And now?", ids).await;
    let given = agent.last().text();
    for (text, count) in
        [("My name is Ada", 1), ("Noted.", 1), ("What is my name?", 1), ("Your name is Ada.", 1), ("And now?", 1)]
    {
        assert_eq!(given.matches(text).count(), count, "{text} in {given}");
    }
    assert!(given.ends_with("\nAnd now?"));
}

#[tokio::test]
async fn a_question_is_answered_on_the_same_task() {
    let agent = forgetful();
    let proxy = Proxy::new(&agent);
    let asked = proxy.send("book a room", json!({ "contextId": "c" })).await;
    assert_eq!(asked["status"]["state"], "input-required");
    assert_eq!(asked["status"]["message"]["parts"][0]["text"], "Which city do you mean?");
    assert_eq!(asked["id"], "u-1");
    let answered = proxy.send("Oslo", json!({ "contextId": "c", "taskId": "u-1" })).await;
    assert_eq!((answered["id"].as_str(), answered["status"]["state"].as_str()), (Some("u-1"), Some("completed")));
    assert!(agent.last().json["params"]["message"].get("taskId").is_none());
    assert_eq!(answered["artifacts"][0]["artifactId"], "response~2");
    let got = proxy.call(&get_03("u-1")).await;
    assert_eq!(got["result"]["id"], "u-1");
    let refused = proxy.call(&send_03("more", json!({ "taskId": "u-1" }))).await;
    assert_eq!(refused["error"]["code"], -32004);
}
