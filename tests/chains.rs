//! Client tasks: one id over a question and its answers, whatever the agent calls its own.

use a2a_multiturn::conversation::policy::TerminalFollowup;
use serde_json::{Value, json};

use super::record::turns;
use super::support::*;

fn said(id: &str, text: &str) -> Value {
    json!({ "kind": "message", "messageId": id, "role": "agent", "parts": [{ "kind": "text", "text": text }] })
}

/// Answers one after the other, with one artifact each, and the history that SDK servers keep: the user's message.
fn agent(replies: &'static [&'static str]) -> Agent {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Agent::keeping(move |seen| {
        let at = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let mut user = seen.message().clone();
        user["taskId"] = format!("u-{}", at + 1).into();
        let artifacts = json!([
            artifact_03("response", replies[at.min(replies.len() - 1)]),
            artifact_03("log", &format!("log {at}"))
        ]);
        task_03(&format!("u-{}", at + 1), "completed", json!({ "artifacts": artifacts, "history": [user] }))
    })
}

fn artifact_ids(task: &Value) -> Vec<&str> {
    task["artifacts"].as_array().unwrap().iter().map(|artifact| artifact["artifactId"].as_str().unwrap()).collect()
}

fn texts(task: &Value) -> Vec<&str> {
    task["history"].as_array().unwrap().iter().map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}

/// What must hold of every answer about a task: one id everywhere, one contextId.
fn holds_together(task: &Value, id: &str, context: &str) {
    assert_eq!((task["id"].as_str(), task["contextId"].as_str()), (Some(id), Some(context)), "{task}");
    let messages = task["history"].as_array().into_iter().flatten().chain(task["status"].get("message"));
    for message in messages {
        assert!(message["taskId"].as_str().is_none_or(|task| task == id), "{message}");
        assert!(message["contextId"].as_str().is_none_or(|of| of == context), "{message}");
    }
}

// taskid-after-rewrite
#[tokio::test]
async fn three_rounds_on_one_task() {
    let agent = agent(&["Which city?", "Which hotel?", "Which room?", "Booked."]);
    let proxy = Proxy::new(&agent);
    let mut ids = json!({ "contextId": "c" });
    for (round, text) in ["book", "Oslo", "Grand", "a big one"].into_iter().enumerate() {
        let sent = proxy.send(text, ids.clone()).await;
        ids = json!({ "contextId": "c", "taskId": "u-1" });
        let got = proxy.call(&get_03("u-1")).await["result"].clone();
        for task in [&sent, &got] {
            holds_together(task, "u-1", "c");
            let mut expected =
                vec![format!("log{}", if round == 0 { String::new() } else { format!("~{}", round + 1) })];
            let newest = if round == 0 { "response".to_owned() } else { format!("response~{}", round + 1) };
            expected.insert(0, newest);
            let earlier = (0..round).map(|at| if at == 0 { "log".to_owned() } else { format!("log~{}", at + 1) });
            let expected: Vec<_> = earlier.chain(expected).collect();
            assert_eq!(artifact_ids(task), expected, "the answered questions' artifacts have left, the others stand");
            let mut history = vec!["book"];
            for (question, answer) in [("Which city?", "Oslo"), ("Which hotel?", "Grand"), ("Which room?", "a big one")]
                .into_iter()
                .take(round)
            {
                history.extend([question, answer]);
            }
            if round < 3 {
                history.push(["Which city?", "Which hotel?", "Which room?"][round]);
                assert_eq!(
                    task["history"].as_array().unwrap().last().unwrap()["messageId"],
                    task["status"]["message"]["messageId"]
                );
            }
            assert_eq!(texts(task), history, "round {round}");
            assert_eq!(state(task), if round < 3 { "input-required" } else { "completed" });
        }
        assert!(agent.sends()[round].message().get("taskId").is_none());
    }
    assert_eq!(agent.last().json["params"]["id"], "u-4", "the newest task at the agent is asked");
    let given = agent.sends()[3].clone();
    assert_eq!(turns(&given).len(), 6);
    assert_eq!(turns(&given)[3]["artifacts"][0]["artifact"], "response~2", "ids as the client saw them");
}

