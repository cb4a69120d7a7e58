//! What waits for a webhook, and what the agent calls back, outlives the proxy.

use super::server::free_port;
use super::*;
use crate::binary::agent::Reserved;
use crate::binary::push::{agent, callback, done, push, send as wishing, states, webhook};

#[tokio::test]
async fn another_proxy_delivers_and_hears_what_one_that_was_killed_began() {
    let server = Server::start("redis-server", free_port(), &["--save", ""]);
    let agent = agent(|_| None);
    let text = format!("{}[push]\nallow = ['http://127.0.0.1']\ntimeout = '1s'\n", config(&agent));
    let mut first = Proxy::sharing(&server.url(), &text).await;
    let reserved = Reserved::new();
    let begun =
        first.call("/", &wishing("go", json!({ "contextId": "c" }), &format!("http://{}", reserved.address()))).await;
    assert_eq!(state(&begun), ("working".to_owned(), "u-1".to_owned()));
    first.line("a push notification waits").await;
    let (path, token) = callback(&agent, &first);
    first.signal("-KILL");
    first.ended().await;
    let second = Proxy::sharing(&server.url(), &text).await;
    assert_eq!(push(&second, &path, "x", &done("u-1", "Paid.")).await, 401);
    assert_eq!(push(&second, &path, &token, &done("u-1", "All done.")).await, 204);
    let webhook = reserved.start(webhook(200));
    webhook.called(2).await;
    assert_eq!(states(&webhook), ["working", "completed"]);
    assert_eq!(webhook.last().json()["artifacts"][0]["parts"][0]["text"], "All done.");
}
