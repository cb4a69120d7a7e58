//! Paths: which operation a request names, in the one spelling in which it is served.

use http::Method;

use crate::a2a::{Push, Verb};

/// An operation, as a path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it asks for.
    pub verb: Verb,
    /// The path in front of the operation, without a slash at the end: the interface's own, a tenant, and 0.3's `/v1`.
    pub base: String,
    /// The id of the task in it, its escapes undone; empty where it names none.
    pub task: String,
    /// The id of the push configuration in it, its escapes undone; empty where it names none.
    pub config: String,
}

/// A path that some server takes for an operation, in a spelling that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misread {
    /// Letter case, escapes, slashes or dots: servers differ in what they take it for.
    Spelling,
    /// The operation has another HTTP method.
    Method,
    /// An id that reads as another id with an operation behind it, or that is no text.
    Id,
}

impl Operation {
    /// Reads method and path. `None`: no server takes it for an operation.
    ///
    /// # Errors
    /// [`Misread`] where it may be one and is not spelled as A2A has it.
    pub fn read(method: &Method, path: &str) -> Result<Option<Self>, Misread> {
        if method == Method::OPTIONS || !may_be_operation(method, path) {
            return Ok(None);
        }
        let segments: Vec<&str> = path.split('/').collect();
        let (base, verbs) = segments.split_at(segments.len() - tail(&segments).ok_or(Misread::Spelling)?);
        if !base.iter().enumerate().all(|(at, segment)| is_plain(segment, at == 0)) {
            return Err(Misread::Spelling);
        }
        let of = |verb, task| Ok(Some(Self { verb, base: base.join("/"), task, config: String::new() }));
        let only =
            |wanted: Method, verb| if *method == wanted { of(verb, String::new()) } else { Err(Misread::Method) };
        match verbs {
            ["message:send"] => only(Method::POST, Verb::Send),
            ["message:stream"] => only(Method::POST, Verb::Stream),
            ["tasks"] => only(Method::GET, Verb::List),
            ["card" | "extendedAgentCard"] => only(Method::GET, Verb::ExtendedCard),
            ["tasks", task] => {
                let (verb, id) = on_task(method, task)?;
                of(verb, id)
            }
            ["tasks", task, "pushNotificationConfigs", rest @ ..] => {
                let config = rest.first().map_or(Ok(String::new()), |config| read_id(config))?;
                let verb = Verb::Push(on_configs(method, rest.is_empty())?);
                Ok(Some(Self { verb, base: base.join("/"), task: read_id(task)?, config }))
            }
            _ => Err(Misread::Spelling),
        }
    }
}

/// How many segments at the end are the operation's, as A2A spells it.
fn tail(segments: &[&str]) -> Option<usize> {
    match segments {
        [.., "message:send" | "message:stream" | "extendedAgentCard"] => Some(1),
        [.., "v1", "card"] => Some(1),
        [.., "tasks", _, "pushNotificationConfigs", _] => Some(4),
        [.., "tasks", _, "pushNotificationConfigs"] => Some(3),
        [.., "tasks", _] => Some(2),
        [.., "tasks"] => Some(1),
        _ => None,
    }
}

fn on_task(method: &Method, segment: &str) -> Result<(Verb, String), Misread> {
    if let Some(id) = segment.strip_suffix(":cancel") {
        return if *method == Method::POST { Ok((Verb::Cancel, read_id(id)?)) } else { Err(Misread::Method) };
    }
    if let Some(id) = segment.strip_suffix(":subscribe") {
        // POST in 1.0's text, GET in its protobuf and in the widespread servers of 0.3.
        let takes = [Method::GET, Method::POST].contains(method);
        return if takes { Ok((Verb::Subscribe, read_id(id)?)) } else { Err(Misread::Method) };
    }
    if *method == Method::GET { Ok((Verb::Get, read_id(segment)?)) } else { Err(Misread::Method) }
}

/// The operations on push configurations: on all of them, and on one.
fn on_configs(method: &Method, all: bool) -> Result<Push, Misread> {
    match (method, all) {
        (&Method::POST, true) => Ok(Push::Set),
        (&Method::GET, true) => Ok(Push::List),
        (&Method::GET, false) => Ok(Push::Get),
        (&Method::DELETE, false) => Ok(Push::Delete),
        _ => Err(Misread::Method),
    }
}

fn read_id(segment: &str) -> Result<String, Misread> {
    let id = String::from_utf8(decoded(segment)).map_err(|_| Misread::Id)?;
    let lower = id.to_lowercase();
    // A server that undoes escapes first takes the one for the other; one that resolves dots leaves the task list.
    let other = lower.ends_with(":cancel") || lower.ends_with(":subscribe");
    if id.is_empty() || other || matches!(&*id, "." | "..") { Err(Misread::Id) } else { Ok(id) }
}

/// A segment in front of the operation that nobody resolves or drops.
fn is_plain(segment: &str, first: bool) -> bool {
    let text = decoded(segment);
    let climbs = matches!(&text[..], b"." | b"..") || text.iter().any(|byte| matches!(byte, b'/' | b'\\'));
    segment.is_empty() == first && !climbs
}

/// Whether any server may take the path for an operation's, with whatever HTTP method.
pub fn may_be_any(path: &str) -> bool {
    may_be_operation(&Method::GET, path)
}