#[tokio::test]
async fn history_length_shapes_what_comes_back_after_joining() {
    for length in 0..8 {
        let agent = agent(&["Which city?", "Which hotel?", "Booked."]);
        let proxy = Proxy::new(&agent);
        proxy.send("book", json!({ "contextId": "c" })).await;
        proxy.send("Oslo", json!({ "taskId": "u-1" })).await;
        let mut request = send_03("Grand", json!({ "taskId": "u-1" }));
        request["params"]["configuration"] = json!({ "historyLength": length });
        let answer = proxy.call(&request).await["result"].clone();
        let all = ["book", "Which city?", "Oslo", "Which hotel?", "Grand"];
        let mut get = get_03("u-1");
        get["params"]["historyLength"] = json!(length);
        let got = proxy.call(&get).await["result"].clone();
        for task in [answer, got] {
            if length == 0 {
                assert!(task["history"].as_array().is_none_or(|list| list.len() <= 1));
            } else {
                assert_eq!(texts(&task), all[all.len().saturating_sub(length)..], "{length}");
            }
        }
    }
}

#[tokio::test]
async fn the_task_alone_names_its_context_and_another_context_is_refused() {
    let agent = agent(&["Which city?", "Booked.", "Fine."]);
    let proxy = Proxy::new(&agent);
    proxy.send("book", json!({ "contextId": "c" })).await;
    let calls = agent.calls();
    let refused = proxy.call(&send_03("Oslo", json!({ "taskId": "u-1", "contextId": "other" }))).await;
    assert_eq!((&refused["error"]["code"], agent.calls()), (&json!(-32602), calls), "{refused}");
    let answer = proxy.send("Oslo", json!({ "taskId": "u-1" })).await;
    holds_together(&answer, "u-1", "c");
    assert_eq!(agent.last().message()["contextId"], "c");
    assert!(agent.last().text().contains("book"));
    assert!(proxy.store.context(&key("c")).await.unwrap().unwrap().in_flight.is_none());
}

pub fn key(context: &str) -> a2a_multiturn::conversation::principal::ContextKey {
    a2a_multiturn::conversation::principal::ContextKey {
        route: Default::default(),
        principal: Default::default(),
        context_id: context.into(),
    }
}

#[tokio::test]
async fn going_on_in_the_context_alone_closes_the_open_question_when_it_settles() {
    let agent = agent(&["Which city?", "Sunny.", "ok"]);
    let proxy = Proxy::new(&agent).active();
    proxy.send("book", json!({ "contextId": "c" })).await;
    let other = proxy.send("How is the weather?", json!({ "contextId": "c" })).await;
    assert_eq!((other["id"].as_str(), state(&other)), (Some("u-2"), "completed"));
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(state(&got), "completed", "as its agent said");
    assert!(told(&got)["expected_input"].is_null(), "{got}");
    assert_eq!(artifact_ids(&got), ["response", "log"]);
    let refused = proxy.call(&send_03("Oslo", json!({ "taskId": "u-1" }))).await;
    assert_eq!(refused["error"]["code"], -32004);
}

#[tokio::test]
async fn an_open_question_stays_open_while_a_new_task_fails() {
    let agent = Agent::scripted(|seen| async move {
        match seen.before {
            0 => Ok(json_response(&json!({ "id": 1, "result": completed(&seen, "Which city?") }))),
            1 => Err("gone".into()),
            _ => Ok(json_response(&json!({ "id": 1, "result": completed(&seen, "Booked.") }))),
        }
    });
    let proxy = Proxy::new(&agent);
    proxy.send("book", json!({ "contextId": "c" })).await;
    proxy.call(&send_03("weather?", json!({ "contextId": "c" }))).await;
    assert_eq!(state(&proxy.send("Oslo", json!({ "taskId": "u-1" })).await), "completed");
}

