//! The way to a turn: which context a message belongs to, whether it is a repeat, and the lease.

use std::sync::Arc;
use std::time::Duration;

use super::agent::Answer;
use super::body::ReplyBody;
use super::core::{millis, mint, mint_fence};
use super::guard::Guard;
use super::join::waits;
use super::queue::{Patience, Stop};
use super::recorded::{self, Shown};
use super::reply::Reply;
use super::running::{Running, unbound};
use super::send::{Exchange, own_result, store_refusal};
use super::settle::{end, fail};
use crate::a2a::{EXTENSION_URI, Payload, State, message};
use crate::context::Context;
use crate::conversation::digest;
use crate::conversation::policy::{ContextId, GuardMode, UnknownIds};
use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::{Source, Turn as Recorded};
use crate::exchange::{Plan, Refusal, Send, redacted};
use crate::store::{Begin, Begun, Found, InFlight, Pending, Share};
use crate::task::ClientTask;
use crate::turn::continuation;

/// A repeat of the newest turn's message is answered from the record for so long.
const REPLAY_MS: u64 = 60_000;

/// Why a turn ends that the agent never ended.
pub(super) const TOOK_TOO_LONG: &str = "the turn did not end in time";

/// Why a turn ends whose task cannot be asked for any more.
pub(super) const SUPERSEDED: &str = "the agent has given the task's id to another";

/// Between two looks at one turn.
const LOOK_MS: u64 = 1000;

/// Where a message belongs.
pub(super) struct Place {
    pub(super) key: ContextKey,
    /// Whether the client named neither context nor task: the key is minted.
    pub(super) provisional: bool,
    /// The client task that it names, where it has settled once.
    pub(super) task: Option<ClientTask>,
    /// The context, where it was read on the way.
    found: Option<Found>,
    /// The number of the turn that comes next there, as it was when a repeat was looked for.
    next: u32,
}

/// What the request for the lease comes to.
pub(super) enum Acquired {
    /// The lease.
    Granted(Guard, Arc<Context>),
    /// The message belongs to the turn in flight, which waits for it.
    Joined(Guard, Arc<Context>, Pending),
    /// It belongs to the turn in flight, which waits for it and is read here.
    Read(InFlight),
    /// Another turn is in flight.
    Busy(InFlight),
    /// The message is not to be sent any more.
    Stopped(Stop),
}

impl Place {
    /// Whether the turn in flight waits for this very message: the agent asked for an authorisation.
    pub(super) fn is_waited_for(&self, send: &Send<'_, '_>) -> bool {
        let pending = self.found.as_ref().and_then(|found| found.in_flight.as_ref()?.pending.as_ref());
        pending.is_some_and(|pending| waits(pending) && names(send, pending))
    }
}

impl Exchange {
    pub(super) async fn find(&self, id: &str) -> Result<Option<Found>, Refusal> {
        self.core.store.by_task(&self.route, &self.principal, id).await.map_err(|error| store_refusal(&error))
    }

    pub(super) fn key(&self, context_id: &str) -> ContextKey {
        ContextKey { route: self.route.clone(), principal: self.principal.clone(), context_id: context_id.into() }
    }

    /// The context that a message belongs to.
    pub(super) async fn place(&self, send: &Send<'_, '_>) -> Result<Place, Refusal> {
        if let Some(id) = &send.task_id {
            return match self.find(id).await? {
                Some(found) => Ok(Place {
                    key: found.key.clone(),
                    provisional: false,
                    task: found.context.task(id).cloned(),
                    found: Some(found),
                    next: 1,
                }),
                None => self.unknown_task(send, id),
            };
        }
        Ok(self.place_of_its_own(send))
    }

    /// The context that a message names, or that it is taken to mean, or a new one.
    fn place_of_its_own(&self, send: &Send<'_, '_>) -> Place {
        let named = send.context_id.as_deref().or(self.conversation.as_deref());
        // An agent that is told another id than the client's cannot name the context.
        let scoped = self.core.policy.upstream.context_id == ContextId::Scoped;
        let key = named.map_or_else(|| self.key(&mint()), |id| self.key(id));
        Place { key, provisional: named.is_none() && !scoped, task: None, found: None, next: 1 }
    }

