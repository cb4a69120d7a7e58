//! HTTP/1.1 by hand, at either end: what is not written here is not sent.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Nothing here takes longer, unless it hangs.
pub const SOON: Duration = Duration::from_secs(20);

pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The head of a message, and its body.
#[derive(Clone, Debug)]
pub struct Message {
    /// The first line.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    fn read(head: &str) -> Self {
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Self { line, headers, body: Vec::new() }
    }

    /// A word of the first line, counted from 0.
    fn word(&self, at: usize) -> &str {
        self.line.split(' ').nth(at).unwrap_or_default()
    }

    pub fn method(&self) -> &str {
        self.word(0)
    }

    pub fn path(&self) -> &str {
        self.word(1)
    }

    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or_else(|_| panic!("{}", self.line))
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).into_iter().next()
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {:?}", self.line, self.text()))
    }
}

/// One connection's bytes.
pub struct Wire<S = TcpStream> {
    pub stream: S,
    read: Vec<u8>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Self {
        Self::over(soon("a connection", TcpStream::connect(address)).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(&mut self, request: &Request) -> Message {
        self.send(request.bytes()).await;
        self.answer(request.method).await
    }

    /// As [`ask`](Self::ask), where the other end may go at any time: `None`.
    pub async fn try_ask(&mut self, request: &Request) -> Option<Message> {
        self.stream.write_all(&request.bytes()).await.ok()?;
        let (head, length) = soon("an answer, or the end", self.message()).await?;
        // A body without a length is whole only where it ends with the connection of one who lives.
        if length == Length::ToEnd { None } else { soon("the answer's body", self.body(head, length)).await }
    }

    /// The next answer, to a request of this method.
    pub async fn answer(&mut self, method: &str) -> Message {
        let message = soon("an answer", self.message()).await;
        let (head, length) = message.expect("an answer");
        let bare = method == "HEAD" || matches!(head.status(), 204 | 304);
        if bare { head } else { soon("the answer's body", self.body(head, length)).await.expect("the whole body") }
    }

    /// An answer before the answer.
    pub async fn continued(&mut self) -> String {
        soon("leave to go on", self.until("\r\n\r\n")).await.expect("leave to go on")
    }

    /// The next request; `None` where the other end closes before.
    pub async fn request(&mut self) -> Option<Message> {
        let (head, length) = self.message().await?;
        self.body(head, if length == Length::ToEnd { Length::Of(0) } else { length }).await
    }

    async fn message(&mut self) -> Option<(Message, Length)> {
        let head = Message::read(&self.until("\r\n\r\n").await?);
        let length = match head.header("content-length") {
            _ if head.header("transfer-encoding").is_some() => Length::Chunked,
            Some(length) => Length::Of(length.parse().unwrap()),
            None => Length::ToEnd,
        };
        Some((head, length))
    }

    async fn body(&mut self, mut head: Message, length: Length) -> Option<Message> {
        head.body = match length {
            Length::Of(length) => self.exactly(length).await?,
            Length::ToEnd => self.rest().await.into_bytes(),
            Length::Chunked => self.chunks().await?,
        };
        Some(head)
    }

    async fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(self.until("\r\n").await?.trim(), 16).unwrap();
            body.extend(self.exactly(length).await?);
            self.until("\r\n").await?;
            if length == 0 {
                return Some(body);
            }
        }
    }

    /// Up to and with `end`.
    pub async fn until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.read, end.as_bytes()) {
                let found = self.read.drain(..at + end.len()).collect();
                return Some(String::from_utf8(found).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            if !self.more().await {
                return None;
            }
        }
        Some(self.read.drain(..length).collect())
    }

    /// Whatever comes until the other end closes.
    pub async fn rest(&mut self) -> String {
        while soon("the end of a connection", self.more()).await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// False: closed.
    async fn more(&mut self) -> bool {
        self.stream.read_buf(&mut self.read).await.is_ok_and(|read| read > 0)
    }
}

#[derive(PartialEq)]
enum Length {
    Of(usize),
    Chunked,
    ToEnd,
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn method(method: &'static str, path: &str) -> Self {
        Self { method, ..Self::get(path) }
    }

    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::method("POST", path) }.with("content-type", "application/json")
    }

    /// A JSON-RPC call.
    pub fn call(path: &str, call: &Value) -> Self {
        Self::post(path, call.to_string())
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: proxy.test\r\n", self.method, self.path);
        if self.method == "POST" {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// A connection over HTTP/2 with prior knowledge.
pub struct Wire2(hyper::client::conn::http2::SendRequest<Full<Bytes>>);

impl Wire2 {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (client, connection) = handshake.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// A JSON-RPC call of 1.0. Dropped before the answer, it tells the other end that nobody waits for it.
    pub async fn call(&self, call: &Value) -> Value {
        let request = http::Request::post("http://proxy.test/").header("content-type", "application/json");
        let request = request.header("a2a-version", "1.0").body(Full::from(call.to_string())).unwrap();
        let response = soon("an answer", self.0.clone().send_request(request)).await.unwrap();
        assert_eq!((response.status(), response.version()), (http::StatusCode::OK, http::Version::HTTP_2));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }
}
