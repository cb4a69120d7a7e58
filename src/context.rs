//! A conversation as it is kept: its turns, and the tasks that the client knows; and how a settlement changes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::a2a::{Dialect, State};
use crate::conversation::transcript::{Kept, Turn};
use crate::push::{PushChange, PushConfig};
use crate::task::{Attempt, Chain, ClientTask, OpenedBy};

/// Turns that failed are kept for the operator; the newest of them.
const APART: usize = 16;

/// Push configurations of one task at most.
const CONFIGS: usize = 16;

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
    /// Where clients want to be notified of its tasks; of one in flight too.
    pub push: Vec<PushConfig>,
}

/// What a settlement does to a client task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChange {
    /// The client task.
    pub id: String,
    /// Which attempt of it settles, from 1.
    pub number: u32,
    /// The state that the client is told.
    pub state: State,
    /// Who left it open, where it is.
    pub opened_by: OpenedBy,
    /// How the agent spells it.
    pub dialect: Dialect,
    /// The attempt.
    pub attempt: Attempt,
}

/// The end of a turn, to be applied to its context in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The turn; none where only a task changes (an open one that is cancelled).
    pub turn: Option<Arc<Turn>>,
    /// Whether it becomes part of the transcript; else it is kept apart.
    pub success: bool,
    /// Bytes that it takes in a record.
    pub record_bytes: usize,
    /// The client task that it belongs to.
    pub task: Option<TaskChange>,
    /// The open client task that its message answered, which may be another where the answer was a bare message.
    pub answered: Option<String>,
    /// The context's recorded drop.
    pub window_start: u32,
    /// Rewrites in a row, this turn included.
    pub rewrites: u32,
    /// When: milliseconds since 1970.
    pub now: u64,
}

impl Context {
    /// A context without turns.
    pub fn new(fence: String) -> Self {
        Self { fence, window_start: 1, ..Self::default() }
    }

    /// Whether nothing is in it yet.
    pub fn is_blank(&self) -> bool {
        self.turns.is_empty() && self.apart.is_empty() && self.tasks.is_empty()
    }

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

    /// The newest turn of a client task, of those that settled with success.
    pub fn newest_turn_of(&self, task: &ClientTask) -> Option<Turn> {
        task.attempts.iter().rev().find_map(|attempt| attempt.turn).and_then(|number| self.turn(number))
    }

    /// The turn with which a client task failed, as it was kept apart.
    pub fn failed_turn_of(&self, task: &ClientTask) -> Option<Turn> {
        let turns = self.apart.iter().rev().filter_map(|kept| kept.turn().ok());
        turns.into_iter().find(|turn| *turn.task == *task.id)
    }

    /// Where the client wants to be notified of a task.
    pub fn push_of(&self, task: &str) -> impl Iterator<Item = &PushConfig> {
        self.push.iter().filter(move |config| &*config.task == task)
    }

    /// Changes where clients want to be notified. Whether it did: a task has no more than sixteen of them, and none goes twice.
    pub fn configure(&mut self, change: PushChange) -> bool {
        let at = |task: &str, id: &str| self.push.iter().position(|config| &*config.task == task && config.id == id);
        match change {
            PushChange::Set(config) => match at(&config.task, &config.id) {
                Some(at) => self.push[at] = config,
                None if self.push_of(&config.task).count() >= CONFIGS => return false,
                None => self.push.push(config),
            },
            PushChange::Delete { task, id } => match at(&task, &id) {
                Some(at) => _ = self.push.remove(at),
                None => return false,
            },
        }
        true
    }

    /// Bytes of its turns in the store.
    pub fn size(&self) -> usize {
        self.turns.iter().chain(&self.apart).map(Kept::size).sum()
    }

    /// The chain as attempt number `attempt` (from 1) of `task` sees it, at the agent's task `upstream` (`None`: a new one).
    pub fn chain(&self, task: &ClientTask, attempt: u32, upstream: Option<&str>) -> Chain {
        Chain::of(task, attempt, upstream, |number| self.turn(number))
    }

