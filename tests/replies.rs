//! What counts as the agent's reply, by what it is told of it with the next message.

use serde_json::{Value, json};

use super::record::turns;
use super::support::*;

fn said(id: &str, text: &str) -> Value {
    json!({ "kind": "message", "messageId": id, "role": "agent", "parts": [{ "kind": "text", "text": text }] })
}

/// The agent's side of the first turn, as it is shown with the second message; the first answer is the task with these members.
async fn kept(more: impl Fn(&Seen) -> Value + Send + Sync + 'static) -> String {
    let agent = Agent::answering(move |seen| json!({ "result": task_03("u-1", "completed", more(seen)) }));
    let proxy = Proxy::new(&agent);
    proxy.send("q1", json!({ "contextId": "c" })).await;
    proxy.send("q2", json!({ "contextId": "c" })).await;
    turns(&agent.last())[1]["text"].as_str().unwrap().to_owned()
}

// artifact-reply, working-text
#[tokio::test]
async fn it_is_taken_from_one_source_the_first_that_has_text() {
    let status = |text: &str| json!({ "state": "completed", "message": said("s", text) });
    let artifacts = json!([artifact_03("a1", "from artifacts")]);
    for (more, expected) in [
        (
            json!({ "artifacts": artifacts, "status": status("from status"), "history": [said("h", "from history")] }),
            "from artifacts",
        ),
        (
            json!({ "artifacts": [], "status": status("from status"), "history": [said("h", "from history")] }),
            "from status",
        ),
        (json!({ "history": [said("h", "from history")] }), "from history"),
        (json!({ "artifacts": [artifact_03("final", "F"), artifact_03("response", "R"), artifact_03("a", "A")] }), "R"),
        (json!({ "artifacts": [artifact_03("a", "A"), artifact_03("final", "F")] }), "F"),
        (json!({ "artifacts": [artifact_03("a", "A"), artifact_03("b", "B")] }), "A\n\nB"),
        (
            json!({ "artifacts": [artifact_03("tool", "calling"), artifact_03("my-reasoning", "hm"), artifact_03("a", "A")] }),
            "A",
        ),
        (
            json!({ "artifacts": [{ "artifactId": "a", "parts": [
            { "kind": "text", "text": "Hel" }, { "kind": "text", "text": "hm", "metadata": { "thought": true } }, { "kind": "text", "text": "lo" },
        ] }] }),
            "Hello",
        ),
        (json!({ "artifacts": null, "history": null, "status": status("only in status") }), "only in status"),
        (json!({}), ""),
    ] {
        assert_eq!(
            kept({
                let more = more.clone();
                move |_| more.clone()
            })
            .await,
            expected,
            "{more}"
        );
    }
}

#[tokio::test]
async fn of_the_history_what_stands_behind_this_turns_message_counts() {
    let old =
        |seen: &Seen| json!({ "history": [said("o", "an older answer"), seen.message(), said("n", "the answer")] });
    assert_eq!(kept(old).await, "the answer");
    let none = |seen: &Seen| json!({ "history": [said("o", "an older answer"), seen.message()] });
    assert_eq!(kept(none).await, "");
}

// message-result
#[tokio::test]
async fn a_bare_message_is_a_reply_and_keeps_its_form_in_both_dialects() {
    let agent = Agent::answering(|seen| match seen.method() {
        "SendMessage" => {
            json!({ "result": { "message": { "messageId": "x2", "role": "ROLE_AGENT", "parts": [{ "text": "hello again" }], "future": 1 } } })
        }
        _ => json!({ "result": said("x1", "hello there") }),
    });
    let proxy = Proxy::new(&agent);
    let first = proxy.send("q1", json!({})).await;
    let context = first["contextId"].as_str().unwrap().to_owned();
    assert_eq!((&first["kind"], &first["messageId"]), (&json!("message"), &json!("x1")));
    let second = proxy.call(&send_10("q2", json!({ "contextId": context }))).await["result"].clone();
    assert_eq!(second["message"]["messageId"], "x2");
    assert_eq!((&second["message"]["contextId"], &second["message"]["future"]), (&json!(context), &json!(1)));
    assert!(second["message"].get("kind").is_none());
    assert_eq!(turns(&agent.last())[1]["text"], "hello there");
}

