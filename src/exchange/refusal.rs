//! What the proxy refuses, and how it says so: in one place, so that nothing of it depends on where it was noticed.

mod http;

use crate::a2a::rest::Misread;
use crate::a2a::{self, Binding, Dialect, EXTENSION_URI, Part, Role, State, jsonrpc, message};
use crate::json::quote;

/// The code of a refusal because a turn is in flight. Clients replace the text of -32004 with their own, so it is none of A2A's.
pub const BUSY_CODE: i32 = -32050;

/// Whose words the reasons in an error's details are.
const DOMAIN: &str = "a2a-multiturn";

/// A refusal, in no binding yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The JSON-RPC code.
    pub code: i32,
    /// What is wrong, and what the client can do; never empty.
    pub message: String,
    /// The reason in the error's one ErrorInfo.
    pub reason: Option<&'static str>,
    /// What else the ErrorInfo says.
    pub details: Vec<(&'static str, String)>,
    /// The HTTP status in either binding, where it is always the same; 200: on JSON-RPC 200, on HTTP+JSON one by the kind of refusal.
    pub status: u16,
    /// The HTTP status on HTTP+JSON, where the kind does not say it.
    pub over_http: Option<u16>,
}

impl Refusal {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), reason: None, details: Vec::new(), status: 200, over_http: None }
    }

    fn because(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: Some(reason), ..Self::new(-32603, message) }
    }

    /// The request is no JSON (semantics of JSON-RPC: -32700).
    pub fn parse_error(at: usize) -> Self {
        Self::new(-32700, format!("the request is not valid JSON at byte {at}"))
    }

    /// The request may be a send and cannot be read as one.
    pub fn unreadable(code: i32, why: &str) -> Self {
        Self::new(code, why)
    }

    /// The request's body is in a charset that cannot be read.
    pub fn charset(charset: &str) -> Self {
        Self { status: 415, ..Self::new(-32600, format!("a body in charset {charset} cannot be read; UTF-8 can")) }
    }

    /// A method that the dialect does not have.
    pub fn no_method(name: &str) -> Self {
        Self::new(-32601, format!("Method not found: {name}"))
    }

    /// A path that some server takes for an operation, in a spelling that is not served.
    pub fn misread(misread: Misread) -> Self {
        let (status, why) = match misread {
            Misread::Spelling => (404, "no operation is served under this spelling of its path"),
            Misread::Method => (405, "the operation has another HTTP method"),
            Misread::Id => (404, "the task's id in the path can be read as something else"),
        };
        Self { over_http: Some(status), ..Self::new(-32601, why) }
    }

    /// The request says that it is to be read with another HTTP method than its own.
    pub fn overridden(header: &str) -> Self {
        Self::new(-32600, format!("{header} is not served: send the operation with its own HTTP method"))
    }

    /// A parameter is not as it must be.
    pub fn invalid_params(why: impl Into<String>) -> Self {
        Self::new(-32602, why)
    }

    /// The request, or the message with all that goes with it, is larger than the limit.
    pub fn too_large(limit: usize) -> Self {
        let why = format!("the message is larger than the limit of {limit} bytes");
        Self { over_http: Some(413), ..Self::invalid_params(why) }
    }

    /// The request is larger than the limit, and was not read.
    pub fn not_read(limit: usize) -> Self {
        Self { status: 413, ..Self::too_large(limit) }
    }

    /// The proxy stops before the agent's answer is there.
    pub fn stopping() -> Self {
        let message = "the proxy stops before the agent's answer is there; a task that it named can be asked for later";
        Self { reason: Some("PROXY_STOPPING"), ..Self::new(-32603, message) }
    }

    /// The client closed its side before the answer was there, on a route that aborts then: one that only half-closed reads this.
    pub fn client_left() -> Self {
        Self::new(-32603, "the client closed its side of the connection, and the call was aborted")
    }

    /// The request did not come to its end in time.
    pub fn stalled() -> Self {
        Self { status: 408, ..Self::new(-32600, "the request's body stalled") }
    }

    /// The request's body is encoded in a way that cannot be read.
    pub fn encoded(encoding: &str) -> Self {
        Self { status: 415, ..Self::new(-32600, format!("a body with content-encoding {encoding} cannot be read")) }
    }

    /// No such task: the same for an id without record and for somebody else's.
    pub fn task_not_found() -> Self {
        Self { reason: Some("TASK_NOT_FOUND"), ..Self::new(-32001, "Task not found") }
    }

    /// A message to a task that has ended.
    pub fn terminal(task: &str, state: State) -> Self {
        let why = format!(
            "Task {task} is in terminal state: {state}. Send the message without taskId to go on in its context"
        );
        Self { reason: Some("UNSUPPORTED_OPERATION"), ..Self::new(-32004, why) }
    }

    /// A subscription to a task that has ended.
    pub fn ended(task: &str, state: State) -> Self {
        let why = format!("Task {task} is in terminal state: {state}");
        Self { reason: Some("UNSUPPORTED_OPERATION"), ..Self::new(-32004, why) }
    }

    /// A message names a task and another context than the task's.
    pub fn mismatch(task: &str) -> Self {
        Self::invalid_params(format!("contextId is not that of task {task}"))
    }

    /// Push notifications would tell the client another state than the proxy does.
    pub fn push_not_supported() -> Self {
        Self {
            reason: Some("PUSH_NOTIFICATION_NOT_SUPPORTED"),
            ..Self::new(-32003, "Push notifications are not supported")
        }
    }

    /// An operation that is not served.
    pub fn unsupported(what: &str) -> Self {
        Self { reason: Some("UNSUPPORTED_OPERATION"), ..Self::new(-32004, format!("{what} is not supported")) }
    }

    /// A task that cannot be cancelled (any more).
    pub fn not_cancelable(state: State) -> Self {
        Self {
            reason: Some("TASK_NOT_CANCELABLE"),
            ..Self::new(-32002, format!("Task cannot be canceled: it is {state}"))
        }
    }

    /// Another turn is in flight in the context.
    pub fn busy(in_flight: Option<&str>) -> Self {
        let details = in_flight.map(|task| ("inFlightTaskId", task.to_owned())).into_iter();
        let details = details.chain([("retryAfterMs", RETRY_MS.to_owned())]).collect();
        Self { reason: Some("CONTEXT_BUSY"), details, ..Self::new(BUSY_CODE, busy_words(in_flight)) }
    }

    /// The message was taken back before it was sent.
    pub fn withdrawn() -> Self {
        Self::new(-32603, "the message was withdrawn before its turn came")
    }

    /// The agent could not be reached, or went away without an answer.
    pub fn unreachable() -> Self {
        Self::because("UPSTREAM_UNREACHABLE", "the agent could not be reached")
    }

    /// The agent took too long.
    pub fn timeout() -> Self {
        Self::because("UPSTREAM_TIMEOUT", "the agent did not answer in time")
    }

    /// What the agent answered is not A2A.
    pub fn malformed(what: &str) -> Self {
        Self::because("UPSTREAM_MALFORMED", format!("the agent's answer cannot be read: {what}"))
    }

    /// What the agent answered is larger than can be read.
    pub fn reply_too_large(limit: usize) -> Self {
        Self::because("REPLY_TOO_LARGE", format!("the agent's answer is larger than the limit of {limit} bytes"))
    }

    /// The conversation's store does not answer.
    pub fn store_unavailable() -> Self {
        Self::because("STORE_UNAVAILABLE", "the conversation store is unavailable")
    }

    /// The turn was answered, and its record was lost: a client that went on would go on from something else.
    pub fn not_recorded() -> Self {
        Self::because("NOT_RECORDED", "the turn could not be recorded")
    }

    /// Something in the proxy failed.
    pub fn internal() -> Self {
        Self::new(-32603, "internal error")
    }

    /// The body of the answer that says so, or the data of an event that does (see [`error_event`]).
    pub fn body(&self, binding: &Binding) -> String {
        match binding {
            Binding::JsonRpc { id } => jsonrpc::error(id, self.code, &self.message, self.data().as_deref()),
            Binding::HttpJson { dialect } => self.http_body(*dialect),
        }
    }

    /// A list with one ErrorInfo: a client that decodes typed details fails on anything but a list.
    fn data(&self) -> Option<String> {
        Some(self.details_with(self.reason?))
    }

    fn details_with(&self, reason: &str) -> String {
        let details: Vec<_> = self.details.iter().map(|(name, text)| format!("\"{name}\":{}", quote(text))).collect();
        let metadata =
            if details.is_empty() { String::new() } else { format!(",\"metadata\":{{{}}}", details.join(",")) };
        // A2A's own reasons stand under A2A's own domain.
        let domain = if matches!(self.code, -32009..=-32001 | -32700..=-32600) && self.code != -32603 {
            "a2a-protocol.org"
        } else {
            DOMAIN
        };
        format!(
            "[{{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"{reason}\",\"domain\":\"{domain}\"{metadata}}}]"
        )
    }
}

