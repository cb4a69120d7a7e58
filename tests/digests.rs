//! The history digest, recomputed by a second implementation that knows its documented preimage alone.

use a2a_multiturn::conversation::policy::Placement;
use serde_json::{Value, json};

use super::record::{no_numbers, sha256};
use super::support::*;

/// RFC 8785 for the values that these tests use: strings, whole numbers, booleans, arrays, objects with ASCII names.
fn canonical(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let mut names: Vec<_> = members.keys().collect();
            names.sort();
            let members = names.into_iter().map(|name| format!("{}:{}", json!(name), canonical(&members[name])));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn hash(value: &Value) -> String {
    format!("sha256:{}", sha256(canonical(value).as_bytes()))
}

fn message(role: &str, parts: Value) -> String {
    hash(&json!({ "parts": parts, "role": role }))
}

/// What a client can keep of a turn: its message's parts, the agent's side, and the artifacts' ids.
fn turn(user: Value, agent: Value, artifacts: &[(&str, &str)]) -> String {
    let artifacts: Vec<_> =
        artifacts.iter().map(|(task, artifact)| json!({ "taskId": task, "artifactId": artifact })).collect();
    hash(&json!({ "user": message("user", user), "agent": message("agent", agent), "artifacts": artifacts }))
}

fn accepted(history: &[String], new: Value) -> String {
    hash(&json!({ "history": history, "message": message("user", new) }))
}

fn text(text: &str) -> Value {
    json!([{ "text": text }])
}

#[tokio::test]
async fn a_client_that_keeps_its_own_record_can_recompute_what_goes_up_and_comes_back() {
    let replies = ["Noted.", "Which city do you mean?", "In Oslo: \"Grand\"\n[INPUT_REQUIRED]", "Booked. é"];
    for placement in [Placement::Inline, Placement::Part, Placement::Data] {
        let agent = Agent::saying(move |seen| replies[seen.before % 4].to_owned());
        let proxy = Proxy::with(&agent, policy(|policy| policy.history.placement = placement)).active();
        let first = proxy.send("My name is Ada", json!({ "contextId": "c" })).await;
        assert_eq!(told(&first)["accepted_history_digest"], accepted(&[], text("My name is Ada")));
        assert_eq!(told(&first)["history_turns"], json!([]));
        let mut history = vec![turn(text("My name is Ada"), text("Noted."), &[("u-1", "response")])];
        // The answers stay on one task; their artifacts' ids are as the client saw them, the marker gone.
        let said = [
            ("book a room", None, "Which city do you mean?", "response"),
            ("Oslo", Some("u-2"), "In Oslo: \"Grand\"\n", "response~2"),
            ("yes", Some("u-2"), "Booked. é", "response~3"),
        ];
        for (user, task, reply, artifact) in said {
            let mut ids = json!({ "contextId": "c" });
            if let Some(task) = task {
                ids["taskId"] = task.into();
            }
            let answer = proxy.send(user, ids).await;
            let expected = accepted(&history, text(user));
            let given = agent.last();
            assert_eq!(given.entry()["accepted_history_digest"], expected, "up, {user}");
            assert_eq!(given.entry()["history_turns"], json!(history), "up, {user}");
            assert_eq!(told(&answer)["accepted_history_digest"], expected, "back, {user}");
            assert_eq!(told(&answer)["history_turns"], json!(history), "back, {user}");
            assert!(no_numbers(told(&answer)) && no_numbers(given.entry()));
            let mut shown = answer["artifacts"].as_array().unwrap().clone();
            assert_eq!(
                shown.pop().unwrap(),
                json!({ "artifactId": artifact, "parts": [{ "kind": "text", "text": reply }] })
            );
            history.push(turn(text(user), text(reply), &[("u-2", artifact)]));
        }
    }
}

// digest: reordered keys, escapes, the other dialect
#[tokio::test]
async fn the_digest_does_not_depend_on_spelling() {
    let agent = Agent::saying(|_| "Which one?".into());
    let proxy = Proxy::new(&agent).active();
    let mut digests = Vec::new();
    for raw in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"message/send\",\"params\":{\"message\":{\"kind\":\"message\",\"messageId\":\"m\",\"role\":\"user\",\"contextId\":\"d1\",\"parts\":[{\"kind\":\"text\",\"text\":\"\u{e9}\"},{\"kind\":\"data\",\"data\":{\"a\":1,\"b\":[1e3]}}]}}}",
        "{\"params\":{\"message\":{\"parts\":[{\"text\":\"\\u00e9\",\"kind\":\"text\"},{\"data\":{ \"b\":[1000.0],\"a\":1.0 }}],\"contextId\":\"d2\",\"role\":\"user\",\"messageId\":\"n\",\"kind\":\"message\"}},\"method\":\"message/send\",\"id\":1,\"jsonrpc\":\"2.0\"}",
        "{\"params\":{\"message\":{\"parts\":[{\"text\":\"\\u00E9\"},{\"data\":{\"b\":[1000],\"a\":1}}],\"contextId\":\"d3\",\"role\":\"ROLE_USER\",\"messageId\":\"n\"}},\"method\":\"SendMessage\",\"id\":1,\"jsonrpc\":\"2.0\"}",
    ] {
        let answer: Value = serde_json::from_str(&proxy.raw(raw).await).unwrap();
        let task = answer["result"].get("task").unwrap_or(&answer["result"]);
        digests.push(told(task)["accepted_history_digest"].as_str().unwrap().to_owned());
    }
    let parts = json!([{ "text": "é" }, { "data": { "a": 1, "b": [1000] } }]);
    assert_eq!(digests, vec![accepted(&[], parts); 3]);
}

