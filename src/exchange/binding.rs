//! Bindings that are not served: what may be a send in one of them is refused, since it would pass guard and identity by (semantics 7).

use http::Method;

/// A binding of A2A other than JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// HTTP verbs and paths.
    HttpJson,
    /// gRPC.
    Grpc,
}

impl Foreign {
    /// Tells the binding of a request by its method, path and content type; `None`: an operation of neither.
    pub fn of(method: &Method, path: &str, content_type: Option<&str>) -> Option<Self> {
        if content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/grpc")) {
            return Some(Self::Grpc);
        }
        // Express, under the JavaScript SDK, takes a path in any case.
        let path = decoded(path).to_ascii_lowercase();
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        is_operation(method, &segments).then_some(Self::HttpJson)
    }

    /// The answer: an HTTP status, a content type, and a body.
    pub fn refusal(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::HttpJson => (501, "application/json", HTTP_JSON),
            // The status of gRPC stands in a header.
            Self::Grpc => (200, "application/grpc", ""),
        }
    }
}

const HTTP_JSON: &str = "{\"error\":{\"code\":501,\"status\":\"UNIMPLEMENTED\",\
     \"message\":\"HTTP+JSON is not served here: call the JSON-RPC interface that the agent card names\",\
     \"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"BINDING_NOT_SERVED\",\"domain\":\"a2a-multiturn\"}]}}";

/// The paths of HTTP+JSON in lower case, under whatever prefix: of both dialects, with and without a tenant.
fn is_operation(method: &Method, segments: &[&str]) -> bool {
    match segments {
        [.., "message:send" | "message:stream" | "extendedagentcard"] | [.., "v1", "card"] => true,
        // As the clients of 0.2 fetched it, which some agents of 0.3 still serve.
        [.., "agent", "authenticatedextendedcard"] => true,
        // The methods of gRPC with JSON in their bodies (Connect).
        [.., service, _] if service.ends_with(".a2aservice") => true,
        [.., "tasks"] => method == Method::GET,
        [.., "tasks", _] => true,
        [.., "tasks", _, "pushnotificationconfigs"] | [.., "tasks", _, "pushnotificationconfigs", _] => true,
        _ => false,
    }
}

/// A path with its percent-encoding undone: the agent behind reads it so.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
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
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_from_other_paths() {
        let post = |path| Foreign::of(&Method::POST, path, Some("application/json"));
        for path in [
            "/message:send",
            "/rest/message:stream",
            "/v1/message:send",
            "/t-1/message%3Asend",
            "/rest/MESSAGE:Send",
            "/x/tasks/1:cancel",
            "/tasks/1/pushNotificationConfigs",
            "/lf.a2a.v1.A2AService/SendMessage",
        ] {
            assert_eq!(post(path), Some(Foreign::HttpJson), "{path}");
        }
        for path in ["/", "/a2a", "/tasks", "/message", "/mytasks/1", "/tasks/1/notes", "/message:send/x"] {
            assert_eq!(post(path), None, "{path}");
        }
        let get = |path| Foreign::of(&Method::GET, path, None);
        for path in
            ["/tasks", "/v1/Tasks/abc", "/rest/v1/card", "/extendedAgentCard", "/agent/authenticatedExtendedCard"]
        {
            assert_eq!(get(path), Some(Foreign::HttpJson), "{path}");
        }
        assert_eq!(get("/.well-known/agent-card.json"), None);
        assert_eq!(
            Foreign::of(&Method::POST, "/lf.a2a.v1.A2AService/SendMessage", Some("application/grpc+proto")),
            Some(Foreign::Grpc)
        );
    }
}
