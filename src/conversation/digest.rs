//! The history digest: what exactly a message was sent on top of.
//!
//! `H(x)` is SHA-256 over the RFC 8785 form of the JSON value x, written `sha256:` and 64 lower-case hex digits. Then
//!
//! - a message is `H({"parts": […], "role": "user" | "agent"})`,
//! - a turn is `H({"agent": <message>, "artifacts": [{"artifactId": …, "taskId": …}, …], "user": <message>})`,
//! - the accepted history is `H({"history": [<turn>, …], "message": <message>})`: the window oldest first, then turns that the message
//!   referred to, then the new message.
//!
//! The agent's message is its reply: its text in one part, then its other parts. A part counts by its content alone: `{"text": …}`,
//! `{"data": …}`, `{"file": {…}}` with the string members `name`, `mediaType`, `url`, `size` and `sha256` of the bytes, those that it has. So
//! the digest does not depend on dialect, key order or white space. A number in data that a double does not hold (the form of the double
//! next to it is another number) is bound as a string with its literal text. A turn is bound in full also where it was shown cut; that
//! it was is said behind its digest in the list: `sha256:…;head=N;tail=N`, in bytes.
//!
//! `tests/vectors/` has conversations with their digests, and a script of its own that makes them step by step.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::a2a::{File, Part};
use crate::json::{Doc, Kind, Value, hex};

/// A SHA-256 digest. Displayed as `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn digest(value: &impl Serialize) -> Digest {
    let mut hash = Sha256::new();
    // Neither the hash nor the values made here can refuse.
    if let Ok(bytes) = serde_json_canonicalizer::to_vec(value) {
        hash.update(bytes);
    }
    Digest(hash.finalize().into())
}

/// The digest of a message: `role` is `user` or `agent`.
pub fn message(role: &str, parts: &[Part]) -> Digest {
    let parts: Vec<_> = parts.iter().map(part).collect();
    digest(&json!({ "parts": parts, "role": role }))
}

/// The digest of a turn. `artifacts` are pairs of task id and artifact id, both as the client saw them.
pub fn turn<'a>(user: Digest, agent: Digest, artifacts: impl Iterator<Item = (&'a str, &'a str)>) -> Digest {
    let artifacts: Vec<_> =
        artifacts.map(|(task, artifact)| json!({ "artifactId": artifact, "taskId": task })).collect();
    digest(&json!({ "agent": agent.to_string(), "artifacts": artifacts, "user": user.to_string() }))
}

/// The digest of a new message on top of a history: `history` are the turns' entries, in the order in which they were shown.
pub fn accepted(history: &[String], message: Digest) -> Digest {
    digest(&json!({ "history": history, "message": message.to_string() }))
}

/// The digest of structured data, given as JSON text.
pub fn data(json: &str) -> Digest {
    digest(&canonical(json))
}

/// A turn's entry in the list of what was shown: its digest, and how much was left of a turn shown cut.
pub fn entry(turn: Digest, cut: Option<(usize, usize)>) -> String {
    match cut {
        None => turn.to_string(),
        Some((head, tail)) => format!("{turn};head={head};tail={tail}"),
    }
}

fn part(part: &Part) -> Json {
    match part {
        Part::Text(text) => json!({ "text": text }),
        Part::Data(text) => json!({ "data": canonical(text) }),
        Part::File(file) => json!({ "file": file_members(file) }),
    }
}

fn file_members(file: &File) -> Map<String, Json> {
    let words = [("name", &file.name), ("mediaType", &file.media_type), ("url", &file.url)];
    let mut members: Map<_, _> =
        words.into_iter().filter_map(|(name, word)| Some((name.to_owned(), json!(word.as_ref()?)))).collect();
    if let Some((size, sha256)) = &file.receipt {
        members.insert("size".to_owned(), json!(size.to_string()));
        members.insert("sha256".to_owned(), json!(hex(sha256)));
    }
    members
}

fn canonical(text: &str) -> Json {
    // Stored data was scanned when it came.
    Doc::scan_fully(text).map_or(Json::Null, |doc| value(doc.root()))
}

fn value(of: Value<'_, '_>) -> Json {
    match of.kind() {
        Kind::Null => Json::Null,
        Kind::Bool => json!(of.bool()),
        Kind::String => json!(of.str()),
        Kind::Number => number(of.raw()),
        Kind::Array => of.elements().map(value).collect(),
        Kind::Object => {
            Json::Object(of.members().map(|member| (member.name().into_owned(), value(member.value))).collect())
        }
    }
}

