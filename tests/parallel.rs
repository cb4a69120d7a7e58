//! `guard.mode = "allow"`: A2A's own parallel tasks in one context.

use std::sync::Arc;

use a2a_multiturn::conversation::policy::{GuardMode, Policy};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::operations::{beside, gated};
use super::support::*;

fn allowing() -> Policy {
    policy(|policy| policy.guard.mode = GuardMode::Allow)
}

fn in_c(text: &str) -> Value {
    send_03(text, json!({ "contextId": "c" }))
}

/// Answers at two gates, one for each word.
fn two_gates(first: &Arc<Semaphore>, second: &Arc<Semaphore>, say: fn(&str) -> &str) -> Agent {
    let (first, second) = (Arc::clone(first), Arc::clone(second));
    Agent::scripted(move |seen| {
        let word = seen.text().rsplit('\n').next().unwrap_or_default().to_owned();
        let gate = Arc::clone(if word == "slow" { &first } else { &second });
        let mut value = json!({ "jsonrpc": "2.0", "result": completed(&seen, say(&word)) });
        value["id"] = seen.json["id"].clone();
        async move {
            if seen.is_send() {
                gate.acquire().await?.forget();
            } else {
                value = json!({ "jsonrpc": "2.0", "id": value["id"], "error": { "code": -32001, "message": "no" } });
            }
            Ok(json_response(&value))
        }
    })
}

#[tokio::test]
async fn tasks_of_one_context_run_beside_one_another() {
    let (slow, fast) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let agent = two_gates(&slow, &fast, |word| if word == "slow" { "was slow" } else { "was fast" });
    let proxy = Proxy::with(&agent, allowing());
    let first = beside(&proxy, &agent, in_c("slow"), 1).await;
    let second = beside(&proxy, &agent, in_c("fast"), 2).await;
    assert_eq!(agent.last().text(), "fast", "what runs beside it is not shown");
    fast.add_permits(1);
    let second = second.await.unwrap()["result"].clone();
    assert!(!first.is_finished());
    slow.add_permits(1);
    let first = first.await.unwrap()["result"].clone();
    assert_eq!((state(&first), state(&second)), ("completed", "completed"));
    assert_ne!(first["id"], second["id"]);
    fast.add_permits(1);
    proxy.send("last", json!({ "contextId": "c" })).await;
    let shown = agent.last().text();
    let at = |word| shown.find(word).unwrap_or_else(|| panic!("{word} in {shown}"));
    assert!(at("was fast") < at("was slow"), "in the order in which they ended: {shown}");
    assert_eq!(agent.last().entry()["history_turns"].as_array().unwrap().len(), 2);
    for task in [&first, &second] {
        let again = proxy.call(&get_03(task["id"].as_str().unwrap())).await;
        assert_eq!(state(&again["result"]), "completed");
    }
}

#[tokio::test]
async fn what_was_shown_and_its_digest_stay_as_they_were() {
    let (slow, fast) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(10)));
    let agent = two_gates(&slow, &fast, |_| "done");
    let proxy = Proxy::with(&agent, allowing()).active();
    proxy.send("fast", json!({ "contextId": "c" })).await;
    let late = beside(&proxy, &agent, in_c("slow"), 2).await;
    let sent = agent.last().entry().clone();
    proxy.send("fast", json!({ "contextId": "c" })).await;
    slow.add_permits(1);
    let late = late.await.unwrap()["result"].clone();
    for name in ["accepted_history_digest", "history_turns"] {
        assert_eq!(told(&late)[name], sent[name], "{name}");
    }
    assert_eq!(sent["history_turns"].as_array().unwrap().len(), 1);
    proxy.send("fast", json!({ "contextId": "c" })).await;
    let turns = agent.last().entry()["history_turns"].as_array().unwrap().clone();
    assert_eq!((turns.len(), &turns[0]), (3, &sent["history_turns"][0]), "what was shown is a prefix");
}

#[tokio::test]
async fn a_message_to_the_very_task_that_runs_is_refused() {
    let gate = Arc::new(Semaphore::new(1));
    let say = |seen: &Seen| if seen.sends == 0 { "Which one?" } else { "Done." };
    let agent = gated(&gate, move |seen| json!({ "result": completed(seen, say(seen)) }), |_| json!({}));
    let proxy = Proxy::with(&agent, allowing());
    let open = proxy.send("book", json!({ "contextId": "c" })).await;
    let ids = json!({ "taskId": open["id"] });
    let answers = beside(&proxy, &agent, send_03("the first", ids.clone()), 2).await;
    assert!(is_busy(&proxy.call(&send_03("the second", ids)).await));
    let other = beside(&proxy, &agent, in_c("something else"), 3).await;
    gate.add_permits(2);
    assert_eq!(answers.await.unwrap()["result"]["id"], open["id"]);
    assert_ne!(other.await.unwrap()["result"]["id"], open["id"]);
}

#[tokio::test]
async fn a_question_is_not_overtaken_by_a_task_that_ran_beside_it() {
    let (slow, fast) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(10)));
    let agent = two_gates(&slow, &fast, |word| if word == "ask" { "Which one?" } else { "Done." });
    let proxy = Proxy::with(&agent, allowing());
    let late = beside(&proxy, &agent, in_c("slow"), 1).await;
    let asked = proxy.send("ask", json!({ "contextId": "c" })).await;
    assert_eq!(state(&asked), "input-required");
    slow.add_permits(1);
    late.await.unwrap();
    let answered = proxy.send("fast", json!({ "taskId": asked["id"] })).await;
    assert_eq!((state(&answered), &answered["id"]), ("completed", &asked["id"]));
}

#[tokio::test]
async fn each_running_answer_is_cancelled_by_its_own_task() {
    let gate = Arc::new(Semaphore::new(0));
    let say = |seen: &Seen| if seen.sends < 2 { "Which one?" } else { "Done." };
    let agent = gated(&gate, move |seen| json!({ "result": completed(seen, say(seen)) }), |_| json!({}));
    let proxy = Proxy::with(&agent, allowing());
    let first = beside(&proxy, &agent, in_c("one"), 1).await;
    let second = beside(&proxy, &agent, in_c("two"), 2).await;
    gate.add_permits(2);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let id = |answer: &Value| answer["result"]["id"].as_str().unwrap().to_owned();
    let (first, second) = (id(&first), id(&second));
    let one = beside(&proxy, &agent, send_03("a", json!({ "taskId": first })), 3).await;
    let two = beside(&proxy, &agent, send_03("b", json!({ "taskId": second })), 4).await;
    assert_eq!(state(&proxy.call(&cancel_03(&first)).await["result"]), "canceled");
    assert_eq!(state(&one.await.unwrap()["result"]), "canceled");
    gate.add_permits(1);
    let two = two.await.unwrap();
    assert_eq!((state(&two["result"]), two["result"]["id"].as_str()), ("completed", Some(&*second)));
}
