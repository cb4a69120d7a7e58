//! An authorisation that is brought while the stream that asked for it is still open: the message joins the turn, and whoever reads settles it.

use serde_json::{Value, json};

use super::stage::{Feed, Known, Reader, Stage, Task03, event, goes_on, proxy, sse, state, stream_03, text_of};
use crate::chains::key;
use crate::support::{Agent, Proxy, is_busy, json_response, send_03};

const T: Task03 = Task03("u-1", "c");

/// A stream that has asked for an authorisation and stays open; its client goes on reading.
async fn asked(stage: &Stage, proxy: &Proxy) -> (Feed, tokio::task::JoinHandle<Vec<Value>>) {
    let feed = stage.stream();
    let mut reader = Reader::open(proxy, &stream_03("my mail", json!({ "contextId": "c" }))).await;
    for result in [T.task("submitted"), T.said("auth-required", "Log in, please.")] {
        feed.result(&result);
        reader.next().await.unwrap();
    }
    (feed, tokio::spawn(reader.rest()))
}

fn brings() -> Value {
    send_03("my-secret", json!({ "taskId": "u-1", "contextId": "c" }))
}

fn streamed() -> Value {
    stream_03("my-secret", json!({ "taskId": "u-1", "contextId": "c" }))
}

fn answers(stage: &Stage, result: &Value) {
    stage.answer_with(json_response(&json!({ "jsonrpc": "2.0", "id": 1, "result": result })));
}

/// One turn has settled, with a receipt of what joined it.
async fn settled_once(proxy: &Proxy, stage: &Stage, agent: &Agent) {
    let found = proxy.store.context(&key("c")).await.unwrap().unwrap();
    assert_eq!((found.context.turns.len(), found.context.turn(1).unwrap().joined.len()), (1, 1));
    assert!(found.in_flight.is_none());
    let given = goes_on(proxy, stage, agent, "c").await;
    assert!(given.contains("my mail") && given.contains("3 letters") && !given.contains("my-secret"), "{given}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_it_settles_the_turn_and_both_clients_are_told() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let (_feed, first) = asked(&stage, &proxy).await;
    answers(&stage, &T.with_artifact("completed", "3 letters"));
    let answer = proxy.call(&brings()).await;
    let sent = agent.last();
    assert_eq!((&*sent.text(), &sent.message()["taskId"]), ("my-secret", &json!("u-1")));
    assert!(sent.entry().is_null(), "without a block");
    assert_eq!((state(&answer), &answer["result"]["id"]), ("completed", &json!("u-1")), "{answer}");
    assert_eq!(text_of(&[answer], "response"), "3 letters");
    let told = first.await.unwrap();
    assert_eq!((state(told.last().unwrap()), text_of(&told, "response")), ("completed", "3 letters".to_owned()));
    assert_eq!(told.iter().filter(|event| state(event) == "completed").count(), 1);
    settled_once(&proxy, &stage, &agent).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_answer_to_it_ends_both() {
    for whole in [true, false] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        let (_feed, first) = asked(&stage, &proxy).await;
        stage.knows(Known::Task(T.with_artifact("completed", "3 letters")));
        let pieces = event(&T.status("working")) + &event(&T.piece("response", "3 letters", false));
        stage.answer_with(sse(match whole {
            true => event(&T.with_artifact("completed", "3 letters")),
            false => pieces + &event(&T.status("completed")),
        }));
        let second = proxy.events(&streamed()).await;
        let first = first.await.unwrap();
        for told in [&first, &second] {
            assert_eq!(
                (state(told.last().unwrap()), &*text_of(told, "response")),
                ("completed", "3 letters"),
                "{told:?}"
            );
        }
        settled_once(&proxy, &stage, &agent).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_stream_may_tell_the_end_itself() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let (feed, first) = asked(&stage, &proxy).await;
    answers(&stage, &T.task("working"));
    let began = tokio::time::Instant::now();
    let answer = proxy.call(&brings()).await;
    assert_eq!((state(&answer), began.elapsed()), ("working", std::time::Duration::ZERO), "{answer}");
    feed.result(&T.piece("response", "3 letters", false));
    feed.result(&T.status("completed"));
    let told = first.await.unwrap();
    assert_eq!((state(told.last().unwrap()), text_of(&told, "response")), ("completed", "3 letters".to_owned()));
    settled_once(&proxy, &stage, &agent).await;
}

#[tokio::test(start_paused = true)]
async fn what_joins_may_fail_and_the_turn_goes_on_waiting() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let (_feed, first) = asked(&stage, &proxy).await;
    let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32603, "message": "wrong code" } });
    stage.answer_with(json_response(&error));
    assert_eq!(proxy.call(&brings()).await["error"]["message"], "wrong code");
    assert!(!first.is_finished());
    // Another message in the context is none that is waited for.
    assert!(is_busy(&proxy.call(&send_03("hello?", json!({ "contextId": "c" }))).await));
    answers(&stage, &T.with_artifact("completed", "3 letters"));
    assert_eq!(state(&proxy.call(&brings()).await), "completed");
    assert_eq!(state(first.await.unwrap().last().unwrap()), "completed");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("3 letters") && !given.contains("my-secret"), "{given}");
}

#[tokio::test(start_paused = true)]
async fn a_first_stream_that_ends_meanwhile_leaves_the_turn_to_the_answer() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let (feed, first) = asked(&stage, &proxy).await;
    // Its answer comes once the first stream is gone.
    let (gate, wait) = tokio::sync::oneshot::channel::<()>();
    let gated = async move {
        wait.await.unwrap();
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": T.with_artifact("completed", "3 letters") });
        Ok::<_, a2a_multiturn::middleware::BoxError>(bytes::Bytes::from(answer.to_string()))
    };
    let mut response = http::Response::new(super::stage::late(gated));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    stage.answer_with(response);
    let second = {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.call(&brings()).await })
    };
    while agent.calls() < 2 {
        tokio::task::yield_now().await;
    }
    drop(feed);
    first.await.unwrap();
    gate.send(()).unwrap();
    let answer = second.await.unwrap();
    assert_eq!(state(&answer), "completed", "{answer}");
    settled_once(&proxy, &stage, &agent).await;
}
