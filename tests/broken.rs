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

#[tokio::test]
async fn lines_of_json_are_no_cloak_for_a_call() {
    let agent = Agent::saying(|_| "done".into());
    let proxy = Proxy::new(&agent);
    let call = send_03("q", json!({ "contextId": "c" })).to_string();
    let wide: Vec<u8> = call.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for body in [
        call.replace("\"role\"", "\"x\":NaN,\"role\"").into_bytes(),
        [&b"\xef\xbb\xbf"[..], call.as_bytes()].concat(),
        wide,
        format!("{call}\n{{}}").into_bytes(),
        format!("{{}}\n[{call}]").into_bytes(),
        b"{\n".to_vec(),
    ] {
        let (_, answer) = posted(&proxy, "POST", "application/x-ndjson", body).await;
        assert!(answer.contains("-32700"), "{answer}");
    }
    assert_eq!(agent.calls(), 0);
    posted(&proxy, "POST", "application/x-ndjson", "{\"a\":1}\n{\"b\":2}\n").await;
    assert_eq!(agent.last().raw, "{\"a\":1}\n{\"b\":2}\n");
}

#[tokio::test]
async fn a_body_in_a_charset_that_is_not_read_here_is_refused() {
    let agent = Agent::saying(|_| "done".into());
    let proxy = Proxy::new(&agent);
    let call = send_03("q", json!({ "contextId": "c" })).to_string();
    for charset in ["utf-7", "UTF-7", "\"utf-7\"", " utf-16le", "\"utf\\-7\"", "utf-8;charset=utf-7"] {
        let content_type = format!("application/json; charset={charset}");
        for body in [call.replace("message/send", "+AG0-essage/send"), format!("+AHs-{}", &call[1..])] {
            let (status, answer) = posted(&proxy, "POST", &content_type, body).await;
            assert_eq!(status, 415, "{charset}: {answer}");
        }
    }
    assert_eq!(agent.calls(), 0);
    for charset in ["utf-8", "\"UTF-8\"", "iso-8859-1"] {
        let content_type = format!("application/json; charset={charset}");
        let (status, answer) = posted(&proxy, "POST", &content_type, call.clone()).await;
        assert_eq!(status, 200, "{charset}: {answer}");
    }
}

#[tokio::test]
async fn a_method_in_lower_case_is_a_call_too() {
    let agent = Agent::saying(|_| "done".into());
    let proxy = Proxy::new(&agent);
    posted(&proxy, "post", "application/json", send_03("q", json!({ "contextId": "c" })).to_string()).await;
    assert!(agent.last().headers.contains_key("a2a-multiturn-hop"));
}

/// An agent that says "submitted" with the message that it was given, and writes JSON as PHP does.
fn echoing() -> Agent {
    Agent::scripted(|seen| {
        let user = seen.message().clone();
        let task = task_03(
            &format!("u-{}", seen.before),
            "x",
            json!({
                "status": { "state": "completed", "message": user }, "history": [user], "artifacts": [artifact_03("response", "done")],
            }),
        );
        let answer = json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": task }).to_string().replace('/', "\\/");
        async move { Ok(http::Response::new(crate::support::body(answer))) }
    })
}

#[tokio::test]
async fn the_record_is_seen_nowhere_in_a_user_message() {
    let agent = echoing();
    let proxy = Proxy::new(&agent);
    proxy.send("first", json!({ "contextId": "c" })).await;
    let answer = proxy.send("second", json!({ "contextId": "c" })).await;
    assert!(agent.last().text().starts_with("[record of earlier turns"));
    for message in [&answer["status"]["message"], &answer["history"][0]] {
        assert_eq!(message["parts"], json!([{ "kind": "text", "text": "second" }]));
        assert!(message.get("metadata").is_none(), "{message}");
    }
}

#[tokio::test]
async fn a_task_of_nobodys_that_came_to_mean_a_callers_is_that_callers() {
    let agent =
        Agent::keeping(|_| task_03("1", "completed", json!({ "artifacts": [artifact_03("response", "secret")] })));
    let proxy = Proxy::new(&agent);
    let nobody = async |request: Value| {
        let mut request = proxy.request(request.to_string());
        request.extensions_mut().insert(a2a_multiturn::conversation::principal::Unidentified);
        let answer = proxy.service().oneshot(request).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    nobody(send_03("q", json!({}))).await;
    assert_eq!(nobody(get_03("1")).await["result"]["id"], "1");
    // The agent was started anew, and counts from 1 again.
    proxy.as_principal("ada").send("q", json!({ "contextId": "c" })).await;
    assert_eq!(nobody(get_03("1")).await["error"]["code"], -32001);
}

#[tokio::test]
async fn a_task_that_was_answered_while_it_was_being_cancelled_stays_answered() {
    let (asked, release) =
        (std::sync::Arc::new(tokio::sync::Notify::new()), std::sync::Arc::new(tokio::sync::Notify::new()));
    let latch = (asked.clone(), release.clone());
    let agent = Agent::scripted(move |seen| {
        let (asked, release) = latch.clone();
        async move {
            let state = match (seen.method(), seen.before) {
                ("tasks/cancel", _) => {
                    asked.notify_one();
                    release.notified().await;
                    "canceled"
                }
                (_, 0) => "input-required",
                _ => "completed",
            };
            let task = task_03("u-1", state, json!({ "artifacts": [artifact_03("response", "done")] }));
            Ok(crate::support::json_response(&json!({ "jsonrpc": "2.0", "id": seen.json["id"], "result": task })))
        }
    });
    let proxy = Proxy::new(&agent);
    let task = proxy.send("q", json!({ "contextId": "c" })).await;
    let id = task["id"].as_str().unwrap().to_owned();
    let cancel = crate::support::cancel_03(&id);
    let (canceled, answered) = tokio::join!(proxy.call(&cancel), async {
        asked.notified().await;
        let answered = proxy.send("a", json!({ "contextId": "c", "taskId": id })).await;
        release.notify_one();
        answered
    });
    assert_eq!(answered["status"]["state"], "completed");
    assert_eq!(canceled["error"]["code"], -32002, "{canceled}");
    assert!(!is_busy(&proxy.call(&send_03("next", json!({ "contextId": "c" }))).await));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_go_on_holds_nothing() {
    let agent = Agent::saying(|_| "done".into());
    let proxy = Proxy::new(&agent);
    for begun in ["", "{\"jsonrpc\":"] {
        let begun = Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from(begun)));
        let pieces =
            futures_util::StreamExt::chain(futures_util::stream::iter([begun]), futures_util::stream::pending());
        let request = Request::post("/").body(http_body_util::StreamBody::new(pieces)).unwrap();
        let answer = tokio::time::timeout(std::time::Duration::from_secs(600), proxy.service().oneshot(request)).await;
        let bytes = answer.expect("it ends").unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&bytes).contains("-32600"));
    }
    assert_eq!(agent.calls(), 0);
}
