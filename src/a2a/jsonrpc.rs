//! The JSON-RPC binding: requests by method name, answers with the request's own id.

use super::{Along, Binding, Call, Dialect, Endpoint, Push, Verb};
use crate::json::{Kind, Value, quote};

/// The methods by name: the name alone tells the dialect, since one server serves both under one URL.
const METHODS: [(&str, Verb, Dialect); 22] = [
    ("message/send", Verb::Send, Dialect::V03),
    ("message/stream", Verb::Stream, Dialect::V03),
    ("tasks/get", Verb::Get, Dialect::V03),
    // Not of 0.3, and served by some: what such an agent would list is everybody's.
    ("tasks/list", Verb::List, Dialect::V03),
    ("tasks/cancel", Verb::Cancel, Dialect::V03),
    ("tasks/resubscribe", Verb::Subscribe, Dialect::V03),
    ("tasks/pushNotificationConfig/set", Verb::Push(Push::Set), Dialect::V03),
    ("tasks/pushNotificationConfig/get", Verb::Push(Push::Get), Dialect::V03),
    ("tasks/pushNotificationConfig/list", Verb::Push(Push::List), Dialect::V03),
    ("tasks/pushNotificationConfig/delete", Verb::Push(Push::Delete), Dialect::V03),
    ("agent/getAuthenticatedExtendedCard", Verb::ExtendedCard, Dialect::V03),
    ("SendMessage", Verb::Send, Dialect::V10),
    ("SendStreamingMessage", Verb::Stream, Dialect::V10),
    ("GetTask", Verb::Get, Dialect::V10),
    ("ListTasks", Verb::List, Dialect::V10),
    ("CancelTask", Verb::Cancel, Dialect::V10),
    ("SubscribeToTask", Verb::Subscribe, Dialect::V10),
    ("CreateTaskPushNotificationConfig", Verb::Push(Push::Set), Dialect::V10),
    ("GetTaskPushNotificationConfig", Verb::Push(Push::Get), Dialect::V10),
    ("ListTaskPushNotificationConfigs", Verb::Push(Push::List), Dialect::V10),
    ("DeleteTaskPushNotificationConfig", Verb::Push(Push::Delete), Dialect::V10),
    ("GetExtendedAgentCard", Verb::ExtendedCard, Dialect::V10),
];

/// The name of a verb's method in `dialect`.
pub fn method(verb: Verb, dialect: Dialect) -> &'static str {
    METHODS
        .iter()
        .find(|(_, of, spoken)| *of == verb && spoken.is_of_03() == dialect.is_of_03())
        .map_or("ListTasks", |(name, ..)| name)
}

/// A request that may be a send, and cannot be read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable<'t> {
    /// The id to answer with: the request's, or `null`.
    pub id: &'t str,
    /// -32600, -32601 or -32602.
    pub code: i32,
    /// What is wrong.
    pub why: &'static str,
}

/// Reads a request. `None`: no operation on messages or tasks, to be passed on as it came.
///
/// # Errors
/// [`Unreadable`] for what may be a send but is not readable as one: a batch with one in it, an operation without a usable id (A2A has no
/// notifications), an object in which a name stands twice.
pub fn read<'d, 't>(root: Value<'d, 't>) -> Result<Option<Call<'d, 't>>, Unreadable<'t>> {
    if root.elements().any(|element| operation(element).is_some() || is_bygone(element)) {
        return Err(Unreadable { id: "null", code: -32600, why: "batches are not served" });
    }
    let id = root.get("id").filter(|id| matches!(id.kind(), Kind::String | Kind::Number | Kind::Null));
    let unreadable = |code, why| Unreadable { id: id.map_or("null", |id| id.raw()), code, why };
    if is_bygone(root) {
        return Err(unreadable(-32601, "A2A before 0.3 is not served: call message/send or message/stream"));
    }
    let Some((verb, dialect)) = operation(root) else { return Ok(None) };
    if root.has_duplicate_names() {
        return Err(unreadable(-32600, "a member stands twice in the request"));
    }
    if misspelled(root, &["jsonrpc", "id", "method", "params"]).is_some() {
        return Err(unreadable(-32600, "a member of the request is not spelled as JSON-RPC has it"));
    }
    let Some(id) = id else { return Err(unreadable(-32600, "an id is required: a string, a number or null")) };
    let params = root.some("params").filter(|params| params.kind() == Kind::Object);
    let Some(params) = params.or_else(|| matches!(verb, Verb::List | Verb::ExtendedCard).then_some(root)) else {
        return Err(unreadable(-32602, "params is required, an object"));
    };
    if params.has_duplicate_names() {
        return Err(unreadable(-32602, "a member stands twice in params"));
    }
    if misspelled(params, &["message", "configuration", "id", "historyLength", "metadata"]).is_some() {
        return Err(unreadable(-32602, "a member of params is not spelled as A2A has it"));
    }
    let (binding, endpoint) =
        (Binding::JsonRpc { id: id.raw().to_owned() }, Endpoint::JsonRpc { target: String::new() });
    Ok(Some(Call { verb, dialect, binding, endpoint, params, along: Along::default() }))
}

