//! Bindings that are not served: what may be a send in one of them is refused, since it would pass guard and identity by (semantics 7).

use crate::a2a::rest::decoded;

/// A binding of A2A that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// The methods of gRPC with JSON in their bodies.
    Connect,
    /// What the clients of 0.2 fetched an extended card with, which some agents of 0.3 still serve.
    Bygone,
    /// gRPC.
    Grpc,
}

impl Foreign {
    /// Tells the binding of a request by its path and content type; `None`: an operation of neither.
    pub fn of(path: &str, content_type: Option<&str>) -> Option<Self> {
        if content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/grpc")) {
            return Some(Self::Grpc);
        }
        // Express, under the JavaScript SDK, takes a path in any case.
        let path = String::from_utf8_lossy(&decoded(path)).to_lowercase();
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        match segments[..] {
            [.., "agent", "authenticatedextendedcard"] => Some(Self::Bygone),
            [.., service, _] if service.ends_with(".a2aservice") => Some(Self::Connect),
            _ => None,
        }
    }

    /// The answer: an HTTP status, a content type, and a body.
    pub fn refusal(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Connect | Self::Bygone => (501, "application/json", NOT_SERVED),
            // The status of gRPC stands in a header.
            Self::Grpc => (200, "application/grpc", ""),
        }
    }
}

const NOT_SERVED: &str = "{\"error\":{\"code\":501,\"status\":\"UNIMPLEMENTED\",\
     \"message\":\"this binding is not served here: call an interface that the agent card names\",\
     \"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"BINDING_NOT_SERVED\",\"domain\":\"a2a-multiturn\"}]}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_told_from_other_paths() {
        let of = |path| Foreign::of(path, Some("application/json"));
        assert_eq!(of("/lf.a2a.v1.A2AService/SendMessage"), Some(Foreign::Connect));
        assert_eq!(of("/x/lf.a2a.v1.%41%32AService/SendMessage"), Some(Foreign::Connect));
        assert_eq!(of("/agent/authenticatedExtendedCard"), Some(Foreign::Bygone));
        for path in ["/", "/a2a", "/message:send", "/tasks/1", "/.well-known/agent-card.json"] {
            assert_eq!(of(path), None, "{path}");
        }
        let grpc = Foreign::of("/lf.a2a.v1.A2AService/SendMessage", Some("application/grpc+proto"));
        assert_eq!(grpc, Some(Foreign::Grpc));
    }
}
