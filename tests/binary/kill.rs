//! `kill -9` under load: whatever a client was told is there when the proxy is up again, once and whole, and nothing is locked.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::agent::{Agent, Answer, mixed_card, said};
use super::process::Proxy;
use super::wire::{Message, Request, Wire};
use crate::support::{get_03, send_03};

const CONTEXTS: usize = 6;
/// Fewer than the agent is shown, so that it is shown all.
const TURNS: usize = 30;

/// An agent that says what it was told, asks, answers later, and streams, as the message says; and knows its own tasks.
fn agent() -> Agent {
    let tasks = Arc::<Mutex<HashMap<String, Value>>>::default();
    Agent::start(move |request: Message| {
        let tasks = Arc::clone(&tasks);
        async move { answer(&request, &mut tasks.lock().unwrap()) }
    })
}

fn answer(request: &Message, tasks: &mut HashMap<String, Value>) -> Answer {
    if request.method() == "GET" {
        return Answer::json(&mixed_card(&format!("http://{}/", request.header("host").unwrap_or_default())));
    }
    let call = request.json();
    let result = |task: &Value| json!({ "jsonrpc": "2.0", "id": call["id"], "result": task });
    if call["method"] == "tasks/get" {
        let known = call["params"]["id"].as_str().and_then(|id| tasks.get(id));
        let unknown = json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": -32001, "message": "unknown" } });
        return Answer::json(&known.map_or(unknown, result));
    }
    let text = said(&call);
    let text = text.rsplit('\n').next().unwrap_or_default();
    let reply =
        if text.starts_with("ask") { format!("re {text}. Which one do you want?") } else { format!("re {text}") };
    let (id, context) = (uuid::Uuid::new_v4().to_string(), call["params"]["message"]["contextId"].clone());
    let mut task = json!({
        "kind": "task", "id": id, "contextId": context, "status": { "state": "completed" },
        "artifacts": [{ "artifactId": "response", "parts": [{ "kind": "text", "text": reply }] }],
    });
    tasks.insert(id.clone(), task.clone());
    if call["method"] == "message/stream" {
        let working = json!({ "kind": "task", "id": id, "contextId": context, "status": { "state": "working" } });
        let piece =
            json!({ "kind": "artifact-update", "taskId": id, "contextId": context, "artifact": task["artifacts"][0] });
        let end = json!({ "kind": "status-update", "taskId": id, "contextId": context, "final": true, "status": { "state": "completed" } });
        let events =
            [working, piece, end].iter().map(|event| format!("data: {}\n\n", result(event))).collect::<String>();
        return Answer::of(200, "text/event-stream", events);
    }
    if text.starts_with("later") {
        // Its end is there for whoever asks.
        task["status"]["state"] = "working".into();
        task["artifacts"] = json!([]);
    }
    Answer::json(&result(&task))
}

/// What a client was told of a turn.
#[derive(Clone, Debug)]
struct Told {
    text: String,
    task: String,
    state: String,
}

/// What clients sent and were told, by context.
type Record = Arc<Mutex<BTreeMap<String, (Vec<String>, Vec<Told>)>>>;

/// One after the other in one context, until the proxy is gone.
async fn talk(proxy: std::net::SocketAddr, context: String, seed: usize, record: Record) {
    let Ok(stream) = tokio::net::TcpStream::connect(proxy).await else { return };
    let mut wire = Wire::over(stream);
    let mut open: Option<String> = None;
    for turn in 0..TURNS {
        let kind = ["say", "ask", "later", "say"][(seed + turn) % 4];
        let text = format!("{kind} {context} {turn}");
        record.lock().unwrap().entry(context.clone()).or_default().0.push(text.clone());
        let mut ids = json!({ "contextId": context });
        if let Some(task) = open.take() {
            ids["taskId"] = task.into();
        }
        let mut call = send_03(&text, ids);
        if kind == "say" && turn % 2 == 1 {
            call["method"] = "message/stream".into();
        }
        let Some(answer) = wire.try_ask(&Request::call("/", &call)).await else { return };
        let (task, mut state) = ended(&answer);
        if state == "working" {
            // Its end is asked for, as clients do.
            record.lock().unwrap().get_mut(&context).unwrap().1.push(Told {
                text: text.clone(),
                task: task.clone(),
                state,
            });
            let Some(polled) = wire.try_ask(&Request::call("/", &get_03(&task))).await else { return };
            state = ended(&polled).1;
            record.lock().unwrap().get_mut(&context).unwrap().1.pop();
        }
        assert!(state != "failed" && !task.is_empty(), "{text}: {}", answer.text());
        open = (state == "input-required").then(|| task.clone());
        record.lock().unwrap().get_mut(&context).unwrap().1.push(Told { text, task, state });
    }
}

