//! A streamed turn: events go on as they come, the closing one when the turn has settled, and nothing behind it.

mod cut;
mod event;
mod joined;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderName, HeaderValue, Response};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::agent::{AgentBody, refusal_of};
use super::body::ReplyBody;
use super::core::Cancellable;
use super::listeners::{Audience, Knock, Stir};
use super::pumped::Client;
use super::respond;
use super::running::Running;
use super::send::Exchange;
use crate::a2a::{Binding, Dialect, Voice};
use crate::exchange::{Refusal, Send};
use crate::sse::Splitter;
use crate::turn::Tail;

/// So long a client hears nothing before it hears that the connection stands.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What it hears then: a comment.
pub(super) const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// So long the rest of a stream is read behind its closing event, so that the agent is not cut off and its connection can be used again.
const REST: Duration = Duration::from_secs(2);

/// So often a cut stream is taken up again that brings nothing, however fast it breaks off.
const SUBSCRIPTIONS: u32 = 3;

/// A stream that was taken up again and ended sooner is taken up with pauses, whatever it brought.
const BRIEF: Duration = Duration::from_secs(1);

/// The longest pause before a stream that brings nothing is taken up again.
const PAUSE: Duration = Duration::from_secs(8);

impl Exchange {
    /// The answer to a streaming send: its head now, its events as they come.
    pub(super) fn stream(
        self,
        send: &Send<'_, '_>,
        running: Running,
        answer: Response<AgentBody>,
        audience: Audience,
        wish: Option<Cancellable>,
    ) -> Response<ReplyBody> {
        let (mut head, body) = answer.into_parts();
        respond::drop_framing(&mut head.headers);
        head.headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        let core = Arc::clone(&self.core);
        let (client, pieces) = Client::new();
        let mut response = Response::from_parts(head, ReplyBody::empty());
        self.debug(&mut response, &running, None);
        let pump = Pump {
            audience,
            wish,
            ..Pump::new(self, running, send.call.binding.clone(), send.call.voice(), client, Origin::Send)
        };
        response.map(|_| core.pumped(Box::pin(pump.run(Some(body))), pieces))
    }
}

/// Why a stream is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It answers the turn's message.
    Send,
    /// The turn's own reply has ended; the client subscribed to what comes of it.
    Subscription,
}

/// Reads a stream of the agent's, and writes the client's.
pub(super) struct Pump {
    exchange: Exchange,
    running: Running,
    /// Of the client's request, and so of the agent's stream.
    binding: Binding,
    /// How the agent is asked for what its stream lacks.
    voice: Voice,
    origin: Origin,
    splitter: Splitter,
    client: Client,
    audience: Audience,
    /// The client's wish to cancel, while the agent's id of the task is not known.
    wish: Option<Cancellable>,
    tail: Tail,
    /// The dialect in which events are made.
    dialect: Dialect,
    /// Whether an event went out.
    pub(super) began: bool,
    /// Whether the stream was taken up again: then a task in it is a snapshot, and no first event.
    resumed: bool,
    /// Whether pieces of the reply may have been missed since.
    gap: bool,
    /// When the agent was last heard.
    heard_at: Instant,
    /// Bytes of text that were heard in pieces of artifacts.
    heard: usize,
    /// Since when nobody listens, and how many bytes came since.
    alone: Option<(Instant, usize)>,
}

/// What becomes of a stream after an event.
enum Next {
    /// More is awaited.
    More,
    /// The closing event went out, or there is nothing more to say.
    Done,
}

/// How the reading of a body ended.
enum Cut {
    /// After its closing event.
    Closed,
    /// The rest of it is of no interest.
    Dropped,
    /// Before the closing event; what a client is told that knows of no task yet.
    Early(Refusal),
}

/// What the pump hears next.
enum Step {
    Frame(Bytes),
    /// There are no more frames: why.
    End(Refusal),
    Knocked(Knock),
    Canceled,
    /// The proxy stops.
    Concluded,
}

impl Pump {
    pub(super) fn new(
        exchange: Exchange,
        running: Running,
        binding: Binding,
        voice: Voice,
        client: Client,
        origin: Origin,
    ) -> Self {
        let limit = exchange.core.policy.limits.reply_bytes;
        Self {
            exchange,
            running,
            binding,
            dialect: voice.dialect,
            voice,
            origin,
            splitter: Splitter::new(limit),
            client,
            audience: Audience::default(),
            wish: None,
            tail: Tail::default(),
            began: false,
            resumed: false,
            gap: origin == Origin::Subscription,
            heard_at: Instant::now(),
            heard: 0,
            alone: None,
        }
    }

