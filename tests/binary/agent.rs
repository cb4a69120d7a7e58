//! Scripted agents on sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::wire::{Message, Wire, soon};

/// What an agent does with a request.
pub enum Answer {
    /// An answer of known length; the connection stays.
    Http(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
}

impl Answer {
    pub fn json(value: &Value) -> Self {
        Self::of(200, "application/json", value.to_string())
    }

    pub fn of(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Http(status, vec![("content-type", content_type.to_owned())], body.into())
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Http(_, headers, _) = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }

    fn bytes(self) -> (Vec<u8>, bool) {
        match self {
            Self::Raw(bytes) => (bytes, false),
            Self::Http(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                ([head.as_bytes(), b"\r\n", &body].concat(), true)
            }
        }
    }
}

type Script = Arc<dyn Fn(Message) -> BoxFuture<'static, Answer> + Send + Sync>;

/// An agent on a port of its own. It dies when this is dropped.
pub struct Agent {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Message>>>,
    calls: watch::Receiver<usize>,
    serving: AbortHandle,
}

/// A port that nobody listens on, and nobody else can have.
pub struct Reserved(TcpSocket);

impl Reserved {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// From here on an agent listens there.
    pub fn start<A>(self, script: impl Fn(Message) -> A + Send + Sync + 'static) -> Agent
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        Agent::on(self.0.listen(64).unwrap(), None, script)
    }
}

impl Agent {
    pub fn start<A>(script: impl Fn(Message) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        Reserved::new().start(script)
    }

    /// As [`start`](Self::start), behind TLS.
    pub fn over_tls<A>(tls: TlsAcceptor, script: impl Fn(Message) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        Self::on(Reserved::new().0.listen(64).unwrap(), Some(tls), script)
    }

    /// An agent of both dialects with a card, that answers every send with what `say` makes of its text.
    pub fn saying(say: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start(saying(say))
    }

    /// An agent that answers a send only once `open` says so, with the text "done".
    pub fn latched(open: watch::Receiver<bool>) -> Self {
        let quick = saying(|_| "done".into());
        Self::start(move |request: Message| {
            let (mut open, answer) = (open.clone(), quick(request.clone()));
            async move {
                if request.method() == "POST" && open.wait_for(|open| *open).await.is_err() {
                    std::future::pending::<()>().await;
                }
                answer.await
            }
        })
    }

    fn on<A>(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        script: impl Fn(Message) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Message>>>::default();
        let (count, calls) = watch::channel(0);
        let (noted, count) = (Arc::clone(&seen), Arc::new(count));
        let script: Script = Arc::new(move |request: Message| {
            if request.method() == "POST" {
                noted.lock().unwrap().push(request.clone());
                count.send_modify(|count| *count += 1);
            }
            Box::pin(script(request))
        });
        let serving = tokio::spawn(accept(listener, tls, script)).abort_handle();
        Self { address, seen, calls, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The POSTs that it was sent.
    pub fn seen(&self) -> Vec<Message> {
        self.seen.lock().unwrap().clone()
    }

    pub fn last(&self) -> Message {
        self.seen().pop().expect("the agent was called")
    }

    /// Waits until it was called so many times.
    pub async fn called(&self, times: usize) {
        let mut calls = self.calls.clone();
        soon("a call to the agent", calls.wait_for(|calls| *calls >= times)).await.unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, script: Script) {
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (script, tls) = (Arc::clone(&script), tls.clone());
        connections.spawn(async move {
            match tls {
                None => serve(Wire::over(stream), script).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(Wire::over(stream), script).await;
                    }
                }
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut wire: Wire<S>, script: Script) {
    while let Some(request) = wire.request().await {
        let (bytes, stays) = script(request).await.bytes();
        // A proxy that has given up is the business of the test.
        if tokio::io::AsyncWriteExt::write_all(&mut wire.stream, &bytes).await.is_err() || !stays {
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut wire.stream).await;
            return;
        }
    }
}

type Ready = std::future::Ready<Answer>;

/// The script of [`Agent::saying`].
pub fn saying(say: impl Fn(&str) -> String + Send + Sync + 'static) -> impl Fn(Message) -> Ready + Send + Sync {
    let count = std::sync::atomic::AtomicUsize::new(0);
    move |request| {
        let base = format!("http://{}/", request.header("host").unwrap_or_default());
        std::future::ready(match (request.method(), request.path()) {
            ("GET", "/.well-known/agent-card.json") => Answer::json(&mixed_card(&base)),
            ("GET", _) => Answer::of(404, "text/plain", "not here"),
            _ => {
                let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                Answer::json(&completed(&request.json(), count, &say))
            }
        })
    }
}

fn completed(call: &Value, count: usize, say: impl Fn(&str) -> String) -> Value {
    let message = &call["params"]["message"];
    let text = said(call);
    let context = message["contextId"].as_str().unwrap_or("agent-context");
    let (id, reply) = (format!("u-{count}"), say(&text));
    let result = if call["method"] == "SendMessage" {
        json!({ "task": {
            "id": id, "contextId": context, "status": { "state": "TASK_STATE_COMPLETED" },
            "artifacts": [{ "artifactId": "response", "parts": [{ "text": reply }] }],
        } })
    } else {
        json!({
            "kind": "task", "id": id, "contextId": context, "status": { "state": "completed" },
            "artifacts": [{ "artifactId": "response", "parts": [{ "kind": "text", "text": reply }] }],
        })
    };
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
}

/// The text of a send's message.
pub fn said(call: &Value) -> String {
    let parts = call["params"]["message"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// A card of 0.3 with one JSON-RPC interface.
pub fn card(url: &str) -> Value {
    json!({
        "name": "Clerk", "description": "answers", "version": "1", "protocolVersion": "0.3.0", "url": url,
        "preferredTransport": "JSONRPC", "capabilities": { "streaming": false },
        "defaultInputModes": ["text"], "defaultOutputModes": ["text"], "skills": [],
    })
}

/// A card of both dialects.
pub fn mixed_card(url: &str) -> Value {
    let mut card = card(url);
    card["supportedInterfaces"] = json!([
        { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
    ]);
    card
}

/// Serves `card` at the newer well-known path and answers everything else with 404.
pub fn showing(card: Value) -> impl Fn(Message) -> Ready + Send + Sync {
    move |request| {
        std::future::ready(match request.path() {
            "/.well-known/agent-card.json" => Answer::json(&card),
            _ => Answer::of(404, "text/plain", "not here"),
        })
    }
}
