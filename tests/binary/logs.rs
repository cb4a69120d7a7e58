//! What it logs, and what it never does.

use serde_json::{Value, json};

use super::agent::Agent;
use super::process::Proxy;
use super::wire::{Request, Wire};
use crate::support::send_03;

/// Holds a conversation with secrets in it: a message, a reply, a credential.
async fn converse(proxy: &Proxy) {
    for text in ["my-words-1", "my-words-2"] {
        let call = Request::call("/", &send_03(text, json!({ "contextId": "c" })));
        proxy.ask(&call.with("authorization", "Bearer my-token")).await;
    }
    // What cannot be read, what is refused, what is no message.
    for body in ["{\"method\":\"message/send\",my-words-3", "[\"my-words-4\"]", "my-words-5"] {
        proxy.ask(&Request::post("/", body)).await;
    }
    proxy.ask(&Request::get("/?my-words-6")).await;
}

fn events(proxy: &Proxy) -> Vec<Value> {
    let lines = proxy.lines();
    lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
}

#[tokio::test]
async fn every_line_is_json_where_no_person_reads_and_none_holds_what_was_said() {
    let agent = Agent::saying(|_| "their-words".into());
    // A warning of the configuration is one of the lines.
    let mut proxy = Proxy::with(&format!("[upstream]\nurl = '{}'\n[guard]\nlease = '2h'\n", agent.url())).await;
    proxy.line("guard.max_turn").await;
    converse(&proxy).await;
    drop(agent);
    proxy.call("/", &send_03("my-words-7", json!({ "contextId": "c" }))).await;
    proxy.ask(&Request::get("/.well-known/agent-card.json")).await;
    proxy.line("as it was last seen").await;
    proxy.signal("-TERM");
    assert_eq!(proxy.ended().await, Some(0));
    let events = events(&proxy);
    assert!(events.iter().all(|event| event["level"].is_string() && event["fields"]["message"].is_string()));
    assert!(events.iter().any(|event| event["fields"]["message"] == "turn settled"), "{events:#?}");
    let all = proxy.lines().join("\n");
    for secret in ["my-words", "their-words", "my-token"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test]
async fn not_even_a_loud_log_has_bodies_or_credentials() {
    let agent = Agent::saying(|_| "their-words".into());
    let mut proxy = Proxy::with(&format!(
        "[upstream]\nurl = '{}'\nheaders.X-Key = 'our-key'\n[log]\nfilter = 'debug,a2a_multiturn=trace'\n",
        agent.url()
    ))
    .await;
    converse(&proxy).await;
    proxy.line("turn settled").await;
    let all = proxy.lines().join("\n");
    for secret in ["my-words", "their-words", "my-token", "our-key"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test]
async fn bodies_are_logged_where_that_is_asked_for() {
    let agent = Agent::saying(|_| "their-words".into());
    let mut proxy =
        Proxy::with(&format!("[upstream]\nurl = '{}'\n[log]\nbodies = true\nfilter = 'warn'\n", agent.url())).await;
    converse(&proxy).await;
    for (way, words) in
        [("from the client", "my-words-1"), ("to the agent", "my-words-2"), ("from the agent", "their-words")]
    {
        proxy.line(words).await;
        let events = events(&proxy);
        let is_it = |event: &&Value| {
            event["fields"]["way"] == way && event["fields"]["body"].as_str().is_some_and(|body| body.contains(words))
        };
        assert!(events.iter().any(|event| is_it(&event)), "{way}: {events:#?}");
    }
    assert!(!proxy.lines().join("\n").contains("my-token"));
}

#[tokio::test]
async fn a_log_that_is_filtered_still_says_where_it_listens() {
    let agent = Agent::saying(|_| "Noted.".into());
    // It would not have come up without that line.
    let proxy = Proxy::with(&format!("[upstream]\nurl = '{}'\n[log]\nfilter = 'off'\n", agent.url())).await;
    let lines = proxy.lines().len();
    converse(&proxy).await;
    assert_eq!(proxy.lines().len(), lines, "{:#?}", proxy.lines());
}

#[tokio::test]
async fn text_is_for_people() {
    let agent = Agent::saying(|_| "Noted.".into());
    let mut proxy = Proxy::with(&format!("[upstream]\nurl = '{}'\n[log]\nformat = 'text'\n", agent.url())).await;
    let mut wire = Wire::connect(proxy.address).await;
    wire.ask(&Request::call("/", &send_03("hello", json!({})))).await;
    let line = proxy.line("turn settled").await;
    assert!(line.contains(" INFO ") && !line.contains('{') && !line.contains('\u{1b}'), "{line}");
}
