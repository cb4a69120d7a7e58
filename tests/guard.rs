//! One turn at a time in a context: who is refused, how, and that the guard is given back on every way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2a_multiturn::conversation::policy::{OnDisconnect, Reject};
use a2a_multiturn::middleware::BoxError;
use futures_util::future::join_all;
use http::Response;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::chains::key;
use super::operations::{beside, gated};
use super::slow::Slow;
use super::support::*;

fn numbered(mut request: Value, id: Value) -> Value {
    request["id"] = id;
    request
}

fn not_found(_: &Seen) -> Value {
    json!({ "error": { "code": -32001, "message": "Task not found" } })
}

// race-same-ctx
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_at_once_one_reaches_the_agent() {
    for reject in [Reject::FailedTask, Reject::Error] {
        for old in [true, false] {
            for slow in [true, false] {
                let gate = Arc::new(Semaphore::new(0));
                let answer = move |seen: &Seen| {
                    let task = completed(seen, "Done.");
                    if old {
                        json!({ "result": task })
                    } else {
                        json!({ "result": { "task": {
                        "id": task["id"], "contextId": task["contextId"], "status": { "state": "TASK_STATE_COMPLETED" } } } })
                    }
                };
                let agent = gated(&gate, answer, not_found);
                let store = if slow { Slow::over(memory()) } else { memory() };
                let proxy = Proxy::over(&agent, policy(|policy| policy.guard.reject = reject), store);
                let refused = Arc::new(AtomicUsize::new(0));
                let sends = (0..50).map(|n| {
                    let (proxy, gate, refused) = (proxy.clone(), Arc::clone(&gate), Arc::clone(&refused));
                    tokio::spawn(async move {
                        let ids = json!({ "contextId": "c" });
                        let request = if old { send_03("go", ids) } else { send_10("go", ids) };
                        let id = if n % 2 == 0 { json!(n) } else { json!(format!("id-{n}")) };
                        let answer = proxy.call(&numbered(request, id.clone())).await;
                        assert_eq!(answer["id"], id);
                        if is_refused(&answer, reject, old) {
                            // The latch opens when 49 refusals have arrived.
                            if refused.fetch_add(1, Ordering::SeqCst) == 48 {
                                gate.add_permits(100);
                            }
                            return 0;
                        }
                        assert!(answer["error"].is_null(), "{answer}");
                        1
                    })
                });
                let answered: usize = join_all(sends).await.into_iter().map(Result::unwrap).sum();
                assert_eq!((answered, refused.load(Ordering::SeqCst), agent.calls()), (1, 49, 1));
                let found = proxy.store.context(&key("c")).await.unwrap().unwrap();
                assert_eq!(
                    (found.context.turns.len(), found.context.apart.len(), found.context.tasks.len()),
                    (1, 0, 1),
                    "nothing is recorded of a refusal"
                );
                let next = if old {
                    send_03("next", json!({ "contextId": "c" }))
                } else {
                    send_10("next", json!({ "contextId": "c" }))
                };
                assert!(!is_refused(&proxy.call(&next).await, reject, old));
            }
        }
    }
}

fn is_refused(answer: &Value, reject: Reject, old: bool) -> bool {
    match reject {
        Reject::FailedTask if is_busy(answer) => {
            let task = if old { &answer["result"] } else { &answer["result"]["task"] };
            assert_eq!(state(task), if old { "failed" } else { "TASK_STATE_FAILED" });
            assert_eq!(task.get("kind").is_some(), old);
            assert!(task["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("in flight"));
            true
        }
        Reject::Error if answer["error"]["code"] == -32050 => {
            let info = &answer["error"]["data"][0];
            assert_eq!(
                (&info["reason"], &info["@type"]),
                (&json!("CONTEXT_BUSY"), &json!("type.googleapis.com/google.rpc.ErrorInfo"))
            );
            assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
            true
        }
        _ => false,
    }
}

#[tokio::test]
async fn other_contexts_principals_and_routes_are_not_in_the_way() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "Done.") }), not_found);
    let proxy = Proxy::new(&agent);
    let who = [proxy.clone(), proxy.as_principal("alice"), proxy.as_principal("bob"), proxy.on_route("other")];
    let mut running = Vec::new();
    for proxy in &who {
        for context in ["c", "d"] {
            running.push(beside(proxy, &agent, send_03("q", json!({ "contextId": context })), running.len() + 1).await);
        }
        running.push(beside(proxy, &agent, send_03("q", json!({})), running.len() + 1).await);
        running.push(beside(proxy, &agent, send_03("q", json!({})), running.len() + 1).await);
    }
    gate.add_permits(100);
    for answer in join_all(running).await {
        let answer = answer.unwrap();
        assert!(answer["error"].is_null() && !is_busy(&answer), "{answer}");
    }
}

