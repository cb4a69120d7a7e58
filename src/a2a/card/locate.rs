//! From the configured upstream to where its card may be found.

use super::address::path_of;

/// Where cards stand, newest first.
const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// What the configured upstream says about where the agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Where the card may be, to be tried in this order.
    pub card_urls: Vec<String>,
    /// Scheme, host and port, as configured; without a slash at the end. Calls go nowhere else.
    pub origin: String,
    /// The path of the base, without a slash at the end (so that of the root is empty).
    pub path: String,
}

/// Reads the configured upstream: its base URL, or the URL of its card.
///
/// A card's URL is told by `/.well-known/` in its path, by a path that ends in `.json` or in `/v1/card` (where ASP.NET hosts put it), or by
/// a query. The base is then what stands in front of that; of a card in a place of its own, the origin.
pub fn locate(configured: &str) -> Located {
    let url = configured.trim_ascii().split('#').next().unwrap_or_default();
    let url = if has_scheme(url) { url.to_owned() } else { format!("http://{url}") };
    let host = url.find("://").map_or(0, |at| at + 3);
    let (origin, rest) = url.split_at(url[host..].find(['/', '?']).map_or(url.len(), |at| host + at));
    let (card, path) = match base_of_card(rest) {
        Some(path) => (true, path),
        None => (false, rest.trim_end_matches('/')),
    };
    let card_urls = if card { vec![url.clone()] } else { WELL_KNOWN.map(|at| format!("{origin}{path}{at}")).to_vec() };
    Located { card_urls, origin: origin.to_owned(), path: path.to_owned() }
}

fn has_scheme(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// The base path where `rest` (path and query) is that of a card.
fn base_of_card(rest: &str) -> Option<&str> {
    let path = path_of(rest);
    if let Some(at) = path.find("/.well-known/") {
        return Some(path[..at].trim_end_matches('/'));
    }
    if let Some(base) = path.strip_suffix("/v1/card") {
        return Some(base.trim_end_matches('/'));
    }
    (path.ends_with(".json") || rest.contains('?')).then_some("")
}

/// The agent's path for a call: `mount` ([`Seen::mount`](super::Seen::mount)) and `rest`, the path (and query) that followed the route's
/// base.
pub fn at_agent(mount: &str, rest: &str) -> String {
    // A base that is called as it is has no path left, but HTTP wants one.
    let slash = if mount.is_empty() && !rest.starts_with('/') { "/" } else { "" };
    format!("{mount}{slash}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_base_or_a_card() {
        for (configured, first, path) in [
            ("http://x:9001", "http://x:9001/.well-known/agent-card.json", ""),
            ("http://x:9001/", "http://x:9001/.well-known/agent-card.json", ""),
            (" x:9001/a ", "http://x:9001/a/.well-known/agent-card.json", "/a"),
            ("https://x/a2a/tock/", "https://x/a2a/tock/.well-known/agent-card.json", "/a2a/tock"),
            ("https://x/.well-known/agent.json", "https://x/.well-known/agent.json", ""),
            ("https://x/a/.well-known/agent-card.json", "https://x/a/.well-known/agent-card.json", "/a"),
            ("https://x/a/v1/card", "https://x/a/v1/card", "/a"),
            ("https://x/cards/tock.json", "https://x/cards/tock.json", ""),
            ("https://x/card?agent=tock", "https://x/card?agent=tock", ""),
            ("https://x?agent=tock", "https://x?agent=tock", ""),
        ] {
            let located = locate(configured);
            assert_eq!((located.card_urls[0].as_str(), located.path.as_str()), (first, path), "{configured}");
        }
        assert_eq!(
            locate("http://x:9001/a").card_urls,
            ["http://x:9001/a/.well-known/agent-card.json", "http://x:9001/a/.well-known/agent.json"]
        );
        assert_eq!(locate("https://X/a/.well-known/agent.json").origin, "https://X");
    }

    #[test]
    fn a_call_finds_its_way_back() {
        for (mount, rest, expected) in [
            ("", "", "/"),
            ("", "/", "/"),
            ("", "?a=b", "/?a=b"),
            ("", "/rpc", "/rpc"),
            ("/a", "", "/a"),
            ("/a", "/", "/a/"),
            ("/a", "?a=b", "/a?a=b"),
            ("/a", "/rpc?a=b", "/a/rpc?a=b"),
        ] {
            assert_eq!(at_agent(mount, rest), expected);
        }
    }
}
