//! The smaller policies: which contextId goes up, which conversation a message means, what a bare message and a bare task become.

use a2a_multiturn::conversation::policy::{ContextId, ConversationKey, Inline};
use serde_json::{Value, json};

use super::support::*;

/// Answers every send with what `say` makes of it, as a bare message.
fn messages(say: fn(&Seen) -> &'static str) -> Agent {
    Agent::answering(move |seen| {
        let mut message = json!({ "kind": "message", "messageId": format!("r-{}", seen.before), "role": "agent",
            "parts": [{ "kind": "text", "text": say(seen) }] });
        if seen.json["method"] == "SendMessage" {
            message["role"] = json!("ROLE_AGENT");
            message["parts"] = json!([{ "text": say(seen) }]);
            message.as_object_mut().unwrap().remove("kind");
            return json!({ "result": { "message": message } });
        }
        json!({ "result": message })
    })
}

#[tokio::test]
async fn a_scoped_context_id_is_the_principals_own_stable_and_never_shown() {
    let agent = Agent::saying(|_| "Done.".into());
    let scoped = policy(|policy| policy.upstream.context_id = ContextId::Scoped);
    let proxy = Proxy::with(&agent, scoped);
    let up = |agent: &Agent| agent.last().message()["contextId"].as_str().map(str::to_owned);
    let mut ids = Vec::new();
    for (principal, route) in [("ada", "r"), ("ada", "r"), ("bob", "r"), ("ada", "s")] {
        let proxy = proxy.as_principal(principal).on_route(route);
        let task = proxy.send("hello", json!({ "contextId": "c" })).await;
        assert_eq!(task["contextId"], "c");
        ids.push(up(&agent).unwrap());
    }
    assert_eq!(ids[0], ids[1]);
    let different: std::collections::HashSet<_> = ids.iter().collect();
    assert!(different.len() == 3 && !ids.contains(&"c".to_owned()), "{ids:?}");
    // A client that names none is told one, and the agent the one that belongs to it, from the first message on.
    let first = proxy.send("hello", json!({})).await;
    let minted = up(&agent).unwrap();
    assert_ne!(first["contextId"], minted);
    let second = proxy.send("again", json!({ "contextId": first["contextId"] })).await;
    assert_eq!((up(&agent).unwrap(), &second["contextId"]), (minted, &first["contextId"]));
    assert!(agent.last().text().contains("hello"));
}

#[tokio::test]
async fn a_conversation_key_stands_for_a_context_id_that_clients_never_send() {
    for (key, headers) in [
        (ConversationKey::Principal, [None, None]),
        (ConversationKey::Header("x-session".parse().unwrap()), [Some("one"), Some("two")]),
    ] {
        let agent = Agent::saying(|seen| format!("reply {}", seen.sends));
        let by_principal = key == ConversationKey::Principal;
        let proxy = Proxy::with(&agent, policy(|policy| policy.conversation_key = Some(key)));
        let in_session = |proxy: &Proxy, name: Option<&str>| match name {
            Some(name) => proxy.with_header("x-session", name),
            None => proxy.clone(),
        };
        let ada = in_session(&proxy.as_principal("ada"), headers[0]);
        let first = ada.send("I am Ada", json!({})).await;
        let second = ada.send("who am I", json!({})).await;
        assert!(agent.last().text().contains("I am Ada"));
        assert_eq!(first["contextId"], second["contextId"]);
        assert!(!first["contextId"].as_str().unwrap().contains("one"));
        in_session(&proxy.as_principal("bob"), headers[0]).send("who am I", json!({})).await;
        assert!(!agent.last().text().contains("Ada"), "another principal's is another");
        in_session(&proxy.as_principal("ada"), headers[1]).send("who am I", json!({})).await;
        assert_eq!(agent.last().text().contains("Ada"), by_principal, "another header's value is another");
        // One that is named is the one that is meant, and without the header there is none to mean.
        let named = ada.send("who am I", json!({ "contextId": "c" })).await;
        assert_eq!((named["contextId"].as_str(), agent.last().text().contains("Ada")), (Some("c"), false));
        let without = proxy.as_principal("ada").send("who am I", json!({})).await;
        assert_eq!(without["contextId"] == first["contextId"], by_principal);
        // A repeat is never taken for one: the message named nothing.
        let calls = agent.calls();
        for _ in 0..2 {
            ada.send("again", json!({ "messageId": "same" })).await;
        }
        assert_eq!(agent.calls(), calls + 2);
    }
}