    /// Reads until the turn has ended: `body` first, if there is one, and what the agent offers in its place when it breaks off.
    pub(super) async fn run(mut self, mut body: Option<AgentBody>) {
        self.open_door();
        let mut silent = 0;
        let mut why = Refusal::unreachable();
        loop {
            if let Some(mut open) = body.take() {
                let (before, taken_up) = (self.heard_at, Instant::now());
                match self.read(&mut open).await {
                    Cut::Closed => {
                        // The client's stream ends here and now; the agent's is read on without it.
                        drop(self);
                        return drain(open).await;
                    }
                    Cut::Dropped => return,
                    Cut::Early(cause) => why = cause,
                }
                // A stream that was taken up again and ends with its snapshot brings nothing either.
                let brief = self.resumed && taken_up.elapsed() < BRIEF;
                silent = if self.heard_at > before && !brief { 0 } else { silent + 1 };
            }
            if silent > SUBSCRIPTIONS && self.heard_at.elapsed() >= self.exchange.core.policy.timeouts.idle {
                return self.fail("the agent's stream was cut again and again", &Refusal::timeout()).await;
            }
            if silent > 1 {
                self.pause(Duration::from_secs(1 << (silent - 2).min(3)).min(PAUSE)).await;
            }
            body = self.after_cut(&why).await;
            if body.is_none() {
                return;
            }
        }
    }

    /// Lets listeners in, once it is known of which task this is the turn.
    fn open_door(&mut self) {
        let bound = self.running.bound.as_ref().filter(|bound| !bound.task_id.is_empty());
        if let (Some(bound), Some(key), false) = (bound, self.running.guard.key(), self.audience.is_open()) {
            self.audience.open(&self.exchange.core, (key, bound.task_id.clone()));
        }
    }

    /// Reads events until the closing one, or until the stream ends without.
    async fn read(&mut self, body: &mut AgentBody) -> Cut {
        loop {
            match self.splitter.take() {
                Ok(Some(event)) => match self.event(event).await {
                    Next::More if self.heard > self.exchange.core.policy.limits.reply_bytes => {
                        return self.give_up().await;
                    }
                    Next::More => continue,
                    Next::Done => return Cut::Closed,
                },
                Ok(None) => {}
                Err(_) => return self.give_up().await,
            }
            match self.step(body).await {
                Step::Frame(data) if self.is_for_nobody(data.len()) => return self.give_up().await,
                Step::Frame(data) => self.splitter.push(&data),
                Step::End(why) => return Cut::Early(why),
                Step::Knocked(knock) => {
                    if let Next::Done = self.knocked(knock).await {
                        return Cut::Closed;
                    }
                }
                Step::Canceled => {
                    self.cancel().await;
                    return Cut::Dropped;
                }
                Step::Concluded => {
                    self.conclude().await;
                    return Cut::Dropped;
                }
            }
        }
    }

    /// More came than is read.
    async fn give_up(&mut self) -> Cut {
        let refusal = Refusal::reply_too_large(self.exchange.core.policy.limits.reply_bytes);
        self.fail(&refusal.message.clone(), &refusal).await;
        Cut::Dropped
    }

    /// The next thing that happens: a piece of the agent's stream, somebody who wants to listen, the client's wish to cancel.
    async fn step(&mut self, body: &mut AgentBody) -> Step {
        let idle = self.exchange.core.policy.timeouts.idle;
        let end = self.heard_at + idle;
        let frame = self.running.guard.renewing(next_frame(body, &self.client, end));
        let stir = self.exchange.core.concluding.run_until_cancelled(self.audience.stir(self.wish.as_ref()));
        let step = match select(std::pin::pin!(frame), std::pin::pin!(stir)).await {
            Either::Left((frame, _)) => frame,
            Either::Right((Some(Stir::Knocked(knock)), _)) => Step::Knocked(knock),
            Either::Right((Some(Stir::Canceled), _)) => Step::Canceled,
            Either::Right((None, _)) => Step::Concluded,
        };
        if matches!(step, Step::Frame(_)) {
            self.heard_at = Instant::now();
        }
        step
    }

    /// Whether the agent goes on for too long, or with too much, for nobody.
    fn is_for_nobody(&mut self, bytes: usize) -> bool {
        if !self.client.is_gone() || !self.audience.is_empty() {
            self.alone = None;
            return false;
        }
        let policy = &self.exchange.core.policy;
        let (since, heard) = self.alone.get_or_insert_with(|| (Instant::now(), 0));
        *heard += bytes;
        since.elapsed() > policy.guard.max_turn || *heard > policy.limits.reply_bytes
    }

    /// Waits, and lets the client hear that the connection stands.
    async fn pause(&mut self, pause: Duration) {
        self.running.guard.renewing(tokio::time::sleep(pause)).await;
        self.client.offer(COMMENT);
    }

    /// One write an event. A client that has left hears nothing more; the turn goes on to its end.
    async fn write(&mut self, bytes: Vec<u8>) {
        let within = self.exchange.core.policy.timeouts.idle;
        self.running.guard.renewing(self.client.send(bytes.into(), within)).await;
    }
}

/// The next piece of a body. In silence the client is told that the connection stands; a silence that lasts until `end` is an end.
async fn next_frame(body: &mut AgentBody, client: &Client, end: Instant) -> Step {
    loop {
        let until = end.min(Instant::now() + KEEP_ALIVE);
        match tokio::time::timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Step::Frame(data),
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, "the agent's stream broke off");
                return Step::End(refusal_of(&*error));
            }
            Ok(None) => return Step::End(Refusal::malformed("its stream ended before the task was known")),
            Err(_) if until >= end => return Step::End(Refusal::timeout()),
            Err(_) => client.offer(COMMENT),
        }
    }
}

/// Reads what is left of a stream behind its closing event, for a while.
async fn drain(mut body: AgentBody) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(REST, rest).await;
}
