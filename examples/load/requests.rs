//! What the client sends.

use clap::ValueEnum;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A method that A2A does not have: passed on by every proxy as it is
    Untouched,
    /// `message/send`
    Send,
    /// `message/stream`
    Stream,
}

/// A request as bytes, in which the message's id and, where each begins a conversation, the context's are counted on.
pub struct Request {
    bytes: Vec<u8>,
    /// Where the digits stand that are counted on.
    digits: Vec<usize>,
    count: u64,
}

/// Digits of a count.
const DIGITS: usize = 12;

impl Request {
    /// `settings` is what the agent is told in a header; `context` names the conversation.
    pub fn new(kind: Kind, path: &str, size: usize, settings: &str, context: &str, fresh: bool) -> Self {
        let zeros = "0".repeat(DIGITS);
        let context = if fresh { format!("{context}-{zeros}") } else { context.to_owned() };
        let method = match kind {
            Kind::Untouched => "agent/ping",
            Kind::Send => "message/send",
            Kind::Stream => "message/stream",
        };
        let text = words(size);
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{\"message\":{{\"kind\":\"message\",\"role\":\"user\",\
             \"messageId\":\"m-{zeros}\",\"contextId\":\"{context}\",\"parts\":[{{\"kind\":\"text\",\"text\":\"{text}\"}}]}}}}}}"
        );
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nauthorization: Bearer bench\r\n\
             x-bench: {settings}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let bytes = (head + &body).into_bytes();
        let digits = memchr::memmem::find_iter(&bytes, zeros.as_bytes()).collect();
        Self { bytes, digits, count: 0 }
    }

    /// The next request: no two have the same ids.
    pub fn next(&mut self) -> &[u8] {
        self.count += 1;
        let count = format!("{:0DIGITS$}", self.count);
        for at in &self.digits {
            self.bytes[*at..at + DIGITS].copy_from_slice(count.as_bytes());
        }
        &self.bytes
    }
}

/// Text without anything that JSON would escape, and without a question.
pub fn words(size: usize) -> String {
    "The quick brown fox jumps over the lazy dog and goes on its way. ".chars().cycle().take(size).collect()
}
