//! What a route does: every setting of the layer, with its default. Plain data; how it is spelled in a file is the configuration's matter.

use std::time::Duration;

use http::HeaderName;
use serde::{Deserialize, Serialize};

use super::question;

/// The settings of one route. [`Default`] is what the binary does without a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Whether the route converses or only watches.
    pub mode: Mode,
    /// What the agent is shown of the conversation.
    pub history: History,
    /// Which of the agent's words are its reply.
    pub reply: Reply,
    /// When `completed` becomes `input-required`, and how that is told.
    pub rewrite: Rewrite,
    /// One turn at a time.
    pub guard: Guard,
    /// Which ids the agent is told.
    pub upstream: UpstreamIds,
    /// Which conversation a message belongs to that names none; `None`: a new one.
    pub conversation_key: Option<ConversationKey>,
    /// What happens to a message that names a task in a terminal state.
    pub terminal_followup: TerminalFollowup,
    /// What happens to task ids without record.
    pub unknown_ids: UnknownIds,
    /// What happens to the agent's reply when the client leaves before it has it.
    pub on_disconnect: OnDisconnect,
    /// Whether replies carry the header `A2A-Multiturn`, for whoever debugs.
    pub debug_header: bool,
    /// Bounds on what is read and kept.
    pub limits: Limits,
    /// How long the agent may take.
    pub timeouts: Timeouts,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Converse,
            history: History::default(),
            reply: Reply::default(),
            rewrite: Rewrite::default(),
            guard: Guard::default(),
            upstream: UpstreamIds::default(),
            conversation_key: None,
            terminal_followup: TerminalFollowup::Refuse,
            unknown_ids: UnknownIds::Refuse,
            on_disconnect: OnDisconnect::Finish,
            debug_header: false,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
        }
    }
}

/// Whether a route converses or only watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The whole contract.
    Converse,
    /// Everything is forwarded untouched; transcripts are kept, and what would have been done is logged and counted.
    Observe,
}

/// The extension's `history_policy`: how the agent learns what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryPolicy {
    /// The transcript is kept, nothing is shown.
    None,
    /// Nothing is put in front; the agent is told where it may fetch the window. Where it cannot be told, it is as [`None`](Self::None).
    AgentFetched,
    /// The proxy puts the window in front of the new message, on the client's behalf.
    ClientSupplied,
}

impl HistoryPolicy {
    /// As the proposal spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AgentFetched => "agent_fetched",
            Self::ClientSupplied => "client_supplied",
        }
    }
}

/// Where the record of earlier turns stands in the forwarded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In front of the text of the first text part: many agents read only `parts[0].text`.
    Inline,
    /// In a text part of its own, in front.
    Part,
    /// In a data part of its own, in front.
    Data,
}

/// What happens when a task is continued that the agent itself left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnContinuation {
    /// The window is shown there too: many agents read only the new message.
    Inject,
    /// Nothing is shown: this agent keeps its task's history.
    Skip,
}

/// What is kept of the answer to a request for a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credentials {
    /// A receipt: its length and a keyed hash.
    Redact,
    /// All of it, as of any message.
    Keep,
}

/// What the agent is shown of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// How the agent learns what was said. A client may lower it for one message.
    pub policy: HistoryPolicy,
    /// Where the record stands.
    pub placement: Placement,
    /// Turns in the window at most; beyond that its start moves by half.
    pub max_turns: usize,
    /// Bytes of the record at most (before JSON escaping); beyond that its start moves by half.
    pub max_bytes: usize,
    /// Bytes of one side of a turn that are shown at most; a longer one is cut in the middle.
    pub turn_bytes: usize,
    /// What happens when a task is continued that the agent itself left open.
    pub on_continuation: OnContinuation,
    /// What is kept of the answer to a request for a credential.
    pub credentials: Credentials,
}

impl Default for History {
    fn default() -> Self {
        Self {
            policy: HistoryPolicy::ClientSupplied,
            placement: Placement::Inline,
            max_turns: 40,
            max_bytes: 128 * 1024,
            turn_bytes: 16 * 1024,
            on_continuation: OnContinuation::Inject,
            credentials: Credentials::Redact,
        }
    }
}

/// Which of the agent's words are its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Ids or names of the artifacts that hold the reply, the preferred first.
    pub artifacts: Vec<String>,
    /// Patterns (`*` stands for anything, letter case does not count) on artifact ids and names that are never the reply.
    pub skip: Vec<String>,
    /// Keys in part or artifact metadata whose `true` says that this is a thought and not the reply.
    pub thoughts: Vec<String>,
}

impl Default for Reply {
    fn default() -> Self {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        Self {
            artifacts: words(&["response", "final"]),
            skip: words(&[
                "tool",
                "tools",
                "tool-*",
                "tool_*",
                "tool *",
                "*reasoning*",
                "*scratchpad*",
                "thought*",
                "thinking*",
            ]),
            thoughts: words(&["thought", "adk_thought", "is_thought", "reasoning"]),
        }
    }
}

/// What the status message of a rewritten task holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionText {
    /// The whole reply: some frameworks show the status message and nothing else.
    Full,
    /// The asking sentences.
    Tail,
}

