//! What the layer leaves alone, what it refuses because it could pass it by, and ids that come back as they were sent.

use std::io::Write;

use a2a_multiturn::conversation::policy::{Mode, Policy, Reject};
use a2a_multiturn::middleware::ConversationLayer;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::support::*;

async fn through(proxy: &Proxy, request: Request<Full<bytes::Bytes>>) -> (http::response::Parts, String) {
    let (head, body) = proxy.service().oneshot(request).await.unwrap().into_parts();
    (head, String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned())
}

// cors: no POST is read
#[tokio::test]
async fn what_is_no_post_passes_untouched_whatever_its_body() {
    let agent = Agent::scripted(|_| async {
        let mut response = Response::new(body("as it is"));
        response.headers_mut().insert("etag", "\"x\"".parse().unwrap());
        response.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
        Ok(response)
    });
    let proxy = Proxy::new(&agent);
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
        let send = send_03("q", json!({ "contextId": "c" })).to_string();
        let request = Request::builder()
            .method(method)
            .uri("/")
            .header("x-a", "1")
            .header("accept-encoding", "br")
            .body(Full::new(send.clone().into()));
        let (head, text) = through(&proxy, request.unwrap()).await;
        assert_eq!(text, "as it is");
        assert_eq!(head.headers["etag"], "\"x\"");
        assert_eq!(head.headers["access-control-allow-origin"], "*");
        let seen = agent.last();
        assert_eq!((seen.raw, seen.headers["accept-encoding"].to_str().unwrap()), (send, "br"));
        assert!(seen.headers.get("a2a-multiturn-hop").is_none());
    }
}

#[tokio::test]
async fn methods_that_are_none_of_ours_pass_untouched() {
    let answer = "{ \"jsonrpc\":\"2.0\", \"id\" : 4,\"error\":{\"code\":-32601,\"message\":\"no\"} }";
    let agent = Agent::raw(&[answer]);
    let proxy = Proxy::new(&agent);
    for raw in [
        r#"{ "jsonrpc":"2.0","id":4,"method":"agent/unknownThing","params":{"message":{"contextId":"c"}} }"#,
        r#"{"jsonrpc":"2.0","method":"SendMessageLater","params":[1e3]}"#,
        r#"{"hello":1}"#,
    ] {
        assert_eq!(proxy.raw(raw).await, answer);
        assert_eq!(agent.last().raw, raw);
    }
}

