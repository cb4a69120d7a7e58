//! One pass over a document, and a cursor over what it found.

use std::borrow::Cow;
use std::ops::Range;

use super::text::unescape;

/// Members whose values are opened only when somebody asks ([`Value::open`]): they may be large, and are none of our business.
const OPAQUE: [&str; 2] = ["data", "metadata"];

/// Containers deeper than this are refused: no agent sends them, and readers behind us recurse.
const MAX_DEPTH: usize = 128;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number, as its literal text.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Not JSON: where the text stops being so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON at byte {at}")]
pub struct SyntaxError {
    /// Offset in bytes from the start of the document.
    pub at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    end: u32,
    /// Index of the node behind this one's last descendant.
    next: u32,
    kind: Kind,
    /// An object in which two members have the same name.
    duplicate: bool,
}

/// A scanned document: its text, and where each value stands in it.
#[derive(Debug)]
pub struct Doc<'t> {
    text: &'t str,
    nodes: Vec<Node>,
}

impl<'t> Doc<'t> {
    /// Scans `bytes` as one JSON document.
    ///
    /// # Errors
    /// [`SyntaxError`] where the bytes are not UTF-8, not JSON, nested deeper than 128 containers, or longer than 4 GiB.
    pub fn scan(bytes: &'t [u8]) -> Result<Self, SyntaxError> {
        let text = std::str::from_utf8(bytes).map_err(|error| SyntaxError { at: error.valid_up_to() })?;
        Self::scan_within(text, 0..text.len(), true)
    }

    /// As [`scan`](Self::scan), with nothing left closed.
    ///
    /// # Errors
    /// As there.
    pub fn scan_fully(text: &'t str) -> Result<Self, SyntaxError> {
        Self::scan_within(text, 0..text.len(), false)
    }

    fn scan_within(text: &'t str, range: Range<usize>, closes: bool) -> Result<Self, SyntaxError> {
        if u32::try_from(text.len()).is_err() {
            return Err(SyntaxError { at: 0 });
        }
        let bytes = &text.as_bytes()[..range.end];
        let mut scanner = Scanner { bytes, at: range.start, nodes: Vec::new(), closes, muted: 0 };
        scanner.document()?;
        let mut doc = Self { text, nodes: scanner.nodes };
        doc.mark_duplicates();
        Ok(doc)
    }

    /// The whole document's text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The outermost value.
    pub fn root(&self) -> Value<'_, 't> {
        Value { doc: self, at: 0 }
    }

    fn mark_duplicates(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].kind == Kind::Object && self.repeats_a_name(at) {
                self.nodes[at].duplicate = true;
            }
        }
    }

    fn repeats_a_name(&self, at: usize) -> bool {
        let names = Value { doc: self, at }.members().map(|member| member.name());
        let mut seen: Vec<Cow<'_, str>> = Vec::new();
        for name in names {
            // Objects of the protocol are small; a hostile large one is sorted instead of compared pair by pair.
            if seen.len() == 32 {
                return self.repeats_a_name_sorted(at);
            }
            if seen.contains(&name) {
                return true;
            }
            seen.push(name);
        }
        false
    }

    fn repeats_a_name_sorted(&self, at: usize) -> bool {
        let mut names: Vec<_> = Value { doc: self, at }.members().map(|member| member.name()).collect();
        names.sort_unstable();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// A value of a document: a cursor, as cheap as an index.
#[derive(Clone, Copy, Debug)]
pub struct Value<'d, 't> {
    doc: &'d Doc<'t>,
    at: usize,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member<'d, 't> {
    key: Value<'d, 't>,
    /// The member's value.
    pub value: Value<'d, 't>,
}

impl<'t> Member<'_, 't> {
    /// The member's name, unescaped.
    pub fn name(&self) -> Cow<'t, str> {
        self.key.inside()
    }

    /// Where the member stands, name and value.
    pub fn range(&self) -> Range<usize> {
        self.key.range().start..self.value.range().end
    }
}

impl<'d, 't> Value<'d, 't> {
    fn node(&self) -> Node {
        self.doc.nodes[self.at]
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.node().kind
    }

    /// Where it stands in the document, in bytes.
    pub fn range(&self) -> Range<usize> {
        self.node().start as usize..self.node().end as usize
    }

