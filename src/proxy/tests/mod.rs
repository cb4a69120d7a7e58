//! The proxy over real sockets, byte for byte where bytes matter.

use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_service::Service;

use super::*;
use crate::config::{Identity, Listener, Log, LogFormat, Store};
use crate::conversation::policy::Policy;
use crate::middleware::ReplyBody;

mod app;
mod connections;
mod errors;
mod exchange;
mod stream;
mod tls;

/// Nothing here takes longer, unless it hangs.
const SOON: Duration = Duration::from_secs(5);

/// One connection's bytes, at either end.
struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    async fn accept(listener: &TcpListener) -> Self {
        let accepted = tokio::time::timeout(SOON, listener.accept()).await.expect("a connection");
        Self { stream: accepted.unwrap().0, read: Vec::new() }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Up to and with `end`.
    async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = memchr::memmem::find(&self.read, end.as_bytes()) {
                let found = self.read.drain(..at + end.len()).collect();
                return String::from_utf8(found).unwrap();
            }
            assert!(self.more().await, "closed before {end:?}: {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    async fn head(&mut self) -> String {
        self.until("\r\n\r\n").await
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            assert!(self.more().await, "closed after {} of {length}", self.read.len());
        }
        self.read.drain(..length).collect()
    }

    /// A head and, by its content-length, a body.
    async fn message(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        (head, String::from_utf8(self.exactly(length).await).unwrap())
    }

    /// Whatever comes until the other end closes.
    async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.read)).unwrap()
    }

    /// False: closed.
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.read);
        tokio::time::timeout(SOON, read).await.expect("more bytes").is_ok_and(|read| read > 0)
    }
}

/// The first value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    headers(head, name).into_iter().next()
}

fn headers<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}

/// A listener for an agent, and its URL.
async fn agent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

fn route(url: &str) -> Route {
    Route {
        id: "default".into(),
        prefix: String::new(),
        upstream: crate::config::Upstream {
            url: url.parse().unwrap(),
            path: None,
            ca: None,
            connect_timeout: Duration::from_secs(2),
            pool_idle: Duration::from_secs(4),
            connections: 64,
            headers: Vec::new(),
        },
        policy: Policy::default(),
        identity: Identity::Authorization,
        cors: None,
        push: None,
        ttl: None,
    }
}

fn config(url: &str) -> Config {
    Config {
        proxy: crate::config::Proxy::default(),
        push: crate::config::Delivery::default(),
        listener: Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            public_url: None,
            health_path: Some("/".to_owned()),
            connections: 1024,
            header_timeout: Duration::from_secs(2),
            drain: Duration::from_secs(2),
        },
        routes: vec![route(url)],
        store: Store { contexts: 1, bytes: 1, context_bytes: 1, ttl: SOON, ..Store::default() },
        log: Log { filter: String::new(), format: LogFormat::Auto, bodies: false },
    }
}

/// An upstream with nothing around it.
fn bare(upstream: Upstream) -> RouteService {
    RouteService::from_fn(move |request| {
        let mut upstream = upstream.clone();
        async move { Ok(upstream.call(request).await?.map(ReplyBody::untouched)) }
    })
}

/// A proxy that serves until it is told to stop.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    at_once: oneshot::Sender<()>,
    outcome: JoinHandle<DrainOutcome>,
}

impl Running {
    async fn connect(&self) -> Wire {
        Wire::connect(self.address).await
    }
}

async fn serve(config: &Config, mount: impl FnMut(&Route, Upstream) -> Mount) -> Running {
    let proxy = Proxy::bind(config, &[1; 32], mount).await.unwrap();
    let address = proxy.local_addr();
    let (stop, stopped) = oneshot::channel();
    let (at_once, hurried) = oneshot::channel();
    // A sender that is dropped with its test stops nothing.
    let told = |told: oneshot::Receiver<()>| async move {
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let outcome = tokio::spawn(async move { proxy.serve(told(stopped), told(hurried), || ()).await });
    Running { address, stop, at_once, outcome }
}

async fn serve_bare(config: &Config) -> Running {
    serve(config, |_, upstream| Mount { agent: bare(upstream), card: None }).await
}

fn an_upstream(route: &Route) -> Upstream {
    Upstream::new(route, &Uri::from_static("http://front.example")).unwrap()
}
