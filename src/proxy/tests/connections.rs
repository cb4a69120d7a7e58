//! Connections on both sides: how many, how long, and how they end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::*;
use crate::middleware::RequestBody;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const MOMENT: Duration = Duration::from_millis(100);

/// Whether nothing comes for a moment.
async fn quiet(wire: &mut Wire) -> bool {
    tokio::time::timeout(MOMENT, wire.stream.read_buf(&mut wire.read)).await.is_err()
}

#[tokio::test]
async fn a_connection_that_the_agent_closed_is_not_used_again() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    for _ in 0..3 {
        client.send(POST).await;
        let mut upstream = Wire::accept(&listener).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert!(client.message().await.0.starts_with("HTTP/1.1 200"));
        drop(upstream);
        tokio::time::sleep(MOMENT / 2).await;
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_read_is_never_sent_again() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    client.send(POST).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.message().await;
    upstream.send(OK).await;
    client.message().await;
    // On the same connection: read, then closed without a word.
    client.send(POST).await;
    upstream.message().await;
    drop(upstream);
    let (head, body) = client.message().await;
    assert!(head.starts_with("HTTP/1.1 502") && body.contains("UPSTREAM_UNREACHABLE"), "{head}{body}");
    assert!(tokio::time::timeout(MOMENT, listener.accept()).await.is_err(), "sent again");
    client.send(POST).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.message().await;
    upstream.send(OK).await;
    assert!(client.message().await.0.starts_with("HTTP/1.1 200"));
}

/// The race itself: the agent closes just as the next request comes. Whatever the outcome, no request reaches the agent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_race_for_a_closing_connection_repeats_nothing() {
    const ROUNDS: usize = 300;
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].upstream.connect_timeout = MOMENT;
    let running = serve_bare(&config).await;
    let seen = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let counted = Arc::clone(&seen);
    tokio::spawn(async move {
        for round in 0.. {
            let mut wire = Wire { stream: listener.accept().await.unwrap().0, read: Vec::new() };
            let counted = Arc::clone(&counted);
            // The pool may connect once more than it needs, so that nobody may wait for a request on the newest connection.
            tokio::spawn(async move {
                let (head, _) = wire.message().await;
                *counted.lock().unwrap().entry(header(&head, "x-nr").unwrap().to_owned()).or_default() += 1;
                wire.send(OK).await;
                // What comes within this time is read by the kernel and by nobody else.
                std::thread::sleep(Duration::from_micros(round % 40 * 10));
            });
        }
    });
    let mut client = running.connect().await;
    let mut answered = 0;
    for nr in 0..ROUNDS {
        client.send(POST.replace("host: a", &format!("host: a\r\nx-nr: {nr}"))).await;
        let (head, _) = client.message().await;
        assert!(head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.1 502"), "{head}");
        answered += usize::from(head.starts_with("HTTP/1.1 200"));
    }
    let seen = seen.lock().unwrap();
    assert!(seen.values().all(|&times| times == 1), "{seen:?}");
    assert_eq!(seen.len(), answered, "an answer from nowhere, or none for what was seen");
}

// stale-pool
#[tokio::test]
async fn an_idle_connection_to_the_agent_is_closed_in_time() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].upstream.pool_idle = MOMENT;
    let running = serve_bare(&config).await;
    let mut client = running.connect().await;
    client.send(GET).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    upstream.send(OK).await;
    client.message().await;
    assert_eq!(upstream.rest().await, "");
}

#[tokio::test]
async fn further_requests_wait_until_a_reply_has_ended() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].upstream.connections = 1;
    let running = serve_bare(&config).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.send(GET).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    upstream.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await;
    first.until("x\r\n").await;
    second.send(GET).await;
    assert!(tokio::time::timeout(MOMENT, listener.accept()).await.is_err());
    assert!(quiet(&mut upstream).await);
    upstream.send("0\r\n\r\n").await;
    let mut upstream = tokio::select! {
        more = upstream.more() => { assert!(more); upstream }
        other = Wire::accept(&listener) => other,
    };
    upstream.head().await;
    upstream.send(OK).await;
    assert!(second.head().await.starts_with("HTTP/1.1 200"));
}