#[tokio::test]
async fn an_answer_that_came_to_no_task_leaves_the_old_question() {
    let agent = Agent::scripted(|seen| async move {
        match (seen.method(), seen.sends) {
            ("message/send", 1) => Err("gone".into()),
            ("message/send", 2) => {
                Ok(json_response(&json!({ "id": seen.json["id"], "error": { "code": -32603, "message": "no" } })))
            }
            ("message/send", n) => {
                Ok(json_response(&json!({ "id": 1, "result": task_03(&format!("u-{n}"), "completed", json!({
                "artifacts": [artifact_03("response", if n == 0 { "Which city?" } else { "Booked." })] })) })))
            }
            _ => Ok(json_response(&json!({ "id": seen.json["id"], "error": { "code": -32001, "message": "nf" } }))),
        }
    });
    let proxy = Proxy::new(&agent);
    proxy.send("book", json!({ "contextId": "c" })).await;
    for _ in 0..2 {
        let failed = proxy.call(&send_03("Oslo", json!({ "taskId": "u-0" }))).await;
        assert!(failed["error"].is_object());
        let got = proxy.call(&get_03("u-0")).await["result"].clone();
        assert_eq!(
            (state(&got), &got["status"]["message"]["parts"][0]["text"]),
            ("input-required", &json!("Which city?"))
        );
    }
    let answer = proxy.send("Oslo", json!({ "taskId": "u-0" })).await;
    assert_eq!(state(&answer), "completed");
    assert_eq!(artifact_ids(&answer), ["response~2"], "attempts that left no trace do not count");
}

#[tokio::test]
async fn an_ended_task_refuses_or_is_followed_by_a_new_one() {
    for ended in ["completed", "failed", "canceled", "rejected"] {
        let script = move |seen: &Seen| {
            let state = if seen.before == 0 { ended } else { "completed" };
            json!({ "result": task_03(&format!("u-{}", seen.before + 1), state, json!({ "artifacts": [artifact_03("response", "Done.")] })) })
        };
        let agent = Agent::answering(script);
        let proxy = Proxy::new(&agent);
        proxy.send("q1", json!({ "contextId": "c" })).await;
        let refused = proxy.call(&send_03("more", json!({ "taskId": "u-1" }))).await;
        assert_eq!((&refused["error"]["code"], agent.calls()), (&json!(-32004), 1));
        assert!(refused["error"]["message"].as_str().unwrap().contains("is in terminal state"));
        proxy.send("next", json!({ "contextId": "c" })).await;

        let agent = Agent::answering(script);
        let proxy = Proxy::with(&agent, policy(|policy| policy.terminal_followup = TerminalFollowup::NewTask));
        proxy.send("q1", json!({ "contextId": "c" })).await;
        let next = proxy.send("more", json!({ "taskId": "u-1", "referenceTaskIds": ["u-1"] })).await;
        assert_eq!((next["id"].as_str(), next["contextId"].as_str()), (Some("u-2"), Some("c")));
        let given = agent.last();
        assert!(given.message().get("taskId").is_none());
        assert_eq!(given.message()["referenceTaskIds"], json!(["u-1"]));
        assert_eq!(given.text().contains("q1"), ended == "completed");
    }
}

