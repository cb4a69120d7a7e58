//! The client's view: what is changed in the agent's own bytes, and nothing else.

use crate::a2a::{
    self, ArtifactUpdate, Dialect, EXTENSION_URI, Message, Part, Payload, Role, State, StatusUpdate, Task, message,
    text_of, write_parts,
};
use crate::conversation::policy::Policy;
use crate::conversation::question::{self, Level};
use crate::conversation::record::{self, DATA_MEMBER, POINTER, RECORD};
use crate::conversation::transcript::{Artifact, Kept, Source, Turn};
use crate::json::{Doc, Edits, Kind, Value, quote};
use crate::task::{Chain, Said, both_sides, said};

/// The markers that are looked for, which are none where nothing is to be recognised.
pub(super) fn markers(policy: &Policy) -> &[String] {
    let settings = &policy.rewrite.question;
    if settings.level == Level::Off { &[] } else { &settings.markers }
}

/// How a turn's end is told.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The state that the client is told.
    pub state: State,
    /// The turn, where it settled with success.
    pub turn: Option<&'a Turn>,
    /// What goes under the extension URI, as JSON.
    pub continuation: Option<&'a str>,
    /// Whether `status.continuation` is filled too.
    pub inline: bool,
    /// Of a turn that failed on this side of the agent: what the status message says, with its messageId.
    pub failure: Option<(&'a str, &'a str)>,
}

/// All that shapes what the client sees of a task.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The client's id of the task; empty for a bare message.
    pub task_id: &'a str,
    /// The client's contextId.
    pub context_id: &'a str,
    /// Whether the client named no contextId: then it is shown wherever one can stand.
    pub everywhere: bool,
    /// What came before under the same client task.
    pub chain: &'a Chain,
    /// The fence of the context's records.
    pub fence: &'a str,
    /// The route's settings.
    pub policy: &'a Policy,
    /// The client's own messages by messageId, as far as they are kept.
    pub originals: &'a [(String, Vec<Part>)],
    /// The `historyLength` that the client asked for.
    pub history_length: Option<u64>,
    /// Whether earlier artifacts are shown: not in the first task of a stream. Of a task from the record, whether any are.
    pub artifacts: bool,
}

