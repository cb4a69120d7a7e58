//! Anything at all, in requests and in replies: no panic, no lease left, an answer with the request's own id.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::*;

const WORDS: &[&str] = &[
    "",
    "c",
    "u-1",
    "u-2",
    "task",
    "message",
    "status-update",
    "completed",
    "input-required",
    "auth-required",
    "working",
    "failed",
    "user",
    "agent",
    "ROLE_AGENT",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_AUTH_REQUIRED",
    "text",
    "response",
    "Which one?",
    "[INPUT_REQUIRED]",
    "\u{0}",
    "é\u{2028}",
    "message/send",
    "SendMessage",
    "tasks/get",
    "[record of earlier turns x]",
    "\"}]",
];

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1e300)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        "id",
        "kind",
        "contextId",
        "taskId",
        "messageId",
        "status",
        "state",
        "message",
        "parts",
        "text",
        "data",
        "file",
        "bytes",
        "raw",
        "url",
        "artifacts",
        "artifactId",
        "history",
        "metadata",
        "role",
        "task",
        "result",
        "error",
        "params",
        "configuration",
        "historyLength",
        "referenceTaskIds",
        "content",
        "name",
        URI,
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

/// A change to a document: at its n-th value.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, Value),
    Remove(usize),
    Add(usize, String, Value),
    Wrap(usize),
    /// In the text: a piece of it once more, somewhere else. So names come to stand twice.
    Repeat(usize, usize, usize),
    /// In the text: a piece of it is gone.
    Cut(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..80usize;
    prop_oneof![
        4 => (at.clone(), any_json()).prop_map(|(at, value)| Change::Replace(at, value)),
        3 => at.clone().prop_map(Change::Remove),
        3 => (at.clone(), name(), any_json()).prop_map(|(at, name, value)| Change::Add(at, name, value)),
        1 => at.prop_map(Change::Wrap),
        1 => (0..2000usize, 0..40usize, 0..2000usize).prop_map(|(from, len, to)| Change::Repeat(from, len, to)),
        1 => (0..2000usize, 0..20usize).prop_map(|(from, len)| Change::Cut(from, len)),
    ]
}

/// Calls `act` with the n-th value, counted from the outside in. Whether it is to be removed from what holds it.
fn visit(value: &mut Value, n: &mut usize, act: &mut dyn FnMut(&mut Value) -> bool) -> bool {
    if *n == 0 {
        *n = usize::MAX;
        return act(value);
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.retain_mut(|item| *n == usize::MAX || !visit(item, n, act)),
        Value::Object(members) => members.retain(|_, item| *n == usize::MAX || !visit(item, n, act)),
        _ => {}
    }
    false
}

