//! Ways past guard and identity through what servers read into a path, a method, or a header.

use http::Method;
use serde_json::json;

use super::agent::{Answer, BOTH, Spelling, stage};
use crate::support::{Agent, Proxy, json_response};

/// An agent that takes anything for anything.
fn gullible() -> Agent {
    Agent::scripted(|_| async {
        Ok(json_response(
            &json!({ "task": { "id": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
        ))
    })
}

#[tokio::test]
async fn no_spelling_reaches_the_agent_unseen() {
    let agent = gullible();
    let proxy = Proxy::new(&agent);
    let message = Spelling::V10.message("x", json!({})).to_string();
    for path in [
        "/MESSAGE:SEND",
        "/rest/Message:send",
        "/message%3Asend",
        "/%6Dessage:send",
        "/message:send/",
        "//message:send",
        "/rest//message:send",
        "/rest/./message:send",
        "/rest/x/../message:send",
        "/rest/x/%2e%2E/message:send",
        "/x%2Fmessage:send",
        "/x%5Cmessage:send",
        "/tasks/theirs:CANCEL",
        "/tasks/theirs%3Acancel",
        "/tasks%2Ftheirs:cancel",
        "/Tasks/theirs:cancel",
        "/tasks/theirs/PUSHNotificationConfigs",
    ] {
        let answer = Answer::of(proxy.response_to(Method::POST, path, message.clone()).await).await;
        assert!(matches!(answer.status, 404 | 405), "{path}: {answer:?}");
    }
    for path in
        ["/TASKS", "/tasks/", "/tasks/theirs/", "/tasks%2Ftheirs", "/tasks/a%3Asubscribe", "/rest/V1/Card", "/v1/card/"]
    {
        let answer = Answer::of(proxy.response_to(Method::GET, path, "").await).await;
        assert!(matches!(answer.status, 404 | 405), "{path}: {answer:?}");
    }
    let odd = ["get", "Get", "HEAD", "PUT", "PATCH", "DELETE", "TRACE"];
    for method in odd.map(|name| Method::from_bytes(name.as_bytes()).unwrap()) {
        let answer = Answer::of(proxy.response_to(method.clone(), "/tasks/theirs", "").await).await;
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
    }
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        for (method, path) in
            [(Method::POST, "/tasks"), (Method::GET, "/tasks/theirs"), (Method::POST, "/rest/message:send")]
        {
            let overriding = proxy.with_header(name, "GET");
            let answer = Answer::of(overriding.response_to(method, path, message.clone()).await).await;
            assert_eq!(answer.status, 400, "{name} {path}: {answer:?}");
        }
    }
    assert_eq!(agent.calls(), 0, "{:?}", agent.seen());
    // Whose path is no operation's passes.
    let other = proxy.with_header("x-http-method-override", "GET");
    assert_eq!(Answer::of(other.response_to(Method::GET, "/health", "").await).await.status, 200);
}

#[tokio::test]
async fn another_s_task_does_not_exist() {
    for spelling in BOTH {
        let (agent, ada) = stage(spelling);
        let mut eve = ada.clone();
        eve.proxy = ada.proxy.as_principal("eve");
        let task = ada.send("Which city do you mean?", json!({ "contextId": "c" })).await;
        let id = task["id"].as_str().unwrap();
        let calls = agent.calls();
        let unknown = eve.get("/tasks/none").await;
        for operation in
            [format!("/tasks/{id}"), format!("/tasks/{id}?id={id}"), format!("/tasks/{id}?name=tasks/{id}")]
        {
            let answer = eve.get(&operation).await;
            assert_eq!((answer.status, &answer.raw), (404, &unknown.raw), "{operation}");
        }
        for operation in [format!("/tasks/{id}:cancel"), format!("/tasks/{id}:subscribe"), "/tasks/none:cancel".into()]
        {
            let answer = eve.post(&operation, &json!({ "id": id, "name": format!("tasks/{id}") })).await;
            assert_eq!((answer.status, &answer.raw), (404, &unknown.raw), "{operation}");
        }
        assert_eq!(eve.post("/message:send", &spelling.message("x", json!({ "taskId": id }))).await.raw, unknown.raw);
        assert_eq!(agent.calls(), calls);
        // The same contextId is another conversation.
        eve.send("Hello.", json!({ "contextId": "c" })).await;
        assert!(!agent.last().text().contains("Which city"), "{}", agent.last().raw);
        let page = eve.get("/tasks").await;
        assert!(!page.raw.contains(&format!("\"id\":\"{id}\"")), "{page:?}");
    }
}

#[tokio::test]
async fn what_the_guard_sees_does_not_hang_on_the_path_s_prefix() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        client.send("!working", json!({ "contextId": "c" })).await;
        let message = spelling.message("x", json!({ "contextId": "c" })).to_string();
        let tail = if spelling == Spelling::V03 { "/v1" } else { "" };
        for prefix in ["/rest", "", "/tenant-1", "/rest/tenant%201", "/a/b/c"] {
            let path = format!("{prefix}{tail}/message:send");
            let answer = Answer::of(client.proxy.response_to(Method::POST, &path, message.clone()).await).await;
            assert_eq!(answer.json()["task"]["status"]["state"], "TASK_STATE_FAILED", "{path}: {answer:?}");
        }
        assert_eq!(agent.sends().len(), 1);
    }
}

#[tokio::test]
async fn a_send_that_is_no_json_is_refused_and_not_passed() {
    let agent = gullible();
    let proxy = Proxy::new(&agent);
    for body in ["", "message=x", "[]", "3", "\"x\"", "{\"message\":1,\"message\":{}}", "{\"Message\":{}}"] {
        for path in ["/message:send", "/v1/message:stream"] {
            let answer = Answer::of(proxy.response_to(Method::POST, path, body).await).await;
            assert!(matches!(answer.status, 400 | 422), "{path} {body}: {answer:?}");
        }
    }
    assert_eq!(agent.calls(), 0);
}
