//! Which agent serves a path.

use std::borrow::Cow;

/// Where an agent's card is found.
pub const CARDS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// What stands under path prefixes; the longest that fits wins.
#[derive(Debug)]
pub struct Routes<T>(Vec<(String, T)>);

impl<T> Routes<T> {
    /// Prefixes start with a slash and have none at the end, so that of the root is empty.
    pub fn new(routes: impl IntoIterator<Item = (String, T)>) -> Self {
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Self(routes)
    }

    /// What serves this path.
    pub fn find(&self, path: &str) -> Option<&T> {
        self.0.iter().find(|(prefix, _)| rest(path, prefix).is_some()).map(|(_, route)| route)
    }
}

/// What comes after the prefix: nothing, or a path of its own. `/agent` is no prefix of `/agents`.
pub fn rest<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix)?;
    (rest.starts_with('/') || rest.is_empty()).then_some(rest)
}

/// Whether a path could lead out of the base path that it is appended to, or to another route's agent, once somebody resolves its dots.
///
/// Clients resolve dots themselves (RFC 3986 section 5.2.4), so that a `..` which arrives here was put there by hand; it is refused and not
/// resolved, since a path is never re-encoded. Servers differ in what they decode before they resolve: `%2e`, `%2f`, `%5c` and the backslash
/// count as what some of them take them for. A single dot leads nowhere and passes.
pub fn escapes(path: &str) -> bool {
    if !path.contains("..") && !path.contains('%') {
        return false;
    }
    decode_separators(path).split(['/', '\\']).any(|segment| segment == "..")
}

fn decode_separators(path: &str) -> Cow<'_, str> {
    let mut decoded = Cow::Borrowed(path);
    for (code, character) in [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")] {
        if decoded.contains(code) {
            decoded = Cow::Owned(decoded.replace(code, character));
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_on_a_segment_boundary_wins() {
        let routes = Routes::new(["", "/agents", "/agents/ada"].map(|prefix| (prefix.to_owned(), prefix)));
        for (path, expected) in [
            ("/", ""),
            ("/agent", ""),
            ("/agents", "/agents"),
            ("/agents/", "/agents"),
            ("/agents/adams", "/agents"),
            ("/agents/ada", "/agents/ada"),
            ("/agents/ada/v1/message:send", "/agents/ada"),
            ("/AGENTS", ""),
        ] {
            assert_eq!(routes.find(path), Some(&expected), "{path}");
        }
        let one = Routes::new([("/ada".to_owned(), ())]);
        assert!(one.find("/").is_none() && one.find("/adams").is_none() && one.find("*").is_none());
    }

    #[test]
    fn nothing_climbs_out() {
        for path in ["/..", "/a/../b", "/a/%2e%2e/b", "/a/.%2E", "/a/..%2fb", "/a%2f..%5Cb", "/a/..\\b", "/%2e./x"] {
            assert!(escapes(path), "{path}");
        }
        for path in ["/", "/a..b", "/...", "/a/./b", "/%20", "/a/..b/c", "/%252e%252e/", "//x", "/v1/tasks/a..b:cancel"]
        {
            assert!(!escapes(path), "{path}");
        }
    }
}
