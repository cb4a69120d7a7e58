//! Who is calling. What comes out is never a credential: conversations are keyed by it, and it is logged.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use sha2::Sha256;

use crate::config::Identity;
use crate::conversation::principal::Principal;

/// Longer values of an identity header are kept as their hash; ids are never cut.
const LONGEST_NAME: usize = 128;

/// A credential without credentials: what clients send whose token is not set.
const BARE_SCHEMES: [&[u8]; 4] = [b"bearer", b"basic", b"digest", b"negotiate"];

/// A route's rule of who is calling. Principals of different kinds are never equal: each kind has its own first word, and `anonymous` has no
/// colon.
pub struct Identification {
    rule: Identity,
    /// With the key in it.
    mac: Hmac<Sha256>,
    loopback: bool,
}

impl Identification {
    /// `key` is the store's own; `loopback` says that only this machine reaches the listener, so that callers without credential are one.
    pub fn new(rule: Identity, key: &[u8; 32], loopback: bool) -> Self {
        // HMAC fills a short key up with zeros (RFC 2104 section 2).
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        Self { rule, mac: Hmac::new(&block.into()), loopback }
    }

    /// Who is calling; `None` where nothing tells.
    pub fn principal(&self, headers: &HeaderMap) -> Option<Principal> {
        match &self.rule {
            Identity::Anonymous => Some(Principal::default()),
            Identity::Authorization => self.by_authorization(headers),
            Identity::Header(name) => self.by_header(headers, name),
        }
    }

    /// Several credentials are one caller of their own, told from whoever has only one of them: which one the agent believes is not known
    /// here.
    fn by_authorization(&self, headers: &HeaderMap) -> Option<Principal> {
        let values = headers.get_all(AUTHORIZATION).iter().map(|value| value.as_bytes().trim_ascii());
        let credentials: Vec<_> = values.filter(|value| !is_bare(value)).collect();
        if credentials.is_empty() {
            return self.loopback.then(Principal::default);
        }
        Some(format!("authorization:{}", self.hash(&credentials)).into())
    }

    /// Without the header nobody is anonymous, on a loopback listener neither: the proxy in front sits there, and its users are many. Two
    /// values are as good as none.
    fn by_header(&self, headers: &HeaderMap, name: &HeaderName) -> Option<Principal> {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.as_bytes().trim_ascii()).filter(|value| !value.is_empty())?;
        if values.next().is_some() {
            return None;
        }
        match std::str::from_utf8(value) {
            Ok(user) if user.len() <= LONGEST_NAME => Some(format!("header:{user}").into()),
            _ => Some(format!("header-hash:{}", self.hash(&[value])).into()),
        }
    }

    /// A keyed hash of 128 bits in hex. Lengths go in, so that no two lists run into the same bytes.
    fn hash(&self, values: &[&[u8]]) -> String {
        let mut mac = self.mac.clone();
        for value in values {
            mac.update(&(value.len() as u64).to_be_bytes());
            mac.update(value);
        }
        hex(&mac.finalize().into_bytes()[..16])
    }
}

fn is_bare(value: &[u8]) -> bool {
    value.is_empty() || BARE_SCHEMES.iter().any(|scheme| value.eq_ignore_ascii_case(scheme))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl std::fmt::Debug for Identification {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identification")
            .field("rule", &self.rule)
            .field("loopback", &self.loopback)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn who(rule: &Identity, loopback: bool, headers: &[(&'static str, &[u8])]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let identification = Identification::new(rule.clone(), &[7; 32], loopback);
        identification.principal(&map).map(|principal| principal.as_str().to_owned())
    }

    fn bearer(values: &[&'static [u8]]) -> Option<String> {
        let headers: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
        who(&Identity::Authorization, false, &headers)
    }

    #[test]
    fn a_credential_is_hashed_and_byte_exact() {
        let ada = bearer(&[b"Bearer ada"]).unwrap();
        assert_eq!(ada.len(), "authorization:".len() + 32);
        assert_eq!(bearer(&[b" Bearer ada "]), Some(ada.clone()));
        assert_ne!(bearer(&[b"Bearer Ada"]), Some(ada.clone()));
        let other = Identification::new(Identity::Authorization, &[8; 32], false);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer ada"))]);
        assert_ne!(other.principal(&headers).unwrap().as_str(), ada);
    }

    #[test]
    fn no_credential_is_nobody_but_on_a_loopback_listener() {
        for headers in
            [&[][..], &[("authorization", &b""[..])], &[("authorization", b"Bearer ")], &[("authorization", b"basic")]]
        {
            assert_eq!(who(&Identity::Authorization, false, headers), None);
            assert_eq!(who(&Identity::Authorization, true, headers).as_deref(), Some("anonymous"));
        }
    }

    #[test]
    fn several_credentials_are_nobody_elses() {
        let seen = [
            bearer(&[b"Bearer a"]),
            bearer(&[b"Bearer b"]),
            bearer(&[b"Bearer a", b"Bearer b"]),
            bearer(&[b"Bearer b", b"Bearer a"]),
            bearer(&[b"Bearer aBearer b"]),
        ];
        let different: std::collections::HashSet<_> = seen.iter().flatten().collect();
        assert_eq!(different.len(), seen.len());
        assert_eq!(bearer(&[b"", b"Bearer a"]), bearer(&[b"Bearer a"]));
    }

    #[test]
    fn a_header_names_the_caller_or_nobody() {
        let rule = Identity::Header(HeaderName::from_static("x-user"));
        assert_eq!(who(&rule, true, &[("x-user", b"ada")]).as_deref(), Some("header:ada"));
        for headers in [&[][..], &[("x-user", &b" "[..])], &[("x-user", b"ada"), ("x-user", b"bob")]] {
            assert_eq!(who(&rule, true, headers), None);
        }
        let long = who(&rule, true, &[("x-user", &[b'a'; 200])]).unwrap();
        assert!(long.starts_with("header-hash:"));
        assert_ne!(Some(long), who(&rule, true, &[("x-user", &[b'a'; 201])]));
        assert!(who(&rule, true, &[("x-user", b"\xff")]).unwrap().starts_with("header-hash:"));
    }

    #[test]
    fn kinds_never_meet() {
        let rule = Identity::Header(HeaderName::from_static("x-user"));
        let ada = bearer(&[b"Bearer ada"]).unwrap();
        assert_ne!(who(&rule, true, &[("x-user", ada.as_bytes())]), Some(ada));
        assert_ne!(who(&rule, true, &[("x-user", b"anonymous")]), who(&Identity::Anonymous, true, &[]));
    }
}
