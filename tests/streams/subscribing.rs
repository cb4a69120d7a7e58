//! Subscriptions, and tasks that are cancelled while they stream.

use std::sync::Arc;
use std::time::Duration;

use a2a_multiturn::conversation::policy::Policy;
use serde_json::{Value, json};

use super::stage::{
    Known, Reader, Stage, Task03, cancel, event, goes_on, proxy, resubscribe, settles_down, state, stream_03, text_of,
    timed,
};
use crate::support::{Proxy, get_03, json_response};

const T: Task03 = Task03("u-1", "c");

fn ids() -> Value {
    json!({ "contextId": "c" })
}

/// A non-blocking send: the agent works on.
async fn unsettled(proxy: &Proxy, stage: &Stage) {
    stage.answer_with(json_response(&json!({ "jsonrpc": "2.0", "id": 1, "result": T.task("working") })));
    let mut request = stream_03("long job", ids());
    request["method"] = json!("message/send");
    assert_eq!(state(&proxy.call(&request).await), "working");
}

#[tokio::test(start_paused = true)]
async fn subscribers_get_a_snapshot_and_then_the_turns_events() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let feed = stage.stream();
    let mut reader = Reader::open(&proxy, &stream_03("book a room", ids())).await;
    let mut heard = vec![T.task("submitted"), T.status("working"), T.piece("response", "Which city ", false)];
    for result in &heard {
        feed.result(result);
        reader.next().await;
    }
    let mut subscribers = Vec::new();
    for _ in 0..5 {
        let mut subscriber = Reader::open(&proxy, &resubscribe("u-1")).await;
        // The one who reads has to be polled for anything to happen.
        let (snapshot, _) = tokio::join!(subscriber.next(), tokio::time::timeout(Duration::from_secs(1), reader.raw()));
        let snapshot = snapshot.unwrap();
        assert_eq!((&snapshot["id"], state(&snapshot)), (&json!("sub"), "working"));
        assert_eq!(text_of(std::slice::from_ref(&snapshot), "response"), "Which city ");
        subscribers.push(subscriber);
    }
    let rest = [T.piece("response", "do you mean?", true), T.status("working"), T.status("completed")];
    rest.iter().for_each(|result| feed.result(result));
    heard.extend(rest);
    let own: Vec<_> = reader.rest().await.into_iter().map(|mut event| event["result"].take()).collect();
    assert_eq!(state(own.last().unwrap()), "input-required");
    for subscriber in subscribers {
        let events = subscriber.rest().await;
        assert!(events.iter().all(|event| event["id"] == "sub"));
        assert_eq!(events.into_iter().map(|mut event| event["result"].take()).collect::<Vec<_>>(), own);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_falls_behind_holds_up_nobody_and_is_told_the_end() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    let mut slow = Reader::open(&proxy, &resubscribe("u-1")).await;
    let (snapshot, _) = tokio::join!(slow.next(), tokio::time::timeout(Duration::from_secs(1), reader.raw()));
    assert_eq!(state(&snapshot.unwrap()), "submitted");
    for at in 0..1000 {
        feed.result(&T.piece("response", "tick ", at > 0));
        reader.next().await;
    }
    feed.result(&T.status("completed"));
    assert_eq!(reader.rest().await.len(), 1);
    let events = slow.rest().await;
    assert_eq!(state(events.last().unwrap()), "completed");
    assert_eq!(text_of(&events, "response"), "tick ".repeat(1000));
}