#[tokio::test]
async fn a_message_that_answers_an_open_task_is_reported_as_that_task() {
    for dialect in ["0.3", "1.0"] {
        let agent = Agent::answering(move |seen| match (seen.method(), seen.before) {
            ("message/send", 0) => json!({ "result": completed(seen, "Which city?") }),
            ("SendMessage", 0) => {
                json!({ "result": { "task": { "id": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" },
                "artifacts": [{ "artifactId": "response", "parts": [{ "text": "Which city?" }] }] } } })
            }
            ("message/send", 1) => json!({ "result": said("x1", "Which hotel?") }),
            ("message/send", _) => json!({ "result": said("x2", "Booked.") }),
            ("SendMessage", n) => {
                json!({ "result": { "message": { "messageId": format!("x{n}"), "role": "ROLE_AGENT", "contextId": "mine",
                "parts": [{ "text": if n == 1 { "Which hotel?" } else { "Booked." } }] } } })
            }
            _ => json!({ "error": { "code": -32001, "message": "nf" } }),
        });
        let proxy = Proxy::new(&agent);
        let old = dialect == "0.3";
        let request = |text: &str, ids: Value| if old { send_03(text, ids) } else { send_10(text, ids) };
        let task = |answer: &Value| if old { answer["result"].clone() } else { answer["result"]["task"].clone() };
        let spelled = |word: &str| {
            if old { word.to_owned() } else { format!("TASK_STATE_{}", word.to_uppercase().replace('-', "_")) }
        };
        proxy.call(&request("book", json!({ "contextId": "c" }))).await;
        let second = task(&proxy.call(&request("Oslo", json!({ "taskId": "u-1" }))).await);
        holds_together(&second, "u-1", "c");
        assert_eq!(state(&second), spelled("input-required"), "{second}");
        assert_eq!(second["status"]["message"]["parts"][0]["text"], "Which hotel?");
        assert_eq!(second.get("kind").is_some(), old);
        let third = task(&proxy.call(&request("Grand", json!({ "taskId": "u-1", "contextId": "c" }))).await);
        holds_together(&third, "u-1", "c");
        assert_eq!(state(&third), spelled("completed"));
        assert_eq!(texts(&third)[..5], ["book", "Which city?", "Oslo", "Which hotel?", "Grand"]);
        let calls = agent.calls();
        let mut get = get_03("u-1");
        get["method"] = if old { "tasks/get" } else { "GetTask" }.into();
        let got = proxy.call(&get).await["result"].clone();
        assert_eq!((&got["status"]["state"], texts(&got)), (&third["status"]["state"], texts(&third)));
        let asked: Vec<_> = agent.seen()[calls..].iter().map(|seen| seen.json["params"]["id"].clone()).collect();
        assert!(!asked.contains(&json!("")), "the agent is asked for no task without a name: {asked:?}");
        assert_eq!(turns(&agent.sends()[2])[3]["text"], "Which hotel?");
    }
}

#[tokio::test]
async fn a_genuine_question_is_continued_under_the_agents_own_ids_also_inside_a_chain() {
    let agent = Agent::answering(|seen| {
        let genuine = |id: &str, text: &str| {
            task_03(
                id,
                "input-required",
                json!({ "contextId": "agents-own",
            "status": { "state": "input-required", "message": said("s", text) }, "artifacts": [artifact_03("draft", "a draft")] }),
            )
        };
        json!({ "result": match seen.before {
            0 => completed(seen, "Which city?"),
            1 => genuine("u-2", "Your name?"),
            2 => genuine("u-2", "Your age?"),
            _ => task_03("u-2", "completed", json!({ "contextId": "agents-own", "artifacts": [artifact_03("draft", "a draft"), artifact_03("response", "Booked.")] })),
        } })
    });
    let proxy = Proxy::new(&agent);
    let ids = json!({ "contextId": "c", "taskId": "u-1" });
    proxy.send("book", json!({ "contextId": "c" })).await;
    let second = proxy.send("Oslo", ids.clone()).await;
    holds_together(&second, "u-1", "c");
    assert_eq!((state(&second), &second["status"]["message"]["messageId"]), ("input-required", &json!("s")));
    assert!(told(&second)["expected_input"].is_null(), "it is the agent's own");
    for (text, ended) in [("Ada", false), ("36", true)] {
        let answer = proxy.send(text, ids.clone()).await;
        holds_together(&answer, "u-1", "c");
        let given = agent.last();
        assert_eq!((&given.message()["taskId"], &given.message()["contextId"]), (&json!("u-2"), &json!("agents-own")));
        assert!(given.text().contains("record of earlier turns"), "the window is put in front there too");
        assert_eq!(state(&answer), if ended { "completed" } else { "input-required" });
        let expected: &[&str] = if ended { &["draft", "response~2"] } else { &["draft"] };
        assert_eq!(artifact_ids(&answer), expected);
    }
}

