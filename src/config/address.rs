//! How addresses, URLs, paths and headers are written. What may hold a secret (a URL with a password, a header's value) is never repeated.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Uri};
use toml::Spanned;
use toml::de::DeString;

use super::effective::Identity;
use super::value::{Typed, Wrong, text, words};
use crate::conversation::policy::ConversationKey;
use crate::push::Allowed;

/// An address to listen on.
pub(super) fn socket(value: &Typed<'_>) -> Result<SocketAddr, Wrong> {
    let typed = text(value, "an address such as \"127.0.0.1:8080\"")?;
    typed.parse().map_err(|_| {
        let wrong = Wrong::new(value, format!("{typed:?} is not an address with a port"));
        match typed.strip_prefix("localhost:").or(typed.strip_prefix(':')) {
            Some(port) => wrong.help(format!("write \"127.0.0.1:{port}\"")),
            None => wrong.help("write it as \"127.0.0.1:8080\" or \"[::1]:8080\""),
        }
    })
}

/// The URL of an agent.
pub(super) fn url(value: &Typed<'_>) -> Result<Uri, Wrong> {
    let typed = text(value, "a URL such as \"http://127.0.0.1:9999\"")?;
    let wrong = |message: &str| match typed.contains("://") {
        true => Wrong::new(value, message),
        false => Wrong::new(value, message).help("write it with http:// or https:// in front"),
    };
    let url = typed.parse::<Uri>().map_err(|error| wrong(&format!("not a URL: {error}")))?;
    web(&url).map_err(wrong)?;
    Ok(url)
}

/// Whether a URL leads to an HTTP server.
pub(super) fn web(url: &Uri) -> Result<(), &'static str> {
    let scheme = url.scheme().ok_or("a URL needs a scheme")?;
    if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
        return Err("the scheme must be http or https");
    }
    match url.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err("a URL must not hold credentials: they belong into a header")
        }
        Some(authority) if !authority.host().is_empty() => Ok(()),
        _ => Err("a URL needs a host"),
    }
}

/// The URL under which the proxy is known.
pub(super) fn base(value: &Typed<'_>) -> Result<Option<Uri>, Wrong> {
    let url = url(value)?;
    if url.query().is_some() {
        return Err(Wrong::new(value, "a base URL has no query"));
    }
    let trimmed = url.to_string().trim_end_matches('/').parse();
    trimmed.map(Some).map_err(|_| Wrong::new(value, "not a URL"))
}

/// Places where webhooks may be.
pub(super) fn allowed(value: &Typed<'_>) -> Result<Vec<Allowed>, Wrong> {
    let read = |text: String| {
        let wrong = || Wrong::new(value, format!("{text:?} is no host, address or network"));
        Allowed::read(&text).ok_or_else(|| {
            wrong().help("write it as \"hooks.internal\", \"10.1.2.3\" or \"10.0.0.0/8\", with \"http://\" in front where that may be spoken")
        })
    };
    words(value)?.into_iter().map(read).collect()
}

/// A path prefix; that of the root is empty.
pub(super) fn prefix(value: &Typed<'_>) -> Result<String, Wrong> {
    let typed = text(value, "a path such as \"/research\"")?;
    let path = path(value)?;
    if path.contains('?') {
        return Err(Wrong::new(value, "a prefix has no query"));
    }
    let prefix = path.trim_end_matches('/');
    let segments = prefix.split('/').skip(1);
    if let Some(odd) = segments.into_iter().find(|segment| matches!(*segment, "" | "." | "..")) {
        return Err(Wrong::new(value, format!("{typed:?} has the segment {odd:?}, which clients take away")));
    }
    Ok(prefix.to_owned())
}

/// A path as it stands in a request.
pub(super) fn path(value: &Typed<'_>) -> Result<String, Wrong> {
    let typed = text(value, "a path such as \"/a2a\"")?;
    if !typed.starts_with('/') {
        return Err(
            Wrong::new(value, format!("{typed:?} does not start with a slash")).help(format!("write \"/{typed}\""))
        );
    }
    match typed.parse::<http::uri::PathAndQuery>() {
        Ok(_) if !typed.contains('#') => Ok(typed.to_owned()),
        _ => Err(Wrong::new(value, format!("{typed:?} is not a path")).help("encode what is not allowed as %20")),
    }
}

