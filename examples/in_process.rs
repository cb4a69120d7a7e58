//! The layer in front of an agent in the same process: `cargo run --example in_process`.
//!
//! The agent is any axum route (or hyper, or tower service) that answers A2A; this one answers from what it is given, and keeps nothing.

use std::io::{self, Write};
use std::sync::Arc;

use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::conversation::principal::Principal;
use a2a_multiturn::middleware::{BoxError, ConversationLayer};
use a2a_multiturn::store::{Limits, Memory};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A stateless agent.
async fn agent(Json(call): Json<Value>) -> Json<Value> {
    let given = call["params"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    let reply = match given.split_once("My name is ") {
        _ if !given.ends_with("What is my name?") => "Nice to meet you.".to_owned(),
        Some((_, name)) => format!("You are {}.", name.split('"').next().unwrap_or_default()),
        None => "I don't know.".to_owned(),
    };
    Json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": {
        "kind": "task", "id": call["params"]["message"]["messageId"], "contextId": call["params"]["message"]["contextId"],
        "status": { "state": "completed" },
        "artifacts": [{ "artifactId": "response", "parts": [{ "kind": "text", "text": reply }] }],
        "metadata": { "given": given },
    }}))
}

/// The agent with conversations. `axum::serve(listener, app)` serves it.
fn app() -> Router {
    let limits = Limits { contexts: 10_000, bytes: 256 << 20, ..Limits::default() };
    // The store hashes credentials with it: random, from wherever you have that.
    let mut secret = [0; 32];
    secret.chunks_mut(16).for_each(|half| half.copy_from_slice(uuid::Uuid::new_v4().as_bytes()));
    let store = Memory::new(limits, secret);
    Router::new().route("/", post(agent)).layer(ConversationLayer::new(Policy::default(), Arc::new(store)))
}

async fn send(app: &Router, id: &str, text: &str) -> Result<Value, BoxError> {
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "message/send", "params": { "message": {
        "kind": "message", "messageId": id, "contextId": "c-1", "role": "user", "parts": [{ "kind": "text", "text": text }],
    }}});
    let mut request =
        Request::post("/").header("content-type", "application/json").body(Body::from(call.to_string()))?;
    // Who is calling; what authenticates your callers sets it. Without it all callers are one.
    request.extensions_mut().insert(Principal::from("ada"));
    let response = app.clone().oneshot(request).await?;
    Ok(serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await?)?)
}

/// Two turns.
pub async fn talk(out: &mut impl Write) -> Result<(), BoxError> {
    let app = app();
    for (id, text) in [("m-1", "My name is Ada"), ("m-2", "What is my name?")] {
        let task = &send(&app, id, text).await?["result"];
        let (given, reply) = (&task["metadata"]["given"], &task["artifacts"][0]["parts"][0]["text"]);
        writeln!(out, "sent:      {text}")?;
        writeln!(out, "was given: {}", given.as_str().unwrap_or_default().replace('\n', "\n           "))?;
        writeln!(out, "came back: {}\n", reply.as_str().unwrap_or_default())?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    talk(&mut io::stdout()).await
}