    /// A task without record: the task of a refused send is terminal, any other does not exist; unless such ids are the agent's matter.
    fn unknown_task(&self, send: &Send<'_, '_>, id: &str) -> Result<Place, Refusal> {
        if self.core.refused(&self.route, &self.principal, id).is_some() {
            return Err(Refusal::terminal(id, State::Failed));
        }
        if self.core.policy.unknown_ids == UnknownIds::Refuse {
            return Err(Refusal::task_not_found());
        }
        Ok(self.place_of_its_own(send))
    }

    /// The answer to a repeat of the newest turn's message, from the record.
    pub(super) async fn replay(
        &self,
        send: &Send<'_, '_>,
        place: &mut Place,
    ) -> Result<Option<http::Response<ReplyBody>>, Refusal> {
        if !self.may_be_repeat(send) {
            return Ok(None);
        }
        let named = send.context_id.as_ref().is_none_or(|id| **id == *place.key.context_id);
        let read;
        let found = match &place.found {
            Some(found) if named => found,
            // Only the context that the message names is looked into.
            Some(_) => return Ok(None),
            None => {
                read = self.core.store.context(&place.key).await.map_err(|error| store_refusal(&error))?;
                let Some(found) = &read else { return Ok(None) };
                found
            }
        };
        let next = found.context.next_number();
        let Some(turn) = found.context.newest().filter(|turn| self.is_repeat(send, turn, &found.context)) else {
            place.next = next;
            return Ok(None);
        };
        if found.in_flight.is_some() && self.core.policy.guard.mode != GuardMode::Allow {
            place.next = next;
            return Ok(None);
        }
        Ok(Some(self.replayed(send, &turn, found)))
    }

    /// The answer to a repeat whose first was in flight when it was looked for.
    pub(super) fn replay_after_wait(
        &self,
        send: &Send<'_, '_>,
        place: &Place,
        context: &Arc<Context>,
    ) -> Option<http::Response<ReplyBody>> {
        if context.next_number() == place.next || !self.may_be_repeat(send) {
            return None;
        }
        let turn = context.newest().filter(|turn| self.is_repeat(send, turn, context))?;
        let found = Found { key: place.key.clone(), context: Arc::clone(context), in_flight: None };
        Some(self.replayed(send, &turn, &found))
    }

    /// Whether a message can be one: of one that names neither context nor task it is never said.
    fn may_be_repeat(&self, send: &Send<'_, '_>) -> bool {
        let names = send.context_id.is_some() || send.task_id.is_some();
        self.core.policy.guard.replay_duplicates && names && !send.message_id.is_empty()
    }

    fn is_repeat(&self, send: &Send<'_, '_>, turn: &Recorded, context: &Context) -> bool {
        let named = (send.task_id.is_some(), send.context_id.is_some());
        let same_task = send.task_id.as_ref().is_none_or(|id| *id == turn.task);
        let recent = self.core.now().saturating_sub(turn.settled_at) < REPLAY_MS;
        if turn.user.id != send.message_id || turn.named != named || !same_task || !recent {
            return false;
        }
        // The answer to a request for a credential is kept as a receipt: it is made again to be compared.
        let content = digest::message("user", &send.parts) == turn.user_digest;
        content || {
            let secret = self.core.store.secret();
            let mut before = context.clone();
            before.turns.pop();
            let plan = Plan::new(&before, &self.core.policy, &secret, 0);
            digest::message("user", &redacted(send, &plan)) == turn.user_digest
        }
    }

    fn replayed(&self, send: &Send<'_, '_>, turn: &Recorded, found: &Found) -> http::Response<ReplyBody> {
        let shape = self.shape(send.call.dialect);
        let dialect = shape.dialect;
        tracing::info!(turn = turn.number, "answered a repeated message from the record");
        if turn.task.is_empty() || turn.reply.source == Source::Message && found.context.task(&turn.task).is_none() {
            let ids = ("", &*found.key.context_id);
            let own = (turn.is_question() || self.active).then(|| continuation(turn, &found.context.turns, turn.state));
            let own = own.map(|own| format!("{{\"{EXTENSION_URI}\":{own}}}"));
            let parts = &turn.reply.parts;
            let noun = message(dialect, crate::a2a::Role::Agent, &turn.reply.id, parts, ids, own.as_deref());
            return own_result(send, "message", &noun, shape);
        }
        let task = self.recorded_task(found, turn, dialect, send.history_length, true);
        own_result(send, "task", &task, shape)
    }

