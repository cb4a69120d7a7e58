//! Clients' connections: HTTP/1.1 and, with prior knowledge, HTTP/2 in the clear.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::drain::DrainOutcome;
use super::headers::Peer;
use super::inflow::Inflow;
use crate::config::Listener;
use crate::middleware::{BoxError, ClientLeft, ReplyBody};

/// After a failed accept, which mostly means that the process has no file descriptor left.
const RESPITE: Duration = Duration::from_millis(100);

/// How long a client may keep a connection between requests: longer than most clients do, since one that is closed under them costs them a
/// request. hyper has one limit for this and for the head that follows.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How long what was concluded may take to reach its clients.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often an HTTP/2 client is asked whether it still lives.
const H2_PING: Duration = Duration::from_secs(30);

/// A bound listener.
#[derive(Debug)]
pub struct Server {
    socket: TcpListener,
    local: SocketAddr,
    connections: usize,
    slots: Arc<Semaphore>,
    header_timeout: Duration,
    drain: Duration,
    watches_clients: bool,
}

impl Server {
    /// Binds the address; from here on the kernel takes connections.
    pub async fn bind(listener: &Listener) -> io::Result<Self> {
        let socket = TcpListener::bind(listener.address).await?;
        Ok(Self {
            local: socket.local_addr()?,
            socket,
            connections: listener.connections,
            slots: Arc::new(Semaphore::new(listener.connections)),
            header_timeout: listener.header_timeout,
            drain: listener.drain,
            watches_clients: false,
        })
    }

