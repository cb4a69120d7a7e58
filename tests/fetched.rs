//! `history.policy = "agent_fetched"`: nothing in front, a pointer in the metadata, and what the agent fetches with it.

use std::sync::{Arc, Mutex};

use a2a_multiturn::conversation::policy::{HistoryPolicy, Policy};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::support::*;

fn fetching() -> Policy {
    policy(|policy| policy.history.policy = HistoryPolicy::AgentFetched)
}

fn reached(proxy: Proxy) -> Proxy {
    proxy.layer.reached_at("http://proxy.test/team");
    proxy
}

/// What the agent was pointed to with the newest message.
fn pointer(agent: &Agent) -> Value {
    agent.last().entry()["transcript"].clone()
}

/// A GET, as the agent makes it.
async fn fetch(proxy: &Proxy, path: &str, token: &str) -> (u16, String) {
    let request = Request::get(path).header("authorization", format!("Bearer {token}"));
    let answer = proxy.service().oneshot(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn path(pointer: &Value) -> String {
    pointer["url"].as_str().unwrap().strip_prefix("http://proxy.test").unwrap().to_owned()
}

fn token(pointer: &Value) -> &str {
    pointer["token"].as_str().unwrap()
}

/// The agent is none of the proxy's principals.
fn nobody(proxy: &Proxy) -> Proxy {
    let mut nobody = proxy.clone();
    nobody.principal = None;
    nobody
}

fn get_10(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "g", "method": "GetTask", "params": { "id": id } })
}

/// A proxy with two turns, and the agent pointed to the first of them.
async fn two_turns() -> (Agent, Proxy) {
    let agent = Agent::saying(|seen| format!("reply {}", seen.sends));
    let proxy = reached(Proxy::with(&agent, fetching())).as_principal("header:ludmilla");
    proxy.send("I am Ada", json!({ "contextId": "c/1" })).await;
    proxy.send("who am I", json!({ "contextId": "c/1" })).await;
    (agent, proxy)
}

#[tokio::test]
async fn nothing_is_put_in_front_and_a_get_of_the_transcript_has_it() {
    let (agent, proxy) = two_turns().await;
    let first = agent.sends()[0].clone();
    assert!(first.entry().is_null(), "of a first message there is nothing to fetch: {}", first.raw);
    let (sent, pointer) = (agent.last(), pointer(&agent));
    assert_eq!((sent.text().as_str(), &pointer["context_id"]), ("who am I", &json!("c/1")));
    assert_eq!(sent.message()["parts"].as_array().unwrap().len(), 1);
    assert_eq!(sent.entry()["history_policy"], "agent_fetched");
    assert!(!sent.raw.contains("ludmilla"), "who is calling is not the agent's matter: {}", sent.raw);
    let (status, body) = fetch(&proxy, &path(&pointer), token(&pointer)).await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let said: Vec<_> = body["turns"].as_array().unwrap().iter().map(|line| (&line["from"], &line["text"])).collect();
    assert_eq!(said, [(&json!("user"), &json!("I am Ada")), (&json!("agent"), &json!("reply 0"))]);
    // The digest is over what is offered, and nothing else was answered.
    assert_eq!(body["history_turns"], sent.entry()["history_turns"]);
    assert_eq!(body["history_turns"].as_array().unwrap().len(), 1);
    assert_eq!(agent.calls(), 2, "the agent is not asked for its own conversation");
}

#[tokio::test]
async fn the_digest_is_that_of_the_same_conversation_put_in_front() {
    let mut digests = Vec::new();
    for policy in [HistoryPolicy::AgentFetched, HistoryPolicy::ClientSupplied] {
        let agent = Agent::saying(|seen| format!("reply {}", seen.sends));
        let change = |settings: &mut Policy| settings.history.policy = policy;
        let proxy = reached(Proxy::with(&agent, super::support::policy(change))).active();
        proxy.send("one", json!({ "contextId": "c" })).await;
        let told_of = proxy.send("two", json!({ "contextId": "c" })).await;
        assert_eq!(told(&told_of)["history_policy"], agent.last().entry()["history_policy"]);
        digests.push(told(&told_of)["accepted_history_digest"].clone());
    }
    assert_eq!(digests[0], digests[1]);
}

