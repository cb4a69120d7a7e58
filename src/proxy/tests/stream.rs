//! Bodies pass as they come: nothing is gathered, nothing is cut.

use super::*;

const MIB: usize = 1 << 20;

/// Eight MiB that do not repeat at any chunk's length.
fn big() -> Vec<u8> {
    (0..8 * MIB).map(|i| (i % 251) as u8).collect()
}

#[tokio::test]
async fn each_event_arrives_before_the_next_is_sent() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    for piece in ["5\r\nup: 1\r\n", "5\r\nup: 2\r\n", "5\r\nup: 3\r\n"] {
        client.send(piece).await;
        assert_eq!(upstream.until(piece).await, piece);
    }
    // The reply may begin before the request has ended.
    upstream.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.head().await;
    for event in ["9\r\ndata: 1\n\n\r\n", "9\r\ndata: 2\n\n\r\n", "9\r\ndata: 3\n\n\r\n"] {
        upstream.send(event).await;
        assert_eq!(client.until(event).await, event);
    }
    client.send("0\r\n\r\n").await;
    upstream.until("0\r\n\r\n").await;
    upstream.send("0\r\n\r\n").await;
    assert_eq!(client.until("0\r\n\r\n").await, "0\r\n\r\n");
}

#[tokio::test]
async fn big_bodies_arrive_as_they_were() {
    let (listener, url) = agent().await;
    let running = serve_bare(&config(&url)).await;
    let mut client = running.connect().await;
    let body = big();
    let sending = tokio::spawn(async move {
        client.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 8 * MIB)).await;
        client.send(big()).await;
        client
    });
    let mut upstream = Wire::accept(&listener).await;
    let head = upstream.head().await;
    assert_eq!(headers(&head, "content-length"), ["8388608"]);
    assert!(upstream.exactly(8 * MIB).await == body);
    let mut client = sending.await.unwrap();
    let replying = tokio::spawn(async move {
        upstream.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 8 * MIB)).await;
        upstream.send(big()).await;
        upstream
    });
    let head = client.head().await;
    assert_eq!(headers(&head, "content-length"), ["8388608"]);
    assert!(client.exactly(8 * MIB).await == body);
    replying.await.unwrap();
}

/// A client that does not read stops the agent: the proxy has no room of its own.
#[tokio::test]
async fn a_slow_reader_is_not_buffered_for() {
    let (listener, url) = agent().await;
    let mut config = config(&url);
    config.routes[0].policy.timeouts.idle = Duration::from_millis(100);
    let running = serve_bare(&config).await;
    let mut client = running.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut upstream = Wire::accept(&listener).await;
    upstream.head().await;
    const TOTAL: usize = 64 * MIB;
    upstream.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {TOTAL}\r\n\r\n")).await;
    let mut sent = 0;
    let piece = vec![b'x'; MIB];
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(300), upstream.stream.write(&piece)).await {
        sent += written.unwrap();
        assert!(sent < TOTAL, "all of it went somewhere");
    }
    // Nor is the wait for the client taken for a pause of the agent's, which may be no longer than 100 ms.
    let rest = tokio::spawn(async move {
        upstream.send(vec![b'x'; TOTAL - sent]).await;
        upstream
    });
    client.head().await;
    assert_eq!(client.exactly(TOTAL).await.len(), TOTAL);
    rest.await.unwrap();
}
