//! GetExtendedAgentCard: the agent's, with the proxy's URLs in it.

use bytes::Bytes;

use crate::a2a::Call;
use crate::exchange::Refusal;
use crate::json::Edits;
use crate::middleware::reply::Reply;
use crate::middleware::respond;
use crate::middleware::send::{Exchange, Outcome};

impl Exchange {
    pub(super) async fn extended_card(&mut self, call: &Call<'_, '_>, bytes: Bytes) -> Outcome {
        let Some(rewrite) = self.core.card.clone() else { return self.pass(bytes).await };
        let answer = self.agent.send(bytes).await?;
        let answer = self.agent.read(answer).await?;
        let body = answer.body.clone();
        let Reply::Result(doc) = Reply::read(&body, &call.binding, answer.head.status.is_success()) else {
            return Ok(respond::untouched(answer.head, answer.body, answer.decoded));
        };
        let mut edits = Edits::new();
        call.binding.readdress(&mut edits, doc.root());
        if let Some(card) = call.binding.result_of(doc.root()) {
            rewrite(card, &mut edits).map_err(|what| Refusal::malformed(&what))?;
        }
        Ok(respond::rewritten(answer.head, edits.apply(doc.text())))
    }
}
