//! A route that only watches changes nothing, and learns what it would have done.

use a2a_multiturn::conversation::policy::{Mode, Policy};
use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use a2a_multiturn::store::Found;
use http::Response;
use serde_json::json;

use crate::support::{Agent, Proxy, body, message_03, send_03};

fn observing() -> Policy {
    Policy { mode: Mode::Observe, ..Policy::default() }
}

async fn context(proxy: &Proxy, id: &str) -> Option<Found> {
    let key = ContextKey { route: RouteId::default(), principal: Principal::default(), context_id: id.into() };
    proxy.store.context(&key).await.unwrap()
}

#[tokio::test]
async fn messages_and_replies_pass_byte_for_byte_and_the_transcript_is_kept() {
    let agent = Agent::saying(|_| "Which city?".into());
    let proxy = Proxy::with(&agent, observing());
    for turn in 1..=3 {
        let request = send_03("book a room", json!({ "contextId": "c" })).to_string();
        let answer = proxy.raw(request.clone()).await;
        assert_eq!(agent.last().raw, request);
        assert!(answer.contains("\"completed\"") && answer.contains(&format!("\"u-{turn}\"")), "{answer}");
        assert!(agent.last().headers.get("a2a-multiturn-hop").is_none());
        let found = context(&proxy, "c").await.unwrap();
        assert_eq!((found.context.turns.len(), found.in_flight.is_some()), (turn, false));
    }
    assert!(context(&proxy, "c").await.unwrap().context.newest().unwrap().is_question());
}

#[tokio::test]
async fn streams_pass_byte_for_byte_and_are_kept() {
    const STREAM: &str = ": hello\r\n\r\ndata: {\"id\":7,\"result\":{\"kind\":\"artifact-update\",\"taskId\":\"u\",\"contextId\":\"c\",\
        \"artifact\":{\"artifactId\":\"a\",\"parts\":[{\"kind\":\"text\",\"text\":\"Hello\"}]}}}\r\n\r\n\
        data: {\"id\":7,\"result\":{\"kind\":\"status-update\",\"taskId\":\"u\",\"contextId\":\"c\",\"final\":true,\
        \"status\":{\"state\":\"completed\"}}}\r\n\r\n";
    let agent = Agent::scripted(|_| async {
        let mut response = Response::new(body(STREAM));
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        Ok(response)
    });
    let proxy = Proxy::with(&agent, observing());
    let message = message_03("hi", json!({ "contextId": "c" }));
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "message/stream", "params": { "message": message } });
    assert_eq!(proxy.raw(request.to_string()).await, STREAM);
    let turn = context(&proxy, "c").await.unwrap().context.newest().unwrap();
    assert_eq!((turn.reply_text().as_str(), turn.user.parts[0].text()), ("Hello", Some("hi")));
}

#[tokio::test]
async fn what_cannot_be_read_passes_and_leaves_no_lease() {
    for (status, text) in
        [(200, "no JSON"), (500, "oops"), (200, "{\"id\":1,\"error\":{\"code\":-32603,\"message\":\"x\"}}")]
    {
        let agent = Agent::scripted(move |_| async move {
            let mut response = Response::new(body(text));
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            Ok(response)
        });
        let proxy = Proxy::with(&agent, observing());
        let request = send_03("hi", json!({ "contextId": "c" })).to_string();
        assert_eq!(proxy.raw(request).await, text);
        assert!(context(&proxy, "c").await.is_none_or(|found| found.in_flight.is_none()), "{text}");
    }
}

#[tokio::test]
async fn a_stream_without_end_is_not_read_for_nobody() {
    let agent = Agent::scripted(|_| async {
        let piece = || Ok::<_, std::convert::Infallible>(http_body::Frame::data(bytes::Bytes::from(vec![b'x'; 1000])));
        let pieces = futures_util::stream::repeat_with(piece);
        let body = http_body_util::BodyExt::boxed_unsync(http_body_util::BodyExt::map_err(
            http_body_util::StreamBody::new(pieces),
            |never| match never {},
        ));
        let mut response = Response::new(body);
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        Ok(response)
    });
    let mut policy = observing();
    policy.limits.reply_bytes = 100_000;
    let proxy = Proxy::with(&agent, policy);
    let mut request = send_03("q", json!({ "contextId": "c" }));
    request["method"] = json!("message/stream");
    drop(proxy.response(request.to_string()).await);
    tokio::time::timeout(std::time::Duration::from_secs(10), proxy.layer.drained()).await.expect("it ends");
    assert!(context(&proxy, "c").await.is_none_or(|found| found.in_flight.is_none()));
}
