//! Where the agent pushes what becomes of a turn: a path that nobody can guess, and a token that nobody can make.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::conversation::principal::RouteId;
use crate::json::hex;

/// What stands in front of a callback's name in its path, behind the route's prefix.
const SEGMENT: &str = "/a2a-multiturn/push/";

/// Characters of a name: 128 random bits in hex.
const NAME: usize = 32;

/// A callback as it is registered with the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Its name: minted at random.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// What the agent has to send with each push, in `X-A2A-Notification-Token`.
    pub token: String,
}

impl Callback {
    /// The callback of this name (32 hex digits, minted at random) on a route that the agent reaches at `base`.
    pub fn new(secret: &[u8], route: &RouteId, base: &str, name: String) -> Self {
        let url = format!("{}{SEGMENT}{name}", base.trim_end_matches('/'));
        let token = keyed(secret, route, &name).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default();
        Self { name, url, token }
    }

    /// The name in a path that is one of a callback.
    pub fn name_in(path: &str) -> Option<&str> {
        let (_, name) = path.rsplit_once(SEGMENT)?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (name.len() == NAME && name.bytes().all(lower_hex)).then_some(name)
    }

    /// Whether this is the callback's token. The time that takes tells nothing of it.
    pub fn verifies(secret: &[u8], route: &RouteId, name: &str, token: &[u8]) -> bool {
        let Some(given) = unhex(token) else { return false };
        keyed(secret, route, name).is_some_and(|mac| mac.verify_slice(&given).is_ok())
    }
}

/// HMAC takes a key of any length, so there always is one.
fn keyed(secret: &[u8], route: &RouteId, name: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    // Said first, since credentials are hashed with the same secret.
    for piece in ["push callback", route.as_str(), name] {
        mac.update(&(piece.len() as u64).to_be_bytes());
        mac.update(piece.as_bytes());
    }
    Some(mac)
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let pairs = text.chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn only_its_own_token_verifies() {
        let route = RouteId::from("a");
        let callback = Callback::new(b"secret", &route, "http://p/base/", NAMED.to_owned());
        assert_eq!(callback.url, format!("http://p/base/a2a-multiturn/push/{NAMED}"));
        assert_eq!(Callback::name_in(&callback.url["http://p".len()..]), Some(NAMED));
        let verifies = |secret: &[u8], route: &str, name: &str, token: &str| {
            Callback::verifies(secret, &RouteId::from(route), name, token.as_bytes())
        };
        assert!(verifies(b"secret", "a", NAMED, &callback.token));
        assert!(!verifies(b"other", "a", NAMED, &callback.token));
        assert!(!verifies(b"secret", "b", NAMED, &callback.token));
        assert!(!verifies(b"secret", "a", &NAMED.replace('0', "1"), &callback.token));
        for token in ["", "0", &callback.token[1..], &callback.token.replace('a', "b").replace('1', "2"), "é"] {
            assert!(!verifies(b"secret", "a", NAMED, token), "{token}");
        }
    }

    #[test]
    fn a_path_is_a_callbacks_or_not() {
        for path in ["/", "/a2a-multiturn/push/", "/a2a-multiturn/push/xyz", &format!("/a2a-multiturn/push/{NAMED}/")] {
            assert_eq!(Callback::name_in(path), None, "{path}");
        }
        assert_eq!(Callback::name_in(&format!("/a2a-multiturn/push/{}", NAMED.to_uppercase())), None);
        assert_eq!(Callback::name_in(&format!("/travel/a2a-multiturn/push/{NAMED}")), Some(NAMED));
    }
}
