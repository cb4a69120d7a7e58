//! Streams in the shapes in which the SDKs' servers send them.

use serde_json::{Value, json};

use super::stage::{event, stream_03};

/// A recorded stream, and what is to come of it.
pub struct Recording {
    pub name: &'static str,
    pub raw: String,
    pub method: &'static str,
    /// Text of the artifact `response` as the client has it.
    pub text: &'static str,
    pub closing: &'static str,
}

const ASKS: &str = "Which city do you mean? 你好 🙂 é";

impl Recording {
    pub fn request(&self, ids: Value) -> Value {
        let mut request = stream_03("book a room", ids);
        request["method"] = json!(self.method);
        request
    }

    /// The task as the agent has it when it has ended.
    pub fn task(&self, state: &str) -> Value {
        if self.method == "SendStreamingMessage" {
            let state = format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_"));
            let artifacts = json!([{ "artifactId": "response", "name": "response", "parts": [{ "text": ASKS }] }]);
            return json!({ "id": "t-1", "contextId": "agent-context", "status": { "state": state }, "artifacts": artifacts });
        }
        let artifacts =
            json!([{ "artifactId": "response", "name": "response", "parts": [{ "kind": "text", "text": ASKS }] }]);
        json!({ "kind": "task", "id": "t-1", "contextId": "agent-context", "status": { "state": state }, "artifacts": artifacts })
    }
}

fn events_03() -> Vec<Value> {
    let piece = |text: &str, append: bool| {
        json!({
            "append": append, "artifact": { "artifactId": "response", "name": "response", "parts": [{ "kind": "text", "text": text }] },
            "contextId": "agent-context", "kind": "artifact-update", "lastChunk": false, "taskId": "t-1",
        })
    };
    let status = |state: &str, last: bool| {
        json!({
            "contextId": "agent-context", "final": last, "kind": "status-update", "taskId": "t-1",
            "status": { "state": state, "timestamp": "2026-11-30T19:52:15.677141+00:00" },
        })
    };
    let history = json!([{
        "contextId": "agent-context", "kind": "message", "messageId": "m-1", "parts": [{ "kind": "text", "text": "book a room" }],
        "role": "user", "taskId": "t-1",
    }]);
    vec![
        json!({ "contextId": "agent-context", "history": history, "id": "t-1", "kind": "task", "status": { "state": "submitted" } }),
        status("working", false),
        piece(&ASKS[..8], false),
        piece(&ASKS[8..20], true),
        piece(&ASKS[20..], true),
        status("completed", true),
    ]
}

fn events_10() -> Vec<Value> {
    let piece = |text: &str, append: bool| {
        let mut update = json!({
            "taskId": "t-1", "contextId": "agent-context",
            "artifact": { "artifactId": "response", "name": "response", "parts": [{ "text": text }] },
        });
        if append {
            update["append"] = json!(true);
        }
        json!({ "artifactUpdate": update })
    };
    let status = |state: &str| {
        json!({ "statusUpdate": {
            "taskId": "t-1", "contextId": "agent-context", "status": { "state": state, "timestamp": "2026-11-30T19:52:23.349791Z" },
        } })
    };
    vec![
        json!({ "task": { "id": "t-1", "contextId": "agent-context", "status": { "state": "TASK_STATE_SUBMITTED" } } }),
        status("TASK_STATE_WORKING"),
        piece(&ASKS[..8], false),
        piece(&ASKS[8..20], true),
        piece(&ASKS[20..], true),
        status("TASK_STATE_COMPLETED"),
    ]
}

/// With CRLF, a ping, the id in front, and every character beyond ASCII as it is.
fn python(events: &[Value]) -> String {
    let mut raw = String::new();
    for (at, result) in events.iter().enumerate() {
        raw += &format!("data: {{\"id\": 1, \"jsonrpc\": \"2.0\", \"result\": {result}}}\r\n\r\n");
        if at == 1 {
            raw += ": ping - 2026-11-30 19:52:16.123456+00:00\r\n\r\n";
        }
    }
    raw
}

/// Pretty-printed: an event of many lines.
fn pretty(events: &[Value]) -> String {
    let mut raw = String::new();
    for result in events {
        let text = serde_json::to_string_pretty(&json!({ "id": 1, "jsonrpc": "2.0", "result": result })).unwrap();
        raw += &text.lines().map(|line| format!("data: {line}\n")).collect::<String>();
        raw += "\n";
    }
    raw
}

pub fn all() -> Vec<Recording> {
    let recording = |name, raw, method| {
        let closing = if method == "message/stream" { "input-required" } else { "TASK_STATE_INPUT_REQUIRED" };
        Recording { name, raw, method, text: ASKS, closing }
    };
    vec![
        recording("python of 0.3", python(&events_03()), "message/stream"),
        recording("javascript of 0.3", events_03().iter().map(event).collect(), "message/stream"),
        recording("python of 1.0", python(&events_10()), "SendStreamingMessage"),
        recording("javascript of 1.0", events_10().iter().map(event).collect(), "SendStreamingMessage"),
        recording("many lines", pretty(&events_03()), "message/stream"),
    ]
}