// ctx-hijack, route-owner
#[tokio::test]
async fn a_context_id_names_a_conversation_only_with_its_route_and_principal() {
    let agent = Agent::saying(|seen| format!("reply {}", seen.before));
    let proxy = Proxy::new(&agent);
    let who = [
        proxy.clone(),
        proxy.as_principal("alice"),
        proxy.as_principal("bob"),
        proxy.on_route("a"),
        proxy.as_principal("alice").on_route("a"),
    ];
    for (n, proxy) in who.iter().enumerate() {
        proxy.send(&format!("remember pin {n}000"), json!({ "contextId": "c" })).await;
        assert!(!agent.last().text().contains("record of"), "a new, empty context");
    }
    for (n, proxy) in who.iter().enumerate() {
        proxy.send("repeat", json!({ "contextId": "c" })).await;
        let text = agent.last().text();
        for other in 0..who.len() {
            assert_eq!(text.contains(&format!("pin {other}000")), n == other);
            assert_eq!(text.contains(&format!("reply {other}\"")), n == other);
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_task_in_flight_and_its_own_task_can_be_asked_for() {
    let gate = Arc::new(Semaphore::new(1));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "Which one?") }), not_found);
    let proxy = Proxy::new(&agent);
    proxy.send("q", json!({ "contextId": "c" })).await;
    let running = beside(&proxy, &agent, send_03("a", json!({ "taskId": "u-1" })), 2).await;
    let refused = proxy.call(&send_03("b", json!({ "contextId": "c" }))).await["result"].clone();
    assert_eq!(told(&refused)["in_flight_task"], "u-1");
    assert!(refused["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("u-1"));
    assert!(told(&refused)["retry_after_ms"].is_string());
    let id = refused["id"].as_str().unwrap();
    assert_ne!(id, "u-1");
    assert_eq!(refused["contextId"], "c");
    let got = proxy.call(&get_03(id)).await["result"].clone();
    assert_eq!(got, refused);
    assert_eq!(proxy.call(&send_03("c", json!({ "taskId": id }))).await["error"]["code"], -32004);
    assert_eq!(proxy.call(&cancel_03(id)).await["error"]["code"], -32002);
    assert_eq!(proxy.as_principal("bob").call(&get_03(id)).await["error"]["code"], -32001);
    gate.add_permits(10);
    running.await.unwrap();
    proxy.send("d", json!({ "contextId": "c", "referenceTaskIds": [id] })).await;
    assert!(agent.last().message().get("referenceTaskIds").is_none());
}

/// A body that breaks off, or never ends.
fn broken(text: &'static str) -> AgentBody {
    use http_body_util::{BodyExt, StreamBody};
    let frames = [Ok(http_body::Frame::data(text.into())), Err::<_, BoxError>("reset".into())];
    StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
}

// guard-leak
#[tokio::test(start_paused = true)]
async fn however_a_turn_fails_the_next_send_is_accepted_and_the_error_has_the_requests_id() {
    type Fails = fn() -> Result<Response<AgentBody>, BoxError>;
    let html = || Ok(Response::new(body("<html>oops</html>")));
    let cases: Vec<(&str, Fails, i64, &str)> = vec![
        ("transport", || Err("connection refused".into()), -32603, "UPSTREAM_UNREACHABLE"),
        ("timeout", || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()), -32603, "UPSTREAM_TIMEOUT"),
        ("html", html, -32603, "UPSTREAM_MALFORMED"),
        ("empty", || Ok(Response::new(body(""))), -32603, "UPSTREAM_MALFORMED"),
        (
            "truncated",
            || Ok(Response::new(body("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"kind\":\"task\",\"id\":"))),
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        ("cut", || Ok(Response::new(broken("{\"jsonrpc\":\"2.0\""))), -32603, "UPSTREAM_UNREACHABLE"),
        ("no result", || Ok(Response::new(body("{\"jsonrpc\":\"2.0\",\"id\":1}"))), -32603, "UPSTREAM_MALFORMED"),
        (
            "null result",
            || Ok(Response::new(body("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}"))),
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        (
            "number",
            || Ok(Response::new(body("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}"))),
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        (
            "no status",
            || Ok(Response::new(body("{\"id\":1,\"result\":{\"kind\":\"task\",\"id\":\"t\"}}"))),
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        (
            "no id",
            || {
                Ok(Response::new(body(
                    "{\"id\":1,\"result\":{\"kind\":\"task\",\"status\":{\"state\":\"completed\"}}}",
                )))
            },
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        (
            "twice",
            || {
                Ok(Response::new(body(
                    "{\"id\":1,\"result\":{\"kind\":\"task\",\"id\":\"t\",\"id\":\"v\",\"status\":{\"state\":\"completed\"}}}",
                )))
            },
            -32603,
            "UPSTREAM_MALFORMED",
        ),
        (
            "too large",
            || Ok(Response::new(body(format!("{{\"x\":\"{}\"}}", "y".repeat(70_000))))),
            -32603,
            "REPLY_TOO_LARGE",
        ),
        (
            "event",
            || {
                Ok(Response::new(body(
                    "{\"id\":1,\"result\":{\"kind\":\"artifact-update\",\"taskId\":\"t\",\"artifact\":{}}}",
                )))
            },
            -32603,
            "UPSTREAM_MALFORMED",
        ),
    ];
    for (name, fails, code, reason) in cases {
        let agent = Agent::scripted(move |seen| async move {
            if seen.text().ends_with("fail") {
                fails()
            } else {
                Ok(json_response(&json!({ "id": seen.json["id"], "result": completed(&seen, "Which one?") })))
            }
        });
        let proxy = Proxy::with(&agent, policy(|policy| policy.limits.reply_bytes = 65_536));
        for first in ["fail", "ask"] {
            if first == "ask" {
                proxy.send("ask", json!({ "contextId": "c" })).await;
            }
            let answer = proxy.call(&numbered(send_03("fail", json!({ "contextId": "c" })), json!("its own"))).await;
            assert_eq!(answer["id"], "its own", "{name}");
            assert_eq!(
                (&answer["error"]["code"], &answer["error"]["data"][0]["reason"]),
                (&json!(code), &json!(reason)),
                "{name}: {answer}"
            );
            let after = proxy.send("tell", json!({ "contextId": "c" })).await;
            assert!(!is_busy(&json!({ "result": after })), "{name}");
        }
        // On an open task as well, and without a context.
        let task = proxy.send("ask", json!({})).await;
        proxy.call(&send_03("fail", json!({ "taskId": task["id"] }))).await;
        assert_eq!(proxy.send("tell", json!({ "taskId": task["id"] })).await["id"], task["id"], "{name}");
        assert!(proxy.call(&send_03("fail", json!({}))).await["error"].is_object(), "{name}");
        proxy.layer.drained().await;
        assert!(proxy.store.context(&key("c")).await.unwrap().unwrap().in_flight.is_none());
    }
}

#[tokio::test]
async fn the_agents_own_errors_reach_the_client_as_they_are() {
    for (status, text, expected) in [
        (500, "oops", "oops"),
        (503, "<html>busy</html>", "<html>busy</html>"),
        (401, "{\"error\":\"unauthorized\"}", "{\"error\":\"unauthorized\",\"id\":\"i\"}"),
        (
            200,
            "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"error\":{\"code\":-32099,\"message\":\"no\",\"data\":{\"x\":1.0}}}",
            "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"error\":{\"code\":-32099,\"message\":\"no\",\"data\":{\"x\":1.0}}}",
        ),
        (
            200,
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}",
            "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"error\":{\"code\":-32700,\"message\":\"x\"}}",
        ),
    ] {
        let agent = Agent::scripted(move |seen| async move {
            if seen.before > 0 {
                return Ok(json_response(&json!({ "id": 1, "result": completed(&seen, "ok") })));
            }
            let mut response = Response::new(body(text));
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
            Ok(response)
        });
        let proxy = Proxy::new(&agent);
        let response =
            proxy.response(numbered(send_03("q", json!({ "contextId": "c" })), json!("i")).to_string()).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["www-authenticate"].to_str().unwrap()),
            (status, "Bearer")
        );
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        proxy.send("q2", json!({ "contextId": "c" })).await;
        assert_eq!(agent.last().text(), "q2", "what failed is not shown");
    }
}

#[tokio::test]
async fn a_panic_in_the_agent_is_answered_and_leaves_no_guard() {
    let agent = Agent::scripted(|seen| async move {
        assert!(!seen.text().ends_with("panic"), "the agent panics");
        Ok(json_response(&json!({ "id": seen.json["id"], "result": completed(&seen, "ok") })))
    });
    let proxy = Proxy::new(&agent);
    for _ in 0..3 {
        let answer = proxy.call(&numbered(send_03("panic", json!({ "contextId": "c" })), json!("i"))).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32603), &json!("i")));
        tokio::task::yield_now().await;
        proxy.send("q", json!({ "contextId": "c" })).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_has_its_turn_finished_or_aborted() {
    for (on, shown) in [(OnDisconnect::Finish, true), (OnDisconnect::Abort, false)] {
        let gate = Arc::new(Semaphore::new(0));
        let agent = gated(
            &gate,
            |seen| json!({ "result": completed(seen, if seen.sends == 0 { "late" } else { "ok" }) }),
            not_found,
        );
        let proxy = Proxy::with(&agent, policy(|policy| policy.on_disconnect = on));
        let leaving = {
            let proxy = proxy.clone();
            tokio::spawn(async move { proxy.call(&send_03("a", json!({ "contextId": "c" }))).await })
        };
        while agent.calls() < 1 {
            tokio::task::yield_now().await;
        }
        leaving.abort();
        let _ = leaving.await;
        if shown {
            assert!(is_busy(&proxy.call(&send_03("b", json!({ "contextId": "c" }))).await), "the turn goes on");
        }
        gate.add_permits(10);
        proxy.layer.drained().await;
        proxy.send("c", json!({ "contextId": "c" })).await;
        assert_eq!(agent.last().text().contains("late"), shown, "{on:?}");
    }
}

#[tokio::test]
async fn a_client_that_answers_the_moment_it_has_the_answer_is_never_refused() {
    let agent = Agent::saying(|seen| if seen.before % 3 == 2 { "Done.".into() } else { "Which one?".into() });
    let proxy = Proxy::over(
        &agent,
        policy(|policy| {
            policy.history.max_turns = 4;
            policy.guard.wait = Duration::ZERO
        }),
        Slow::over(memory()),
    );
    let mut ids = json!({ "contextId": "c" });
    for round in 0..300 {
        let answer = proxy.call(&send_03("go", ids)).await;
        assert!(!is_busy(&answer) && answer["error"].is_null(), "round {round}: {answer}");
        ids = json!({ "contextId": "c" });
        if state(&answer["result"]) == "input-required" {
            ids["taskId"] = answer["result"]["id"].clone();
        }
    }
    assert_eq!(agent.calls(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_send_may_wait_for_the_turn_in_flight() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, &format!("reply {}", seen.sends)) }), not_found);
    let proxy = Proxy::with(&agent, policy(|policy| policy.guard.wait = Duration::from_secs(5)));
    let first = beside(&proxy, &agent, send_03("one", json!({ "contextId": "c" })), 1).await;
    let second = {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.call(&send_03("two", json!({ "contextId": "c" }))).await })
    };
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(agent.calls(), 1);
    gate.add_permits(2);
    assert!(!is_busy(&first.await.unwrap()));
    assert!(!is_busy(&second.await.unwrap()));
    assert!(agent.last().text().contains("reply 0"), "it sees the turn before it");
}

