//! What is kept of a conversation: its turns.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::{self, Digest};
use super::policy::HistoryPolicy;
use super::question::{Expected, Reason};
use crate::a2a::{Part, State, text_of};

/// A message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    /// Its messageId. Never a key: clients repeat it.
    pub id: String,
    /// Its parts, as the client wrote or saw them; the answer to a request for a credential as a receipt.
    pub parts: Vec<Part>,
}

/// Where the reply was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// In artifacts.
    Artifacts,
    /// In the message of the final status.
    Status,
    /// In the task's history.
    History,
    /// In the bare message that was the whole answer.
    Message,
    /// Nowhere.
    Nothing,
}

/// The agent's side of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Where it was found.
    pub source: Source,
    /// Which of the turn's artifacts it consists of, where it was found in artifacts; their text is kept there alone.
    pub from: Vec<u32>,
    /// The messageId of the status or bare message, or of the question made of artifacts; empty where there is none.
    pub id: String,
    /// The parts of the message, where it was found in one.
    pub parts: Vec<Part>,
    /// What stands in the status message of a rewritten task, where that is not the whole reply.
    pub question: Option<String>,
}

/// An artifact of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id as the client saw it.
    pub id: String,
    /// Its id as the agent has it, where that is another.
    pub upstream_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Bytes of its content.
    pub size: u64,
    /// SHA-256 of its content: of its text, joined; of several parts' hashes where it is more than text.
    pub sha256: [u8; 32],
}

impl Artifact {
    /// Its id as the agent has it.
    pub fn agent_id(&self) -> &str {
        self.upstream_id.as_deref().unwrap_or(&self.id)
    }

    /// Its media type, as far as it tells one.
    pub fn media_type(&self) -> &str {
        match self.parts.first() {
            Some(Part::Data(_)) => "application/json",
            Some(Part::File(file)) => file.media_type.as_deref().unwrap_or("application/octet-stream"),
            Some(Part::Text(_)) | None => "text/plain",
        }
    }
}

/// Which turns the agent was shown with a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The number of the window's first turn.
    pub first: u32,
    /// The number behind its last turn's; not greater than `first` where nothing was shown.
    pub end: u32,
    /// Turns outside the window that the message referred to.
    pub referenced: Vec<u32>,
    /// Of turns shown cut: their numbers, and the bytes left at start and end of a side.
    pub cut: Vec<(u32, u32, u32)>,
}

/// What was decided about a finished reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Whether `completed` was rewritten to `input-required`.
    pub rewritten: bool,
    /// Why.
    pub reason: Reason,
    /// What kind of answer is waited for.
    pub expected: Expected,
}

/// One user message and the agent's reply to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Its number in the context, from 1.
    pub number: u32,
    /// The client task; empty where the reply was a bare message.
    pub task: String,
    /// Which attempt of that task, from 1.
    pub attempt: u32,
    /// When it settled: milliseconds since 1970.
    pub settled_at: u64,
    /// The state that the client was told.
    pub state: State,
    /// The client's message.
    pub user: Spoken,
    /// Whether the message named its task, and its context.
    pub named: (bool, bool),
    /// Receipts of messages that joined the turn while it waited for an authorisation.
    pub joined: Vec<Part>,
    /// The digest of the client's message.
    pub user_digest: Digest,
    /// How the agent learned the history with it.
    pub history_policy: HistoryPolicy,
    /// What the agent was shown with it.
    pub shown: Shown,
    /// The digest of the message on top of what was shown.
    pub accepted: Digest,
    /// The agent's reply.
    pub reply: Reply,
    /// The turn's artifacts.
    pub artifacts: Vec<Artifact>,
    /// What was decided, where there was something to decide.
    pub decided: Option<Decided>,
}

