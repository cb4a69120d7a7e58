//! Silence, bounds, and bytes that nobody meant to send.

use std::time::Duration;

use a2a_multiturn::conversation::policy::Policy;
use bytes::Bytes;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::json;

use super::recordings::all;
use super::stage::{
    Known, Reader, Stage, Task03, event, goes_on, proxy, settles_down, state, stream_03, text_of, with,
};
use crate::support::get_03;

const T: Task03 = Task03("u-1", "c");

fn ids() -> serde_json::Value {
    json!({ "contextId": "c" })
}

// idle-timeout
#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_comments_between_events_alone() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    assert_eq!(reader.raw().await.unwrap(), event(&T.task("submitted")));
    let half = event(&T.piece("response", "Noted.", false));
    feed.bytes(half[..30].to_owned());
    let begun = tokio::time::Instant::now();
    assert_eq!(reader.raw().await.unwrap(), ": keep-alive\n\n");
    assert_eq!(begun.elapsed().as_secs(), 15);
    assert_eq!(reader.raw().await.unwrap(), ": keep-alive\n\n");
    feed.bytes(half[30..].to_owned());
    assert_eq!(reader.raw().await.unwrap(), half);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_falls_silent_is_asked_and_given_up() {
    for known in [Known::NotFound, Known::Silent] {
        let stage = Stage::default();
        let mut policy = Policy::default();
        policy.timeouts.idle = Duration::from_secs(20);
        let (proxy, agent) = with(&stage, policy);
        let feed = stage.stream();
        feed.result(&T.task("submitted"));
        stage.knows(known);
        let begun = tokio::time::Instant::now();
        let events = proxy.events(&stream_03("x", ids())).await;
        assert_eq!(events.iter().map(state).collect::<Vec<_>>(), ["submitted", "failed"]);
        assert!((20..22).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        goes_on(&proxy, &stage, &agent, "c").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_says_a_word_times_out() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let _feed = stage.stream();
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(events[0]["error"]["data"][0]["reason"], "UPSTREAM_TIMEOUT", "{events:?}");
    goes_on(&proxy, &stage, &agent, "c").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_last_longer_than_a_lease() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    stage.knows(Known::Task(T.task("working")));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    // Never silent long enough to be renewed while waiting.
    for second in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        feed.result(&T.piece("response", "tick ", second > 0));
        reader.next().await;
    }
    let busy = proxy.events(&stream_03("too early", ids())).await;
    assert_eq!(state(&busy[0]), "failed", "{busy:?}");
    assert_eq!(agent.calls(), 1, "a turn that is read is nobody's to look at");
    feed.result(&T.status("completed"));
    assert_eq!(state(&reader.result().await), "completed");
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("tick tick"));
}

#[tokio::test(start_paused = true)]
async fn an_event_may_be_large_and_not_too_large() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let long = "word ".repeat(200_000);
    stage.whole(
        event(&T.task("submitted")) + &event(&T.piece("response", &long, false)) + &event(&T.status("completed")),
    );
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(text_of(&events, "response"), long);
    assert_eq!(state(events.last().unwrap()), "completed");
    goes_on(&proxy, &stage, &agent, "c").await;

    let mut policy = Policy::default();
    policy.limits.reply_bytes = 10_000;
    let many =
        |count: usize| -> String { (0..count).map(|at| event(&T.piece("response", &long[..1000], at > 0))).collect() };
    for too_much in [event(&T.piece("response", &long, false)), many(11), "data: ".to_owned() + &long] {
        let stage = Stage::default();
        let (proxy, agent) = with(&stage, policy.clone());
        let feed = stage.stream();
        feed.bytes(event(&T.task("submitted")) + &too_much + &event(&T.status("working")));
        let events = proxy.events(&stream_03("x", ids())).await;
        assert_eq!(state(events.last().unwrap()), "failed");
        assert!(events.last().unwrap().to_string().contains("larger than the limit"));
        goes_on(&proxy, &stage, &agent, "c").await;
    }
    let stage = Stage::default();
    let (proxy, _) = with(&stage, policy);
    stage.whole("data: ".to_owned() + &long);
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(events[0]["error"]["data"][0]["reason"], "REPLY_TOO_LARGE");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_the_end_is_settled_by_a_poll() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": T.task("submitted") });
    stage.answer_with(crate::support::json_response(&response));
    let mut request = stream_03("long job", ids());
    request["method"] = json!("message/send");
    assert_eq!(proxy.call(&request).await["result"], T.task("submitted"));
    stage.knows(Known::Task(T.task("working")));
    assert_eq!(state(&proxy.call(&get_03("u-1")).await), "working");
    assert_eq!(state(&proxy.events(&stream_03("too early", ids())).await[0]), "failed");
    stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
    assert_eq!(state(&proxy.call(&get_03("u-1")).await), "completed");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("long job") && given.contains("The result.") && !given.contains("too early"), "{given}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_the_end_is_settled_by_the_next_send() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": T.task("working") });
    stage.answer_with(crate::support::json_response(&response));
    let mut request = stream_03("long job", ids());
    request["method"] = json!("message/send");
    proxy.call(&request).await;
    stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("long job") && given.contains("The result."), "{given}");
}

/// Bytes that are like a stream, more or less.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<Vec<u8>> = all()
        .into_iter()
        .flat_map(|recording| {
            recording.raw.split_inclusive("\n\n").map(|part| part.as_bytes().to_vec()).collect::<Vec<_>>()
        })
        .collect();
    let words = [
        "data:",
        "data: {",
        "event: error\n",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        ": c\n\n",
        "{}",
        "null",
        "[1]",
        "\u{feff}",
        "id: 1\n",
    ];
    let piece = prop_oneof![
        4 => proptest::sample::select(parts),
        2 => proptest::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    // A piece may be cut, and a byte of it be another.
    let damaged = (piece, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    let damaged = damaged.prop_map(|(mut piece, cut, at, byte, how)| {
        match how {
            0 if !piece.is_empty() => piece.truncate(cut.index(piece.len())),
            1 if !piece.is_empty() => {
                let at = at.index(piece.len());
                piece[at] = byte;
            }
            _ => {}
        }
        piece
    });
    proptest::collection::vec(damaged, 0..12).prop_map(|pieces| pieces.concat())
}

async fn survives(raw: Vec<u8>, pieces: usize) {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let chunks = raw.chunks(pieces.max(1)).map(Bytes::copy_from_slice).collect();
    stage.pieces(chunks);
    let answer = proxy.response(stream_03("x", ids()).to_string()).await;
    let bytes = tokio::time::timeout(Duration::from_secs(3600), answer.into_body().collect()).await;
    let bytes = bytes.expect("it ends").unwrap().to_bytes();
    // Whatever is ours in it can be read.
    let mut splitter = a2a_multiturn::sse::Splitter::new(usize::MAX);
    splitter.push(&bytes);
    let mut last = None;
    while let Some(event) = splitter.take().unwrap() {
        last = event.data().filter(|data| !data.is_empty()).map(std::borrow::Cow::into_owned).or(last);
    }
    assert!(!splitter.is_amid_event(), "{}", String::from_utf8_lossy(&bytes));
    let last: serde_json::Value = serde_json::from_slice(&last.expect("an event")).unwrap();
    assert!(last.get("error").is_some() || last["result"].is_object(), "{last}");
    goes_on(&proxy, &stage, &agent, "c").await;
    settles_down(&proxy).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_turn_ends(raw in hostile(), pieces in 1..200usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(survives(raw, pieces));
    }
}
