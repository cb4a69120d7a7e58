//! A client's body on its way in. One that nobody reads any more, since the answer is there already, is read on for a while and thrown away:
//! most clients send all of it before they look at the answer, and on a connection that closes meanwhile they find none.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// How long a body is read that nobody wants.
const LINGER: Duration = Duration::from_secs(5);

/// A client's body. Over HTTP/1.1 it is read on when it is dropped before its end.
#[derive(Debug)]
pub struct Inflow {
    /// `None` only while it is dropped.
    body: Option<Incoming>,
    /// HTTP/2 can end one direction of a stream alone, and who still waits for leave to send has sent nothing.
    lingers: bool,
    http1: bool,
}

impl Inflow {
    /// A request with its body so.
    pub fn of(request: Request<Incoming>) -> Request<Self> {
        let asks_first = request.headers().contains_key(header::EXPECT);
        let http1 = request.version() < Version::HTTP_2;
        request.map(|body| Self { body: Some(body), lingers: http1 && !asks_first, http1 })
    }
}

impl Body for Inflow {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // With the first poll leave is given.
        self.lingers = self.http1;
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Inflow {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| self.lingers && !body.is_end_stream()) else { return };
        // Without a runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LINGER, spill(body)));
        }
    }
}

/// To its end, or to that of its connection.
async fn spill(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}
