//! Which turns the agent is shown with a message.

use super::{Plan, continued};
use crate::context::Context;
use crate::conversation::digest;
use crate::conversation::policy::{HistoryPolicy, OnContinuation};
use crate::conversation::record::{self, Record};
use crate::conversation::transcript::Shown;
use crate::exchange::Send;

/// What is shown with a message.
#[derive(Clone, Debug)]
pub(super) struct Showing {
    pub(super) policy: HistoryPolicy,
    pub(super) start: u32,
    pub(super) shown: Shown,
    pub(super) record: Option<Record>,
    pub(super) turns: usize,
    pub(super) entries: Vec<String>,
    pub(super) accepted: digest::Digest,
}

impl Showing {
    pub(super) fn of(send: &Send<'_, '_>, plan: &Plan<'_>, room: usize, message: digest::Digest) -> Self {
        let history = &plan.policy.history;
        let mut policy = send.asked.history_policy.map_or(history.policy, |asked| asked.min(history.policy));
        if policy == HistoryPolicy::AgentFetched && plan.pointing.is_none() {
            policy = HistoryPolicy::None;
        }
        // What is fetched takes no room in the message.
        let room = if policy == HistoryPolicy::AgentFetched { usize::MAX } else { room };
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
        let puts = policy == HistoryPolicy::ClientSupplied && !turns.is_empty();
        let record = puts.then(|| Record::of(turns.iter(), &context.fence, history.turn_bytes));
        shown.cut = record.as_ref().map(|record| record.cut.clone()).unwrap_or_default();
        let entries = shown.entries(&context.turns);
        let accepted = digest::accepted(&entries, message);
        Self { policy, start, shown, record, turns: turns.len(), entries, accepted }
    }

    pub(super) fn is_empty(&self) -> bool {
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
