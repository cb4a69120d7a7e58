//! What goes wrong on the way to the agent, and what is made of it.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::time::Instant;

use super::upstream::{Phase, UpstreamBody, UpstreamError};
use super::*;
use crate::middleware::{BoxError, RequestBody};

const SHORT: Duration = Duration::from_millis(150);

fn hasty(url: &str) -> Route {
    let mut route = route(url);
    route.upstream.connect_timeout = SHORT;
    route.policy.timeouts.first_byte = SHORT;
    route.policy.timeouts.idle = SHORT;
    route
}

fn post(body: RequestBody) -> Request<RequestBody> {
    Request::post("/").body(body).unwrap()
}

type Answer = Result<http::Response<UpstreamBody>, UpstreamError>;

/// What the upstream makes of an agent that reads a request and sends `reply`, then closes.
async fn answer_to(reply: &str) -> Answer {
    let (listener, url) = agent().await;
    let call = tokio::spawn(an_upstream(&hasty(&url)).call(post(RequestBody::whole("{}"))));
    let mut wire = Wire::accept(&listener).await;
    wire.message().await;
    wire.send(reply).await;
    drop(wire);
    call.await.unwrap()
}

/// As the layer would see it: a box, and in it something to tell by.
fn kind_of(error: impl Into<BoxError>) -> String {
    let error = error.into();
    let timed_out = std::iter::successors(error.source(), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::TimedOut);
    let found = error.downcast_ref::<UpstreamError>().unwrap();
    assert_eq!(matches!(found, UpstreamError::Timeout(..)), timed_out);
    match found {
        UpstreamError::Timeout(phase, _) => format!("{phase:?}"),
        UpstreamError::Unreachable(_) => "Unreachable".to_owned(),
        UpstreamError::Malformed(_) => "Malformed".to_owned(),
        UpstreamError::Cut(_) => "Cut".to_owned(),
        UpstreamError::Request(_) => "Request".to_owned(),
    }
}

#[tokio::test]
async fn no_agent_no_answer_and_nonsense_are_told_apart() {
    let (listener, url) = agent().await;
    drop(listener);
    let refused = an_upstream(&hasty(&url)).call(post(RequestBody::empty())).await;
    assert_eq!(kind_of(refused.unwrap_err()), "Unreachable");
    let unknown = an_upstream(&hasty("http://no-such-agent.invalid")).call(post(RequestBody::empty())).await;
    assert!(["Unreachable", "Connect"].contains(&&*kind_of(unknown.unwrap_err())));
    assert_eq!(kind_of(answer_to("").await.unwrap_err()), "Unreachable");
    assert_eq!(kind_of(answer_to("HTTP/1.1 2").await.unwrap_err()), "Unreachable");
    assert_eq!(kind_of(answer_to("SSH-2.0-agent\r\n\r\n").await.unwrap_err()), "Malformed");
    let switched = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    assert_eq!(kind_of(answer_to(switched).await.unwrap_err()), "Malformed");
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_an_error_of_its_body() {
    for (reply, kind) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "Cut"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "Cut"),
    ] {
        let body = answer_to(reply).await.unwrap().into_body();
        assert_eq!(kind_of(body.collect().await.unwrap_err()), kind, "{reply}");
    }
}

#[tokio::test]
async fn an_agent_that_does_not_begin_to_answer_times_out() {
    let (listener, url) = agent().await;
    let begun = Instant::now();
    let call = tokio::spawn(an_upstream(&hasty(&url)).call(post(RequestBody::whole("{}"))));
    let mut wire = Wire::accept(&listener).await;
    wire.message().await;
    assert_eq!(kind_of(call.await.unwrap().unwrap_err()), "FirstByte");
    assert!(begun.elapsed() >= SHORT);
    // The connection goes with it: its answer, when it comes, must not be the next request's.
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn a_long_upload_is_not_a_slow_agent() {
    let (listener, url) = agent().await;
    let pieces = futures_util::stream::unfold(0, |sent| async move {
        tokio::time::sleep(SHORT / 2).await;
        (sent < 5).then(|| (Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"x"))), sent + 1))
    });
    let call = tokio::spawn(an_upstream(&hasty(&url)).call(post(RequestBody::untouched(StreamBody::new(pieces)))));
    let mut wire = Wire::accept(&listener).await;
    wire.until("0\r\n\r\n").await;
    wire.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(call.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_reply_may_take_long_but_not_pause_long() {
    let (listener, url) = agent().await;
    let call = tokio::spawn(an_upstream(&hasty(&url)).call(post(RequestBody::whole("{}"))));
    let mut wire = Wire::accept(&listener).await;
    wire.message().await;
    wire.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
    let mut body = call.await.unwrap().unwrap().into_body();
    for _ in 0..5 {
        tokio::time::sleep(SHORT / 2).await;
        wire.send("data: x\n\n").await;
        assert!(body.frame().await.unwrap().is_ok());
    }
    assert_eq!(kind_of(body.frame().await.unwrap().unwrap_err()), "Idle");
    assert!(body.frame().await.is_none());
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn a_request_that_breaks_off_is_not_the_agents_fault() {
    let (listener, url) = agent().await;
    let pieces =
        futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"x"))), Err(BoxError::from("the client left"))]);
    let call = tokio::spawn(an_upstream(&route(&url)).call(post(RequestBody::untouched(StreamBody::new(pieces)))));
    let mut wire = Wire::accept(&listener).await;
    assert!(!wire.rest().await.contains("0\r\n\r\n"));
    assert_eq!(kind_of(call.await.unwrap().unwrap_err()), "Request");
}

#[tokio::test]
async fn without_a_layer_a_failure_becomes_a_small_answer() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].policy.timeouts.first_byte = SHORT;
    let running = serve_bare(&config).await;
    let mut client = running.connect().await;
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
    client.send(request).await;
    let silent = Wire::accept(&listener).await;
    let (head, body) = client.message().await;
    assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
    assert!(body.contains("UPSTREAM_TIMEOUT"), "{body}");
    drop((silent, listener));
    client.send(request).await;
    let (head, body) = client.message().await;
    assert!(head.starts_with("HTTP/1.1 502 ") && header(&head, "content-type") == Some("application/json"), "{head}");
    assert!(body.contains("UPSTREAM_UNREACHABLE") && !body.contains("127.0.0.1"), "{body}");
}

#[test]
fn phases_say_what_was_waited_for() {
    let timeout = |phase| UpstreamError::Timeout(phase, io::ErrorKind::TimedOut.into()).to_string();
    assert_eq!(timeout(Phase::Connect), "the agent took too long: no connection");
    assert_eq!(timeout(Phase::Idle), "the agent took too long: its reply stalled");
}