/// A path prefix, or `false`.
pub(super) fn health(value: &Typed<'_>) -> Result<Option<String>, Wrong> {
    match value.get_ref().as_bool() {
        Some(false) => Ok(None),
        Some(true) => Err(Wrong::new(value, "expected a path or `false`, found `true`").help("the default is \"/\"")),
        None => prefix(value).map(Some),
    }
}

/// A file.
pub(super) fn file(value: &Typed<'_>) -> Result<PathBuf, Wrong> {
    text(value, "the name of a file").map(PathBuf::from)
}

/// Who is calling.
pub(super) fn identity(value: &Typed<'_>) -> Result<Identity, Wrong> {
    let typed = text(value, "a string")?;
    match typed.split_once(':') {
        None if typed == "authorization" => Ok(Identity::Authorization),
        None if typed == "anonymous" => Ok(Identity::Anonymous),
        Some(("header", name)) => identity_header(value, name.trim()),
        _ => {
            let message = format!("{typed:?} is not one of \"authorization\", \"header:NAME\", \"anonymous\"");
            Err(Wrong::new(value, message))
        }
    }
}

/// Which conversation a message belongs to that names none.
pub(super) fn conversation_key(value: &Typed<'_>) -> Result<ConversationKey, Wrong> {
    let typed = text(value, "a string")?;
    match typed.split_once(':') {
        None if typed == "principal" => Ok(ConversationKey::Principal),
        Some(("header", name)) => {
            let name = name.trim();
            let header = header_name(name);
            header
                .map(ConversationKey::Header)
                .ok_or_else(|| Wrong::new(value, format!("{name:?} is not the name of a header")))
        }
        _ => Err(Wrong::new(value, format!("{typed:?} is not one of \"principal\", \"header:NAME\""))),
    }
}

/// A header that holds a name. One that holds a credential would put it into logs and keys.
fn identity_header(value: &Typed<'_>, name: &str) -> Result<Identity, Wrong> {
    let header = header_name(name).ok_or_else(|| Wrong::new(value, format!("{name:?} is not the name of a header")))?;
    match header.as_str() {
        "authorization" => Err(Wrong::new(value, "this header holds a credential").help("write \"authorization\"")),
        "cookie" | "proxy-authorization" => {
            Err(Wrong::new(value, "this header holds a credential").help("name one that holds a user's name"))
        }
        _ => Ok(Identity::Header(header)),
    }
}

fn header_name(name: &str) -> Option<HeaderName> {
    HeaderName::from_bytes(name.as_bytes()).ok()
}

/// A header to set on requests to the agent. Those that the proxy or the protocol answers for are refused.
pub(super) fn header(name: &Spanned<DeString<'_>>, value: &Typed<'_>) -> Result<(HeaderName, HeaderValue), Wrong> {
    let wrong = |message: &str| Wrong { span: name.span(), ..Wrong::new(value, message) };
    let header = header_name(name.get_ref()).ok_or_else(|| wrong("not the name of a header"))?;
    if OURS.contains(&header.as_str()) {
        return Err(wrong("the proxy sets this header itself"));
    }
    if header.as_str().starts_with("a2a-") || header.as_str().starts_with("x-a2a-") {
        return Err(wrong("A2A's own headers are the client's and pass as they are"));
    }
    let typed = text(value, "a string")?;
    let mut content = HeaderValue::from_str(typed).map_err(|_| Wrong::new(value, "not a value for a header"))?;
    content.set_sensitive(true);
    Ok((header, content))
}

/// Origins of pages, or `*`.
pub(super) fn origins(value: &Typed<'_>) -> Result<Vec<String>, Wrong> {
    let origins = words(value)?;
    for (origin, item) in origins.iter().zip(value.get_ref().as_array().into_iter().flatten()) {
        origin_or_any(origin, item)?;
    }
    Ok(origins)
}

fn origin_or_any(origin: &str, item: &Typed<'_>) -> Result<(), Wrong> {
    if origin == "*" {
        return Ok(());
    }
    let url = url(item)?;
    let plain = format!("{}://{}", url.scheme_str().unwrap_or_default(), url.authority().map_or("", |it| it.as_str()));
    if plain == origin {
        return Ok(());
    }
    Err(Wrong::new(item, "an origin is scheme, host and port alone").help(format!("write \"{plain}\"")))
}

/// Hop by hop, framing, and what semantics 7 lists as the proxy's.
const OURS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
