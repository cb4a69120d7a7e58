//! A small agent without a memory, in both dialects. Finished tasks can be looked up and, as with the SDKs, not gone on with.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::http::{Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::mind;
use super::noun::{Done, card};
use crate::a2a::{Call, Verb, jsonrpc};
use crate::a2a::{Part, read_parts};
use crate::json::{Doc, Value};

/// Tasks that are remembered; the oldest goes.
const TASKS: usize = 256;

const REQUEST_BYTES: usize = 4 << 20;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The running agent; it stops when this is dropped.
#[derive(Debug)]
pub struct Agent {
    addr: SocketAddr,
    given: watch::Receiver<String>,
    serving: AbortHandle,
}

impl Agent {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The body of the last request that it was given; empty before the first.
    pub fn last_given(&self) -> String {
        self.given.borrow().clone()
    }

    /// Waits until a request of which `wanted` holds is the last that it was given; whether that came within `limit`.
    pub async fn is_given(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> bool {
        let mut given = self.given.clone();
        let seen = given.wait_for(|body| wanted(body));
        tokio::time::timeout(limit, seen).await.is_ok_and(|seen| seen.is_ok())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Starts it on a free port of 127.0.0.1.
///
/// # Errors
/// No port can be had.
pub async fn start() -> io::Result<Agent> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    let (given, last) = watch::channel(String::new());
    let shared = Arc::new(Shared { addr, given, tasks: Mutex::default() });
    let serving = tokio::spawn(accept(listener, shared)).abort_handle();
    Ok(Agent { addr, given: last, serving })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&shared)))),
                // No file descriptor is left, mostly.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    // A client that goes away is no fault of the agent's.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

struct Shared {
    addr: SocketAddr,
    given: watch::Sender<String>,
    tasks: Mutex<VecDeque<Done>>,
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if request.method() == Method::GET {
            let is_card = request.uri().path() == "/.well-known/agent-card.json";
            return if is_card { json(card(self.addr)) } else { status(StatusCode::NOT_FOUND) };
        }
        if request.method() != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Ok(body) = Limited::new(request.into_body(), REQUEST_BYTES).collect().await else {
            return status(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        self.given.send_replace(String::from_utf8_lossy(&body).into_owned());
        self.rpc(&body).await
    }

    async fn rpc(&self, body: &[u8]) -> Response<Body> {
        let Ok(doc) = Doc::scan(body) else { return json(jsonrpc::error("null", -32700, "this is no JSON", None)) };
        let call = match jsonrpc::read(doc.root()) {
            Ok(Some(call)) => call,
            Ok(None) => {
                let id = doc.root().get("id").map_or("null", |id| id.raw());
                return json(jsonrpc::error(id, -32601, "there is no such method", None));
            }
            Err(fault) => return json(jsonrpc::error(fault.id, fault.code, fault.why, None)),
        };
        let answered = match call.verb {
            Verb::Send => self.send(&call).await,
            Verb::Stream => match self.stream(&call) {
                Ok(events) => return events,
                Err(refused) => Err(refused),
            },
            Verb::Get => self.get(&call),
            _ => Err((-32601, "this agent does not do that".to_owned())),
        };
        json(match answered {
            Ok(result) => call.binding.wrap(&result),
            Err((code, why)) => jsonrpc::error(call.binding.id(), code, &why, None),
        })
    }

    async fn send(&self, call: &Call<'_, '_>) -> Result<String, Refused> {
        let (done, after) = self.turn(call)?;
        tokio::time::sleep(after).await;
        let task = done.task(call.dialect);
        self.keep(done);
        Ok(if call.dialect.wraps() { format!("{{\"task\":{task}}}") } else { task })
    }

    /// As the events of a stream. It keeps the task at once: who looks it up while it streams sees its end.
    fn stream(&self, call: &Call<'_, '_>) -> Result<Response<Body>, Refused> {
        let (done, after) = self.turn(call)?;
        let waits = [Duration::ZERO, after, Duration::ZERO];
        let events = done.events(call.dialect).map(|event| format!("data: {}\n\n", call.binding.wrap(&event)));
        self.keep(done);
        let frames = stream::iter(waits.into_iter().zip(events)).then(|(wait, event)| async move {
            tokio::time::sleep(wait).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(event)))
        });
        Ok(body("text/event-stream", StreamBody::new(frames).boxed_unsync()))
    }

    fn get(&self, call: &Call<'_, '_>) -> Result<String, Refused> {
        let id = word(call.params, "id").unwrap_or_default();
        self.find(&id).map(|done| done.task(call.dialect)).ok_or_else(|| (-32001, "Task not found".to_owned()))
    }

    /// The task that comes of a message, and how long it takes.
    fn turn(&self, call: &Call<'_, '_>) -> Result<(Done, Duration), Refused> {
        let Some(message) = call.params.some("message") else { return Err((-32602, "message is required".into())) };
        if let Some(id) = word(message, "taskId") {
            return Err(match self.find(&id) {
                Some(_) => (-32004, format!("Task {id} is in terminal state: completed")),
                None => (-32001, "Task not found".to_owned()),
            });
        }
        let parts = read_parts(message);
        let texts: Vec<_> = parts.iter().filter_map(Part::text).collect();
        let mind::Answer { text, after } = mind::answer(&texts.join("\n"));
        let done = Done {
            id: minted(),
            context: word(message, "contextId").unwrap_or_else(minted),
            asked: (word(message, "messageId").unwrap_or_default(), parts),
            reply: text,
            at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        };
        Ok((done, after))
    }

    fn find(&self, id: &str) -> Option<Done> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|done| done.id == id).cloned()
    }

    fn keep(&self, done: Done) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.truncate(TASKS - 1);
        tasks.push_front(done);
    }
}

/// A JSON-RPC code, and the words that go with it.
type Refused = (i32, String);

fn minted() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn word(object: Value<'_, '_>, name: &str) -> Option<String> {
    object.some(name)?.str().filter(|word| !word.is_empty()).map(Into::into)
}

fn body(media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, ::http::HeaderValue::from_static(media_type));
    response
}

fn json(text: String) -> Response<Body> {
    body("application/json", Full::from(text).boxed_unsync())
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = body("text/plain", Full::from(status.to_string()).boxed_unsync());
    *response.status_mut() = status;
    response
}