    /// A client task as the record has it, with `turn` as its newest.
    pub(super) fn recorded_task(
        &self,
        found: &Found,
        turn: &Recorded,
        dialect: crate::a2a::Dialect,
        history_length: Option<u64>,
        artifacts: bool,
    ) -> String {
        let shown = Shown { dialect, history_length, artifacts, active: self.active };
        recorded::task(&self.core.policy, &found.key.context_id, &found.context, turn, shown)
    }

    /// Takes the lease; looks at a turn in flight that nobody reads, waits as long as there is patience, gives up.
    pub(super) async fn acquire(
        &mut self,
        send: &Send<'_, '_>,
        place: &Place,
        patience: &Patience,
    ) -> Result<Acquired, Refusal> {
        loop {
            let in_flight = match self.begin(send, place).await? {
                Begun::Granted { lease, context, previous } => {
                    let guard = Guard::new(Arc::clone(&self.core), lease);
                    match previous.and_then(|previous| previous.pending) {
                        Some(pending) => self.set_apart(guard, context, pending, TOOK_TOO_LONG).await,
                        None => return Ok(Acquired::Granted(guard, context)),
                    }
                    continue;
                }
                Begun::Busy(in_flight) => in_flight,
            };
            let now = self.core.now();
            if self.is_read_here(send, place, &in_flight) {
                return Ok(Acquired::Read(in_flight));
            }
            if let Some(pending) = in_flight.pending.clone().filter(|pending| pending.idle || in_flight.until < now) {
                match self.take_over(send, place, &in_flight, pending).await? {
                    Taken::Joined(guard, context, pending) => return Ok(Acquired::Joined(guard, context, *pending)),
                    Taken::Freed => continue,
                    Taken::StillRuns => {}
                }
            }
            if patience.is_over() {
                return Ok(Acquired::Busy(in_flight));
            }
            // A turn that nobody reads ends without a word: it is looked at again after a second.
            let end = self.core.store.wait_turn(&place.key, in_flight.token);
            if let Err(stop) = patience.wait(Duration::from_secs(1), end).await {
                return Ok(Acquired::Stopped(stop));
            }
        }
    }

    /// Whether the turn in flight waits for this message, and its stream is still open here.
    fn is_read_here(&self, send: &Send<'_, '_>, place: &Place, in_flight: &InFlight) -> bool {
        let pending =
            in_flight.pending.as_ref().filter(|pending| waits(pending) && !pending.idle && names(send, pending));
        let task = pending.and_then(|pending| Some(pending.bound.as_ref()?.task_id.clone()));
        task.is_some_and(|task| self.core.readers.of(&(place.key.clone(), task)).is_some())
    }

    async fn begin(&self, send: &Send<'_, '_>, place: &Place) -> Result<Begun, Refusal> {
        let begin = Begin { provisional: place.provisional, ..self.asking(place.key.clone(), self.share(send)) };
        self.begun(begin).await
    }

    /// Takes over the unsettled turn with this token.
    pub(super) async fn take_turn_of(&self, key: ContextKey, token: u64) -> Result<Begun, Refusal> {
        self.begun(Begin { take: Some(token), ..self.asking(key, Share::Alone) }).await
    }

    /// Asks for the right to change this task, whatever other task's turn is in flight.
    pub(super) async fn begin_on_task(&self, key: ContextKey, task: &str) -> Result<Begun, Refusal> {
        self.begun(self.asking(key, Share::Beside(Some(task.to_owned())))).await
    }

    fn asking(&self, key: ContextKey, share: Share) -> Begin {
        Begin {
            key,
            provisional: false,
            fence: mint_fence(),
            take: None,
            share,
            now: self.core.now(),
            until: self.core.lease_end(),
            max_turn: millis(self.core.policy.guard.max_turn),
        }
    }

    async fn begun(&self, begin: Begin) -> Result<Begun, Refusal> {
        self.core.store.begin(begin).await.map_err(|error| store_refusal(&error))
    }

