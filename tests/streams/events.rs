//! What the client gets of each event.

use a2a_multiturn::a2a::EXTENSION_URI;
use serde_json::{Value, json};

use super::stage::{Known, Reader, Stage, Task03, event, goes_on, proxy, settles_down, sse, state, stream_03, text_of};
use crate::support::{get_03, json_response};

const T: Task03 = Task03("u-1", "c");

fn ids() -> Value {
    json!({ "contextId": "c" })
}

#[tokio::test]
async fn an_event_that_need_not_change_keeps_its_bytes() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let raw = concat!(
        ": ping - 12:00\r\n\r\n",
        "data: { \"result\" : {\"kind\":\"task\", \"status\":{\"state\":\"submitted\"},\"contextId\":\"c\",\"id\":\"u-1\",\"x\":1e3},\r\ndata: \"id\":1 ,\"jsonrpc\":\"2.0\"}\r\nid: 7\r\n\r\n",
        "event: something\r\ndata: {\"new\":[1,2]}\r\n\r\n",
        "data:{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{\"kind\":\"artifact-update\",\"contextId\":\"c\",\"taskId\":\"u-1\",\"artifact\":{\"artifactId\":\"response\",\"parts\":[{\"kind\":\"text\",\"text\":\"Noted: 你好 🙂 \\u00e9\"}]}}}\r\n\r\n",
        "retry: 10\r\n\r\n",
        "data: {\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{\"kind\":\"status-update\",\"contextId\":\"c\",\"taskId\":\"u-1\",\"final\":true,\"status\":{\"state\":\"completed\"}}}\r\n\r\n",
    );
    stage.whole(raw);
    assert_eq!(proxy.raw(stream_03("note it", ids()).to_string()).await, raw);
}

#[tokio::test]
async fn ids_are_changed_where_they_differ() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    stage.whole(Task03("u-1", "another").reply("Noted.").replace("\"id\":1,", "\"id\":\"other\","));
    let events = proxy.events(&stream_03("note it", ids())).await;
    assert_eq!(events.len(), 4);
    for event in &events {
        assert_eq!(event["id"], 1, "{event}");
        assert_eq!(event["result"]["contextId"], "c", "{event}");
    }
}

// stream-final
#[tokio::test]
async fn a_question_is_asked_and_answered_on_one_task() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(T.reply("Which city do you mean?"));
    let asked = proxy.events(&stream_03("book a room", ids())).await;
    assert_eq!(asked.iter().map(state).collect::<Vec<_>>(), ["submitted", "working", "", "input-required"]);
    let closing = &asked[3]["result"];
    assert_eq!(closing["final"], true);
    assert_eq!(closing["status"]["message"]["parts"], json!([{ "kind": "text", "text": "Which city do you mean?" }]));
    assert_eq!(closing["metadata"][EXTENSION_URI]["resume_scope"], "same_task");

    stage.whole(Task03("u-2", "agent-made").reply("Booked in Oslo."));
    let answered = proxy.events(&stream_03("Oslo", json!({ "contextId": "c", "taskId": "u-1" }))).await;
    assert_eq!(answered.iter().map(state).collect::<Vec<_>>(), ["submitted", "working", "", "completed"]);
    let first = &answered[0]["result"];
    assert_eq!((&first["id"], &first["contextId"]), (&json!("u-1"), &json!("c")));
    assert!(first.get("artifacts").is_none(), "{first}");
    let said: Vec<_> = first["history"].as_array().unwrap().iter().map(|m| m["parts"][0]["text"].clone()).collect();
    assert_eq!(said, ["book a room", "Which city do you mean?"]);
    for event in &answered[1..] {
        assert_eq!((&event["result"]["taskId"], &event["result"]["contextId"]), (&json!("u-1"), &json!("c")));
    }
    assert_eq!(answered[2]["result"]["artifact"]["artifactId"], "response~2");
    assert!(agent.last().json["params"]["message"].get("taskId").is_none());
    // Get agrees with the streams: the question's artifact is gone.
    stage.knows(Known::NotFound);
    let got = proxy.call(&get_03("u-1")).await;
    let artifacts = got["result"]["artifacts"].as_array().unwrap().clone();
    assert_eq!(artifacts.iter().map(|a| &a["artifactId"]).collect::<Vec<_>>(), ["response~2"]);
}