impl View<'_> {
    /// Edits `payload` to what the client is to see. `told` is there once the turn has settled.
    pub fn show(&self, edits: &mut Edits, payload: &Payload<'_, '_>, dialect: Dialect, told: Option<&Told<'_>>) {
        match payload {
            Payload::Task(task) => self.task(edits, *task, dialect, told),
            Payload::StatusUpdate(update) => self.status_update(edits, *update, dialect, told),
            Payload::ArtifactUpdate(update) => self.artifact_update(edits, *update),
            Payload::Message(message) => self.message(edits, *message, told),
        }
    }

    /// A closing event made here, where the agent sent none that can be shown.
    pub fn closing(&self, told: &Told<'_>, dialect: Dialect, timestamp: &str) -> String {
        let ids = (self.task_id, self.context_id);
        let words = match (told.turn, told.failure) {
            (Some(turn), _) if turn.is_question() => Some(self.question(turn, dialect, told)),
            (_, Some((id, why))) => Some(message(dialect, Role::Agent, id, &[Part::Text(why.to_owned())], ids, None)),
            (Some(turn), None) if turn.reply.source == Source::Status => {
                Some(message(dialect, Role::Agent, &turn.reply.id, &turn.reply.parts, ids, None))
            }
            _ => None,
        };
        let metadata = told.continuation.map(|continuation| format!("{{\"{EXTENSION_URI}\":{continuation}}}"));
        a2a::status_update(dialect, ids, told.state, words.as_deref(), timestamp, metadata.as_deref())
    }

    /// The artifacts of a recorded turn as events.
    pub fn pieces(&self, turn: &Turn, dialect: Dialect) -> Vec<String> {
        let ids = (self.task_id, self.context_id);
        let artifacts = turn.artifacts.iter().map(|artifact| write_artifact(artifact, dialect));
        artifacts.map(|artifact| a2a::artifact_update(dialect, ids, &artifact, false)).collect()
    }

    fn task(&self, edits: &mut Edits, task: Task<'_, '_>, dialect: Dialect, told: Option<&Told<'_>>) {
        edits.set_string_member(task.value, "id", self.task_id);
        edits.set_string_member(task.value, "contextId", self.context_id);
        self.artifacts(edits, task, dialect, told);
        self.status(edits, task.status, dialect, told);
        self.history(edits, task, dialect, told);
        self.own_entry(edits, task.value, told);
    }

    /// What stands under the extension URI: what is told; in no case a copy of what the agent was sent there.
    fn own_entry(&self, edits: &mut Edits, owner: Value<'_, '_>, told: Option<&Told<'_>>) {
        match told.and_then(|told| told.continuation) {
            Some(continuation) => set_metadata(edits, owner, continuation),
            None => self.without_copy(edits, owner),
        }
    }

    /// Takes out a copy of what the agent was sent under the extension URI; what the agent itself says there stays.
    fn without_copy(&self, edits: &mut Edits, owner: Value<'_, '_>) {
        if is_copy(owner, self.fence) {
            remove_metadata(edits, owner);
        }
    }

    fn status_update(
        &self,
        edits: &mut Edits,
        update: StatusUpdate<'_, '_>,
        dialect: Dialect,
        told: Option<&Told<'_>>,
    ) {
        edits.set_string_member(update.value, "taskId", self.task_id);
        edits.set_string_member(update.value, "contextId", self.context_id);
        self.status(edits, update.status, dialect, told);
        self.own_entry(edits, update.value, told);
    }

    /// An artifact of the agent's, as the client is to see it.
    pub fn artifact(&self, artifact: Value<'_, '_>) -> String {
        let mut edits = Edits::new();
        self.artifact_id(&mut edits, artifact);
        self.without_copy(&mut edits, artifact);
        self.unmark(&mut edits, artifact);
        edits.apply_within(artifact)
    }

    fn artifact_update(&self, edits: &mut Edits, update: ArtifactUpdate<'_, '_>) {
        edits.set_string_member(update.value, "taskId", self.task_id);
        edits.set_string_member(update.value, "contextId", self.context_id);
        self.artifact_id(edits, update.artifact);
        self.without_copy(edits, update.artifact);
        self.without_copy(edits, update.value);
    }

    /// A bare message has no state: what it asks, it says in its own metadata.
    fn message(&self, edits: &mut Edits, message: Message<'_, '_>, told: Option<&Told<'_>>) {
        edits.set_string_member(message.value, "contextId", self.context_id);
        if message.value.some("taskId").is_some() && !self.task_id.is_empty() {
            edits.set_string_member(message.value, "taskId", self.task_id);
        }
        self.unmark(edits, message.value);
        self.own_entry(edits, message.value, told);
    }

    fn artifact_id(&self, edits: &mut Edits, artifact: Value<'_, '_>) {
        if let Some(id) = artifact.some("artifactId")
            && let Some(text) = id.str()
        {
            edits.set_string(id, &self.chain.artifact_id(&text));
        }
    }

    fn artifacts(&self, edits: &mut Edits, task: Task<'_, '_>, dialect: Dialect, told: Option<&Told<'_>>) {
        for artifact in task.artifacts() {
            self.artifact_id(edits, artifact);
            self.without_copy(edits, artifact);
            if told.is_some() {
                self.unmark(edits, artifact);
            }
        }
        let standing = if self.artifacts { self.chain.artifacts() } else { Vec::new() };
        let earlier: Vec<_> = standing.into_iter().map(|artifact| write_artifact(artifact, dialect)).collect();
        if earlier.is_empty() {
            return;
        }
        match task.value.some("artifacts") {
            Some(list) => edits.prepend(list, &earlier.join(",")),
            None => edits.set_member(task.value, "artifacts", &format!("[{}]", earlier.join(","))),
        }
    }

    fn status(&self, edits: &mut Edits, status: Value<'_, '_>, dialect: Dialect, told: Option<&Told<'_>>) {
        let said = status.some("message").map(|value| Message { value });
        if let Some(message) = said {
            self.message_ids(edits, message);
            let echoes = message.role() == Some(Role::User) && self.holds_record(message);
            if message.role() == Some(Role::User) {
                // Some agents say "submitted" with the message that they were given.
                self.restore(edits, message, dialect);
            }
            if told.is_some() && !echoes {
                self.unmark(edits, message.value);
            }
            let asks = told.and_then(|told| told.turn).is_some_and(Turn::is_question);
            if !asks && message.role() != Some(Role::User) {
                self.without_copy(edits, message.value);
            }
        }
        let Some(told) = told else { return };
        if let Some(state) = status.some("state") {
            edits.set_string(state, told.state.spelled(dialect));
        }
        if let Some(turn) = told.turn.filter(|turn| turn.is_question() && told.state == State::InputRequired) {
            match said.filter(|message| is_whole_question(*message, turn)) {
                Some(message) => self.mark_question(edits, message, told),
                None => edits.set_member(status, "message", &self.question(turn, dialect, told)),
            }
        } else if let Some((id, why)) = told.failure {
            let parts = [Part::Text(why.to_owned())];
            let ids = (self.task_id, self.context_id);
            edits.set_member(status, "message", &message(dialect, Role::Agent, id, &parts, ids, None));
        }
        if told.inline
            && let Some(continuation) = told.continuation
        {
            edits.set_member(status, "continuation", continuation);
        }
    }

    /// The message of a rewritten status: one leading text part with the whole reply, since frameworks show that and nothing else.
    fn question(&self, turn: &Turn, dialect: Dialect, told: &Told<'_>) -> String {
        let mut parts = vec![Part::Text(turn.question_text())];
        if turn.reply.source != Source::Artifacts {
            parts.extend(turn.reply.parts.iter().filter(|part| part.text().is_none()).cloned());
        }
        let metadata = told.continuation.map(|continuation| format!("{{\"{EXTENSION_URI}\":{continuation}}}"));
        message(dialect, Role::Agent, &turn.reply.id, &parts, (self.task_id, self.context_id), metadata.as_deref())
    }

    /// The agent's own message that is the question already: it gets ids and metadata, and keeps its other bytes.
    fn mark_question(&self, edits: &mut Edits, message: Message<'_, '_>, told: &Told<'_>) {
        edits.set_string_member(message.value, "taskId", self.task_id);
        edits.set_string_member(message.value, "contextId", self.context_id);
        if let Some(continuation) = told.continuation {
            set_metadata(edits, message.value, continuation);
        }
    }

    fn history(&self, edits: &mut Edits, task: Task<'_, '_>, dialect: Dialect, told: Option<&Told<'_>>) {
        let entries = task.history();
        let question = told.and_then(|told| told.turn).filter(|turn| turn.is_question());
        for entry in &entries {
            self.message_ids(edits, *entry);
            if entry.role() == Some(Role::User) {
                self.restore(edits, *entry, dialect);
                continue;
            }
            if told.is_some() {
                self.unmark(edits, entry.value);
            }
            if question.is_none_or(|turn| entry.id().as_deref() != Some(&*turn.reply.id)) {
                self.without_copy(edits, entry.value);
            }
        }
        if self.history_length == Some(0) {
            return;
        }
        let ids = (self.task_id, self.context_id);
        let mut earlier = self.chain.messages();
        if entries.is_empty() {
            earlier.extend(told.and_then(|told| self.both_sides(told)).unwrap_or_default());
        }
        let earlier: Vec<_> =
            earlier.iter().map(|(role, id, parts)| message(dialect, *role, id, parts, ids, None)).collect();
        let question = self.question_entry(edits, &entries, dialect, told);
        match task.value.some("history").filter(|list| list.kind() == Kind::Array) {
            Some(list) => join(edits, list, &earlier, question, self.history_length),
            None if !earlier.is_empty() => {
                let all: Vec<_> = earlier.into_iter().chain(question).collect();
                let first = self.history_length.map_or(0, |most| all.len().saturating_sub(most as usize));
                edits.set_member(task.value, "history", &format!("[{}]", all[first..].join(",")));
            }
            None => {}
        }
    }

    /// The two messages of a completed turn, where a history of them is wanted.
    fn both_sides(&self, told: &Told<'_>) -> Option<Vec<Said>> {
        let wanted = self.policy.rewrite.history_for_completed && told.state == State::Completed;
        told.turn.filter(|turn| wanted && !turn.is_question()).map(both_sides)
    }

    /// The question as the last message of the history, unless the agent has it there.
    fn question_entry(
        &self,
        edits: &mut Edits,
        entries: &[Message<'_, '_>],
        dialect: Dialect,
        told: Option<&Told<'_>>,
    ) -> Option<String> {
        let (told, turn) = told.and_then(|told| Some((told, told.turn.filter(|turn| turn.is_question())?)))?;
        let last = entries.last().filter(|entry| entry.id().as_deref() == Some(&*turn.reply.id));
        match last {
            Some(entry) if is_whole_question(*entry, turn) => {
                self.mark_question(edits, *entry, told);
                None
            }
            Some(entry) => {
                edits.replace(entry.value.range(), self.question(turn, dialect, told));
                None
            }
            None => Some(self.question(turn, dialect, told)),
        }
    }

    fn message_ids(&self, edits: &mut Edits, message: Message<'_, '_>) {
        for (name, id) in [("taskId", self.task_id), ("contextId", self.context_id)] {
            let stands = message.value.some(name).is_some();
            if !id.is_empty() && (stands || self.everywhere) {
                edits.set_string_member(message.value, name, id);
            }
        }
    }

    fn unmark(&self, edits: &mut Edits, owner: Value<'_, '_>) {
        for part in (Message { value: owner }).part_values() {
            if let Some(value) = part.some("text")
                && let Some(text) = value.str()
                && let Some(range) = question::marker_range(&text, markers(self.policy))
            {
                edits.set_string(value, &format!("{}{}", &text[..range.start], &text[range.end..]));
            }
        }
    }

    fn holds_record(&self, message: Message<'_, '_>) -> bool {
        message.part_values().into_iter().any(|part| record_in(part, self.fence).is_some())
    }

    /// Takes our own insertion out of a user message that the agent echoes; its other parts' bytes stay as they came.
    fn restore(&self, edits: &mut Edits, message: Message<'_, '_>, dialect: Dialect) {
        let raw = message.value.raw();
        // An agent may write what needs no escape with one: PHP every slash.
        let escaped = raw.contains("\\/") || raw.contains("\\u00");
        if escaped || raw.contains(EXTENSION_URI) {
            remove_metadata(edits, message.value);
        }
        if self.fence.is_empty() || !(escaped || raw.contains(self.fence)) {
            return;
        }
        let original = || {
            let id = message.id()?;
            self.originals.iter().rev().find(|(of, _)| *of == id).map(|(_, parts)| write_parts(parts, dialect))
        };
        let Some(list) = message.value.some("parts").or_else(|| message.value.some("content")) else { return };
        if list.elements().any(|part| is_cut_echo(part, self.fence))
            && let Some(original) = original()
        {
            edits.replace(list.range(), original);
            return;
        }
        edits.remove_elements(list, |part| is_only_record(part, self.fence));
        for part in list.elements() {
            if let Some((value, rest)) = without_record(part, self.fence) {
                edits.set_string(value, &rest);
            }
        }
    }
}