    /// Ends a turn.
    pub fn settle(&mut self, settlement: Settlement) {
        let Settlement { turn, success, record_bytes, task, answered, window_start, rewrites, now } = settlement;
        self.window_start = self.window_start.max(window_start);
        match turn {
            Some(turn) if success => {
                let sent = turn.number;
                self.turns.push(self.numbered(turn, record_bytes));
                self.rewrites = rewrites;
                let named = task.as_ref().map(|task| task.id.clone()).or(answered);
                self.close_open_questions(named.as_deref(), sent, now);
            }
            Some(turn) => {
                self.apart.push(Kept::new(&turn, record_bytes));
                let surplus = self.apart.len().saturating_sub(APART);
                self.apart.drain(..surplus);
            }
            None => {}
        }
        if let Some(mut change) = task {
            if change.attempt.turn.is_some() {
                change.attempt.turn = self.turns.last().map(|turn| turn.number);
            }
            self.change_task(change, now);
        }
    }

    /// The turn, as the next one of the transcript. One that ran beside others has its number taken where they settled before it: what was
    /// shown of the transcript so far stays as it was.
    fn numbered(&self, mut turn: Arc<Turn>, record_bytes: usize) -> Kept {
        let next = self.next_number();
        if turn.number != next {
            Arc::make_mut(&mut turn).number = next;
        }
        Kept::new(&turn, record_bytes)
    }

    /// A question that the client left behind by going on in the context has been overtaken: its task reads as its agent said. Not one that was
    /// asked by a turn beside this one: when the message was sent, as turn number `sent`, nobody had been asked.
    fn close_open_questions(&mut self, except: Option<&str>, sent: u32, now: u64) {
        let before =
            |task: &ClientTask| task.attempts.last().and_then(|attempt| attempt.turn).is_none_or(|at| at < sent);
        let open = |task: &&mut ClientTask| task.is_open_by_proxy() && Some(&*task.id) != except && before(task);
        for task in self.tasks.iter_mut().filter(open) {
            task.state = State::Completed;
            task.updated_at = now;
        }
    }

    fn change_task(&mut self, change: TaskChange, now: u64) {
        let at = self.tasks.iter().position(|task| *task.id == *change.id).unwrap_or_else(|| {
            self.tasks.push(ClientTask {
                id: change.id.as_str().into(),
                state: change.state,
                opened_by: change.opened_by,
                updated_at: now,
                dialect: change.dialect,
                attempts: Vec::with_capacity(1),
                superseded: false,
            });
            self.tasks.len() - 1
        });
        let task = &mut self.tasks[at];
        task.state = change.state;
        task.opened_by = change.opened_by;
        task.updated_at = now;
        task.dialect = change.dialect;
        // Attempts that were made and left no trace at the agent are none.
        task.attempts.truncate(change.number as usize - 1);
        task.attempts.push(change.attempt);
    }

    /// Takes the oldest turns out until the rest has `most` bytes; the newest stays. The ids of the tasks that went with them.
    pub fn trim(&mut self, most: usize) -> Vec<Box<str>> {
        let mut surplus = self.size().saturating_sub(most);
        let mut gone = 0;
        while surplus > 0 && gone + 1 < self.turns.len() {
            surplus = surplus.saturating_sub(self.turns[gone].size());
            gone += 1;
        }
        self.turns.drain(..gone);
        let first = self.turns.first().map_or(1, |turn| turn.number);
        self.window_start = self.window_start.max(first);
        self.forget_tasks(first)
    }

    /// A task goes when it has ended and no turn of it is kept any more.
    fn forget_tasks(&mut self, first: u32) -> Vec<Box<str>> {
        let apart: Vec<_> = self.apart.iter().filter_map(|kept| kept.turn().ok()).map(|turn| turn.task).collect();
        let stands = |task: &ClientTask| {
            let kept = task.attempts.iter().filter_map(|attempt| attempt.turn).any(|number| number >= first);
            kept || !task.state.is_terminal() || apart.iter().any(|id| **id == *task.id)
        };
        let gone: Vec<_> = self.tasks.iter().filter(|task| !stands(task)).map(|task| task.id.clone()).collect();
        self.tasks.retain(stands);
        self.push.retain(|config| !gone.contains(&config.task));
        gone
    }
}
