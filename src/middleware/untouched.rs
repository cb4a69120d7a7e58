//! What is forwarded without being changed: callers who cannot be told from others, and routes that only watch.

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;

use super::body::ReplyBody;
use super::respond;
use super::send::{Exchange, Outcome, Reply};
use crate::a2a::Payload;
use crate::exchange::{Refusal, Send};

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
        if let Reply::Result(doc) = Reply::read(&answer.body, true)
            && let Some((payload, _)) = doc.root().get("result").and_then(Payload::read)
            && let Some(id) = payload.task_id()
        {
            self.core.leave_unclaimed(&self.route, &id);
        }
        Ok(respond::untouched(answer.head, answer.body, answer.decoded))
    }

    /// A message on a route that only watches: what would have been done is said, nothing is.
    pub(super) async fn observe(&mut self, _send: &Send<'_, '_>, bytes: Bytes) -> Result<Response<ReplyBody>, Refusal> {
        self.pass(bytes).await
    }
}
