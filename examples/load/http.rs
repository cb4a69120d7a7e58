//! As much of HTTP/1.1 as is needed: messages with a length, and chunked ones.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection, and what was read of it beyond the last message.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

/// How long a body is.
pub enum Length {
    Of(usize),
    Chunked,
}

impl Wire {
    pub fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(64 * 1024) })
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next message's head, in lower case; `None` where the connection ends before it.
    pub async fn head(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.read[..at]).to_ascii_lowercase();
                self.read.drain(..at + 4);
                return Ok(Some(head));
            }
            if self.more().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// So many bytes.
    pub async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            if self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.read.split_off(length);
        Ok(std::mem::replace(&mut self.read, rest))
    }

    /// The next chunk of a body; `None` at its end.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let at = loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                break at;
            }
            if self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let size =
            std::str::from_utf8(&self.read[..at]).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or(io::ErrorKind::InvalidData)?;
        self.read.drain(..at + 2);
        let mut chunk = self.exactly(size + 2).await?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    async fn more(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.read).await
    }
}

/// How long the body is that follows a head.
pub fn length(head: &str) -> Length {
    match value(head, "content-length").and_then(|length| length.parse().ok()) {
        Some(length) => Length::Of(length),
        None if value(head, "transfer-encoding").is_some() => Length::Chunked,
        None => Length::Of(0),
    }
}

/// A header's value.
pub fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| *found == name).map(|(_, value)| value.trim()).next()
}

/// Where `needle` begins.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(hay, needle)
}
