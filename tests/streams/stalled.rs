//! Clients that stay connected and read no more.

use std::time::Duration;

use a2a_multiturn::conversation::policy::{Mode, OnDisconnect, Policy};
use http_body_util::BodyExt;
use serde_json::json;

use super::stage::{Known, Reader, Stage, Task03, goes_on, settles_down, state, stream_03, text_of, with};

const T: Task03 = Task03("u-1", "c");

fn ids() -> serde_json::Value {
    json!({ "contextId": "c" })
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_whose_client_reads_no_more() {
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let stage = Stage::default();
        let (proxy, agent) = with(&stage, Policy { on_disconnect, ..Policy::default() });
        let feed = stage.stream();
        stage.knows(Known::Task(T.task("working")));
        feed.result(&T.task("submitted"));
        let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
        reader.next().await;
        // Longer than a lease, and more than is buffered.
        for second in 0..60 {
            feed.result(&T.piece("response", "tick ", second > 0));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let busy = proxy.events(&stream_03("too early", ids())).await;
        assert_eq!(state(&busy[0]), "failed", "{busy:?}");
        assert_eq!(agent.sends().len(), 1);
        feed.result(&T.status("completed"));
        // The client took nothing for as long as an agent may be silent, and counts as one that has left.
        tokio::time::sleep(Policy::default().timeouts.idle).await;
        let given = goes_on(&proxy, &stage, &agent, "c").await;
        assert!(given.contains(&"tick ".repeat(60)[..299]), "{on_disconnect:?}: {given}");
        drop(reader);
        settles_down(&proxy).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_on_in_time_misses_nothing() {
    let stage = Stage::default();
    let (proxy, agent) = with(&stage, Policy::default());
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    let mut events = vec![reader.next().await.unwrap()];
    for round in 0..3 {
        for piece in 0..20 {
            feed.result(&T.piece("response", "tick ", round + piece > 0));
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        events.push(reader.next().await.unwrap());
    }
    feed.result(&T.status("completed"));
    events.extend(reader.rest().await);
    assert_eq!(text_of(&events, "response"), "tick ".repeat(60));
    assert_eq!(state(events.last().unwrap()), "completed");
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains(&"tick ".repeat(60)[..299]));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_given_up_does_not_look_whole() {
    let stage = Stage::default();
    let (proxy, _) = with(&stage, Policy::default());
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut body = proxy.response(stream_03("x", ids()).to_string()).await.into_body();
    body.frame().await.unwrap().unwrap();
    for _ in 0..3 {
        feed.result(&T.status("working"));
    }
    tokio::time::sleep(Policy::default().timeouts.idle * 2).await;
    feed.result(&T.status("completed"));
    let error = loop {
        match body.frame().await.expect("an end that shows") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("cut"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_aborted_turn_ends_with_a_client_that_left_after_it_had_stopped_reading() {
    let stage = Stage::default();
    let (proxy, agent) = with(&stage, Policy { on_disconnect: OnDisconnect::Abort, ..Policy::default() });
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    drop(reader);
    feed.closed().await;
    settles_down(&proxy).await;
    goes_on(&proxy, &stage, &agent, "c").await;
}

#[tokio::test(start_paused = true)]
async fn an_observed_stream_that_breaks_is_broken_for_the_client_too() {
    for streams in [true, false] {
        let stage = Stage::default();
        let (proxy, _) = with(&stage, Policy { mode: Mode::Observe, ..Policy::default() });
        let feed = stage.stream();
        feed.result(&T.task("submitted"));
        feed.breaks();
        let mut request = stream_03("x", ids());
        if !streams {
            request["method"] = json!("message/send");
        }
        let body = proxy.response(request.to_string()).await.into_body();
        assert!(body.collect().await.is_err(), "{streams}");
    }
}