#[tokio::test]
async fn a_bare_message_that_asks_becomes_a_task_where_the_route_says_so() {
    for new in [false, true] {
        let agent = messages(|seen| if seen.sends == 0 { "Which one?" } else { "Done." });
        let proxy = Proxy::with(&agent, policy(|policy| policy.rewrite.wrap_message = true));
        let sending = |text, ids| if new { send_10(text, ids) } else { send_03(text, ids) };
        let noun = |answer: &Value| match new {
            true => answer["result"]["task"].clone(),
            false => answer["result"].clone(),
        };
        let answer = proxy.call(&sending("book", json!({ "contextId": "c" }))).await;
        let task = noun(&answer);
        let waits = if new { "TASK_STATE_INPUT_REQUIRED" } else { "input-required" };
        assert_eq!(state(&task), waits, "{answer}");
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which one?");
        assert_eq!((&told(&task)["resume_scope"], &task["contextId"]), (&json!("same_task"), &json!("c")));
        let id = task["id"].clone();
        // It is the same whoever asks, and the answer goes on with it.
        let again = proxy.call(&get_03(id.as_str().unwrap())).await;
        assert_eq!(again["result"]["id"], id, "{again}");
        let answered = noun(&proxy.call(&sending("the first", json!({ "taskId": id }))).await);
        assert_eq!(answered["id"], id, "{answered}");
        assert!(agent.last().message().get("taskId").is_none() && agent.last().text().contains("Which one?"));
        // What asks nothing stays a message.
        let plain = proxy.call(&sending("more", json!({ "contextId": "c" }))).await;
        let plain = if new { plain["result"]["message"].clone() } else { plain["result"].clone() };
        assert_eq!(plain["parts"][0]["text"], "Done.");
    }
}

#[tokio::test]
async fn a_streamed_message_that_asks_becomes_a_task_too() {
    let event = r#"data: {"jsonrpc":"2.0","id":1,"result":{"kind":"message","messageId":"r","role":"agent","parts":[{"kind":"text","text":"Which one?"}]}}"#;
    let agent = Agent::scripted(move |_| async move {
        let mut response = http::Response::new(body(format!("{event}\n\n")));
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        Ok(response)
    });
    let proxy = Proxy::with(&agent, policy(|policy| policy.rewrite.wrap_message = true));
    let mut request = send_03("book", json!({ "contextId": "c" }));
    request["method"] = json!("message/stream");
    let events = proxy.events(&request).await;
    assert_eq!((events.len(), state(&events[0]["result"])), (1, "input-required"), "{events:?}");
    let again = proxy.call(&get_03(events[0]["result"]["id"].as_str().unwrap())).await;
    assert_eq!(state(&again["result"]), "input-required");
}

#[tokio::test]
async fn a_completed_task_without_history_gets_one_where_the_route_says_so() {
    let agent = Agent::keeping(|seen| completed(seen, &format!("reply {}", seen.sends)));
    let proxy = Proxy::with(&agent, policy(|policy| policy.rewrite.history_for_completed = true));
    let task = proxy.send("hello", json!({})).await;
    let history = task["history"].as_array().unwrap_or_else(|| panic!("{task}"));
    let texts: Vec<_> = history.iter().map(|said| &said["parts"][0]["text"]).collect();
    assert_eq!((texts, history.len()), (vec![&json!("hello"), &json!("reply 0")], 2));
    for said in history {
        assert_eq!((&said["contextId"], &said["taskId"]), (&task["contextId"], &task["id"]));
        assert!(!said["messageId"].as_str().unwrap().is_empty());
    }
    let got = proxy.call(&get_03(task["id"].as_str().unwrap())).await["result"].clone();
    assert_eq!(got["history"], task["history"]);
    // As long as was asked for, and where there is none it is not made up.
    let mut short = send_03("more", json!({ "contextId": task["contextId"] }));
    short["params"]["configuration"] = json!({ "historyLength": 1 });
    let short = proxy.call(&short).await["result"].clone();
    assert_eq!(short["history"].as_array().unwrap().len(), 1);
    assert_eq!(short["history"][0]["contextId"], task["contextId"]);
    let plain = Proxy::new(&agent).send("hello", json!({})).await;
    assert!(plain.get("history").is_none());
}

