//! Task, Message and the events of a stream: read by shape, written in a dialect.

use std::borrow::Cow;

use super::{Dialect, Part, Role, State, write_parts};
use crate::json::{Kind, Value, quote};

/// How an answer spells things, told from the answer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether the noun stands in a member named after it (`{"task":{…}}`), as 1.0 has it.
    pub wrapped: bool,
    /// How its states, roles and parts are spelled.
    pub dialect: Dialect,
}

impl Shape {
    /// The dialect in which further nouns of the answer's kind are made: who reads 1.0's wrapper reads 1.0's nouns in it.
    pub fn made_in(self) -> Dialect {
        if self.wrapped && self.dialect == Dialect::V03 { Dialect::V10 } else { self.dialect }
    }
}

/// What an answer or an event is.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'d, 't> {
    /// A task.
    Task(Task<'d, 't>),
    /// A bare message.
    Message(Message<'d, 't>),
    /// An event: the task's status.
    StatusUpdate(StatusUpdate<'d, 't>),
    /// An event: a piece of an artifact.
    ArtifactUpdate(ArtifactUpdate<'d, 't>),
}

/// The names of the wrapper's members in 1.0, and of `kind` in 0.3.
const NOUNS: [(&str, &str); 4] = [
    ("task", "task"),
    ("message", "message"),
    ("statusUpdate", "status-update"),
    ("artifactUpdate", "artifact-update"),
];

impl<'d, 't> Payload<'d, 't> {
    /// Reads a `result`; `None` where it is nothing that the protocol has.
    pub fn read(result: Value<'d, 't>) -> Option<(Self, Shape)> {
        let object = |name| result.some(name).filter(|value| value.kind() == Kind::Object);
        let inside = NOUNS.iter().enumerate().find_map(|(noun, (name, _))| Some((noun, object(name)?)));
        let (payload, value, wrapped) = match inside {
            // A bare status update has no member called `message` or `task`; its status does.
            Some((noun, value)) if result.some("kind").is_none() => (Self::of(noun, value)?, value, true),
            _ => (Self::of(Self::bare(result)?, result)?, result, false),
        };
        Some((payload, Shape { wrapped, dialect: dialect_of(&payload, value, wrapped) }))
    }

    fn bare(value: Value<'_, '_>) -> Option<usize> {
        if let Some(kind) = value.some("kind").and_then(|kind| kind.str()) {
            return NOUNS.iter().position(|(_, name)| *name == kind);
        }
        let has = |name| value.some(name).is_some();
        match () {
            () if has("artifact") => Some(3),
            () if has("status") && has("taskId") => Some(2),
            () if has("status") && has("id") => Some(0),
            () if has("parts") || has("content") => Some(1),
            () => None,
        }
    }

    fn of(noun: usize, value: Value<'d, 't>) -> Option<Self> {
        Some(match noun {
            0 => Self::Task(Task { value, status: value.some("status")? }),
            1 => Self::Message(Message { value }),
            2 => Self::StatusUpdate(StatusUpdate { value, status: value.some("status")? }),
            _ => Self::ArtifactUpdate(ArtifactUpdate { value, artifact: value.some("artifact")? }),
        })
    }

    /// The id of the task that it speaks of; `None` for a message without one.
    pub fn task_id(&self) -> Option<Cow<'t, str>> {
        let id = match self {
            Self::Task(task) => task.value.some("id"),
            Self::Message(Message { value })
            | Self::StatusUpdate(StatusUpdate { value, .. })
            | Self::ArtifactUpdate(ArtifactUpdate { value, .. }) => value.some("taskId"),
        };
        id.and_then(|id| id.str()).filter(|id| !id.is_empty())
    }

    /// The contextId in it; an empty one counts as none.
    pub fn context_id(&self) -> Option<Cow<'t, str>> {
        self.value().some("contextId").and_then(|id| id.str()).filter(|id| !id.is_empty())
    }

    /// The object itself.
    pub fn value(&self) -> Value<'d, 't> {
        match self {
            Self::Task(Task { value, .. })
            | Self::Message(Message { value })
            | Self::StatusUpdate(StatusUpdate { value, .. })
            | Self::ArtifactUpdate(ArtifactUpdate { value, .. }) => *value,
        }
    }

    /// The state that it tells; `None` for a message or a piece of an artifact.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Task(task) => Some(task.state()),
            Self::StatusUpdate(update) => Some(update.state()),
            Self::Message(_) | Self::ArtifactUpdate(_) => None,
        }
    }
}

