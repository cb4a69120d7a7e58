//! Parts: the one form in which they are stored, hashed and shown, and their two spellings.
//!
//! 0.3 tells them by `kind` and nests a file; 1.0 by the member that is there.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Dialect;
use crate::json::{Kind, Value, hex, quote};

/// A part. Of a file's bytes only a receipt is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Text.
    Text(String),
    /// Structured data: its JSON text, as it came.
    Data(String),
    /// A file.
    File(File),
}

/// A file: where it is, or a receipt for the bytes that came with the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// `name` (0.3) or `filename` (1.0).
    pub name: Option<String>,
    /// `mimeType` (0.3) or `mediaType` (1.0).
    pub media_type: Option<String>,
    /// `uri` (0.3) or `url` (1.0), where the file is elsewhere.
    pub url: Option<String>,
    /// Of bytes that came with the message: their number once decoded, and their SHA-256.
    pub receipt: Option<(u64, [u8; 32])>,
}

impl Part {
    /// The text of a text part.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The text parts of `parts`, joined with no separator: parts are fragments of one text.
pub fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).collect()
}

/// Agents send base64 with and without padding, in both alphabets.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Reads a part of either dialect; `None` where it is of no known kind.
pub fn read_part(part: Value<'_, '_>) -> Option<Part> {
    if let Some(text) = part.some("text") {
        return Some(Part::Text(text.str()?.into_owned()));
    }
    if let Some(data) = part.get("data") {
        return Some(Part::Data(data.raw().to_owned()));
    }
    let (file, bytes, url) = match part.some("file") {
        // The proto form of 0.3 (HTTP+JSON) has fileWithBytes and fileWithUri.
        Some(file) => {
            (file, file.some("bytes").or(file.some("fileWithBytes")), file.some("uri").or(file.some("fileWithUri")))
        }
        None => (part, part.some("raw"), part.some("url")),
    };
    let word = |names: [&str; 2]| names.iter().find_map(|name| Some(file.some(name)?.str()?.into_owned()));
    let file = File {
        name: word(["name", "filename"]),
        media_type: word(["mimeType", "mediaType"]),
        url: url.and_then(|url| url.str()).map(Into::into),
        receipt: bytes.and_then(|bytes| bytes.str()).map(|bytes| receipt(&bytes)),
    };
    (file.url.is_some() || file.receipt.is_some()).then_some(Part::File(file))
}

/// Reads the parts of a message or artifact, leaving out those of no known kind.
pub fn read_parts(owner: Value<'_, '_>) -> Vec<Part> {
    read_parts_where(owner, |_| true)
}

/// As [`read_parts`], of those parts for which `counts` holds.
pub fn read_parts_where(owner: Value<'_, '_>, counts: impl Fn(Value<'_, '_>) -> bool) -> Vec<Part> {
    let parts = owner.some("parts").or_else(|| owner.some("content"));
    // A message with `parts` is not in the protobuf form of 0.3; an artifact may be.
    let nests = owner.some("parts").is_none() || owner.some("artifactId").is_some();
    let parts = parts.into_iter().flat_map(|parts| parts.elements()).filter(|part| counts(*part));
    parts.filter_map(|part| if nests { nested(part).or_else(|| read_part(part)) } else { read_part(part) }).collect()
}

/// A data part in the protobuf form of 0.3, which nests the data once more.
fn nested(part: Value<'_, '_>) -> Option<Part> {
    let data = part.some("data").filter(|data| part.some("kind").is_none() && data.members().count() == 1)?;
    let inner = data.some("data").filter(|inner| inner.kind() == Kind::Object)?;
    Some(Part::Data(inner.raw().to_owned()))
}

/// Size and hash of what the base64 text stands for; of the text itself where it is no base64.
fn receipt(base64: &str) -> (u64, [u8; 32]) {
    let bytes =
        STANDARD.decode(base64).or_else(|_| URL_SAFE.decode(base64)).unwrap_or_else(|_| base64.as_bytes().to_vec());
    (bytes.len() as u64, Sha256::digest(&bytes).into())
}