#[tokio::test]
async fn in_1_0_nothing_is_final() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let text = [
        json!({ "task": { "id": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_SUBMITTED" } } }),
        json!({ "artifactUpdate": { "taskId": "u-1", "contextId": "c", "artifact": { "artifactId": "a", "parts": [{ "text": "Which " }] } } }),
        json!({ "artifactUpdate": { "taskId": "u-1", "contextId": "c", "append": true, "artifact": { "artifactId": "a", "parts": [{ "text": "city?" }] } } }),
        json!({ "statusUpdate": { "taskId": "u-1", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
    ];
    stage.whole(text.iter().map(event).collect::<String>());
    let mut request = stream_03("book a room", ids());
    request["method"] = json!("SendStreamingMessage");
    let events = proxy.events(&request).await;
    let closing = &events[3]["result"]["statusUpdate"];
    assert_eq!(closing["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(closing["status"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(closing["status"]["message"]["parts"], json!([{ "text": "Which city?" }]));
    assert!(closing.get("final").is_none());
    assert_eq!(events.len(), 4);
}

#[tokio::test]
async fn nothing_follows_the_closing_event() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let extra = [T.status("working"), T.task("completed"), T.status("completed")];
    stage.whole(T.reply("Which city do you mean?") + &extra.iter().map(event).collect::<String>());
    let events = proxy.events(&stream_03("book a room", ids())).await;
    assert_eq!(events.iter().map(state).collect::<Vec<_>>(), ["submitted", "working", "", "input-required"]);
    goes_on(&proxy, &stage, &agent, "c").await;
    assert_eq!(agent.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_though_the_agent_holds_it_open() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let feed = stage.stream();
    feed.bytes(T.reply("Noted."));
    let begun = tokio::time::Instant::now();
    let events = proxy.events(&stream_03("note it", ids())).await;
    assert_eq!((events.len(), begun.elapsed().as_millis()), (4, 0));
    goes_on(&proxy, &stage, &agent, "c").await;
    settles_down(&proxy).await;
    feed.closed().await;
}

// sse-buffering
#[tokio::test]
async fn an_event_arrives_before_the_next_is_sent() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let feed = stage.stream();
    let mut reader = Reader::open(&proxy, &stream_03("note it", ids())).await;
    for result in [T.task("submitted"), T.status("working"), T.piece("response", "No", false)] {
        feed.result(&result);
        assert_eq!(reader.raw().await.unwrap(), event(&result));
    }
    feed.result(&T.piece("response", "ted", true));
    assert_eq!(reader.result().await["artifact"]["parts"][0]["text"], "ted");
    feed.result(&T.status("completed"));
    assert_eq!(state(&reader.result().await), "completed");
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn markers_are_removed_wherever_they_are_cut() {
    let text = "Name it. [INPUT_REQUIRED]";
    for at in 0..=text.len() {
        for chatter in [false, true] {
            let stage = Stage::default();
            let (proxy, agent) = proxy(&stage);
            let mut events = vec![T.task("submitted"), T.piece("response", &text[..at], false)];
            events.push(T.piece("response", &text[at..], true));
            if chatter {
                events.push(T.status("working"));
            }
            events.push(T.status("completed"));
            stage.whole(events.iter().map(event).collect::<String>());
            let events = proxy.events(&stream_03("x", ids())).await;
            assert_eq!(text_of(&events, "response"), "Name it. ", "{at}");
            let closing = &events.last().unwrap()["result"];
            assert_eq!(state(closing), "input-required");
            assert_eq!(closing["status"]["message"]["parts"][0]["text"].as_str().unwrap().trim(), "Name it.");
            assert_eq!(closing["metadata"][EXTENSION_URI]["reason"], "marker");
            assert!(!goes_on(&proxy, &stage, &agent, "c").await.contains("INPUT_REQUIRED"));
        }
    }
}

#[tokio::test]
async fn what_only_looked_like_a_marker_is_passed_on() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    let events = [
        T.task("submitted"),
        T.piece("response", "See [INPUT", false),
        T.status("working"),
        T.piece("other", "x", false),
        T.piece("response", "_REQ", true),
        T.status("completed"),
    ];
    stage.whole(events.iter().map(event).collect::<String>());
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(text_of(&events, "response"), "See [INPUT_REQ");
    assert_eq!(text_of(&events, "other"), "x");
    let released = &events[2]["result"];
    assert_eq!((&released["kind"], &released["append"]), (&json!("artifact-update"), &json!(true)), "{released}");
}

#[tokio::test]
async fn a_bare_message_stays_one() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let message = json!({ "kind": "message", "messageId": "m", "role": "agent", "contextId": "c", "parts": [{ "kind": "text", "text": "Noted." }] });
    stage.whole(event(&message));
    assert_eq!(proxy.raw(stream_03("note it", ids()).to_string()).await, event(&message));
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("Noted."));

    let asks = json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "Which city do you mean?" }] });
    stage.whole(event(&asks) + &event(&T.status("completed")));
    let events = proxy.events(&stream_03("book", ids())).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["result"]["contextId"], "c");
    assert_eq!(events[0]["result"]["metadata"][EXTENSION_URI]["resume_scope"], "new_task_in_context");
}