#[tokio::test]
async fn what_may_be_a_send_and_cannot_be_read_as_one_is_refused() {
    let agent = Agent::saying(|_| "ok".into());
    let proxy = Proxy::new(&agent);
    let message = r#""message":{"kind":"message","messageId":"a","role":"user","contextId":"c","parts":[{"kind":"text","text":"q"}]}"#;
    let send = |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}"method":"message/send","params":{{{message}}}}}"#);
    for (raw, code, id) in [
        (format!("[{}]", send("\"id\":1,")), -32600, Value::Null),
        // notification
        (send(""), -32600, Value::Null),
        (send("\"id\":{\"a\":1},"), -32600, Value::Null),
        (send("\"id\":[1],"), -32600, Value::Null),
        (send("\"id\":true,"), -32600, Value::Null),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"message/send\"".into(), -32700, Value::Null),
        (send("\"id\":7,\"id\":8,"), -32600, json!(7)),
        (send("\"id\":7,\"method\":\"x\","), -32600, json!(7)),
        (format!(r#"{{"id":7,"method":"message/send","params":{{{message},{message}}}}}"#), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":{"message":{"contextId":"c","contextId":"d","parts":[]}}}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":{"message":{"context\u0049d":"c","contextId":"d","parts":[]}}}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":{"message":{"contextId":7,"parts":[]}}}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":{"message":{"taskId":["u-1"],"parts":[]}}}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":{"message":[]}}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send","params":[]}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"message/send"}"#.into(), -32602, json!(7)),
        (r#"{"id":7,"method":"tasks/get","params":{"id":7}}"#.into(), -32602, json!(7)),
        (format!(r#"{{"id":7,"method":"message/send","params":{{"message":{{"contextId":"{}","parts":[]}}}}}}"#, "x".repeat(600)), -32602, json!(7)),
        (send("\"id\":7,").replace("}}", r#"},"configuration":{"pushNotificationConfig":{"url":"http://x/"}}}"#), -32003, json!(7)),
        (r#"{"id":7,"method":"tasks/pushNotificationConfig/set","params":{"taskId":"u-1"}}"#.into(), -32003, json!(7)),
    ] {
        let answer: Value = serde_json::from_str(&proxy.raw(raw.clone()).await).unwrap_or_else(|_| panic!("{raw}"));
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{raw}: {answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
        assert_eq!(agent.calls(), 0, "{raw}");
    }
    assert!(proxy.store.context(&super::chains::key("c")).await.unwrap().is_none(), "nothing is stored");
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    proxy.raw(send("\"id\":7,").replace("\"q\"", &deep)).await;
    proxy.send("q", json!({ "contextId": "c" })).await;
}

#[tokio::test]
async fn a_body_larger_than_the_limit_or_encoded_unreadably_is_refused_with_its_status() {
    let agent = Agent::saying(|_| "ok".into());
    let proxy = Proxy::with(&agent, policy(|policy| policy.limits.request_bytes = 1000));
    let response = proxy.response(send_03(&"x".repeat(2000), json!({})).to_string()).await;
    assert_eq!(response.status(), 413);
    let json: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&json["error"]["code"], &json["id"]), (&json!(-32602), &Value::Null));
    let response = proxy.with_header("content-encoding", "br").response("{}").await;
    assert_eq!(response.status(), 415);
    assert_eq!(agent.calls(), 0);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_requests_and_replies_are_read() {
    let agent = Agent::scripted(|seen| async move {
        let reply = if seen.text().ends_with("ask") { "Which one?" } else { "Done." };
        let mut response = Response::new(body(gzip(
            &json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": completed(&seen, reply) }).to_string(),
        )));
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response.headers_mut().insert("content-length", "99".parse().unwrap());
        Ok(response)
    });
    let proxy = Proxy::new(&agent);
    for text in ["ask", "tell"] {
        let request = gzip(&send_03(text, json!({ "contextId": "c" })).to_string());
        let response = proxy.with_header("content-encoding", "gzip").response(request).await;
        assert!(
            response.headers().get("content-encoding").is_none() && response.headers().get("content-length").is_none()
        );
        let json: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(state(&json["result"]), if text == "ask" { "input-required" } else { "completed" });
        assert!(agent.last().headers.get("content-encoding").is_none());
        assert_eq!(agent.last().headers["accept-encoding"], "identity");
    }
    assert!(agent.last().text().contains("Which one?"));
    let bomb = gzip(&" ".repeat(40 << 20));
    assert_eq!(proxy.with_header("content-encoding", "gzip").response(bomb).await.status(), 415);
}

// jsonrpc-id
#[tokio::test]
async fn ids_come_back_as_they_were_written() {
    for id in [
        "\"abc\"",
        "0",
        "-7",
        "9007199254740993",
        "123456789012345678901234567890",
        "1.50",
        "1e3",
        "null",
        "\"\\u0041\\n\"",
        "\"\"",
    ] {
        for reject in [Reject::FailedTask, Reject::Error] {
            let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
            let agent = {
                let gate = std::sync::Arc::clone(&gate);
                Agent::scripted(move |seen| {
                    let gate = std::sync::Arc::clone(&gate);
                    async move {
                        gate.acquire().await?.forget();
                        // As many servers do, it reads the id as a number of its own.
                        Ok(json_response(
                            &json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": completed(&seen, "Which one?") }),
                        ))
                    }
                })
            };
            let proxy = Proxy::with(&agent, policy(|policy| policy.guard.reject = reject));
            let request = |method: &str, params: Value| {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
            };
            let send = |context: &str| {
                request("message/send", json!({ "message": message_03("q", json!({ "contextId": context })) }))
            };
            let first = {
                let (proxy, raw) = (proxy.clone(), send("c"));
                tokio::spawn(async move { proxy.raw(raw).await })
            };
            while agent.calls() < 1 {
                tokio::task::yield_now().await;
            }
            let expected = format!("\"id\":{id}");
            let refused = proxy.raw(send("c")).await;
            gate.add_permits(10);
            let first = first.await.unwrap();
            for raw in [
                refused,
                first,
                proxy.raw(request("tasks/get", json!({ "id": "u-1" }))).await,
                proxy.raw(request("tasks/get", json!({ "id": "unknown" }))).await,
                proxy.raw(request("tasks/cancel", json!({ "id": "u-1" }))).await,
                proxy.raw(request("ListTasks", json!({}))).await,
            ] {
                // The envelope's: a task within has one as well.
                let envelope =
                    raw.split("\"result\"").next().unwrap().to_owned() + raw.rsplit('}').nth(1).unwrap_or_default();
                assert!(envelope.contains(&expected), "{expected} in {raw}");
            }
        }
    }
}

#[tokio::test]
async fn a_route_that_only_watches_changes_nothing() {
    let answer = r#"{"jsonrpc":"2.0", "id":1,"result":{"kind":"task","id":"u-1","contextId":"agents","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"Which one? [INPUT_REQUIRED]"}]}]}}"#;
    let agent = Agent::raw(&[answer]);
    let proxy = Proxy::with(&agent, policy(|policy| policy.mode = Mode::Observe));
    for n in 0..3 {
        let raw = send_03(&format!("q{n}"), json!({ "contextId": "c", "taskId": "u-1" })).to_string();
        assert_eq!(proxy.raw(raw.clone()).await, answer);
        let seen = agent.last();
        assert_eq!(seen.raw, raw);
        assert!(seen.headers.get("a2a-multiturn-hop").is_none(), "a proxy behind is not told that it was done");
    }
    for request in [get_03("u-9"), cancel_03("u-9"), list_10(json!({}))] {
        assert_eq!(proxy.raw(request.to_string()).await, answer);
    }
}

// big-bodies
#[tokio::test]
async fn files_go_up_as_they_came_and_are_not_kept() {
    let agent = Agent::saying(|_| "got it".into());
    let proxy = Proxy::new(&agent);
    let mut request = send_03("", json!({ "contextId": "c" }));
    request["params"]["message"]["parts"] =
        json!([{ "kind": "file", "file": { "name": "big", "bytes": "QUJD".repeat(2 << 20) } }]);
    let raw = request.to_string();
    proxy.raw(raw.clone()).await;
    assert!(agent.last().raw == raw);
    proxy.send("q2", json!({ "contextId": "c" })).await;
    assert!(agent.last().raw.len() < 64 << 10);
    assert!(proxy.store.context(&super::chains::key("c")).await.unwrap().unwrap().context.size() < 4096);
}

// unbounded
#[tokio::test]
async fn the_forwarded_body_stays_within_the_windows_limit() {
    let agent = Agent::saying(|_| "x".repeat(200));
    let proxy = Proxy::with(
        &agent,
        policy(|policy| {
            policy.history.max_bytes = 8000;
            policy.history.max_turns = 1000;
        }),
    );
    for turn in 0..200 {
        proxy.send(&format!("{turn} {}", "z".repeat(200)), json!({ "contextId": "c" })).await;
        assert!(agent.last().raw.len() < 12_000);
    }
}

#[tokio::test]
async fn hop_and_debug_headers() {
    let agent = Agent::saying(|_| "Which one?".into());
    let proxy = Proxy::with(&agent, policy(|policy| policy.debug_header = true));
    proxy.send("q", json!({ "contextId": "c" })).await;
    let response = proxy.response(send_03("q2", json!({ "contextId": "c" })).to_string()).await;
    assert_eq!(response.headers()["a2a-multiturn"], "turn=2; injected=1; decision=question");
    let raw = send_03("q3", json!({ "contextId": "c" })).to_string();
    let behind = Proxy::around(&agent, ConversationLayer::new(Policy::default(), memory()).trusting_hop(), memory());
    let behind = behind.with_header("a2a-multiturn-hop", "1");
    let answer: Value = serde_json::from_str(&behind.raw(raw.clone()).await).unwrap();
    assert_eq!(
        (agent.last().raw, state(&answer["result"])),
        (raw, "completed"),
        "behind a proxy nothing is done twice"
    );
    // From anybody else it is no way past the guard.
    let answer = proxy.with_header("a2a-multiturn-hop", "1").call(&send_03("q4", json!({ "contextId": "c" }))).await;
    assert_eq!(state(&answer["result"]), "input-required");
    assert!(agent.last().raw.contains("record of earlier turns"));
}