#[tokio::test]
async fn a_repeat_that_waited_for_the_first_is_answered_as_a_repeat() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "paid") }), not_found);
    let proxy = Proxy::with(&agent, policy(|policy| policy.guard.wait = Duration::from_secs(60)));
    let request = send_03("pay once", json!({ "contextId": "c", "messageId": "m" }));
    let first = beside(&proxy, &agent, request.clone(), 1).await;
    let second = {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.call(&request).await })
    };
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(2);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((&first["result"]["id"], agent.calls()), (&second["result"]["id"], 1));
}

// dup-messageid
#[tokio::test]
async fn a_repeat_of_the_newest_message_is_answered_from_the_record() {
    let agent = Agent::saying(|seen| format!("Which of {}?", seen.before));
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    let request = send_03("pay once", json!({ "contextId": "c", "messageId": "dup" }));
    let first = proxy.call(&request).await["result"].clone();
    let again = proxy.call(&numbered(request.clone(), json!("again"))).await;
    assert_eq!((again["id"].as_str(), agent.calls()), (Some("again"), 1));
    let again = &again["result"];
    assert_eq!((&again["id"], state(again), told(again)), (&first["id"], state(&first), told(&first)));
    assert_eq!((&again["status"]["message"], &again["artifacts"]), (&first["status"]["message"], &first["artifacts"]));
    for other in [
        send_03("pay twice", json!({ "contextId": "c", "messageId": "dup" })),
        send_03("pay once", json!({ "contextId": "d", "messageId": "dup" })),
        send_03("pay once", json!({ "messageId": "dup" })),
        send_03("pay once", json!({ "messageId": "dup" })),
    ] {
        let calls = agent.calls();
        let answer = proxy.call(&other).await;
        assert_eq!((agent.calls(), answer["error"].is_null()), (calls + 1, true), "{other}");
    }
    let calls = agent.calls();
    let old = send_03("later", json!({ "contextId": "c", "messageId": "old" }));
    proxy.call(&old).await;
    clock.forward(60_001);
    proxy.call(&old).await;
    assert_eq!(agent.calls(), calls + 2, "after a minute it is a new message");
    proxy.send("next", json!({ "contextId": "c" })).await;
    assert_eq!(agent.last().text().matches("pay once").count(), 1);
    let off = Proxy::with(&agent, policy(|policy| policy.guard.replay_duplicates = false));
    let calls = agent.calls();
    off.call(&request).await;
    off.call(&request).await;
    assert_eq!(agent.calls(), calls + 2);
}

