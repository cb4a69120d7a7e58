//! `completed` becomes `input-required`, and what the client is then told.

use a2a_multiturn::conversation::policy::{Inline, QuestionText};
use a2a_multiturn::conversation::question::Level;
use serde_json::{Value, json};

use super::support::*;

fn asks(text: &str) -> Agent {
    let text = text.to_owned();
    Agent::saying(move |_| text.clone())
}

async fn ask(reply: &str) -> Value {
    Proxy::new(&asks(reply)).send("q", json!({ "contextId": "c" })).await
}

// heuristic, through the layer
#[tokio::test]
async fn questions_wait_and_statements_do_not() {
    for (reply, expected) in [
        ("Which city do you mean?", "input-required"),
        ("您想去哪个城市？", "input-required"),
        ("Passwords with `?` or / leak.", "completed"),
        ("The answer is 42.", "completed"),
        ("```\nwhat?\n```", "completed"),
        ("See https://x.test/?q=1", "completed"),
        ("", "completed"),
        ("Done. [INPUT_REQUIRED]", "input-required"),
        ("[INPUT_REQUIRED]", "input-required"),
        (r#"{"status":"input_required","question":"Which one?"}"#, "input-required"),
        (r#"{"status":"completed","message":"Which one?"}"#, "completed"),
    ] {
        assert_eq!(state(&ask(reply).await), expected, "{reply}");
    }
}

#[tokio::test]
async fn a_file_that_asks_is_a_file() {
    for (name, expected) in [("interview.md", "completed"), ("response", "input-required")] {
        let agent = Agent::answering(move |seen| {
            let mut task = completed(seen, "Which city do you mean?");
            task["artifacts"][0]["name"] = json!(name);
            json!({ "result": task })
        });
        let told = Proxy::new(&agent).send("q", json!({ "contextId": "c" })).await;
        assert_eq!(state(&told), expected, "{name}");
    }
}

#[tokio::test]
async fn no_other_state_is_ever_rewritten() {
    for told_state in ["failed", "canceled", "rejected", "auth-required", "input-required", "submitted", "working"] {
        let status = json!({ "state": told_state, "message": { "kind": "message", "messageId": "x", "role": "agent",
            "parts": [{ "kind": "text", "text": "Which one? [INPUT_REQUIRED]" }] } });
        let task = json!({ "kind": "task", "id": "u-1", "contextId": "c", "status": status,
            "artifacts": [artifact_03("response", "Which one?")] });
        let agent = {
            let task = task.clone();
            Agent::answering(move |_| json!({ "result": task }))
        };
        let answer = Proxy::new(&agent).send("q", json!({ "contextId": "c" })).await;
        assert_eq!(answer["status"]["state"], told_state);
        assert_eq!(answer["artifacts"], task["artifacts"]);
        assert!(told(&answer)["expected_input"].is_null(), "{answer}");
    }
}

#[tokio::test]
async fn a_rewritten_task_says_all_in_its_status_message() {
    let answer = ask("I found two.\n\nWhich one?").await;
    let message = &answer["status"]["message"];
    assert_eq!(message["role"], "agent");
    assert_eq!(message["parts"], json!([{ "kind": "text", "text": "I found two.\n\nWhich one?" }]));
    assert_eq!((&message["taskId"], &message["contextId"]), (&answer["id"], &answer["contextId"]));
    assert!(!message["messageId"].as_str().unwrap().is_empty());
    for place in [&answer["metadata"][URI], &message["metadata"][URI]] {
        assert_eq!(place["expected_input"], "free_text");
        assert_eq!(place["resume_scope"], "same_task");
        assert_eq!(place["history_policy"], "client_supplied");
        assert_eq!(place["reason"], "question");
        assert!(place["accepted_history_digest"].as_str().unwrap().starts_with("sha256:"));
        assert!(place["history_turns"].is_array());
    }
    assert!(answer["status"].get("continuation").is_none());
    assert_eq!(answer["artifacts"], json!([artifact_03("response", "I found two.\n\nWhich one?")]));
}

#[tokio::test]
async fn a_tail_is_the_asking_sentence() {
    let proxy =
        Proxy::with(&asks("I found two. Which one?"), policy(|policy| policy.rewrite.text = QuestionText::Tail));
    let answer = proxy.send("q", json!({ "contextId": "c" })).await;
    assert_eq!(answer["status"]["message"]["parts"], json!([{ "kind": "text", "text": "Which one?" }]));
}

#[tokio::test]
async fn a_marker_goes_from_every_copy_that_the_client_sees() {
    let agent = Agent::keeping(|seen| {
        let said = |id: &str| {
            json!({ "kind": "message", "messageId": id, "role": "agent",
            "parts": [{ "kind": "text", "text": "Which one? [INPUT_REQUIRED]" }] })
        };
        task_03(
            "u-1",
            "completed",
            json!({
                "status": { "state": "completed", "message": said("x") }, "history": [seen.message(), said("x")],
                "artifacts": [artifact_03("response", "Which one? [INPUT_REQUIRED]"), artifact_03("other", "more [INPUT_REQUIRED]")],
            }),
        )
    });
    let proxy = Proxy::new(&agent);
    let sent = proxy.send("q", json!({ "contextId": "c" })).await;
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    for task in [&sent, &got] {
        assert!(!task.to_string().contains("INPUT_REQUIRED"), "{task}");
        assert_eq!((state(task), &task["metadata"][URI]["reason"]), ("input-required", &json!("marker")));
    }
    proxy.send("a", json!({ "contextId": "c", "taskId": "u-1" })).await;
    assert!(!agent.last().raw.contains("INPUT_REQUIRED"));
}

#[tokio::test]
async fn at_level_off_nothing_is_recognised_and_nothing_removed() {
    let off = policy(|policy| policy.rewrite.question.level = Level::Off);
    let answer = Proxy::with(&asks("Which one? [INPUT_REQUIRED]"), off).send("q", json!({ "contextId": "c" })).await;
    assert_eq!(state(&answer), "completed");
    assert_eq!(answer["artifacts"][0]["parts"][0]["text"], "Which one? [INPUT_REQUIRED]");
    let explicit = || policy(|policy| policy.rewrite.question.level = Level::Explicit);
    let answer = Proxy::with(&asks("Which one?"), explicit()).send("q", json!({ "contextId": "c" })).await;
    assert_eq!(state(&answer), "completed");
    let answer = Proxy::with(&asks("So. [INPUT_REQUIRED]"), explicit()).send("q", json!({ "contextId": "c" })).await;
    assert_eq!(state(&answer), "input-required");
}

#[tokio::test]
async fn a_json_reply_that_asks_puts_its_question_into_the_status() {
    for (parts, said) in [
        (json!([{ "kind": "text", "text": r#"{"status":"input_required","question":"Which one?"}"# }]), "Which one?"),
        (
            json!([{ "kind": "data", "data": { "status": "input-required", "message": "Which one now" } }]),
            "Which one now",
        ),
    ] {
        let agent = {
            let parts = parts.clone();
            Agent::answering(move |_| {
                json!({ "result": task_03("u-1", "completed", json!({
            "artifacts": [{ "artifactId": "response", "parts": parts }] })) })
            })
        };
        let answer = Proxy::new(&agent).send("q", json!({ "contextId": "c" })).await;
        assert_eq!((state(&answer), told(&answer)["reason"].as_str()), ("input-required", Some("json_status")));
        assert_eq!(answer["status"]["message"]["parts"][0]["text"], said);
        assert_eq!(answer["artifacts"][0]["parts"], parts, "the artifact stays as it came");
    }
}

#[tokio::test]
async fn configured_metadata_decides_both_ways_wherever_the_agent_put_it() {
    let with = || policy(|policy| policy.rewrite.question.metadata = vec!["asks".into()]);
    for (text, asks, expected) in
        [("Done.", json!(true), "input-required"), ("Which one?", json!("completed"), "completed")]
    {
        let marked = json!({ "asks": asks });
        let mut artifact = artifact_03("response", text);
        let message = |metadata: &Value| {
            json!({ "kind": "message", "messageId": "x", "role": "agent", "metadata": metadata,
            "parts": [{ "kind": "text", "text": text }] })
        };
        artifact["metadata"] = marked.clone();
        for more in [
            json!({ "metadata": marked, "artifacts": [artifact_03("response", text)] }),
            json!({ "artifacts": [artifact] }),
            json!({ "status": { "state": "completed", "message": message(&marked) } }),
        ] {
            let task = task_03("u-1", "completed", more);
            let agent = {
                let task = task.clone();
                Agent::answering(move |_| json!({ "result": task }))
            };
            let answer = Proxy::with(&agent, with()).send("q", json!({ "contextId": "c" })).await;
            assert_eq!(state(&answer), expected, "{task}");
        }
        let agent = Agent::answering(move |_| {
            json!({ "result": { "kind": "message", "messageId": "x", "role": "agent",
            "contextId": "c", "metadata": { "asks": asks }, "parts": [{ "kind": "text", "text": text }] } })
        });
        let answer = Proxy::with(&agent, with()).send("q", json!({ "contextId": "c" })).await;
        assert_eq!(told(&answer)["expected_input"].is_string(), expected == "input-required", "{answer}");
    }
}

// ping-pong
#[tokio::test]
async fn after_so_many_questions_in_a_row_the_state_stays_completed() {
    let agent =
        Agent::saying(|seen| if seen.text().ends_with("stop") { "Fine.".into() } else { "Shall I go on?".into() });
    let proxy = Proxy::new(&agent).active();
    let mut states = Vec::new();
    let mut open = None;
    for _ in 0..50 {
        let mut ids = json!({ "contextId": "c" });
        if let Some(task) = open.take() {
            ids["taskId"] = task;
        }
        let answer = proxy.send("yes", ids).await;
        open = (state(&answer) == "input-required").then(|| answer["id"].clone());
        states.push((state(&answer).to_owned(), told(&answer)["reason"].as_str().unwrap().to_owned()));
    }
    assert!(states[..8].iter().all(|(state, _)| state == "input-required"), "{states:?}");
    assert!(states[8..].iter().all(|(state, reason)| state == "completed" && reason == "cap"), "{states:?}");
    proxy.send("stop", json!({ "contextId": "c" })).await;
    assert_eq!(
        state(&proxy.send("again", json!({ "contextId": "c" })).await),
        "input-required",
        "a statement ends the row"
    );
    assert_eq!(
        state(&proxy.send("yes", json!({ "contextId": "d" })).await),
        "input-required",
        "the row is the context's"
    );
}

#[tokio::test]
async fn the_continuation_stands_inline_where_the_message_or_the_route_asks_for_it() {
    let inline = json!({ "contextId": "c", "metadata": { URI: { "inline": true } } });
    let always = || policy(|policy| policy.rewrite.inline = Inline::Always);
    for (proxy, ids, expected) in [
        (Proxy::new(&asks("Which one?")), inline.clone(), true),
        (Proxy::new(&asks("Which one?")).active(), json!({ "contextId": "c" }), false),
        (Proxy::with(&asks("Which one?"), always()), json!({ "contextId": "c" }), true),
        (Proxy::with(&asks("Done."), always()), json!({ "contextId": "c" }), false),
        (Proxy::new(&asks("Done.")), inline, false),
    ] {
        let answer = proxy.send("q", ids).await;
        let continuation = answer["status"].get("continuation");
        assert_eq!(continuation.is_some(), expected, "{answer}");
        if let Some(continuation) = continuation {
            assert_eq!(continuation, told(&answer));
        }
    }
}

#[tokio::test]
async fn where_history_is_returned_the_question_is_last_in_it_under_the_same_message_id() {
    // As the JS SDK has it, the status message stands in the history as well; as the Python SDK has it, the user's alone.
    for doubled in [true, false] {
        for length in [None, Some(1), Some(0), Some(5)] {
            let agent = Agent::answering(move |seen| {
                let said = json!({ "kind": "message", "messageId": "x", "role": "agent",
                    "parts": [{ "kind": "text", "text": "Which one?" }] });
                let mut history =
                    if doubled { vec![seen.message().clone(), said.clone()] } else { vec![seen.message().clone()] };
                if length == Some(1) {
                    history.drain(..history.len() - 1);
                }
                json!({ "result": task_03("u-1", "completed", json!({
                    "history": history, "status": { "state": "completed", "message": said } })) })
            });
            let mut request = send_03("q", json!({ "contextId": "c", "messageId": "m" }));
            if let Some(length) = length {
                request["params"]["configuration"] = json!({ "historyLength": length });
            }
            let answer = Proxy::new(&agent).call(&request).await["result"].clone();
            let ids: Vec<_> =
                answer["history"].as_array().unwrap().iter().map(|m| m["messageId"].as_str().unwrap()).collect();
            match length {
                Some(1) => assert_eq!(ids, ["x"], "{answer}"),
                // None is asked for; what the agent returns nevertheless is not added to.
                Some(0) => {}
                _ => assert_eq!(ids, ["m", "x"], "{answer}"),
            }
            assert_eq!(answer["status"]["message"]["messageId"], "x");
            assert_eq!(state(&answer), "input-required");
            if length != Some(0) {
                let last = answer["history"].as_array().unwrap().last().unwrap();
                assert_eq!(last, &answer["status"]["message"], "the same message");
            }
        }
    }
}

#[tokio::test]
async fn a_bare_message_that_asks_says_so_in_its_own_metadata() {
    let agent = Agent::answering(|_| {
        json!({ "result": { "kind": "message", "messageId": "x", "role": "agent",
        "parts": [{ "kind": "text", "text": "Which one?" }] } })
    });
    let answer = Proxy::new(&agent).send("q", json!({})).await;
    assert_eq!(answer["kind"], "message");
    assert!(answer.get("status").is_none() && answer.get("taskId").is_none());
    assert!(!answer["contextId"].as_str().unwrap().is_empty());
    assert_eq!(told(&answer)["resume_scope"], "new_task_in_context");
    assert_eq!(told(&answer)["expected_input"], "free_text");
}

#[tokio::test]
async fn what_is_waited_for_is_told() {
    for (reply, expected) in [
        ("Shall I delete the file? Please confirm (yes/no).", "approval"),
        ("Please enter your password.", "credential"),
        ("Which city?", "free_text"),
    ] {
        assert_eq!(told(&ask(reply).await)["expected_input"], expected, "{reply}");
    }
}

#[tokio::test]
async fn the_answer_to_a_request_for_a_credential_is_forwarded_and_kept_as_a_receipt() {
    let agent =
        Agent::saying(|seen| if seen.before == 0 { "Please enter your password.".into() } else { "Thanks.".into() });
    let proxy = Proxy::new(&agent);
    let asked = proxy.send("log in", json!({ "contextId": "c" })).await;
    assert_eq!(told(&asked)["expected_input"], "credential");
    let answer = proxy.send("hunter2-secret", json!({ "contextId": "c", "taskId": asked["id"] })).await;
    assert!(agent.last().text().ends_with("hunter2-secret"));
    assert_eq!(state(&answer), "completed");
    proxy.send("and now", json!({ "contextId": "c" })).await;
    let given = agent.last();
    assert!(!given.raw.contains("hunter2-secret"), "{}", given.raw);
    assert!(given.raw.contains("hmac"), "{}", given.raw);
    let keep = policy(|policy| policy.history.credentials = a2a_multiturn::conversation::policy::Credentials::Keep);
    let agent =
        Agent::saying(|seen| if seen.before == 0 { "Please enter your password.".into() } else { "Thanks.".into() });
    let proxy = Proxy::with(&agent, keep);
    proxy.send("log in", json!({ "contextId": "c" })).await;
    proxy.send("hunter2-secret", json!({ "contextId": "c" })).await;
    proxy.send("and now", json!({ "contextId": "c" })).await;
    assert!(agent.last().raw.contains("hunter2-secret"));
}