const RETRY_MS: &str = "1000";

fn busy_words(in_flight: Option<&str>) -> String {
    let task = in_flight.map(|task| format!(" (task {task})")).unwrap_or_default();
    format!("Another turn is in flight in this context{task}. Wait until it has ended, then send the message again")
}

/// The task with which a send is refused while another is in flight: `failed`, of an id of its own (`ids`: task and context). `message_id`
/// becomes the status message's, `in_flight` is the task that runs, as far as its id is known.
pub fn busy_task(
    dialect: Dialect,
    ids: (&str, &str),
    message_id: &str,
    in_flight: Option<&str>,
    timestamp: &str,
) -> String {
    let task = in_flight.map(|task| format!(",\"in_flight_task\":{}", quote(task))).unwrap_or_default();
    let own =
        format!("{{\"{EXTENSION_URI}\":{{\"reason\":\"context_busy\",\"retry_after_ms\":\"{RETRY_MS}\"{task}}}}}");
    let parts = [Part::Text(busy_words(in_flight))];
    let words = message(dialect, Role::Agent, message_id, &parts, ids, Some(&own));
    a2a::task(dialect, ids, State::Failed, Some(&words), timestamp, &[format!("\"metadata\":{own}")])
}

/// An event of a stream with `json` as its data, on one line: where it was pretty-printed, line ends stand between its values alone.
pub fn sse_event(json: &str) -> String {
    if json.contains(['\n', '\r']) {
        return sse_event(&json.replace(['\n', '\r'], " "));
    }
    format!("data: {json}\n\n")
}