fn changed(mut value: Value, changes: &[Change]) -> String {
    let mut text = Vec::new();
    for change in changes {
        match change.clone() {
            Change::Replace(mut n, with) => {
                _ = visit(&mut value, &mut n, &mut |at| {
                    *at = with.clone();
                    false
                })
            }
            Change::Remove(mut n) => _ = visit(&mut value, &mut n, &mut |_| true),
            Change::Add(mut n, name, with) => {
                visit(&mut value, &mut n, &mut |at| {
                    match at {
                        Value::Object(members) => _ = members.insert(name.clone(), with.clone()),
                        Value::Array(items) => items.push(with.clone()),
                        _ => {}
                    }
                    false
                });
            }
            Change::Wrap(mut n) => {
                _ = visit(&mut value, &mut n, &mut |at| {
                    *at = json!([at.take()]);
                    false
                })
            }
            in_text => text.push(in_text),
        }
    }
    let mut bytes = value.to_string().into_bytes();
    for change in text {
        match change {
            Change::Repeat(from, len, to) => {
                let (from, to) = (from % bytes.len().max(1), to % bytes.len().max(1));
                let piece = bytes[from..(from + len).min(bytes.len())].to_vec();
                bytes.splice(to..to, piece);
            }
            Change::Cut(from, len) => {
                let from = from % bytes.len().max(1);
                bytes.drain(from..(from + len).min(bytes.len()));
            }
            _ => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn requests() -> Vec<Value> {
    let mut full = send_03(
        "q",
        json!({ "contextId": "c", "taskId": "u-1", "referenceTaskIds": ["u-1"], "metadata": { URI: { "inline": true } } }),
    );
    full["params"]["configuration"] = json!({ "historyLength": 2 });
    full["params"]["message"]["parts"] = json!([{ "kind": "text", "text": "q" }, { "kind": "file", "file": { "bytes": "aGk=" } }, { "kind": "data", "data": {} }]);
    vec![
        send_03("q", json!({ "contextId": "c" })),
        full,
        send_10("q", json!({ "contextId": "c", "taskId": "u-1" })),
        send_03("q", json!({})),
        get_03("u-1"),
        cancel_03("u-1"),
        list_10(json!({ "pageSize": 2, "contextId": "c" })),
    ]
}

fn replies() -> Vec<Value> {
    let said = json!({ "kind": "message", "messageId": "s", "role": "agent", "parts": [{ "kind": "text", "text": "Which one? [INPUT_REQUIRED]" }] });
    let user =
        json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "q" }] });
    let status = |state: &str| json!({ "state": state, "message": said });
    let task = |state: &str| {
        json!({ "jsonrpc": "2.0", "id": 1, "result": task_03("u-2", "x", json!({
        "status": status(state), "history": [user, said], "metadata": {}, "artifacts": [artifact_03("response", "Which one?"), artifact_03("b", "x")] })) })
    };
    vec![
        task("completed"),
        task("input-required"),
        task("auth-required"),
        task("working"),
        json!({ "jsonrpc": "2.0", "id": 1, "result": said }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": { "messageId": "s", "role": "ROLE_AGENT", "parts": [{ "text": "Which?" }] } } }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": { "id": "u-2", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" }, "artifacts": [] } } }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32603, "message": "no" } }),
    ]
}

const OURS: [&str; 6] = ["message/send", "SendMessage", "tasks/get", "tasks/cancel", "ListTasks", "GetTask"];

async fn survives(request: &str, reply: String) {
    let next = Arc::new(Mutex::new(None));
    let hostile = Arc::clone(&next);
    let agent = Agent::scripted(move |seen| {
        let answer = match hostile.lock().unwrap().take() {
            Some(hostile) => hostile,
            None if seen.is_send() => {
                json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": completed(&seen, "Which one?") }).to_string()
            }
            None => json!({ "jsonrpc": "2.0", "id": seen.json["id"], "error": { "code": -32001, "message": "nf" } })
                .to_string(),
        };
        async move { Ok(http::Response::new(body(answer))) }
    });
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    proxy.send("ask", json!({ "contextId": "c" })).await;
    *next.lock().unwrap() = Some(reply.clone());
    let raw = proxy.raw(request.to_owned()).await;
    let calls = agent.calls();
    *next.lock().unwrap() = None;
    let asked: Option<Value> = serde_json::from_str(request).ok();
    let asked = asked.filter(|asked| asked["method"].as_str().is_some_and(|method| OURS.contains(&method)));
    if let Some(asked) = asked {
        let answer: Value =
            serde_json::from_str(&raw).unwrap_or_else(|_| panic!("no JSON: {raw}\nto {request}\nthrough {reply}"));
        let id = asked.get("id").filter(|id| !id.is_object() && !id.is_array() && !id.is_boolean()).cloned();
        let twice = answer["error"]["message"].as_str().is_some_and(|why| why.contains("stands twice"));
        assert!(twice || answer.get("id") == Some(&id.unwrap_or(Value::Null)), "{raw}\nto {request}\nthrough {reply}");
        assert_ne!(answer["error"]["message"], "internal error", "to {request}\nthrough {reply}");
        let _ = calls;
    }
    for _ in 0..2 {
        clock.forward(2000);
        let after = proxy.call(&send_03("after", json!({ "contextId": "c" }))).await;
        assert!(after["error"].is_null() && !is_busy(&after), "{after}\nafter {request}\nthrough {reply}");
    }
    proxy.layer.drained().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_and_no_reply_does_harm(
        request in prop::sample::select(requests()),
        reply in prop::sample::select(replies()),
        asked in prop::collection::vec(change(), 0..3),
        said in prop::collection::vec(change(), 0..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(survives(&changed(request, &asked), changed(reply, &said)));
    }
}
