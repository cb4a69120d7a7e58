//! Ways by which the guard, or the separation of callers, was once passed by, and places where the record was once seen.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{Agent, Proxy, artifact_03, get_03, is_busy, send_03, task_03};

/// The status and body of the answer to a POST whose content type is `content_type`.
async fn posted(proxy: &Proxy, method: &str, content_type: &str, body: impl Into<Bytes>) -> (u16, String) {
    let request = Request::builder().method(method).uri("/").header("content-type", content_type);
    let answer = proxy.service().oneshot(request.body(Full::new(body.into())).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn a_call_in_a_spelling_that_only_the_agent_reads_is_refused() {
    let agent = Agent::saying(|_| "done".into());
    let proxy = Proxy::new(&agent);
    let message = |name: &str| send_03("q", json!({ "contextId": "c", name: "theirs" })).to_string();
    let configured = |name: &str| {
        let mut send = send_03("q", json!({ "contextId": "c" }));
        send["params"]["configuration"] = json!({ name: { "url": "http://elsewhere.example" } });
        send.to_string()
    };
    let get = r#"{"id":1,"method":"tasks/get","params":{"id":"u-1","ID":"theirs"}}"#.to_owned();
    let send = message("x");
    for (request, code) in [
        (send.replace("\"method\"", "\"Method\""), -32600),
        (send.replace("\"method\"", "\"METHO\\u0044\""), -32600),
        (send.replace("\"params\"", "\"Params\""), -32600),
        (get, -32602),
        (message("task_id"), -32602),
        (message("TaskID"), -32602),
        (message("ta\u{17f}kId"), -32602),
        (message("context_id"), -32602),
        (message("reference_task_ids"), -32602),
        (configured("push_notification_config"), -32602),
        (configured("taskPushNotificationconfig"), -32602),
    ] {
        let answer: Value = serde_json::from_str(&proxy.raw(request.clone()).await).unwrap();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!(1)), "{request}");
    }
    assert_eq!(agent.calls(), 0);
    // What only looks alike passes.
    let answer = proxy.call(&send_03("q", json!({ "contextId": "c", "task_id": null, "tasks": 1 }))).await;
    assert!(answer.get("result").is_some(), "{answer}");
}