#[tokio::test]
async fn a_message_that_answers_an_open_task_is_that_task() {
    let stage = Stage::default();
    let (proxy, _) = proxy(&stage);
    stage.whole(T.reply("Which city do you mean?"));
    proxy.events(&stream_03("book a room", ids())).await;
    let message = json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "Booked." }] });
    stage.whole(event(&message));
    let events = proxy.events(&stream_03("Oslo", json!({ "taskId": "u-1" }))).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["result"]["id"], state(&events[0])), (&json!("u-1"), "completed"));
}

#[tokio::test]
async fn a_status_alone_is_a_reply() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.whole(event(&T.said("working", "Should I look it up?")) + &event(&T.said("completed", "It is 7.")));
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!(events.iter().map(state).collect::<Vec<_>>(), ["working", "completed"]);
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("It is 7.") && !given.contains("look it up"), "{given}");
}

#[tokio::test]
async fn progress_and_thoughts_are_no_reply() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let events = [
        T.said("working", "Should I look it up?"),
        T.piece("reasoning", "thinking…", false),
        T.piece("response", "It is 7.", false),
        T.status("completed"),
    ];
    stage.whole(events.iter().map(event).collect::<String>());
    assert_eq!(state(proxy.events(&stream_03("x", ids())).await.last().unwrap()), "completed");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("It is 7.") && !given.contains("look it up") && !given.contains("thinking"), "{given}");
}

#[tokio::test]
async fn pieces_are_put_together_as_the_protocol_has_it() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let events = [
        T.task("submitted"),
        T.piece("a1", "Hel", false),
        T.piece("b1", "draft", false),
        T.piece("a1", "lo, world!", true),
        T.piece("b1", "final text", false),
        T.status("completed"),
    ];
    stage.whole(events.iter().map(event).collect::<String>());
    proxy.events(&stream_03("x", ids())).await;
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("Hello, world!") && given.contains("final text"), "{given}");
    assert!(!given.contains("draft") && !given.contains("Hel lo"), "{given}");
}

#[tokio::test]
async fn a_genuine_question_passes_untouched() {
    for last in [true, false] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        let mut asks = T.said("input-required", "What is your name?");
        asks["final"] = json!(last);
        let raw = event(&T.task("submitted")) + &event(&asks);
        stage.whole(raw.clone());
        assert_eq!(proxy.raw(stream_03("x", ids()).to_string()).await, raw);
        stage.whole(T.reply("Hello Ada."));
        let events = proxy.events(&stream_03("Ada", json!({ "taskId": "u-1", "contextId": "c" }))).await;
        assert_eq!(state(events.last().unwrap()), "completed", "{events:?}");
        assert_eq!(agent.last().json["params"]["message"]["taskId"], "u-1");
    }
}

