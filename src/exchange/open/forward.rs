//! The request to the agent: the client's bytes, with what has to change.

use std::borrow::Cow;

use super::kept::receipt;
use super::showing::Showing;
use super::{Plan, continued};
use crate::a2a::{EXTENSION_URI, Part};
use crate::conversation::policy::{ContextId, HistoryPolicy, Placement, ReferenceTaskIds};
use crate::conversation::record::{POINTER, RECORD, Record};
use crate::exchange::{Send, derived_id, push_config};
use crate::json::{Edits, Kind, Value, quote};

/// The request to the agent: the client's bytes, with what has to change.
pub(super) fn forward(send: &Send<'_, '_>, plan: &Plan<'_>, shown: &Showing) -> Option<String> {
    let mut edits = Edits::new();
    push_config::replace(&mut edits, send, plan.callback);
    ids(&mut edits, send, plan);
    // The first message of a context goes as it came.
    if plan.context.turns.is_empty() {
        without_own_entry(&mut edits, send.message.value);
    } else {
        let part = shown.record.as_ref().and_then(|record| inject(&mut edits, send, plan, record));
        let entry = own_entry(plan, shown, part.as_ref());
        match send.message.value.some("metadata").filter(|metadata| metadata.kind() == Kind::Object) {
            Some(metadata) => edits.set_member(metadata.open().root(), EXTENSION_URI, &entry),
            None => edits.set_member(send.message.value, "metadata", &format!("{{\"{EXTENSION_URI}\":{entry}}}")),
        }
    }
    (!edits.is_empty()).then(|| edits.apply(send.call.params.doc().text()))
}

/// The contextId that a new task goes up with.
fn upstream_context<'a>(plan: &Plan<'a>) -> Option<Cow<'a, str>> {
    let key = plan.key?;
    match plan.policy.upstream.context_id {
        ContextId::Forward => Some(Cow::Borrowed(&*key.context_id)),
        ContextId::Omit => None,
        ContextId::Scoped => Some(Cow::Owned(derived_id(plan.secret, "contextId", key))),
    }
}

fn ids(edits: &mut Edits, send: &Send<'_, '_>, plan: &Plan<'_>) {
    let message = send.message.value;
    let mut gone = Vec::new();
    let mut set = |edits: &mut Edits, name: &'static str, id: Option<&str>| match id {
        Some(id) if !id.is_empty() => edits.set_string_member(message, name, id),
        _ if message.some(name).is_some() => gone.push(name),
        _ => {}
    };
    match continued(plan) {
        Some((task, context)) => {
            set(edits, "taskId", Some(&task));
            set(edits, "contextId", Some(&context));
        }
        None => {
            // A task of which there is no record is the agent's matter, where the route says so: elsewhere such a message was refused.
            let theirs = send.task_id.as_deref().filter(|_| plan.task.is_none() && plan.follows.is_none());
            set(edits, "taskId", theirs);
            set(edits, "contextId", upstream_context(plan).as_deref());
        }
    }
    match references(send, plan) {
        Some(ids) if ids.is_empty() => gone.push("referenceTaskIds"),
        Some(ids) => {
            let ids: Vec<_> = ids.into_iter().map(quote).collect();
            edits.set_member(message, "referenceTaskIds", &format!("[{}]", ids.join(",")));
        }
        None => {}
    }
    edits.remove_members(message, &gone);
}

/// The agent's ids for `referenceTaskIds`, without those of no record; `None` where the message names none.
fn references<'a>(send: &Send<'_, '_>, plan: &Plan<'a>) -> Option<Vec<&'a str>> {
    if send.references.is_empty() && plan.follows.is_none() {
        return None;
    }
    if plan.policy.upstream.reference_task_ids == ReferenceTaskIds::Drop {
        return Some(Vec::new());
    }
    let find = |id: &str| plan.references.iter().find(|(client, _)| client == id).map(|(_, upstream)| &**upstream);
    let named = send.references.iter().filter(|id| plan.follows != Some(id.as_str()));
    let all = plan.follows.into_iter().chain(named.map(String::as_str));
    Some(all.filter_map(find).collect())
}

