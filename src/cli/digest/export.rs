//! A conversation's record as a client writes it or the proxy exports it: a line of JSON for each turn, the oldest first.
//!
//! ```json
//! {"turn":"2","user":{"parts":[{"text":"What is my name?"}]},"agent":{"parts":[{"text":"Ada."}]},
//!  "artifacts":[{"taskId":"t-2","artifactId":"response"}],"turn_digest":"sha256:…",
//!  "history_turns":["sha256:…;head=8192;tail=8192"],"accepted_history_digest":"sha256:…"}
//! ```
//!
//! (on one line). `user` is the message as the client sent it, `agent` the reply as the client saw it: its text in one part, then its other
//! parts. Parts are spelled as in either dialect; where a file's bytes are no longer there, `{"file":{"name":…,"mediaType":…,"size":"3",
//! "sha256":…}}` stands for the part. `agent` is missing where there is no reply yet. The digests, and which turns were shown, are what the
//! other side said; each may be missing, and members that are not named here are not looked at.

use std::io::{self, BufRead};

use crate::a2a::{File, Part, read_part};
use crate::conversation::digest::{self, Digest};
use crate::json::{Doc, Kind, Value};

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A line is not what it should be.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The file cannot be read, or nobody takes what is told.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A turn of a record: what its content comes to, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What the record calls it; its line's number where it has no name.
    pub name: String,
    /// The digest of the client's message.
    pub message: Digest,
    /// The digest of the turn; none where there is no reply yet.
    pub turn: Option<Digest>,
    /// `turn_digest`, as it is given.
    pub said_turn: Option<String>,
    /// `accepted_history_digest`, as it is given.
    pub said_accepted: Option<String>,
    /// `history_turns`, as they are given.
    pub said_history: Option<Vec<String>>,
}

/// Reads a record turn by turn; empty lines are none.
pub fn turns(input: impl BufRead) -> impl Iterator<Item = Result<Recorded, Unreadable>> {
    input.split(b'\n').enumerate().filter_map(|(at, line)| match line {
        Ok(line) if line.trim_ascii().is_empty() => None,
        Ok(line) => Some(turn(&line, at + 1).map_err(|why| Unreadable::Line { line: at + 1, why })),
        Err(error) => Some(Err(error.into())),
    })
}

fn turn(line: &[u8], number: usize) -> Result<Recorded, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let doc = Doc::scan_fully(text).map_err(|error| error.to_string())?;
    let root = doc.root();
    if root.kind() != Kind::Object {
        return Err("not an object".to_owned());
    }
    if repeats_a_name(root) {
        return Err("an object has two members of one name, and readers differ on which counts".to_owned());
    }
    let message = digest::message("user", &side(root, "user")?.ok_or("user: missing")?);
    let agent = side(root, "agent")?.map(|parts| digest::message("agent", &parts));
    let artifacts = artifacts(root)?;
    let artifacts = artifacts.iter().map(|(task, artifact)| (&**task, &**artifact));
    Ok(Recorded {
        name: name(root, number)?,
        message,
        turn: agent.map(|agent| digest::turn(message, agent, artifacts)),
        said_turn: string(root, "turn_digest")?,
        said_accepted: string(root, "accepted_history_digest")?,
        said_history: list(root, "history_turns")?.map(strings).transpose()?,
    })
}

fn repeats_a_name(value: Value<'_, '_>) -> bool {
    value.has_duplicate_names()
        || value.elements().any(repeats_a_name)
        || value.members().any(|member| repeats_a_name(member.value))
}

/// A turn's number is a string where the proxy writes it, as all numbers under the extension; a client's may be one.
fn name(root: Value<'_, '_>, number: usize) -> Result<String, String> {
    match root.some("turn") {
        None => Ok(number.to_string()),
        Some(turn) if turn.kind() == Kind::Number => Ok(turn.raw().to_owned()),
        Some(_) => Ok(string(root, "turn")?.unwrap_or_default()),
    }
}

fn side(root: Value<'_, '_>, of: &str) -> Result<Option<Vec<Part>>, String> {
    let Some(message) = root.some(of) else { return Ok(None) };
    // HTTP+JSON of 0.3 calls them `content`.
    let list = list(message, "parts")?.or(list(message, "content")?);
    let parts = list.ok_or_else(|| format!("{of}: no parts"))?;
    let parts: Result<Vec<_>, _> = parts.elements().map(part).collect();
    Ok(Some(parts?.into_iter().flatten().collect()))
}

