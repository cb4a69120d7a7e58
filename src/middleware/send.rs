//! A send: from the client's message to the agent and back, under the context's lease.

mod answer;

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
use super::listeners::{Audience, Stir};
use super::respond;
use super::running::{Running, unbound};
use super::settle::{Ended, cancel, fail};
use crate::a2a::{Binding, Call, Dialect, Part, Shape};
use crate::context::Context;
use crate::conversation::policy::{Mode, Reject, TerminalFollowup, UnknownIds};
use crate::conversation::principal::{Principal, RouteId};
use crate::exchange::{Plan, Refusal, Send, busy_task, join, open};
use crate::store::{InFlight, Pending, StoreError};
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
    /// Tells when the client has left before it had an answer.
    pub(super) gone: CancellationToken,
}

pub(super) type Outcome = Result<Response<ReplyBody>, Refusal>;

impl Exchange {
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
        let plan = Plan {
            context: &context,
            context_id: (!place.provisional).then_some(&*place.key.context_id),
            task: open_task,
            follows: followed.map(|task| &*task.id),
            references: &references,
            policy: &self.core.policy,
            active: self.active,
            secret: &secret,
            now: self.core.now(),
            callback: callback.as_ref(),
        };
        let opened = match open(send, &plan) {
            Ok(opened) => opened,
            Err(refusal) => {
                guard.release().await;
                return Err(refusal);
            }
        };
        let context_id = plan.context_id.map(str::to_owned);
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

    async fn join_turn(
        self,
        send: &Send<'_, '_>,
        place: Place,
        mut guard: Guard,
        context: Arc<Context>,
        pending: Pending,
    ) -> Outcome {
        let secret = self.core.store.secret();
        let plan = Plan {
            context: &context,
            context_id: Some(&place.key.context_id),
            task: None,
            follows: None,
            references: &[],
            policy: &self.core.policy,
            active: self.active,
            secret: &secret,
            now: self.core.now(),
            callback: None,
        };
        let wish = self.push_wish(send)?;
        let wished = wish.is_some();
        self.push_with(&mut guard, None, wish).await?;
        let bound = pending.bound.clone().unwrap_or_else(|| unbound(&place.key.context_id));
        let (body, receipt) = join(send, (&bound.upstream_task, &bound.upstream_context), &plan);
        let mut opening = Opening::clone(&pending.opening);
        opening.joined.push(receipt);
        let chain = self.chain(&context, &opening, Some(&bound));
        let turn = self.machine(&context, Arc::new(opening), chain);
        let context_id = Some(place.key.context_id.to_string());
        let running = Running {
            guard,
            context,
            turn,
            context_id,
            bound: Some(bound),
            originals: originals(send),
            history_length: send.history_length,
            injected: 0,
            joins: true,
            left: pending.state,
            told: Some(pending.state),
            wished,
        };
        self.run(send, running, body.into()).await
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
    async fn run(mut self, send: &Send<'_, '_>, mut running: Running, body: Bytes) -> Outcome {
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
                        Either::Right((Stir::Joined(listener), _)) => listener,
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
        self.as_canceled(send, &id).await
    }

    /// The turn came to nothing: it is kept apart, and the client told.
    pub(super) async fn broken(&self, mut running: Running, refusal: Refusal) -> Outcome {
        fail(&self.core, &mut running, &refusal.message).await;
        Err(refusal)
    }

    fn refuse_busy(&self, send: &Send<'_, '_>, place: &Place, in_flight: &InFlight) -> Outcome {
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
    respond::own(&send.call.binding.wrap(&result), send.call.verb.streams(), 200)
}

/// A result's noun in 1.0's wrapper, bare in 0.3.
pub(super) fn wrapped(name: &str, noun: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::V03 => noun.to_owned(),
        Dialect::V10 => format!("{{\"{name}\":{noun}}}"),
    }
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

fn originals(send: &Send<'_, '_>) -> Vec<(String, Vec<Part>)> {
    vec![(send.message_id.clone(), send.parts.clone())]
}