/// The task and the state that an answer ends with.
fn ended(answer: &Message) -> (String, String) {
    let text = answer.text();
    let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text);
    let answer: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}"));
    let result = &answer["result"];
    let id = result["taskId"].as_str().or(result["id"].as_str()).unwrap_or_default();
    (id.to_owned(), result["status"]["state"].as_str().unwrap_or_default().to_owned())
}

/// What the agent was shown of a conversation: for each turn what the user said and what it replied itself.
fn shown(request: &Message) -> Vec<(String, String)> {
    let mut turns = BTreeMap::<u64, (String, String)>::new();
    for line in said(&request.json()).lines().filter(|line| line.starts_with("{\"turn\"")) {
        let line: Value = serde_json::from_str(line).unwrap();
        let turn = turns.entry(line["turn"].as_u64().unwrap()).or_default();
        let side = if line["from"] == "user" { &mut turn.0 } else { &mut turn.1 };
        assert!(side.is_empty(), "a side of a turn twice: {line}");
        *side = line["text"].as_str().unwrap().to_owned();
    }
    turns.into_values().collect()
}

/// Sends a message; again where it is refused because of a turn that was not settled, as often as a second passes in a lease.
async fn probe(wire: &mut Wire, ids: &Value) -> (String, String, String) {
    for _ in 0..30 {
        let answer = wire.ask(&Request::call("/", &send_03("probe", ids.clone()))).await;
        if !answer.text().contains("context_busy") {
            let (task, state) = ended(&answer);
            return (task, state, answer.text());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("locked for longer than a lease: {ids}");
}

/// Holds what is there against what was told.
async fn verify(proxy: &Proxy, agent: &Agent, context: &str, sent: &[String], all: &[Told]) {
    let mut wire = proxy.connect().await;
    for told in all {
        let answer = wire.ask(&Request::call("/", &get_03(&told.task))).await.json();
        assert_eq!(answer["result"]["id"], *told.task, "{told:?}: {answer}");
        assert!(
            answer.to_string().contains(&format!("re {}", told.text)) || told.state == "working",
            "{told:?}: {answer}"
        );
    }
    let last = all.last();
    let open = last.filter(|last| last.state == "input-required" && sent.last() == Some(&last.text));
    let ids = match open {
        Some(open) => json!({ "contextId": context, "taskId": open.task }),
        None => json!({ "contextId": context }),
    };
    let (task, state, answer) = probe(&mut wire, &ids).await;
    assert_eq!(state, "completed", "it is locked, or its question is not open: {answer}");
    if let Some(open) = open {
        assert_eq!(task, open.task, "an open question is answered on its task");
    }
    let shown = shown(&agent.last());
    let said: Vec<_> = shown.iter().map(|turn| turn.0.clone()).collect();
    assert_eq!(said.iter().collect::<HashSet<_>>().len(), said.len(), "a turn twice in {context}: {said:#?}");
    for (user, own) in &shown {
        assert!(own.starts_with(&format!("re {user}")), "half a turn in {context}: {user:?}, {own:?}");
    }
    // In the order sent; of what was not told, at most the last.
    let expected: Vec<_> = sent.iter().filter(|text| said.contains(text)).cloned().collect();
    assert_eq!(said, expected);
    let missing: Vec<_> = all.iter().filter(|told| !said.contains(&told.text)).collect();
    assert!(missing.is_empty(), "told and not there in {context}: {missing:#?}");
}

async fn rounds(count: usize) {
    let (folder, agent) = (TempDir::new().unwrap(), agent());
    let store = format!("disk:{}", folder.path().join("store").display());
    let (mut last, mut turns) = (Record::default(), 0);
    for round in 0..=count {
        let mut proxy = Proxy::keeping(&agent.url(), &store).await;
        let before = std::mem::take(&mut *last.lock().unwrap());
        for (context, (sent, told)) in &before {
            verify(&proxy, &agent, context, sent, told).await;
            turns += told.len();
        }
        let record = Record::default();
        let mut clients = JoinSet::new();
        for client in 0..CONTEXTS {
            clients.spawn(talk(proxy.address, format!("c-{round}-{client}"), round + client, Arc::clone(&record)));
        }
        // Not in step with anything: from before the first turn to long after.
        tokio::time::sleep(Duration::from_millis((round as u64 * 7919) % 400)).await;
        proxy.signal("-9");
        proxy.ended().await;
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        last = record;
    }
    eprintln!("{count} rounds, {turns} turns that were told");
    assert!(turns > count, "too little was told to say anything: {turns} turns");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_outlives_kill_9() {
    rounds(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the long run of what_was_told_outlives_kill_9"]
async fn what_was_told_outlives_kill_9_two_hundred_times() {
    rounds(200).await;
}