#[tokio::test]
async fn list_and_get_with_the_token_have_both_sides_oldest_first() {
    let agent =
        Agent::saying(|seen| if seen.sends == 0 { "Which one?".into() } else { format!("reply {}", seen.sends) });
    let proxy = reached(Proxy::with(&agent, fetching())).as_principal("header:ludmilla");
    let asked = proxy.send("book", json!({ "contextId": "c" })).await;
    proxy.send("the first", json!({ "taskId": asked["id"] })).await;
    proxy.send("thanks", json!({ "contextId": "c" })).await;
    let pointer = pointer(&agent);
    let as_agent = nobody(&proxy).with_header("authorization", &format!("Bearer {}", token(&pointer)));
    let calls = agent.calls();
    let listed = as_agent.call(&list_10(json!({}))).await;
    let tasks = listed["result"]["tasks"].as_array().unwrap();
    let said = |task: &Value| -> Vec<(String, String)> {
        let history = task["history"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        history.iter().map(|said| (text(&said["role"]), text(&said["parts"][0]["text"]))).collect()
    };
    let (user, them) = ("ROLE_USER", "ROLE_AGENT");
    let pair = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let chain = [pair(user, "book"), pair(them, "Which one?"), pair(user, "the first"), pair(them, "reply 1")];
    assert_eq!(tasks.len(), 2);
    assert_eq!(said(&tasks[0]), [pair(user, "thanks"), pair(them, "reply 2")]);
    assert_eq!(said(&tasks[1]), chain);
    let got = as_agent.call(&get_10(&asked["id"])).await;
    assert_eq!(said(&got["result"]), chain);
    assert_eq!(agent.calls(), calls);
    // It reads, and does nothing else.
    for request in [send_10("x", json!({ "contextId": "c" })), cancel_03(asked["id"].as_str().unwrap())] {
        let answer = as_agent.call(&request).await;
        assert_eq!(answer["error"]["code"], -32004, "{answer}");
    }
    assert_eq!(agent.calls(), calls);
}

#[tokio::test]
async fn a_token_that_is_misused_opens_as_much_as_one_that_does_not_exist() {
    let agent = Agent::saying(|seen| format!("reply {}", seen.sends));
    let clock = TestClock::new();
    let proxy = reached(Proxy::timed(&agent, fetching(), &clock)).as_principal("ada");
    let other = proxy.send("other", json!({ "contextId": "other" })).await;
    let first = proxy.send("one", json!({ "contextId": "c" })).await;
    proxy.send("two", json!({ "contextId": "c" })).await;
    let pointer = pointer(&agent);
    let good = token(&pointer).to_owned();
    let unknown = fetch(&proxy, "/team/a2a-multiturn/contexts/bm93aGVyZQ/transcript", "nothing").await;
    assert_eq!(unknown.0, 404);
    let altered = format!("{}{}", &good[..good.len() - 2], if good.ends_with("AA") { "BB" } else { "AA" });
    let elsewhere = path(&pointer).replace("/Yw/", "/b3RoZXI/");
    assert_ne!(elsewhere, path(&pointer));
    for (path, token) in
        [(elsewhere.clone(), &*good), (path(&pointer), &altered), (path(&pointer), "a2amt."), (path(&pointer), "")]
    {
        assert_eq!(fetch(&proxy, &path, token).await, unknown, "{path} {token}");
    }
    let on = |route: &str, token: &str| {
        nobody(&proxy.on_route(route)).with_header("authorization", &format!("Bearer {token}"))
    };
    let nothing = json!({ "tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0 });
    let tries = |route: &'static str, token: String, context: &'static str, task: Value| {
        let as_agent = on(route, &token);
        async move {
            let listed = as_agent.call(&list_10(json!({ "contextId": context }))).await;
            let got = as_agent.call(&get_10(&task)).await;
            (listed["result"].clone(), got["error"]["code"].clone())
        }
    };
    let as_unknown = (nothing, json!(-32001));
    assert_eq!(tries("default", good.clone(), "other", other["id"].clone()).await, as_unknown, "another context");
    assert_eq!(tries("elsewhere", good.clone(), "c", first["id"].clone()).await, as_unknown, "another route");
    assert_eq!(tries("default", altered, "c", first["id"].clone()).await, as_unknown, "altered");
    let opened = tries("default", good.clone(), "c", first["id"].clone()).await;
    assert_eq!((opened.0["totalSize"].as_u64(), opened.1), (Some(2), Value::Null));
    clock.forward(3_600_001);
    assert_eq!(tries("default", good.clone(), "c", first["id"].clone()).await, as_unknown, "expired");
    assert_eq!(fetch(&proxy, &path(&pointer), &good).await, unknown);
}

#[tokio::test]
async fn the_client_may_lower_the_policy_for_one_message_and_never_raise_it() {
    use HistoryPolicy::{AgentFetched, ClientSupplied, None};
    for (route, asked, shown) in [
        (ClientSupplied, "agent_fetched", "agent_fetched"),
        (ClientSupplied, "none", "none"),
        (ClientSupplied, "client_supplied", "client_supplied"),
        (ClientSupplied, "whatever", "client_supplied"),
        (AgentFetched, "client_supplied", "agent_fetched"),
        (AgentFetched, "none", "none"),
        (None, "agent_fetched", "none"),
    ] {
        let agent = Agent::saying(|_| "Done.".into());
        let proxy = reached(Proxy::with(&agent, policy(|policy| policy.history.policy = route)));
        proxy.send("one", json!({ "contextId": "c" })).await;
        let asks = json!({ "contextId": "c", "metadata": { URI: { "history_policy": asked } } });
        proxy.send("two", asks).await;
        let sent = agent.last();
        assert_eq!(sent.entry()["history_policy"], shown, "{route:?} {asked}");
        assert_eq!(sent.text().contains("one"), shown == "client_supplied", "{route:?} {asked}");
        assert_eq!(sent.entry()["transcript"].is_object(), shown == "agent_fetched", "{route:?} {asked}");
        let turns = sent.entry()["history_turns"].as_array().unwrap().len();
        assert_eq!(turns, usize::from(shown != "none"), "{route:?} {asked}");
    }
}

#[tokio::test]
async fn where_the_agent_cannot_be_told_the_way_nothing_is_offered() {
    let agent = Agent::saying(|_| "Done.".into());
    let proxy = Proxy::with(&agent, fetching());
    proxy.send("one", json!({ "contextId": "c" })).await;
    proxy.send("two", json!({ "contextId": "c" })).await;
    let sent = agent.last();
    assert_eq!((sent.text().as_str(), &sent.entry()["history_policy"]), ("two", &json!("none")));
    assert_eq!(sent.entry()["history_turns"], json!([]));
    // And what looks like a request for a transcript is the agent's.
    let calls = agent.calls();
    fetch(&proxy, "/a2a-multiturn/contexts/Yw/transcript", "a2amt.x").await;
    assert_eq!(agent.calls(), calls + 1);
}

#[tokio::test]
async fn the_agent_fetches_while_its_turn_is_in_flight_and_sees_what_came_before_it() {
    let proxy: Arc<Mutex<Option<Proxy>>> = Arc::default();
    let seen_by_agent: Arc<Mutex<Vec<String>>> = Arc::default();
    let (door, heard) = (Arc::clone(&proxy), Arc::clone(&seen_by_agent));
    let agent = Agent::scripted(move |seen| {
        let (proxy, heard) = (door.lock().unwrap().clone().unwrap(), Arc::clone(&heard));
        async move {
            let pointer = seen.entry()["transcript"].clone();
            if pointer.is_object() {
                let (_, body) = fetch(&proxy, &path(&pointer), token(&pointer)).await;
                heard.lock().unwrap().push(body);
            }
            let mut answer = json!({ "jsonrpc": "2.0", "result": completed(&seen, "Done.") });
            answer["id"] = seen.json["id"].clone();
            Ok(json_response(&answer))
        }
    });
    *proxy.lock().unwrap() = Some(reached(Proxy::with(&agent, fetching())));
    let client = proxy.lock().unwrap().clone().unwrap();
    for text in ["one", "two", "three"] {
        client.send(text, json!({ "contextId": "c" })).await;
    }
    let heard = seen_by_agent.lock().unwrap().clone();
    assert_eq!(heard.len(), 2);
    assert!(heard[1].contains("two") && !heard[1].contains("three"), "{heard:?}");
}