/// When the proposal's own `status.continuation` is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inline {
    /// Where the client's message says `"inline": true` under the extension URI.
    OnRequest,
    /// On every rewritten task: breaks clients that read ProtoJSON strictly.
    Always,
}

/// When `completed` becomes `input-required`, and how that is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// What is taken for a question, and how many of them in a row.
    pub question: question::Settings,
    /// What the status message holds.
    pub text: QuestionText,
    /// When `status.continuation` is filled.
    pub inline: Inline,
    /// Whether a bare message that asks becomes a task, since a message has no state to say so.
    pub wrap_message: bool,
    /// Whether a completed task without history gets one of two messages, for clients that read ids only there.
    pub history_for_completed: bool,
}

impl Default for Rewrite {
    fn default() -> Self {
        Self {
            question: question::Settings::default(),
            text: QuestionText::Full,
            inline: Inline::OnRequest,
            wrap_message: false,
            history_for_completed: false,
        }
    }
}

/// How a send is refused while a turn is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reject {
    /// With a task of its own in state `failed`: the proposal's way.
    FailedTask,
    /// With error -32050, reason `CONTEXT_BUSY`.
    Error,
}

/// What happens to a send while a turn is in flight in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// It is refused.
    Exclusive,
    /// It waits its turn.
    Queue,
    /// It runs beside it, A2A's own parallel tasks: only a message to the very task that is in flight is refused.
    Allow,
}

/// One turn at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// What happens to a send while a turn is in flight.
    pub mode: GuardMode,
    /// How many sends wait in one context at most, where they queue.
    pub queue_length: usize,
    /// How long each of them waits at most.
    pub queue_time: Duration,
    /// How a send is refused while a turn is in flight.
    pub reject: Reject,
    /// How long a send waits for the turn in flight before it is refused.
    pub wait: Duration,
    /// How long a lease lasts that nobody renews.
    pub lease: Duration,
    /// How long a turn may stay unsettled that the agent says it still works on.
    pub max_turn: Duration,
    /// How long after its response ended a turn that has not ended is first looked at; then at growing distances. Zero: never.
    pub watch: Duration,
    /// Whether a repeat of the newest turn's message is answered from the record.
    pub replay_duplicates: bool,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            mode: GuardMode::Exclusive,
            queue_length: 16,
            queue_time: Duration::from_secs(60),
            reject: Reject::FailedTask,
            wait: Duration::ZERO,
            lease: Duration::from_secs(30),
            max_turn: Duration::from_secs(3600),
            watch: Duration::from_secs(5),
            replay_duplicates: true,
        }
    }
}

/// Which contextId a new task goes up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextId {
    /// The client's.
    Forward,
    /// None.
    Omit,
    /// An id derived from it for this principal alone: for an agent with a memory of its own, in which two principals' ids must not meet.
    Scoped,
}

/// Which conversation a message belongs to that names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationKey {
    /// The principal's only one.
    Principal,
    /// The principal's one of this header's value; without the header a new one.
    Header(HeaderName),
}

/// What happens to `referenceTaskIds` on the way to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferenceTaskIds {
    /// They become the agent's own ids; those without record are dropped.
    Map,
    /// They are dropped.
    Drop,
}

/// Which ids the agent is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamIds {
    /// Which contextId a new task goes up with.
    pub context_id: ContextId,
    /// What happens to `referenceTaskIds`.
    pub reference_task_ids: ReferenceTaskIds,
}

impl Default for UpstreamIds {
    fn default() -> Self {
        Self { context_id: ContextId::Forward, reference_task_ids: ReferenceTaskIds::Map }
    }
}

/// What happens to a message that names a task in a terminal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalFollowup {
    /// It is refused with UnsupportedOperation.
    Refuse,
    /// It becomes a new task in the context, which names the old one in `referenceTaskIds`.
    NewTask,
}

/// What happens to task ids without record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownIds {
    /// They are answered as someone else's: `-32001`.
    Refuse,
    /// They go to the agent: for routes on which the caller's own credential reaches it and separation is the agent's.
    Forward,
}

/// What happens to the agent's reply when the client leaves before it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It is read to its end, so that the turn is recorded.
    Finish,
    /// It is dropped, and so is the turn.
    Abort,
}

/// Bounds on what is read and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request as forwarded, record included.
    pub request_bytes: usize,
    /// Bytes of a reply that has to be read whole, and of one event of a stream.
    pub reply_bytes: usize,
    /// Bytes of an id.
    pub id_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_bytes: 16 << 20, reply_bytes: 32 << 20, id_bytes: 512 }
    }
}

/// How long the agent may take. Connecting is the transport's own matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request's last byte to the reply's head. A blocking agent thinks in this time.
    pub first_byte: Duration,
    /// Between two pieces of the reply's body.
    pub idle: Duration,
    /// Between two pieces of the request's body.
    pub request_idle: Duration,
    /// For calls that the proxy makes of its own (a look at a task).
    pub look: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(120),
            request_idle: Duration::from_secs(30),
            look: Duration::from_millis(500),
        }
    }
}
