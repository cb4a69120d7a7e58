//! The layer and its service: what is ours is told from what is not.

mod rest;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, header};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tower_layer::Layer;
use tower_service::Service;

use super::agent::{Agent, log_body};
use super::body::{BoxError, Boxed, Finish, ReplyBody, RequestBody, boxed};
use super::core::{CardRewrite, Clock, Core, SystemClock};
use super::left::ClientLeft;
use super::push::{self, Relay};
use super::reading::{self, ReadError};
use super::send::Exchange;
use super::{HOP_HEADER, fetch, operate, respond};
use crate::a2a::{Binding, Call, Endpoint, Verb, jsonrpc};
use crate::conversation::policy::{Mode, OnDisconnect, Policy};
use crate::exchange::{Foreign, Refusal, transcript_of};
use crate::json::Doc;
use crate::store::Store;

/// Gives the A2A agent inside conversations.
///
/// Who is calling and on which route are taken from the request's extensions ([`Principal`](crate::conversation::principal::Principal),
/// [`RouteId`](crate::conversation::principal::RouteId)); without them there is one route, and all callers are one principal. The layer needs
/// a tokio runtime.
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

    /// Relays push notifications. To be called before the layer is used; without it they are refused. The store's outbox is to be emptied by
    /// whoever calls this, and the agent's pushes to come in as any other request.
    #[must_use]
    pub fn with_push(mut self, relay: Arc<Relay>) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.push = Some(relay);
        }
        self
    }

    /// Leaves alone what another proxy in front has put into its conversation already, told by [`HOP_HEADER`]: only where clients cannot
    /// reach the layer but through that proxy, since the header is a way past guard and identity. To be called before the layer is used.
    #[must_use]
    pub fn trusting_hop(mut self) -> Self {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            core.trusts_hop = true;
        }
        self
    }

    /// Tells under which base URL the agent reaches this layer: from then on messages can point it to their conversation
    /// ([`HistoryPolicy::AgentFetched`](crate::conversation::policy::HistoryPolicy::AgentFetched)), and what it fetches there is answered. Said
    /// once; later calls have no effect.
    pub fn reached_at(&self, base: &str) {
        let _ = self.core.reached_at.set(base.trim_end_matches('/').to_owned());
    }

    /// Ends every request that still waits for its agent, now: with an error that says that the proxy stops, in a stream as its last event, so
    /// that no client takes a part for the whole. A turn whose task the agent has named stays unsettled, to be asked for when the proxy is
    /// back. To be called before connections are cut.
    pub fn conclude(&self) {
        self.core.concluding.cancel();
    }

    /// Waits until everything that outlived its request has ended. To be called once no more requests come.
    pub async fn drained(&self) {
        self.core.closing.cancel();
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The ready one is this one; the clone has to become ready itself.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        if !self.core.trusts_hop {
            request.headers_mut().remove(HOP_HEADER);
        }
        if let Some(name) = push::name(&self.core, &request) {
            let (head, body) = request.into_parts();
            let answer = push::call(Arc::clone(&self.core), inner, head, boxed(body), name);
            return Box::pin(async move { Ok(answer.await) });
        }
        if let Some(binding) = foreign(&request).filter(|_| self.core.policy.mode == Mode::Converse) {
            return Box::pin(std::future::ready(Ok(respond::foreign(binding))));
        }
        if let Some(context_id) = self.asks_for_transcript(&request) {
            let (core, (head, _)) = (Arc::clone(&self.core), request.into_parts());
            return Box::pin(async move { Ok(fetch::fetch(&core, &head, &context_id).await) });
        }
        let operation = match rest::read(&request) {
            Ok(operation) => operation,
            Err(_) if self.core.policy.mode == Mode::Observe => None,
            Err(refusal) => return Box::pin(std::future::ready(Ok(rest::refused(&request, &refusal)))),
        };
        if operation.is_none() && !may_be_ours(&request) {
            let answer = inner.call(request.map(RequestBody::untouched));
            return Box::pin(async move { Ok(answer.await?.map(ReplyBody::untouched)) });
        }
        let core = Arc::clone(&self.core);
        let finishes = core.policy.on_disconnect == OnDisconnect::Finish;
        let tracker = finishes.then(|| core.tracker.clone());
        let left = request.extensions().get::<ClientLeft>().filter(|_| !finishes).cloned();
        let (head, body) = request.into_parts();
        let gone = CancellationToken::new();
        let left_alone = gone.clone();
        let work = Box::pin(async move {
            let body = boxed(body);
            let work = async {
                match operation {
                    Some(operation) => rest::serve(core, inner, head, body, operation, left_alone).await,
                    None => serve(core, inner, head, body, left_alone).await,
                }
            };
            match ClientLeft::unless(left.as_ref(), work).await {
                Some(answer) => Ok(answer?.map(|body| body.unless(left.as_ref()))),
                None => Ok(respond::refused(&Refusal::client_left(), &Binding::json_rpc(), false)),
            }
        });
        Box::pin(Finish::new(work, tracker, gone))
    }
}

