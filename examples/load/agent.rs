//! The agent: a completed task for every send, a stream of pieces for every stream.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::http::{Length, Wire, find, length, value};
use crate::requests::words;

/// What the header `x-bench` asks for: `reply=BYTES;events=COUNT;gap=MILLISECONDS`.
#[derive(Clone, Copy)]
struct Settings {
    reply: usize,
    events: usize,
    gap: u64,
}

impl Settings {
    fn read(head: &str) -> Self {
        let pairs = value(head, "x-bench").unwrap_or_default();
        let number = |name: &str| {
            let pair = pairs.split(';').filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == name);
            pair.and_then(|(_, value)| value.parse().ok())
        };
        Self {
            reply: number("reply").unwrap_or(500),
            events: number("events").unwrap_or(200),
            gap: number("gap").unwrap_or(0) as u64,
        }
    }
}

/// Serves until the process ends.
pub async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let card = Rc::new(card(&listener.local_addr()?.to_string()));
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            for number in 0_u64.. {
                let (stream, _) = listener.accept().await?;
                let mut connection = Connection { wire: Wire::over(stream)?, number, count: 0, card: Rc::clone(&card) };
                tokio::task::spawn_local(async move {
                    // A client that leaves ends its connection, and nothing else.
                    let _ = connection.run().await;
                });
            }
            Ok(())
        })
        .await
}

struct Connection {
    wire: Wire,
    number: u64,
    count: u64,
    card: Rc<String>,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        while let Some(head) = self.wire.head().await? {
            if head.starts_with("get ") {
                let card = Rc::clone(&self.card);
                self.json(&card).await?;
                continue;
            }
            let body = match length(&head) {
                Length::Of(length) => self.wire.exactly(length).await?,
                Length::Chunked => {
                    let mut body = Vec::new();
                    while let Some(chunk) = self.wire.chunk().await? {
                        body.extend(chunk);
                    }
                    body
                }
            };
            self.answer(&body, Settings::read(&head)).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, body: &[u8], settings: Settings) -> io::Result<()> {
        self.count += 1;
        let ids = format!("\"t-{}-{}\",\"contextId\":\"{}\"", self.number, self.count, context_of(body));
        if find(body, b"\"message/stream\"").is_some() {
            return self.stream(&ids, settings).await;
        }
        if find(body, b"\"message/send\"").is_none() {
            return self.json(&result(&format!("{{\"pong\":\"{}\"}}", words(settings.reply)))).await;
        }
        let artifact = artifact(&words(settings.reply));
        let task = format!(
            "{{\"kind\":\"task\",\"id\":{ids},\"status\":{{\"state\":\"completed\"}},\"artifacts\":[{artifact}]}}"
        );
        self.json(&result(&task)).await
    }

    async fn json(&mut self, body: &str) -> io::Result<()> {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        self.wire.write(answer.as_bytes()).await
    }

    /// One chunk, and one write, an event.
    async fn stream(&mut self, ids: &str, settings: Settings) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.wire.write(head.as_bytes()).await?;
        self.event(&format!("{{\"kind\":\"task\",\"id\":{ids},\"status\":{{\"state\":\"submitted\"}}}}")).await?;
        let task_ids = ids.replacen("\"t-", "\"taskId\":\"t-", 1);
        let text = words(100);
        for at in 0..settings.events {
            if settings.gap > 0 {
                tokio::time::sleep(Duration::from_millis(settings.gap)).await;
            }
            let (append, artifact) = (at > 0, artifact(&text));
            let update =
                format!("{{\"kind\":\"artifact-update\",{task_ids},\"append\":{append},\"artifact\":{artifact}}}");
            self.event(&update).await?;
        }
        let last = "\"status\":{\"state\":\"completed\"},\"final\":true";
        self.event(&format!("{{\"kind\":\"status-update\",{task_ids},{last}}}")).await?;
        self.wire.write(b"0\r\n\r\n").await
    }

    async fn event(&mut self, noun: &str) -> io::Result<()> {
        let event = format!("data: {}\n\n", result(noun));
        self.wire.write(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await
    }
}

fn result(noun: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{noun}}}")
}

fn artifact(text: &str) -> String {
    format!("{{\"artifactId\":\"response\",\"parts\":[{{\"kind\":\"text\",\"text\":\"{text}\"}}]}}")
}

/// The contextId that a request names.
fn context_of(body: &[u8]) -> String {
    let name = b"\"contextId\":\"";
    let begins = find(body, name).map(|at| &body[at + name.len()..]);
    let id = begins.and_then(|rest| Some(&rest[..memchr::memchr(b'"', rest)?]));
    id.map(|id| String::from_utf8_lossy(id).into_owned()).unwrap_or_else(|| "none".to_owned())
}

fn card(address: &str) -> String {
    format!(
        "{{\"name\":\"bench\",\"description\":\"answers\",\"version\":\"1\",\"protocolVersion\":\"0.3.0\",\"url\":\"http://{address}/\",\
         \"preferredTransport\":\"JSONRPC\",\"capabilities\":{{\"streaming\":true}},\"defaultInputModes\":[\"text/plain\"],\
         \"defaultOutputModes\":[\"text/plain\"],\"skills\":[]}}"
    )
}
