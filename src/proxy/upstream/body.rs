//! The two bodies of an exchange with the agent: what they add to the bytes is time.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected};
use pin_project_lite::pin_project;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::error::{Phase, UpstreamError};
use crate::middleware::{BoxError, RequestBody};

/// The request's own body failed: not the agent's fault.
#[derive(Debug, thiserror::Error)]
#[error("the request's body failed")]
pub struct RequestCut(#[source] BoxError);

/// When the request last moved. Shared by its body and by whoever waits for the reply.
#[derive(Clone, Debug)]
pub struct Progress {
    start: Instant,
    /// Nanoseconds after the start; 0: not yet.
    last: Arc<AtomicU64>,
}

impl Progress {
    pub fn new() -> Self {
        Self { start: Instant::now(), last: Arc::default() }
    }

    fn moved(&self) {
        let nanos = self.start.elapsed().as_nanos().max(1);
        self.last.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.last.load(Ordering::Relaxed) > 0
    }

    /// Ends when nothing has moved for `limit`. So an upload may take as long as it moves, and once it is done this is the wait for the
    /// reply's head.
    pub async fn stalled(&self, limit: Duration) {
        loop {
            let last = self.start + Duration::from_nanos(self.last.load(Ordering::Relaxed));
            let Some(due) = last.checked_add(limit) else { return pending().await };
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// Ends when a connection was there for the request and yet did not take it up within `limit`.
///
/// A connection that closes in the very moment in which hyper queues a request on it can leave it in the queue, neither sent nor handed back
/// (as in hyperium/hyper#4122; seen once in 2,000 requests to an agent that closes after each reply, on a busy machine). It would wait as
/// long as an agent may think. Over HTTP/2 a request may rightly be queued for long, where the agent limits its streams.
pub async fn forgotten(progress: Progress, mut connection: CaptureConnection, limit: Duration) {
    let queues = connection.wait_for_connection_metadata().await.as_ref().is_some_and(Connected::is_negotiated_h2);
    sleep(limit).await;
    if queues || progress.has_begun() {
        pending::<()>().await;
    }
}

pin_project! {
    /// A request's body on its way to the agent.
    #[derive(Debug)]
    pub struct Outgoing {
        #[pin]
        inner: RequestBody,
        progress: Progress,
    }

    impl PinnedDrop for Outgoing {
        // A body of known length is dropped by hyper after its last byte, and not asked for its end.
        fn drop(this: Pin<&mut Self>) {
            this.progress.moved();
        }
    }
}

impl Outgoing {
    pub fn new(inner: RequestBody, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = RequestCut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RequestCut>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        this.progress.moved();
        Poll::Ready(frame.map(|frame| frame.map_err(RequestCut)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A reply's body on its way from the agent. It fails when it pauses for too long, and holds its slot until it has ended or is dropped.
#[derive(Debug)]
pub struct UpstreamBody {
    /// None after the end and after an error: dropping it closes a connection that is not done.
    inner: Option<Incoming>,
    idle: Duration,
    /// Made at the first pause; many replies have none.
    timer: Option<Pin<Box<Sleep>>>,
    /// Only the agent's pauses count: a client that reads slowly is not one of them.
    waiting: bool,
    slot: Option<OwnedSemaphorePermit>,
}

impl UpstreamBody {
    pub(super) fn new(inner: Incoming, idle: Duration, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self { inner: Some(inner), idle, timer: None, waiting: false, slot }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(inner).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(UpstreamError::of_body)));
        }
        ready!(self.poll_timer(cx));
        Poll::Ready(Some(Err(UpstreamError::timeout(Phase::Idle))))
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = Instant::now().checked_add(self.idle);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.idle)));
        // Without a due time the limit lies beyond what the clock can say, and the timer as it was made is as good as never.
        if let (false, Some(due)) = (self.waiting, due) {
            timer.as_mut().reset(due);
        }
        self.waiting = true;
        timer.as_mut().poll(cx)
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let this = self.get_mut();
        let frame = ready!(this.poll_inner(cx));
        this.waiting = false;
        if matches!(frame, None | Some(Err(_))) {
            this.inner = None;
        }
        if this.is_end_stream() {
            this.slot = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
