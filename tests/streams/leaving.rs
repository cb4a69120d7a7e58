//! Clients that leave, and clients that answer at once.

use std::time::Duration;

use a2a_multiturn::conversation::policy::{OnDisconnect, Policy};
use http_body_util::BodyExt;
use serde_json::json;

use super::stage::{Feed, Reader, Stage, Task03, event, goes_on, proxy, settles_down, state, stream_03, timed, with};
use super::stores::Tried;
use crate::support::memory;

const T: Task03 = Task03("u-1", "c");

fn ids() -> serde_json::Value {
    json!({ "contextId": "c" })
}

fn abort() -> Policy {
    Policy { on_disconnect: OnDisconnect::Abort, ..Policy::default() }
}

// client-gone-mid-stream
#[tokio::test(start_paused = true)]
async fn a_client_may_leave_at_every_event() {
    let events = [T.task("submitted"), T.status("working"), T.piece("response", "Part one ", false)];
    let rest = [T.piece("response", "part two.", true), T.status("completed")];
    for policy in [Policy::default(), abort()] {
        let finishes = policy.on_disconnect == OnDisconnect::Finish;
        for leaves in 0..=events.len() {
            let stage = Stage::default();
            let (proxy, agent) = with(&stage, policy.clone());
            let feed = stage.stream();
            let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
            for (at, result) in events.iter().enumerate() {
                feed.result(result);
                if at < leaves {
                    reader.next().await.unwrap();
                }
            }
            drop(reader);
            if finishes {
                let busy = proxy.events(&stream_03("too early", ids())).await;
                assert_eq!(state(&busy[0]), "failed", "{busy:?}");
                rest.iter().for_each(|result| feed.result(result));
                drop(feed);
            } else {
                feed.closed().await;
            }
            settles_down(&proxy).await;
            let given = goes_on(&proxy, &stage, &agent, "c").await;
            assert_eq!(given.contains("Part one part two."), finishes, "{leaves}: {given}");
            settles_down(&proxy).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_gone_holds_up_nobody() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let gone = stage.stream();
    drop(Reader::open(&proxy, &stream_03("x", json!({ "contextId": "dead" }))).await);
    let feed = stage.stream();
    let mut reader = Reader::open(&proxy, &stream_03("y", ids())).await;
    for result in [Task03("u-2", "c").task("submitted"), Task03("u-2", "c").status("working")] {
        gone.result(&T.status("working"));
        feed.result(&result);
        assert_eq!(reader.raw().await.unwrap(), event(&result));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_may_leave_before_the_first_byte() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(T.reply("Noted."));
    let response = proxy.response(stream_03("x", ids()).to_string()).await;
    drop(response);
    settles_down(&proxy).await;
    goes_on(&proxy, &stage, &agent, "c").await;
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_for_nobody_is_bounded() {
    let mut policy = Policy::default();
    policy.limits.reply_bytes = 10_000;
    policy.guard.max_turn = Duration::from_secs(600);
    for pings in [false, true] {
        let stage = Stage::default();
        let (proxy, agent) = with(&stage, policy.clone());
        let feed = stage.stream();
        feed.result(&T.task("submitted"));
        let mut reader = Reader::open(&proxy, &stream_03("x", ids())).await;
        reader.next().await;
        drop(reader);
        let agent_goes_on = async {
            loop {
                feed.bytes(if pings { ": ping\n\n".to_owned() } else { event(&T.status("working")) });
                let pause = Duration::from_secs(if pings { 30 } else { 1 });
                if tokio::time::timeout(pause, feed.closed()).await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(700), agent_goes_on).await.expect("it is given up");
        settles_down(&proxy).await;
        goes_on(&proxy, &stage, &agent, "c").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_at_once_is_not_refused() {
    for delay in [0, 1, 20] {
        let stage = Stage::default();
        let agent = stage.agent();
        let mut policy = Policy::default();
        policy.rewrite.question.cap = usize::MAX as _;
        policy.history.max_turns = 2;
        let proxy = timed(&agent, policy, Tried::slow(memory(), Duration::from_millis(delay)));
        let mut ids = ids();
        for round in 0..300 {
            let task: &'static str = format!("u-{round}").leak();
            stage.whole(Task03(task, "c").reply("Which city do you mean?"));
            let mut reader = Reader::open(&proxy, &stream_03(&format!("answer {round}"), ids.clone())).await;
            loop {
                let event = reader.next().await.expect("a closing event");
                assert!(event.get("error").is_none() && state(&event) != "failed", "{round}, {delay} ms: {event}");
                if state(&event) == "input-required" {
                    ids = json!({ "contextId": "c", "taskId": event["result"]["taskId"] });
                    break;
                }
            }
            // The answer goes out while the rest of the stream is not read yet.
            tokio::spawn(reader.rest());
        }
        assert_eq!(ids["taskId"], "u-0");
    }
}

/// What an agent does in the middle of its reply.
async fn misbehaves(how: usize, feed: Feed, task: &Task03) {
    match how % 5 {
        0 => feed.bytes(event(&task.piece("response", "two.", true)) + &event(&task.status("completed"))),
        1 => drop(feed),
        2 => feed.breaks(),
        3 => feed.bytes("data: {\"id\":1,\"result\":{\"kind\":\"status-up"),
        _ => feed.closed().await,
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_clients_leave_and_every_context_takes_its_next_turn() {
    for policy in [Policy::default(), abort()] {
        let stage = Stage::default();
        let (proxy, agent) = with(&stage, policy);
        let mut at_work = Vec::new();
        for number in 0..500_usize {
            let task = Task03(format!("t-{number}").leak(), "agents");
            let begun = [task.task("submitted"), task.status("working"), task.piece("response", "One, ", false)];
            let raw: String = begun.iter().map(event).collect();
            let feed = stage.stream();
            let request = stream_03("x", json!({ "contextId": format!("c-{number}") }));
            let response = proxy.response(request.to_string()).await;
            feed.bytes(raw.as_bytes()[..number * 7919 % (raw.len() + 1)].to_vec());
            let leaves_after = number % 4;
            at_work.push(tokio::spawn(async move {
                let mut body = response.into_body();
                for _ in 0..leaves_after {
                    let _ = tokio::time::timeout(Duration::from_secs(1), body.frame()).await;
                }
                drop(body);
                misbehaves(number / 4, feed, &task).await;
            }));
        }
        for work in at_work {
            work.await.unwrap();
        }
        // Silence, a look and its subscriptions are all bounded.
        tokio::time::timeout(Duration::from_secs(1000), proxy.layer.drained()).await.expect("nothing goes on");
        for number in 0..500 {
            goes_on(&proxy, &stage, &agent, &format!("c-{number}")).await;
        }
    }
}