/// As the proxy reads a part, which leaves out what is of no known kind, and the form that stands for bytes.
fn part(part: Value<'_, '_>) -> Result<Option<Part>, String> {
    let Some(file) = part.some("file").filter(|file| file.some("sha256").is_some()) else { return Ok(read_part(part)) };
    let size =
        string(file, "size")?.and_then(|size| size.parse().ok()).ok_or("file: size must be a number in quotes")?;
    let sha256 = string(file, "sha256")?.and_then(|hex| bytes(&hex)).ok_or("file: sha256 must be 64 hex digits")?;
    Ok(Some(Part::File(File {
        name: string(file, "name")?,
        media_type: string(file, "mediaType")?,
        url: string(file, "url")?,
        receipt: Some((size, sha256)),
    })))
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn artifacts(root: Value<'_, '_>) -> Result<Vec<(String, String)>, String> {
    let Some(list) = list(root, "artifacts")? else { return Ok(Vec::new()) };
    let id = |of, name| string(of, name)?.ok_or_else(|| format!("artifacts: {name} is missing"));
    list.elements().map(|artifact| Ok((id(artifact, "taskId")?, id(artifact, "artifactId")?))).collect()
}

fn string(of: Value<'_, '_>, name: &str) -> Result<Option<String>, String> {
    let Some(value) = of.some(name) else { return Ok(None) };
    value.str().map(|text| Some(text.into_owned())).ok_or_else(|| format!("{name}: not a string"))
}

fn list<'d, 't>(of: Value<'d, 't>, name: &str) -> Result<Option<Value<'d, 't>>, String> {
    match of.some(name) {
        Some(value) if value.kind() != Kind::Array => Err(format!("{name}: not an array")),
        found => Ok(found),
    }
}

fn strings(list: Value<'_, '_>) -> Result<Vec<String>, String> {
    let word = |value: Value<'_, '_>| value.str().map(Into::into).ok_or("history_turns: not strings".to_owned());
    list.elements().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Recorded, String> {
        turn(line.as_bytes(), 7)
    }

    #[test]
    fn both_dialects_and_a_receipt_are_one_file() {
        let receipt = "2ca78bff5f76a10a91f99af7a8fc9fb5d5fd2b2a8d7e9f7c1a9ff8b0b8a9b9c0";
        let with = |part: &str| read(&format!("{{\"user\":{{\"parts\":[{part}]}}}}")).map(|turn| turn.message);
        let v03 = with(r#"{"kind":"file","file":{"bytes":"dGNr","mimeType":"text/plain","name":"o.txt"}}"#).unwrap();
        assert_eq!(with(r#"{"raw":"dGNr","mediaType":"text/plain","filename":"o.txt"}"#), Ok(v03));
        let by_receipt = |sha256: &str, size: &str| {
            with(&format!(
                r#"{{"file":{{"name":"o.txt","mediaType":"text/plain","size":{size},"sha256":"{sha256}"}}}}"#
            ))
        };
        let right = crate::json::hex(&<sha2::Sha256 as sha2::Digest>::digest(b"tck"));
        assert_eq!(by_receipt(&right, "\"3\""), Ok(v03));
        assert_ne!(by_receipt(receipt, "\"3\""), Ok(v03));
        for (sha256, size) in [("2c", "\"3\""), (&*"é".repeat(32), "\"3\""), (receipt, "3"), (receipt, "\"three\"")] {
            assert!(by_receipt(sha256, size).is_err(), "{sha256} {size}");
        }
    }

    #[test]
    fn what_is_no_turn_is_refused() {
        for (line, why) in [
            ("{", "not valid JSON at byte 1"),
            ("[]", "not an object"),
            ("{}", "user: missing"),
            (r#"{"user":{}}"#, "user: no parts"),
            (r#"{"user":{"parts":{}}}"#, "parts: not an array"),
            (r#"{"user":{"parts":[]},"agent":3}"#, "agent: no parts"),
            (r#"{"user":{"parts":[]},"artifacts":[{"taskId":"t"}]}"#, "artifacts: artifactId is missing"),
            (r#"{"user":{"parts":[]},"turn_digest":5}"#, "turn_digest: not a string"),
            (r#"{"user":{"parts":[]},"history_turns":[5]}"#, "history_turns: not strings"),
        ] {
            assert_eq!(read(line).unwrap_err(), why, "{line}");
        }
        for line in
            [r#"{"user":{"parts":[]},"\u0075ser":{"parts":[]}}"#, r#"{"user":{"parts":[{"data":{"a":1,"a":2}}]}}"#]
        {
            assert!(read(line).unwrap_err().contains("two members of one name"), "{line}");
        }
    }

    #[test]
    fn names_and_unknown_members() {
        let name = |text: &str| read(&format!("{{{text}\"user\":{{\"parts\":[]}}}}")).map(|turn| turn.name);
        assert_eq!(name(""), Ok("7".to_owned()));
        assert_eq!(name("\"turn\":\"3\",\"note\":{\"x\":[]},"), Ok("3".to_owned()));
        assert_eq!(name("\"turn\":3,"), Ok("3".to_owned()));
    }
}
