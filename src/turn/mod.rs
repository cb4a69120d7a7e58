//! The machine of a turn: what is heard of it goes in, the client's view and at most one settlement come out.
//!
//! A turn can be seen to end through any door (its own reply, a poll, a stream, the proxy's look at the task), so the doors only translate:
//! they [`hear`](Turn::hear) payloads, and when the turn [has ended](Turn::has_ended) they [`close`](Turn::close) it, let the store settle
//! it, and show the client what was settled. Nobody is told a closing state before that.

mod marker;
mod show;
mod signal;
mod standing;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use marker::Tail;
pub use show::{Told, View, continuation, task_of_message};

use crate::a2a::{Dialect, Endpoint, Message, Part, Payload, Role, Shape, State, Voice, text_of};
use crate::context::{Settlement, TaskChange};
use crate::conversation::digest::Digest;
use crate::conversation::policy::{HistoryPolicy, Mode, Policy, QuestionText};
use crate::conversation::question::{self, Decision, Reason};
use crate::conversation::record;
use crate::conversation::reply::{self, Heard, Hearing, Rebuilt};
use crate::conversation::transcript::{self, Artifact, Decided, Shown, Source, Spoken};
use crate::task::{Attempt, Chain, OpenedBy};

/// What is known of a turn when its message is sent; kept with the lease, so that whoever sees the end can settle it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The turn's number in its context.
    pub number: u32,
    /// The open client task that the message answers.
    pub task: Option<String>,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// The agent's task and contextId, where the agent's own open task is continued.
    pub continued: Option<(String, String)>,
    /// The client's message as it is kept.
    pub user: Spoken,
    /// The text of the client's message, for the decision whether the agent asks (questions that the user ordered are none); not kept.
    #[serde(skip)]
    pub user_text: String,
    /// Whether the message named its task, and its context.
    pub named: (bool, bool),
    /// Receipts of messages that joined the turn while it waited for an authorisation.
    pub joined: Vec<Part>,
    /// The digest of the client's message as it is kept.
    pub user_digest: Digest,
    /// What the agent is shown with it.
    pub shown: Shown,
    /// How many turns that are.
    pub injected: usize,
    /// The digest of the message on top of what is shown.
    pub accepted: Digest,
    /// How the agent learns the history.
    pub history_policy: HistoryPolicy,
    /// The context's recorded drop after this message.
    pub window_start: u32,
    /// The dialect of the request.
    pub dialect: Dialect,
    /// Where it was sent: the proxy's own calls for the turn go there.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
    /// Whether the client activated the extension.
    pub active: bool,
    /// Whether `status.continuation` is to be filled.
    pub inline: bool,
    /// The `historyLength` that the client asked for.
    pub history_length: Option<u64>,
    /// When it was sent: milliseconds since 1970.
    pub started_at: u64,
    /// The name of the callback at which the agent pushes what becomes of it, where it was given one.
    pub callback: Option<String>,
}

impl Opening {
    /// How the proxy's own calls for the turn are made.
    pub fn voice(&self) -> Voice {
        Voice { dialect: self.dialect, endpoint: self.endpoint.clone() }
    }
}

/// The ids under which the client knows the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The client task; empty for a bare message.
    pub task_id: String,
    /// The contextId.
    pub context_id: String,
    /// The agent's task; empty for a bare message.
    pub upstream_task: String,
    /// The agent's contextId; empty where it gave none.
    pub upstream_context: String,
}

/// A turn while it is in flight.
#[derive(Clone, Debug)]
pub struct Turn {
    /// How it began.
    pub opening: Arc<Opening>,
    /// What came before it under the same client task.
    pub chain: Chain,
    policy: Arc<Policy>,
    fence: String,
    rewrites: u32,
    hearing: Hearing,
    state: Option<State>,
    dialect: Dialect,
    /// Messages that came with a status that ends nothing: progress chatter, never the reply.
    chatter: Vec<String>,
    /// What it says in metadata about whether it waits, as JSON.
    signal: Option<String>,
}