#[tokio::test(start_paused = true)]
async fn the_subscribers_of_an_open_task_wait_with_its_answer() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    stage.whole(T.reply("Which city do you mean?"));
    proxy.events(&stream_03("book a room", ids())).await;
    // The head is there, the agent's id is not.
    let feed = stage.stream();
    let mut reader = Reader::open(&proxy, &stream_03("Oslo", json!({ "taskId": "u-1" }))).await;
    let mut subscriber = Reader::open(&proxy, &resubscribe("u-1")).await;
    let (snapshot, _) = tokio::join!(subscriber.next(), tokio::time::timeout(Duration::from_secs(1), reader.raw()));
    let snapshot = snapshot.unwrap();
    assert_eq!((&snapshot["result"]["id"], state(&snapshot)), (&json!("u-1"), "working"));
    let said = snapshot["result"]["history"].as_array().unwrap().iter().map(|m| &m["parts"][0]["text"]);
    assert_eq!(said.collect::<Vec<_>>(), ["book a room", "Which city do you mean?", "Oslo"]);
    feed.bytes(Task03("u-2", "c").reply("Booked."));
    let own = reader.rest().await;
    let events = subscriber.rest().await;
    assert_eq!((events.len(), state(events.last().unwrap())), (own.len(), "completed"));
    assert_eq!(text_of(&events, "response~2"), "Booked.");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_to_a_turn_that_nobody_reads_settles_it() {
    // 1.0's servers and js begin with a snapshot, python's of 0.3 does not.
    for snapshot in [true, false] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        unsettled(&proxy, &stage).await;
        stage.knows(Known::Task(T.with_artifact("working", "The ")));
        let feed = stage.subscription();
        let mut subscriber = Reader::open(&proxy, &resubscribe("u-1")).await;
        let first = subscriber.next().await.unwrap();
        assert_eq!((&first["id"], &first["result"]["kind"], state(&first)), (&json!("sub"), &json!("task"), "working"));
        if snapshot {
            feed.result(&T.with_artifact("working", "The res"));
        }
        feed.result(&T.piece("response", if snapshot { "ult." } else { "result." }, true));
        stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
        feed.result(&T.status("completed"));
        let mut events = vec![first];
        events.extend(subscriber.rest().await);
        assert_eq!(state(events.last().unwrap()), "completed");
        assert_eq!(events.iter().filter(|event| event["result"]["kind"] == "task").count(), 1, "{events:?}");
        assert_eq!(text_of(&events, "response"), "The result.");
        assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("The result."));
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_comes_too_late_tells_the_end() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    unsettled(&proxy, &stage).await;
    stage.knows(Known::Task(T.with_artifact("completed", "Which city do you mean?")));
    let events = Reader::open(&proxy, &resubscribe("u-1")).await.rest().await;
    assert_eq!((events.len(), &events[0]["result"]["kind"], state(&events[0])), (1, &json!("task"), "input-required"));
    stage.whole(Task03("u-2", "c").reply("Booked."));
    let events = proxy.events(&stream_03("Oslo", json!({ "taskId": "u-1" }))).await;
    assert_eq!(state(events.last().unwrap()), "completed");
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_leaves_does_not_lose_the_turn() {
    use a2a_multiturn::conversation::policy::{OnDisconnect, Policy};
    for on_disconnect in [OnDisconnect::Finish, OnDisconnect::Abort] {
        let stage = Stage::default();
        let (proxy, agent) = super::stage::with(&stage, Policy { on_disconnect, ..Policy::default() });
        unsettled(&proxy, &stage).await;
        stage.knows(Known::Task(T.task("working")));
        let feed = stage.subscription();
        let mut subscriber = Reader::open(&proxy, &resubscribe("u-1")).await;
        subscriber.next().await;
        drop(subscriber);
        stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
        feed.result(&T.status("completed"));
        drop(feed);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("The result."), "{on_disconnect:?}");
        settles_down(&proxy).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_subscriptions_leaves_the_turn_as_it_is() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    unsettled(&proxy, &stage).await;
    stage.knows(Known::Task(T.task("working")));
    let events = Reader::open(&proxy, &resubscribe("u-1")).await.rest().await;
    assert_eq!((events.len(), state(&events[0])), (2, "working"), "{events:?}");
    assert!(events[1]["error"]["code"].is_number());
    stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("The result."));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_is_not_subscribed_to() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(T.reply("Noted."));
    proxy.events(&stream_03("x", ids())).await;
    let events = Reader::open(&proxy, &resubscribe("u-1")).await.rest().await;
    assert_eq!((events.len(), &events[0]["error"]["code"], &events[0]["id"]), (1, &json!(-32004), &json!("sub")));
    let events = Reader::open(&proxy, &resubscribe("nobody's")).await.rest().await;
    assert_eq!(events[0]["error"]["code"], -32001);
    let events = Reader::open(&proxy.as_principal("eve"), &resubscribe("u-1")).await.rest().await;
    assert_eq!(events[0]["error"]["code"], -32001);
    // One that waits for its answer is shown as it is.
    stage.whole(Task03("u-2", "c").reply("Which city do you mean?"));
    proxy.events(&stream_03("book", ids())).await;
    let events = Reader::open(&proxy, &resubscribe("u-2")).await.rest().await;
    assert_eq!((events.len(), state(&events[0])), (1, "input-required"));
    assert_eq!(agent.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_while_it_streams() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let feed = stage.stream();
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    stage.cancels_with(T.task("canceled"));
    let asked = async {
        let answer = proxy.call(&cancel("u-1")).await;
        assert_eq!(state(&answer), "canceled", "{answer}");
    };
    let read = async {
        feed.result(&T.status("canceled"));
        let events = reader.rest().await;
        assert_eq!((events.len(), state(&events[0])), (1, "canceled"));
    };
    tokio::join!(asked, read);
    assert_eq!(goes_on(&proxy, &stage, &agent, "c").await, "and now?");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_cancelled_before_the_agent_has_told_an_id() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(T.reply("Which city do you mean?"));
    proxy.events(&stream_03("book a room", ids())).await;
    let feed = stage.stream();
    let reader = Reader::open(&proxy, &stream_03("Oslo", json!({ "taskId": "u-1" }))).await;
    let asked = async {
        let answer = proxy.call(&cancel("u-1")).await;
        assert_eq!(state(&answer), "canceled", "{answer}");
    };
    let read = async {
        let events = reader.rest().await;
        assert_eq!((events.len(), state(&events[0]), &events[0]["result"]["taskId"]), (1, "canceled", &json!("u-1")));
    };
    tokio::join!(asked, read);
    feed.closed().await;
    goes_on(&proxy, &stage, &agent, "c").await;
}

