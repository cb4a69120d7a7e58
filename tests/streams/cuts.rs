//! Streams that are cut: anywhere, between two pieces of the wire or for good.

use std::time::Duration;

use serde_json::json;

use super::recordings::{Recording, all};
use super::stage::{
    Known, Reader, Stage, Task03, event, goes_on, played, proxy, settles_down, state, stream_03, text_of,
};
use crate::support::{Proxy, get_03};

fn ids() -> serde_json::Value {
    json!({ "contextId": "c" })
}

async fn play(proxy: &Proxy, recording: &Recording) -> Vec<serde_json::Value> {
    played(proxy, &recording.request(ids())).await
}

#[tokio::test(start_paused = true)]
async fn wherever_the_wire_is_cut_the_events_are_the_same() {
    for recording in all() {
        let bytes = recording.raw.as_bytes();
        let mut whole = None;
        for at in 0..=bytes.len() {
            let stage = Stage::default();
            let (proxy, agent) = proxy(&stage);
            stage.pieces(vec![bytes[..at].to_vec().into(), bytes[at..].to_vec().into()]);
            let mut events = play(&proxy, &recording).await;
            let closing = events.last_mut().unwrap();
            assert_eq!(state(closing), recording.closing, "{} at {at}", recording.name);
            // The question's messageId is minted, the digest is over the client's own message with a random id.
            let text = closing.to_string();
            assert_eq!(text_of(&events, "response"), recording.text);
            events.pop();
            assert!(text.contains(recording.text), "{text}");
            assert_eq!(*whole.get_or_insert_with(|| events.clone()), events, "{} at {at}", recording.name);
            if at % 37 == 0 {
                assert!(goes_on(&proxy, &stage, &agent, "c").await.contains(recording.text));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_byte_may_come_alone() {
    for recording in all() {
        let stage = Stage::default();
        let (proxy, _) = proxy(&stage);
        stage.pieces(recording.raw.bytes().map(|byte| vec![byte].into()).collect());
        let events = play(&proxy, &recording).await;
        assert_eq!(state(events.last().unwrap()), recording.closing);
        assert_eq!(text_of(&events, "response"), recording.text);
    }
}

/// What the agent says of the task once its stream was cut, and what the client is told then.
#[derive(Clone, Copy, Debug)]
enum Then {
    Completed,
    WorkingThenSubscribed,
    WorkingNoSubscription,
    NotFound,
    Silent,
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_anywhere_ends_in_one_closing_event() {
    for recording in all() {
        let ends = recording.raw.match_indices("\n\n").chain(recording.raw.match_indices("\r\n\r\n"));
        let ends: Vec<_> = ends.map(|(end, _)| end).collect();
        for at in 0..=recording.raw.len() {
            // Amid an event one place is as good as another; around its end everything is tried everywhere.
            let around_end = ends.iter().any(|end| (*end..end + 5).contains(&at));
            for (number, then) in THEN.into_iter().enumerate().filter(|(number, _)| around_end || at % 5 == *number) {
                ends_at(&recording, at, then, (at + number) % 2 == 0).await;
            }
        }
    }
}

const THEN: [Then; 5] =
    [Then::Completed, Then::WorkingThenSubscribed, Then::WorkingNoSubscription, Then::NotFound, Then::Silent];

async fn ends_at(recording: &Recording, at: usize, then: Then, breaks: bool) {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let feed = stage.stream();
    feed.bytes(recording.raw.as_bytes()[..at].to_vec());
    if breaks {
        feed.breaks();
    } else {
        drop(feed);
    }
    stage.knows(match then {
        Then::Completed => Known::Task(recording.task("completed")),
        Then::WorkingThenSubscribed | Then::WorkingNoSubscription => {
            let mut task = recording.task("working");
            task.as_object_mut().unwrap().remove("artifacts");
            Known::Task(task)
        }
        Then::NotFound => Known::NotFound,
        Then::Silent => Known::Silent,
    });
    if let Then::WorkingThenSubscribed = then {
        // A snapshot and the end.
        let task = recording.task("completed");
        let result = if recording.method == "message/stream" { task } else { json!({ "task": task }) };
        stage.subscription().result(&result);
    }
    let events = play(&proxy, recording).await;
    let why = format!("{} at {at}, {then:?}, breaks: {breaks}: {events:?}", recording.name);
    let closing = events.last().expect(&why);
    let known = closing.get("error").is_none();
    let succeeds = matches!(then, Then::Completed | Then::WorkingThenSubscribed);
    let whole = events.len() > 1 && state(closing) == recording.closing;
    assert_eq!(whole, known && (succeeds || whole), "{why}");
    if !known {
        assert_eq!(closing["error"]["code"], -32603, "{why}");
    } else if !whole {
        assert!(state(closing).to_lowercase().contains("failed"), "{why}");
    } else {
        assert_eq!(text_of(&events, "response"), recording.text, "{why}");
    }
    let ends = events.iter().filter(|event| {
        let state = state(event).to_lowercase();
        state.contains("input") || state.contains("failed") || state.contains("completed")
    });
    assert_eq!(ends.count(), usize::from(known), "{why}");
    let tasks = events.iter().filter(|event| event["result"]["kind"] == "task" || event["result"]["task"].is_object());
    assert!(tasks.count() <= 1, "{why}");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert_eq!(given.contains(recording.text), whole, "{why}\n{given}");
    settles_down(&proxy).await;
}

const T: Task03 = Task03("u-1", "c");

#[tokio::test(start_paused = true)]
async fn what_failed_by_a_cut_stays_failed() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(event(&T.task("submitted")) + &event(&T.piece("response", "half an ans", false)));
    stage.knows(Known::NotFound);
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(state(events.last().unwrap()), "failed");
    stage.knows(Known::Task(T.with_artifact("completed", "half an answer, and the rest")));
    let got = proxy.call(&get_03("u-1")).await;
    assert_eq!(state(&got), "failed", "{got}");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(!given.contains("half an"), "{given}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_is_taken_up_again_without_a_gap() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(event(&T.task("submitted")) + &event(&T.piece("response", "One, ", false)));
    stage.knows(Known::Task(T.with_artifact("working", "One, two, ")));
    let feed = stage.subscription();
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    assert_eq!(reader.result().await["artifact"]["parts"][0]["text"], "One, ");
    let rest = reader.result().await;
    assert_eq!((&rest["artifact"]["parts"][0]["text"], &rest["append"]), (&json!("two, "), &json!(true)));
    // 1.0's servers begin a subscription with the task, 0.3's with the next event, and miss what came between.
    feed.result(&T.piece("response", "four.", true));
    assert_eq!(reader.result().await["artifact"]["parts"][0]["text"], "four.");
    stage.knows(Known::Task(T.with_artifact("completed", "One, two, three, four.")));
    feed.result(&T.status("completed"));
    let rest = reader.rest().await;
    assert_eq!((state(rest.last().unwrap()), rest.len()), ("completed", 2), "{rest:?}");
    assert_eq!(text_of(&rest, "response"), "One, two, three, four.");
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("One, two, three, four."));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_only_ever_says_working_is_given_up() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(event(&T.task("submitted")));
    stage.knows(Known::Task(T.task("working")));
    (0..200).for_each(|_| drop(stage.subscription()));
    let begun = tokio::time::Instant::now();
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(events.iter().map(state).collect::<Vec<_>>(), ["submitted", "failed"]);
    assert!(begun.elapsed() < Duration::from_secs(140), "{:?}", begun.elapsed());
    goes_on(&proxy, &stage, &agent, "c").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_agent_gave_to_another_is_not_shown() {
    // The agent was started anew and counts from 1 again; the proxy may have seen the new task or not.
    for seen in [true, false] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        let feed = stage.stream();
        feed.result(&Task03("1", "c").task("submitted"));
        let mut reader = Reader::open(&proxy.as_principal("alice"), &stream_03("x", ids())).await;
        reader.next().await;
        let of_bob = Task03("1", if seen { "c" } else { "bobs" });
        if seen {
            stage.whole(of_bob.reply("Bob's secret"));
            proxy.as_principal("bob").events(&stream_03("y", ids())).await;
        }
        stage.knows(Known::Task(of_bob.with_artifact("completed", "Bob's secret")));
        feed.breaks();
        let rest = reader.rest().await;
        assert_eq!((rest.len(), state(&rest[0])), (1, "failed"), "{rest:?}");
        assert!(!goes_on(&proxy.as_principal("alice"), &stage, &agent, "c").await.contains("secret"));
    }
}
