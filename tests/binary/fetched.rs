//! `agent_fetched` over real sockets: the agent finds its way by what it is told alone.

use serde_json::{Value, json};

use super::agent::Agent;
use super::process::{File, Proxy};
use super::wire::{Request, Wire};
use crate::support::{URI, send_03};

fn configured(agent: &Agent, more: &str) -> String {
    let route = format!("[[route]]\nprefix = \"/team\"\nupstream = \"{}\"\n", agent.url());
    format!("[listener]\naddress = \"127.0.0.1:0\"\n{more}\n[history]\npolicy = \"agent_fetched\"\n{route}")
}

async fn pointed(agent: &Agent, proxy: &Proxy, context: &str) -> Value {
    for text in ["I am Ada", "who am I"] {
        let answer = proxy.call("/team", &send_03(text, json!({ "contextId": context }))).await;
        assert!(answer["error"].is_null(), "{answer}");
    }
    agent.last().json()["params"]["message"]["metadata"][URI]["transcript"].clone()
}

#[tokio::test]
async fn the_agent_follows_the_url_that_it_is_given() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::with(&configured(&agent, "")).await;
    let pointer = pointed(&agent, &proxy, "../c 1").await;
    let url: http::Uri = pointer["url"].as_str().unwrap().parse().unwrap();
    let address = url.authority().unwrap().as_str().parse().unwrap();
    let get = Request::get(url.path()).with("authorization", &format!("Bearer {}", pointer["token"].as_str().unwrap()));
    let answer = Wire::connect(address).await.ask(&get).await;
    assert_eq!((answer.status(), answer.header("cache-control")), (200, Some("no-store")), "{}", answer.text());
    assert_eq!(answer.json()["turns"][0]["text"], "I am Ada");
    let without = Wire::connect(address).await.ask(&Request::get(url.path())).await;
    assert_eq!(without.status(), 404);
}

#[tokio::test]
async fn the_base_is_the_configured_one() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::with(&configured(&agent, "[proxy]\nagent_url = \"http://proxy.internal/base\"")).await;
    let pointer = pointed(&agent, &proxy, "c").await;
    let url = pointer["url"].as_str().unwrap();
    assert_eq!(url, "http://proxy.internal/base/team/a2a-multiturn/contexts/Yw/transcript");
}

#[tokio::test]
async fn what_is_not_known_is_said_at_the_start() {
    let file = File::new(
        "history.policy = 'agent_fetched'\nlistener.address = '0.0.0.0:0'\nupstream.url = 'http://127.0.0.1:9'",
    );
    let ended = super::process::run(["serve", "--config", super::process::arg(&file.path())]).await;
    assert_ne!(ended.code, Some(0));
    assert!(
        ended.err.contains("history.policy: the agent cannot be told where it fetches conversations"),
        "{}",
        ended.err
    );
}
