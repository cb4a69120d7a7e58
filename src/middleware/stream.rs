//! A streamed turn.

use http::Response;

use super::agent::AgentBody;
use super::send::{Exchange, Outcome, Running};
use crate::exchange::{Refusal, Send};

impl Exchange {
    pub(super) fn stream(&mut self, _send: &Send<'_, '_>, _running: Running, _answer: Response<AgentBody>) -> Outcome {
        Err(Refusal::unsupported("streaming"))
    }
}
