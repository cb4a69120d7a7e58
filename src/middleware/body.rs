//! Bodies: what goes to the agent, and what comes back to the client.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::left::ClientLeft;
use super::pumped::Pumped;

/// The error of a body: the inner one's own, or the reason why the proxy gave up.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) type Boxed = UnsyncBoxBody<Bytes, BoxError>;
pub(super) type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

pub(super) fn boxed<B>(body: B) -> Boxed
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// A body that is somebody else's, or there as a whole.
#[derive(Debug)]
enum Plain {
    /// Somebody else's body, frame by frame.
    Untouched(Boxed),
    /// Bytes of ours, or read whole and changed; `None` once they are gone.
    Whole(Option<Bytes>),
}

impl Plain {
    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        match self {
            Self::Untouched(body) => Pin::new(body).poll_frame(cx),
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end(&self) -> bool {
        match self {
            Self::Untouched(body) => body.is_end_stream(),
            Self::Whole(bytes) => bytes.is_none(),
        }
    }

    fn hint(&self) -> SizeHint {
        match self {
            Self::Untouched(body) => body.size_hint(),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// What the layer hands to the service inside: the client's body as it came, or the bytes that it was changed to.
#[derive(Debug)]
pub struct RequestBody(Plain);

impl RequestBody {
    /// A body that is passed on as it streams in.
    pub fn untouched<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Plain::Untouched(boxed(body)))
    }

    /// A body of which the first piece was taken out already.
    pub(super) fn resumed(first: Bytes, rest: Boxed) -> Self {
        Self(Plain::Untouched(boxed(Resumed { first: Some(first), rest })))
    }

    /// A body that is there as a whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Plain::whole(bytes))
    }

    /// No body.
    pub fn empty() -> Self {
        Self::whole(Bytes::new())
    }
}

/// A body whose first piece was looked at.
struct Resumed {
    first: Option<Bytes>,
    rest: Boxed,
}

impl Body for Resumed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        let rest = self.rest.size_hint();
        match rest.exact() {
            Some(exact) => SizeHint::with_exact(first + exact),
            None => SizeHint::default(),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        self.get_mut().0.poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.hint()
    }
}

/// What the layer answers with.
pub struct ReplyBody(Inner);

enum Inner {
    /// The inner body as it came, or the bytes that it was changed to.
    Plain(Plain),
    /// A stream that the proxy reads, changes and settles as it goes.
    Pumped(Pumped),
}

impl ReplyBody {
    /// A body that is passed on as it streams in.
    pub fn untouched<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Inner::Plain(Plain::Untouched(boxed(body))))
    }

    /// A body that is there as a whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Plain(Plain::whole(bytes)))
    }

    /// No body.
    pub fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// A body that `work` fills through its [`Client`](super::pumped::Client).
    pub(super) fn pumped(pumped: Pumped) -> Self {
        Self(Inner::Pumped(pumped))
    }
}

impl ReplyBody {
    /// A body that is there as a whole, on one line and with more around it; any other stays as it is.
    pub(super) fn framed(self, before: &[u8], behind: &[u8]) -> Self {
        match self.0 {
            Inner::Plain(Plain::Whole(bytes)) => {
                let bytes = bytes.unwrap_or_default();
                // JSON has line ends only between its values.
                let line = bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
                Self::whole(before.iter().copied().chain(line).chain(behind.iter().copied()).collect::<Vec<u8>>())
            }
            other => Self(other),
        }
    }
}

impl ReplyBody {
    /// A stream that is cut, and its work dropped, when the client leaves.
    pub(super) fn unless(mut self, left: Option<&ClientLeft>) -> Self {
        if let (Inner::Pumped(pumped), Some(left)) = (&mut self.0, left) {
            pumped.unless(left.wait());
        }
        self
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Plain(plain) => plain.fmt(f),
            Inner::Pumped(_) => f.write_str("Pumped"),
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match &mut self.get_mut().0 {
            Inner::Plain(plain) => plain.poll(cx),
            Inner::Pumped(pumped) => pumped.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Plain(plain) => plain.is_end(),
            Inner::Pumped(pumped) => pumped.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Plain(plain) => plain.hint(),
            Inner::Pumped(_) => SizeHint::default(),
        }
    }
}

/// Goes on with work whose client has left.
pub(super) fn go_on(work: Option<BoxFuture<'static, ()>>, tracker: Option<TaskTracker>) {
    if let (Some(work), Some(tracker), Ok(runtime)) = (work, tracker, tokio::runtime::Handle::try_current()) {
        tracker.spawn_on(work, &runtime);
    }
}

/// A future whose work goes on by itself on a tracker where the client leaves before it is done.
pub(super) struct Finish<T: Send + 'static> {
    /// `None` once it is done.
    work: Option<BoxFuture<'static, T>>,
    tracker: Option<TaskTracker>,
    /// Tells the work when it goes on without a client.
    gone: CancellationToken,
}

impl<T: Send + 'static> Finish<T> {
    pub(super) fn new(work: BoxFuture<'static, T>, tracker: Option<TaskTracker>, gone: CancellationToken) -> Self {
        Self { work: Some(work), tracker, gone }
    }
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        if self.work.is_some() {
            self.gone.cancel();
        }
        // A response that nobody takes is dropped, and with it the body: what goes on there goes on by itself in its turn.
        let work = self.work.take().map(|work| -> BoxFuture<'static, ()> { Box::pin(async move { drop(work.await) }) });
        go_on(work, self.tracker.take());
    }
}
