//! The agent, as one request sees it: the service inside, and the head with which it is called.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tower_service::Service;

use super::HOP_HEADER;
use super::body::{BoxError, RequestBody};
use super::core::mint;
use super::reading::{self, ReadError};
use crate::a2a::rest::Request as Asked;
use crate::a2a::{Binding, Call, Dialect, Endpoint, Push, Verb, Voice, jsonrpc, rest};
use crate::conversation::policy::Policy;
use crate::exchange::Refusal;
use crate::json::{Doc, Edits, quote};
use crate::turn::Opening;

/// The body of an answer of the agent.
pub(super) type AgentBody = UnsyncBoxBody<Bytes, BoxError>;

/// Without it a request is one of 0.3.
const VERSION_HEADER: HeaderName = HeaderName::from_static("a2a-version");

type CallFn = dyn FnMut(Request<RequestBody>) -> BoxFuture<'static, Result<Response<AgentBody>, BoxError>> + Send;

/// The service inside, and the head of the client's request: also what the proxy asks of its own goes with the client's credential.
pub(super) struct Agent {
    /// In a mutex that is never locked: it is called through `&mut self` alone, and the service need not be `Sync`.
    call: Mutex<Box<CallFn>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    extensions: Extensions,
    /// Of the client's request.
    binding: Binding,
    endpoint: Endpoint,
    timeouts: crate::conversation::policy::Timeouts,
    reply_bytes: usize,
}

/// An answer, read whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: http::response::Parts,
    pub(super) body: Bytes,
    /// How it is to be read.
    pub(super) binding: Binding,
    /// Whether the body is another than came over the wire.
    pub(super) decoded: bool,
}

/// What an exchange came to.
pub(super) enum Got {
    /// A stream, of which the head is there.
    Stream(Response<AgentBody>),
    /// An answer, read whole.
    Whole(Answer),
    /// The client cancelled its task meanwhile.
    Canceled,
}