    /// Puts a [`ClientLeft`] into each request, at the price of a second file descriptor a connection: for routes that abort then. A client
    /// that only half-closes its connection counts as one that left.
    #[must_use]
    pub fn watching_clients(mut self, watches: bool) -> Self {
        self.watches_clients = watches;
        self
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The same as a URL. An address of digits and brackets always is one.
    pub fn url(&self) -> Uri {
        format!("http://{}", self.local).parse().unwrap_or_default()
    }

    /// Serves each connection with a clone of `app` until `shutdown`. Then no connection is accepted, running requests finish within the
    /// listener's `drain`; `conclude` is to end the rest with an answer, and what is left is cut. `at_once` cuts all of them earlier.
    pub async fn serve<A>(
        self,
        app: A,
        shutdown: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
        conclude: impl FnOnce(),
    ) -> DrainOutcome
    where
        A: Service<Request<Inflow>, Response = Response<ReplyBody>> + Clone + Send + 'static,
        A::Error: Into<BoxError>,
        A::Future: Send,
    {
        let open = GracefulShutdown::new();
        let connections = Connections::new(self.header_timeout, self.watches_clients);
        let (drain, limit, slots) = (self.drain, self.connections, Arc::clone(&self.slots));
        tokio::select! {
            biased;
            () = shutdown => {}
            () = self.accept(app, &connections, &open) => {}
        }
        let finished = open.shutdown();
        tokio::pin!(finished, at_once);
        let hurried = tokio::select! {
            biased;
            () = &mut finished => return DrainOutcome::Finished,
            () = tokio::time::sleep(drain) => false,
            () = &mut at_once => true,
        };
        let left = limit - slots.available_permits();
        if !hurried {
            conclude();
            tokio::select! {
                biased;
                () = at_once => {}
                () = &mut finished => return DrainOutcome::Cut(left),
                () = tokio::time::sleep(LAST_WORDS) => {}
            }
        }
        connections.cut.cancel();
        finished.await;
        DrainOutcome::Cut(left)
    }

    /// Never ends; the socket closes when its future is dropped.
    async fn accept<A>(self, app: A, connections: &Connections, open: &GracefulShutdown)
    where
        A: Service<Request<Inflow>, Response = Response<ReplyBody>> + Clone + Send + 'static,
        A::Error: Into<BoxError>,
        A::Future: Send,
    {
        loop {
            match self.next().await {
                Ok((stream, peer, slot)) => {
                    let connection = connections.clone().serve(stream, peer, app.clone(), open.watcher());
                    tokio::spawn(async move {
                        connection.await;
                        drop(slot);
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(RESPITE).await;
                }
            }
        }
    }

    /// Waits for a slot first: a connection that cannot be served stays in the kernel's queue, where the client sees it as slow.
    async fn next(&self) -> io::Result<(TcpStream, SocketAddr, Option<OwnedSemaphorePermit>)> {
        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (stream, peer) = self.socket.accept().await?;
        // It fails on a connection that is gone already, which shows soon enough.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer, slot))
    }
}

/// What connections have in common.
#[derive(Clone)]
struct Connections {
    http: auto::Builder<TokioExecutor>,
    header_timeout: Duration,
    watches_clients: bool,
    cut: CancellationToken,
}

impl Connections {
    fn new(header_timeout: Duration, watches_clients: bool) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            // Some clients close their side after the request and wait for the answer.
            .half_close(true)
            .header_read_timeout(KEEP_ALIVE.max(header_timeout))
            .timer(TokioTimer::new());
        http.http2().keep_alive_interval(H2_PING).timer(TokioTimer::new());
        Self { http, header_timeout, watches_clients, cut: CancellationToken::new() }
    }

    async fn serve<A>(self, stream: TcpStream, peer: SocketAddr, app: A, open: Watcher)
    where
        A: Service<Request<Inflow>, Response = Response<ReplyBody>> + Clone + Send + 'static,
        A::Error: Into<BoxError>,
        A::Future: Send,
    {
        let spoke = Arc::new(AtomicBool::new(false));
        let left = self.watches_clients.then(|| client_left(&stream)).flatten();
        let service = per_request(app, (peer, left), Arc::clone(&spoke));
        let connection = self.http.serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            served = open.watch(connection.into_owned()) => if let Err(error) = served {
                tracing::debug!(%peer, error, "connection ended");
            },
            () = silent(&spoke, self.header_timeout) => tracing::debug!(%peer, "connection without a request"),
            () = self.cut.cancelled() => {}
        }
    }
}

fn per_request<A>(
    app: A,
    (peer, left): (SocketAddr, Option<ClientLeft>),
    spoke: Arc<AtomicBool>,
) -> impl hyper::service::Service<Request<Incoming>, Response = Response<ReplyBody>, Error = BoxError, Future: Send + 'static>
where
    A: Service<Request<Inflow>, Response = Response<ReplyBody>> + Clone + Send + 'static,
    A::Error: Into<BoxError>,
    A::Future: Send,
{
    hyper::service::service_fn(move |request: Request<Incoming>| {
        spoke.store(true, Ordering::Relaxed);
        let mut request = Inflow::of(request);
        request.extensions_mut().insert(Peer(peer));
        if let Some(left) = &left {
            request.extensions_mut().insert(left.clone());
        }
        let mut app = app.clone();
        async move {
            std::future::poll_fn(|cx| app.poll_ready(cx)).await.map_err(Into::into)?;
            app.call(request).await.map_err(Into::into)
        }
    })
}

/// What tells that a client has closed its side. hyper, which lets clients half-close, does not look while an answer is awaited.
fn client_left(stream: &TcpStream) -> Option<ClientLeft> {
    let second = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned().ok()?);
    let second = Arc::new(TcpStream::from_std(second).ok()?);
    Some(ClientLeft::new(move || closed(Arc::clone(&second))))
}

async fn closed(stream: Arc<TcpStream>) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // What has come is hyper's to read: only the next event is waited for.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

/// Ends when the connection's first request is not there in time. hyper's own limit begins only when it knows which HTTP this is, for which a
/// client can keep it waiting.
async fn silent(spoke: &AtomicBool, limit: Duration) {
    tokio::time::sleep(limit).await;
    if spoke.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