/// Where the record was put: the part's place, and the record's bytes in it.
struct Put {
    part: usize,
    bytes: usize,
}

fn inject(edits: &mut Edits, send: &Send<'_, '_>, plan: &Plan<'_>, record: &Record) -> Option<Put> {
    let placement = plan.policy.history.placement;
    let is_text = |part: &Value<'_, '_>| part.some("text").is_some_and(|text| text.kind() == Kind::String);
    let first_text = send.message.part_values().into_iter().enumerate().find(|(_, part)| is_text(part));
    let put = |part| Put { part, bytes: record.text.len() };
    if placement == Placement::Inline
        && let Some((at, part)) = first_text
    {
        let quoted = quote(&record.text);
        edits.insert(part.some("text")?.range().start + 1, &quoted[1..quoted.len() - 1]);
        return Some(put(at));
    }
    let part = record.part(placement, &plan.context.fence, send.call.dialect);
    let name = send.call.dialect.parts();
    match send.message.value.some(name).filter(|parts| parts.kind() == Kind::Array) {
        Some(parts) => edits.prepend(parts, &part),
        None => edits.set_member(send.message.value, name, &format!("[{part}]")),
    }
    Some(put(0))
}

/// What goes up under the extension URI: strings alone, since some agents make every number a float.
fn own_entry(plan: &Plan<'_>, shown: &Showing, put: Option<&Put>) -> String {
    let turns: Vec<_> = shown.entries.iter().map(|entry| quote(entry)).collect();
    let policy = shown.policy.as_str();
    let pointer = pointer(plan, shown);
    let record = put.map(|put| {
        let placement = match plan.policy.history.placement {
            Placement::Inline => "inline",
            Placement::Part => "part",
            Placement::Data => "data",
        };
        format!(
            ",\"{RECORD}\":{{\"placement\":\"{placement}\",\"part\":\"{}\",\"bytes\":\"{}\",\"fence\":{}}}",
            put.part,
            put.bytes,
            quote(&plan.context.fence)
        )
    });
    format!(
        "{{\"history_policy\":\"{policy}\",\"accepted_history_digest\":\"{}\",\"history_turns\":[{}]{}{pointer}}}",
        shown.accepted,
        turns.join(","),
        record.unwrap_or_default()
    )
}

/// Where the agent fetches what it is offered; nothing where there is nothing.
fn pointer(plan: &Plan<'_>, shown: &Showing) -> String {
    let offers = shown.policy == HistoryPolicy::AgentFetched && shown.turns > 0;
    let pointer = plan.pointing.zip(plan.key).filter(|_| offers);
    let pointer = pointer.and_then(|(pointing, key)| pointing.to(key, &shown.shown, plan.secret, plan.now));
    pointer.map(|pointer| format!(",\"{POINTER}\":{pointer}")).unwrap_or_default()
}

fn without_own_entry(edits: &mut Edits, message: Value<'_, '_>) {
    if let Some(metadata) = message.some("metadata").filter(|metadata| metadata.kind() == Kind::Object) {
        edits.remove_members(metadata.open().root(), &[EXTENSION_URI]);
    }
}

/// What a message becomes that joins a turn in flight (the agent waits for an authorisation): the agent's ids, and nothing in front. And the
/// receipt that is kept of it.
pub fn join(send: &Send<'_, '_>, (task, context): (&str, &str), plan: &Plan<'_>) -> (String, Part) {
    let mut edits = Edits::new();
    edits.set_string_member(send.message.value, "taskId", task);
    if context.is_empty() {
        edits.remove_members(send.message.value, &["contextId"]);
    } else {
        edits.set_string_member(send.message.value, "contextId", context);
    }
    push_config::replace(&mut edits, send, None);
    without_own_entry(&mut edits, send.message.value);
    (edits.apply(send.call.params.doc().text()), receipt(send, plan))
}
