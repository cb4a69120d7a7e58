//! Proxies and servers killed.

use std::sync::Arc;
use std::time::Instant;

use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use a2a_multiturn::store::Store;
use a2a_multiturn::store::redis::{Settings, connect};

use super::server::{Server, free_port};
use super::*;
use crate::binary::agent::mixed_card;
use crate::binary::wire::{Request, soon};

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
    let asked = Request::call("/", &send("c", None, "Hello"));
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

/// Without a file that is written the same loses what it was told: the kill is one, and the test above can fail.
#[tokio::test]
async fn a_redis_that_keeps_no_file_forgets_and_the_proxy_goes_on() {
    let mut server = Server::start("redis-server", free_port(), &["--save", "", "--appendonly", "no"]);
    let agent = Agent::saying(clerk);
    let [proxy] = proxies::<1>(&server.url(), &agent).await;
    assert_eq!(state(&proxy.call("/", &send("c", None, "My name is Ada")).await).0, "COMPLETED");
    server.kill();
    server.restart();
    let (answer, _) = sent_after(&proxy, "c").await;
    assert_eq!(state(&answer).0, "COMPLETED", "{answer}");
    assert_eq!(said(&agent.last().json()), "Go on");
}