/// An event that tells an error (JSON): over HTTP+JSON it says so in its name, since its data is of another kind than the others'.
pub fn error_event(json: &str, binding: &Binding) -> String {
    match binding {
        Binding::JsonRpc { .. } => sse_event(json),
        Binding::HttpJson { .. } => format!("event: error\n{}", sse_event(json)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_a_list_and_messages_are_never_empty() {
        for refusal in [
            Refusal::busy(Some("t\"1")),
            Refusal::task_not_found(),
            Refusal::terminal("t", State::Completed),
            Refusal::timeout(),
            Refusal::too_large(10),
            Refusal::parse_error(3),
        ] {
            let text = refusal.body(&Binding::JsonRpc { id: "\"x\"".to_owned() });
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["id"], "x");
            assert!(!json["error"]["message"].as_str().unwrap().is_empty());
            assert!(json["error"].get("data").is_none_or(serde_json::Value::is_array), "{text}");
        }
        assert!(Refusal::terminal("t", State::Failed).message.contains("is in terminal state"));
    }

    #[test]
    fn a_busy_task_is_a_task_in_both_dialects() {
        for (dialect, state) in [(Dialect::V03, "failed"), (Dialect::V10, "TASK_STATE_FAILED")] {
            let text = busy_task(dialect, ("r", "c"), "m", Some("t-1"), "2026-01-01T00:00:00.000Z");
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json["status"]["state"], state);
            assert!(json["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("t-1"));
            assert_eq!(json["metadata"][EXTENSION_URI]["in_flight_task"], "t-1");
        }
    }
}
