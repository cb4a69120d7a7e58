//! Many proxies over one Redis.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::agent::{Agent, Answer, said, saying};
use super::process::Proxy;
use super::wire::{Message, soon};

mod away;
mod killed;
mod pushing;
mod start;

#[path = "../redis/relay.rs"]
mod relay;
#[path = "../redis/server.rs"]
#[allow(dead_code)]
mod server;

use self::server::Server;

/// A second: how long a proxy that was killed keeps a context from others.
const LEASE: Duration = Duration::from_secs(1);

fn config(agent: &Agent) -> String {
    format!("[upstream]\nurl = '{}'\n[guard]\nlease = '{}s'\n", agent.url(), LEASE.as_secs())
}

async fn proxies<const N: usize>(store: &str, agent: &Agent) -> [Proxy; N] {
    let started = join_all((0..N).map(|_| async { Proxy::sharing(store, &config(agent)).await })).await;
    started.try_into().unwrap_or_else(|_| unreachable!("as many as asked for"))
}

fn send(context: &str, task: Option<&str>, text: &str) -> Value {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let id = format!("m-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mut message =
        json!({ "messageId": id, "role": "ROLE_USER", "contextId": context, "parts": [{ "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } })
}

fn call(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// The state of the task that was answered with, and its id.
fn state(answer: &Value) -> (String, String) {
    let task = answer["result"].get("task").unwrap_or(&answer["result"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&task["status"]["state"]).replace("TASK_STATE_", ""), text(&task["id"]))
}

fn reason(answer: &Value) -> String {
    answer["error"]["data"][0]["reason"].as_str().unwrap_or_default().to_owned()
}

fn clerk(text: &str) -> String {
    match text.lines().last().unwrap_or_default() {
        "Book a room" => "Which city do you mean?".into(),
        said => format!("Noted: {said}."),
    }
}

/// An agent that has forgotten a task as soon as it is done.
fn forgetful() -> Agent {
    let says = saying(clerk);
    Agent::start(move |request: Message| {
        let forgotten = request.method() == "POST" && request.text().contains("\"GetTask\"");
        let lost = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32001, "message": "Task not found" } });
        if forgotten { std::future::ready(Answer::json(&lost)) } else { says(request) }
    })
}

#[tokio::test]
async fn three_proxies_hold_one_conversation() {
    for program in server::PROGRAMS {
        let (server, agent) = (Server::on_socket(program), forgetful());
        let [one, two, three] = proxies::<3>(&server.socket_url(), &agent).await;
        let first = one.call("/", &send("c", None, "My name is Ada")).await;
        assert_eq!(state(&first).0, "COMPLETED", "{first}");
        let (waiting, task) = state(&two.call("/", &send("c", None, "Book a room")).await);
        assert_eq!(waiting, "INPUT_REQUIRED");
        let (done, same) = state(&three.call("/", &send("c", Some(&task), "Oslo")).await);
        assert_eq!((&*done, &same), ("COMPLETED", &task), "the answer of another proxy is on the same task");
        let shown = said(&agent.last().json());
        for words in ["My name is Ada", "Book a room", "Which city do you mean?"] {
            assert_eq!(shown.matches(&format!("\"{words}\"")).count(), 1, "{words}: {shown}");
        }
        assert!(shown.ends_with("\nOslo"), "{shown}");
        for proxy in [&one, &two, &three] {
            let got = proxy.call("/", &call("GetTask", json!({ "id": task }))).await;
            assert_eq!(state(&got), ("COMPLETED".to_owned(), task.clone()), "{got}");
            let listed = proxy.call("/", &call("ListTasks", json!({ "contextId": "c" }))).await;
            assert_eq!(listed["result"]["totalSize"], 2, "{listed}");
        }
        // A question that one proxy asked is taken back at another, and a third knows.
        let (_, open) = state(&one.call("/", &send("d", None, "Book a room")).await);
        let canceled = two.call("/", &call("CancelTask", json!({ "id": open }))).await;
        assert_eq!(state(&canceled).0, "CANCELED", "{canceled}");
        let got = three.call("/", &call("GetTask", json!({ "id": open }))).await;
        assert_eq!(state(&got).0, "CANCELED", "{got}");
    }
}

#[tokio::test]
async fn one_of_many_sends_through_different_proxies_passes() {
    let (open, latch) = watch::channel(false);
    let (server, agent) = (Server::on_socket("redis-server"), Agent::latched(latch));
    let proxies = proxies::<3>(&server.socket_url(), &agent).await;
    for round in 1..=5 {
        open.send_replace(false);
        let sends = (0..12).map(|at| {
            let (proxy, call) = (&proxies[at % 3], send("c", None, &format!("round {round}, send {at}")));
            async move { proxy.call("/", &call).await }
        });
        let (opened, refused) = (&open, AtomicUsize::new(0));
        let told = join_all(sends.map(|send| async {
            let answer = send.await;
            // The one that passed is answered once all others were.
            if refused.fetch_add(1, Ordering::SeqCst) == 10 {
                opened.send_replace(true);
            }
            answer
        }));
        let states: Vec<_> = soon("the answers", told).await.iter().map(|answer| state(answer).0).collect();
        assert_eq!(states.iter().filter(|state| *state == "COMPLETED").count(), 1, "{states:?}");
        assert_eq!(states.iter().filter(|state| *state == "FAILED").count(), 11, "{states:?}");
        assert_eq!(agent.seen().len(), round, "the others did not reach the agent");
    }
}
