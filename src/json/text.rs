//! Strings: from their JSON form to text and back.

use std::borrow::Cow;

/// `text` as a JSON string literal, quotes included.
pub fn quote(text: &str) -> String {
    // A string has no form that serde_json refuses.
    serde_json::to_string(text).unwrap_or_default()
}

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// The text of a valid JSON string literal's inside (without the quotes).
///
/// A lone surrogate, which JavaScript peers do send, becomes U+FFFD: such a string has no other Rust form, and its bytes are forwarded from
/// the document and not from here.
pub fn unescape(inside: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inside.as_bytes()) else { return Cow::Borrowed(inside) };
    let mut text = String::with_capacity(inside.len());
    text.push_str(&inside[..first]);
    let mut rest = &inside[first..];
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let (character, used) = escape(&rest[at..]);
        text.push(character);
        rest = &rest[at + used..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// The character that an escape sequence at the start of `sequence` stands for, and the sequence's length in bytes.
fn escape(sequence: &str) -> (char, usize) {
    match sequence.as_bytes().get(1) {
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'u') => unicode_escape(sequence),
        Some(other) => (char::from(*other), 2),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn unicode_escape(sequence: &str) -> (char, usize) {
    let unit = |at: usize| {
        let digits = sequence.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 2) };
    if let Some(character) = char::from_u32(first) {
        return (character, 6);
    }
    match unit(6) {
        Some(second @ 0xDC00..=0xDFFF) if first < 0xDC00 => {
            let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}
