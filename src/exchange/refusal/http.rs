//! A refusal over HTTP+JSON: the status says what kind it is, the body says the rest.
//!
//! A stream is refused so too, before it begins: all official clients read the status first, while an event with an error in it reads as an
//! odd task to half of them.

use super::Refusal;
use crate::a2a::Dialect;
use crate::json::quote;

/// How a kind of refusal is told.
struct Told {
    /// The HTTP status in 1.0.
    v10: u16,
    /// Its name as gRPC has it.
    name: &'static str,
    /// The HTTP status in 0.3, where there is no rule but what its servers do.
    v03: u16,
    /// The reason where the refusal names none.
    reason: Option<&'static str>,
    /// What 1.0's client of 0.3 servers tells an error by.
    kind: Option<&'static str>,
}

impl Refusal {
    /// The HTTP status with which it is told over HTTP+JSON.
    pub fn http_status(&self, dialect: Dialect) -> u16 {
        let told = self.told();
        match (self.status, dialect) {
            (200, Dialect::V10) => self.over_http.unwrap_or(told.v10),
            (200, Dialect::V03 | Dialect::Proto03) => self.over_http.unwrap_or(told.v03),
            (own, _) => own,
        }
    }

    /// Whether the same request may do later.
    pub fn is_for_now(&self) -> bool {
        matches!(self.reason, Some("CONTEXT_BUSY" | "STORE_UNAVAILABLE" | "RATE_LIMITED"))
    }

    /// The body in `dialect`.
    pub(super) fn http_body(&self, dialect: Dialect) -> String {
        let told = self.told();
        let words = quote(&self.message);
        let reason = self.reason.or(told.reason);
        let details = reason.map(|reason| self.details_with(reason));
        if dialect.is_of_03() {
            let kind = told.kind.map(|kind| format!(",\"type\":\"{kind}\"")).unwrap_or_default();
            let data = details.map(|details| format!(",\"data\":{details}")).unwrap_or_default();
            return format!("{{\"code\":{},\"message\":{words}{kind}{data}}}", self.code);
        }
        let details = details.map(|details| format!(",\"details\":{details}")).unwrap_or_default();
        let (status, name) = (self.http_status(dialect), told.name);
        format!("{{\"error\":{{\"code\":{status},\"status\":\"{name}\",\"message\":{words}{details}}}}}")
    }

    fn told(&self) -> Told {
        let told = |v10, name, v03, reason, kind| Told { v10, name, v03, reason, kind };
        match (self.reason, self.code) {
            (Some("CONTEXT_BUSY"), _) => told(409, "ABORTED", 409, None, None),
            (Some("UPSTREAM_UNREACHABLE"), _) => told(502, "UNAVAILABLE", 502, None, None),
            (Some("UPSTREAM_TIMEOUT"), _) => told(504, "DEADLINE_EXCEEDED", 504, None, None),
            (Some("UPSTREAM_MALFORMED" | "REPLY_TOO_LARGE"), _) => told(502, "INTERNAL", 502, None, None),
            (Some("STORE_UNAVAILABLE"), _) => told(503, "UNAVAILABLE", 503, None, None),
            (Some("RATE_LIMITED"), _) => told(429, "RESOURCE_EXHAUSTED", 429, None, None),
            (_, -32001) => told(404, "NOT_FOUND", 404, None, Some("TaskNotFoundError")),
            (_, -32002) => told(400, "FAILED_PRECONDITION", 409, None, Some("TaskNotCancelableError")),
            (_, -32003) => told(400, "FAILED_PRECONDITION", 501, None, Some("PushNotificationNotSupportedError")),
            (_, -32004) => told(400, "FAILED_PRECONDITION", 400, None, Some("UnsupportedOperationError")),
            (_, -32601) => told(404, "NOT_FOUND", 404, Some("METHOD_NOT_FOUND"), Some("MethodNotFoundError")),
            (_, -32602) => told(400, "INVALID_ARGUMENT", 422, Some("INVALID_PARAMS"), Some("InvalidParamsError")),
            (_, -32600 | -32700) => {
                told(400, "INVALID_ARGUMENT", 400, Some("INVALID_REQUEST"), Some("InvalidRequestError"))
            }
            _ => told(500, "INTERNAL", 500, None, None),
        }
    }
}