#[tokio::test]
async fn files_count_by_their_bytes_and_messages_by_their_parts() {
    let agent = Agent::answering(|seen| {
        let parts = json!([{ "kind": "text", "text": "got it" }, { "kind": "data", "data": { "ok": true } }]);
        let message = json!({ "kind": "message", "messageId": "x", "role": "agent", "contextId": "c", "parts": parts });
        if seen.before == 0 { json!({ "result": message }) } else { json!({ "result": completed(seen, "ok") }) }
    });
    let proxy = Proxy::new(&agent).active();
    let mut request = send_03("", json!({ "contextId": "c" }));
    request["params"]["message"]["parts"] =
        json!([{ "kind": "file", "file": { "name": "a", "mimeType": "text/plain", "bytes": "aGVsbG8=" } }]);
    let answer = proxy.call(&request).await["result"].clone();
    let file = json!([{ "file": { "name": "a", "mediaType": "text/plain", "size": "5", "sha256": sha256(b"hello") } }]);
    assert_eq!(told(&answer)["accepted_history_digest"], accepted(&[], file.clone()));
    let answer = proxy.send("q2", json!({ "contextId": "c" })).await;
    let first = turn(file, json!([{ "text": "got it" }, { "data": { "ok": true } }]), &[]);
    assert_eq!(told(&answer)["history_turns"], json!([first]));
    assert_eq!(told(&answer)["accepted_history_digest"], accepted(&[first], text("q2")));
}

#[tokio::test]
async fn the_digest_comes_back_on_every_reply_when_active_and_only_on_questions_else() {
    for (header, active) in [("a2a-extensions", true), ("x-a2a-extensions", true), ("x-other", false)] {
        let agent = Agent::saying(|seen| if seen.before == 0 { "Which one?".into() } else { "Done.".into() });
        let proxy = Proxy::new(&agent).with_header(header, &format!("https://ex.test/e, {URI}"));
        let question = proxy.send("q1", json!({ "contextId": "c" })).await;
        assert_eq!(state(&question), "input-required");
        assert!(told(&question)["accepted_history_digest"].is_string());
        let answer = proxy.send("q2", json!({ "contextId": "c" })).await;
        assert_eq!(told(&answer)["accepted_history_digest"].is_string(), active, "{header}");
        assert!(told(&answer)["expected_input"].is_null());
        assert!(!answer.to_string().contains("\"continuation\""), "metadata alone, never the member");
    }
}