/// The text of a part, and where our record stands in it.
fn record_in<'d, 't>(part: Value<'d, 't>, fence: &str) -> Option<(Value<'d, 't>, String, std::ops::Range<usize>)> {
    let value = part.some("text")?;
    let text = value.str()?;
    let range = record::find(&text, fence)?;
    Some((value, text.into_owned(), range))
}

fn is_cut_echo(part: Value<'_, '_>, fence: &str) -> bool {
    record_in(part, fence).is_some_and(|(_, text, range)| !text[range].trim_end().ends_with(']'))
}

fn is_only_record(part: Value<'_, '_>, fence: &str) -> bool {
    let is_data = part.get("data").is_some_and(|data| data.raw().contains(DATA_MEMBER) && data.raw().contains(fence));
    is_data || record_in(part, fence).is_some_and(|(_, text, range)| range == (0..text.len()))
}

fn without_record<'d, 't>(part: Value<'d, 't>, fence: &str) -> Option<(Value<'d, 't>, String)> {
    let (value, text, range) = record_in(part, fence)?;
    Some((value, format!("{}{}", &text[..range.start], &text[range.end..])))
}

/// Whether an agent's message is, as it stands, what a rewritten status has to hold: one text, leading, that is the whole question.
fn is_whole_question(message: Message<'_, '_>, turn: &Turn) -> bool {
    let parts = message.part_values();
    let texts: Vec<_> = parts.iter().filter_map(|part| part.some("text")?.str()).collect();
    let leads = parts.first().is_some_and(|part| part.some("text").is_some());
    leads && texts.len() == 1 && turn.reply.question.is_none() && message.id().as_deref() == Some(&*turn.reply.id) && {
        let shown = text_of(&turn.reply.parts);
        // With its marker taken out it is the reply; anything else is another message under the same id.
        texts[0].contains(shown.trim())
    }
}

