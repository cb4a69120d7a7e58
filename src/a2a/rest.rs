//! The HTTP+JSON binding: requests by verb and path, answers with nothing around them.
//!
//! Servers differ in how they read a path: letters in any case, escapes undone before or after it is taken apart, slashes that lead nowhere.
//! So an operation is told by the widest reading, and served in the one spelling that A2A has: what any server may take for an operation
//! is either understood here or refused, and never passed on.

mod body;
mod path;

pub use body::{Canonical, canonical, in_query, params, push_params};
pub use path::{Misread, Operation, decoded, encoded, may_be_any};

use super::{Binding, Dialect, Verb};

/// A request to the agent, in its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The HTTP method.
    pub method: http::Method,
    /// Path and query; `None`: the client's own.
    pub target: Option<String>,
    /// The body; empty where there is none.
    pub body: String,
}

impl Request {
    /// A request for an operation on one task of the agent's, under `base`. `query` stands without its question mark, `body` is sent where the
    /// operation takes one.
    pub fn on_task(verb: Verb, base: &str, id: &str, dialect: Dialect, query: &str, body: &str) -> Self {
        use http::Method;
        let (method, suffix) = match verb {
            Verb::Cancel => (Method::POST, ":cancel"),
            // The widespread servers of 0.3 have it as a GET alone, 1.0's text has it as a POST.
            Verb::Subscribe if dialect.is_of_03() => (Method::GET, ":subscribe"),
            Verb::Subscribe => (Method::POST, ":subscribe"),
            _ => (Method::GET, ""),
        };
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let body = if method == Method::POST { body.to_owned() } else { String::new() };
        Self { method, target: Some(format!("{base}/tasks/{}{suffix}{query}", encoded(id))), body }
    }
}

/// The dialect of a request. `version` is what its `A2A-Version` says, `base` the path in front of the operation.
pub fn dialect(base: &str, version: Option<&str>) -> Dialect {
    let says_10 = version.and_then(Dialect::of_version) == Some(Dialect::V10);
    if base.ends_with("/v1") && !says_10 { Dialect::Proto03 } else { Dialect::V10 }
}

/// How what answers a request in `dialect` is carried.
pub fn binding(dialect: Dialect) -> Binding {
    Binding::HttpJson { dialect }
}
