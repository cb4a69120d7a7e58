//! Get, Cancel and List in every state of a task: they agree with what the client was told, and for nobody else.

use std::sync::Arc;

use a2a_multiturn::conversation::policy::{Inline, UnknownIds};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::chains::key;
use super::support::*;

/// An agent whose sends wait at a gate; everything else it answers at once from `other`.
pub fn gated(
    gate: &Arc<Semaphore>,
    answer: impl Fn(&Seen) -> Value + Send + Sync + 'static,
    other: impl Fn(&Seen) -> Value + Send + Sync + 'static,
) -> Agent {
    let gate = Arc::clone(gate);
    Agent::scripted(move |seen| {
        let gate = Arc::clone(&gate);
        let mut value = if seen.is_send() { answer(&seen) } else { other(&seen) };
        value["id"] = seen.json["id"].clone();
        value["jsonrpc"] = json!("2.0");
        async move {
            if seen.is_send() {
                gate.acquire().await?.forget();
            }
            Ok(json_response(&value))
        }
    })
}

/// Runs a call beside the test until the agent has seen so many requests.
pub async fn beside(proxy: &Proxy, agent: &Agent, request: Value, calls: usize) -> tokio::task::JoinHandle<Value> {
    let proxy = proxy.clone();
    let running = tokio::spawn(async move { proxy.call(&request).await });
    while agent.calls() < calls {
        if running.is_finished() {
            panic!("answered without the agent: {}", running.await.unwrap());
        }
        tokio::task::yield_now().await;
    }
    running
}

fn not_found(_: &Seen) -> Value {
    json!({ "error": { "code": -32001, "message": "Task not found" } })
}

// get-vs-send
#[tokio::test]
async fn get_and_list_say_what_the_send_said() {
    for reply in ["Which one?", "Done."] {
        for forgets in [true, false] {
            let keeping = Agent::keeping(move |seen| completed(seen, reply));
            let forgetting = Agent::answering(move |seen| {
                if seen.is_send() { json!({ "result": completed(seen, reply) }) } else { not_found(seen) }
            });
            let agent = if forgets { forgetting } else { keeping };
            for active in [true, false] {
                let proxy = Proxy::with(&agent, policy(|policy| policy.rewrite.inline = Inline::Always));
                let proxy = if active { proxy.active() } else { proxy };
                let context = format!("c-{active}");
                let sent = proxy.send("q", json!({ "contextId": context })).await;
                let got = proxy.call(&get_03(sent["id"].as_str().unwrap())).await["result"].clone();
                assert_eq!(
                    (state(&got), told(&got)),
                    (state(&sent), told(&sent)),
                    "forgets {forgets}, active {active}"
                );
                assert_eq!(got["status"]["message"], sent["status"]["message"]);
                assert_eq!(got["status"]["continuation"], sent["status"]["continuation"]);
                assert_eq!(got["artifacts"], sent["artifacts"]);
                assert_eq!((&got["id"], &got["contextId"]), (&sent["id"], &sent["contextId"]));
                let listed =
                    proxy.call(&list_10(json!({ "contextId": context, "includeArtifacts": true }))).await["result"]
                        .clone();
                assert_eq!((listed["totalSize"].as_u64(), listed["tasks"].as_array().unwrap().len()), (Some(1), 1));
                let task = &listed["tasks"][0];
                let word = format!("TASK_STATE_{}", state(&sent).to_uppercase().replace('-', "_"));
                assert_eq!((task["status"]["state"].as_str(), &task["id"]), (Some(&*word), &sent["id"]));
                assert_eq!(task["artifacts"][0]["parts"][0]["text"], reply);
            }
        }
    }
}

#[tokio::test]
async fn a_lowered_history_policy_is_told_alike_by_every_operation() {
    let agent = Agent::keeping(|seen| completed(seen, "Which one?"));
    let proxy = Proxy::new(&agent);
    proxy.send("q1", json!({ "contextId": "c" })).await;
    let sent = proxy.send("q2", json!({ "contextId": "c", "metadata": { URI: { "history_policy": "none" } } })).await;
    let got = proxy.call(&get_03(sent["id"].as_str().unwrap())).await["result"].clone();
    assert_eq!((told(&sent)["history_policy"].as_str(), told(&got)), (Some("none"), told(&sent)));
}