/// Puts `front` before and `back` behind the elements of `list`, and keeps the last `most` of all.
fn join(edits: &mut Edits, list: Value<'_, '_>, front: &[String], back: Option<String>, most: Option<u64>) {
    if front.is_empty() && back.is_none() {
        return;
    }
    let own = list.elements().count();
    let all = front.len() + own + usize::from(back.is_some());
    let dropped = most.map_or(0, |most| all.saturating_sub(most as usize));
    let front = &front[dropped.min(front.len())..];
    let own_dropped = dropped.saturating_sub(all - own - usize::from(back.is_some())).min(own);
    if own == own_dropped {
        let items: Vec<_> = front.iter().cloned().chain(back).collect();
        edits.replace(list.range(), format!("[{}]", items.join(",")));
        return;
    }
    let mut seen = 0;
    edits.remove_elements(list, |_| {
        seen += 1;
        seen <= own_dropped
    });
    if !front.is_empty() {
        edits.prepend(list, &front.join(","));
    }
    if let Some(back) = back {
        edits.append(list, &back);
    }
}

/// Whether what stands under the extension URI is what was sent up: the proxy alone tells where its record is, or where it is fetched.
fn is_copy(owner: Value<'_, '_>, fence: &str) -> bool {
    let Some(metadata) = owner.some("metadata").filter(|metadata| metadata.kind() == Kind::Object) else {
        return false;
    };
    let opened = metadata.open();
    let Some(entry) = opened.root().get(EXTENSION_URI) else { return false };
    let fenced = !fence.is_empty() && entry.raw().contains(fence);
    fenced || entry.some(RECORD).is_some() || entry.some(POINTER).is_some()
}

