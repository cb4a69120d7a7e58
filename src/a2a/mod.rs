//! The words of A2A: a dialect spells nouns, a binding wraps verbs.
//!
//! Reading is lenient and by shape: what a document says of itself counts, not what its method or header made one expect, since one widespread
//! server answers an 0.3 method with 1.0's wrapper and 0.3's states. Writing is in one [`Dialect`], chosen by the caller.

mod call;
pub mod card;
pub mod jsonrpc;
mod noun;
mod part;
pub mod rest;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use call::{Along, Binding, Call, Endpoint, Push, Verb, Voice};
pub use noun::{
    ArtifactUpdate, Artifacts, Message, Payload, Shape, StatusUpdate, Task, artifact_update, message, status_update,
    task,
};
pub use part::{File, Part, read_part, read_parts, read_parts_where, text_of, write_part, write_parts, write_receipt};

/// The URI of the extension under which the proxy speaks of its own: in metadata, in headers, in the agent card.
pub const EXTENSION_URI: &str = "https://github.com/a2aproject/A2A/issues/2061#v1";

/// How nouns are spelled: a version of the protocol, and of 0.3 one for each binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dialect {
    /// 0.3: `kind`, `input-required`, `message/send`.
    V03,
    /// 1.0: no discriminator, `TASK_STATE_INPUT_REQUIRED`, `SendMessage`.
    V10,
    /// 0.3 over HTTP+JSON: its protobuf form, with 1.0's words and wrappers, `content` for a message's parts, and nested files and data.
    Proto03,
}

impl Dialect {
    /// Whether an answer to a send, or an event, stands in a member named after it (`{"task":{…}}`).
    pub fn wraps(self) -> bool {
        self != Self::V03
    }

    /// Whether it is one of the protocol's version 0.3.
    pub fn is_of_03(self) -> bool {
        self != Self::V10
    }

    /// The name of a message's list of parts.
    pub fn parts(self) -> &'static str {
        if self == Self::Proto03 { "content" } else { "parts" }
    }

    /// The dialect of a protocol version, as cards spell it.
    pub fn of_version(version: &str) -> Option<Self> {
        match version.trim_ascii().split('.').next() {
            Some("0") => Some(Self::V03),
            Some("1") => Some(Self::V10),
            _ => None,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V03 | Self::Proto03 => "0.3",
            Self::V10 => "1.0",
        })
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Taken, not yet begun.
    Submitted,
    /// Being worked on.
    Working,
    /// Waiting for the user.
    InputRequired,
    /// Done.
    Completed,
    /// Given up at the client's wish.
    Canceled,
    /// Gone wrong.
    Failed,
    /// Not taken.
    Rejected,
    /// Waiting for an authorisation.
    AuthRequired,
    /// Anything else, `unknown` and `TASK_STATE_UNSPECIFIED` among it.
    Unknown,
}

const STATES: [(State, &str, &str); 9] = [
    (State::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (State::Working, "working", "TASK_STATE_WORKING"),
    (State::InputRequired, "input-required", "TASK_STATE_INPUT_REQUIRED"),
    (State::Completed, "completed", "TASK_STATE_COMPLETED"),
    (State::Canceled, "canceled", "TASK_STATE_CANCELED"),
    (State::Failed, "failed", "TASK_STATE_FAILED"),
    (State::Rejected, "rejected", "TASK_STATE_REJECTED"),
    (State::AuthRequired, "auth-required", "TASK_STATE_AUTH_REQUIRED"),
    (State::Unknown, "unknown", "TASK_STATE_UNSPECIFIED"),
];

/// How the protobuf form of 0.3 spells [`State::Canceled`], alone among all: its readers take no other.
const CANCELLED: &str = "TASK_STATE_CANCELLED";

impl State {
    /// Reads a state in either spelling; one that the protocol does not have is [`Unknown`](Self::Unknown).
    pub fn read(text: &str) -> Self {
        if text == CANCELLED {
            return Self::Canceled;
        }
        STATES.iter().find(|(_, v03, v10)| text == *v03 || text == *v10).map_or(Self::Unknown, |(state, ..)| *state)
    }

    /// How the dialect spells it.
    pub fn spelled(self, dialect: Dialect) -> &'static str {
        let (_, v03, v10) = STATES[self as usize];
        match dialect {
            Dialect::V03 => v03,
            Dialect::Proto03 if self == Self::Canceled => CANCELLED,
            Dialect::V10 | Dialect::Proto03 => v10,
        }
    }

    /// Whether a task in this state has ended for good.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Canceled | Self::Failed | Self::Rejected)
    }

    /// Whether a turn that reached this state has ended: `auth-required` has not, the agent goes on by itself once it may.
    pub fn settles(self) -> bool {
        self.is_terminal() || self == Self::InputRequired
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spelled(Dialect::V03))
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The client.
    User,
    /// The agent.
    Agent,
}

impl Role {
    /// Reads a role in either spelling.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "user" | "ROLE_USER" => Some(Self::User),
            "agent" | "ROLE_AGENT" => Some(Self::Agent),
            _ => None,
        }
    }

    /// How the dialect spells it.
    pub fn spelled(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::User, Dialect::V03) => "user",
            (Self::User, Dialect::V10 | Dialect::Proto03) => "ROLE_USER",
            (Self::Agent, Dialect::V03) => "agent",
            (Self::Agent, Dialect::V10 | Dialect::Proto03) => "ROLE_AGENT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_in_both_spellings() {
        for (state, v03, v10) in STATES {
            assert_eq!((State::read(v03), State::read(v10)), (state, state));
            assert_eq!((state.spelled(Dialect::V03), state.spelled(Dialect::V10)), (v03, v10));
        }
        assert_eq!(State::read("paused"), State::Unknown);
        for (state, ..) in STATES {
            assert_eq!(State::read(state.spelled(Dialect::Proto03)), state);
        }
        assert_eq!(State::Canceled.spelled(Dialect::Proto03), "TASK_STATE_CANCELLED");
    }
}