impl Turn {
    /// A turn that begins. `fence` and `rewrites` are its context's.
    pub fn new(opening: Arc<Opening>, chain: Chain, policy: Arc<Policy>, fence: String, rewrites: u32) -> Self {
        let dialect = opening.dialect;
        Self {
            opening,
            chain,
            policy,
            fence,
            rewrites,
            hearing: Hearing::default(),
            state: None,
            dialect,
            chatter: Vec::new(),
            signal: None,
        }
    }

    /// Takes in what the agent says.
    pub fn hear(&mut self, payload: &Payload<'_, '_>, shape: Shape) {
        self.dialect = shape.dialect;
        let signal = signal::in_metadata(payload, &self.policy.rewrite.question.metadata);
        self.signal = signal.or(self.signal.take());
        match payload {
            Payload::Task(task) => {
                self.hearing.artifacts(&task.artifacts(), &self.policy.reply);
                self.hear_status(task.state(), task.status_message());
                self.hearing.history = self.answer_in(&task.history());
            }
            Payload::StatusUpdate(update) => self.hear_status(update.state(), update.status_message()),
            Payload::ArtifactUpdate(update) => {
                self.hearing.artifact(update.artifact, update.appends(), &self.policy.reply);
            }
            Payload::Message(message) => {
                self.hearing.message = Some(self.spoken(*message));
                self.state = Some(State::Completed);
            }
        }
    }

    fn hear_status(&mut self, state: State, message: Option<Message<'_, '_>>) {
        self.state = Some(state);
        let message = message.map(|message| self.spoken(message));
        match message {
            Some(message) if state.settles() || state == State::AuthRequired => self.hearing.status = Some(message),
            Some(message) => self.chatter.push(message.id),
            None => {}
        }
    }

    fn spoken(&self, message: Message<'_, '_>) -> Spoken {
        let id = message.id().unwrap_or_default().into_owned();
        Spoken { id, parts: reply::said_parts(message.value, &self.policy.reply) }
    }

    /// The last agent message behind this turn's user message that was no progress chatter.
    fn answer_in(&self, history: &[Message<'_, '_>]) -> Option<Spoken> {
        let is_user = |message: &Message<'_, '_>| message.role() == Some(Role::User);
        let is_ours =
            |message: &Message<'_, '_>| is_user(message) && message.id().as_deref() == Some(&*self.opening.user.id);
        let asked = history.iter().rposition(is_ours).or_else(|| history.iter().rposition(is_user));
        let after = &history[asked.map_or(0, |at| at + 1)..];
        let answers = after.iter().rev().filter(|message| message.role() == Some(Role::Agent));
        let mut spoken = answers.map(|message| self.spoken(*message));
        spoken.find(|message| !self.chatter.contains(&message.id))
    }

    /// Whether the agent has said that it ended, one way or another.
    pub fn has_ended(&self) -> bool {
        self.state.is_some_and(State::settles)
    }

    /// The state that the agent last told; `None` before it told any.
    pub fn state(&self) -> Option<State> {
        self.state
    }

    /// How the agent spells things, as last seen.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the reply is found in nothing that was heard.
    pub fn lacks_reply(&self) -> bool {
        self.state == Some(State::Completed) && self.rebuilt().source == Source::Nothing
    }

    fn rebuilt(&self) -> Rebuilt {
        let before = self.chain.continued.as_ref();
        let known = |heard: &Heard| {
            before.and_then(|turn| turn.artifacts.iter().find(|artifact| artifact.agent_id() == heard.id))
        };
        reply::rebuild(&self.hearing, &self.policy.reply, |heard| {
            known(heard).is_none_or(|before| before.sha256 != reply::fingerprint(&heard.parts).1)
        })
    }