fn set_metadata(edits: &mut Edits, owner: Value<'_, '_>, json: &str) {
    match owner.some("metadata").filter(|metadata| metadata.kind() == Kind::Object) {
        Some(metadata) => edits.set_member(metadata.open().root(), EXTENSION_URI, json),
        None => edits.set_member(owner, "metadata", &format!("{{\"{EXTENSION_URI}\":{json}}}")),
    }
}

fn remove_metadata(edits: &mut Edits, owner: Value<'_, '_>) {
    let Some(metadata) = owner.some("metadata") else { return };
    let opened = metadata.open();
    if opened.root().get(EXTENSION_URI).is_none() {
        return;
    }
    if opened.root().members().count() == 1 {
        edits.remove_members(owner, &["metadata"]);
    } else {
        edits.remove_members(opened.root(), &[EXTENSION_URI]);
    }
}

/// An artifact, written from the record.
pub(super) fn write_artifact(artifact: &Artifact, dialect: Dialect) -> String {
    let name = artifact.name.as_ref().map(|name| format!("\"name\":{},", quote(name))).unwrap_or_default();
    format!("{{\"artifactId\":{},{name}\"parts\":{}}}", quote(&artifact.id), write_parts(&artifact.parts, dialect))
}

/// What stands under the extension URI in a settled turn's reply: the continuation where the agent asks, the digest in any case. `turns`
/// are those of its context, `state` is what its task reads by now: an open question may have been cancelled or left behind.
pub fn continuation(turn: &Turn, turns: &[Kept], state: State) -> String {
    let shown = turn.shown.entries(turns);
    let policy = turn.history_policy.as_str();
    let scope = if turn.task.is_empty() { "new_task_in_context" } else { "same_task" };
    let waits = turn.task.is_empty() || state == State::InputRequired;
    let question = match turn.decided.filter(|decided| decided.rewritten && waits) {
        Some(decided) => format!("\"expected_input\":\"{}\",\"resume_scope\":\"{scope}\",", decided.expected.as_str()),
        None => String::new(),
    };
    let reason = turn.decided.map(|decided| format!(",\"reason\":\"{}\"", decided.reason.as_str())).unwrap_or_default();
    // A list with turns missing, which are no longer kept, would not lead to the digest.
    let whole = shown.len() == turn.shown.count();
    let history = whole.then(|| shown.iter().map(|entry| quote(entry)).collect::<Vec<_>>().join(","));
    let history = history.map(|entries| format!(",\"history_turns\":[{entries}]")).unwrap_or_default();
    format!(
        "{{{question}\"history_policy\":\"{policy}\",\"accepted_history_digest\":\"{}\"{history}{reason}}}",
        turn.accepted,
    )
}

