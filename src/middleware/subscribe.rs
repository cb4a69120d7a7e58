//! SubscribeToTask: the events of a turn that another request began.
//!
//! Where somebody here reads the turn, his events are listened to; where nobody does any more, the subscription becomes its reader and settles
//! it; where the turn is read elsewhere, its end is told from the record.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::Response;
use tokio::sync::mpsc;

use super::acquire::SUPERSEDED;
use super::body::ReplyBody;
use super::core::timestamp;
use super::guard::Guard;
use super::listeners::{BACKLOG, Heard, Knock, Listener};
use super::operate::{Subject, originals};
use super::pumped::Client;
use super::send::{Exchange, Outcome, wrapped};
use super::stream::{COMMENT, KEEP_ALIVE, Origin, Pump};
use super::{recorded, respond};
use crate::a2a::{Binding, Call, Dialect, State, Voice};
use crate::conversation::policy::{Mode, UnknownIds};
use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::Turn;
use crate::exchange::{Refusal, error_event, sse_event};
use crate::store::{InFlight, Pending};
use crate::task::ClientTask;
use crate::turn::{Told, View};

/// So often a turn is asked for that is read elsewhere, or that nobody else has ended.
const ROUND: Duration = Duration::from_secs(1);

impl Exchange {
    pub(super) async fn subscribe(mut self, call: &Call<'_, '_>, bytes: Bytes) -> Outcome {
        if self.core.policy.mode == Mode::Observe {
            return self.pass(bytes).await;
        }
        let id = call.params.some("id").and_then(|id| id.str());
        let id = id.ok_or_else(|| Refusal::invalid_params("id is required, a string"))?.into_owned();
        if !self.identified {
            let claimed = !self.core.is_unclaimed(&self.route, &id);
            return if claimed { Err(Refusal::task_not_found()) } else { self.pass(bytes).await };
        }
        if self.core.refused(&self.route, &self.principal, &id).is_some() {
            return Err(Refusal::ended(&id, State::Failed));
        }
        let Some(subject) = self.subject(&id).await? else {
            let forwards = self.core.policy.unknown_ids == UnknownIds::Forward;
            return if forwards { self.pass(bytes).await } else { Err(Refusal::task_not_found()) };
        };
        let settled = subject.found.context.task(&id).filter(|_| subject.pending.is_none());
        if let Some(task) = settled.filter(|task| task.state.is_terminal()) {
            return Err(Refusal::ended(&id, task.state));
        }
        Ok(self.subscription(id, call))
    }

    fn subscription(self, task: String, call: &Call<'_, '_>) -> Response<ReplyBody> {
        self.subscription_beside(task, call, std::future::pending())
    }

    /// What a client hears that listens to the turn of `task`, while something else is done beside, for as long as it listens.
    pub(super) fn subscription_beside(
        self,
        task: String,
        call: &Call<'_, '_>,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Response<ReplyBody> {
        let core = Arc::clone(&self.core);
        let (out, pieces) = Client::new();
        let subscription = Subscription {
            exchange: self,
            task,
            binding: call.binding.clone(),
            dialect: call.dialect,
            voice: call.voice(),
            out,
            began: false,
        };
        let work = async move {
            let beside = async {
                beside.await;
                std::future::pending::<()>().await;
            };
            select(std::pin::pin!(subscription.run()), std::pin::pin!(beside)).await;
        };
        respond::stream(core.pumped(Box::pin(work), pieces))
    }
}

/// A client that subscribed.
struct Subscription {
    exchange: Exchange,
    /// The client's id of the task.
    task: String,
    binding: Binding,
    dialect: Dialect,
    voice: Voice,
    out: Client,
    /// Whether it was told how the task stood.
    began: bool,
}

/// How the listening to a reader ended.
enum Listened {
    /// With the end of the turn, or with the client's leaving.
    Out,
    /// Nobody here reads the turn (any more), or the client fell behind.
    Alone,
}

impl Subscription {
    async fn run(mut self) {
        let concluding = self.exchange.core.concluding.clone();
        match concluding.run_until_cancelled(self.follow()).await {
            Some(Ok(Some((guard, subject, pending)))) => self.read(guard, &subject, pending).await,
            Some(Ok(None)) => {}
            Some(Err(refusal)) => self.refuse(&refusal).await,
            None => self.refuse(&Refusal::stopping()).await,
        }
    }

