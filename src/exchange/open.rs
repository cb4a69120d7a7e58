//! How a turn is opened: what the agent is sent, and what is known of the turn from then on.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Refusal, Send};
use crate::a2a::{Dialect, EXTENSION_URI, Part, State, text_of};
use crate::context::Context;
use crate::conversation::digest;
use crate::conversation::policy::{
    ContextId, Credentials, HistoryPolicy, Inline, OnContinuation, Placement, Policy, ReferenceTaskIds,
};
use crate::conversation::question::Expected;
use crate::conversation::record::{self, Record};
use crate::conversation::transcript::{Shown, Spoken};
use crate::json::{Edits, Kind, Value, hex, quote};
use crate::task::{Chain, ClientTask, OpenedBy};
use crate::turn::Opening;

/// What a turn is opened with, beside the send itself.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The context, under its lease.
    pub context: &'a Context,
    /// Its contextId, where the client knows one already.
    pub context_id: Option<&'a str>,
    /// The open client task that the message answers.
    pub task: Option<&'a ClientTask>,
    /// The ended client task that the message follows up with a new one.
    pub follows: Option<&'a str>,
    /// The agent's ids for the tasks that the message refers to: those of the principal's own.
    pub references: &'a [(String, String)],
    /// The route's settings.
    pub policy: &'a Policy,
    /// Whether the client activated the extension.
    pub active: bool,
    /// The secret with which a credential's receipt is made.
    pub secret: &'a [u8],
    /// Now: milliseconds since 1970.
    pub now: u64,
}

/// An opened turn.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What is known of it.
    pub opening: Arc<Opening>,
    /// What came before it under the same client task.
    pub chain: Chain,
    /// The request to the agent; `None`: the client's own bytes.
    pub body: Option<String>,
    /// How many turns the agent is shown.
    pub injected: usize,
}

/// Opens a turn.
///
/// # Errors
/// -32602 where the message does not fit the limit even with nothing in front of it.
pub fn open(send: &Send<'_, '_>, plan: &Plan<'_>) -> Result<Opened, Refusal> {
    let limit = plan.policy.limits.request_bytes;
    let own = send.call.params.doc().text().len();
    let mut room = limit.saturating_sub(own);
    // The digest is over what is kept: one over a short credential would tell it to whoever can try all of them.
    let parts = redacted(send, plan);
    let message = digest::message("user", &parts);
    loop {
        let shown = Showing::of(send, plan, room, message);
        let body = forward(send, plan, &shown);
        if body.as_ref().is_none_or(|body| body.len() <= limit) {
            let user = Spoken { id: send.message_id.clone(), parts };
            return Ok(opened(send, plan, (user, message), shown, body));
        }
        // Escaping made the record longer than it was: less of it, in the end nothing.
        if shown.is_empty() {
            return Err(Refusal::too_large(limit));
        }
        room /= 2;
    }
}

fn opened(
    send: &Send<'_, '_>,
    plan: &Plan<'_>,
    (user, user_digest): (Spoken, digest::Digest),
    shown: Showing,
    body: Option<String>,
) -> Opened {
    let (attempt, continued) = (attempt(plan), continued(plan));
    let chain = match plan.task {
        Some(task) => plan.context.chain(task, attempt, continued.as_ref().map(|(task, _)| &**task)),
        None => Chain::first(),
    };
    let opening = Opening {
        number: plan.context.next_number(),
        task: plan.task.map(|task| task.id.to_string()),
        attempt,
        continued,
        user_digest,
        user,
        user_text: text_of(&send.parts),
        named: (send.task_id.is_some(), send.context_id.is_some()),
        joined: Vec::new(),
        accepted: shown.accepted,
        history_policy: shown.policy,
        window_start: shown.start,
        injected: shown.turns,
        shown: shown.shown,
        dialect: send.call.dialect,
        endpoint: Some(send.call.endpoint.clone()),
        active: plan.active,
        inline: send.asked.inline || plan.policy.rewrite.inline == Inline::Always,
        history_length: send.history_length,
        started_at: plan.now,
        callback: None,
    };
    Opened { injected: shown.turns, opening: Arc::new(opening), chain, body }
}

fn attempt(plan: &Plan<'_>) -> u32 {
    plan.task.map_or(1, |task| task.attempts.len() as u32 + 1)
}

/// The agent's own ids of a task that it left open itself; `None` too where they have come to mean another: then it is begun anew.
fn continued(plan: &Plan<'_>) -> Option<(String, String)> {
    let task = plan.task.filter(|task| task.state == State::InputRequired && task.opened_by == OpenedBy::Agent)?;
    let context = task.attempts.last().and_then(|attempt| attempt.upstream_context.as_deref());
    let context = context.or(plan.context_id).unwrap_or_default();
    Some((task.newest_upstream()?, context.to_owned()))
}