impl<S> Conversation<S> {
    /// The context whose transcript a request asks for.
    fn asks_for_transcript<B>(&self, request: &Request<B>) -> Option<String> {
        self.core.reached_at.get().filter(|_| request.method() == Method::GET)?;
        transcript_of(request.uri().path())
    }
}

fn foreign<B>(request: &Request<B>) -> Option<Foreign> {
    if request.headers().contains_key(HOP_HEADER) {
        return None;
    }
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Foreign::of(request.uri().path(), content_type)
}

/// Whether a request may be an operation of A2A. Its content type does not tell: the widespread Python servers read any POST as JSON.
fn may_be_ours<B>(request: &Request<B>) -> bool {
    // Some servers take a method in any case.
    request.method().as_str().eq_ignore_ascii_case("POST") && !request.headers().contains_key(HOP_HEADER)
}

async fn serve<S, B2>(
    core: Arc<Core>,
    mut inner: S,
    mut head: http::request::Parts,
    body: Boxed,
    gone: CancellationToken,
) -> Result<Response<ReplyBody>, S::Error>
where
    S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + 'static,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let bytes = match take_in(&core, &mut head, body).await {
        Ok(Taken::Json(bytes)) => bytes,
        Ok(Taken::Other(body)) => {
            let answer = inner.call(Request::from_parts(head, body)).await?;
            return Ok(answer.map(ReplyBody::untouched));
        }
        Err(refusal) => return Ok(respond::refused(&refusal, &Binding::json_rpc(), false)),
    };
    let doc = match Doc::scan(&bytes) {
        Ok(doc) => doc,
        // Nothing is no call, and neither are lines of JSON.
        Err(_) if bytes.trim_ascii().is_empty() || is_of_lines(&head.headers) && are_lines(&bytes) => {
            return passed(inner, head, bytes).await;
        }
        Err(error) => return Ok(respond::refused(&Refusal::parse_error(error.at), &Binding::json_rpc(), false)),
    };
    let call = match jsonrpc::read(doc.root()) {
        Ok(Some(call)) => call,
        Ok(None) => return passed(inner, head, bytes.clone()).await,
        Err(fault) => {
            let binding = Binding::JsonRpc { id: fault.id.to_owned() };
            return Ok(respond::refused(&Refusal::unreadable(fault.code, fault.why), &binding, false));
        }
    };
    let call = Call { endpoint: Endpoint::JsonRpc { target: target_of(&head.uri) }, ..call };
    converse(core, inner, head, call, bytes.clone(), gone).await
}

/// Path and query, as a request line has them.
fn target_of(uri: &http::Uri) -> String {
    uri.path_and_query().map(|target| target.as_str().to_owned()).unwrap_or_default()
}

/// Does what a call asks for.
async fn converse<S, B2>(
    core: Arc<Core>,
    inner: S,
    head: http::request::Parts,
    call: Call<'_, '_>,
    bytes: Bytes,
    gone: CancellationToken,
) -> Result<Response<ReplyBody>, S::Error>
where
    S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + 'static,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    log_body("from the client", &bytes);
    let agent = Agent::new(inner, &head, (&call.binding, &call.endpoint), &core.policy);
    let token = core.token(&head.headers).map(str::to_owned);
    Ok(answered(Exchange::new(core, agent, &head, gone), call, bytes, token).await)
}