    /// Tells the client of the turn until it ends; the turn itself, where nobody else reads it any more.
    async fn follow(&mut self) -> Result<Option<(Guard, Subject, Pending)>, Refusal> {
        loop {
            let subject = self.exchange.subject(&self.task).await?.ok_or_else(Refusal::task_not_found)?;
            let Some((in_flight, pending)) = subject.pending.clone() else {
                self.tell_end(&subject).await?;
                return Ok(None);
            };
            if pending.idle {
                match self.exchange.take(&subject, in_flight.token).await? {
                    Some(guard) if in_flight.superseded => {
                        let context = Arc::clone(&subject.found.context);
                        self.exchange.set_apart(guard, context, pending, SUPERSEDED).await;
                        continue;
                    }
                    Some(guard) => return Ok(Some((guard, subject, pending))),
                    // Somebody else was faster.
                    None => {}
                }
            } else if !self.began
                && pending.opening.voice().is_like(&self.voice)
                && let Listened::Out = self.listen(subject.found.key.clone()).await
            {
                return Ok(None);
            }
            // One who fell behind would get a reply with a hole in it: the end is told from the record.
            if self.wait(&subject, &in_flight, &pending).await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads the turn that nobody reads, and settles it.
    async fn read(self, guard: Guard, subject: &Subject, pending: Pending) {
        let mut running = self.exchange.resumed(guard, Arc::clone(&subject.found.context), pending);
        let opening = Arc::clone(&running.turn.opening);
        running.originals = originals(&subject.found, opening.user.parts.clone(), &opening.user.id);
        let mut pump = Pump::new(self.exchange, running, self.binding, self.voice, self.out, Origin::Subscription);
        pump.began = self.began;
        pump.run(None).await;
    }

    async fn listen(&mut self, key: ContextKey) -> Listened {
        let Some(entry) = self.exchange.core.readers.of(&(key, self.task.clone())) else { return Listened::Alone };
        let (out, mut events) = mpsc::channel(BACKLOG);
        let behind = Arc::new(AtomicUsize::new(0));
        let listener = Listener { binding: self.binding.clone(), fresh: !self.began, out, behind: Arc::clone(&behind) };
        if entry.send(Knock::Listens(listener)).await.is_err() {
            return Listened::Alone;
        }
        loop {
            let next = match select(std::pin::pin!(events.recv()), std::pin::pin!(self.silence())).await {
                Either::Left((Some(next), _)) => next,
                Either::Left((None, _)) => return Listened::Alone,
                Either::Right((gone, _)) if gone => return Listened::Out,
                Either::Right(_) => continue,
            };
            self.began = true;
            match next {
                Heard::Event(event) => {
                    behind.fetch_sub(event.len(), Ordering::Relaxed);
                    self.write(event).await;
                }
                Heard::Last(event) => {
                    self.write(event).await;
                    return Listened::Out;
                }
            }
        }
    }

    /// A while without a word, after which the client hears that the connection stands. Whether it has left.
    async fn silence(&self) -> bool {
        match tokio::time::timeout(KEEP_ALIVE, self.out.left()).await {
            Ok(()) => true,
            Err(_) => {
                self.out.offer(COMMENT);
                false
            }
        }
    }

    /// Waits a while for the end of a turn that is read elsewhere. An error: the client has left.
    async fn wait(&mut self, subject: &Subject, in_flight: &InFlight, pending: &Pending) -> Result<(), ()> {
        if !self.began {
            let task = self.exchange.working_task(self.dialect, None, subject, pending);
            self.tell("task", &task).await;
        }
        let ends = tokio::time::timeout(ROUND, self.exchange.core.store.wait_turn(&subject.found.key, in_flight.token));
        match select(std::pin::pin!(ends), std::pin::pin!(self.silence())).await {
            Either::Right((true, _)) => Err(()),
            _ => Ok(()),
        }
    }

    /// The turn has settled: its end from the record. A client that was told nothing yet gets the task alone.
    async fn tell_end(&mut self, subject: &Subject) -> Result<(), Refusal> {
        let found = &subject.found;
        let recorded = found.context.task(&self.task).and_then(|task| Some((task, recorded_turn(subject, task)?)));
        let (task, turn) = recorded.ok_or_else(Refusal::task_not_found)?;
        if !self.began {
            let task = self.exchange.recorded_task(found, &turn, self.dialect, None, true);
            self.tell("task", &task).await;
            return Ok(());
        }
        let chain = found.context.chain(task, turn.attempt, None);
        let view = View {
            task_id: &self.task,
            context_id: &found.key.context_id,
            everywhere: false,
            chain: &chain,
            fence: &found.context.fence,
            policy: &self.exchange.core.policy,
            originals: &[],
            history_length: None,
            artifacts: false,
        };
        let asks = turn.is_question() && task.is_open_by_proxy();
        let continuation = asks.then(|| crate::turn::continuation(&turn, &found.context.turns, task.state));
        let told = Told {
            state: task.state,
            turn: Some(&turn),
            continuation: continuation.as_deref(),
            inline: false,
            failure: None,
        };
        let pieces = view.pieces(&turn, self.dialect);
        let closing = view.closing(&told, self.dialect, &timestamp(turn.settled_at));
        for piece in pieces {
            self.tell("artifactUpdate", &piece).await;
        }
        self.tell("statusUpdate", &closing).await;
        Ok(())
    }

    async fn tell(&mut self, name: &str, noun: &str) {
        let result = wrapped(name, noun, self.dialect);
        self.began = true;
        self.write(sse_event(&self.binding.wrap(&result)).into()).await;
    }

    async fn refuse(&self, refusal: &Refusal) {
        self.write(error_event(&refusal.body(&self.binding), &self.binding).into()).await;
    }

    async fn write(&self, event: Bytes) {
        self.out.send(event, self.exchange.core.policy.timeouts.idle).await;
    }
}

/// The turn with which a task settled, as it was recorded.
fn recorded_turn(subject: &Subject, task: &ClientTask) -> Option<Turn> {
    recorded::newest_turn(&subject.found.context, task)
}
