//! Operations on tasks over HTTP+JSON: they agree with what the client was told, and reach the agent under the agent's own ids.

use http::Method;
use serde_json::json;

use super::agent::{BOTH, Spelling, stage};

#[tokio::test]
async fn a_task_is_got_as_the_client_knows_it() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let asked = client.send("Which city do you mean?", json!({})).await;
        let id = asked["id"].as_str().unwrap().to_owned();
        let got = client.get(&format!("/tasks/{id}?historyLength=5")).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(got.json()["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        assert_eq!(agent.last().line, (Method::GET, format!("{}/tasks/u-1?historyLength=5", spelling.base())));
        client.send("Paris.", json!({ "taskId": id })).await;
        let got = client.get(&format!("/tasks/{id}")).await.json();
        assert_eq!((&got["id"], &got["artifacts"][0]["artifactId"]), (&json!(id), &json!("response~2")));
        assert!(agent.last().line.1.ends_with("/tasks/u-3"), "{:?}", agent.last().line);
        let short = client.get(&format!("/tasks/{id}?historyLength=1")).await.json();
        assert_eq!(short["history"].as_array().map(Vec::len), Some(1), "{short}");
    }
}

#[tokio::test]
async fn an_odd_id_survives_the_path() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let task = client.send("!odd", json!({})).await;
        assert_eq!(task["id"], "a/b:c");
        let got = client.get("/tasks/a%2Fb%3Ac").await;
        assert_eq!((got.status, &got.json()["id"]), (200, &json!("a/b:c")), "{got:?}");
        assert_eq!(agent.last().line.1, format!("{}/tasks/a%2Fb%3Ac", spelling.base()));
    }
}

#[tokio::test]
async fn a_task_is_cancelled_by_its_path() {
    for spelling in BOTH {
        let (agent, client) = stage(spelling);
        let asked = client.send("!input", json!({})).await;
        assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        let id = asked["id"].as_str().unwrap().to_owned();
        // Some clients repeat the id in the body.
        let body = json!({ "id": id, "name": format!("tasks/{id}"), "metadata": { "why": "x" } });
        let canceled = client.post(&format!("/tasks/{id}:cancel"), &body).await;
        assert_eq!(
            (canceled.status, &canceled.json()["status"]["state"]),
            (200, &json!(spelling.canceled())),
            "{canceled:?}"
        );
        assert_eq!(agent.last().raw, r#"{"metadata":{"why":"x"}}"#);
        let again = client.call(Method::POST, &format!("/tasks/{id}:cancel"), "").await;
        assert_eq!(again.status, if spelling == Spelling::V03 { 409 } else { 400 }, "{again:?}");
        let calls = agent.calls();
        let open = client.send("Which city do you mean?", json!({})).await;
        let path = format!("/tasks/{}:cancel", open["id"].as_str().unwrap());
        assert_eq!(client.post(&path, &json!({})).await.json()["status"]["state"], spelling.canceled());
        assert_eq!(agent.calls(), calls + 1, "a question of ours is cancelled here");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_subscribed_to_by_get_and_post() {
    for spelling in BOTH {
        for method in [Method::GET, Method::POST] {
            let (agent, client) = stage(spelling);
            let left = client.send("!working", json!({})).await;
            let id = left["id"].as_str().unwrap().to_owned();
            let proxy = client.clone();
            let path = format!("/tasks/{id}:subscribe");
            let told = tokio::spawn(async move { proxy.call(method, &path, "").await });
            // The turn is read by the subscription: cancelled, it ends.
            for rounds in 0.. {
                if agent.seen().iter().any(|seen| seen.line.1.ends_with(":subscribe")) {
                    break;
                }
                assert!(rounds < 10_000, "{:?}", agent.seen());
                tokio::task::yield_now().await;
            }
            client.call(Method::POST, &format!("/tasks/{id}:cancel"), "").await;
            let told = told.await.unwrap();
            let events = told.events();
            assert!(
                events.iter().all(|event| event.get("jsonrpc").is_none() && event.get("kind").is_none()),
                "{told:?}"
            );
            assert!(events[0].get("task").is_some(), "{told:?}");
            assert!(told.raw.contains(spelling.canceled()), "{told:?}");
            let own = agent.seen().into_iter().find(|seen| seen.line.1.ends_with(":subscribe")).unwrap();
            assert_eq!(own.line.0, if spelling == Spelling::V03 { Method::GET } else { Method::POST });
        }
    }
}

#[tokio::test]
async fn tasks_are_listed_from_the_record_in_1_0_alone() {
    let (agent, client) = stage(Spelling::V10);
    for text in ["one", "two", "Which city do you mean?"] {
        client.send(text, json!({ "contextId": if text == "two" { "b" } else { "a" } })).await;
    }
    let calls = agent.calls();
    let page = client.get("/tasks?pageSize=2").await;
    assert_eq!(page.header("content-type"), "application/a2a+json");
    let page = page.json();
    assert_eq!((&page["totalSize"], page["tasks"].as_array().map(Vec::len)), (&json!(3), Some(2)), "{page}");
    let next = client.get(&format!("/tasks?pageSize=2&pageToken={}", page["nextPageToken"].as_str().unwrap())).await;
    assert_eq!(next.json()["tasks"].as_array().map(Vec::len), Some(1));
    let filtered = client.get("/tasks?contextId=a&status=TASK_STATE_INPUT_REQUIRED&includeArtifacts=true").await.json();
    assert_eq!((filtered["totalSize"].as_u64(), filtered["tasks"][0]["artifacts"].is_array()), (Some(1), true));
    assert_eq!(client.get("/tasks?pageSize=-1").await.status, 400);
    assert_eq!(agent.calls(), calls);
    let (agent, client) = stage(Spelling::V03);
    let refused = client.get("/tasks").await;
    assert_eq!((refused.status, &refused.json()["code"], agent.calls()), (404, &json!(-32601), 0));
}

#[tokio::test]
async fn the_extended_card_goes_through_the_rewrite() {
    use std::sync::Arc;

    use a2a_multiturn::conversation::policy::Policy;
    use a2a_multiturn::middleware::ConversationLayer;

    use super::agent::Client;
    use crate::support::{Agent, Proxy, json_response, memory};

    for (spelling, path) in [(Spelling::V03, "/card"), (Spelling::V10, "/extendedAgentCard")] {
        let agent = Agent::scripted(|_| async { Ok(json_response(&json!({ "url": "http://agent/" }))) });
        let store = memory();
        let layer = ConversationLayer::new(Policy::default(), Arc::clone(&store)).with_card(Arc::new(|card, edits| {
            edits.set_string_member(card, "url", "http://proxy/");
            Ok(())
        }));
        let client = Client::new(&Proxy::around(&agent, layer, store), spelling);
        assert_eq!(client.get(path).await.json(), json!({ "url": "http://proxy/" }));
        assert_eq!(agent.last().line, (Method::GET, format!("{}{path}", spelling.base())));
    }
}