#[tokio::test]
async fn the_record_of_a_continued_task_has_each_artifact_once() {
    let agent = Agent::answering(|seen| match (seen.method(), seen.before) {
        ("message/send", 0) => {
            json!({ "result": task_03("u-1", "input-required", json!({ "artifacts": [artifact_03("draft", "a draft")],
            "status": { "state": "input-required", "message": said("s", "Your name?") } })) })
        }
        ("message/send", _) => json!({ "result": task_03("u-1", "completed", json!({
            "artifacts": [artifact_03("draft", "a draft"), artifact_03("response", "Booked.")] })) }),
        _ => json!({ "error": { "code": -32001, "message": "forgotten" } }),
    });
    let proxy = Proxy::new(&agent);
    proxy.send("book", json!({ "contextId": "c" })).await;
    let sent = proxy.send("Ada", json!({ "taskId": "u-1" })).await;
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(artifact_ids(&got), artifact_ids(&sent));
    assert_eq!(texts(&got), ["book", "Ada"]);
}

#[tokio::test]
async fn whatever_context_id_the_agent_mints_the_client_sees_its_own() {
    for minting in ["each", "same", "none", "empty"] {
        let agent = Agent::answering(move |seen| {
            let mut task = completed(seen, if seen.before.is_multiple_of(2) { "Which one?" } else { "Done." });
            match minting {
                "each" => task["contextId"] = format!("minted-{}", seen.before).into(),
                "same" => task["contextId"] = "constant".into(),
                "empty" => task["contextId"] = "".into(),
                _ => drop(task.as_object_mut().unwrap().remove("contextId")),
            }
            json!({ "result": task })
        });
        let proxy = Proxy::new(&agent);
        let mut contexts = Vec::new();
        for _ in 0..3 {
            let first = proxy.send("q1", json!({})).await;
            let context = first["contextId"].as_str().unwrap().to_owned();
            assert!(!context.is_empty());
            contexts.push(context.clone());
            let second = proxy.send("q2", json!({ "contextId": context, "taskId": first["id"] })).await;
            holds_together(&second, first["id"].as_str().unwrap(), &context);
            assert!(agent.last().text().contains("q1"), "{minting}");
            assert_eq!(
                agent.last().text().matches("Which one?").count(),
                1,
                "no other conversation's turns: {minting}"
            );
        }
        contexts.sort();
        contexts.dedup();
        assert_eq!(contexts.len(), 3, "{minting}");
        assert_eq!(
            contexts.contains(&"constant".to_owned()),
            minting == "same",
            "the agent's own, as long as it is new"
        );
        let named = proxy.send("q", json!({ "contextId": "mine" })).await;
        assert_eq!(named["contextId"], "mine");
    }
}

#[tokio::test]
async fn a_client_without_context_id_reads_its_ids_wherever_it_looks() {
    let agent = Agent::answering(|seen| {
        let mut user = seen.message().clone();
        user.as_object_mut().unwrap().remove("contextId");
        json!({ "result": task_03("u-1", "completed", json!({ "contextId": null, "history": [user],
            "status": { "state": "completed", "message": said("s", "Done.") } })) })
    });
    let answer = Proxy::new(&agent).send("q", json!({})).await;
    let context = answer["contextId"].as_str().unwrap();
    for message in [&answer["status"]["message"], &answer["history"][0]] {
        assert_eq!((&message["contextId"], &message["taskId"]), (&json!(context), &answer["id"]));
    }
}

