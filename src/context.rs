//! A conversation as it is kept: its turns, and the tasks that the client knows.

use serde::{Deserialize, Serialize};

use crate::conversation::transcript::{Kept, Turn};
use crate::task::{Chain, ClientTask};

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The token that fences its records: minted once, at random.
    pub fence: String,
    /// The turns that settled with success, in the order sent.
    pub turns: Vec<Kept>,
    /// Turns that failed, were cancelled or rejected, timed out or were cut off: for the operator, never shown to the agent.
    pub apart: Vec<Kept>,
    /// The tasks that the client knows, in the order in which they began.
    pub tasks: Vec<ClientTask>,
    /// The number of the first turn that may be shown: the recorded drop.
    pub window_start: u32,
    /// Rewrites in a row, up to the newest turn.
    pub rewrites: u32,
}

impl Context {
    /// The number of the next turn.
    pub fn next_number(&self) -> u32 {
        self.turns.last().map_or(0, |turn| turn.number) + 1
    }

    /// The turn with this number.
    pub fn turn(&self, number: u32) -> Option<Turn> {
        let at = self.turns.binary_search_by_key(&number, |turn| turn.number).ok()?;
        self.turns[at].turn().ok()
    }

    /// The newest turn.
    pub fn newest(&self) -> Option<Turn> {
        self.turns.last()?.turn().ok()
    }

    /// The client task with this id.
    pub fn task(&self, id: &str) -> Option<&ClientTask> {
        self.tasks.iter().find(|task| &*task.id == id)
    }

    /// Bytes of its turns in the store.
    pub fn size(&self) -> usize {
        self.turns.iter().chain(&self.apart).map(Kept::size).sum()
    }

    /// The chain as attempt number `attempt` (from 1) of `task` sees it, at the agent's task `upstream` (`None`: a new one).
    pub fn chain(&self, task: &ClientTask, attempt: u32, upstream: Option<&str>) -> Chain {
        Chain::of(task, attempt, upstream, |number| self.turn(number))
    }
}