#[tokio::test]
async fn repeats_of_answers_messages_and_credentials() {
    let agent = Agent::answering(|seen| match &seen.message()["messageId"].as_str().unwrap()[..1] {
        "b" => {
            json!({ "result": { "kind": "message", "messageId": "x", "role": "agent", "contextId": "c", "parts": [{ "kind": "text", "text": "Which one?" }] } })
        }
        "p" => json!({ "result": completed(seen, "Please enter your password.") }),
        _ => json!({ "result": completed(seen, "Thanks.") }),
    });
    let proxy = Proxy::new(&agent);
    let asked = proxy.send("log in", json!({ "contextId": "c", "messageId": "p" })).await;
    let secret = send_03("hunter2", json!({ "contextId": "c", "taskId": asked["id"], "messageId": "s" }));
    let first = proxy.call(&secret).await;
    let calls = agent.calls();
    let again = proxy.call(&secret).await;
    assert_eq!(
        (agent.calls(), state(&again["result"]), &again["result"]["id"]),
        (calls, "completed", &first["result"]["id"]),
        "before the rules of an ended task: {again}"
    );
    let other = send_03("hunter3", json!({ "contextId": "c", "taskId": asked["id"], "messageId": "s" }));
    assert_eq!(proxy.call(&other).await["error"]["code"], -32004, "another content");
    let bare = send_03("which", json!({ "contextId": "c", "messageId": "b" }));
    let first = proxy.call(&bare).await;
    let calls = agent.calls();
    let again = proxy.call(&bare).await;
    assert_eq!((agent.calls(), &again["result"]), (calls, &first["result"]), "a message as it was");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_agent_thinks_and_expires_where_nobody_does() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = gated(&gate, |seen| json!({ "result": completed(seen, "late") }), not_found);
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, policy(|policy| policy.guard.lease = Duration::from_secs(30)), &clock);
    let running = beside(&proxy, &agent, send_03("slow", json!({ "contextId": "c" })), 1).await;
    for _ in 0..12 {
        clock.forward(10_000);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(is_busy(&proxy.call(&send_03("x", json!({ "contextId": "c" }))).await), "it is renewed");
    }
    // The clock alone goes on, as where the process was frozen: the lease expires, another takes it, and the late reply is not recorded.
    clock.forward(31_000);
    gate.add_permits(1);
    let other = {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.call(&send_03("other", json!({ "contextId": "c" }))).await })
    };
    let late = running.await.unwrap();
    gate.add_permits(1);
    let other = other.await.unwrap();
    let _ = (late, other);
    let found = proxy.store.context(&key("c")).await.unwrap().unwrap();
    assert!(found.in_flight.is_none());
}

#[tokio::test]
async fn a_late_reply_of_a_lost_lease_is_not_recorded_and_not_told_as_a_question() {
    let gate = Arc::new(Semaphore::new(0));
    let agent = gated(
        &gate,
        |seen| json!({ "result": completed(seen, if seen.sends == 0 { "Late question?" } else { "Done." }) }),
        not_found,
    );
    let clock = TestClock::new();
    let proxy = Proxy::timed(&agent, Default::default(), &clock);
    let running = beside(&proxy, &agent, send_03("slow", json!({ "contextId": "c" })), 1).await;
    clock.forward(31_000);
    let other = beside(&proxy, &agent, send_03("other", json!({ "contextId": "c" })), 2).await;
    gate.add_permits(3);
    let late = running.await.unwrap();
    assert!(late.to_string().contains("NOT_RECORDED") && !late.to_string().contains("input-required"), "{late}");
    assert_eq!(state(&other.await.unwrap()["result"]), "completed");
    proxy.call(&send_03("next", json!({ "contextId": "c" }))).await;
    let given = agent.last().text();
    assert!(given.contains("other") && !given.contains("Late question"), "{given}");
}
