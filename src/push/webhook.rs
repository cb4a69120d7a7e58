//! Where the proxy may be made to call (semantics 4): a client names the URL, the proxy stands inside the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

/// A place that notifications may go to although it is not public, or not spoken to over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Whether without TLS too.
    plain: bool,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A host by its name, whatever addresses that has.
    Host(String),
    /// Addresses that share so many leading bits.
    Network(IpAddr, u8),
}

/// Why a webhook is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// It is no URL with a host.
    #[error("it is no URL with a host")]
    Url,
    /// It holds a user name or a password.
    #[error("it must not hold credentials")]
    Credentials,
    /// It is neither https nor allowed to be http.
    #[error("it must be https")]
    Scheme,
    /// It leads into a network that is nobody's business outside.
    #[error("its address is not public")]
    Address,
}

impl Allowed {
    /// Reads an entry: a host's name, an address or a network (`10.0.0.0/8`); with `http://` in front also without TLS.
    pub fn read(text: &str) -> Option<Self> {
        let (plain, place) = match text.strip_prefix("http://") {
            Some(place) => (true, place),
            None => (false, text.strip_prefix("https://").unwrap_or(text)),
        };
        let (address, bits) = place.split_once('/').map_or((place, None), |(address, bits)| (address, Some(bits)));
        let address = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let place = match (address, bits) {
            (Some(address), bits) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
                Place::Network(address, bits)
            }
            (None, None) if is_name(place) => Place::Host(place.to_ascii_lowercase()),
            (None, _) => return None,
        };
        Some(Self { plain, place })
    }

    fn covers(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (&self.place, address) {
            (Place::Host(name), _) => name.eq_ignore_ascii_case(host.trim_end_matches('.')),
            (Place::Network(network, bits), Some(address)) => shares(*network, address, *bits),
            (Place::Network(..), None) => false,
        }
    }
}

/// Where notifications may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// Beside what is public and spoken to over TLS.
    pub allowed: Vec<Allowed>,
}

impl Webhooks {
    /// Whether a URL may be called as far as it tells itself; the address behind a name is told by [`permits`](Self::permits).
    ///
    /// # Errors
    /// [`Forbidden`], in words for the client.
    pub fn check(&self, url: &str) -> Result<Uri, Forbidden> {
        let url: Uri = url.parse().map_err(|_| Forbidden::Url)?;
        let host = url.host().filter(|host| !host.is_empty()).ok_or(Forbidden::Url)?;
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Forbidden::Credentials);
        }
        let plain = match url.scheme_str() {
            Some("https") => false,
            Some("http") => true,
            _ => return Err(Forbidden::Scheme),
        };
        match literal(host) {
            Some(address) => self.permits(host, plain, address)?,
            // What resolvers take for an address is written as one, or not at all.
            None if !is_name(host) => return Err(Forbidden::Address),
            None if plain && !self.may_be_plain(host) => return Err(Forbidden::Scheme),
            None => {}
        }
        Ok(url)
    }

    /// Whether some address behind this name may be spoken to without TLS.
    fn may_be_plain(&self, host: &str) -> bool {
        let networks = |allowed: &Allowed| matches!(allowed.place, Place::Network(..));
        self.allowed.iter().any(|allowed| allowed.plain && (networks(allowed) || allowed.covers(host, None)))
    }

    /// Whether this address may be connected to, for a URL with this host; `plain`: without TLS.
    ///
    /// # Errors
    /// [`Forbidden`].
    pub fn permits(&self, host: &str, plain: bool, address: IpAddr) -> Result<(), Forbidden> {
        let address = address.to_canonical();
        let mut allowed = self.allowed.iter().filter(|allowed| allowed.covers(host, Some(address))).peekable();
        if allowed.peek().is_none() && !is_public(address) {
            return Err(Forbidden::Address);
        }
        if plain && !allowed.any(|allowed| allowed.plain) {
            return Err(Forbidden::Scheme);
        }
        Ok(())
    }
}

/// The address that a URL's host is, where it is one.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// Whether a host is a name and nothing that a resolver reads as an address: `2130706433`, `0x7f.1`, `127.1`.
fn is_name(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.to_ascii_lowercase().starts_with("0x");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !last.is_empty() && !number && host.bytes().all(plain)
}

fn shares(network: IpAddr, address: IpAddr, bits: u8) -> bool {
    let (network, address) = (network.to_canonical(), address.to_canonical());
    match (network, address) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(bits),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(bits),
        _ => false,
    }
}

/// Whether an address is one that everybody can reach, by the registries of special-purpose addresses (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC.iter().any(|(network, bits)| in_v4(address, *network, *bits)),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Networks of version 4 that are not public, and the one address at which a cloud answers its machines under a public number.
const NOT_PUBLIC: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn in_v4(address: Ipv4Addr, network: [u8; 4], bits: u8) -> bool {
    (address.to_bits() ^ Ipv4Addr::from(network).to_bits()).leading_zeros() >= u32::from(bits)
}