fn number(literal: &str) -> Json {
    let double = literal.parse::<f64>().ok().filter(|double| double.is_finite());
    // As RFC 8785 writes it: of two forms equally short and near, Rust takes the larger and ECMAScript the even one.
    let written = double.and_then(|double| serde_json_canonicalizer::to_string(&double).ok());
    match double.and_then(Number::from_f64) {
        Some(number) if written.is_some_and(|written| decimal(literal) == decimal(&written)) => Json::Number(number),
        _ => json!(literal),
    }
}

/// A number's sign, significant digits, and the power of ten of the first of them: equal for two spellings of one number.
fn decimal(literal: &str) -> (bool, String, i64) {
    let (negative, literal) = literal.strip_prefix('-').map_or((false, literal), |rest| (true, rest));
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    // Negative where the number begins with zeros behind the point.
    let place = whole.len() as i64 - (digits.len() - significant.len()) as i64;
    // An exponent beyond an i64 belongs to a number that no double holds, and so does one at its ends; it only has to differ.
    let exponent = exponent.parse::<i64>().unwrap_or(i64::MIN);
    (negative, significant.trim_end_matches('0').to_owned(), exponent.saturating_add(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.to_owned())]
    }

    /// The preimage is spelled out, so that this test is the definition and not a second run of the code.
    fn sha(preimage: &str) -> Digest {
        Digest(Sha256::digest(preimage.as_bytes()).into())
    }

    #[test]
    fn the_preimages_are_as_documented() {
        let user = message("user", &text("My name is Ada"));
        assert_eq!(user, sha(r#"{"parts":[{"text":"My name is Ada"}],"role":"user"}"#));
        let agent = message("agent", &text("Hello \"Ada\"\né"));
        assert_eq!(agent, sha("{\"parts\":[{\"text\":\"Hello \\\"Ada\\\"\\né\"}],\"role\":\"agent\"}"));
        let first = turn(user, agent, [("t-1", "response")].into_iter());
        let preimage = format!(
            r#"{{"agent":"{agent}","artifacts":[{{"artifactId":"response","taskId":"t-1"}}],"user":"{user}"}}"#
        );
        assert_eq!(first, sha(&preimage));
        let history = [entry(first, Some((10, 20)))];
        let preimage = format!(r#"{{"history":["{first};head=10;tail=20"],"message":"{user}"}}"#);
        assert_eq!(accepted(&history, user), sha(&preimage));
        assert_eq!(accepted(&[], user), sha(&format!(r#"{{"history":[],"message":"{user}"}}"#)));
    }

    #[test]
    fn published_vectors() {
        let user = message("user", &text("What is my name?"));
        assert_eq!(user.to_string(), "sha256:079b8f3cfea7d5a863ee32d9e500ae23848352c102d36d3a134aabdec9378ea7");
    }

    #[test]
    fn data_does_not_depend_on_spelling() {
        let data = |text: &str| message("user", &[Part::Data(text.to_owned())]);
        assert_eq!(data(r#"{"b":1.0,"a":[1e3,"\u00e9"]}"#), data("{ \"a\":[1000, \"é\"], \"b\":1 }"));
        assert_eq!(data(r#"{"n":0.10}"#), data(r#"{"n":1e-1}"#));
        assert_ne!(data(r#"{"n":12345678901234567890123}"#), data(r#"{"n":12345678901234567890124}"#));
        assert_ne!(data(r#"{"n":9007199254740993}"#), data(r#"{"n":9007199254740992}"#));
        assert_ne!(data(r#"{"n":1e999}"#), data("{\"n\":null}"));
        assert_eq!(data(r#"{"n":1071043517320029.2}"#), data(r#"{"n":107104351732002920e-2}"#));
        assert_ne!(data(r#"{"n":1071043517320029.2}"#), data(r#"{"n":1071043517320029.3}"#), "one double, two numbers");
        assert_ne!(data(r#"{"n":0.01e-9223372036854775808}"#), data(r#"{"n":0}"#));
        assert_eq!(data("{\"n\":-0}"), data("{\"n\":0.0}"));
        assert_ne!(data(r#"{"data":{"data":[1]}}"#), data(r#"{"data":{"data":[2]}}"#));
    }

    #[test]
    fn a_file_counts_by_its_bytes() {
        let file = File { name: Some("a.txt".into()), receipt: Some((3, [7; 32])), ..File::default() };
        let preimage = format!(
            r#"{{"parts":[{{"file":{{"name":"a.txt","sha256":"{}","size":"3"}}}}],"role":"user"}}"#,
            "07".repeat(32)
        );
        assert_eq!(message("user", &[Part::File(file)]), sha(&preimage));
    }
}
