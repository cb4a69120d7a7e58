//! A part of a message or artifact, in no dialect: what is stored, hashed and shown.

use serde::{Deserialize, Serialize};

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