#[tokio::test]
async fn an_agent_that_counts_from_one_again_mixes_up_nobodys_tasks() {
    // Every answer is called u-1; the agent knows only the newest.
    let newest = std::sync::Mutex::new(Value::Null);
    let agent = Agent::answering(move |seen| {
        let mut newest = newest.lock().unwrap();
        if seen.is_send() {
            let reply = if seen.text().ends_with("ask") { "Which one?" } else { "Done." };
            *newest = task_03(
                "u-1",
                "completed",
                json!({ "artifacts": [artifact_03("response", &format!("{reply} {}", seen.before))] }),
            );
            newest["artifacts"][0]["parts"][0]["text"] = reply.into();
            newest["artifacts"][0]["name"] = format!("n{}", seen.before).into();
        }
        json!({ "result": *newest })
    });
    let proxy = Proxy::new(&agent);
    let (alice, bob) = (proxy.as_principal("alice"), proxy.as_principal("bob"));
    let first = alice.send("ask", json!({ "contextId": "c" })).await;
    assert_eq!(first["id"], "u-1");
    let other = bob.send("tell", json!({ "contextId": "c" })).await;
    assert_ne!(other["id"], "u-1", "the id has a record on the route: another is minted");
    let calls = agent.calls();
    let got = alice.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(
        (got["artifacts"][0]["name"].as_str(), state(&got)),
        (Some("n0"), "input-required"),
        "from the record alone"
    );
    assert_eq!(agent.calls(), calls);
    assert_eq!(bob.call(&get_03(other["id"].as_str().unwrap())).await["result"]["artifacts"][0]["name"], "n1");
    assert_eq!(bob.call(&get_03("u-1")).await["error"]["code"], -32001);
    let answered = alice.send("tell", json!({ "taskId": "u-1" })).await;
    assert_eq!((answered["id"].as_str(), state(&answered)), (Some("u-1"), "completed"));
    assert_eq!(artifact_ids(&answered), ["response~2"]);
    let got = alice.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(artifact_ids(&got), ["response~2"], "all operations show the same list");
    let bobs = bob.call(&get_03(other["id"].as_str().unwrap())).await["result"].clone();
    assert_eq!(bobs["artifacts"][0]["name"], "n1", "not what the id means by now");
    alice.send("tell", json!({ "contextId": "c", "referenceTaskIds": ["u-1"] })).await;
}

