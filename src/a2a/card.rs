//! The agent card, as the proxy reads it and as it shows it (semantics 9).
//!
//! A card is edited by place: members that are none of the proxy's business keep their bytes. It must never name a place at which a client
//! would get past the proxy.

mod address;
mod capabilities;
mod interface;
mod locate;
mod read;
mod removed;
mod rewrite;
#[cfg(test)]
mod tests;

use std::fmt;

use sha2::{Digest, Sha256};

use self::address::{Address, below, origin};
pub use self::locate::{Located, at_agent, locate};
use super::Dialect;
use crate::json::{Doc, Edits, SyntaxError, Value};

/// What the proxy knows about where things are.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The public URL of the route, without a slash at the end: `https://public.example/agents/a`. May be empty in [`read`], where it is
    /// not known before a request comes.
    pub base: &'a str,
    /// The configured upstream's origin ([`Located::origin`]).
    pub origin: &'a str,
    /// The agent's path for which the route's base stands: until the card was read [`Located::path`], then [`Seen::mount`].
    pub mount: &'a str,
    /// The path of the JSON-RPC interface at the agent, where the card's is not to be believed (`[upstream] path`).
    pub path: Option<&'a str>,
}

impl Places<'_> {
    fn base(&self) -> &str {
        self.base.trim_end_matches('/')
    }

    /// What follows the base, where `address` is the proxy's own: an agent that was told its public URL names that. To count its path as
    /// one at the agent would double it.
    fn behind_base<'p>(&self, address: &'p Address) -> Option<&'p str> {
        let (scheme, rest) = self.base().split_once("://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let ours = origin(scheme, authority).ok()?;
        below(&address.path, path).filter(|_| address.origin.as_ref() == Some(&ours))
    }
}

/// What the proxy serves of what an agent may offer.
#[derive(Clone, Copy, Debug)]
pub struct Serves<'a> {
    /// Interfaces of other bindings are removed.
    pub bindings: &'a [Binding],
    /// Interfaces of other versions are removed.
    pub dialects: &'a [Dialect],
    /// Whether streams are served; else the card says that there are none.
    pub streaming: bool,
    /// Whether push notifications are: made by the proxy, so whatever the agent does; else the card says that there are none.
    pub push: bool,
    /// The params of the extension's declaration, a JSON object: by what rules replies are rewritten.
    pub rules: &'a str,
}

/// How calls are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// JSON-RPC 2.0 over HTTP.
    JsonRpc,
    /// HTTP verbs and paths, JSON bodies.
    HttpJson,
    /// gRPC.
    Grpc,
    /// One that the specification does not name.
    Other,
}

impl Binding {
    fn of(name: Value<'_, '_>) -> Self {
        match name.str().unwrap_or_default().trim_ascii().to_ascii_uppercase().as_str() {
            "JSONRPC" | "JSON-RPC" => Self::JsonRpc,
            "HTTP+JSON" => Self::HttpJson,
            "GRPC" => Self::Grpc,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
            Self::Grpc => "GRPC",
            Self::Other => "unknown binding",
        })
    }
}

/// What a card says about its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The versions it speaks, each once, in the card's order.
    pub dialects: Vec<Dialect>,
    /// The bindings it lists, each once, in the card's order.
    pub bindings: Vec<Binding>,
    /// Path (and query) of the main JSON-RPC interface at the agent; calls go to the configured upstream's origin with this path.
    pub rpc_path: Option<String>,
    /// The agent's path for which the route's base stands, without a slash at the end; see [`at_agent`].
    pub mount: String,
    /// Whether it streams.
    pub streaming: bool,
    /// Whether it sends push notifications.
    pub push: bool,
    /// What is wrong with the card, for people to read. What the proxy takes out of it is no fault and not among these.
    pub warnings: Vec<String>,
}

/// A card as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Its text.
    pub body: String,
    /// What was taken out and why, for people to read.
    pub warnings: Vec<String>,
}

/// Why a card cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// It is no JSON.
    #[error("the agent card is no JSON")]
    NotJson(#[from] SyntaxError),
    /// It is JSON of another kind.
    #[error("the agent card is no JSON object")]
    NotAnObject,
    /// A list of interfaces is something else.
    #[error("`{0}` in the agent card is no array")]
    NotAList(String),
    /// Two members of the same name, of which different readers take different ones.
    #[error("the agent card has two members of the same name in {0}")]
    DuplicateNames(String),
    /// No interface is left to offer.
    #[error("the proxy can serve no interface of the agent card: {0}")]
    NothingLeft(String),
    /// The caller's reply rules.
    #[error("the reply rules are no JSON object")]
    Rules,
}

/// Reads a card.
///
/// # Errors
/// A card that cannot be read, or that two readers would read differently.
pub fn read(card: &[u8], places: &Places<'_>) -> Result<Seen, CardError> {
    read::read(Doc::scan(card)?.root(), places)
}

/// The card as the proxy shows it: every URL points at the proxy, what it does not serve is gone, the extension is declared. Signatures go
/// if anything changes; if nothing does the bytes are the same.
///
/// # Errors
/// A card that cannot be read, that two readers would read differently, or of which nothing would be left.
pub fn rewrite(card: &[u8], places: &Places<'_>, serves: &Serves<'_>) -> Result<Rewritten, CardError> {
    let doc = Doc::scan(card)?;
    let (edits, warnings) = rewrite::rewrite(doc.root(), places, serves)?;
    Ok(Rewritten { body: edits.apply(doc.text()), warnings })
}

/// As [`rewrite`], for a card inside a larger document (an extended card in a JSON-RPC result): adds to the document's edits. Gives the
/// warnings.
///
/// # Errors
/// As [`rewrite`]; no edits are added then.
pub fn rewrite_value(
    card: Value<'_, '_>,
    edits: &mut Edits,
    places: &Places<'_>,
    serves: &Serves<'_>,
) -> Result<Vec<String>, CardError> {
    let (own, warnings) = rewrite::rewrite(card, places, serves)?;
    if !own.is_empty() {
        let (text, range) = (card.doc().text(), card.range());
        let edited = own.apply(text);
        let behind = text.len() - range.end;
        edits.replace(range.clone(), &edited[range.start..edited.len() - behind]);
    }
    Ok(warnings)
}

/// A strong entity tag for `body`: the agent's own no longer fits a rewritten card.
pub fn etag(body: &[u8]) -> String {
    let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hash}\"")
}
