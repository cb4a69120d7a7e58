//! A request that the proxy has a word in, and the binding that carries it and what answers it.

use serde::{Deserialize, Serialize};

use super::{Dialect, Payload, Shape, jsonrpc};
use crate::json::{Edits, Kind, Value};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `message/send`, `SendMessage`.
    Send,
    /// `message/stream`, `SendStreamingMessage`.
    Stream,
    /// `tasks/get`, `GetTask`.
    Get,
    /// `ListTasks` (0.3 has none on JSON-RPC).
    List,
    /// `tasks/cancel`, `CancelTask`.
    Cancel,
    /// `tasks/resubscribe`, `SubscribeToTask`.
    Subscribe,
    /// `tasks/pushNotificationConfig/set` and its kin.
    Push(Push),
    /// `agent/getAuthenticatedExtendedCard`, `GetExtendedAgentCard`.
    ExtendedCard,
}

/// What a method of push configurations does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Push {
    /// `tasks/pushNotificationConfig/set`, `CreateTaskPushNotificationConfig`.
    Set,
    /// `…/get`, `GetTaskPushNotificationConfig`.
    Get,
    /// `…/list`, `ListTaskPushNotificationConfigs`.
    List,
    /// `…/delete`, `DeleteTaskPushNotificationConfig`.
    Delete,
}

impl Verb {
    /// Whether the answer is a stream: told by the method and not by `Accept`.
    pub fn streams(self) -> bool {
        matches!(self, Self::Stream | Self::Subscribe)
    }
}

/// A request that the proxy has a word in.
#[derive(Clone, Debug)]
pub struct Call<'d, 't> {
    /// What it asks for.
    pub verb: Verb,
    /// In which dialect.
    pub dialect: Dialect,
    /// How it is carried, and what answers it.
    pub binding: Binding,
    /// Where it was sent.
    pub endpoint: Endpoint,
    /// Its parameters.
    pub params: Value<'d, 't>,
    /// What else goes with it over HTTP+JSON.
    pub along: Along,
}

impl Call<'_, '_> {
    /// How it was called: so the proxy calls for it, too.
    pub fn voice(&self) -> Voice {
        Voice { dialect: self.dialect, endpoint: Some(self.endpoint.clone()) }
    }
}

/// What goes with a request over HTTP+JSON beside its parameters, to be passed on with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// The query, without its question mark.
    pub query: String,
    /// The body of an operation on a task, without the ids that stand in its path.
    pub body: String,
}

/// Where an agent takes calls, as a client reaches it, and how they are carried there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Endpoint {
    /// One path (and query) for all.
    JsonRpc {
        /// Path and query.
        target: String,
    },
    /// A path for each operation.
    HttpJson {
        /// What they have in front.
        base: String,
    },
}

/// How calls are made: in which dialect, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voice {
    /// The dialect.
    pub dialect: Dialect,
    /// The endpoint; `None`: that of the request at hand.
    pub endpoint: Option<Endpoint>,
}

impl Voice {
    /// Whether what answers the one can be read by who called in the other.
    pub fn is_like(&self, other: &Self) -> bool {
        let over_http = |voice: &Self| matches!(voice.endpoint, Some(Endpoint::HttpJson { .. }));
        self.dialect == other.dialect && over_http(self) == over_http(other)
    }
}

/// How a request is carried, and with it everything that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A result or an error in an envelope with the request's own id.
    JsonRpc {
        /// The request's id, as it was written; `null` where it has none.
        id: String,
    },
    /// The result itself; what went wrong is told by the HTTP status.
    HttpJson {
        /// The dialect, in which errors are spelled too.
        dialect: Dialect,
    },
}

impl Binding {
    /// JSON-RPC under no id: of a request that could not be read, or of the proxy's own.
    pub fn json_rpc() -> Self {
        Self::JsonRpc { id: "null".to_owned() }
    }

    /// The request's id as JSON-RPC wrote it; `null` where the binding has none.
    pub fn id(&self) -> &str {
        match self {
            Self::JsonRpc { id } => id,
            Self::HttpJson { .. } => "null",
        }
    }

    /// The result in an answer or an event; `None` where there is none, an error in its place among it.
    pub fn result_of<'d, 't>(&self, root: Value<'d, 't>) -> Option<Value<'d, 't>> {
        match self {
            Self::JsonRpc { .. } => root.some("result"),
            Self::HttpJson { .. } => (root.kind() == Kind::Object && self.error_of(root).is_none()).then_some(root),
        }
    }

