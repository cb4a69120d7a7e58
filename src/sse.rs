//! Server-sent events by bytes: push what came over the wire, take whole events, each with its own bytes.
//!
//! Lines end with CRLF, LF or CR, an event with an empty line; a piece of the wire may end anywhere, in the middle of a character too. What is
//! not changed is forwarded with the bytes that it came with.

use std::borrow::Cow;

/// An event is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {0} bytes")]
pub struct TooLong(pub usize);

/// Splits a byte stream into events.
#[derive(Debug)]
pub struct Splitter {
    /// What came and was not taken yet; an event's first byte is the first.
    buffer: Vec<u8>,
    /// How far the buffer has been looked at: always behind a line end, or 0.
    line: usize,
    /// How far the current line has been looked at.
    seen: usize,
    limit: usize,
}

/// An event, or a comment, with the empty line that ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its bytes.
    pub raw: Vec<u8>,
}

impl Splitter {
    /// A splitter that holds at most `limit` bytes of one event.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), line: 0, seen: 0, limit }
    }

    /// Takes in a piece of the wire.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event; `None`: more is needed.
    ///
    /// # Errors
    /// [`TooLong`] where the event that is being read is longer than the limit, whole or not.
    pub fn take(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(at) = memchr::memchr2(b'\r', b'\n', &self.buffer[self.seen..]).map(|at| self.seen + at) {
            let mut next = at + 1;
            if at == self.line && at > 0 && self.buffer[at - 1..next] == *b"\r\n" {
                // The LF of a CRLF that came in two pieces.
                (self.line, self.seen) = (next, next);
                continue;
            }
            let empty = at == self.line;
            // A CR at the end of what came ends its line at once: an LF behind it, when it comes, starts the next event's bytes, where it is an
            // empty line in front of everything and means nothing.
            if self.buffer[at] == b'\r' && self.buffer.get(next) == Some(&b'\n') {
                next += 1;
            }
            (self.line, self.seen) = (next, next);
            // An empty line with nothing in front ends nothing.
            let blank_so_far = empty && self.buffer[..at].iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if empty && !blank_so_far {
                return self.cut(next).map(Some);
            }
        }
        self.seen = self.buffer.len();
        if self.buffer.len() > self.limit { Err(TooLong(self.limit)) } else { Ok(None) }
    }

    fn cut(&mut self, end: usize) -> Result<Event, TooLong> {
        if end > self.limit {
            return Err(TooLong(self.limit));
        }
        let rest = self.buffer.split_off(end);
        let raw = std::mem::replace(&mut self.buffer, rest);
        (self.line, self.seen) = (0, 0);
        Ok(Event { raw })
    }

    /// Whether the stream, where it ends now, ends amid an event.
    pub fn is_amid_event(&self) -> bool {
        self.buffer.iter().any(|byte| !matches!(byte, b'\r' | b'\n'))
    }
}

impl Event {
    /// Its lines without their ends; as text, since a line that is not UTF-8 is no field.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.raw[..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            let crlf = rest[end..].starts_with(b"\r\n");
            rest = &rest[(end + 1 + usize::from(crlf)).min(rest.len())..];
            Some(line)
        })
    }

    /// Its data: of several `data` lines the texts, with a line end between. `None` where it has none (a comment).
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut lines = self.lines().filter_map(data_of);
        let first = lines.next()?;
        let mut rest = lines.peekable();
        if rest.peek().is_none() {
            return Some(Cow::Borrowed(first));
        }
        let mut data = first.to_vec();
        for line in rest {
            data.push(b'\n');
            data.extend_from_slice(line);
        }
        Some(Cow::Owned(data))
    }

    /// Its bytes where nothing follows it: an event is whole with the CR of its last line end, whose LF may not have come yet.
    pub fn last(&self) -> Vec<u8> {
        let mut raw = self.raw.clone();
        if raw.ends_with(b"\r") && self.line_end() == b"\r\n" {
            raw.push(b'\n');
        }
        raw
    }

    /// The event with other data; its other fields and comments stay. `data` must be one line.
    pub fn with_data(&self, data: &str) -> Vec<u8> {
        let end = self.line_end();
        let mut out = Vec::with_capacity(data.len() + 16);
        let mut written = false;
        for line in self.lines().filter(|line| !line.is_empty()) {
            if data_of(line).is_none() {
                out.extend_from_slice(line);
                out.extend_from_slice(end);
            } else if !written {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(data.as_bytes());
                out.extend_from_slice(end);
                written = true;
            }
        }
        out.extend_from_slice(end);
        out
    }

    /// The line end that the stream uses.
    fn line_end(&self) -> &'static [u8] {
        match memchr::memchr2(b'\r', b'\n', self.raw.strip_prefix(b"\n").unwrap_or(&self.raw)) {
            Some(at) if self.raw.strip_prefix(b"\n").unwrap_or(&self.raw)[at..].starts_with(b"\r\n") => b"\r\n",
            Some(at) if self.raw.strip_prefix(b"\n").unwrap_or(&self.raw)[at] == b'\r' => b"\r",
            _ => b"\n",
        }
    }
}