/// Who keeps a body that has ended keeps no slot with it.
#[tokio::test]
async fn a_slot_is_free_at_the_last_byte() {
    let (listener, url) = agent().await;
    let mut route = route(&url);
    route.upstream.connections = 1;
    let mut kept = Vec::new();
    for reply in [OK, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"] {
        let mut upstream = an_upstream(&route);
        for _ in 0..2 {
            let call = tokio::spawn(upstream.call(Request::new(RequestBody::empty())));
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.send(reply.replace("200 OK", "200 OK\r\nconnection: close")).await;
            let mut body = call.await.unwrap().unwrap().into_body();
            while !body.is_end_stream() && body.frame().await.is_some() {}
            kept.push(body);
        }
    }
}

/// A slot comes back also when the client leaves in mid-reply, when the agent does, and after a reply that has no body to read.
#[tokio::test]
async fn no_slot_is_lost() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].upstream.connections = 1;
    let running = serve_bare(&config).await;
    for (method, reply, client_leaves) in [
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n", true),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", false),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", false),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", false),
        ("GET", "", false),
        ("GET", OK, false),
    ] {
        let mut client = running.connect().await;
        client.send(format!("{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")).await;
        let mut upstream = Wire::accept(&listener).await;
        upstream.head().await;
        upstream.send(reply).await;
        if client_leaves {
            client.until("x\r\n").await;
            drop(client);
            // The agent goes on; the proxy notices as soon as it has something to write.
            while upstream.stream.write_all(b"1\r\nx\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } else {
            drop(upstream);
            client.rest().await;
        }
    }
}

#[tokio::test]
async fn further_clients_wait_in_the_kernels_queue() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.listener.connections = 1;
    let running = serve_bare(&config).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.send(GET).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    upstream.send(OK).await;
    first.message().await;
    second.send("GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(quiet(&mut second).await);
    drop(first);
    assert!(second.head().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_half_closes_gets_its_answer() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    client.send(POST).await;
    client.stream.shutdown().await.unwrap();
    let mut upstream = Wire::accept(&listener).await;
    upstream.message().await;
    tokio::time::sleep(MOMENT).await;
    upstream.send(OK).await;
    assert!(client.rest().await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn a_client_that_says_nothing_is_not_waited_for() {
    let (_listener, url) = agent().await;
    let mut config = config(&url);
    config.listener.header_timeout = MOMENT;
    let running = serve_bare(&config).await;
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n\r\nS", "GET / HTTP/1.1\r\nhost:"] {
        let mut client = running.connect().await;
        client.send(beginning).await;
        let answer = client.rest().await;
        assert_eq!(answer, "", "{beginning:?}");
    }
    let mut client = running.connect().await;
    for _ in 0..2 {
        client.send("GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(client.message().await.0.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(3 * MOMENT).await;
    }
}

#[tokio::test]
async fn running_requests_finish_and_new_ones_are_refused() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let (mut busy, mut idle) = (running.connect().await, running.connect().await);
    idle.send("GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(idle.message().await.0.starts_with("HTTP/1.1 200"));
    busy.send(GET).await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    running.stop.send(()).unwrap();
    assert_eq!(idle.rest().await, "");
    assert!(TcpStream::connect(running.address).await.is_err());
    upstream.send(OK).await;
    assert!(busy.rest().await.ends_with("\r\n\r\nok"));
    assert_eq!(running.outcome.await.unwrap(), DrainOutcome::Finished);
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.listener.drain = 2 * MOMENT;
    for hurry in [false, true] {
        if hurry {
            config.listener.drain = Duration::from_secs(3600);
        }
        let running = serve_bare(&config).await;
        let mut client = running.connect().await;
        client.send(GET).await;
        let mut upstream = Wire::accept(&listener).await;
        upstream.head().await;
        upstream.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: x\n\n").await;
        client.until("data: x\n\n").await;
        let begun = Instant::now();
        running.stop.send(()).unwrap();
        assert!(quiet(&mut client).await);
        if hurry {
            running.at_once.send(()).unwrap();
        }
        assert_eq!(running.outcome.await.unwrap(), DrainOutcome::Cut(1));
        assert!(begun.elapsed() < SOON);
        assert!(!client.rest().await.contains("0\r\n\r\n"));
    }
}