// append-semantics has its blocking side too: the same list of artifacts seen twice is one list.
#[tokio::test]
async fn on_a_continued_task_only_what_is_new_is_the_reply() {
    let agent = Agent::answering(|seen| {
        let first = artifact_03("a1", "first part");
        json!({ "result": match seen.before {
            0 => task_03("u-1", "input-required", json!({ "artifacts": [first], "status": { "state": "input-required", "message": said("s1", "more?") } })),
            1 => task_03("u-1", "completed", json!({ "artifacts": [first, artifact_03("a2", "second part")],
                "history": [said("s1", "more?"), seen.message()] })),
            _ => completed(seen, "ok"),
        } })
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q1", json!({ "contextId": "c" })).await;
    let second = proxy.send("q2", json!({ "contextId": "c", "taskId": "u-1" })).await;
    assert_eq!(second["artifacts"].as_array().unwrap().len(), 2);
    assert_eq!(second["artifacts"][1]["artifactId"], "a2", "the same task at the agent: nothing is renamed");
    proxy.send("q3", json!({ "contextId": "c" })).await;
    let shown = turns(&agent.last());
    assert_eq!((&shown[1]["text"], &shown[3]["text"]), (&json!("first part"), &json!("second part")));
}

#[tokio::test]
async fn a_reply_that_the_client_did_not_ask_for_is_looked_up_before_the_settle() {
    let agent = Agent::answering(|seen| match seen.method() {
        "tasks/get" => {
            json!({ "result": task_03("u-1", "completed", json!({ "history": [said("h", "Which one?")] })) })
        }
        _ if seen.before == 0 => json!({ "result": task_03("u-1", "completed", json!({})) }),
        _ => json!({ "result": completed(seen, "ok") }),
    });
    let proxy = Proxy::new(&agent);
    let mut request = send_03("q1", json!({ "contextId": "c" }));
    request["params"]["configuration"] = json!({ "historyLength": 0 });
    let answer = proxy.call(&request).await["result"].clone();
    assert_eq!(agent.seen()[0].json["params"]["configuration"]["historyLength"], 0, "it goes up as sent");
    assert_eq!((agent.calls(), agent.last().method()), (2, "tasks/get"));
    assert_eq!((state(&answer), answer.get("history")), ("input-required", None));
    assert_eq!(answer["status"]["message"]["parts"][0]["text"], "Which one?");
}

// unknown-fields
#[tokio::test]
async fn what_is_not_ours_in_an_answer_keeps_its_bytes() {
    let plain = r#"{"jsonrpc":"2.0","id":ID,"result":{"zNew":{"n":12345678901234567890123,"f":1.0,"e":1e3},"kind":"task","id":"u-1","contextId":"c","status":{"state":"completed","timestamp":"2026-01-01T00:00:00.000000001Z"}, "metadata":{"https://ex.test/e":[null,{}]},"artifacts":[{"artifactId":"a","extensions":["x"],"parts":[{"kind":"text","text":"\u00e9 done","y":1.50}]}]},"new":0.10}"#;
    let agent = Agent::raw(&[plain]);
    let proxy = Proxy::new(&agent);
    let raw = proxy.raw(send_03("q", json!({ "contextId": "c" })).to_string()).await;
    assert_eq!(raw, plain.replace("ID", "1"), "nothing to change, nothing changed");
    let asking = plain.replace("\\u00e9 done", "\\u00e9 which one?");
    let agent = Agent::raw(&[&asking]);
    let raw = Proxy::new(&agent).raw(send_03("q", json!({ "contextId": "c" })).to_string()).await;
    for kept in [
        r#""zNew":{"n":12345678901234567890123,"f":1.0,"e":1e3}"#,
        r#""timestamp":"2026-01-01T00:00:00.000000001Z""#,
        r#""https://ex.test/e":[null,{}]"#,
        r#""artifacts":[{"artifactId":"a","extensions":["x"],"parts":[{"kind":"text","text":"\u00e9 which one?","y":1.50}]}]"#,
        r#","new":0.10}"#,
        r#""state":"input-required""#,
    ] {
        assert!(raw.contains(kept), "{kept} in {raw}");
    }
}