/// A task as the record has it: what is answered where the agent has forgotten it, or never had it (a bare message that answered an open task).
pub fn task_of_message(view: &View<'_>, turn: &Turn, dialect: Dialect, told: &Told<'_>, timestamp: &str) -> String {
    // Of a task that the agent continued every turn has all that there was of it.
    let newer = |old: &&Artifact| turn.artifacts.iter().any(|artifact| artifact.id == old.id);
    let standing = view.chain.artifacts().into_iter().filter(|artifact| !newer(artifact));
    let all = standing.chain(&turn.artifacts).filter(|_| view.artifacts);
    let artifacts: Vec<_> = all.map(|artifact| write_artifact(artifact, dialect)).collect();
    let ids = (view.task_id, view.context_id);
    let mut all_said = view.chain.messages();
    all_said.extend(view.both_sides(told).unwrap_or_else(|| said(turn)));
    let history: Vec<_> =
        all_said.iter().map(|(role, id, parts)| message(dialect, *role, id, parts, ids, None)).collect();
    let first = view.history_length.map_or(0, |most| history.len().saturating_sub(most as usize));
    let asks = turn.is_question() && told.state == State::InputRequired;
    let status_message = match (asks, told.failure) {
        (true, _) => Some(view.question(turn, dialect, told)),
        (false, Some((id, why))) => Some(message(dialect, Role::Agent, id, &[Part::Text(why.to_owned())], ids, None)),
        (false, None) if matches!(turn.reply.source, Source::Status | Source::Message) => {
            Some(message(dialect, Role::Agent, &turn.reply.id, &turn.reply.parts, ids, None))
        }
        (false, None) => None,
    };
    let mut members = Vec::new();
    if !artifacts.is_empty() {
        members.push(format!("\"artifacts\":[{}]", artifacts.join(",")));
    }
    if first < history.len() {
        members.push(format!("\"history\":[{}]", history[first..].join(",")));
    }
    if let Some(continuation) = told.continuation {
        members.push(format!("\"metadata\":{{\"{EXTENSION_URI}\":{continuation}}}"));
    }
    let task = a2a::task(dialect, ids, told.state, status_message.as_deref(), timestamp, &members);
    match told.continuation.filter(|_| told.inline) {
        Some(continuation) => with_continuation(task, continuation),
        None => task,
    }
}

fn with_continuation(task: String, continuation: &str) -> String {
    let Ok(doc) = Doc::scan(task.as_bytes()) else { return task };
    let mut edits = Edits::new();
    if let Some(status) = doc.root().some("status") {
        edits.set_member(status, "continuation", continuation);
    }
    edits.apply(&task)
}