#[tokio::test]
async fn an_agent_that_calls_every_task_the_same_answers_a_chain_all_the_same() {
    let newest = std::sync::Mutex::new(Value::Null);
    let agent = Agent::answering(move |seen| {
        let mut newest = newest.lock().unwrap();
        if seen.is_send() {
            let reply = if seen.text().ends_with("stop") { "Done." } else { "Which one?" };
            *newest = task_03("u-1", "completed", json!({ "artifacts": [artifact_03("response", reply)] }));
        }
        json!({ "result": *newest })
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    for (text, id) in [("a", "response~2"), ("b", "response~3"), ("stop", "response~4")] {
        let sent = proxy.send(text, json!({ "taskId": "u-1" })).await;
        let got = proxy.call(&get_03("u-1")).await["result"].clone();
        assert_eq!((artifact_ids(&sent), artifact_ids(&got)), (vec![id], vec![id]));
    }
    let other = proxy.send("stop", json!({ "contextId": "c" })).await;
    assert_ne!(other["id"], "u-1");
    assert_eq!(artifact_ids(&other), ["response"]);
}

#[tokio::test]
async fn a_superseded_task_never_reaches_the_agent_under_its_old_id() {
    let agent = Agent::answering(|seen| match (seen.method(), seen.text().ends_with("genuine")) {
        ("message/send", true) => {
            json!({ "result": task_03("u-1", "input-required", json!({ "status": { "state": "input-required", "message": said("s", "Name?") } })) })
        }
        ("message/send", _) => {
            json!({ "result": task_03("u-1", "completed", json!({ "artifacts": [artifact_03("response", "Done.")] })) })
        }
        _ => json!({ "result": task_03("u-1", "canceled", json!({})) }),
    });
    let proxy = Proxy::new(&agent);
    let (alice, bob) = (proxy.as_principal("alice"), proxy.as_principal("bob"));
    for then in ["answer", "cancel", "refer"] {
        let proxy = Proxy::new(&agent);
        let (alice, bob) = if then == "answer" {
            (alice.clone(), bob.clone())
        } else {
            (proxy.as_principal("alice"), proxy.as_principal("bob"))
        };
        let task = alice.send("genuine", json!({ "contextId": "c" })).await;
        let id = task["id"].as_str().unwrap();
        bob.send("x", json!({ "contextId": "c" })).await;
        let calls = agent.calls();
        match then {
            "answer" => {
                let answer = alice.send("Ada", json!({ "taskId": id })).await;
                assert_eq!((answer["id"].as_str(), state(&answer)), (Some(id), "completed"));
                assert!(agent.last().message().get("taskId").is_none(), "that is another's task by now");
                assert!(agent.last().text().contains("Name?"));
            }
            "cancel" => {
                assert_eq!(state(&alice.call(&cancel_03(id)).await["result"]), "canceled");
                assert_eq!(agent.calls(), calls);
            }
            _ => {
                alice.send("x", json!({ "contextId": "c", "referenceTaskIds": [id] })).await;
                assert!(agent.last().message().get("referenceTaskIds").is_none());
            }
        }
    }
}

#[tokio::test]
async fn one_conversation_may_be_continued_in_the_other_dialect() {
    let agent = Agent::answering(|seen| {
        let last = seen.text().ends_with("Oslo");
        let (reply, id) = if last { ("Booked.", "u-2") } else { ("Which city?", "u-1") };
        match seen.method() {
            "SendMessage" => {
                json!({ "result": { "task": { "id": id, "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" },
                "history": [seen.message()], "artifacts": [{ "artifactId": "response", "parts": [{ "text": reply }] }] } } })
            }
            _ => {
                json!({ "result": task_03(id, "completed", json!({ "history": [seen.message()], "artifacts": [artifact_03("response", reply)] })) })
            }
        }
    });
    for old_first in [true, false] {
        let proxy = Proxy::new(&agent);
        let request = |old: bool, text: &str, ids: Value| if old { send_03(text, ids) } else { send_10(text, ids) };
        proxy.call(&request(old_first, "book", json!({ "contextId": "c" }))).await;
        let answer = proxy.call(&request(!old_first, "Oslo", json!({ "contextId": "c", "taskId": "u-1" }))).await;
        let task = if old_first { &answer["result"]["task"] } else { &answer["result"] };
        holds_together(task, "u-1", "c");
        assert_eq!(texts(task), ["book", "Which city?", "Oslo"]);
        for message in task["history"].as_array().unwrap() {
            assert_eq!(message.get("kind").is_some(), !old_first, "{message}");
            assert_eq!(message["role"].as_str().unwrap().starts_with("ROLE_"), old_first, "{message}");
            assert_eq!(message["parts"][0].get("kind").is_some(), !old_first, "{message}");
        }
    }
}

#[tokio::test]
async fn a_server_that_wraps_its_answers_to_the_old_methods_is_read_and_answered_alike() {
    let agent = Agent::answering(|seen| {
        let reply = if seen.text().ends_with("Oslo") { "Booked." } else { "Which city?" };
        json!({ "result": { "task": { "id": format!("u-{}", seen.before + 1), "contextId": "c", "status": { "state": "completed" },
            "history": [seen.message()], "artifacts": [{ "artifactId": "response", "parts": [{ "kind": "text", "text": reply }] }] } } })
    });
    let proxy = Proxy::new(&agent);
    let asked = proxy.send("book", json!({ "contextId": "c", "messageId": "m1" })).await;
    assert_eq!(asked["task"]["status"]["state"], "input-required");
    assert_eq!(asked["task"]["status"]["message"]["parts"][0]["text"], "Which city?");
    let again = proxy.send("book", json!({ "contextId": "c", "messageId": "m1" })).await;
    assert_eq!(
        again["task"]["status"]["state"], "input-required",
        "what we make has the shape that this agent answers in: {again}"
    );
    let answer = proxy.send("Oslo", json!({ "contextId": "c", "taskId": "u-1" })).await;
    holds_together(&answer["task"], "u-1", "c");
    assert_eq!(answer["task"]["status"]["state"], "completed");
}