#[tokio::test(start_paused = true)]
async fn auth_required_ends_a_stream_and_keeps_the_turn() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let raw = event(&T.task("submitted")) + &event(&T.said("auth-required", "Please log in."));
    stage.whole(raw.clone());
    assert_eq!(proxy.raw(stream_03("x", ids()).to_string()).await, raw);
    stage.whole(event(&T.piece("response", "You are in.", false)) + &event(&T.status("completed")));
    let events = proxy.events(&stream_03("my-secret", json!({ "taskId": "u-1", "contextId": "c" }))).await;
    assert_eq!(state(events.last().unwrap()), "completed", "{events:?}");
    assert_eq!(agent.last().text(), "my-secret");
    let given = goes_on(&proxy, &stage, &agent, "c").await;
    assert!(given.contains("You are in.") && !given.contains("my-secret"), "{given}");
}

#[tokio::test]
async fn errors_of_the_agent_are_the_clients_to_see() {
    let error = json!({ "jsonrpc": "2.0", "id": "other", "error": { "code": -32603, "message": "boom" } });
    for kind in ["", "event: error\n"] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        stage
            .whole(event(&T.task("submitted")) + kind + &format!("data: {error}\n\n") + &event(&T.status("completed")));
        let raw = proxy.raw(stream_03("x", ids()).to_string()).await;
        let events = crate::support::events(&raw);
        assert_eq!((events.len(), &events[1]["id"], &events[1]["error"]["code"]), (2, &json!(1), &json!(-32603)));
        assert_eq!(raw.contains("event: error"), !kind.is_empty());
        let given = goes_on(&proxy, &stage, &agent, "c").await;
        assert_eq!(given, "and now?");
    }
}

#[tokio::test]
async fn json_in_answer_to_a_stream_call_is_one_event() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    stage.answer_with(json_response(
        &json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32004, "message": "no" } }),
    ));
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!((events.len(), &events[0]["error"]["code"]), (1, &json!(-32004)));
    let result = T.with_artifact("completed", "Noted.");
    stage.answer_with(json_response(&json!({ "jsonrpc": "2.0", "id": 1, "result": result })));
    let events = proxy.events(&stream_03("x", ids())).await;
    assert_eq!((events.len(), &events[0]["result"]), (1, &result));
    assert!(goes_on(&proxy, &stage, &agent, "c").await.contains("Noted."));
}

#[tokio::test]
async fn what_cannot_be_read_fails_the_turn() {
    let twice = r#"data: {"id":1,"result":{"kind":"status-update","taskId":"u-1","taskId":"u-2","contextId":"c","status":{"state":"completed"}}}"#;
    for bad in ["data: no json", twice, "data: {\"id\":1,\"result\":{\"kind\":\"task\",", "data: \u{fffd}"] {
        let stage = Stage::default();
        let (proxy, agent) = proxy(&stage);
        stage.whole(event(&T.task("submitted")) + bad + "\n\n" + &event(&T.status("completed")));
        let events = proxy.events(&stream_03("x", ids())).await;
        assert_eq!(events.iter().map(state).collect::<Vec<_>>(), ["submitted", "failed"], "{bad}");
        goes_on(&proxy, &stage, &agent, "c").await;
    }
}

#[tokio::test]
async fn an_error_page_is_passed_on() {
    let stage = Stage::default();
    let (proxy, agent) = proxy(&stage);
    let mut page = sse("oops");
    *page.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    page.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    stage.answer_with(page);
    let answer = proxy.response(stream_03("x", ids()).to_string()).await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (500, &"text/plain".parse().unwrap()));
    goes_on(&proxy, &stage, &agent, "c").await;
}
