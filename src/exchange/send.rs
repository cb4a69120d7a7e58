//! A send as the client wrote it.

use http::HeaderMap;

use super::Refusal;
use crate::a2a::{Call, EXTENSION_URI, Message, Part, jsonrpc, read_parts};
use crate::conversation::policy::{HistoryPolicy, Limits};
use crate::json::{Kind, Value};

/// What the client asks of the proxy for this message, under the extension URI in the message's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// A lower history policy than the route's.
    pub history_policy: Option<HistoryPolicy>,
    /// Whether `status.continuation` is wanted; `None`: as the route has it.
    pub inline: Option<bool>,
}

/// A send.
#[derive(Clone, Debug)]
pub struct Send<'d, 't> {
    /// The call.
    pub call: Call<'d, 't>,
    /// Its message.
    pub message: Message<'d, 't>,
    /// The message's parts.
    pub parts: Vec<Part>,
    /// The messageId; empty where there is none.
    pub message_id: String,
    /// The taskId; an empty one counts as none.
    pub task_id: Option<String>,
    /// The contextId; an empty one counts as none.
    pub context_id: Option<String>,
    /// The referenceTaskIds.
    pub references: Vec<String>,
    /// The historyLength.
    pub history_length: Option<u64>,
    /// Whether it carries a push configuration.
    pub pushes: bool,
    /// What is asked of the proxy.
    pub asked: Asked,
}

impl<'d, 't> Send<'d, 't> {
    /// Reads a send.
    ///
    /// # Errors
    /// -32602 where what the proxy decides on cannot be read in one way only: no message, a name that stands twice, an id that is no string
    /// or too long. What else may be wrong with it the agent says.
    pub fn read(call: Call<'d, 't>, limits: &Limits) -> Result<Self, Refusal> {
        let message = call.params.some("message").filter(|message| message.kind() == Kind::Object);
        let message = Message { value: message.ok_or_else(|| Refusal::invalid_params("params.message is required"))? };
        let configuration = call.params.some("configuration");
        once(message.value, "message")?;
        spelled(message.value, &MESSAGE, "message")?;
        if let Some(configuration) = configuration {
            once(configuration, "configuration")?;
            spelled(configuration, &CONFIGURATION, "configuration")?;
        }
        for part in message.part_values() {
            once(part, "a part of the message")?;
        }
        let push = ["pushNotification", "pushNotificationConfig", "taskPushNotificationConfig"];
        Ok(Self {
            call,
            message,
            parts: read_parts(message.value),
            message_id: message.id().unwrap_or_default().into_owned(),
            task_id: id(message.value, "taskId", limits)?,
            context_id: id(message.value, "contextId", limits)?,
            references: references(message.value, limits)?,
            history_length: configuration.and_then(|configuration| configuration.some("historyLength")?.u64()),
            pushes: configuration
                .is_some_and(|configuration| push.iter().any(|name| configuration.some(name).is_some())),
            asked: asked(message.value)?,
        })
    }
}

/// What the proxy reads or changes in a message.
const MESSAGE: [&str; 9] =
    ["content", "messageId", "taskId", "contextId", "referenceTaskIds", "role", "parts", "metadata", "extensions"];

/// What it reads or refuses in a configuration.
const CONFIGURATION: [&str; 4] =
    ["historyLength", "pushNotification", "pushNotificationConfig", "taskPushNotificationConfig"];

/// An agent must not read an id, or a push configuration, where none is seen here.
fn spelled(object: Value<'_, '_>, names: &[&str], what: &str) -> Result<(), Refusal> {
    match jsonrpc::misspelled(object, names) {
        Some(odd) => Err(Refusal::invalid_params(format!("{odd} in {what} is not spelled as A2A has it"))),
        None => Ok(()),
    }
}

fn once(object: Value<'_, '_>, what: &str) -> Result<(), Refusal> {
    if object.has_duplicate_names() {
        Err(Refusal::invalid_params(format!("a member stands twice in {what}")))
    } else {
        Ok(())
    }
}

/// An id: opaque, byte-exact, limited in length, never truncated.
pub(super) fn id(object: Value<'_, '_>, name: &str, limits: &Limits) -> Result<Option<String>, Refusal> {
    let Some(value) = object.some(name) else { return Ok(None) };
    let text = value.str().ok_or_else(|| Refusal::invalid_params(format!("{name} must be a string")))?;
    if text.len() > limits.id_bytes {
        return Err(Refusal::invalid_params(format!("{name} is longer than {} bytes", limits.id_bytes)));
    }
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

fn references(message: Value<'_, '_>, limits: &Limits) -> Result<Vec<String>, Refusal> {
    let list = message.some("referenceTaskIds").into_iter().flat_map(|list| list.elements());
    let ids: Vec<_> = list.filter_map(|id| id.str()).map(std::borrow::Cow::into_owned).collect();
    if ids.iter().any(|id| id.len() > limits.id_bytes) {
        return Err(Refusal::invalid_params(format!(
            "an id in referenceTaskIds is longer than {} bytes",
            limits.id_bytes
        )));
    }
    Ok(ids)
}

fn asked(message: Value<'_, '_>) -> Result<Asked, Refusal> {
    let Some(metadata) = message.some("metadata").filter(|metadata| metadata.raw().contains("issues")) else {
        return Ok(Asked::default());
    };
    let opened = metadata.open();
    once(opened.root(), "the message's metadata")?;
    let Some(own) = opened.root().some(EXTENSION_URI) else { return Ok(Asked::default()) };
    let history_policy = match own.some("history_policy").and_then(|policy| policy.str()).as_deref() {
        Some("none") => Some(HistoryPolicy::None),
        Some("agent_fetched") => Some(HistoryPolicy::AgentFetched),
        Some("client_supplied") => Some(HistoryPolicy::ClientSupplied),
        _ => None,
    };
    Ok(Asked { history_policy, inline: own.some("inline").and_then(|inline| inline.bool()) })
}

/// Whether the client activates the extension: its URI in `A2A-Extensions`, or in 0.3's `X-A2A-Extensions`.
pub fn extension_is_active(headers: &HeaderMap) -> bool {
    let values = ["a2a-extensions", "x-a2a-extensions"].into_iter().flat_map(|name| headers.get_all(name));
    let mut uris = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    uris.any(|uri| uri.trim() == EXTENSION_URI)
}
