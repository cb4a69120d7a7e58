//! Many proxies over one Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use a2a_multiturn::store::Store;
use a2a_multiturn::store::redis::{Settings, connect};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::agent::{Agent, Answer, mixed_card, said, saying};
use super::process::Proxy;
use super::wire::{Message, soon};

#[path = "../redis/relay.rs"]
mod relay;
#[path = "../redis/server.rs"]
#[allow(dead_code)]
mod server;

use relay::{Relay, Way};
use server::{Server, free_port};

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

/// Sends until it is not refused for a turn in flight. How long that took.
async fn sent_after(proxy: &Proxy, context: &str) -> (Value, Duration) {
    let begun = Instant::now();
    loop {
        let answer = proxy.call("/", &send(context, None, "Go on")).await;
        if state(&answer).0 != "FAILED" {
            return (answer, begun.elapsed());
        }
        assert!(begun.elapsed() < LEASE * 10, "still refused: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_turn_of_a_proxy_that_was_killed_is_taken_over_after_its_lease() {
    let (open, latch) = watch::channel(false);
    let (server, agent) = (Server::on_socket("redis-server"), Agent::latched(latch));
    let [mut dying, heir] = proxies::<2>(&server.socket_url(), &agent).await;
    let mut wire = dying.connect().await;
    let asked = super::wire::Request::call("/", &send("c", None, "Hello"));
    wire.send(asked.bytes()).await;
    let lost = tokio::spawn(async move { wire.rest().await.is_empty() });
    agent.called(1).await;
    dying.signal("-KILL");
    dying.ended().await;
    assert!(lost.await.unwrap(), "nobody was answered");
    open.send_replace(true);
    let (answer, took) = sent_after(&heir, "c").await;
    assert_eq!(state(&answer).0, "COMPLETED", "{answer}");
    assert!(took < LEASE * 3, "{took:?}");
    assert!(!said(&agent.last().json()).contains("Hello"), "what was never answered is no part of the conversation");
}

/// An agent whose tasks end only when it is asked for them.
fn slow() -> Agent {
    Agent::start(|request: Message| {
        let base = format!("http://{}/", request.header("host").unwrap_or_default());
        let answer = match request.method() {
            "GET" => Answer::json(&mixed_card(&base)),
            _ => {
                let call = request.json();
                let (working, id) = (call["method"] == "SendMessage", call["id"].clone());
                let state = if working { "TASK_STATE_WORKING" } else { "TASK_STATE_COMPLETED" };
                let context = call["params"]["message"]["contextId"].as_str().unwrap_or("c");
                let task = json!({
                    "id": "slow", "contextId": context, "status": { "state": state },
                    "artifacts": [{ "artifactId": "response", "parts": [{ "text": "At last." }] }],
                });
                let result = if working { json!({ "task": task }) } else { task };
                Answer::json(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            }
        };
        std::future::ready(answer)
    })
}

#[tokio::test]
async fn the_unsettled_turn_of_a_proxy_that_was_killed_is_settled_by_another() {
    let (server, agent) = (Server::on_socket("valkey-server"), slow());
    let [mut dying, heir] = proxies::<2>(&server.socket_url(), &agent).await;
    let (working, task) = state(&dying.call("/", &send("c", None, "Take your time")).await);
    assert_eq!(working, "WORKING");
    dying.signal("-KILL");
    dying.ended().await;
    let (answer, took) = sent_after(&heir, "c").await;
    assert!(took < LEASE * 3, "{took:?}: {answer}");
    let sends: Vec<_> = agent.seen().iter().map(Message::json).filter(|call| call["method"] == "SendMessage").collect();
    let shown = said(&sends[1]);
    assert!(shown.contains("Take your time") && shown.contains("At last."), "the turn was recorded: {shown}");
    let got = heir.call("/", &call("GetTask", json!({ "id": task }))).await;
    assert_eq!(state(&got).0, "COMPLETED", "{got}");
}

#[tokio::test]
async fn while_redis_is_away_sends_are_refused_in_time_and_recover_by_themselves() {
    let server = Server::start("redis-server", free_port(), &["--save", ""]);
    let (relay, agent) = (Relay::to(server.port).await, Agent::saying(clerk));
    let [proxy] = proxies::<1>(&format!("redis://127.0.0.1:{}", relay.port), &agent).await;
    assert_eq!(state(&proxy.call("/", &send("c", None, "Hello")).await).0, "COMPLETED");
    let mut turns = 1;
    for way in [Way::Cut, Way::Silent, Way::Open(Duration::from_secs(5))] {
        relay.set(way);
        let (begun, proxy) = (Instant::now(), &proxy);
        let sends = (0..30).map(|at| async move {
            let answer = proxy.call("/", &send(&format!("other-{at}"), None, "Hello?")).await;
            (answer, begun.elapsed())
        });
        for (answer, took) in soon("the refusals", join_all(sends)).await {
            assert_eq!(reason(&answer), "STORE_UNAVAILABLE", "{way:?}: {answer}");
            assert!(took < Duration::from_millis(2500), "{way:?}: {took:?}");
        }
        assert_eq!(agent.seen().len(), turns, "{way:?}: the agent was called without a record");
        // What needs no store goes on.
        let card = proxy.ask(&super::wire::Request::get("/.well-known/agent-card.json")).await;
        assert_eq!(card.status(), 200);
        relay.set(Way::Open(Duration::ZERO));
        let begun = Instant::now();
        loop {
            let answer = proxy.call("/", &send("c", None, "I am back")).await;
            if state(&answer).0 == "COMPLETED" {
                break;
            }
            // A begin whose answer was lost on the way keeps the context for as long as its lease.
            let refused = reason(&answer) == "STORE_UNAVAILABLE" || state(&answer).0 == "FAILED";
            assert!(refused, "{way:?}: {answer}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{way:?}: it did not come back");
        }
        let shown = said(&agent.last().json());
        assert_eq!(shown.matches("\"I am back\"").count(), turns - 1, "{shown}");
        turns += 1;
    }
}

/// What was told to clients as done, by context.
type Told = Arc<std::sync::Mutex<Vec<(String, String)>>>;

/// Redis killed at moments that nobody chose, while two proxies send. `rounds` of them.
async fn nothing_acknowledged_is_lost(program: &'static str, rounds: usize) {
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    let (mut server, agent) = (Server::start(program, free_port(), &durable), Agent::saying(clerk));
    let proxies = Arc::new(proxies::<2>(&server.url(), &agent).await);
    let (told, done) = (Told::default(), Arc::new(AtomicUsize::new(0)));
    let senders: Vec<_> = (0..6)
        .map(|sender| {
            let (proxies, told, done) = (proxies.clone(), told.clone(), done.clone());
            tokio::spawn(async move {
                let context = format!("c{sender}");
                for number in 0.. {
                    if done.load(Ordering::SeqCst) >= rounds {
                        return;
                    }
                    let text = format!("{sender}-{number}.");
                    let answer = proxies[number % 2].call("/", &send(&context, None, &text)).await;
                    if state(&answer).0 == "COMPLETED" {
                        told.lock().unwrap().push((context.clone(), text));
                    }
                }
            })
        })
        .collect();
    for round in 1..=rounds {
        let before = told.lock().unwrap().len();
        let more = 5 + (round * 7) % 11;
        soon("turns", async {
            while told.lock().unwrap().len() < before + more {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        server.kill();
        server.restart();
        done.store(round, Ordering::SeqCst);
    }
    for sender in senders {
        soon("a sender", sender).await.unwrap();
    }
    let store = connect(&server.url(), Settings::default()).await.unwrap();
    let told = told.lock().unwrap().clone();
    assert!(told.len() > 5 * rounds);
    for sender in 0..6 {
        let context_id = format!("c{sender}");
        let key = ContextKey {
            route: RouteId::default(),
            principal: Principal::default(),
            context_id: context_id.as_str().into(),
        };
        let kept = store.context(&key).await.unwrap().map(|found| found.context.clone()).unwrap_or_default();
        let said = |turn: &a2a_multiturn::conversation::transcript::Turn| format!("{:?}", turn.user.parts);
        let kept: Vec<_> = kept.turns.iter().map(|turn| said(&turn.turn().unwrap())).collect();
        for (_, text) in told.iter().filter(|(context, _)| *context == context_id) {
            let found = kept.iter().filter(|said| said.contains(&format!("\"{text}\""))).count();
            assert_eq!(found, 1, "{text} in {context_id}: {kept:?}");
        }
    }
    eprintln!("{program}: {} acknowledged turns, {rounds} kills, none lost", told.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_redis() {
    nothing_acknowledged_is_lost("redis-server", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the long run of what_was_acknowledged_outlives_redis"]
async fn what_was_acknowledged_outlives_redis_and_valkey_for_long() {
    for program in server::PROGRAMS {
        nothing_acknowledged_is_lost(program, 60).await;
    }
}
