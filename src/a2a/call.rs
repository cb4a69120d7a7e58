//! A request that the proxy has a word in, and the binding that carries it and what answers it.

use super::{Dialect, jsonrpc};
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
    /// Its parameters.
    pub params: Value<'d, 't>,
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
    HttpJson,
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
            Self::HttpJson => "null",
        }
    }

    /// The result in an answer or an event; `None` where there is none, an error in its place among it.
    pub fn result_of<'d, 't>(&self, root: Value<'d, 't>) -> Option<Value<'d, 't>> {
        match self {
            Self::JsonRpc { .. } => root.some("result"),
            Self::HttpJson => (root.kind() == Kind::Object && self.error_of(root).is_none()).then_some(root),
        }
    }

    /// The error in an answer or an event.
    pub fn error_of<'d, 't>(&self, root: Value<'d, 't>) -> Option<Value<'d, 't>> {
        root.some("error")
    }

    /// A result (JSON), as an answer or as the data of an event.
    pub fn wrap(&self, result: &str) -> String {
        match self {
            Self::JsonRpc { id } => jsonrpc::result(id, result),
            Self::HttpJson => result.to_owned(),
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
        for binding in [Binding::JsonRpc { id: "\"x\"".to_owned() }, Binding::json_rpc(), Binding::HttpJson] {
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
        for binding in [Binding::json_rpc(), Binding::HttpJson] {
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
            Binding::HttpJson.readdress(&mut edits, doc.root());
            assert!(edits.is_empty(), "an id there is a task's");
        }
    }
}