/// The first member of `object` that some readers take for one of `names` although it is spelled otherwise: Python's SDKs also read
/// `task_id`, Go's JSON also `TaskID`. What it says would pass the guard by, and who is calling.
pub fn misspelled(object: Value<'_, '_>, names: &[&str]) -> Option<String> {
    let odd = object.members().filter(|member| !member.value.is_null() && !names.contains(&&*member.name()));
    odd.map(|member| member.name().into_owned()).find(|odd| names.iter().any(|name| reads_alike(odd, name)))
}

fn reads_alike(left: &str, right: &str) -> bool {
    folded(left).eq(folded(right))
}

/// Letters that differ in case alone, those that fold onto ASCII among them, without underscores.
fn folded(name: &str) -> impl Iterator<Item = char> + '_ {
    let letters = name.chars().filter(|letter| *letter != '_');
    letters.flat_map(char::to_lowercase).map(|letter| if letter == 'ſ' { 's' } else { letter })
}

/// The sends of A2A 0.1 and 0.2, which an agent may still serve.
const BYGONE: [&str; 2] = ["tasks/send", "tasks/sendSubscribe"];

fn is_bygone(request: Value<'_, '_>) -> bool {
    names(request).any(|name| BYGONE.contains(&&*name))
}

fn names<'t>(request: Value<'_, 't>) -> impl Iterator<Item = std::borrow::Cow<'t, str>> {
    let methods = request.members().filter(|member| reads_alike(&member.name(), "method"));
    methods.filter_map(|member| member.value.str())
}

/// The operation that a request names; of several members called `method` any counts, since readers differ in which they take.
fn operation(request: Value<'_, '_>) -> Option<(Verb, Dialect)> {
    let found = |name: std::borrow::Cow<'_, str>| METHODS.iter().find(|(method, ..)| name == *method);
    names(request).filter_map(found).map(|(_, verb, dialect)| (*verb, *dialect)).next()
}

/// A response with a result. `id` and `result` are JSON.
pub fn result(id: &str, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// A response with an error. `id` is JSON, `data` a JSON array if it is there: one client decodes it as a list of typed details.
pub fn error(id: &str, code: i32, message: &str, data: Option<&str>) -> String {
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{}{data}}}}}", quote(message))
}

/// A request. `id` and `params` are JSON.
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Doc;

    type Read = Result<Option<(Verb, Dialect, String)>, (String, i32)>;

    fn read(text: &str) -> Read {
        let doc = Doc::scan(text.as_bytes()).unwrap();
        match super::read(doc.root()) {
            Ok(call) => Ok(call.map(|call| (call.verb, call.dialect, call.binding.id().to_owned()))),
            Err(fault) => Err((fault.id.to_owned(), fault.code)),
        }
    }

    #[test]
    fn every_method_is_told_by_its_name() {
        for (name, verb, dialect) in METHODS {
            let text = format!(r#"{{"id":1,"method":"{}","params":{{}}}}"#, name.replace('/', "\\/"));
            assert_eq!(read(&text), Ok(Some((verb, dialect, "1".to_owned()))));
        }
        assert_eq!(read(r#"{"id":1,"method":"agent/unknownThing"}"#), Ok(None));
        for other in [r#"{"hello":1}"#, "[]", "3", "[{\"a\":1}]", r#"{"a":1,"a":2}"#, r#"{"method":"x","method":"y"}"#]
        {
            assert_eq!(read(other), Ok(None), "{other}");
        }
    }

    #[test]
    fn ids_are_kept_as_written() {
        for id in
            ["\"abc\"", "0", "-7", "9007199254740993", "123456789012345678901234567890", "null", "1.50", "\"\\u0041\""]
        {
            let text = format!(r#"{{"id":{id},"method":"message/send","params":{{}}}}"#);
            assert_eq!(read(&text).unwrap().unwrap().2, id);
        }
    }

    #[test]
    fn what_may_be_a_send_and_cannot_be_read_is_refused() {
        for (text, id, code) in [
            (r#"[{"id":1,"method":"message/send","params":{}}]"#, "null", -32600),
            (r#"{"method":"message/send","params":{}}"#, "null", -32600),
            (r#"{"id":{},"method":"message/send","params":{}}"#, "null", -32600),
            (r#"{"id":[1],"method":"SendMessage","params":{}}"#, "null", -32600),
            (r#"{"id":true,"method":"tasks/get","params":{}}"#, "null", -32600),
            (r#"{"id":7,"method":"message/send"}"#, "7", -32602),
            (r#"{"id":7,"method":"tasks/send","params":{"id":"x"}}"#, "7", -32601),
            (r#"{"id":"a","method":"tasks\/sendSubscribe","params":{}}"#, "\"a\"", -32601),
            (r#"{"id":7,"method":"message/send","params":[]}"#, "7", -32602),
            (r#"{"id":7,"method":"tasks/get","method":"message/send","params":{}}"#, "7", -32600),
            (r#"{"id":7,"method":"message/send","params":{"message":1,"message":2}}"#, "7", -32602),
            (r#"{"id":7,"Method":"message/send","params":{"message":1}}"#, "7", -32600),
            (r#"{"id":7,"METHOD":"tasks/get","method":"x","params":{"id":"1"}}"#, "7", -32600),
            (r#"{"id":7,"method":"tasks/get","params":{"id":"mine","ID":"theirs"}}"#, "7", -32602),
            (r#"{"id":7,"method":"message/send","params":{"message":1,"me\u017fsage":2}}"#, "7", -32602),
        ] {
            assert_eq!(read(text), Err((id.to_owned(), code)), "{text}");
        }
    }
}
