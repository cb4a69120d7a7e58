//! The words of A2A: a dialect spells nouns, a binding wraps verbs.

pub mod card;

/// The URI of the extension under which the proxy speaks of its own: in metadata, in headers, in the agent card.
pub const EXTENSION_URI: &str = "https://github.com/a2aproject/A2A/issues/2061#v1";