/// Whether any server may take it for an operation: in whatever case, with escapes undone before or after it is taken apart.
fn may_be_operation(method: &Method, path: &str) -> bool {
    let lower = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).to_lowercase();
    let first = lower(decoded(path));
    let whole: Vec<_> = first.split(['/', '\\']).filter(|segment| !segment.is_empty()).collect();
    let apart: Vec<_> = path.split('/').map(|segment| lower(decoded(segment))).collect();
    let apart: Vec<_> = apart.iter().map(String::as_str).filter(|segment| !segment.is_empty()).collect();
    is_operation(method, &whole) || is_operation(method, &apart)
}

/// The paths of HTTP+JSON in lower case, under whatever prefix: of both dialects, with and without a tenant.
fn is_operation(method: &Method, segments: &[&str]) -> bool {
    match segments {
        [.., "message:send" | "message:stream" | "extendedagentcard"] | [.., "v1", "card"] => true,
        [.., "tasks"] => method != Method::POST,
        [.., "tasks", _] => true,
        [.., "tasks", _, "pushnotificationconfigs"] | [.., "tasks", _, "pushnotificationconfigs", _] => true,
        _ => false,
    }
}

/// Text with its percent-encoding undone.
pub fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// An id as one segment of a path.
pub fn encoded(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, path: &str) -> Result<Option<(Verb, String, String)>, Misread> {
        Operation::read(method, path).map(|found| found.map(|found| (found.verb, found.base, found.task)))
    }

    #[test]
    fn operations_are_read_under_any_base() {
        for (method, path, verb, base, task) in [
            (Method::POST, "/message:send", Verb::Send, "", ""),
            (Method::POST, "/rest/message:stream", Verb::Stream, "/rest", ""),
            (Method::POST, "/rest/v1/message:send", Verb::Send, "/rest/v1", ""),
            (Method::POST, "/tenant-1/message:send", Verb::Send, "/tenant-1", ""),
            (Method::GET, "/tasks/abc", Verb::Get, "", "abc"),
            (Method::GET, "/v1/tasks/a%2Fb%3Ac", Verb::Get, "/v1", "a/b:c"),
            (Method::GET, "/rest/tasks", Verb::List, "/rest", ""),
            (Method::POST, "/tasks/abc:cancel", Verb::Cancel, "", "abc"),
            (Method::POST, "/tasks/a:b:cancel", Verb::Cancel, "", "a:b"),
            (Method::GET, "/v1/tasks/abc:subscribe", Verb::Subscribe, "/v1", "abc"),
            (Method::POST, "/tasks/abc:subscribe", Verb::Subscribe, "", "abc"),
            (Method::GET, "/v1/card", Verb::ExtendedCard, "/v1", ""),
            (Method::GET, "/extendedAgentCard", Verb::ExtendedCard, "", ""),
            (Method::POST, "/tasks/abc/pushNotificationConfigs", Verb::Push(Push::Set), "", "abc"),
            (Method::DELETE, "/x/tasks/abc/pushNotificationConfigs/p", Verb::Push(Push::Delete), "/x", "abc"),
        ] {
            assert_eq!(read(&method, path), Ok(Some((verb, base.to_owned(), task.to_owned()))), "{method} {path}");
        }
    }

    #[test]
    fn what_another_server_may_take_for_one_is_refused() {
        for path in [
            "/MESSAGE:send",
            "/message%3Asend",
            "/message:send/",
            "//message:send",
            "/x//message:send",
            "/x/./message:send",
            "/x/%2e%2e/message:send",
            "/%6dessage:send",
            "/x%2Fmessage:send",
            "/x\\message:send",
            "/x%5Cmessage:send",
            "/tasks/abc:Cancel",
            "/Tasks/abc:cancel",
            "/tasks/abc%3Acancel",
            "/tasks%2Fabc:cancel",
            "/tasks/abc/PushNotificationConfigs",
        ] {
            assert!(Operation::read(&Method::POST, path).is_err(), "{path}");
        }
        for path in
            ["/tasks/abc/", "/TASKS", "/tasks/", "/tasks/a%3Asubscribe", "/tasks/%2e%2e", "/tasks/%ff", "/v1%2Fcard"]
        {
            assert!(Operation::read(&Method::GET, path).is_err(), "{path}");
        }
        for (method, path) in [
            (Method::GET, "/message:send"),
            (Method::PUT, "/message:send"),
            (Method::HEAD, "/tasks/abc"),
            (Method::DELETE, "/tasks/abc"),
            (Method::POST, "/tasks/abc"),
            (Method::GET, "/tasks/abc:cancel"),
        ] {
            assert_eq!(Operation::read(&method, path), Err(Misread::Method), "{method} {path}");
        }
        let lower = Method::from_bytes(b"get").unwrap();
        assert_eq!(Operation::read(&lower, "/tasks/abc"), Err(Misread::Method));
    }

    #[test]
    fn other_paths_are_none() {
        for path in ["/", "/a2a", "/tasks", "/message", "/mytasks/1", "/tasks/1/notes", "/message:send/x"] {
            assert_eq!(Operation::read(&Method::POST, path), Ok(None), "{path}");
        }
        assert_eq!(Operation::read(&Method::GET, "/.well-known/agent-card.json"), Ok(None));
        assert_eq!(Operation::read(&Method::OPTIONS, "/tasks/abc"), Ok(None), "a browser's question");
    }

    #[test]
    fn an_id_survives_its_path() {
        for id in ["abc", "a/b", "a:b", "ü 🙂", "%2F", "a.b~c_d-e", "?x#y"] {
            let path = format!("/tasks/{}", encoded(id));
            assert_eq!(read(&Method::GET, &path), Ok(Some((Verb::Get, String::new(), id.to_owned()))), "{path}");
        }
    }
}