    /// Its text in the document, quotes or brackets included.
    pub fn raw(&self) -> &'t str {
        &self.doc.text[self.range()]
    }

    /// The text of a string; `None` for anything else.
    pub fn str(&self) -> Option<Cow<'t, str>> {
        (self.kind() == Kind::String).then(|| self.inside())
    }

    fn inside(&self) -> Cow<'t, str> {
        let range = self.range();
        unescape(&self.doc.text[range.start + 1..range.end - 1])
    }

    /// The value of `true` or `false`; `None` for anything else.
    pub fn bool(&self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.raw() == "true")
    }

    /// A number that fits, written without fraction or exponent; `None` for anything else.
    pub fn u64(&self) -> Option<u64> {
        if self.kind() == Kind::Number { self.raw().parse().ok() } else { None }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// Whether it is an object in which two members have the same name: two readers may take different ones.
    pub fn has_duplicate_names(&self) -> bool {
        self.node().duplicate
    }

    /// The member called `name`; the first, where there are several. `None` too where the value is no object.
    pub fn get(&self, name: &str) -> Option<Value<'d, 't>> {
        self.members().find(|member| member.name() == name).map(|member| member.value)
    }

    /// As [`get`](Self::get), where a `null` counts as absent, as ProtoJSON has it.
    pub fn some(&self, name: &str) -> Option<Value<'d, 't>> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// The members of an object, in their order; none where the value is no object or is opaque (see [`open`](Self::open)).
    pub fn members(&self) -> impl Iterator<Item = Member<'d, 't>> + use<'d, 't> {
        let mut keys = self.children(Kind::Object);
        std::iter::from_fn(move || {
            let key = keys.next()?;
            Some(Member { key, value: keys.next()? })
        })
    }

    /// The elements of an array, in their order; none where the value is no array or is opaque.
    pub fn elements(&self) -> impl Iterator<Item = Value<'d, 't>> + use<'d, 't> {
        self.children(Kind::Array)
    }

    fn children(&self, of: Kind) -> impl Iterator<Item = Value<'d, 't>> + use<'d, 't> {
        let doc = self.doc;
        let end = if self.kind() == of { self.node().next as usize } else { self.at };
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let child = (at < end).then_some(Value { doc, at })?;
            at = child.node().next as usize;
            Some(child)
        })
    }

    /// Scans a value that the first pass left closed (a member called `data` or `metadata`). Places in the new document are places in the
    /// same text, so that edits of both go together.
    pub fn open(&self) -> Doc<'t> {
        // It was found to be valid by the first pass; a depth counted from here is smaller than it was there.
        Doc::scan_within(self.doc.text, self.range(), true)
            .unwrap_or(Doc { text: self.doc.text, nodes: vec![self.node()] })
    }

    /// The document that it belongs to.
    pub fn doc(&self) -> &'d Doc<'t> {
        self.doc
    }
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    nodes: Vec<Node>,
    /// Whether opaque values are left closed.
    closes: bool,
    /// Greater than 0 inside an opaque value: how many containers of it are open; no nodes are made there.
    muted: usize,
}

