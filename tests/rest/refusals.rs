//! How a refusal is told over HTTP+JSON: by a status that all official clients read, and a body of the dialect.

use a2a_multiturn::conversation::policy::{Policy, Reject};
use http::Method;
use serde_json::{Value, json};

use super::agent::{Answer, BOTH, Client, Spelling, agent, stage};
use crate::support::{Agent, Proxy};

fn check(spelling: Spelling, answer: &Answer, statuses: (u16, u16), code: i32, reason: &str) {
    let json = answer.json();
    let (status, details) = match spelling {
        Spelling::V10 => {
            assert_eq!(json["error"]["code"], answer.status, "{answer:?}");
            assert_eq!(answer.header("content-type"), "application/a2a+json");
            (statuses.0, &json["error"]["details"])
        }
        Spelling::V03 => {
            assert_eq!(json["code"], code, "{answer:?}");
            assert!(json["message"].is_string(), "{answer:?}");
            assert_eq!(answer.header("content-type"), "application/json");
            (statuses.1, &json["data"])
        }
    };
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(details[0]["reason"], reason, "{answer:?}");
    assert_eq!(details[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
}

#[tokio::test]
async fn what_is_refused_says_so_in_status_and_body() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let done = client.send("Done.", json!({ "contextId": "c" })).await;
        let calls = agent.calls();
        let send = |ids: Value| spelling.message("x", ids);
        for operation in ["/message:send", "/message:stream"] {
            let unknown = client.post(operation, &send(json!({ "taskId": "nobody's" }))).await;
            check(spelling, &unknown, (404, 404), -32001, "TASK_NOT_FOUND");
            let over = client.post(operation, &send(json!({ "taskId": done["id"] }))).await;
            check(spelling, &over, (400, 400), -32004, "UNSUPPORTED_OPERATION");
            assert!(over.raw.contains("is in terminal state"));
            let other = client.post(operation, &send(json!({ "taskId": done["id"], "contextId": "d" }))).await;
            check(spelling, &other, (400, 422), -32602, "INVALID_PARAMS");
            let none = client.post(operation, &json!({})).await;
            check(spelling, &none, (400, 422), -32602, "INVALID_PARAMS");
            let broken = client.call(Method::POST, operation, "{\"message\":").await;
            check(spelling, &broken, (400, 400), -32700, "INVALID_REQUEST");
            let mut pushes = send(json!({}));
            let name = if spelling == Spelling::V03 { "pushNotification" } else { "taskPushNotificationConfig" };
            pushes["configuration"] = json!({ name: { "url": "http://hook" } });
            let pushes = client.post(operation, &pushes).await;
            check(spelling, &pushes, (400, 501), -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
        }
        let id = done["id"].as_str().unwrap();
        check(spelling, &client.get("/tasks/nobody's").await, (404, 404), -32001, "TASK_NOT_FOUND");
        let ended = client.call(Method::POST, &format!("/tasks/{id}:subscribe"), "").await;
        check(spelling, &ended, (400, 400), -32004, "UNSUPPORTED_OPERATION");
        let canceled = client.post(&format!("/tasks/{id}:cancel"), &json!({})).await;
        check(spelling, &canceled, (400, 409), -32002, "TASK_NOT_CANCELABLE");
        assert_eq!(agent.calls(), calls, "the agent is called for none of it");
    }
}

#[tokio::test]
async fn a_busy_context_is_a_failed_task_or_a_conflict() {
    for spelling in BOTH {
        for reject in [Reject::FailedTask, Reject::Error] {
            let agent = agent(spelling);
            let mut policy = Policy::default();
            policy.guard.reject = reject;
            let client = Client::new(&Proxy::with(&agent, policy), spelling);
            let left = client.send("!working", json!({ "contextId": "c" })).await;
            for (operation, streams) in [("/message:send", false), ("/message:stream", true)] {
                let refused = client.post(operation, &spelling.message("x", json!({ "contextId": "c" }))).await;
                if reject == Reject::Error {
                    check(spelling, &refused, (409, 409), -32050, "CONTEXT_BUSY");
                    assert_eq!(refused.header("retry-after"), "1");
                    continue;
                }
                assert_eq!(refused.status, 200, "{refused:?}");
                let task = if streams { refused.events()[0]["task"].clone() } else { refused.json()["task"].clone() };
                assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
                let words = task["status"]["message"][spelling.parts()][0]["text"].as_str().unwrap();
                assert!(words.contains(left["id"].as_str().unwrap()), "{words}");
                let got = client.get(&format!("/tasks/{}", task["id"].as_str().unwrap())).await.json();
                assert_eq!(got, task);
            }
            assert_eq!(agent.sends().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_agent_s_is_a_gateway_s() {
    for spelling in BOTH {
        let down = Agent::scripted(|_| async { Err("no route to host".into()) });
        let client = Client::new(&Proxy::new(&down), spelling);
        let message = spelling.message("x", json!({}));
        for operation in ["/message:send", "/message:stream"] {
            let answer = client.post(operation, &message).await;
            check(spelling, &answer, (502, 502), -32603, "UPSTREAM_UNREACHABLE");
        }
        let odd = Agent::scripted(|_| async { Ok(http::Response::new(crate::support::body("<html>"))) });
        let answer = Client::new(&Proxy::new(&odd), spelling).post("/message:send", &message).await;
        check(spelling, &answer, (502, 502), -32603, "UPSTREAM_MALFORMED");
        let mut policy = Policy::default();
        policy.limits.request_bytes = 200;
        let (agent, _) = stage(spelling);
        let small = Client::new(&Proxy::with(&agent, policy), spelling);
        let large = small.post("/message:send", &spelling.message(&"x".repeat(300), json!({}))).await;
        assert_eq!((large.status, agent.calls()), (413, 0), "{large:?}");
    }
}

#[tokio::test]
async fn the_agent_s_own_errors_pass_as_they_are() {
    for (spelling, status, body) in [
        (Spelling::V03, 422, r#"{"message" : "no"}"#),
        (Spelling::V10, 400, r#"{"error":{"code":400, "message":"no"}}"#),
    ] {
        let agent = Agent::scripted(move |_| async move {
            let mut response = http::Response::new(crate::support::body(body));
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response.headers_mut().insert("content-type", "application/json".parse().unwrap());
            Ok(response)
        });
        let client = Client::new(&Proxy::new(&agent), spelling);
        for operation in ["/message:send", "/message:stream"] {
            let answer = client.post(operation, &spelling.message("x", json!({}))).await;
            assert_eq!(
                (answer.status, &*answer.raw, answer.header("content-type")),
                (status, body, "application/json")
            );
        }
    }
}