/// A part as the dialect spells it. A file's bytes are not kept: their receipt stands for the part, as structured data.
pub fn write_part(part: &Part, dialect: Dialect) -> String {
    match (part, dialect) {
        (Part::Text(text), Dialect::V03) => format!("{{\"kind\":\"text\",\"text\":{}}}", quote(text)),
        (Part::Text(text), Dialect::V10 | Dialect::Proto03) => format!("{{\"text\":{}}}", quote(text)),
        (Part::Data(json), Dialect::V03) => format!("{{\"kind\":\"data\",\"data\":{json}}}"),
        (Part::Data(json), Dialect::V10) => format!("{{\"data\":{json}}}"),
        (Part::Data(json), Dialect::Proto03) => format!("{{\"data\":{{\"data\":{json}}}}}"),
        (Part::File(file), _) => match &file.url {
            Some(url) => write_file(file, url, dialect),
            None => write_part(&Part::Data(format!("{{\"file\":{}}}", write_receipt(file))), dialect),
        },
    }
}

fn write_file(file: &File, url: &str, dialect: Dialect) -> String {
    let (name, media_type, url_name) = match dialect {
        Dialect::V03 => ("name", "mimeType", "uri"),
        Dialect::V10 => ("filename", "mediaType", "url"),
        Dialect::Proto03 => ("name", "mimeType", "fileWithUri"),
    };
    let mut members = vec![format!("\"{url_name}\":{}", quote(url))];
    members.extend(file.name.as_ref().map(|text| format!("\"{name}\":{}", quote(text))));
    members.extend(file.media_type.as_ref().map(|text| format!("\"{media_type}\":{}", quote(text))));
    match dialect {
        Dialect::V03 => format!("{{\"kind\":\"file\",\"file\":{{{}}}}}", members.join(",")),
        Dialect::V10 => format!("{{{}}}", members.join(",")),
        Dialect::Proto03 => format!("{{\"file\":{{{}}}}}", members.join(",")),
    }
}

/// What is kept of a file, as a JSON object of strings.
pub fn write_receipt(file: &File) -> String {
    let mut members: Vec<String> = Vec::new();
    let mut add = |name: &str, text: &str| members.push(format!("\"{name}\":{}", quote(text)));
    if let Some(name) = &file.name {
        add("name", name);
    }
    if let Some(media_type) = &file.media_type {
        add("media_type", media_type);
    }
    if let Some(url) = &file.url {
        add("url", url);
    }
    if let Some((size, sha256)) = &file.receipt {
        add("size", &size.to_string());
        add("sha256", &hex(sha256));
    }
    format!("{{{}}}", members.join(","))
}

/// Parts as a JSON array.
pub fn write_parts(parts: &[Part], dialect: Dialect) -> String {
    let parts: Vec<_> = parts.iter().map(|part| write_part(part, dialect)).collect();
    format!("[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Doc;

    fn read(text: &str) -> Option<Part> {
        read_part(Doc::scan(text.as_bytes()).unwrap().root())
    }

    #[test]
    fn both_dialects_read_alike() {
        for (v03, v10) in [
            (r#"{"kind":"text","text":"é\n"}"#, r#"{"text":"\u00e9\n"}"#),
            (r#"{"kind":"data","data":{"k":[1,null]}}"#, r#"{"data":{"k":[1,null]}}"#),
            (
                r#"{"kind":"file","file":{"bytes":"dGNr","mimeType":"text/plain","name":"o.txt"}}"#,
                r#"{"raw":"dGNr","mediaType":"text/plain","filename":"o.txt"}"#,
            ),
            (r#"{"kind":"file","file":{"uri":"https://e/x"}}"#, r#"{"url":"https://e/x"}"#),
        ] {
            let part = read(v03).unwrap();
            assert_eq!(read(v10).as_ref(), Some(&part));
            assert_eq!(read(&write_part(&part, Dialect::V03)), read(&write_part(&part, Dialect::V10)));
        }
    }

    #[test]
    fn odd_parts_are_no_parts() {
        for text in [
            "null",
            "3",
            "{}",
            r#"{"kind":"new"}"#,
            r#"{"text":5}"#,
            r#"{"kind":"file","file":null}"#,
            r#"{"kind":"file","file":{}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(r#"{"kind":"text","text":""}"#), Some(Part::Text(String::new())));
    }

    #[test]
    fn bytes_become_a_receipt() {
        let Some(Part::File(file)) = read(r#"{"raw":"dGNr","filename":"a"}"#) else { panic!("no file") };
        assert_eq!(file.receipt.unwrap().0, 3);
        assert!(!write_part(&Part::File(file), Dialect::V10).contains("dGNr"));
    }
}
