//! A send: from the client's message to the agent and back, under the context's lease.

mod answer;

pub(super) use self::answer::passed_on;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderValue, Response};
use tokio_util::sync::CancellationToken;

use super::DEBUG_HEADER;
use super::acquire::{Acquired, Place};
use super::agent::{Agent, Got};
use super::body::ReplyBody;
use super::core::{Cancellable, Core, Refused, mint, timestamp};
use super::guard::Guard;
use super::listeners::{Audience, Knock, Stir};
use super::respond;
use super::running::Running;
use super::settle::{Ended, cancel, fail};
use crate::a2a::{Binding, Call, Dialect, Part, Shape};
use crate::context::Context;
use crate::conversation::policy::{Mode, Reject, TerminalFollowup, UnknownIds};
use crate::conversation::principal::{Principal, RouteId, Unidentified};
use crate::exchange::{Plan, Refusal, Send, busy_task, extension_is_active, open};
use crate::store::{InFlight, StoreError};
use crate::task::{Chain, ClientTask};
use crate::turn::{Bound, Opening, Tail, Turn, View};

/// A request of a client, and what it takes to answer it.
pub(super) struct Exchange {
    pub(super) core: Arc<Core>,
    pub(super) agent: Agent,
    pub(super) route: RouteId,
    pub(super) principal: Principal,
    /// Whether the caller can be told from others.
    pub(super) identified: bool,
    /// Whether the client activated the extension.
    pub(super) active: bool,
    /// The contextId that a message means which names none.
    pub(super) conversation: Option<String>,
    /// Tells when the client has left before it had an answer.
    pub(super) gone: CancellationToken,
}

pub(super) type Outcome = Result<Response<ReplyBody>, Refusal>;

impl Exchange {
    /// What is known of a request by its head. `gone` tells when its client has left.
    pub(super) fn new(core: Arc<Core>, agent: Agent, head: &http::request::Parts, gone: CancellationToken) -> Self {
        let route = head.extensions.get::<RouteId>().cloned().unwrap_or_default();
        let principal = head.extensions.get::<Principal>().cloned().unwrap_or_default();
        Self {
            conversation: core.conversation(&route, &principal, &head.headers),
            identified: head.extensions.get::<Unidentified>().is_none(),
            active: extension_is_active(&head.headers),
            core,
            agent,
            route,
            principal,
            gone,
        }
    }

    pub(super) async fn send(mut self, call: Call<'_, '_>, bytes: Bytes) -> Outcome {
        let send = Send::read(call, &self.core.policy.limits)?;
        if !self.identified {
            return self.without_conversation(&send, bytes).await;
        }
        if self.core.policy.mode == Mode::Observe {
            return self.observe(&send, bytes).await;
        }
        self.push_wish(&send)?;
        let mut place = self.place(&send).await?;
        if let Some(answer) = self.replay(&send, &mut place).await? {
            return Ok(answer);
        }
        self.check_task(&send, &place)?;
        match self.turn(&send, &place).await? {
            Acquired::Granted(mut guard, context) => {
                if let Some(answer) = self.replay_after_wait(&send, &place, &context) {
                    guard.release().await;
                    return Ok(answer);
                }
                self.take_turn(&send, place, guard, context, bytes).await
            }
            Acquired::Joined(guard, context, pending) => self.join_turn(&send, place, guard, context, pending).await,
            Acquired::Read(in_flight) => self.join_beside(&send, &place, in_flight).await,
            Acquired::Busy(in_flight) => self.refuse_busy(&send, &place, &in_flight),
            Acquired::Stopped(stop) => self.stopped(&send, stop).await,
        }
    }

    /// The rules of a named task that need no lease.
    fn check_task(&self, send: &Send<'_, '_>, place: &Place) -> Result<(), Refusal> {
        let Some(id) = &send.task_id else { return Ok(()) };
        if send.context_id.as_ref().is_some_and(|named| *named != *place.key.context_id) {
            return Err(Refusal::mismatch(id));
        }
        match &place.task {
            Some(task) if self.ends_here(task) => Err(Refusal::terminal(id, task.state)),
            _ => Ok(()),
        }
    }

    fn ends_here(&self, task: &ClientTask) -> bool {
        task.state.is_terminal() && self.core.policy.terminal_followup == TerminalFollowup::Refuse
    }