#[tokio::test]
async fn a_client_may_take_the_inline_continuation_back_for_one_message() {
    let agent = Agent::saying(|_| "Which one?".into());
    let proxy = Proxy::with(&agent, policy(|policy| policy.rewrite.inline = Inline::Always));
    for (asked, filled) in [(json!({}), true), (json!({ "inline": false }), false), (json!({ "inline": true }), true)] {
        let task = proxy.send("book", json!({ "contextId": "c", "metadata": { URI: asked } })).await;
        assert_eq!((state(&task), task["status"].get("continuation").is_some()), ("input-required", filled), "{asked}");
    }
}

/// An agent that puts the metadata that it was given wherever metadata can stand.
fn copying(text: &'static str, streams: bool) -> Agent {
    Agent::scripted(move |seen| async move {
        let given = seen.message()["metadata"].clone();
        let mut task = completed(&seen, text);
        task["metadata"] = given.clone();
        task["artifacts"][0]["metadata"] = given.clone();
        let said = json!({ "kind": "message", "messageId": "s", "role": "agent", "metadata": given,
            "parts": [{ "kind": "text", "text": "on it" }] });
        task["history"] = json!([seen.message(), said]);
        task["status"]["message"] = said.clone();
        let id = &seen.json["id"];
        if !streams {
            return Ok(json_response(&json!({ "jsonrpc": "2.0", "id": id, "result": task })));
        }
        let (task_id, context) = (task["id"].clone(), task["contextId"].clone());
        let ids = |kind: &str, more: Value| {
            let mut update = json!({ "kind": kind, "taskId": task_id, "contextId": context, "metadata": given });
            update.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            update
        };
        let updates = [
            ids("status-update", json!({ "status": { "state": "working", "message": said }, "final": false })),
            ids("artifact-update", json!({ "artifact": task["artifacts"][0] })),
            ids("status-update", json!({ "status": { "state": "completed" }, "final": true })),
        ];
        let events =
            updates.map(|update| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "result": update })));
        let mut response = http::Response::new(body(events.concat()));
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        Ok(response)
    })
}

#[tokio::test]
async fn what_was_sent_up_under_the_uri_does_not_come_back_with_copied_metadata() {
    for text in ["Done.", "Which one?"] {
        for streams in [false, true] {
            let agent = copying(text, streams);
            let proxy = Proxy::new(&agent);
            let mut fence = String::new();
            for turn in 0..3 {
                let own = json!({ "contextId": "c", "metadata": { "mine": turn } });
                let mut request = send_03("hello", own);
                if streams {
                    request["method"] = json!("message/stream");
                }
                let shown = proxy.raw(request.to_string()).await;
                if turn > 0 {
                    agent.last().entry()["record"]["fence"].as_str().unwrap().clone_into(&mut fence);
                    assert!(!shown.contains(&fence) && !shown.contains("\"record\""), "{shown}");
                    assert!(shown.contains(&format!("\"mine\":{turn}")), "the rest of it stays: {shown}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_the_agent_itself_says_under_the_uri_stays() {
    let agent = Agent::answering(|seen| {
        let mut task = completed(seen, "Done.");
        task["metadata"] = json!({ URI: { "expected_input": "approval", "resume_scope": "same_task" } });
        json!({ "result": task })
    });
    let proxy = Proxy::new(&agent);
    for _ in 0..2 {
        let task = proxy.send("hello", json!({ "contextId": "c" })).await;
        assert_eq!(told(&task)["expected_input"], "approval");
    }
}