async fn answered(
    mut exchange: Exchange,
    call: Call<'_, '_>,
    bytes: Bytes,
    token: Option<String>,
) -> Response<ReplyBody> {
    let concluding = exchange.core.concluding.clone();
    let (binding, streams) = (call.binding.clone(), call.verb.streams());
    let work = async {
        if let Some(token) = token {
            return exchange.fetched(&call, &token).await;
        }
        match call.verb {
            Verb::Send | Verb::Stream => exchange.send(call, bytes).await,
            Verb::Subscribe => exchange.subscribe(&call, bytes).await,
            _ => operate::operate(&mut exchange, call, bytes).await,
        }
    };
    // What panics has dropped all that it held, its lease among it; the others go on.
    let work = AssertUnwindSafe(work).catch_unwind();
    let answer = match concluding.run_until_cancelled(work).await {
        Some(answer) => answer.unwrap_or_else(|_| Err(Refusal::internal())),
        None => Err(Refusal::stopping()),
    };
    answer.unwrap_or_else(|refusal| respond::refused(&refusal, &binding, streams))
}

async fn passed<S, B2>(mut inner: S, head: http::request::Parts, bytes: Bytes) -> Result<Response<ReplyBody>, S::Error>
where
    S: Service<Request<RequestBody>, Response = Response<B2>>,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let answer = inner.call(Request::from_parts(head, RequestBody::whole(bytes))).await?;
    Ok(answer.map(ReplyBody::untouched))
}

/// A request's body.
enum Taken {
    /// All of it, decoded where it was encoded; by its first bytes it may be JSON.
    Json(Bytes),
    /// Something else, to be passed on as it streams in.
    Other(RequestBody),
}

async fn take_in(core: &Core, head: &mut http::request::Parts, mut body: Boxed) -> Result<Taken, Refusal> {
    let (limit, idle) = (core.policy.limits.request_bytes, core.policy.timeouts.request_idle);
    if let Some(charset) = reading::odd_charset(&head.headers) {
        return Err(Refusal::charset(&charset));
    }
    let encoding = reading::encoding(&head.headers).map(str::to_owned);
    let first = match &encoding {
        // What it begins with shows when it has been decoded.
        Some(_) => Bytes::new(),
        None => match reading::first_piece(&mut body, idle).await.map_err(|error| unread(&error, limit))? {
            first if reading::may_be_json(&first) => first,
            first => return Ok(Taken::Other(RequestBody::resumed(first, body))),
        },
    };
    let whole = reading::read(RequestBody::resumed(first, body), limit, idle).await;
    let bytes = whole.map_err(|error| unread(&error, limit))?;
    let Some(encoding) = encoding else { return Ok(Taken::Json(bytes)) };
    let decoded = reading::decode(&encoding, &bytes, limit).ok_or_else(|| Refusal::encoded(&encoding))?;
    respond::drop_framing(&mut head.headers);
    Ok(Taken::Json(decoded))
}

fn unread(error: &ReadError, limit: usize) -> Refusal {
    match error {
        ReadError::TooLarge => Refusal::not_read(limit),
        ReadError::Idle => Refusal::stalled(),
        ReadError::Broken(_) => Refusal::unreadable(-32600, "the request's body broke off"),
    }
}

/// Whether these are two JSON values or more, a line each, and none of them a call: agents read a POST as JSON whatever its content type
/// says, some in other encodings and more leniently than here.
fn are_lines(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut count = 0;
    for line in lines {
        let harmless = Doc::scan(line).is_ok_and(|line| matches!(jsonrpc::read(line.root()), Ok(None)));
        if !harmless {
            return false;
        }
        count += 1;
    }
    count > 1
}

fn is_of_lines(headers: &http::HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["ndjson", "jsonl", "json-seq", "jsonlines"].iter().any(|kind| content_type.to_ascii_lowercase().contains(kind))
}