/// Only what is given out for global unicast, without what leads elsewhere: into version 4, into tunnels, into books.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // Translated to version 4 (RFC 6052), and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public(v4(high, low)),
        [0x2002, high, low, ..] => is_public(v4(high, low)),
        // Protocol assignments, Teredo and ORCHID among them; documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhooks(allowed: &[&str]) -> Webhooks {
        Webhooks { allowed: allowed.iter().map(|text| Allowed::read(text).unwrap()).collect() }
    }

    #[test]
    fn nothing_but_public_https_is_called_unasked() {
        let none = webhooks(&[]);
        for url in
            ["https://hooks.example/x?y", "https://93.184.216.34:8443/", "https://[2606:4700::1111]/", "https://a.b."]
        {
            assert!(none.check(url).is_ok(), "{url}");
        }
        for (url, why) in [
            ("http://hooks.example/", Forbidden::Scheme),
            ("http://93.184.216.34/", Forbidden::Scheme),
            ("ftp://hooks.example/", Forbidden::Scheme),
            ("https://user:pass@hooks.example/", Forbidden::Credentials),
            ("/hook", Forbidden::Url),
            ("not a url", Forbidden::Url),
            ("", Forbidden::Url),
            ("https://127.0.0.1/", Forbidden::Address),
            ("https://10.1.2.3/", Forbidden::Address),
            ("https://172.31.0.1/", Forbidden::Address),
            ("https://192.168.1.1/", Forbidden::Address),
            ("https://169.254.169.254/latest/meta-data/", Forbidden::Address),
            ("https://168.63.129.16/", Forbidden::Address),
            ("https://100.100.100.200/", Forbidden::Address),
            ("https://0.0.0.0/", Forbidden::Address),
            ("https://224.0.0.1/", Forbidden::Address),
            ("https://255.255.255.255/", Forbidden::Address),
            ("https://[::1]/", Forbidden::Address),
            ("https://[::]/", Forbidden::Address),
            ("https://[::ffff:127.0.0.1]/", Forbidden::Address),
            ("https://[::ffff:a9fe:a9fe]/", Forbidden::Address),
            ("https://[::127.0.0.1]/", Forbidden::Address),
            ("https://[64:ff9b::10.0.0.1]/", Forbidden::Address),
            ("https://[2002:7f00:1::]/", Forbidden::Address),
            ("https://[fe80::1]/", Forbidden::Address),
            ("https://[fd00:ec2::254]/", Forbidden::Address),
            ("https://[fec0::1]/", Forbidden::Address),
            ("https://[ff02::1]/", Forbidden::Address),
            ("https://[2001:db8::1]/", Forbidden::Address),
            // What resolvers read as 127.0.0.1.
            ("https://2130706433/", Forbidden::Address),
            ("https://0x7f000001/", Forbidden::Address),
            ("https://0177.0.0.1/", Forbidden::Address),
            ("https://127.1/", Forbidden::Address),
            ("https://127.0.0.1./", Forbidden::Address),
        ] {
            assert_eq!(none.check(url), Err(why), "{url}");
        }
    }

    #[test]
    fn what_is_allowed_is_called() {
        let some = webhooks(&["10.0.0.0/8", "http://127.0.0.1", "http://hooks.internal", "fd00::/8", "vault.internal"]);
        for url in [
            "https://10.9.8.7/",
            "http://127.0.0.1:9/",
            "https://127.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://Hooks.Internal./x",
            "https://[fd12::1]/",
            // The address decides, once it is known.
            "http://elsewhere.example/",
        ] {
            assert!(some.check(url).is_ok(), "{url}");
        }
        for url in ["http://10.9.8.7/", "https://127.0.0.2/", "http://[fd12::1]/", "https://192.168.0.1/"] {
            assert!(some.check(url).is_err(), "{url}");
        }
        assert_eq!(webhooks(&["vault.internal"]).check("http://vault.internal/"), Err(Forbidden::Scheme));
    }

    #[test]
    fn a_name_is_as_good_as_its_address() {
        let some = webhooks(&["http://127.0.0.0/8", "vault.internal"]);
        let permits = |host: &str, plain: bool, address: &str| some.permits(host, plain, address.parse().unwrap());
        assert_eq!(permits("elsewhere.example", false, "93.184.216.34"), Ok(()));
        assert_eq!(permits("elsewhere.example", true, "93.184.216.34"), Err(Forbidden::Scheme));
        assert_eq!(permits("elsewhere.example", true, "127.0.0.1"), Ok(()));
        assert_eq!(permits("elsewhere.example", false, "10.0.0.1"), Err(Forbidden::Address));
        assert_eq!(permits("elsewhere.example", false, "::ffff:10.0.0.1"), Err(Forbidden::Address));
        assert_eq!(permits("vault.internal", false, "10.0.0.1"), Ok(()));
        assert_eq!(permits("vault.internal", true, "10.0.0.1"), Err(Forbidden::Scheme));
        assert_eq!(webhooks(&[]).permits("x", false, "::1".parse().unwrap()), Err(Forbidden::Address));
    }

    #[test]
    fn entries_are_read_or_refused() {
        for text in ["10.0.0.0/8", "::1", "[::1]", "http://[::1]", "https://hooks.internal", "0.0.0.0/0", "::/0"] {
            assert!(Allowed::read(text).is_some(), "{text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "hooks.internal/8", "::/129", "*", "hooks.internal:80", "127.1"] {
            assert!(Allowed::read(text).is_none(), "{text}");
        }
        let all = webhooks(&["http://0.0.0.0/0"]);
        assert!(all.check("http://192.168.0.1/").is_ok() && all.check("https://[::1]/").is_err());
    }
}