impl Turn {
    /// The reply's text.
    pub fn reply_text(&self) -> String {
        if self.reply.source != Source::Artifacts {
            return text_of(&self.reply.parts);
        }
        let texts: Vec<_> = self.reply_artifacts().map(|artifact| text_of(&artifact.parts)).collect();
        texts.join("\n\n")
    }

    /// The artifacts that the reply consists of.
    pub fn reply_artifacts(&self) -> impl Iterator<Item = &Artifact> {
        self.reply.from.iter().filter_map(|&at| self.artifacts.get(at as usize))
    }

    /// The agent's side as one message: its text joined, then what else the reply holds.
    pub fn reply_parts(&self) -> Vec<Part> {
        let text = self.reply_text();
        let all = self.reply_artifacts().flat_map(|artifact| &artifact.parts).chain(&self.reply.parts);
        let others = all.filter(|part| part.text().is_none()).cloned();
        (!text.is_empty()).then_some(Part::Text(text)).into_iter().chain(others).collect()
    }

    /// Whether the client was told that the agent waits, by our rewriting.
    pub fn is_question(&self) -> bool {
        self.decided.is_some_and(|decided| decided.rewritten)
    }

    /// What the status message of the rewritten task says.
    pub fn question_text(&self) -> String {
        self.reply.question.clone().unwrap_or_else(|| self.reply_text())
    }

    /// The turn's digest.
    pub fn digest(&self) -> Digest {
        let agent = digest::message("agent", &self.reply_parts());
        digest::turn(self.user_digest, agent, self.artifacts.iter().map(|artifact| (&*self.task, &*artifact.id)))
    }
}

/// A turn as it is kept: encoded, with what every send needs beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The turn's number.
    pub number: u32,
    /// Bytes that the turn takes in a record (before JSON escaping).
    pub record_bytes: u32,
    /// The turn's digest.
    pub digest: Digest,
    encoded: Arc<[u8]>,
}

impl Kept {
    /// Encodes a turn that takes `record_bytes` in a record.
    pub fn new(turn: &Turn, record_bytes: usize) -> Self {
        // Into memory, from a type without maps of unknown length: nothing that postcard refuses.
        let encoded = postcard::to_allocvec(turn).unwrap_or_default();
        let record_bytes = u32::try_from(record_bytes).unwrap_or(u32::MAX);
        Self { number: turn.number, record_bytes, digest: turn.digest(), encoded: encoded.into() }
    }

    /// A turn as it was encoded before.
    pub fn of(number: u32, record_bytes: u32, digest: Digest, encoded: Arc<[u8]>) -> Self {
        Self { number, record_bytes, digest, encoded }
    }

    /// The turn, encoded.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Whether this is the same turn, and not another of its number. As quick as it gets where the one was cloned from the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.number == other.number && (Arc::ptr_eq(&self.encoded, &other.encoded) || self == other)
    }

    /// The turn.
    ///
    /// # Errors
    /// Where the bytes are not a turn: a store that was damaged, or written by another version.
    pub fn turn(&self) -> Result<Turn, postcard::Error> {
        postcard::from_bytes(&self.encoded)
    }

    /// Bytes that it takes in the store.
    pub fn size(&self) -> usize {
        self.encoded.len()
    }
}

impl Shown {
    /// How many turns these are.
    pub fn count(&self) -> usize {
        self.end.saturating_sub(self.first) as usize + self.referenced.len()
    }

    /// The digests' list for `history_turns`, from the turns of the context that the turn is in.
    pub fn entries(&self, turns: &[Kept]) -> Vec<String> {
        let window = turns.iter().filter(|turn| (self.first..self.end).contains(&turn.number));
        let referenced = self.referenced.iter().filter_map(|number| turns.iter().find(|turn| turn.number == *number));
        let cut = |number| self.cut.iter().find(|cut| cut.0 == number).map(|cut| (cut.1 as usize, cut.2 as usize));
        window.chain(referenced).map(|turn| digest::entry(turn.digest, cut(turn.number))).collect()
    }
}