    async fn take_turn(
        self,
        send: &Send<'_, '_>,
        place: Place,
        mut guard: Guard,
        context: Arc<Context>,
        bytes: Bytes,
    ) -> Outcome {
        let named = send.task_id.as_ref().and_then(|id| context.task(id)).cloned();
        if send.task_id.is_some() && named.is_none() && self.core.policy.unknown_ids == UnknownIds::Refuse {
            // It was in flight when it was looked up, and has come to nothing.
            guard.release().await;
            return Err(Refusal::task_not_found());
        }
        if let Some(task) = named.as_ref().filter(|task| self.ends_here(task)) {
            guard.release().await;
            return Err(Refusal::terminal(&task.id, task.state));
        }
        let mut references = self.references(send, &context).await?;
        let followed = named.as_ref().filter(|task| task.state.is_terminal());
        references.extend(followed.and_then(|task| Some((task.id.to_string(), task.newest_upstream()?))));
        let secret = self.core.store.secret();
        let open_task = named.as_ref().filter(|task| !task.state.is_terminal());
        let wish = self.push_wish(send)?;
        let callback = self.callback(wish.is_some(), &context, open_task);
        let pointing = self.pointing();
        let plan = Plan {
            key: (!place.provisional).then_some(&place.key),
            task: open_task,
            follows: followed.map(|task| &*task.id),
            references: &references,
            pointing: pointing.as_ref(),
            callback: callback.as_ref(),
            ..self.plan(&context, &secret)
        };
        let opened = match open(send, &plan) {
            Ok(opened) => opened,
            Err(refusal) => {
                guard.release().await;
                return Err(refusal);
            }
        };
        let context_id = plan.context_id().map(str::to_owned);
        let wished = wish.is_some();
        self.push_with(&mut guard, callback.as_ref(), wish).await?;
        let turn = self.machine(&context, opened.opening, opened.chain);
        let running = Running {
            originals: originals(send),
            history_length: send.history_length,
            wished,
            ..Running::begun(guard, context, turn, context_id, opened.injected)
        };
        let body = opened.body.map_or(bytes, Bytes::from);
        self.run(send, running, body).await
    }

    pub(super) fn plan<'a>(&'a self, context: &'a Context, secret: &'a [u8]) -> Plan<'a> {
        Plan { active: self.active, ..Plan::new(context, &self.core.policy, secret, self.core.now()) }
    }

    pub(super) fn machine(&self, context: &Context, opening: Arc<Opening>, chain: Chain) -> Turn {
        Turn::new(opening, chain, Arc::clone(&self.core.policy), context.fence.clone(), context.rewrites)
    }

    /// The chain of a turn that another request began.
    pub(super) fn chain(&self, context: &Context, opening: &Opening, bound: Option<&Bound>) -> Chain {
        let task = opening.task.as_ref().and_then(|id| context.task(id));
        let bound = bound.map(|bound| &*bound.upstream_task).filter(|id| !id.is_empty());
        let upstream = bound.or(opening.continued.as_ref().map(|(task, _)| &**task));
        task.map_or_else(Chain::first, |task| context.chain(task, opening.attempt, upstream))
    }

    /// The agent's ids of the tasks that the message refers to, as far as they are the principal's own.
    async fn references(&self, send: &Send<'_, '_>, context: &Context) -> Result<Vec<(String, String)>, Refusal> {
        let mut found = Vec::new();
        for id in &send.references {
            let task = match context.task(id) {
                Some(task) => Some(task.clone()),
                None => self.find(id).await?.and_then(|found| found.context.task(id).cloned()),
            };
            found.extend(task.and_then(|task| Some((id.clone(), task.newest_upstream()?))));
        }
        Ok(found)
    }

    /// Sends the message and takes in the answer. A client that cancels the task before the agent has told an id ends the wait.
    pub(super) async fn run(mut self, send: &Send<'_, '_>, mut running: Running, body: Bytes) -> Outcome {
        running.begin(self.core.now()).await.map_err(|error| store_refusal(&error))?;
        let mut audience = Audience::default();
        let task = running.turn.opening.task.clone();
        if let (Some(task), Some(key)) = (&task, running.guard.key()) {
            audience.open(&self.core, (key, task.clone()));
        }
        let wish = self.wish(&running);
        let got = {
            let answer = running.guard.renewing(self.agent.exchange(body, send.call.verb.streams()));
            let mut answer = std::pin::pin!(answer);
            loop {
                let listener = {
                    let stir = std::pin::pin!(audience.stir(wish.as_ref()));
                    match select(&mut answer, stir).await {
                        Either::Left((got, _)) => break got,
                        Either::Right((Stir::Canceled, _)) => break Ok(Got::Canceled),
                        Either::Right((Stir::Knocked(Knock::Listens(listener)), _)) => listener,
                        // Nobody joins a turn of which nothing has been heard.
                        Either::Right((Stir::Knocked(_), _)) => continue,
                    }
                };
                let ids = (task.as_deref(), running.context_id.as_deref());
                let dialect = send.call.dialect;
                audience.admit(listener, || standing(&self.core, &running.turn, ids, dialect));
            }
        };
        match got {
            Ok(Got::Stream(answer)) => Ok(self.stream(send, running, answer, audience, wish)),
            Ok(Got::Whole(answer)) => {
                let outcome = self.answer(send, &mut running, answer).await;
                if running.is_left_running() {
                    let task = running.bound.as_ref().map(|bound| bound.task_id.clone()).unwrap_or_default();
                    self.watch(task, &running.turn.opening);
                }
                outcome
            }
            Ok(Got::Canceled) => self.canceled(send, running).await,
            Err(refusal) => self.broken(running, refusal).await,
        }
    }

    fn wish(&self, running: &Running) -> Option<Cancellable> {
        let task = running.turn.opening.task.clone()?;
        Some(self.core.cancellable((running.guard.key()?, task)))
    }

    async fn canceled(&self, send: &Send<'_, '_>, mut running: Running) -> Outcome {
        cancel(&self.core, &mut running).await.map_err(|error| store_refusal(&error))?;
        let id = running.turn.opening.task.clone().unwrap_or_default();
        self.as_told(send, &id).await
    }

    /// The turn came to nothing: it is kept apart, and the client told.
    pub(super) async fn broken(&self, mut running: Running, refusal: Refusal) -> Outcome {
        fail(&self.core, &mut running, &refusal.message).await;
        Err(refusal)
    }

    pub(super) fn refuse_busy(&self, send: &Send<'_, '_>, place: &Place, in_flight: &InFlight) -> Outcome {
        let pending = in_flight.pending.as_ref();
        let bound = pending.and_then(|pending| pending.bound.as_ref()).map(|bound| &*bound.task_id);
        // Before the agent has told an id the task is known where the turn answers one.
        let answered = || pending.and_then(|pending| pending.opening.task.as_deref());
        let task = bound.filter(|id| !id.is_empty()).or_else(answered);
        tracing::info!(route = self.route.as_str(), "refused a send: a turn is in flight in its context");
        if self.core.policy.guard.reject == Reject::Error {
            return Err(Refusal::busy(task));
        }
        let refused = Refused {
            route: self.route.clone(),
            principal: self.principal.clone(),
            id: mint(),
            context_id: place.key.context_id.to_string(),
            message_id: mint(),
            in_flight: task.map(str::to_owned),
            at: self.core.now(),
        };
        let shape = self.shape(send.call.dialect);
        let task = refused_task(&refused, shape.dialect);
        self.core.remember_refused(refused);
        Ok(own_result(send, "task", &task, shape))
    }

    /// The shape of what is made here in answer to a request of this dialect.
    pub(super) fn shape(&self, dialect: Dialect) -> Shape {
        self.core.shape(&self.route, dialect)
    }

    pub(super) fn debug(&self, response: &mut Response<ReplyBody>, running: &Running, ended: Option<&Ended>) {
        if !self.core.policy.debug_header {
            return;
        }
        let decision =
            ended.and_then(|ended| ended.turn.as_ref()?.decided).map_or("none", |decided| decided.reason.as_str());
        let text = format!("turn={}; injected={}; decision={decision}", running.turn.opening.number, running.injected);
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(DEBUG_HEADER, value);
        }
    }
}