    /// Ends the turn as the agent ended it. `question_id` becomes the messageId of a question that has none of its own, `task_id` the id of the
    /// task that a bare message becomes where it asks and the route makes a task of it.
    pub fn close(&mut self, bound: &Bound, now: u64, question_id: &str, task_id: &str) -> Settlement {
        let state = self.state.unwrap_or(State::Failed);
        let rebuilt = self.without_markers(self.rebuilt());
        let mut turn = self.record(&rebuilt, bound, state, now);
        if state == State::Completed {
            self.decide(&mut turn, question_id, task_id);
        }
        let bound = Bound { task_id: turn.task.clone(), ..bound.clone() };
        self.settlement(turn, &bound, now)
    }

    /// Ends the turn as failed, whatever was heard: a cut reply, a lost lease. `why` is what the status message says.
    pub fn fail(&mut self, bound: &Bound, now: u64, message_id: &str, why: &str) -> Settlement {
        let rebuilt = Rebuilt {
            source: Source::Status,
            from: Vec::new(),
            message: Some(Spoken { id: message_id.to_owned(), parts: vec![Part::Text(why.to_owned())] }),
        };
        self.state = Some(State::Failed);
        let turn = self.record(&rebuilt, bound, State::Failed, now);
        self.settlement(turn, bound, now)
    }

    /// Ends the turn as cancelled by the client.
    pub fn cancel(&mut self, bound: &Bound, now: u64) -> Settlement {
        self.state = Some(State::Canceled);
        let nothing = Rebuilt { source: Source::Nothing, from: Vec::new(), message: None };
        let turn = self.record(&nothing, bound, State::Canceled, now);
        self.settlement(turn, bound, now)
    }

    /// Takes the markers and the repeats of our own record out of what is kept.
    fn without_markers(&mut self, rebuilt: Rebuilt) -> Rebuilt {
        let fence = self.fence.clone();
        let clean = |parts: &mut Vec<Part>, markers: &[String]| {
            for part in parts {
                if let Part::Text(text) = part {
                    *text = record::without_repeats(&unmarked(text, markers), &fence).into_owned();
                }
            }
        };
        // Whether the reply holds a marker is asked before they go.
        self.hearing.artifacts.iter_mut().enumerate().for_each(|(at, heard)| {
            // In the artifacts that make up the reply a marker stays until the decision has seen it.
            let markers = if rebuilt.from.contains(&(at as u32)) { &[][..] } else { show::markers(&self.policy) };
            clean(&mut heard.parts, markers);
        });
        let mut rebuilt = rebuilt;
        if let Some(message) = &mut rebuilt.message {
            clean(&mut message.parts, &[]);
        }
        rebuilt
    }

    fn record(&self, rebuilt: &Rebuilt, bound: &Bound, state: State, now: u64) -> transcript::Turn {
        let opening = &*self.opening;
        transcript::Turn {
            number: opening.number,
            task: bound.task_id.clone(),
            attempt: opening.attempt,
            settled_at: now,
            state,
            user: opening.user.clone(),
            named: opening.named,
            joined: opening.joined.clone(),
            user_digest: opening.user_digest,
            history_policy: opening.history_policy,
            shown: opening.shown.clone(),
            accepted: opening.accepted,
            reply: reply::record(rebuilt),
            artifacts: self.hearing.artifacts.iter().map(|heard| self.kept(heard)).collect(),
            decided: None,
        }
    }

    fn kept(&self, heard: &Heard) -> Artifact {
        reply::keep(heard, &self.chain.artifact_id(&heard.id))
    }