// tasks-idor
#[tokio::test]
async fn an_unknown_id_is_answered_exactly_as_someone_elses() {
    let agent = Agent::keeping(|seen| completed(seen, "Which one?"));
    let proxy = Proxy::new(&agent);
    proxy.as_principal("alice").send("q", json!({ "contextId": "c" })).await;
    let bob = proxy.as_principal("bob");
    let calls = agent.calls();
    for request in [
        get_03("ID"),
        cancel_03("ID"),
        send_03("x", json!({ "taskId": "ID", "messageId": "m" })),
        send_03("x", json!({ "taskId": "ID", "contextId": "c", "messageId": "m" })),
    ] {
        let mut answers = Vec::new();
        for id in ["u-1", "u-never"] {
            answers.push(bob.raw(request.to_string().replace("ID", id)).await.replace(id, "ID"));
        }
        assert_eq!(answers[0], answers[1]);
        assert!(answers[0].contains("-32001"), "{}", answers[0]);
        let elsewhere =
            proxy.as_principal("alice").on_route("other").raw(request.to_string().replace("ID", "u-1")).await;
        assert!(elsewhere.contains("-32001"), "tasks are the route's: {elsewhere}");
    }
    assert_eq!(agent.calls(), calls);
    let listed = bob.call(&list_10(json!({}))).await["result"].clone();
    assert_eq!((&listed["tasks"], &listed["totalSize"], &listed["nextPageToken"]), (&json!([]), &json!(0), &json!("")));
}

#[tokio::test]
async fn unknown_ids_may_be_the_agents_matter() {
    let agent = Agent::keeping(|seen| completed(seen, "Fine."));
    let proxy = Proxy::with(&agent, policy(|policy| policy.unknown_ids = UnknownIds::Forward));
    assert_eq!(proxy.call(&get_03("theirs")).await["error"]["code"], -32001);
    assert_eq!(agent.last().json["params"]["id"], "theirs");
    // restart-replica: what was known before a restart is not known now, and the turn does not fail for it here.
    let answer = proxy.send("q", json!({ "taskId": "theirs", "contextId": "c" })).await;
    assert_eq!(state(&answer), "completed");
    assert_eq!(agent.last().message()["taskId"], "theirs", "the agent knows its own tasks");
    assert!(!agent.last().text().contains("record"));
}

// restart-replica
#[tokio::test]
async fn after_a_restart_a_context_goes_on_without_history_and_its_tasks_are_unknown() {
    let agent = Agent::keeping(|seen| completed(seen, "Which one?"));
    Proxy::new(&agent).send("q1", json!({ "contextId": "c" })).await;
    let restarted = Proxy::new(&agent).active();
    assert_eq!(
        restarted.call(&send_03("a", json!({ "contextId": "c", "taskId": "u-1" }))).await["error"]["code"],
        -32001
    );
    let answer = restarted.send("q2", json!({ "contextId": "c" })).await;
    assert_eq!(agent.last().text(), "q2");
    assert_eq!(told(&answer)["history_turns"], json!([]), "the response says so");
}

#[tokio::test]
async fn while_an_answer_runs_its_task_reads_working() {
    let gate = Arc::new(Semaphore::new(1));
    let agent = gated(
        &gate,
        |seen| json!({ "result": completed(seen, if seen.sends == 0 { "Which one?" } else { "Done." }) }),
        not_found,
    );
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let running = beside(&proxy, &agent, send_03("a", json!({ "taskId": "u-1" })), 2).await;
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!((state(&got), agent.calls()), ("working", 2), "answered here: the agent has told no id");
    let texts: Vec<_> =
        got["history"].as_array().unwrap().iter().map(|m| m["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["q", "Which one?", "a"]);
    assert!(told(&got)["expected_input"].is_null());
    gate.add_permits(1);
    assert_eq!(state(&running.await.unwrap()["result"]), "completed");
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "completed");
}

#[tokio::test]
async fn a_running_answer_is_cancelled_though_the_agent_has_told_no_id() {
    let gate = Arc::new(Semaphore::new(1));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "Which one?") }), not_found);
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let running = beside(&proxy, &agent, send_03("a", json!({ "taskId": "u-1" })), 2).await;
    let canceled = proxy.call(&cancel_03("u-1")).await["result"].clone();
    assert_eq!((canceled["id"].as_str(), state(&canceled)), (Some("u-1"), "canceled"));
    let waiting = running.await.unwrap();
    assert_eq!((waiting["id"].as_i64(), state(&waiting["result"])), (Some(1), "canceled"), "{waiting}");
    assert!(told(&waiting["result"])["expected_input"].is_null(), "{waiting}");
    let calls = agent.calls();
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "canceled");
    assert_eq!(agent.calls(), calls, "there is no task at the agent to ask for");
    assert_eq!(proxy.call(&send_03("b", json!({ "taskId": "u-1" }))).await["error"]["code"], -32004);
    gate.add_permits(1);
    let next = proxy.call(&send_03("c", json!({ "contextId": "c" }))).await;
    assert!(!is_busy(&next) && next["error"].is_null(), "{next}");
    assert!(!agent.last().text().contains("\"text\":\"a\""), "what was cancelled is not shown");
}

