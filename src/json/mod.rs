//! JSON as bytes: one borrowed pass that remembers where things stand, and edits that leave every other byte as it came.
//!
//! `serde_json` gives values but not their places, takes the last of duplicate keys, and rounds long numbers; a proxy that changes three
//! members of a document needs the places, and must refuse what two readers would read differently. Values are never kept here as numbers:
//! a number is its literal text.

mod edit;
mod scan;
mod text;

pub use edit::Edits;
pub use scan::{Doc, Kind, Member, SyntaxError, Value};
pub use text::{hex, quote, unescape};
