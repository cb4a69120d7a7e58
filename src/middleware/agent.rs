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
use crate::a2a::{Binding, Dialect, Push, Verb, jsonrpc};
use crate::conversation::policy::Policy;
use crate::exchange::Refusal;
use crate::json::{Doc, quote};
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
    uri: Uri,
    headers: HeaderMap,
    extensions: Extensions,
    /// Of the client's request.
    binding: Binding,
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
    pub(super) fn new<S, B2>(inner: S, head: &http::request::Parts, binding: &Binding, policy: &Policy) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B2: Body<Data = Bytes> + Send + 'static,
        B2::Error: Into<BoxError>,
    {
        let call = move |request| -> BoxFuture<'static, Result<Response<AgentBody>, BoxError>> {
            let mut inner = inner.clone();
            Box::pin(async move {
                std::future::poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
                let response = inner.call(request).await.map_err(Into::into)?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        };
        Self {
            call: Mutex::new(Box::new(call)),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            extensions: head.extensions.clone(),
            binding: binding.clone(),
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

    /// The request, with another body than the client's.
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
        *request.method_mut() = Method::POST;
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

    async fn call(&mut self, request: Request<RequestBody>) -> Result<Response<AgentBody>, Refusal> {
        let call = self.call.get_mut().unwrap_or_else(PoisonError::into_inner);
        let answer = call(request);
        let answer = tokio::time::timeout(self.timeouts.first_byte, answer).await.map_err(|_| Refusal::timeout())?;
        answer.map_err(|error| refusal_of(&*error))
    }

    /// Sends the body and reads the answer whole, unless it is a stream and one was called for.
    pub(super) async fn exchange(&mut self, body: Bytes, streams: bool) -> Result<Got, Refusal> {
        let answer = self.send(body).await?;
        if streams && answer.status().is_success() && reading::is_event_stream(answer.headers()) {
            return if reading::encoding(answer.headers()).is_some() {
                Err(Refusal::malformed("a stream with a content-encoding that was not asked for"))
            } else {
                Ok(Got::Stream(answer))
            };
        }
        self.read(answer).await.map(Got::Whole)
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
        // One server answers without history where no length is named.
        let params = format!("{{\"id\":{},\"historyLength\":100}}", quote(id));
        self.ask(Verb::Get, opening.dialect, &params, within).await
    }

    /// From here on requests say the dialect in their header: the client's own may be in the other one.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        let said = self.headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        let says = said.and_then(Dialect::of_version).unwrap_or(Dialect::V03);
        match dialect {
            _ if says == dialect => {}
            Dialect::V10 => _ = self.headers.insert(VERSION_HEADER, HeaderValue::from_static("1.0")),
            Dialect::V03 => _ = self.headers.remove(VERSION_HEADER),
        }
    }

    /// Calls a method in the proxy's own name.
    async fn ask(&mut self, verb: Verb, dialect: Dialect, params: &str, within: Duration) -> Result<Answer, Refusal> {
        let body = own_call(verb, dialect, params);
        self.speak(dialect);
        let exchange = async {
            let answer = self.send(body.into()).await?;
            self.read(answer).await
        };
        tokio::time::timeout(within, exchange).await.map_err(|_| Refusal::timeout())?
    }

    /// Subscribes to a task of the turn that began with `opening`, in the proxy's own name.
    /// Sets a push configuration, in the proxy's own name.
    pub(super) async fn set_push(&mut self, params: &str, dialect: Dialect, within: Duration) -> Result<(), Refusal> {
        let answer = self.ask(Verb::Push(Push::Set), dialect, params, within).await?;
        let said = Doc::scan(&answer.body).ok().filter(|_| answer.head.status.is_success());
        match said.is_some_and(|said| answer.binding.result_of(said.root()).is_some()) {
            true => Ok(()),
            false => Err(Refusal::malformed("it takes no push configuration")),
        }
    }

    pub(super) async fn subscribe(&mut self, id: &str, opening: &Opening) -> Result<Got, Refusal> {
        let body = own_call(Verb::Subscribe, opening.dialect, &format!("{{\"id\":{}}}", quote(id)));
        let exchange = tokio::time::timeout(self.timeouts.idle, self.exchange(body.into(), true));
        exchange.await.map_err(|_| Refusal::timeout())?
    }
}

fn own_call(verb: Verb, dialect: Dialect, params: &str) -> String {
    jsonrpc::request(&quote(&mint()), jsonrpc::method(verb, dialect), params)
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
