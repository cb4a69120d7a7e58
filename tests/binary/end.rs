//! How it ends: signals, what still runs, exit codes; and what it says of its health meanwhile.

use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::agent::Agent;
use super::process::Proxy;
use super::wire::{Request, Wire2, soon};
use crate::support::send_03;

fn hello() -> Request {
    Request::call("/", &send_03("hello", json!({ "contextId": "c" })))
}

/// Waits until nobody is let in any more.
async fn is_closed(proxy: &Proxy) {
    soon("a closed door", async { while TcpStream::connect(proxy.address).await.is_ok() {} }).await;
}

#[tokio::test]
async fn health_is_told_where_it_is_asked_for() {
    let agent = Agent::saying(|_| "Noted.".into());
    for (setting, base) in [("", Some("")), ("health_path = '/ops/'", Some("/ops")), ("health_path = false", None)] {
        let proxy = Proxy::with(&format!("[listener]\n{setting}\n[upstream]\nurl = '{}'\n", agent.url())).await;
        for probe in ["/livez", "/readyz"] {
            if let Some(base) = base {
                let answer = proxy.ask(&Request::get(&format!("{base}{probe}"))).await;
                assert_eq!((answer.status(), &*answer.text()), (200, "ok\n"), "{setting}");
                let head = proxy.ask(&Request::method("HEAD", &format!("{base}{probe}"))).await;
                assert_eq!(head.status(), 200);
            }
            if base != Some("") {
                // It is the agent's, which has none.
                assert_eq!(proxy.ask(&Request::get(probe)).await.status(), 404, "{setting}");
            }
        }
    }
}

#[tokio::test]
async fn an_idle_proxy_stops_at_once() {
    let agent = Agent::saying(|_| "Noted.".into());
    for signal in ["-TERM", "-INT"] {
        let mut proxy = Proxy::before(&agent.url()).await;
        // A connection without a request holds nothing up.
        let (mut used, _unused) = (proxy.connect().await, proxy.connect().await);
        used.ask(&hello()).await;
        proxy.signal(signal);
        assert_eq!(proxy.ended().await, Some(0));
        assert_eq!(used.rest().await, "");
    }
}

#[tokio::test]
async fn a_running_request_finishes_and_nothing_new_begins() {
    let (open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let mut proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    wire.send(hello().bytes()).await;
    agent.called(1).await;
    proxy.signal("-TERM");
    is_closed(&proxy).await;
    open.send(true).unwrap();
    let answer = wire.answer("POST").await;
    assert_eq!(answer.json()["result"]["status"]["state"], "completed");
    assert_eq!(wire.rest().await, "", "the connection ends with it");
    assert_eq!(proxy.ended().await, Some(0));
}

#[tokio::test]
async fn a_request_that_is_stuck_is_answered_in_the_end() {
    let (_open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let mut proxy = Proxy::with(&format!("[listener]\ndrain = '300ms'\n[upstream]\nurl = '{}'\n", agent.url())).await;
    let mut wire = proxy.connect().await;
    wire.send(hello().bytes()).await;
    agent.called(1).await;
    proxy.signal("-TERM");
    let answer = wire.answer("POST").await.json();
    assert_eq!(answer["error"]["data"][0]["reason"], "PROXY_STOPPING", "{answer}");
    assert_eq!(wire.rest().await, "");
    assert_eq!(proxy.ended().await, Some(1));
    proxy.line("1 connection was cut").await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (_open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let mut proxy = Proxy::with(&format!("[listener]\ndrain = '1h'\n[upstream]\nurl = '{}'\n", agent.url())).await;
    let mut wire = proxy.connect().await;
    wire.send(hello().bytes()).await;
    agent.called(1).await;
    proxy.signal("-TERM");
    is_closed(&proxy).await;
    proxy.signal("-INT");
    assert_eq!(proxy.ended().await, Some(1));
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn a_turn_whose_client_has_left_is_finished_too() {
    let (open, gate) = watch::channel(false);
    let agent = Agent::latched(gate);
    let mut proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    wire.send(hello().bytes()).await;
    agent.called(1).await;
    drop(wire);
    proxy.signal("-TERM");
    is_closed(&proxy).await;
    open.send(true).unwrap();
    proxy.line("turn settled").await;
    assert_eq!(proxy.ended().await, Some(0));
}

#[tokio::test]
async fn a_turn_whose_client_has_left_is_not_waited_for_longer_than_a_request() {
    for (drain, signals) in [("300ms", 1), ("1h", 2)] {
        let (_open, gate) = watch::channel(false);
        let agent = Agent::latched(gate);
        let mut proxy =
            Proxy::with(&format!("[listener]\ndrain = '{drain}'\n[upstream]\nurl = '{}'\n", agent.url())).await;
        // Over HTTP/1.1 a client that leaves looks like one that closes its half and waits.
        let wire = Wire2::connect(proxy.address).await;
        let call = send_03("hello", json!({}));
        tokio::select! {
            answer = wire.call(&call) => panic!("{answer}"),
            () = agent.called(1) => {}
        }
        proxy.signal("-TERM");
        if signals == 2 {
            is_closed(&proxy).await;
            proxy.signal("-TERM");
        }
        assert_eq!(proxy.ended().await, Some(1), "{drain}");
        if signals == 1 {
            proxy.line("turns whose clients had left were cut").await;
        }
    }
}