    fn decide(&self, turn: &mut transcript::Turn, question_id: &str, task_id: &str) {
        let parts = turn.reply_parts();
        let text = text_of(&parts);
        let data = parts.iter().find_map(|part| if let Part::Data(json) = part { Some(&**json) } else { None });
        let metadata = self.signal.as_deref();
        let from = turn.reply.from.iter().filter_map(|at| turn.artifacts.get(*at as usize));
        let names: Vec<_> = from.filter_map(|artifact| artifact.name.as_deref()).collect();
        let asked = question::Reply { text: &text, data: data.filter(|_| text.is_empty()), metadata, names: &names };
        let decision = question::decide(&asked, &self.opening.user_text, &self.policy.rewrite.question, self.rewrites);
        turn.decided =
            Some(Decided { rewritten: decision.waiting, reason: decision.reason, expected: decision.expected });
        unmark(turn, show::markers(&self.policy));
        if decision.waiting {
            if turn.task.is_empty() && self.policy.rewrite.wrap_message && self.policy.mode == Mode::Converse {
                task_id.clone_into(&mut turn.task);
            }
            // A message keeps its own state of affairs: there is no task to say `input-required` of.
            turn.state = if turn.task.is_empty() { State::Completed } else { State::InputRequired };
            turn.reply.question = self.question_text(&decision, &text);
            if turn.reply.id.is_empty() {
                question_id.clone_into(&mut turn.reply.id);
            }
        }
    }

    /// What the status message says, where that is not the whole reply.
    fn question_text(&self, decision: &Decision, text: &str) -> Option<String> {
        if decision.shown.is_some() {
            return decision.shown.clone();
        }
        let asked = decision.asked.clone().filter(|_| self.policy.rewrite.text == QuestionText::Tail)?;
        Some(text.get(asked)?.trim().to_owned())
    }

    fn settlement(&self, turn: transcript::Turn, bound: &Bound, now: u64) -> Settlement {
        let turn = Arc::new(turn);
        let success = matches!(turn.state, State::Completed | State::InputRequired);
        let attempt = Attempt {
            upstream_task: (bound.upstream_task != bound.task_id).then(|| bound.upstream_task.as_str().into()),
            upstream_context: (bound.upstream_context != bound.context_id)
                .then(|| bound.upstream_context.as_str().into()),
            turn: success.then_some(turn.number),
        };
        let opened_by = if turn.is_question() { OpenedBy::Proxy } else { OpenedBy::Agent };
        let task = (!bound.task_id.is_empty()).then(|| TaskChange {
            id: bound.task_id.clone(),
            number: self.opening.attempt,
            state: turn.state,
            opened_by,
            dialect: self.dialect,
            attempt,
        });
        Settlement {
            record_bytes: record::record_bytes(&turn, &self.fence, self.policy.history.turn_bytes),
            rewrites: self.rewrites_after(&turn),
            window_start: self.opening.window_start,
            answered: self.opening.task.clone(),
            success,
            turn: Some(turn),
            task,
            now,
        }
    }
}

impl Turn {
    /// Rewrites in a row after `turn`. One that was not rewritten for their number alone does not end the row: two agents would begin anew.
    fn rewrites_after(&self, turn: &transcript::Turn) -> u32 {
        match turn.decided {
            Some(decided) if decided.rewritten => self.rewrites + 1,
            Some(decided) if decided.reason == Reason::Cap => self.rewrites,
            _ => 0,
        }
    }
}

fn unmarked<'t>(text: &'t str, markers: &[String]) -> std::borrow::Cow<'t, str> {
    match question::marker_range(text, markers) {
        Some(range) => format!("{}{}", &text[..range.start], &text[range.end..]).into(),
        None => text.into(),
    }
}

/// Takes markers out of a turn's reply: they stand at its very start or end.
fn unmark(turn: &mut transcript::Turn, markers: &[String]) {
    let from = turn.reply.from.clone();
    let artifacts = turn.artifacts.iter_mut().enumerate().filter(|(at, _)| from.contains(&(*at as u32)));
    let parts = artifacts.flat_map(|(_, artifact)| &mut artifact.parts).chain(&mut turn.reply.parts);
    for part in parts {
        if let Part::Text(text) = part {
            *text = unmarked(text, markers).into_owned();
        }
    }
    for at in from {
        if let Some(artifact) = turn.artifacts.get_mut(at as usize) {
            (artifact.size, artifact.sha256) = reply::fingerprint(&artifact.parts);
        }
    }
}
