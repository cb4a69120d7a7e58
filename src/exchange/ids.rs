//! Ids that are derived and not minted: the same for the same conversation, whoever asks and whenever.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::conversation::principal::ContextKey;
use crate::json::hex;

/// An id that nobody without `secret` can make or take back to what it was made of. `what` tells kinds of ids apart; of `key` all counts.
pub fn derived_id(secret: &[u8], what: &str, key: &ContextKey) -> String {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    for word in [what, key.route.as_str(), key.principal.as_str(), &key.context_id] {
        mac.update(&(word.len() as u64).to_be_bytes());
        mac.update(word.as_bytes());
    }
    hex(&mac.finalize().into_bytes()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(route: &str, principal: &str, context_id: &str) -> ContextKey {
        ContextKey { route: route.into(), principal: principal.into(), context_id: context_id.into() }
    }

    #[test]
    fn every_word_counts_and_none_runs_into_the_next() {
        let ids = [
            derived_id(b"s", "a", &key("r", "p", "c")),
            derived_id(b"t", "a", &key("r", "p", "c")),
            derived_id(b"s", "b", &key("r", "p", "c")),
            derived_id(b"s", "a", &key("rp", "", "c")),
            derived_id(b"s", "a", &key("r", "pc", "")),
            derived_id(b"s", "a", &key("r", "p", "d")),
        ];
        let different: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert_eq!(ids[0], derived_id(b"s", "a", &key("r", "p", "c")));
        assert_eq!(ids[0].len(), 32);
    }
}
