//! The agent's answer to a send, read whole.

use std::sync::Arc;

use http::Response;

use super::{Exchange, Outcome, store_refusal};
use crate::a2a::{Payload, Shape, State};
use crate::exchange::{Refusal, Send};
use crate::json::{Doc, Edits};
use crate::middleware::agent::Answer;
use crate::middleware::body::ReplyBody;
use crate::middleware::reply::{Reply, error_words, is_answer};
use crate::middleware::respond;
use crate::middleware::running::Running;
use crate::middleware::settle::{Ended, end, fail};
use crate::store::StoreError;
use crate::turn::Bound;

impl Exchange {
    /// A reply that was read whole.
    pub(in crate::middleware) async fn answer(
        &mut self,
        send: &Send<'_, '_>,
        running: &mut Running,
        answer: Answer,
    ) -> Outcome {
        let body = answer.body.clone();
        let binding = &send.call.binding;
        let read = Reply::read(&body, binding, answer.head.status.is_success());
        let doc = match read {
            Reply::Result(doc) => doc,
            // An error of the agent's is the client's to see, as it is.
            Reply::Error(doc) => {
                fail(&self.core, running, &error_words(answer.head.status, doc.as_ref())).await;
                return Ok(passed_on(answer, doc.as_ref(), send));
            }
            Reply::Unreadable(what) => {
                fail(&self.core, running, what).await;
                return Err(Refusal::malformed(what));
            }
        };
        let Some((payload, shape)) = binding.payload_of(doc.root()).filter(|(payload, _)| is_answer(payload)) else {
            fail(&self.core, running, "no task and no message").await;
            return Err(Refusal::malformed("its result is neither a task nor a message"));
        };
        self.core.saw(&self.route, send.call.dialect, shape);
        let ended = self.heard(running, &payload, shape).await.map_err(|error| store_refusal(&error))?;
        let mut edits = Edits::new();
        binding.readdress(&mut edits, doc.root());
        let body = running.shown(&self.core, &mut edits, &payload, shape, ended.as_ref());
        let mut response = match body {
            Some(result) => respond::rewritten(answer.head, binding.wrap(&result)),
            None if edits.is_empty() => respond::untouched(answer.head, answer.body, answer.decoded),
            None => respond::rewritten(answer.head, edits.apply(doc.text())),
        };
        self.debug(&mut response, running, ended.as_ref());
        Ok(as_stream_where_called_so(send, response))
    }

    /// Takes in a payload, binds its ids, and settles the turn where it has ended with it.
    async fn heard(
        &mut self,
        running: &mut Running,
        payload: &Payload<'_, '_>,
        shape: Shape,
    ) -> Result<Option<Ended>, StoreError> {
        running.turn.hear(payload, shape);
        let bind = running.bind(payload);
        let bound = running.guard.bind(bind).await?;
        running.bound = Some(bound.clone());
        running.context_id = Some(bound.context_id.clone());
        if !running.turn.has_ended() {
            running.leave_unsettled(self.core.now()).await?;
            return Ok(None);
        }
        if running.turn.lacks_reply() && running.turn.opening.history_length.is_some() {
            self.look_for_reply(running, &bound).await;
        }
        Ok(Some(end(&self.core, running).await))
    }

    /// A reply that is found nowhere may stand in what the client did not ask for.
    pub(in crate::middleware) async fn look_for_reply(&mut self, running: &mut Running, bound: &Bound) {
        let opening = Arc::clone(&running.turn.opening);
        let answer = running
            .guard
            .renewing(self.agent.task(&bound.upstream_task, &opening, self.core.policy.timeouts.look))
            .await;
        let Ok(answer) = answer else { return };
        if let Ok(doc) = Doc::scan(&answer.body)
            && let Some((payload @ Payload::Task(_), shape)) = answer.binding.payload_of(doc.root())
            && payload.state().is_some_and(State::is_terminal)
        {
            running.turn.hear(&payload, shape);
        }
    }
}

/// The agent's error as it came, but for its id where that is not the request's, and as a stream where one was asked for.
pub(in crate::middleware) fn passed_on(
    answer: Answer,
    doc: Option<&Doc<'_>>,
    send: &Send<'_, '_>,
) -> Response<ReplyBody> {
    let mut edits = Edits::new();
    if let Some(doc) = doc.filter(|doc| doc.root().some("jsonrpc").is_some() || doc.root().some("error").is_some()) {
        send.call.binding.readdress(&mut edits, doc.root());
    }
    match doc {
        Some(doc) if !edits.is_empty() => {
            let text = edits.apply(doc.text());
            as_stream_where_called_so(send, respond::rewritten(answer.head, text))
        }
        _ => as_stream_where_called_so(send, respond::untouched(answer.head, answer.body, answer.decoded)),
    }
}

fn as_stream_where_called_so(send: &Send<'_, '_>, response: Response<ReplyBody>) -> Response<ReplyBody> {
    if send.call.verb.streams() && response.status().is_success() { respond::as_stream(response) } else { response }
}
