//! What the agent says of its reply in metadata, under keys that the route names.

use crate::a2a::{Payload, State};
use crate::json::{Kind, Value};

/// The metadata, as JSON, that has one of `keys`: of the task or event, of an artifact, of the message of a status that ends the turn. Of
/// several the last in this order, since it is nearest to the reply.
pub(super) fn in_metadata(payload: &Payload<'_, '_>, keys: &[String]) -> Option<String> {
    if keys.is_empty() {
        return None;
    }
    let all = owners(payload).into_iter().rev().filter_map(|owner| owner.some("metadata"));
    let named = |metadata: &Value<'_, '_>| {
        metadata.kind() == Kind::Object && keys.iter().any(|key| metadata.open().root().get(key).is_some())
    };
    let mut all = all.filter(named);
    all.next().map(|metadata| metadata.raw().to_owned())
}

fn owners<'d, 't>(payload: &Payload<'d, 't>) -> Vec<Value<'d, 't>> {
    let ends = payload.state().is_none_or(State::settles);
    match payload {
        // What an agent says while it works is about its work.
        _ if !ends => Vec::new(),
        Payload::Task(task) => {
            let message = task.status_message().map(|message| message.value);
            [task.value].into_iter().chain(task.artifacts()).chain(message).collect()
        }
        Payload::StatusUpdate(update) => {
            [update.value].into_iter().chain(update.status_message().map(|message| message.value)).collect()
        }
        Payload::ArtifactUpdate(update) => vec![update.value, update.artifact],
        Payload::Message(message) => vec![message.value],
    }
}
