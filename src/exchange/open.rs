//! How a turn is opened: what the agent is sent, and what is known of the turn from then on.

mod forward;
mod kept;
mod showing;

use std::sync::Arc;

use self::forward::forward;
pub use self::forward::join;
pub use self::kept::redacted;
use self::showing::Showing;
use super::{Pointing, Refusal, Send};
use crate::a2a::{State, text_of};
use crate::context::Context;
use crate::conversation::digest;
use crate::conversation::policy::{Inline, Policy};
use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::Spoken;
use crate::push::Callback;
use crate::task::{Chain, ClientTask, OpenedBy};
use crate::turn::Opening;

/// What a turn is opened with, beside the send itself.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The context, under its lease.
    pub context: &'a Context,
    /// Its key, where the client knows its contextId already.
    pub key: Option<&'a ContextKey>,
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
    /// How the agent is pointed to the conversation, where it can reach it.
    pub pointing: Option<&'a Pointing<'a>>,
    /// Now: milliseconds since 1970.
    pub now: u64,
    /// Where the agent is to push, where it is.
    pub callback: Option<&'a Callback>,
}

impl<'a> Plan<'a> {
    /// A message that neither answers nor follows nor refers to a task. `secret` is the store's, `now` in milliseconds since 1970.
    pub fn new(context: &'a Context, policy: &'a Policy, secret: &'a [u8], now: u64) -> Self {
        Self {
            context,
            key: None,
            task: None,
            follows: None,
            references: &[],
            policy,
            active: false,
            secret,
            pointing: None,
            now,
            callback: None,
        }
    }

    /// Its contextId, where the client knows one already.
    pub fn context_id(&self) -> Option<&'a str> {
        self.key.map(|key| &*key.context_id)
    }
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
        inline: send.asked.inline.unwrap_or(plan.policy.rewrite.inline == Inline::Always),
        history_length: send.history_length,
        started_at: plan.now,
        callback: plan.callback.map(|callback| callback.name.clone()),
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
    let context = context.or(plan.context_id()).unwrap_or_default();
    Some((task.newest_upstream()?, context.to_owned()))
}
