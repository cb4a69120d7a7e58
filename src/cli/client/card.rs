//! From an agent's card to where messages go, and what is spoken there.

use std::borrow::Cow;

use ::http::Uri;

use super::fault::ClientError;
use crate::a2a::Dialect;
use crate::a2a::card::{self, Located, Places, Seen};
use crate::json::{Doc, Value};

/// What the client needs of a card.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub name: Option<String>,
    pub dialect: Dialect,
    pub url: Uri,
    /// The interface's own URL, where that is of another origin.
    pub elsewhere: Option<String>,
}

/// Finds the newest JSON-RPC interface.
pub(super) fn find(body: &[u8], located: &Located) -> Result<Found, ClientError> {
    let unusable = |why: String| ClientError::NotA2a(format!("{} cannot be talked to: {why}", located.origin));
    let places = Places { base: "", origin: &located.origin, mount: &located.path, path: None };
    let seen = card::read(body, &places).map_err(|error| unusable(error.to_string()))?;
    let doc = Doc::scan(body).map_err(|error| unusable(error.to_string()))?;
    let offered: Vec<_> = json_rpc(doc.root()).collect();
    let newest = |wanted| offered.iter().find(|(dialect, _)| *dialect == wanted);
    let Some((dialect, said)) = newest(Dialect::V10).or_else(|| newest(Dialect::V03)) else {
        return Err(unusable(no_json_rpc(&seen)));
    };
    let path =
        path(said, &seen).ok_or_else(|| unusable(format!("its JSON-RPC interface has no usable URL: {said}")))?;
    let url = format!("{}{}", located.origin, card::at_agent("", &path)).parse();
    let url: Uri = url.map_err(|_| unusable(format!("its JSON-RPC interface has no usable URL: {said}")))?;
    let elsewhere = said.parse().is_ok_and(|said: Uri| said.scheme().is_some() && place(&said) != place(&url));
    Ok(Found { name: seen.name, dialect: *dialect, url, elsewhere: elsewhere.then(|| said.to_string()) })
}

/// All JSON-RPC interfaces of a card with the version that is spoken there and their URLs, in the order in which it has them.
fn json_rpc<'d, 't>(card: Value<'d, 't>) -> impl Iterator<Item = (Dialect, Cow<'t, str>)> {
    let list = |name| card.some(name).into_iter().flat_map(|list: Value<'d, 't>| list.elements());
    let supported = list("supportedInterfaces").filter_map(|each| Some((version(each)?, each, "protocolBinding")));
    let main = std::iter::once((Dialect::V03, card, "preferredTransport"));
    let additional = list("additionalInterfaces").map(|each| (Dialect::V03, each, "transport"));
    supported.chain(main).chain(additional).filter_map(|(dialect, interface, binding)| {
        let url = interface.some("url")?.str()?;
        is_json_rpc(interface.some(binding)).then_some((dialect, url))
    })
}

fn version(interface: Value<'_, '_>) -> Option<Dialect> {
    let Some(version) = interface.some("protocolVersion") else { return Some(Dialect::V10) };
    match version.str()?.trim().split('.').next() {
        Some("0") => Some(Dialect::V03),
        Some("1") => Some(Dialect::V10),
        _ => None,
    }
}

/// Where nothing is said it is what nearly all agents speak.
fn is_json_rpc(binding: Option<Value<'_, '_>>) -> bool {
    binding.is_none_or(|binding| {
        binding.str().is_some_and(|name| matches!(name.trim().to_ascii_uppercase().as_str(), "JSONRPC" | "JSON-RPC"))
    })
}

fn no_json_rpc(seen: &Seen) -> String {
    let others: Vec<_> = seen.bindings.iter().map(ToString::to_string).collect();
    match others.join(", ") {
        none if none.is_empty() => "its card lists no interface".to_owned(),
        others => format!("its card has no JSON-RPC interface, only {others}"),
    }
}

/// The path (and query) of an interface's URL; what is no absolute URL was read, leniently, with the card.
fn path(said: &str, seen: &Seen) -> Option<String> {
    match said.trim().parse::<Uri>() {
        Ok(url) if url.scheme().is_some() => url.path_and_query().map(ToString::to_string),
        _ => seen.rpc_path.clone(),
    }
}

/// Host and port.
fn place(url: &Uri) -> (Option<String>, u16) {
    let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
    (url.host().map(str::to_ascii_lowercase), url.port_u16().unwrap_or(usual))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::card::locate;

    fn found(card: &str) -> Result<(Dialect, String, bool), String> {
        let found = find(card.as_bytes(), &locate("http://typed:1/a")).map_err(|error| error.to_string())?;
        Ok((found.dialect, found.url.to_string(), found.elsewhere.is_some()))
    }

    #[test]
    fn takes_the_newest_json_rpc_interface() {
        for (card, dialect, url, elsewhere) in [
            (r#"{"url":"http://typed:1/a/rpc"}"#, Dialect::V03, "http://typed:1/a/rpc", false),
            (r#"{"url":"http://0.0.0.0:1/"}"#, Dialect::V03, "http://typed:1/", true),
            (r#"{"url":"/a/rpc","preferredTransport":"JSONRPC"}"#, Dialect::V03, "http://typed:1/a/rpc", false),
            (
                r#"{"url":"http://typed:1/old","supportedInterfaces":[
                    {"url":"http://typed:1/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},
                    {"url":"http://typed:1/03","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
                    {"url":"http://typed:1/10?x=1","protocolBinding":"jsonrpc","protocolVersion":"1.0"}]}"#,
                Dialect::V10,
                "http://typed:1/10?x=1",
                false,
            ),
            (
                r#"{"url":"http://typed:1/","preferredTransport":"GRPC","additionalInterfaces":[
                    {"url":"http://typed:1/rpc","transport":"JSONRPC"}]}"#,
                Dialect::V03,
                "http://typed:1/rpc",
                false,
            ),
        ] {
            assert_eq!(found(card), Ok((dialect, url.to_owned(), elsewhere)), "{card}");
        }
    }

    #[test]
    fn says_why_there_is_none() {
        for (card, words) in [
            (r#"{"url":"http://x","preferredTransport":"GRPC"}"#, "no JSON-RPC interface, only GRPC"),
            ("{}", "lists no interface"),
            (r#"{"supportedInterfaces":{}}"#, "is no array"),
            ("[]", "no JSON object"),
            (r#"{"url":"http://a b"}"#, "no usable URL"),
        ] {
            let error = found(card).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