/// An open container: its node (where one is made) and what closes it.
struct Open {
    node: Option<usize>,
    close: u8,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), SyntaxError> {
        let mut open: Vec<Open> = Vec::new();
        self.space();
        self.value(&mut open, false)?;
        while let Some(container) = open.last() {
            let close = container.close;
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                    self.item(&mut open, close)?;
                }
                Some(byte) if byte == close => self.close(&mut open),
                _ => return self.fail(),
            }
        }
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { self.fail() }
    }

    /// One element, or one member with its name.
    fn item(&mut self, open: &mut Vec<Open>, close: u8) -> Result<(), SyntaxError> {
        if close == b']' {
            return self.value(open, false);
        }
        let start = self.at;
        if self.peek() != Some(b'"') {
            return self.fail();
        }
        self.string()?;
        let name = &self.bytes[start + 1..self.at - 1];
        let opaque = self.closes && OPAQUE.iter().any(|opaque| opaque.as_bytes() == name);
        self.leaf(start, Kind::String);
        self.space();
        if self.peek() != Some(b':') {
            return self.fail();
        }
        self.at += 1;
        self.space();
        self.value(open, opaque)
    }

    fn value(&mut self, open: &mut Vec<Open>, opaque: bool) -> Result<(), SyntaxError> {
        let start = self.at;
        match self.peek() {
            Some(b'{') => return self.container(open, Kind::Object, b'}', opaque),
            Some(b'[') => return self.container(open, Kind::Array, b']', opaque),
            Some(b'"') => self.string()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            _ => self.number()?,
        }
        let kind = match self.bytes[start] {
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        };
        self.leaf(start, kind);
        Ok(())
    }

    fn container(&mut self, open: &mut Vec<Open>, kind: Kind, close: u8, opaque: bool) -> Result<(), SyntaxError> {
        if open.len() == MAX_DEPTH {
            return self.fail();
        }
        let node = (self.muted == 0).then(|| self.push(self.at, kind));
        if self.muted > 0 || opaque {
            self.muted += 1;
        }
        open.push(Open { node, close });
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.close(open);
            return Ok(());
        }
        self.item(open, close)
    }

    fn close(&mut self, open: &mut Vec<Open>) {
        self.at += 1;
        self.muted = self.muted.saturating_sub(1);
        if let Some(Open { node: Some(node), .. }) = open.pop() {
            self.nodes[node].end = self.at as u32;
            self.nodes[node].next = self.nodes.len() as u32;
        }
    }

    fn push(&mut self, start: usize, kind: Kind) -> usize {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { start: start as u32, end: self.at as u32, next, kind, duplicate: false });
        self.nodes.len() - 1
    }

    fn leaf(&mut self, start: usize, kind: Kind) {
        if self.muted == 0 {
            self.push(start, kind);
        }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(plain) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) else {
                self.at = self.bytes.len();
                return self.fail();
            };
            self.at += plain;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => return self.fail(),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => 6,
            _ => return self.fail(),
        };
        let digits = self.bytes.get(self.at + 2..self.at + length);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return self.fail();
        }
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        self.skip(b"-");
        let whole = self.digits()?;
        if whole > 1 && self.bytes[self.at - whole] == b'0' {
            return self.fail();
        }
        if self.skip(b".") {
            self.digits()?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<usize, SyntaxError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { self.fail() } else { Ok(count) }
    }

    fn skip(&mut self, any: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Result<(), SyntaxError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.fail();
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fail<T>(&self) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn accepted_by_serde(text: &str) -> bool {
        // Numbers beyond a double and lone surrogates are JSON by its grammar; as a RawValue serde_json reads them so too.
        serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
    }

    #[test]
    fn reads_what_the_grammar_has_and_nothing_else() {
        for text in [
            "{}",
            "[]",
            " [ 1 , 2 ] ",
            "{\"a\":{\"b\":[null,true,false,\"\\u00e9\\n\"]}}",
            "-0",
            "1e3",
            "1.50E-7",
            "12345678901234567890123",
            "\"\\ud800\"",
            "\"\"",
            "",
            "{",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{a:1}",
            "01",
            "-",
            "1.",
            "1e",
            "\"\\x\"",
            "\"\\u12\"",
            "tru",
            "[1 2]",
            "{} {}",
            "\u{feff}{}",
            "\"a\nb\"",
            "'a'",
            "NaN",
            "[",
            "[[]",
            "{\"a\":1,}",
            "nulls",
            "\"abc",
            "{\"metadata\":{\"a\":}}",
        ] {
            assert_eq!(Doc::scan(text.as_bytes()).is_ok(), accepted_by_serde(text), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_utf8_and_what_is_too_deep() {
        assert_eq!(Doc::scan(b"\"a\xff\"").unwrap_err(), SyntaxError { at: 2 });
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Doc::scan(deep(MAX_DEPTH).as_bytes()).is_ok());
        assert!(Doc::scan(deep(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(Doc::scan(format!("{{\"data\":{}}}", deep(MAX_DEPTH + 1)).as_bytes()).is_err());
    }

    #[test]
    fn finds_members_with_their_places() {
        let text = "{ \"a\\u0062\" : [1, {\"c\":\"x\\ty\"}], \"n\":null, \"big\":12345678901234567890123 }";
        let doc = Doc::scan(text.as_bytes()).unwrap();
        let root = doc.root();
        let array = root.get("ab").unwrap();
        assert_eq!(array.raw(), "[1, {\"c\":\"x\\ty\"}]");
        assert_eq!(array.elements().nth(1).unwrap().get("c").unwrap().str().unwrap(), "x\ty");
        assert!(root.get("n").is_some() && root.some("n").is_none());
        assert_eq!(root.get("big").unwrap().raw(), "12345678901234567890123");
        assert_eq!(root.members().count(), 3);
        assert_eq!(&text[root.members().nth(1).unwrap().range()], "\"n\":null");
    }

    #[test]
    fn notices_duplicate_names_however_they_are_spelled() {
        for (text, expected) in [
            ("{\"a\":1,\"b\":2}", false),
            ("{\"a\":1,\"a\":2}", true),
            ("{\"a\":1,\"\\u0061\":2}", true),
            ("{\"a\":1,\"b\":{\"a\":2}}", false),
        ] {
            assert_eq!(Doc::scan(text.as_bytes()).unwrap().root().has_duplicate_names(), expected, "{text}");
        }
        let many = |last: &str| {
            let members: Vec<_> = (0..1000).map(|n| format!("\"k{n}\":0")).collect();
            format!("{{{},\"{last}\":0}}", members.join(","))
        };
        assert!(!Doc::scan(many("k1000").as_bytes()).unwrap().root().has_duplicate_names());
        assert!(Doc::scan(many("k7").as_bytes()).unwrap().root().has_duplicate_names());
    }

    #[test]
    fn opens_what_it_left_closed_with_places_in_the_same_text() {
        let text = "{\"x\":1,\"metadata\":{\"uri\":{\"inline\":true}},\"y\":2}";
        let doc = Doc::scan(text.as_bytes()).unwrap();
        let metadata = doc.root().get("metadata").unwrap();
        assert_eq!(metadata.members().count(), 0);
        let opened = metadata.open();
        let flag = opened.root().get("uri").unwrap().get("inline").unwrap();
        assert_eq!((flag.bool(), &text[flag.range()]), (Some(true), "true"));
        assert_eq!(doc.root().get("y").unwrap().u64(), Some(2));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_any_text(text in "[\\[\\]{}:,\"\\\\0-9eE.+\\-truefalsn a\n\u{e9}]{0,40}") {
            prop_assert_eq!(Doc::scan(text.as_bytes()).is_ok(), accepted_by_serde(&text));
        }

        #[test]
        fn strings_come_back_as_they_were(text in any::<String>()) {
            let quoted = super::super::quote(&text);
            let doc = Doc::scan(quoted.as_bytes()).unwrap();
            prop_assert_eq!(doc.root().str().unwrap(), text);
        }
    }
}