impl Agent {
    pub(super) fn new<S, B2>(
        inner: S,
        head: &http::request::Parts,
        (binding, endpoint): (&Binding, &Endpoint),
        policy: &Policy,
    ) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B2: Body<Data = Bytes> + Send + 'static,
        B2::Error: Into<BoxError>,
    {
        let service = move |request| -> BoxFuture<'static, Result<Response<AgentBody>, BoxError>> {
            let mut inner = inner.clone();
            Box::pin(async move {
                std::future::poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
                let response = inner.call(request).await.map_err(Into::into)?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        };
        Self {
            call: Mutex::new(Box::new(service)),
            method: match binding {
                // Some clients write it in small letters.
                Binding::JsonRpc { .. } => Method::POST,
                Binding::HttpJson { .. } => head.method.clone(),
            },
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            extensions: head.extensions.clone(),
            binding: binding.clone(),
            endpoint: endpoint.clone(),
            timeouts: policy.timeouts,
            reply_bytes: policy.limits.reply_bytes,
        }
    }

    /// Where it is called.
    pub(super) fn path(&self) -> &str {
        self.uri.path_and_query().map_or("/", |path| path.as_str())
    }

    /// How the client's request is carried.
    pub(super) fn binding(&self) -> &Binding {
        &self.binding
    }

    /// The client's request with another body, marked and so that its answer can be read.
    fn request(&self, body: RequestBody) -> Request<RequestBody> {
        let mut request = self.unmarked(body);
        let headers = request.headers_mut();
        // What comes back has to be read.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(HOP_HEADER, HeaderValue::from_static("1"));
        request
    }

    fn unmarked(&self, body: RequestBody) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        let headers = request.headers_mut();
        // Framing is that of the new body.
        for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONTENT_ENCODING, header::EXPECT] {
            headers.remove(name);
        }
        request
    }

    /// A request of the proxy's own, with the head of the client's.
    fn asked(&self, asked: Asked) -> Result<Request<RequestBody>, Refusal> {
        let empty = asked.body.is_empty();
        log_body("to the agent", asked.body.as_bytes());
        let mut request = self.request(RequestBody::whole(asked.body));
        *request.method_mut() = asked.method;
        if let Some(target) = asked.target.filter(|target| !target.is_empty()) {
            let mut parts = self.uri.clone().into_parts();
            parts.path_and_query = Some(target.parse().map_err(|_| Refusal::internal())?);
            *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Refusal::internal())?;
        }
        let headers = request.headers_mut();
        if empty {
            headers.remove(header::CONTENT_TYPE);
        } else if !headers.contains_key(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    /// Passes on what is not read: no header says that anything was done, and the answer comes as the client asked for it.
    pub(super) async fn pass(&mut self, body: Bytes) -> Result<Response<AgentBody>, Refusal> {
        let request = self.unmarked(RequestBody::whole(body));
        self.call(request).await
    }

    /// Sends the body, waits for the head of the answer.
    pub(super) async fn send(&mut self, body: Bytes) -> Result<Response<AgentBody>, Refusal> {
        log_body("to the agent", &body);
        let request = self.request(RequestBody::whole(body));
        self.call(request).await
    }

    /// The client's operation on a task, with the agent's id of it in place of the client's.
    pub(super) async fn on_task(&mut self, call: &Call<'_, '_>, id: &str) -> Result<Answer, Refusal> {
        let answer = match &call.endpoint {
            Endpoint::JsonRpc { .. } => {
                let mut edits = Edits::new();
                if let Some(named) = call.params.some("id") {
                    edits.set_string(named, id);
                }
                self.send(edits.apply(call.params.doc().text()).into()).await?
            }
            Endpoint::HttpJson { base } => {
                let (query, body) = (&call.along.query, &call.along.body);
                let request = self.asked(Asked::on_task(call.verb, base, id, call.dialect, query, body))?;
                self.call(request).await?
            }
        };
        self.read(answer).await
    }

    async fn call(&mut self, request: Request<RequestBody>) -> Result<Response<AgentBody>, Refusal> {
        let call = self.call.get_mut().unwrap_or_else(PoisonError::into_inner);
        let answer = call(request);
        let answer = tokio::time::timeout(self.timeouts.first_byte, answer).await.map_err(|_| Refusal::timeout())?;
        answer.map_err(|error| refusal_of(&*error))
    }

    /// Sends the body and reads the answer whole, unless it is a stream and one was called for.
    pub(super) async fn exchange(&mut self, body: Bytes, streams: bool) -> Result<Got, Refusal> {
        let answer = self.send(body).await?;
        got(answer, self.binding.clone(), streams, self.reply_bytes, self.timeouts.idle).await
    }

    /// Reads an answer whole.
    pub(super) fn read(
        &self,
        answer: Response<AgentBody>,
    ) -> impl Future<Output = Result<Answer, Refusal>> + Send + use<> {
        read(answer, self.binding.clone(), self.reply_bytes, self.timeouts.idle)
    }

    /// Asks for a task of the turn that began with `opening`, in the proxy's own name. `within` bounds the whole exchange.
    pub(super) async fn task(&mut self, id: &str, opening: &Opening, within: Duration) -> Result<Answer, Refusal> {
        self.task_in(id, &opening.voice(), within).await
    }

    /// Asks for a task, in the proxy's own name. `within` bounds the whole exchange.
    pub(super) async fn task_in(&mut self, id: &str, voice: &Voice, within: Duration) -> Result<Answer, Refusal> {
        let (request, binding) = self.own_call(Verb::Get, id, voice)?;
        let (limit, idle) = (self.reply_bytes, self.timeouts.idle);
        let exchange = async {
            let answer = self.call(request).await?;
            read(answer, binding, limit, idle).await
        };
        tokio::time::timeout(within, exchange).await.map_err(|_| Refusal::timeout())?
    }

    /// Subscribes to a task, in the proxy's own name.
    pub(super) async fn subscribe_in(&mut self, id: &str, voice: &Voice) -> Result<Got, Refusal> {
        let (request, binding) = self.own_call(Verb::Subscribe, id, voice)?;
        let (limit, idle) = (self.reply_bytes, self.timeouts.idle);
        let exchange = async {
            let answer = self.call(request).await?;
            got(answer, binding, true, limit, idle).await
        };
        tokio::time::timeout(idle, exchange).await.map_err(|_| Refusal::timeout())?
    }

    /// A request of the proxy's own for a task, and how its answer is carried.
    fn own_call(&mut self, verb: Verb, id: &str, voice: &Voice) -> Result<(Request<RequestBody>, Binding), Refusal> {
        self.speak(voice.dialect);
        // One server answers without history where no length is named.
        let (member, query) =
            if verb == Verb::Get { (",\"historyLength\":100", "historyLength=100") } else { ("", "") };
        match voice.endpoint.as_ref().unwrap_or(&self.endpoint) {
            Endpoint::JsonRpc { target } => {
                let params = format!("{{\"id\":{}{member}}}", quote(id));
                let body = jsonrpc::request(&quote(&mint()), jsonrpc::method(verb, voice.dialect), &params);
                let asked = Asked { method: Method::POST, target: Some(target.clone()), body };
                Ok((self.asked(asked)?, Binding::json_rpc()))
            }
            Endpoint::HttpJson { base } => {
                let asked = Asked::on_task(verb, base, id, voice.dialect, query, "");
                Ok((self.asked(asked)?, rest::binding(voice.dialect)))
            }
        }
    }

    /// From here on requests say the dialect in their header: the client's own may be in the other one.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        let said = self.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        let says = said.and_then(Dialect::of_version).unwrap_or(Dialect::V03);
        match dialect {
            _ if says.is_of_03() == dialect.is_of_03() => {}
            Dialect::V10 => _ = self.headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0")),
            Dialect::V03 | Dialect::Proto03 => _ = self.headers.remove(VERSION_HEADER),
        }
    }

    /// Sets a push configuration over JSON-RPC, in the proxy's own name.
    pub(super) async fn set_push(&mut self, params: &str, voice: &Voice, within: Duration) -> Result<(), Refusal> {
        let Endpoint::JsonRpc { target } = voice.endpoint.as_ref().unwrap_or(&self.endpoint).clone() else {
            return Err(Refusal::unsupported("a push configuration over HTTP+JSON"));
        };
        self.speak(voice.dialect);
        let method = jsonrpc::method(Verb::Push(Push::Set), voice.dialect);
        let body = jsonrpc::request(&quote(&mint()), method, params);
        let request = self.asked(Asked { method: Method::POST, target: Some(target), body })?;
        let (limit, idle) = (self.reply_bytes, self.timeouts.idle);
        let exchange = async {
            let answer = self.call(request).await?;
            read(answer, Binding::json_rpc(), limit, idle).await
        };
        let answer = tokio::time::timeout(within, exchange).await.map_err(|_| Refusal::timeout())??;
        let said = Doc::scan(&answer.body).ok().filter(|_| answer.head.status.is_success());
        match said.is_some_and(|said| answer.binding.result_of(said.root()).is_some()) {
            true => Ok(()),
            false => Err(Refusal::malformed("it takes no push configuration")),
        }
    }
}