#[tokio::test]
async fn a_running_answer_to_the_agents_own_question_is_cancelled_at_the_agent() {
    let gate = Arc::new(Semaphore::new(1));
    let agent = gated(
        &gate,
        |_| json!({ "result": task_03("u-1", "input-required", json!({})) }),
        |seen| {
            if seen.method() == "tasks/cancel" {
                json!({ "result": task_03("u-1", "canceled", json!({})) })
            } else {
                json!({ "result": task_03("u-1", "working", json!({})) })
            }
        },
    );
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let running = beside(&proxy, &agent, send_03("a", json!({ "taskId": "u-1" })), 2).await;
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "working");
    let canceling = beside(&proxy, &agent, cancel_03("u-1"), agent.calls() + 1).await;
    assert_eq!((agent.last().method(), &agent.last().json["params"]["id"]), ("tasks/cancel", &json!("u-1")));
    gate.add_permits(1);
    running.await.unwrap();
    canceling.await.unwrap();
}

#[tokio::test]
async fn an_open_question_is_cancelled_here() {
    let agent = Agent::keeping(|seen| completed(seen, "Which one?"));
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let calls = agent.calls();
    let canceled = proxy.call(&cancel_03("u-1")).await["result"].clone();
    assert_eq!((canceled["id"].as_str(), state(&canceled), agent.calls()), (Some("u-1"), "canceled", calls));
    assert!(told(&canceled)["expected_input"].is_null(), "{canceled}");
    assert_eq!(proxy.call(&cancel_03("u-1")).await["error"]["code"], -32002);
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "canceled");
    assert_eq!(proxy.call(&send_03("a", json!({ "taskId": "u-1" }))).await["error"]["code"], -32004);
    proxy.send("q2", json!({ "contextId": "c" })).await;
}