/// The text of a `data` line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    // A byte order mark may stand in front of the stream.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let rest = line.strip_prefix(b"data")?;
    match rest {
        [] => Some(rest),
        [b':', b' ', text @ ..] | [b':', text @ ..] => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<Option<String>>, bool) {
        let mut splitter = Splitter::new(1 << 16);
        let mut events = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            while let Some(event) = splitter.take().unwrap() {
                events.push(event);
            }
        }
        let data =
            events.iter().map(|event| event.data().map(|data| String::from_utf8(data.into_owned()).unwrap())).collect();
        (events.into_iter().map(|event| event.raw).collect(), data, splitter.is_amid_event())
    }

    const STREAMS: [&str; 5] = [
        "data: {\"a\":1}\r\n\r\n: ping - 2026\r\n\r\ndata: {\"b\":\"你好 🙂 é\"}\r\n\r\n",
        "data:x\n\nevent: error\nid: 7\nretry: 5\ndata: y\n\n",
        "data: one\rdata: two\r\r: c\r\rdata\r\r",
        "\u{feff}data: first\n\ndata: {\ndata:   \"pretty\": 1\ndata: }\n\n",
        "\n\ndata: a\n\n\n\ndata: b\n\ndata: cut off",
    ];

    // sse-utf8-split
    #[test]
    fn cut_anywhere_gives_the_same_events() {
        for stream in STREAMS {
            let bytes = stream.as_bytes();
            let whole = split(&[bytes]);
            let total: usize = whole.0.iter().map(Vec::len).sum();
            assert!(whole.2 || total == bytes.len() || bytes[total..].iter().all(|byte| matches!(byte, b'\r' | b'\n')));
            for at in 0..=bytes.len() {
                let cut = split(&[&bytes[..at], &bytes[at..]]);
                assert_eq!((&cut.1, cut.2), (&whole.1, whole.2), "{stream:?} cut at {at}");
            }
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(split(&single).1, whole.1, "{stream:?} byte by byte");
        }
    }

    #[test]
    fn bytes_go_on_as_they_came() {
        for stream in &STREAMS[..4] {
            let single: Vec<_> = stream.as_bytes().chunks(1).collect();
            // Of a CRLF that ends the stream the LF comes when everything has been taken.
            assert_eq!(
                split(&single).0.concat(),
                stream.strip_suffix("\r\n").map_or(stream.to_string(), |s| format!("{s}\r")).as_bytes()
            );
        }
    }

    #[test]
    fn data_is_as_the_standard_has_it() {
        assert_eq!(
            split(&[STREAMS[0].as_bytes()]).1,
            [Some("{\"a\":1}".into()), None, Some("{\"b\":\"你好 🙂 é\"}".into())]
        );
        assert_eq!(split(&[STREAMS[1].as_bytes()]).1, [Some("x".into()), Some("y".into())]);
        assert_eq!(split(&[STREAMS[2].as_bytes()]).1, [Some("one\ntwo".into()), None, Some(String::new())]);
        assert_eq!(split(&[STREAMS[3].as_bytes()]).1, [Some("first".into()), Some("{\n  \"pretty\": 1\n}".into())]);
        assert!(split(&[STREAMS[4].as_bytes()]).2);
    }

    #[test]
    fn other_data_keeps_the_other_fields() {
        let event = |raw: &str| Event { raw: raw.as_bytes().to_vec() };
        assert_eq!(
            event("event: x\r\ndata: a\r\ndata: b\r\nid: 1\r\n\r\n").with_data("new"),
            b"event: x\r\ndata: new\r\nid: 1\r\n\r\n"
        );
        assert_eq!(event("data:a\n\n").with_data("new"), b"data: new\n\n");
        assert_eq!(event("data:a\r\r").with_data("new"), b"data: new\r\r");
        assert_eq!(event("data:a\r\n\r").last(), b"data:a\r\n\r\n");
        assert_eq!(event("data:a\r\r").last(), b"data:a\r\r");
    }

    #[test]
    fn an_event_is_bounded() {
        let mut splitter = Splitter::new(10);
        splitter.push(b"data: 12\n\n");
        assert!(splitter.take().unwrap().is_some());
        splitter.push(b"data: 1234567");
        assert_eq!(splitter.take(), Err(TooLong(10)));
    }

    #[test]
    fn a_long_event_in_small_pieces_takes_linear_time() {
        let mut splitter = Splitter::new(1 << 24);
        splitter.push(b"data: ");
        for _ in 0..200_000 {
            splitter.push(b"0123456789");
            assert!(splitter.take().unwrap().is_none());
        }
        splitter.push(b"\n\n");
        assert!(splitter.take().unwrap().is_some());
    }
}