    /// A turn whose response ended before it did: joined by its answer, set apart by another message, or looked at.
    async fn take_over(
        &mut self,
        send: &Send<'_, '_>,
        place: &Place,
        in_flight: &InFlight,
        pending: Pending,
    ) -> Result<Taken, Refusal> {
        let waits = waits(&pending);
        let names_it = names(send, &pending);
        let due = self.core.now().saturating_sub(pending.looked_at) >= LOOK_MS;
        if !waits && !due {
            return Ok(Taken::StillRuns);
        }
        let Begun::Granted { lease, context, .. } = self.take_turn_of(place.key.clone(), in_flight.token).await? else {
            return Ok(Taken::StillRuns);
        };
        let guard = Guard::new(Arc::clone(&self.core), lease);
        if waits && names_it {
            return Ok(Taken::Joined(guard, context, Box::new(pending)));
        }
        if waits && send.task_id.is_none() {
            self.set_apart(guard, context, pending, "set apart: the client went on without the authorisation").await;
            return Ok(Taken::Freed);
        }
        if in_flight.superseded {
            self.set_apart(guard, context, pending, SUPERSEDED).await;
            return Ok(Taken::Freed);
        }
        Ok(if self.look(guard, context, pending).await { Taken::Freed } else { Taken::StillRuns })
    }

    pub(super) async fn set_apart(&self, guard: Guard, context: Arc<Context>, pending: Pending, why: &str) {
        let mut running = self.resumed(guard, context, pending);
        fail(&self.core, &mut running, why).await;
    }

    /// A turn that another request began, in this one's hands.
    pub(super) fn resumed(&self, guard: Guard, context: Arc<Context>, pending: Pending) -> Running {
        let bound = pending.bound.unwrap_or_else(|| unbound(""));
        let chain = self.chain(&context, &pending.opening, Some(&bound));
        let turn = self.machine(&context, pending.opening, chain);
        let context_id = guard.key().map(|key| key.context_id.to_string());
        let history_length = turn.opening.history_length;
        Running {
            guard,
            context,
            turn,
            context_id,
            bound: Some(bound),
            originals: Vec::new(),
            history_length,
            injected: 0,
            joins: false,
            left: pending.state,
            told: Some(pending.state),
            wished: false,
        }
    }

    /// Asks the agent how the turn stands. Whether it has ended.
    pub(super) async fn look(&mut self, guard: Guard, context: Arc<Context>, pending: Pending) -> bool {
        let known = pending.bound.clone().filter(|bound| !bound.upstream_task.is_empty());
        let opening = Arc::clone(&pending.opening);
        let mut running = self.resumed(guard, context, pending);
        let Some(bound) = known else {
            fail(&self.core, &mut running, "the turn was lost").await;
            return true;
        };
        let answer = running
            .guard
            .renewing(self.agent.task(&bound.upstream_task, &opening, self.core.policy.timeouts.look))
            .await;
        let seen = answer.ok().and_then(|answer| Seen::read(&answer, &mut running));
        match seen {
            Some(Seen::Ended) => {
                end(&self.core, &mut running).await;
                true
            }
            Some(Seen::Unknown) => {
                fail(&self.core, &mut running, "the agent no longer knows the task").await;
                true
            }
            Some(Seen::Runs) | None => {
                if let Err(error) = running.leave_unsettled(self.core.now()).await {
                    tracing::warn!(%error, "an unsettled turn was lost");
                }
                false
            }
        }
    }
}

/// Whether the message answers the client task of the turn in flight.
fn names(send: &Send<'_, '_>, pending: &Pending) -> bool {
    pending.bound.as_ref().is_some_and(|bound| send.task_id.as_ref() == Some(&bound.task_id))
}

enum Taken {
    Joined(Guard, Arc<Context>, Box<Pending>),
    Freed,
    StillRuns,
}

/// What a look at a task shows.
enum Seen {
    Ended,
    Runs,
    /// The agent has no such task.
    Unknown,
}

impl Seen {
    fn read(answer: &Answer, running: &mut Running) -> Option<Self> {
        let doc = match Reply::read(&answer.body, &answer.binding, true) {
            Reply::Result(doc) => doc,
            Reply::Error(Some(doc)) => {
                return answer.binding.says_not_found(doc.root(), answer.head.status.as_u16()).then_some(Self::Unknown);
            }
            Reply::Error(None) | Reply::Unreadable(_) => return None,
        };
        let (payload @ Payload::Task(_), shape) = answer.binding.payload_of(doc.root())? else {
            return None;
        };
        running.turn.hear(&payload, shape);
        Some(if running.turn.has_ended() { Self::Ended } else { Self::Runs })
    }
}
