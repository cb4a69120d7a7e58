//! Clients that leave a call over HTTP/1.1, where only the connection tells that they did.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::agent::Agent;
use super::process::Proxy;
use super::wire::{Request, Wire, soon};
use crate::support::send_03;

fn hello(context: &str) -> Request {
    Request::call("/", &send_03("hello", json!({ "contextId": context })))
}

async fn aborting(url: &str) -> Proxy {
    Proxy::with(&format!("[[route]]\nupstream = '{url}'\non_disconnect = 'abort'\n")).await
}

#[tokio::test]
async fn a_blocking_call_that_its_client_leaves_is_aborted() {
    let (_open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let proxy = aborting(&agent.url()).await;
    let mut calls = 0;
    for (half, context) in [(false, "left"), (true, "half-closed")] {
        let mut wire = proxy.connect().await;
        wire.send(hello(context).bytes()).await;
        calls += 1;
        agent.called(calls).await;
        if half {
            wire.stream.shutdown().await.unwrap();
            let answer = wire.answer("POST").await.json();
            assert!(answer["error"]["message"].as_str().unwrap().contains("closed its side"), "{answer}");
        } else {
            // Pipelined bytes do not hide that it left.
            wire.send("POST / HTTP/1.1\r\nhost: a\r\n").await;
        }
        drop(wire);
        // Let in as soon as the turn is given up, and no sooner.
        soon("the context to be free", async {
            let mut next = proxy.connect().await;
            loop {
                next.send(hello(context).bytes()).await;
                tokio::select! {
                    refused = next.answer("POST") => assert!(refused.text().contains("failed"), "{}", refused.text()),
                    () = agent.called(calls + 1) => break,
                }
            }
        })
        .await;
        calls += 1;
    }
}

#[tokio::test]
async fn a_stream_that_its_client_leaves_is_aborted_while_the_agent_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refuses = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    // It has no card, which is asked for first.
    let refusing = async {
        loop {
            let mut wire = Wire::over(listener.accept().await.unwrap().0);
            wire.request().await.unwrap();
            wire.send(refuses).await;
        }
    };
    let proxy = tokio::select! {
        proxy = aborting(&url) => proxy,
        () = refusing => unreachable!("it goes on"),
    };
    let mut call = send_03("hello", json!({ "contextId": "c" }));
    call["method"] = json!("message/stream");
    let mut client = proxy.connect().await;
    client.send(Request::call("/", &call).bytes()).await;
    let mut agent = loop {
        let mut wire = Wire::over(listener.accept().await.unwrap().0);
        if wire.request().await.unwrap().method() == "POST" {
            break wire;
        }
        wire.send(refuses).await;
    };
    let task =
        r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}}"#;
    agent
        .send(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {task}\n\n").into_bytes())
        .await;
    client.until("working").await;
    drop(client);
    assert_eq!(soon("the agent's connection to end", agent.rest()).await, "");
}
