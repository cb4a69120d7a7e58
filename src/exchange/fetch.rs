//! `agent_fetched`: the pointer that a message carries, and the conversation that the agent fetches with it.
//!
//! The token in it opens one conversation for reading, as far as it went when the message was sent, and for a while. What it says is sealed: an
//! agent learns from it neither who is calling nor anything else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::Aead;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::conversation::record;
use crate::conversation::transcript::Shown;
use crate::json::quote;

/// What a token begins with, so that it is told from clients' credentials at a glance.
const PREFIX: &str = "a2amt.";

/// Between the base at which the agent reaches a route and a contextId.
const CONTEXTS: &str = "/a2a-multiturn/contexts/";

/// Behind the contextId.
const TRANSCRIPT: &str = "/transcript";

/// What is needed to point an agent to a conversation.
#[derive(Clone, Debug)]
pub struct Pointing<'a> {
    /// The base URL at which the agent reaches the route, without a slash at the end.
    pub base: &'a str,
    /// How long a token holds, in milliseconds.
    pub lifetime: u64,
    /// Random, and never used again.
    pub nonce: [u8; 24],
}

impl Pointing<'_> {
    /// The pointer to what `shown` has of a conversation, as JSON.
    pub(super) fn to(&self, key: &ContextKey, shown: &Shown, secret: &[u8], now: u64) -> Option<String> {
        let turns = (shown.first, shown.end, shown.referenced.clone());
        let grant = Grant { key: key.clone(), turns, until: now.saturating_add(self.lifetime) };
        let id = &*key.context_id;
        let url = format!("{}{CONTEXTS}{}{TRANSCRIPT}", self.base, URL_SAFE_NO_PAD.encode(id));
        let token = grant.sealed(secret, self.nonce)?;
        Some(format!("{{\"context_id\":{},\"url\":{},\"token\":{}}}", quote(id), quote(&url), quote(&token)))
    }
}

/// The right to read a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Whose and which.
    pub key: ContextKey,
    /// The turns: those from the first number on up to the second, and further ones.
    turns: (u32, u32, Vec<u32>),
    /// When it ends: milliseconds since 1970.
    until: u64,
}

fn cipher(secret: &[u8]) -> Option<XChaCha20Poly1305> {
    // A key of its own, so that nothing else that the secret is used for can be taken for a token.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(b"transcript token 1");
    XChaCha20Poly1305::new_from_slice(&mac.finalize().into_bytes()).ok()
}

impl Grant {
    fn sealed(&self, secret: &[u8], nonce: [u8; 24]) -> Option<String> {
        let claims = postcard::to_allocvec(self).ok()?;
        let sealed = cipher(secret)?.encrypt(&XNonce::from(nonce), &*claims).ok()?;
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat())))
    }

    /// Reads a token; `None` where it is none of ours, was altered, or its time is over.
    pub fn read(token: &str, secret: &[u8], now: u64) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<24>()?;
        let claims = cipher(secret)?.decrypt(&XNonce::from(*nonce), sealed).ok()?;
        let grant: Self = postcard::from_bytes(&claims).ok()?;
        (now < grant.until).then_some(grant)
    }

    /// What it opens of the conversation.
    fn shown(&self) -> Shown {
        let (first, end, referenced) = self.turns.clone();
        Shown { first, end, referenced, cut: Vec::new() }
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a token may be one of ours.
pub fn is_grant(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// The contextId in the path of a transcript.
pub fn transcript_of(path: &str) -> Option<String> {
    let (_, rest) = path.split_once(CONTEXTS)?;
    // Encoded so, an id stands in a path whatever it has of slashes and dots.
    String::from_utf8(URL_SAFE_NO_PAD.decode(rest.strip_suffix(TRANSCRIPT)?).ok()?).ok()
}

/// What a grant opens of a conversation, as JSON: the turns in full, in the lines of a record.
pub fn transcript(grant: &Grant, context: &Context) -> String {
    let shown = grant.shown();
    let turns = record::shown_turns(&context.turns, &shown);
    let entries: Vec<_> = shown.entries(&context.turns).iter().map(|entry| quote(entry)).collect();
    format!(
        "{{\"context_id\":{},\"history_turns\":[{}],\"turns\":[{}]}}",
        quote(&grant.key.context_id),
        entries.join(","),
        record::whole_lines(&turns).join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> Grant {
        let key = ContextKey { route: "r".into(), principal: "header:ada".into(), context_id: "c/1 é".into() };
        Grant { key, turns: (1, 3, vec![]), until: 1000 }
    }

    #[test]
    fn a_token_opens_what_it_was_made_for_until_its_time_is_over() {
        let token = grant().sealed(b"secret", [9; 24]).unwrap();
        assert!(is_grant(&token) && !token.contains("ada"));
        assert_eq!(Grant::read(&token, b"secret", 999), Some(grant()));
        assert_eq!(Grant::read(&token, b"secret", 1000), None);
        assert_eq!(Grant::read(&token, b"another", 1), None);
        for at in PREFIX.len()..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            let same = URL_SAFE_NO_PAD.decode(&altered[PREFIX.len()..]).ok()
                == URL_SAFE_NO_PAD.decode(&token[PREFIX.len()..]).ok();
            assert!(same || Grant::read(&altered, b"secret", 1).is_none(), "{at}");
            assert_eq!(Grant::read(&token[..at], b"secret", 1), None);
        }
    }

    #[test]
    fn any_context_id_stands_in_a_path() {
        let pointing = Pointing { base: "http://h/p", lifetime: 5, nonce: [1; 24] };
        let shown = Shown { first: 1, end: 3, ..Shown::default() };
        let pointer: serde_json::Value =
            serde_json::from_str(&pointing.to(&grant().key, &shown, b"secret", 7).unwrap()).unwrap();
        assert_eq!(pointer["url"], "http://h/p/a2a-multiturn/contexts/Yy8xIMOp/transcript");
        assert_eq!(transcript_of("/p/a2a-multiturn/contexts/Yy8xIMOp/transcript").as_deref(), Some("c/1 é"));
        let read = Grant::read(pointer["token"].as_str().unwrap(), b"secret", 11).unwrap();
        assert_eq!((read.key, read.until), (grant().key, 12));
        for other in ["/p", "/a2a-multiturn/contexts/a/b/transcript", "/a2a-multiturn/contexts/Y!/transcript"] {
            assert_eq!(transcript_of(other), None, "{other}");
        }
    }
}
