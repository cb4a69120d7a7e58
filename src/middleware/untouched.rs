//! What is forwarded without being changed: callers who cannot be told from others, and routes that only watch.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::Response;
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::acquire::Acquired;
use super::agent::AgentBody;
use super::body::ReplyBody;
use super::pumped::Client;
use super::queue::Patience;
use super::reply::Reply;
use super::running::Running;
use super::send::{Exchange, Outcome};
use super::settle::{end, fail};
use super::{reading, respond};
use crate::exchange::{Plan, Refusal, Send, open};
use crate::sse::Splitter;

impl Exchange {
    /// The request as it came, and the answer as it comes.
    pub(super) async fn pass(&mut self, bytes: Bytes) -> Outcome {
        let answer = self.agent.pass(bytes).await?;
        Ok(answer.map(|body| ReplyBody::untouched(body.map_err(|error| error))))
    }

    /// A message of a caller who cannot be told from others. Of its tasks only the ids are kept, under nobody's name.
    pub(super) async fn without_conversation(&mut self, send: &Send<'_, '_>, bytes: Bytes) -> Outcome {
        if let Some(id) = &send.task_id
            && !self.core.is_unclaimed(&self.route, id)
        {
            return Err(Refusal::task_not_found());
        }
        if send.call.verb.streams() {
            return Err(Refusal::unsupported("streaming without a credential"));
        }
        let answer = self.agent.send(bytes).await?;
        let answer = self.agent.read(answer).await?;
        if let Reply::Result(doc) = Reply::read(&answer.body, &answer.binding, true)
            && let Some((payload, _)) = answer.binding.payload_of(doc.root())
            && let Some(id) = payload.task_id()
        {
            self.core.leave_unclaimed(&self.route, &id);
        }
        Ok(respond::untouched(answer.head, answer.body, answer.decoded))
    }

    /// A message on a route that only watches: what would have been done is said, nothing is. The transcript is kept all the same, so that it
    /// shows what the agent would have been given.
    pub(super) async fn observe(mut self, send: &Send<'_, '_>, bytes: Bytes) -> Outcome {
        let Some(mut running) = self.observed(send).await else { return self.pass(bytes).await };
        let answer = match running.guard.renewing(self.agent.pass(bytes)).await {
            Ok(answer) => answer,
            Err(refusal) => return self.broken(running, refusal).await,
        };
        let (head, body) = answer.into_parts();
        let (client, pieces) = Client::new();
        let streams = reading::is_event_stream(&head.headers);
        let reads = head.status.is_success() && reading::encoding(&head.headers).is_none();
        let core = Arc::clone(&self.core);
        let work: BoxFuture<'static, ()> = Box::pin(async move {
            if !reads {
                running.guard.release().await;
                return forward(body, &client, self.core.policy.timeouts.idle).await;
            }
            self.overhear(body, running, client, streams).await;
        });
        Ok(Response::from_parts(head, core.pumped(work, pieces)))
    }

    /// The turn that a message would begin; `None` where it would have been refused, or is none of this proxy's.
    async fn observed(&mut self, send: &Send<'_, '_>) -> Option<Running> {
        let place = self.place(send).await.ok()?;
        let (mut guard, context) = match self.acquire(send, &place, &Patience::none()).await.ok()? {
            Acquired::Granted(guard, context) => (guard, context),
            Acquired::Joined(mut guard, ..) => {
                guard.release().await;
                return None;
            }
            Acquired::Read(_) => return None,
            Acquired::Busy(_) | Acquired::Stopped(_) => {
                tracing::info!(
                    route = self.route.as_str(),
                    "would have refused a send: a turn is in flight in its context"
                );
                return None;
            }
        };
        let secret = self.core.store.secret();
        let plan = Plan { key: (!place.provisional).then_some(&place.key), ..self.plan(&context, &secret) };
        let Ok(opened) = open(send, &plan) else {
            tracing::info!(route = self.route.as_str(), "would have refused a send: it is too large");
            guard.release().await;
            return None;
        };
        let context_id = plan.context_id().map(str::to_owned);
        let turn = self.machine(&context, opened.opening, opened.chain);
        Some(Running::begun(guard, context, turn, context_id, opened.injected))
    }

    /// Passes an answer on as it comes, and settles the turn by what goes by.
    async fn overhear(self, mut body: AgentBody, mut running: Running, client: Client, streams: bool) {
        let limit = self.core.policy.limits.reply_bytes;
        let mut splitter = Splitter::new(limit);
        let mut whole = BytesMut::new();
        let (mut broke, mut lost) = (false, false);
        let mut alone: Option<(Instant, usize)> = None;
        while let Some(frame) = running.guard.renewing(body.frame()).await {
            let Ok(frame) = frame else {
                client.cut();
                broke = true;
                break;
            };
            let Ok(data) = frame.into_data() else { continue };
            let idle = self.core.policy.timeouts.idle;
            running.guard.renewing(client.send(data.clone(), idle)).await;
            if client.is_gone() {
                // An agent that does not end is not read for nobody without end.
                let (since, bytes) = alone.get_or_insert_with(|| (Instant::now(), 0));
                *bytes += data.len();
                if since.elapsed() > self.core.policy.guard.max_turn || *bytes > limit {
                    broke = true;
                    break;
                }
            }
            if !streams {
                if whole.len() + data.len() <= limit {
                    whole.extend_from_slice(&data);
                }
                continue;
            }
            // An event that is longer than the limit passes, and is not kept to be read.
            if lost {
                continue;
            }
            splitter.push(&data);
            loop {
                match splitter.take() {
                    Ok(Some(event)) => self.hear_event(&mut running, &event.data().unwrap_or_default()).await,
                    Ok(None) => break,
                    Err(_) => {
                        lost = true;
                        splitter = Splitter::new(limit);
                        break;
                    }
                }
            }
        }
        if !streams {
            self.hear_event(&mut running, &whole).await;
        }
        self.conclude(running, broke || lost).await;
    }

    async fn hear_event(&self, running: &mut Running, data: &[u8]) {
        let binding = self.agent.binding();
        let Reply::Result(doc) = Reply::read(data, binding, true) else { return };
        let Some((payload, shape)) = binding.payload_of(doc.root()) else { return };
        running.turn.hear(&payload, shape);
        let bind = running.bind(&payload);
        match running.guard.bind(bind).await {
            Ok(bound) => {
                running.context_id = Some(bound.context_id.clone());
                running.bound = Some(bound);
            }
            Err(error) => tracing::warn!(%error, "an observed turn could not be kept"),
        }
    }

    async fn conclude(&self, mut running: Running, broke: bool) {
        if running.turn.has_ended() && !broke {
            end(&self.core, &mut running).await;
        } else {
            fail(&self.core, &mut running, "observed: the turn's end was not seen").await;
        }
    }
}

/// Passes a body on.
async fn forward(mut body: AgentBody, client: &Client, idle: Duration) {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return client.cut() };
        if let Ok(data) = frame.into_data() {
            client.send(data, idle).await;
        }
        if client.is_gone() {
            return;
        }
    }
}