#[tokio::test]
async fn a_question_that_was_cancelled_stays_in_the_history() {
    let agent = Agent::keeping(|seen| {
        let artifacts = json!([artifact_03("response", "Which one?")]);
        task_03("u-1", "completed", json!({ "history": [seen.message()], "artifacts": artifacts }))
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let texts = |task: &Value| -> Vec<String> {
        let history = task["history"].as_array().unwrap();
        history.iter().map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
    };
    let open = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(texts(&open), ["q", "Which one?"]);
    let canceled = proxy.call(&cancel_03("u-1")).await["result"].clone();
    let got = proxy.call(&get_03("u-1")).await["result"].clone();
    for task in [&canceled, &got] {
        assert_eq!(texts(task), ["q", "Which one?"], "{task}");
        assert_eq!((state(task), task["status"].get("message")), ("canceled", None), "nobody waits: {task}");
        assert!(told(task)["expected_input"].is_null(), "{task}");
    }
    let ids = |task: &Value| task["history"][1]["messageId"].clone();
    assert_eq!((ids(&canceled), ids(&got)), (ids(&open), ids(&open)));
}

#[tokio::test]
async fn the_agents_own_question_is_cancelled_at_the_agent_also_inside_a_chain() {
    let agent = Agent::keeping(|seen| match seen.sends {
        0 => completed(seen, "Which city?"),
        n => task_03(&format!("u-{}", n + 1), "input-required", json!({})),
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    proxy.send("a", json!({ "taskId": "u-1" })).await;
    let canceled = proxy.call(&cancel_03("u-1")).await["result"].clone();
    assert_eq!((canceled["id"].as_str(), state(&canceled)), (Some("u-1"), "canceled"));
    assert_eq!(agent.last().json["params"]["id"], "u-2");
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "canceled");
    assert_eq!(proxy.call(&cancel_03("u-1")).await["error"]["code"], -32002);
}

#[tokio::test]
async fn an_answer_to_a_cancel_never_shows_the_agents_ids() {
    let agent = Agent::answering(|seen| match (seen.method(), seen.sends) {
        ("message/send", 0) => json!({ "result": completed(seen, "Which city?") }),
        ("message/send", _) => json!({ "result": task_03("u-2", "input-required", json!({ "contextId": "agents" })) }),
        // Some agents acknowledge at once and cancel in their own time.
        _ => json!({ "result": task_03("u-2", "working", json!({ "contextId": "agents" })) }),
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    proxy.send("a", json!({ "taskId": "u-1" })).await;
    let answer = proxy.call(&cancel_03("u-1")).await["result"].clone();
    assert_eq!(
        (answer["id"].as_str(), answer["contextId"].as_str(), state(&answer)),
        (Some("u-1"), Some("c"), "working")
    );
}

#[tokio::test]
async fn a_foreign_cancel_leaves_the_guard_alone() {
    let gate = Arc::new(Semaphore::new(1));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "Which one?") }), not_found);
    let proxy = Proxy::new(&agent);
    let (alice, bob) = (proxy.as_principal("alice"), proxy.as_principal("bob"));
    alice.send("q", json!({ "contextId": "c" })).await;
    let running = beside(&alice, &agent, send_03("a", json!({ "taskId": "u-1" })), 2).await;
    assert_eq!(bob.call(&cancel_03("u-1")).await["error"]["code"], -32001);
    assert!(is_busy(&alice.call(&send_03("b", json!({ "contextId": "c" }))).await));
    gate.add_permits(1);
    assert!(running.await.unwrap()["error"].is_null());
}

#[tokio::test]
async fn a_list_is_paged_newest_status_first_one_entry_a_chain() {
    let agent = Agent::saying(|seen| if seen.text().ends_with("ask") { "Which one?".into() } else { "Done.".into() });
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    let mut expected = Vec::new();
    for n in 0..7 {
        clock.forward(10);
        let context = format!("c-{n}");
        let task = proxy.send("ask", json!({ "contextId": context })).await;
        if n % 2 == 0 {
            clock.forward(10);
            proxy.send("tell", json!({ "taskId": task["id"] })).await;
        }
        expected.insert(0, task["id"].as_str().unwrap().to_owned());
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    for _ in 0..4 {
        let page = proxy.call(&list_10(json!({ "pageSize": 2, "pageToken": token }))).await["result"].clone();
        assert_eq!((page["totalSize"].as_u64(), page["pageSize"].as_u64()), (Some(7), Some(2)));
        for task in page["tasks"].as_array().unwrap() {
            seen.push(task["id"].as_str().unwrap().to_owned());
            assert!(task.get("artifacts").is_none(), "only when asked");
        }
        token = page["nextPageToken"].as_str().unwrap().to_owned();
    }
    assert_eq!((seen, &*token), (expected, ""));
    let of = |params: Value| {
        let proxy = proxy.clone();
        async move { proxy.call(&list_10(params)).await["result"]["totalSize"].clone() }
    };
    assert_eq!(of(json!({ "status": "TASK_STATE_INPUT_REQUIRED" })).await, 3, "filtered on what the client was told");
    assert_eq!(of(json!({ "status": "TASK_STATE_COMPLETED" })).await, 4);
    assert_eq!(of(json!({ "contextId": "c-3" })).await, 1);
    assert_eq!(of(json!({ "contextId": "other" })).await, 0);
    for bad in [
        json!({ "pageToken": "forged" }),
        json!({ "pageToken": "zz" }),
        json!({ "pageSize": 0 }),
        json!({ "pageSize": 1000 }),
        json!({ "pageSize": "x" }),
        json!({ "pageToken": "é0" }),
    ] {
        let answer = proxy.call(&list_10(bad.clone())).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32602), &json!("l")), "{bad}");
    }
    let calls = agent.calls();
    let old = proxy.call(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {} })).await;
    assert_eq!((&old["error"]["code"], agent.calls()), (&json!(-32601), calls), "0.3 has no list");
}