async fn got(
    answer: Response<AgentBody>,
    binding: Binding,
    streams: bool,
    limit: usize,
    idle: Duration,
) -> Result<Got, Refusal> {
    if streams && answer.status().is_success() && reading::is_event_stream(answer.headers()) {
        return if reading::encoding(answer.headers()).is_some() {
            Err(Refusal::malformed("a stream with a content-encoding that was not asked for"))
        } else {
            Ok(Got::Stream(answer))
        };
    }
    read(answer, binding, limit, idle).await.map(Got::Whole)
}

async fn read(answer: Response<AgentBody>, binding: Binding, limit: usize, idle: Duration) -> Result<Answer, Refusal> {
    let (head, body) = answer.into_parts();
    let read = reading::read(body, limit, idle).await;
    let body = read.map_err(|error| match error {
        ReadError::TooLarge => Refusal::reply_too_large(limit),
        ReadError::Idle => Refusal::timeout(),
        ReadError::Broken(error) => refusal_of(&*error),
    })?;
    let Some(encoding) = reading::encoding(&head.headers) else {
        log_body("from the agent", &body);
        return Ok(Answer { head, body, binding, decoded: false });
    };
    let decoded = reading::decode(encoding, &body, limit);
    let body = decoded.ok_or_else(|| Refusal::malformed("its content-encoding cannot be decoded"))?;
    Ok(Answer { head, body, binding, decoded: true })
}

/// Logs what users and agents say, where that was asked for: its target is off otherwise.
pub(super) fn log_body(way: &'static str, body: &[u8]) {
    if tracing::enabled!(target: "a2a_multiturn::bodies", tracing::Level::INFO) {
        tracing::info!(target: "a2a_multiturn::bodies", way, body = %String::from_utf8_lossy(body));
    }
}

/// Whose fault an error of the service inside is. A timeout is told by an `io::Error` of that kind, an answer that is no HTTP by one of invalid
/// data, wherever it stands in the chain.
pub(super) fn refusal_of(error: &(dyn std::error::Error + 'static)) -> Refusal {
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(std::io::ErrorKind::TimedOut) => return Refusal::timeout(),
            Some(std::io::ErrorKind::InvalidData) => return Refusal::malformed("it is no HTTP"),
            _ => cause = error.source(),
        }
    }
    Refusal::unreachable()
}