    /// The error in an answer or an event.
    pub fn error_of<'d, 't>(&self, root: Value<'d, 't>) -> Option<Value<'d, 't>> {
        let bare = || {
            let is_http = matches!(self, Self::HttpJson { .. });
            // 0.3 has nothing around it, and a message of the protocol's is an object.
            root.some("message").filter(|words| is_http && words.kind() == Kind::String).map(|_| root)
        };
        root.some("error").or_else(bare)
    }

    /// What an answer or an event says, and how it spells it.
    pub fn payload_of<'d, 't>(&self, root: Value<'d, 't>) -> Option<(Payload<'d, 't>, Shape)> {
        let (payload, shape) = Payload::read(self.result_of(root)?)?;
        match (self, shape.dialect) {
            // The protobuf form of 0.3 has 1.0's words, by which it is not told.
            (Self::HttpJson { dialect: Dialect::Proto03 }, Dialect::V10) => {
                Some((payload, Shape { dialect: Dialect::Proto03, ..shape }))
            }
            _ => Some((payload, shape)),
        }
    }

    /// Whether an answer says that there is no such task. `status` is its HTTP status.
    pub fn says_not_found(&self, root: Value<'_, '_>, status: u16) -> bool {
        let Some(error) = self.error_of(root) else { return false };
        let code = error.some("code").map(|code| code.raw());
        match self {
            Self::JsonRpc { .. } => code == Some("-32001"),
            Self::HttpJson { .. } => {
                let reasons = error.some("details").into_iter().flat_map(|details| details.elements());
                let mut reasons = reasons.filter_map(|detail| detail.some("reason")?.str());
                status == 404 && reasons.all(|reason| reason == "TASK_NOT_FOUND") && code != Some("-32601")
            }
        }
    }

    /// A result (JSON), as an answer or as the data of an event.
    pub fn wrap(&self, result: &str) -> String {
        match self {
            Self::JsonRpc { id } => jsonrpc::result(id, result),
            Self::HttpJson { .. } => result.to_owned(),
        }
    }

    /// Makes an answer or an event one to this request: one whose JSON-RPC id is another gets the request's, since clients compare it strictly.
    pub fn readdress(&self, edits: &mut Edits, root: Value<'_, '_>) {
        let Self::JsonRpc { id } = self else { return };
        match root.get("id") {
            Some(value) if value.raw() == id => {}
            Some(value) => edits.replace(value.range(), &**id),
            None => edits.set_member(root, "id", id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Doc;

    #[test]
    fn what_is_wrapped_is_found_again() {
        for binding in [
            Binding::JsonRpc { id: "\"x\"".to_owned() },
            Binding::json_rpc(),
            Binding::HttpJson { dialect: Dialect::V10 },
        ] {
            let text = binding.wrap("{\"id\":\"t-1\"}");
            let doc = Doc::scan(text.as_bytes()).unwrap();
            assert_eq!(binding.result_of(doc.root()).map(|result| result.raw()), Some("{\"id\":\"t-1\"}"));
            assert!(binding.error_of(doc.root()).is_none());
            let mut edits = Edits::new();
            binding.readdress(&mut edits, doc.root());
            assert!(edits.is_empty(), "{text}");
        }
    }

    #[test]
    fn an_error_is_no_result() {
        let doc = Doc::scan(br#"{"id":1,"error":{"code":404}}"#).unwrap();
        for binding in [Binding::json_rpc(), Binding::HttpJson { dialect: Dialect::V10 }] {
            assert!(binding.result_of(doc.root()).is_none() && binding.error_of(doc.root()).is_some());
        }
    }

    #[test]
    fn an_answer_of_json_rpc_gets_the_request_s_id() {
        for (text, expected) in
            [(r#"{"id":2,"result":1}"#, r#"{"id":"a","result":1}"#), (r#"{"result":1}"#, r#"{"result":1,"id":"a"}"#)]
        {
            let doc = Doc::scan(text.as_bytes()).unwrap();
            let mut edits = Edits::new();
            Binding::JsonRpc { id: "\"a\"".to_owned() }.readdress(&mut edits, doc.root());
            assert_eq!(edits.apply(text), expected);
            let mut edits = Edits::new();
            Binding::HttpJson { dialect: Dialect::V10 }.readdress(&mut edits, doc.root());
            assert!(edits.is_empty(), "an id there is a task's");
        }
    }
}
