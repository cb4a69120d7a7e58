//! The agent behind a route: its connections, and what is said over them.
//!
//! Pooled, over HTTP/1.1 or, where TLS negotiates it, HTTP/2. There is a limit on connecting, on the wait for the reply's head and on the
//! pauses within its body, and none on the whole: agents think for minutes.
//!
//! **Nothing is sent twice.** A request that was never begun, since the pooled connection it was queued on turned out to be closed, goes to
//! another connection; hyper hands such a request back whole. One of which a single byte was written is never repeated, whatever its method:
//! the agent may have acted on it. It ends as [`UpstreamError::Unreachable`].

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service;

mod body;
pub(super) mod connect;
mod error;
mod target;

pub use body::UpstreamBody;
pub use error::{Phase, UpstreamError};
pub use target::Target;

use self::body::{Outgoing, Progress, forgotten};
use self::connect::Connector;
use super::SetupError;
use super::headers::hop_by_hop;
use crate::config::Route;
use crate::conversation::policy::Timeouts;
use crate::middleware::RequestBody;

/// A route's agent, as a service. Clones share connections.
#[derive(Clone, Debug)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    target: Target,
    client: Client<Connector, Outgoing>,
    /// One for each request until its reply's body has ended: over HTTP/1.1 that is a connection each.
    slots: Arc<Semaphore>,
    headers: Vec<(HeaderName, HeaderValue)>,
    timeouts: Timeouts,
    /// How long a connection may leave a request lying.
    take_up: Duration,
}

impl Upstream {
    /// The agent of `route`. `public` is the base at which clients reach the proxy, to which redirects are rewritten. Needs a runtime.
    pub fn new(route: &Route, public: &http::Uri) -> Result<Self, SetupError> {
        Ok(Self(Arc::new(Inner {
            target: Target::new(&route.upstream.url, &route.prefix, public)?,
            client: connect::client(&route.upstream)?,
            slots: Arc::new(Semaphore::new(route.upstream.connections)),
            headers: route.upstream.headers.clone(),
            timeouts: route.policy.timeouts,
            // Beyond connecting, since the pool may have gone on to another connection.
            take_up: route.upstream.connect_timeout + Duration::from_secs(1),
        })))
    }

    /// Where its paths lead.
    pub fn target(&self) -> &Target {
        &self.0.target
    }
}

impl Service<Request<RequestBody>> for Upstream {
    type Response = Response<UpstreamBody>;
    type Error = UpstreamError;
    type Future = BoxFuture<'static, Result<Self::Response, UpstreamError>>;

    /// Always: a request waits for its turn in its own future.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.forward(request).await })
    }
}

impl Inner {
    async fn forward(&self, request: Request<RequestBody>) -> Result<Response<UpstreamBody>, UpstreamError> {
        let head = request.method() == http::Method::HEAD;
        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let progress = Progress::new();
        let mut request = self.outgoing(request, progress.clone())?;
        let connection = capture_connection(&mut request);
        let response = tokio::select! {
            biased;
            response = self.client.request(request) => response.map_err(UpstreamError::of_client)?,
            () = progress.stalled(self.timeouts.first_byte) => return Err(UpstreamError::timeout(Phase::FirstByte)),
            () = forgotten(progress.clone(), connection, self.take_up) => {
                return Err(UpstreamError::Unreachable("the connection closed as the request came".into()));
            }
        };
        self.incoming(response, head, slot)
    }

    /// A request of its own: version and extensions are matters of the client's connection.
    fn outgoing(&self, request: Request<RequestBody>, progress: Progress) -> Result<Request<Outgoing>, UpstreamError> {
        let (from, body) = request.into_parts();
        let mut request = Request::new(Outgoing::new(body, progress));
        *request.method_mut() = from.method;
        *request.uri_mut() = self.target.uri(&from.uri).map_err(|e| UpstreamError::Request(e.into()))?;
        let headers = request.headers_mut();
        *headers = from.headers;
        hop_by_hop(headers);
        // Host comes from the URI, the length from the body; and what Expect asks for the proxy's own server has already granted.
        for name in [header::HOST, header::CONTENT_LENGTH, header::EXPECT] {
            headers.remove(name);
        }
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        Ok(request)
    }

    fn incoming(
        &self,
        response: Response<Incoming>,
        head: bool,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<Response<UpstreamBody>, UpstreamError> {
        let mut response = response.map(|body| UpstreamBody::new(body, self.timeouts.idle, slot));
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(UpstreamError::malformed("the agent switched protocols unasked"));
        }
        // An HTTP/1.0 agent's version would keep the client's connection from staying open.
        *response.version_mut() = Version::HTTP_11;
        let headers = response.headers_mut();
        let chunked = headers.contains_key(header::TRANSFER_ENCODING);
        hop_by_hop(headers);
        // Of a HEAD's reply the length is what GET would say. Else the body knows its own, also after it was changed.
        if chunked || !head {
            headers.remove(header::CONTENT_LENGTH);
        }
        self.target.relocate(headers);
        Ok(response)
    }
}

impl fmt::Debug for Inner {
    /// Without the headers: one of them is often a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("target", &self.target).field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}