#[tokio::test(start_paused = true)]
async fn events_behind_a_marker_are_not_held_up_for_listeners() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let feed = stage.stream();
    feed.bytes(event(&T.task("submitted")) + &event(&T.piece("response", "Name it [IN", false)));
    let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
    reader.next().await;
    reader.next().await;
    let mut subscriber = Reader::open(&proxy, &resubscribe("u-1")).await;
    let (snapshot, _) = tokio::join!(subscriber.next(), tokio::time::timeout(Duration::from_secs(1), reader.raw()));
    let snapshot = snapshot.unwrap();
    assert_eq!(text_of(std::slice::from_ref(&snapshot), "response"), "Name it ");
    feed.result(&T.piece("response", " here].", true));
    feed.result(&T.status("completed"));
    reader.rest().await;
    let mut events = vec![snapshot];
    events.extend(subscriber.rest().await);
    assert_eq!(text_of(&events, "response"), "Name it [IN here].");
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_stops_tells_everybody_and_loses_no_turn() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let (feed, _nameless, _blocking) = (stage.stream(), stage.stream(), stage.stream());
    feed.result(&T.task("submitted"));
    let mut reader = Reader::open(&proxy, &stream_03("long job", ids())).await;
    reader.next().await;
    let early = Reader::open(&proxy, &stream_03("another", json!({ "contextId": "d" }))).await;
    let mut listener = Reader::open(&proxy, &resubscribe("u-1")).await;
    tokio::join!(listener.next(), tokio::time::timeout(Duration::from_secs(1), reader.raw())).0.unwrap();
    let mut blocking = stream_03("blocking", json!({ "contextId": "e" }));
    blocking["method"] = json!("message/send");
    let (blocked, ()) = tokio::join!(proxy.call(&blocking), async {
        while agent.sends().len() < 3 {
            tokio::task::yield_now().await;
        }
        proxy.layer.conclude();
    });
    let is_told = |event: &Value| {
        assert_eq!(event["error"]["data"][0]["reason"], "PROXY_STOPPING", "{event}");
    };
    let rest = reader.rest().await;
    assert_eq!(rest.len(), 1);
    is_told(&rest[0]);
    is_told(&early.rest().await[0]);
    is_told(&listener.rest().await[0]);
    is_told(&blocked);
    settles_down(&proxy).await;
    // Whoever asks when it is back settles the turn.
    stage.knows(Known::Task(T.with_artifact("completed", "The result.")));
    let after = timed(&agent, Policy::default(), Arc::clone(&proxy.store));
    assert_eq!(state(&after.call(&get_03("u-1")).await["result"]), "completed");
    assert!(goes_on(&after, &stage, &agent, "c").await.contains("The result."));
    goes_on(&after, &stage, &agent, "d").await;
}