fn dialect_of(payload: &Payload<'_, '_>, value: Value<'_, '_>, wrapped: bool) -> Dialect {
    let spelled = match payload {
        Payload::Task(Task { status, .. }) | Payload::StatusUpdate(StatusUpdate { status, .. }) => status.some("state"),
        Payload::Message(Message { value }) => value.some("role"),
        Payload::ArtifactUpdate(_) => None,
    };
    let upper =
        spelled.and_then(|word| word.str()).map(|word| word.starts_with("TASK_STATE_") || word.starts_with("ROLE_"));
    match upper {
        Some(true) => Dialect::V10,
        Some(false) => Dialect::V03,
        None if value.some("kind").is_some() || !wrapped => Dialect::V03,
        None => Dialect::V10,
    }
}

fn state_of(status: Value<'_, '_>) -> State {
    status.some("state").and_then(|state| state.str()).map_or(State::Unknown, |state| State::read(&state))
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub struct Task<'d, 't> {
    /// The object.
    pub value: Value<'d, 't>,
    /// Its `status`.
    pub status: Value<'d, 't>,
}

/// The artifacts of a task, in their order.
pub type Artifacts<'d, 't> = Vec<Value<'d, 't>>;

impl<'d, 't> Task<'d, 't> {
    /// Reads a bare task, as Get and Cancel return it.
    pub fn read(value: Value<'d, 't>) -> Option<Self> {
        Some(Self { value, status: value.some("status")? })
    }

    /// Its state.
    pub fn state(&self) -> State {
        state_of(self.status)
    }

    /// The message in its status.
    pub fn status_message(&self) -> Option<Message<'d, 't>> {
        self.status.some("message").map(|value| Message { value })
    }

    /// Its artifacts.
    pub fn artifacts(&self) -> Artifacts<'d, 't> {
        self.value.some("artifacts").into_iter().flat_map(|list| list.elements()).collect()
    }

    /// The messages in its history.
    pub fn history(&self) -> Vec<Message<'d, 't>> {
        self.value.some("history").into_iter().flat_map(|list| list.elements()).map(|value| Message { value }).collect()
    }
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'d, 't> {
    /// The object.
    pub value: Value<'d, 't>,
}

impl<'d, 't> Message<'d, 't> {
    /// Who speaks.
    pub fn role(&self) -> Option<Role> {
        self.value.some("role").and_then(|role| role.str()).and_then(|role| Role::read(&role))
    }

    /// Its id; an empty one counts as none.
    pub fn id(&self) -> Option<Cow<'t, str>> {
        self.value.some("messageId").and_then(|id| id.str()).filter(|id| !id.is_empty())
    }

    /// Its parts' objects.
    pub fn part_values(&self) -> Vec<Value<'d, 't>> {
        let parts = self.value.some("parts").or_else(|| self.value.some("content"));
        parts.into_iter().flat_map(|parts| parts.elements()).collect()
    }
}

/// An event: the task's status.
#[derive(Clone, Copy, Debug)]
pub struct StatusUpdate<'d, 't> {
    /// The object.
    pub value: Value<'d, 't>,
    /// Its `status`.
    pub status: Value<'d, 't>,
}

impl<'d, 't> StatusUpdate<'d, 't> {
    /// The state that it tells.
    pub fn state(&self) -> State {
        state_of(self.status)
    }

    /// The message in its status.
    pub fn status_message(&self) -> Option<Message<'d, 't>> {
        self.status.some("message").map(|value| Message { value })
    }

    /// Whether 0.3's `final` is true.
    pub fn is_final(&self) -> bool {
        self.value.some("final").and_then(|last| last.bool()) == Some(true)
    }
}

/// An event: a piece of an artifact.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactUpdate<'d, 't> {
    /// The object.
    pub value: Value<'d, 't>,
    /// Its `artifact`.
    pub artifact: Value<'d, 't>,
}