#[tokio::test]
async fn a_poll_that_sees_the_end_settles_the_turn() {
    // nonblocking
    let polls = std::sync::atomic::AtomicUsize::new(0);
    let agent = Agent::answering(move |seen| {
        let done = |text: &str| task_03("u-1", "completed", json!({ "artifacts": [artifact_03("response", text)] }));
        json!({ "result": match (seen.method(), seen.sends) {
            ("message/send", 0) => task_03("u-1", "submitted", json!({})),
            ("message/send", _) => completed(seen, "ok"),
            _ => match polls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => task_03("u-1", "working", json!({})),
                _ => done("Which result do you want?"),
            },
        } })
    });
    let proxy = Proxy::new(&agent);
    let mut request = send_03("long job", json!({ "contextId": "c" }));
    request["params"]["configuration"] = json!({ "blocking": false });
    let first = proxy.call(&request).await["result"].clone();
    assert_eq!((state(&first), told(&first)), ("submitted", &Value::Null));
    assert_eq!(state(&proxy.call(&get_03("u-1")).await["result"]), "working");
    let calls = agent.calls();
    assert!(is_busy(&proxy.call(&send_03("too early", json!({ "contextId": "c" }))).await));
    assert_eq!(agent.calls(), calls, "looked at a moment ago");
    let done = proxy.call(&get_03("u-1")).await["result"].clone();
    assert_eq!(
        (state(&done), done["status"]["message"]["parts"][0]["text"].as_str()),
        ("input-required", Some("Which result do you want?"))
    );
    assert_eq!(told(&done)["expected_input"], "free_text");
    proxy.send("the first", json!({ "contextId": "c" })).await;
    assert!(agent.last().text().contains("long job") && agent.last().text().contains("Which result"));
}

#[tokio::test]
async fn the_next_send_looks_whether_a_turn_has_ended_at_most_once_a_second() {
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = Arc::clone(&over);
    let agent = Agent::answering(move |seen| {
        let ended = flag.load(std::sync::atomic::Ordering::SeqCst);
        json!({ "result": match (seen.method(), seen.sends) {
            ("message/send", 0) => task_03("u-1", "working", json!({})),
            ("message/send", _) => completed(seen, "ok"),
            _ if ended => task_03("u-1", "completed", json!({ "artifacts": [artifact_03("response", "The result.")] })),
            _ => task_03("u-1", "working", json!({})),
        } })
    });
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    proxy.send("long job", json!({ "contextId": "c" })).await;
    let looks = || agent.seen().iter().filter(|seen| seen.method() == "tasks/get").count();
    for (forward, expected) in [(0, 0), (500, 0), (600, 1), (10, 1), (1000, 2)] {
        clock.forward(forward);
        assert!(is_busy(&proxy.call(&send_03("x", json!({ "contextId": "c" }))).await));
        assert_eq!(looks(), expected);
    }
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    clock.forward(1000);
    proxy.send("next", json!({ "contextId": "c" })).await;
    assert!(agent.last().text().contains("The result."));
    assert!(proxy.store.context(&key("c")).await.unwrap().unwrap().in_flight.is_none());
}

#[tokio::test]
async fn a_polls_own_history_length_shapes_what_it_gets() {
    let agent = Agent::answering(|seen| {
        let history = json!([{ "kind": "message", "messageId": "h", "role": "user", "parts": [] }, { "kind": "message", "messageId": "i", "role": "agent", "parts": [] }]);
        json!({ "result": match (seen.method(), seen.sends) {
            ("message/send", 0) => completed(seen, "Which one?"),
            ("message/send", _) => task_03("u-2", "working", json!({})),
            _ => task_03("u-2", "completed", json!({ "history": history, "artifacts": [artifact_03("response", "Done.")] })),
        } })
    });
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let mut request = send_03("a", json!({ "taskId": "u-1" }));
    request["params"]["configuration"] = json!({ "historyLength": 1, "blocking": false });
    proxy.call(&request).await;
    let mut get = get_03("u-1");
    get["params"]["historyLength"] = json!(3);
    let got = proxy.call(&get).await["result"].clone();
    assert_eq!(got["history"].as_array().unwrap().len(), 3, "{got}");
    assert_eq!(state(&got), "completed");
}
