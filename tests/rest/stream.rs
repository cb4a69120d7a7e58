//! Streams over HTTP+JSON.

use a2a_multiturn::conversation::policy::Policy;
use http::Response;
use serde_json::json;

use super::agent::{BOTH, Client, Spelling, agent, sse, stage};
use crate::support::{Agent, Proxy, URI, body};

#[tokio::test]
async fn a_stream_ends_with_the_question() {
    for spelling in BOTH {
        let (_, client) = stage(spelling);
        let answer = client.post("/message:stream", &spelling.message("Which city do you mean?", json!({}))).await;
        let told = answer.events();
        assert_eq!(told.len(), 3, "{answer:?}");
        let last = &told[2]["statusUpdate"];
        assert_eq!(last["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{answer:?}");
        assert_eq!(last.get("final"), (spelling == Spelling::V03).then_some(&json!(true)));
        assert_eq!(last["status"]["message"][spelling.parts()][0]["text"], "Which city do you mean?");
        assert_eq!(last["metadata"][URI]["resume_scope"], "same_task");
        let id = told[0]["task"]["id"].clone();
        let answered =
            client.post("/message:stream", &spelling.message("Paris.", json!({ "taskId": id }))).await.events();
        assert_eq!(answered[1]["artifactUpdate"]["artifact"]["artifactId"], "response~2");
        assert!(answered.iter().all(|event| {
            event.as_object().unwrap().values().all(|noun| noun.get("taskId").or(noun.get("id")) == Some(&id))
        }));
    }
}

#[tokio::test]
async fn an_event_that_is_not_changed_keeps_its_bytes() {
    for spelling in BOTH {
        let agent = agent(spelling);
        let mut policy = Policy::default();
        policy.rewrite.question.level = a2a_multiturn::conversation::question::Level::Off;
        let client = Client::new(&Proxy::with(&agent, policy), spelling);
        let answer = client.post("/message:stream", &spelling.message("Done.", json!({ "contextId": "c" }))).await;
        let direct: String = answer.events().iter().map(|event| sse(spelling, event)).collect();
        // Keys come back sorted from what was read, as they were sent.
        assert_eq!(answer.raw, direct);
        if spelling == Spelling::V03 {
            assert!(answer.raw.starts_with("data: {\r\ndata:   \"task\": {\r\n"), "{}", answer.raw);
        }
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_any_task_says_so_in_an_error_event() {
    for spelling in BOTH {
        let torn = Agent::scripted(|_| async {
            let mut response = Response::new(body(""));
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            Ok(response)
        });
        let client = Client::new(&Proxy::new(&torn), spelling);
        let answer = client.post("/message:stream", &spelling.message("x", json!({}))).await;
        assert!(answer.raw.starts_with("event: error\ndata: {"), "{}", answer.raw);
        let told = answer.events();
        let error = if spelling == Spelling::V03 { &told[0] } else { &told[0]["error"] };
        assert!(error["message"].is_string() && error["code"].is_number(), "{}", answer.raw);
    }
}

/// The agent's subscription ends with its snapshot, as that of an agent that does not wait does.
#[tokio::test]
async fn an_agent_whose_subscription_ends_at_once_is_not_asked_without_pause() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let left = client.send("!working", json!({})).await;
        let path = format!("/tasks/{}:subscribe", left["id"].as_str().unwrap());
        let told = tokio::time::timeout(std::time::Duration::from_millis(700), client.get(&path)).await;
        assert!(told.is_err(), "the task still works: {told:?}");
        let asked = agent.seen().iter().filter(|seen| seen.line.1.ends_with(":subscribe")).count();
        assert!((1..=3).contains(&asked), "{asked} subscriptions");
    }
}

#[tokio::test]
async fn a_cut_stream_is_asked_for_over_its_own_binding() {
    for spelling in BOTH {
        let inner = agent(spelling);
        let script = inner.clone();
        let agent = Agent::scripted(move |seen| {
            let inner = script.clone();
            async move {
                let cuts = seen.line.1.ends_with(":stream");
                let mut request = http::Request::builder().method(seen.line.0.clone()).uri(&*seen.line.1);
                for (name, value) in &seen.headers {
                    request = request.header(name, value);
                }
                let request = request.body(a2a_multiturn::middleware::RequestBody::whole(seen.raw)).unwrap();
                let answer = tower::ServiceExt::oneshot(inner, request).await?;
                if !cuts {
                    return Ok(answer);
                }
                let (head, whole) = answer.into_parts();
                let whole = http_body_util::BodyExt::collect(whole).await?.to_bytes();
                let first = String::from_utf8_lossy(&whole).replace("\r\n", "\n");
                let first = first.split("\n\n").next().unwrap().to_owned() + "\n\n";
                Ok(Response::from_parts(head, body(first)))
            }
        });
        let client = Client::new(&Proxy::new(&agent), spelling);
        let answer = client.post("/message:stream", &spelling.message("Which city do you mean?", json!({}))).await;
        let told = answer.events();
        assert_eq!(told.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{answer:?}");
        assert!(told[1]["artifactUpdate"].is_object(), "{answer:?}");
        assert_eq!(agent.last().line.1, format!("{}/tasks/u-1?historyLength=100", spelling.base()));
    }
}
