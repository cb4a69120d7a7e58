//! The official client of 0.3 takes a task behind any other event of a stream for an error: it is told the same in other events.

use http::Response;
use serde_json::{Value, json};

use super::stage::stream_03;
use crate::support::{Agent, Proxy, body};

fn task(state: &str, text: Option<&str>) -> Value {
    let mut task = json!({ "kind": "task", "id": "u", "contextId": "c", "status": { "state": state } });
    if let Some(text) = text {
        task["artifacts"] = json!([{ "artifactId": "response", "parts": [{ "kind": "text", "text": text }] }]);
    }
    task
}

fn piece(text: &str) -> Value {
    let artifact = json!({ "artifactId": "response", "parts": [{ "kind": "text", "text": text }] });
    json!({ "kind": "artifact-update", "taskId": "u", "contextId": "c", "append": false, "lastChunk": false, "artifact": artifact })
}

async fn told(events: Vec<Value>) -> (Vec<Value>, String) {
    let stream: String = events
        .iter()
        .map(|event| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": event })))
        .collect();
    let agent = Agent::scripted(move |seen| {
        let mut response = Response::new(body(stream.clone()));
        if seen.before == 0 {
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        }
        async move { Ok(response) }
    });
    let proxy = Proxy::new(&agent);
    let told = proxy.events(&stream_03("hi", json!({ "contextId": "c" }))).await;
    proxy.call(&crate::support::send_03("next", json!({ "contextId": "c" }))).await;
    (told.into_iter().map(|event| event["result"].clone()).collect(), agent.last().text())
}

#[tokio::test]
async fn of_a_second_task_the_client_gets_what_it_has_not_seen() {
    for events in [
        vec![
            task("submitted", None),
            piece("Hello"),
            task("working", Some("Hello")),
            task("completed", Some("Hello, Ada.")),
        ],
        vec![task("submitted", None), task("completed", Some("Hello, Ada."))],
        vec![piece("Hello"), task("completed", Some("Hello, Ada."))],
    ] {
        let first_is_task = events[0]["kind"] == "task";
        let (told, next) = told(events).await;
        let tasks = told.iter().filter(|event| event["kind"] == "task").count();
        assert_eq!(tasks, usize::from(first_is_task), "{told:?}");
        let last = told.last().unwrap();
        assert_eq!(
            (&last["kind"], &last["status"]["state"], &last["final"]),
            (&json!("status-update"), &json!("completed"), &json!(true))
        );
        let text: String = told.iter().filter_map(|event| event["artifact"]["parts"][0]["text"].as_str()).collect();
        assert_eq!(text, "Hello, Ada.", "{told:?}");
        assert!(next.contains("\"text\":\"Hello, Ada.\""), "{next}");
    }
}
