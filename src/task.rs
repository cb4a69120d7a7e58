//! The tasks that a client knows, and what each is at the agent.
//!
//! Once told `input-required` a client answers on the same task, and the agent's task is finished and refuses. So a client task is a chain of
//! attempts, each with the agent's ids of its own; the client sees one id, one list of artifacts, one history.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::a2a::{Dialect, Part, Role, State};
use crate::conversation::transcript::{Artifact, Turn};

/// Who left a task open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenedBy {
    /// The agent itself: it is continued under the agent's own ids.
    Agent,
    /// The proxy, by its rewriting: the agent's task is finished.
    Proxy,
}

/// A message sent to the agent for a client task, and where it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The agent's task id, where it is not the client task's.
    pub upstream_task: Option<Box<str>>,
    /// The agent's contextId, where it is not the client's.
    pub upstream_context: Option<Box<str>>,
    /// The number of the turn, where it settled with success.
    pub turn: Option<u32>,
}

/// A task under the id that the client knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTask {
    /// The id.
    pub id: Box<str>,
    /// The state that the client was told.
    pub state: State,
    /// Who left it open, where it is.
    pub opened_by: OpenedBy,
    /// When its state changed: milliseconds since 1970.
    pub updated_at: u64,
    /// How the agent was last seen to spell its tasks.
    pub dialect: Dialect,
    /// Its attempts, the oldest first; one at least.
    pub attempts: Vec<Attempt>,
    /// Whether the agent's id has come to mean another task: then the record alone answers.
    pub superseded: bool,
}

impl ClientTask {
    /// Whether the client may answer on it because we said so.
    pub fn is_open_by_proxy(&self) -> bool {
        self.state == State::InputRequired && self.opened_by == OpenedBy::Proxy
    }

    /// The agent's id of the attempt.
    pub fn upstream_task(&self, attempt: &Attempt) -> String {
        attempt.upstream_task.as_deref().unwrap_or(&self.id).to_owned()
    }

    /// The agent's id of the newest attempt. `None` where the record alone answers: the attempt made no task at the agent, or the id has come
    /// to mean another task there.
    pub fn newest_upstream(&self) -> Option<String> {
        let newest = self.attempts.last().filter(|_| !self.superseded)?;
        Some(self.upstream_task(newest)).filter(|id| !id.is_empty())
    }
}

/// A client task seen from one of its attempts: what came before it, under other ids at the agent.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// The ordinal of the attempt under which the agent's task was first heard of.
    pub ordinal: u32,
    /// The turns of earlier attempts that had another task at the agent.
    pub earlier: Vec<Turn>,
    /// The newest earlier turn of the same task at the agent, where a genuine `input-required` is continued.
    pub continued: Option<Turn>,
}

impl Chain {
    /// The chain of a task's first attempt.
    pub fn first() -> Self {
        Self { ordinal: 1, ..Self::default() }
    }

    /// The chain as attempt number `attempt` (from 1) of `task` sees it, at the agent's task `upstream` (`None`: a new one).
    /// `find` finds a turn by its number.
    pub fn of(task: &ClientTask, attempt: u32, upstream: Option<&str>, find: impl Fn(u32) -> Option<Turn>) -> Self {
        let before = &task.attempts[..task.attempts.len().min(attempt as usize - 1)];
        let turn = |attempt: &Attempt| attempt.turn.and_then(&find);
        // A task that ended is not continued: an agent that counts from one again gives its id to another.
        let goes_on = |attempt: &&Attempt| turn(attempt).is_none_or(|turn| !turn.is_question());
        let same = |attempt: &&Attempt| upstream == Some(&*task.upstream_task(attempt)) && goes_on(attempt);
        let run = before.iter().rev().take_while(same).count();
        let (earlier, continued) = before.split_at(before.len() - run);
        Self {
            ordinal: attempt - run as u32,
            earlier: earlier.iter().filter_map(turn).collect(),
            continued: continued.iter().rev().find_map(turn),
        }
    }

    /// The id under which the client sees an artifact of this attempt's task.
    pub fn artifact_id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        let taken = self.earlier.iter().flat_map(|turn| &turn.artifacts).any(|artifact| artifact.agent_id() == id);
        if taken { Cow::Owned(format!("{id}~{}", self.ordinal)) } else { Cow::Borrowed(id) }
    }

    /// The artifacts of earlier attempts that still stand: without those from which an answered question was rebuilt.
    pub fn artifacts(&self) -> Vec<&Artifact> {
        let mut seen = HashSet::new();
        let standing = self.earlier.iter().flat_map(|turn| {
            let question = if turn.is_question() { turn.reply.from.clone() } else { Vec::new() };
            let artifacts = turn.artifacts.iter().enumerate();
            artifacts.filter(move |(at, _)| !question.contains(&(*at as u32))).map(|(_, artifact)| artifact)
        });
        // The last of several under one id is the newest.
        let mut standing: Vec<_> = standing.collect();
        standing.reverse();
        standing.retain(|artifact| seen.insert(&artifact.id));
        standing.reverse();
        standing
    }

    /// What was said in earlier attempts: role, messageId and parts, the oldest first.
    pub fn messages(&self) -> Vec<Said> {
        self.earlier.iter().flat_map(said).collect()
    }
}

/// A message of a task's history: who said it, its messageId, its parts.
pub type Said = (Role, String, Vec<Part>);

/// What was said in a turn, as messages of a task's history: the reply as far as it is a message.
pub fn said(turn: &Turn) -> Vec<Said> {
    let user = (Role::User, turn.user.id.clone(), turn.user.parts.clone());
    let question = turn.is_question().then(|| vec![Part::Text(turn.question_text())]);
    let agent = question.or_else(|| (!turn.reply.parts.is_empty()).then(|| turn.reply.parts.clone()));
    let agent = agent.map(|parts| (Role::Agent, turn.reply.id.clone(), parts));
    [Some(user), agent].into_iter().flatten().collect()
}

/// Both sides of a turn as messages, also where the reply was no message but artifacts.
pub fn both_sides(turn: &Turn) -> Vec<Said> {
    let user = (Role::User, turn.user.id.clone(), turn.user.parts.clone());
    let id = Some(&turn.reply.id).filter(|id| !id.is_empty()).cloned();
    // Artifacts have no messageId: one that is the same whenever the turn is told.
    let id = id.unwrap_or_else(|| format!("{}-reply-{}", turn.task, turn.number));
    let parts = if turn.is_question() { vec![Part::Text(turn.question_text())] } else { turn.reply_parts() };
    let agent = (!parts.is_empty()).then_some((Role::Agent, id, parts));
    [Some(user), agent].into_iter().flatten().collect()
}