/// The client's parts as they are kept: the answer to a request for a credential as a receipt.
pub fn redacted(send: &Send<'_, '_>, plan: &Plan<'_>) -> Vec<Part> {
    if plan.policy.history.credentials == Credentials::Keep || !answers_credential(send, plan) {
        return send.parts.clone();
    }
    vec![receipt(send, plan)]
}

/// A message's length and keyed hash: enough to tell whether two were the same, and no more.
fn receipt(send: &Send<'_, '_>, plan: &Plan<'_>) -> Part {
    let content = crate::a2a::write_parts(&send.parts, Dialect::V10);
    // HMAC takes a key of any length.
    let hash = Hmac::<Sha256>::new_from_slice(plan.secret).map(|mut mac| {
        mac.update(content.as_bytes());
        hex(&mac.finalize().into_bytes())
    });
    let (length, hash) = (text_of(&send.parts).len(), hash.unwrap_or_default());
    Part::Data(format!("{{\"credential\":{{\"length\":\"{length}\",\"hmac\":\"{hash}\"}}}}"))
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
    without_own_entry(&mut edits, send.message.value);
    (edits.apply(send.call.params.doc().text()), receipt(send, plan))
}

/// Whether the agent's last word was a request for a credential, and this is the answer to it.
fn answers_credential(send: &Send<'_, '_>, plan: &Plan<'_>) -> bool {
    let Some(newest) = plan.context.newest() else { return false };
    let asked = newest.state == State::InputRequired
        && newest.decided.is_some_and(|decided| decided.expected == Expected::Credential);
    asked && send.task_id.as_ref().is_none_or(|task| *task == newest.task)
}

/// What is shown with a message.
#[derive(Clone, Debug)]
struct Showing {
    policy: HistoryPolicy,
    start: u32,
    shown: Shown,
    record: Option<Record>,
    turns: usize,
    entries: Vec<String>,
    accepted: digest::Digest,
}

impl Showing {
    fn of(send: &Send<'_, '_>, plan: &Plan<'_>, room: usize, message: digest::Digest) -> Self {
        let history = &plan.policy.history;
        let policy = send.asked.history_policy.map_or(history.policy, |asked| asked.min(history.policy));
        let context = plan.context;
        let skips = history.on_continuation == OnContinuation::Skip && continued(plan).is_some();
        let shows = policy != HistoryPolicy::None && !skips;
        let start = if shows {
            record::window_start(&context.turns, context.window_start, history, room)
        } else {
            context.window_start
        };
        let end = context.next_number();
        let mut shown = Shown { first: start, end, referenced: Vec::new(), cut: Vec::new() };
        if shows && room > 0 {
            shown.referenced = referenced(send, context, start);
        } else if !shows {
            shown.end = shown.first;
        }
        let turns = record::shown_turns(&context.turns, &shown);
        let record = (!turns.is_empty()).then(|| Record::of(turns.iter(), &context.fence, history.turn_bytes));
        shown.cut = record.as_ref().map(|record| record.cut.clone()).unwrap_or_default();
        let entries = shown.entries(&context.turns);
        let accepted = digest::accepted(&entries, message);
        Self { policy, start, shown, record, turns: turns.len(), entries, accepted }
    }

    fn is_empty(&self) -> bool {
        self.record.is_none()
    }
}

/// The turns, outside the window, of the tasks that the message refers to.
fn referenced(send: &Send<'_, '_>, context: &Context, start: u32) -> Vec<u32> {
    let tasks = send.references.iter().filter_map(|id| context.task(id));
    let mut numbers: Vec<_> = tasks.flat_map(|task| &task.attempts).filter_map(|attempt| attempt.turn).collect();
    numbers.retain(|number| *number < start && context.turn(*number).is_some());
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The request to the agent: the client's bytes, with what has to change.
fn forward(send: &Send<'_, '_>, plan: &Plan<'_>, shown: &Showing) -> Option<String> {
    let mut edits = Edits::new();
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
            let forwards = plan.policy.upstream.context_id == ContextId::Forward;
            set(edits, "contextId", plan.context_id.filter(|_| forwards));
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
    let policy = if shown.policy == HistoryPolicy::None { "none" } else { "client_supplied" };
    let record = put.map(|put| {
        let placement = match plan.policy.history.placement {
            Placement::Inline => "inline",
            Placement::Part => "part",
            Placement::Data => "data",
        };
        format!(
            ",\"record\":{{\"placement\":\"{placement}\",\"part\":\"{}\",\"bytes\":\"{}\",\"fence\":{}}}",
            put.part,
            put.bytes,
            quote(&plan.context.fence)
        )
    });
    format!(
        "{{\"history_policy\":\"{policy}\",\"accepted_history_digest\":\"{}\",\"history_turns\":[{}]{}}}",
        shown.accepted,
        turns.join(","),
        record.unwrap_or_default()
    )
}

fn without_own_entry(edits: &mut Edits, message: Value<'_, '_>) {
    if let Some(metadata) = message.some("metadata").filter(|metadata| metadata.kind() == Kind::Object) {
        edits.remove_members(metadata.open().root(), &[EXTENSION_URI]);
    }
}
