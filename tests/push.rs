//! Push notifications: what the agent is told, what it may push, and what the webhooks are told of it.

mod callbacks;
mod configs;
mod told;

use std::sync::Arc;

use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::conversation::principal::RouteId;
use a2a_multiturn::middleware::{AgentPushes, ConversationLayer, Relay};
use a2a_multiturn::push::{Allowed, Notification, Webhooks};
use a2a_multiturn::store::Store;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt;

use super::support::*;

const BASE: &str = "http://proxy.test:8080/travel";
const HOOK: &str = "https://hooks.example/a";

/// A proxy that relays; of an agent that pushes, or that does not.
fn relaying(agent: &Agent, pushes: bool, policy: Policy, store: Arc<dyn Store>) -> Proxy {
    let webhooks = Webhooks { allowed: vec![Allowed::read("http://hooks.internal").unwrap()] };
    let says = AgentPushes::default();
    says.set(pushes);
    let relay = Relay::new(webhooks, 100, says, Arc::new(Notify::new()));
    relay.set_base(BASE);
    Proxy::around(agent, ConversationLayer::new(policy, Arc::clone(&store)).with_push(Arc::new(relay)), store)
}

fn relay(agent: &Agent) -> Proxy {
    relaying(agent, true, Policy::default(), memory())
}

/// What is in the outbox, in order; it is taken out.
async fn outbox(proxy: &Proxy) -> Vec<Notification> {
    let mut all = Vec::new();
    loop {
        let now = u64::MAX / 2;
        let taken = proxy.store.outbox_take(now, now + 1, 100).await.unwrap();
        if taken.is_empty() {
            return all;
        }
        for delivery in taken {
            all.push(postcard::from_bytes::<Notification>(&delivery.body).unwrap());
            proxy.store.outbox_done(delivery.id, None).await.unwrap();
        }
    }
}

/// The states that were told, with the bodies.
async fn told_states(proxy: &Proxy) -> (Vec<String>, Vec<Value>) {
    let all = outbox(proxy).await;
    let bodies = all.iter().map(|told| serde_json::from_str(&told.body).unwrap()).collect();
    (all.into_iter().map(|told| told.state).collect(), bodies)
}

fn with_config(mut send: Value, config: Value) -> Value {
    let name = if send["method"].as_str().unwrap().contains('/') {
        "pushNotificationConfig"
    } else {
        "taskPushNotificationConfig"
    };
    send["params"]["configuration"] = json!({ name: config });
    send
}

/// The callback that the agent was given with a send.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    path: String,
    token: String,
}

fn given(seen: &Seen) -> Given {
    let configuration = &seen.json["params"]["configuration"];
    let config = ["pushNotificationConfig", "taskPushNotificationConfig"].map(|name| &configuration[name]);
    let config = config.into_iter().find(|config| config.is_object()).unwrap_or(&seen.json["params"]);
    given_in(config)
}

fn given_in(config: &Value) -> Given {
    let url = config["url"].as_str().unwrap_or_else(|| panic!("no callback: {config}"));
    let path = url.strip_prefix(BASE).unwrap_or_else(|| panic!("{url}")).to_owned();
    Given { path, token: config["token"].as_str().unwrap().to_owned() }
}

/// What the agent pushes, and how it is answered.
async fn push_with(proxy: &Proxy, path: &str, token: Option<&str>, body: &str) -> StatusCode {
    let mut request = Request::post(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("x-a2a-notification-token", token);
    }
    let mut request = request.body(Full::from(body.to_owned())).unwrap();
    if let Some(route) = &proxy.route {
        request.extensions_mut().insert(route.clone());
    }
    proxy.service().oneshot(request).await.unwrap().status()
}

async fn push(proxy: &Proxy, callback: &Given, body: &Value) -> StatusCode {
    push_with(proxy, &callback.path, Some(&callback.token), &body.to_string()).await
}

/// The only context of the one principal: its turns, whether one is in flight, and its tasks' states.
async fn standing(proxy: &Proxy, task: &str) -> (usize, bool, String) {
    let found = proxy.store.by_task(&RouteId::default(), &"anonymous".into(), task).await.unwrap().expect("a task");
    let state = found.context.task(task).map_or("none".to_owned(), |task| task.state.to_string());
    (found.context.turns.len(), found.in_flight.is_some(), state)
}

fn working(id: &str) -> Value {
    task_03(id, "working", json!({}))
}

fn ended(id: &str, text: &str) -> Value {
    task_03(id, "completed", json!({ "artifacts": [artifact_03("response", text)] }))
}