impl ArtifactUpdate<'_, '_> {
    /// Whether its parts are added to those that came before under the same id.
    pub fn appends(&self) -> bool {
        self.value.some("append").and_then(|append| append.bool()) == Some(true)
    }
}

/// A message, written.
pub fn message(
    dialect: Dialect,
    role: Role,
    id: &str,
    parts: &[Part],
    (task_id, context_id): (&str, &str),
    metadata: Option<&str>,
) -> String {
    let kind = if dialect == Dialect::V03 { "\"kind\":\"message\"," } else { "" };
    let mut out = format!(
        "{{{kind}\"messageId\":{},\"role\":\"{}\",\"{}\":{}",
        quote(id),
        role.spelled(dialect),
        dialect.parts(),
        write_parts(parts, dialect)
    );
    if !task_id.is_empty() {
        out += &format!(",\"taskId\":{}", quote(task_id));
    }
    if !context_id.is_empty() {
        out += &format!(",\"contextId\":{}", quote(context_id));
    }
    if let Some(metadata) = metadata {
        out += &format!(",\"metadata\":{metadata}");
    }
    out.push('}');
    out
}

/// A task's or event's `status`, written. `timestamp` is RFC 3339 in UTC.
fn status(dialect: Dialect, state: State, message: Option<&str>, timestamp: &str) -> String {
    let message = message.map(|message| format!(",\"message\":{message}")).unwrap_or_default();
    format!("{{\"state\":\"{}\"{message},\"timestamp\":\"{timestamp}\"}}", state.spelled(dialect))
}

/// A task, written: `members` are further members with their names (`"history":[…]`), in their order.
pub fn task(
    dialect: Dialect,
    (task_id, context_id): (&str, &str),
    state: State,
    message: Option<&str>,
    timestamp: &str,
    members: &[String],
) -> String {
    let kind = if dialect == Dialect::V03 { "\"kind\":\"task\"," } else { "" };
    let mut out = format!(
        "{{{kind}\"id\":{},\"contextId\":{},\"status\":{}",
        quote(task_id),
        quote(context_id),
        status(dialect, state, message, timestamp)
    );
    for member in members {
        out.push(',');
        out += member;
    }
    out.push('}');
    out
}

/// A closing status update, written. 0.3 requires `final`, 1.0's strict readers refuse it.
pub fn status_update(
    dialect: Dialect,
    (task_id, context_id): (&str, &str),
    state: State,
    message: Option<&str>,
    timestamp: &str,
    metadata: Option<&str>,
) -> String {
    let ids = format!("\"taskId\":{},\"contextId\":{}", quote(task_id), quote(context_id));
    let status = status(dialect, state, message, timestamp);
    let metadata = metadata.map(|metadata| format!(",\"metadata\":{metadata}")).unwrap_or_default();
    match dialect {
        Dialect::V03 => format!("{{\"kind\":\"status-update\",{ids},\"status\":{status},\"final\":true{metadata}}}"),
        Dialect::V10 => format!("{{{ids},\"status\":{status}{metadata}}}"),
        Dialect::Proto03 => format!("{{{ids},\"status\":{status},\"final\":true{metadata}}}"),
    }
}

/// A piece of an artifact, written: `append` says that it goes on with what came before under its id.
pub fn artifact_update(dialect: Dialect, (task_id, context_id): (&str, &str), artifact: &str, append: bool) -> String {
    let kind = if dialect == Dialect::V03 { "\"kind\":\"artifact-update\"," } else { "" };
    let ids = format!("\"taskId\":{},\"contextId\":{}", quote(task_id), quote(context_id));
    format!("{{{kind}{ids},\"artifact\":{artifact},\"append\":{append},\"lastChunk\":true}}")
}