/// A noun made here, as the answer to a send.
pub(super) fn own_result(send: &Send<'_, '_>, name: &str, noun: &str, shape: Shape) -> Response<ReplyBody> {
    let result = if shape.wrapped { format!("{{\"{name}\":{noun}}}") } else { noun.to_owned() };
    respond::own(&send.call.binding, &result, send.call.verb.streams())
}

/// A result's noun, in a wrapper where the dialect has one.
pub(super) fn wrapped(name: &str, noun: &str, dialect: Dialect) -> String {
    if dialect.wraps() { format!("{{\"{name}\":{noun}}}") } else { noun.to_owned() }
}

pub(super) fn refused_task(refused: &Refused, dialect: Dialect) -> String {
    let ids = (&*refused.id, &*refused.context_id);
    busy_task(dialect, ids, &refused.message_id, refused.in_flight.as_deref(), &timestamp(refused.at))
}

pub(super) fn store_refusal(error: &StoreError) -> Refusal {
    tracing::error!(%error, "the store failed");
    match error {
        StoreError::LeaseLost => Refusal::not_recorded(),
        StoreError::Unavailable(_) => Refusal::store_unavailable(),
    }
}

/// A task whose agent has not answered yet, as an answer to whoever listens.
fn standing(core: &Core, turn: &Turn, ids: (Option<&str>, Option<&str>), dialect: Dialect) -> String {
    let view = View {
        task_id: ids.0.unwrap_or_default(),
        context_id: ids.1.unwrap_or_default(),
        everywhere: false,
        chain: &turn.chain,
        fence: "",
        policy: &core.policy,
        originals: &[],
        history_length: None,
        artifacts: true,
    };
    let task = turn.standing(&view, &Tail::default(), dialect, &timestamp(turn.opening.started_at));
    Binding::json_rpc().wrap(&wrapped("task", &task, dialect))
}

pub(super) fn originals(send: &Send<'_, '_>) -> Vec<(String, Vec<Part>)> {
    vec![(send.message_id.clone(), send.parts.clone())]
}
