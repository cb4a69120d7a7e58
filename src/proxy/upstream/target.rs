//! From the proxy's paths to the agent's, and back where the agent names one.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::uri::{Authority, Scheme};
use http::{Uri, uri};

use crate::proxy::SetupError;
use crate::proxy::route;

/// Where a route leads. What follows the route's prefix is appended to the path of the agent's base URL, byte for byte.
#[derive(Clone, Debug)]
pub struct Target {
    scheme: Scheme,
    authority: Authority,
    /// The base's path as it was given, for the request that asks for nothing beneath it: agents differ on the slash at the end.
    root: String,
    /// The same without a slash at the end.
    base: String,
    prefix: String,
    public: Uri,
}

impl Target {
    /// From `prefix` of the proxy, which clients reach at `public`, to `url`, the agent's base or its card.
    pub fn new(url: &Uri, prefix: &str, public: &Uri) -> Result<Self, SetupError> {
        let (Some(scheme), Some(authority)) = (url.scheme().cloned(), url.authority().cloned()) else {
            return Err(SetupError::Url(url.clone()));
        };
        // A URL that ends so is the card's, and the rest of it the base.
        let root = route::CARDS.iter().find_map(|card| url.path().strip_suffix(*card)).unwrap_or(url.path());
        Ok(Self {
            scheme,
            authority,
            root: root.to_owned(),
            base: root.trim_end_matches('/').to_owned(),
            prefix: prefix.to_owned(),
            public: public.clone(),
        })
    }

    /// The agent's URI for what was asked of the proxy. Of `asked` only path and query count.
    pub fn uri(&self, asked: &Uri) -> Result<Uri, http::Error> {
        let rest = route::rest(asked.path(), &self.prefix).unwrap_or(asked.path());
        let mut path = self.path(rest);
        if let Some(query) = asked.query() {
            path.push('?');
            path.push_str(query);
        }
        uri::Builder::new().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path).build()
    }

    /// A client cannot ask the root route for less than a slash; so there the slash alone means the base as it was given, too.
    fn path(&self, rest: &str) -> String {
        match rest {
            "" => self.root(),
            "/" if self.prefix.is_empty() => self.root(),
            rest => format!("{}{rest}", self.base),
        }
    }

    fn root(&self) -> String {
        if self.root.is_empty() { "/".to_owned() } else { self.root.clone() }
    }

    /// Rewrites the headers that lead a client onward, so that it comes back to the proxy and not past it.
    pub fn relocate(&self, headers: &mut HeaderMap) {
        for name in [LOCATION, CONTENT_LOCATION] {
            if let Some(location) = self.relocated(headers, &name) {
                headers.insert(name, location);
            }
        }
    }

    fn relocated(&self, headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
        let location = headers.get(name)?.to_str().ok()?;
        HeaderValue::from_str(&self.public(location)?).ok()
    }

    /// What the agent calls `location`, as a client must call it; `None` where it stands: it is relative, or somebody else's.
    fn public(&self, location: &str) -> Option<String> {
        let public = self.public.path().trim_end_matches('/');
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(format!("{public}{}{}", self.prefix, self.below_base(location)));
        }
        let (scheme, rest) = location.split_once("//")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if !self.is_origin(scheme, authority) {
            return None;
        }
        let origin = format!("{}://{}", self.public.scheme_str()?, self.public.authority()?);
        Some(format!("{origin}{public}{}{}", self.prefix, self.below_base(path)))
    }

    /// What lies beside the base is not reachable through the proxy; it is put under the prefix like the rest, where the agent says that it
    /// is not there, rather than be shown under the agent's own address.
    fn below_base<'a>(&self, path: &'a str) -> &'a str {
        let beside = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', '?', '#']);
        path.strip_prefix(&*self.base).filter(|rest| !beside(rest)).unwrap_or(path)
    }

    /// The scheme does not count, only the port that it implies: agents take it from X-Forwarded-Proto and the host from Host.
    fn is_origin(&self, scheme: &str, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let scheme = if scheme.is_empty() { self.scheme.as_str() } else { scheme.trim_end_matches(':') };
        authority.host().eq_ignore_ascii_case(self.authority.host())
            && port(scheme, &authority) == port(self.scheme.as_str(), &self.authority)
    }
}

fn port(scheme: &str, authority: &Authority) -> Option<u16> {
    let implied = match scheme.to_ascii_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    authority.port_u16().or(implied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, prefix: &str) -> Target {
        Target::new(&url.parse().unwrap(), prefix, &"https://front.example/gate".parse().unwrap()).unwrap()
    }

    #[test]
    fn paths_are_appended_byte_for_byte() {
        for (url, prefix, asked, expected) in [
            ("http://a:1", "", "/", "http://a:1/"),
            ("http://a:1", "", "/x%20y//?q=%2F&?", "http://a:1/x%20y//?q=%2F&?"),
            ("http://a:1/", "/ada", "/ada", "http://a:1/"),
            ("http://a:1/base", "/ada", "/ada", "http://a:1/base"),
            ("http://a:1/base", "/ada", "/ada/", "http://a:1/base/"),
            ("http://a:1/base/", "/ada", "/ada", "http://a:1/base/"),
            ("http://a:1/base/", "/ada", "/ada/x", "http://a:1/base/x"),
            ("http://a:1/base", "", "/", "http://a:1/base"),
            ("http://a:1/base/", "", "/?", "http://a:1/base/?"),
            ("http://a:1/base", "", "//evil/x", "http://a:1/base//evil/x"),
            ("http://a:1", "", "//evil/x", "http://a:1//evil/x"),
            ("http://a/x/.well-known/agent-card.json", "", "/rpc", "http://a/x/rpc"),
            ("http://a/.well-known/agent.json", "", "/", "http://a/"),
        ] {
            let asked = uri::PathAndQuery::from_static(asked);
            let mut parts = uri::Parts::default();
            parts.path_and_query = Some(asked);
            let found = target(url, prefix).uri(&Uri::from_parts(parts).unwrap()).unwrap();
            assert_eq!(found.to_string(), expected);
            assert_eq!(found.authority().unwrap(), url.parse::<Uri>().unwrap().authority().unwrap());
        }
    }

    #[test]
    fn redirects_lead_back_to_the_proxy() {
        let target = target("http://agent.internal/base", "/ada");
        for (location, expected) in [
            ("http://agent.internal/base/x?y#z", Some("https://front.example/gate/ada/x?y#z")),
            ("http://AGENT.internal:80/base", Some("https://front.example/gate/ada")),
            ("https://agent.internal:80/base/x", Some("https://front.example/gate/ada/x")),
            ("//agent.internal/base/x", Some("https://front.example/gate/ada/x")),
            ("http://agent.internal/elsewhere", Some("https://front.example/gate/ada/elsewhere")),
            ("http://agent.internal/basement", Some("https://front.example/gate/ada/basement")),
            ("http://agent.internal", Some("https://front.example/gate/ada")),
            ("/base/x", Some("/gate/ada/x")),
            ("/base", Some("/gate/ada")),
            ("x/y", None),
            ("?page=2", None),
            ("https://agent.internal/base/x", None),
            ("http://agent.internal:81/base", None),
            ("http://elsewhere.example/agent.internal", None),
            ("mailto:ada@agent.internal", None),
        ] {
            assert_eq!(target.public(location).as_deref(), expected, "{location}");
        }
    }
}
