//! A message to the task of the turn in flight, which waits for an authorisation: it joins that turn (semantics 5).
//!
//! Where nobody reads the turn it is taken over with the message. Where its first stream is still open, whoever reads that goes on holding it:
//! the message is sent beside, and what the agent answers is handed to the reader, who alone settles.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use tokio::sync::oneshot;

use super::acquire::Place;
use super::agent::{AgentBody, Answer, Got};
use super::body::ReplyBody;
use super::core::TaskKey;
use super::guard::Guard;
use super::listeners::{Joining, Knock};
use super::reply::Reply;
use super::running::{Running, unbound};
use super::send::{Exchange, Outcome, originals, own_result, passed_on};
use crate::a2a::{Binding, Payload, State};
use crate::context::Context;
use crate::exchange::{Refusal, Send, join};
use crate::json::Doc;
use crate::sse::Splitter;
use crate::store::{InFlight, Pending};
use crate::turn::Opening;

/// How long the answer waits for the reader to settle by it.
const SETTLING: Duration = Duration::from_secs(2);

impl Exchange {
    /// The turn is taken over with the message.
    pub(super) async fn join_turn(
        self,
        send: &Send<'_, '_>,
        place: Place,
        mut guard: Guard,
        context: Arc<Context>,
        pending: Pending,
    ) -> Outcome {
        let secret = self.core.store.secret();
        let plan = self.plan(&context, &secret);
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

    /// The turn stays with whoever reads it.
    pub(super) async fn join_beside(mut self, send: &Send<'_, '_>, place: &Place, in_flight: InFlight) -> Outcome {
        let bound = in_flight.pending.as_ref().and_then(|pending| pending.bound.clone());
        let Some(bound) = bound else { return self.refuse_busy(send, place, &in_flight) };
        let key: TaskKey = (place.key.clone(), bound.task_id.clone());
        let (secret, context) = (self.core.store.secret(), Context::default());
        let ids = (&*bound.upstream_task, &*bound.upstream_context);
        let (body, receipt) = join(send, ids, &self.plan(&context, &secret));
        let (noted, known) = oneshot::channel();
        let original = (send.message_id.clone(), send.parts.clone());
        let joining = Joining { receipt, original, noted };
        if !self.knock(&key, Knock::Joins(Box::new(joining))).await || known.await.is_err() {
            return self.refuse_busy(send, place, &in_flight);
        }
        // What joined the turn may fail: not so the turn.
        match self.agent.exchange(body.into(), send.call.verb.streams()).await? {
            Got::Whole(answer) => self.joined(send, key, in_flight.token, answer).await,
            Got::Stream(answer) => Ok(self.joined_stream(send, key, answer)),
            Got::Canceled => Err(Refusal::internal()),
        }
    }

    /// Tells something to whoever reads the turn of a task here. Whether somebody does.
    async fn knock(&self, key: &TaskKey, knock: Knock) -> bool {
        match self.core.readers.of(key) {
            Some(door) => door.send(knock).await.is_ok(),
            None => false,
        }
    }

    /// The agent's answer to a message that was sent beside, read whole.
    async fn joined(mut self, send: &Send<'_, '_>, key: TaskKey, token: u64, answer: Answer) -> Outcome {
        let body = answer.body.clone();
        let binding = &send.call.binding;
        let ends = match Reply::read(&body, binding, answer.head.status.is_success()) {
            Reply::Result(doc) => {
                binding.result_of(doc.root()).and_then(Payload::read).is_some_and(|(said, _)| ends(&said))
            }
            Reply::Error(doc) => return Ok(passed_on(answer, doc.as_ref(), send)),
            Reply::Unreadable(what) => return Err(Refusal::malformed(what)),
        };
        if !self.knock(&key, Knock::Answered(body, binding.clone())).await {
            // Its stream has ended meanwhile: the turn is this message's if it is anybody's.
            let Some(subject) = self.subject(&key.1).await? else { return Err(Refusal::task_not_found()) };
            if let Some((in_flight, pending)) = subject.pending.clone().filter(|(_, pending)| pending.idle)
                && let Some(guard) = self.take(&subject, in_flight.token).await?
            {
                let running = self.resumed(guard, Arc::clone(&subject.found.context), pending);
                let mut running = Running { joins: true, originals: originals(send), ..running };
                return self.answer(send, &mut running, answer).await;
            }
        } else if ends {
            let _ = tokio::time::timeout(SETTLING, self.core.store.wait_turn(&key.0, token)).await;
        }
        self.as_recorded_by_now(send, &key.1).await
    }

    /// The task that a message joined, as it is by now.
    async fn as_recorded_by_now(&self, send: &Send<'_, '_>, id: &str) -> Outcome {
        let Some(subject) = self.subject(id).await? else { return Err(Refusal::task_not_found()) };
        match &subject.pending {
            None => self.as_told(send, id).await,
            Some((_, pending)) => {
                let shape = self.shape(send.call.dialect);
                let task = self.working_task(shape.dialect, send.history_length, &subject, pending);
                Ok(own_result(send, "task", &task, shape))
            }
        }
    }

    /// The agent's stream in answer to a message that was sent beside: its client hears what the turn's reader tells, and the reader what ends
    /// the turn in this stream.
    fn joined_stream(self, send: &Send<'_, '_>, key: TaskKey, answer: Response<AgentBody>) -> Response<ReplyBody> {
        let overhears = Overhears {
            core: Arc::clone(&self.core),
            binding: send.call.binding.clone(),
            splitter: Splitter::new(self.core.policy.limits.reply_bytes),
        };
        let task = key.1.clone();
        self.subscription_beside(task, &send.call, overhears.run(key, answer.into_body()))
    }
}

/// Whoever reads a stream for what ends the turn.
struct Overhears {
    core: Arc<super::core::Core>,
    binding: Binding,
    splitter: Splitter,
}

impl Overhears {
    async fn run(mut self, key: TaskKey, mut body: AgentBody) {
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            self.splitter.push(&data);
            while let Ok(Some(event)) = self.splitter.take() {
                let Some(data) = event.data().filter(|data| says_more(data, &self.binding)) else { continue };
                let knock = Knock::Answered(data.into_owned().into(), self.binding.clone());
                if let Some(door) = self.core.readers.of(&key) {
                    let _ = door.send(knock).await;
                }
            }
        }
    }
}

/// Whether the turn ends with this.
fn ends(payload: &Payload<'_, '_>) -> bool {
    matches!(payload, Payload::Message(_)) || payload.state().is_some_and(State::settles)
}

/// Whether an event is a whole task, or ends one. Pieces come in the turn's own stream too, or are asked for at the end.
fn says_more(data: &[u8], binding: &Binding) -> bool {
    let Ok(doc) = Doc::scan(data) else { return false };
    let payload = binding.result_of(doc.root()).and_then(Payload::read);
    payload.is_some_and(|(payload, _)| matches!(payload, Payload::Task(_)) || ends(&payload))
}

/// Whether the turn in flight waits for an authorisation.
pub(super) fn waits(pending: &Pending) -> bool {
    pending.state == State::AuthRequired
}
