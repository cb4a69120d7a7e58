//! The layer and its service: what is ours is told from what is not.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, header};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::agent::Agent;
use super::body::{BoxError, Finish, ReplyBody, RequestBody};
use super::core::{CardRewrite, Clock, Core, SystemClock};
use super::reading::{self, ReadError};
use super::send::Exchange;
use super::{HOP_HEADER, operate, respond};
use crate::a2a::jsonrpc::{Call, Verb};
use crate::conversation::policy::{OnDisconnect, Policy};
use crate::conversation::principal::{Principal, RouteId, Unidentified};
use crate::exchange::{Refusal, extension_is_active};
use crate::json::Doc;
use crate::store::Store;

/// Gives the A2A agent inside conversations.
///
/// Who is calling and on which route are taken from the request's extensions ([`Principal`], [`RouteId`]); without them there is one route,
/// and all callers are one principal. The layer needs a tokio runtime.
#[derive(Clone)]
pub struct ConversationLayer {
    core: Arc<Core>,
}

impl ConversationLayer {
    /// A layer that does as `policy` says, and keeps what is to be kept in `store`.
    pub fn new(policy: Policy, store: Arc<dyn Store>) -> Self {
        Self::with_clock(policy, store, Arc::new(SystemClock))
    }

    /// As [`new`](Self::new), with a clock of the caller's.
    pub fn with_clock(policy: Policy, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { core: Arc::new(Core::new(Arc::new(policy), store, clock)) }
    }

    /// Shows the extended agent card as `rewrite` has it. To be called before the layer is used.
    #[must_use]
    pub fn with_card(mut self, rewrite: CardRewrite) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.card = Some(rewrite);
        }
        self
    }

    /// Waits until everything that outlived its request has ended. To be called once no more requests come.
    pub async fn drained(&self) {
        self.core.tracker.close();
        self.core.tracker.wait().await;
    }
}

impl std::fmt::Debug for ConversationLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationLayer").field("policy", &self.core.policy).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ConversationLayer {
    type Service = Conversation<S>;

    fn layer(&self, inner: S) -> Conversation<S> {
        Conversation { inner, core: Arc::clone(&self.core) }
    }
}

/// The service that [`ConversationLayer`] makes.
#[derive(Clone)]
pub struct Conversation<S> {
    inner: S,
    core: Arc<Core>,
}

impl<S, B, B2> Service<Request<B>> for Conversation<S>
where
    S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    type Response = Response<ReplyBody>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The ready one is this one; the clone has to become ready itself.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        if !may_be_ours(&request) {
            let answer = inner.call(request.map(RequestBody::untouched));
            return Box::pin(async move { Ok(answer.await?.map(ReplyBody::untouched)) });
        }
        let core = Arc::clone(&self.core);
        let finishes = core.policy.on_disconnect == OnDisconnect::Finish;
        let tracker = finishes.then(|| core.tracker.clone());
        let work = Box::pin(serve(core, inner, request));
        Box::pin(Finish::new(work, tracker))
    }
}

/// Whether a request may be an operation of A2A: a POST of JSON, or of something that a lenient agent would read as such.
fn may_be_ours<B>(request: &Request<B>) -> bool {
    if request.method() != Method::POST || request.headers().contains_key(HOP_HEADER) {
        return false;
    }
    let Some(content_type) = request.headers().get(header::CONTENT_TYPE) else { return true };
    let content_type = content_type.to_str().unwrap_or_default().to_ascii_lowercase();
    content_type.is_empty()
        || content_type.contains("json")
        || content_type.starts_with("text/plain")
        || content_type.starts_with("application/x-www-form")
        || content_type.starts_with("application/octet-stream")
        || content_type.starts_with("application/grpc")
}

async fn serve<S, B, B2>(core: Arc<Core>, mut inner: S, request: Request<B>) -> Result<Response<ReplyBody>, S::Error>
where
    S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let (mut head, body) = request.into_parts();
    let bytes = match take_in(&core, &mut head, body).await {
        Ok(bytes) => bytes,
        Err(refusal) => return Ok(respond::refused(&refusal, "null", false)),
    };
    let doc = match Doc::scan(&bytes) {
        Ok(doc) => doc,
        Err(error) => return Ok(respond::refused(&Refusal::parse_error(error.at), "null", false)),
    };
    let call = match Call::read(doc.root()) {
        Ok(Some(call)) => call,
        Ok(None) => {
            let answer = inner.call(Request::from_parts(head, RequestBody::whole(bytes.clone()))).await?;
            return Ok(answer.map(ReplyBody::untouched));
        }
        Err(fault) => return Ok(respond::refused(&Refusal::unreadable(fault.code, fault.why), fault.id, false)),
    };
    let agent = Agent::new(inner, &head, &core.policy);
    let mut exchange = Exchange {
        route: head.extensions.get::<RouteId>().cloned().unwrap_or_default(),
        principal: head.extensions.get::<Principal>().cloned().unwrap_or_default(),
        identified: head.extensions.get::<Unidentified>().is_none(),
        active: extension_is_active(&head.headers),
        core,
        agent,
    };
    let answer = match call.verb {
        Verb::Send | Verb::Stream => exchange.send(call, bytes.clone()).await,
        Verb::Subscribe => exchange.subscribe(&call, bytes.clone()).await,
        _ => operate::operate(&mut exchange, call, bytes.clone()).await,
    };
    Ok(answer.unwrap_or_else(|refusal| respond::refused(&refusal, call.id, call.verb.streams())))
}

/// Reads a request's body, decoded where it was encoded.
async fn take_in<B>(core: &Core, head: &mut http::request::Parts, body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let limit = core.policy.limits.request_bytes;
    let bytes = reading::read(body, limit, None).await.map_err(|error| match error {
        ReadError::TooLarge => Refusal::not_read(limit),
        ReadError::Idle | ReadError::Broken(_) => Refusal::unreadable(-32600, "the request's body broke off"),
    })?;
    let Some(encoding) = reading::encoding(&head.headers) else { return Ok(bytes) };
    let decoded = reading::decode(encoding, &bytes, limit).ok_or_else(|| Refusal::encoded(encoding))?;
    respond::drop_framing(&mut head.headers);
    Ok(decoded)
}
