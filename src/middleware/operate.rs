//! Operations on client tasks: they agree with what the client was told.

mod cancel;
mod card;
mod get;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::agent::Answer;
use super::guard::Guard;
use super::respond;
use super::running::Running;
use super::send::{Exchange, Outcome, refused_task};
use crate::a2a::{Call, Part, State, Verb};
use crate::conversation::policy::{Mode, UnknownIds};
use crate::conversation::transcript::Turn;
use crate::exchange::Refusal;
use crate::json::Value;
use crate::store::{Begun, Found, InFlight, Pending};
use crate::task::{Chain, ClientTask};
use crate::turn::View;

/// How long an operation waits for a turn that is about to settle.
const SETTLING: Duration = Duration::from_secs(2);

pub(super) async fn operate(exchange: &mut Exchange, call: Call<'_, '_>, bytes: Bytes) -> Outcome {
    if exchange.core.policy.mode == Mode::Observe {
        return exchange.pass(bytes).await;
    }
    match call.verb {
        Verb::Push(push) => exchange.push(push, &call).await,
        Verb::ExtendedCard => exchange.extended_card(&call, bytes).await,
        Verb::List => exchange.list(&call).await,
        _ => exchange.on_task(call, bytes).await,
    }
}

/// A client task in the hands of an operation.
pub(super) struct Subject {
    pub(super) id: String,
    pub(super) found: Found,
    /// Its turn in flight, if that is its.
    pub(super) pending: Option<(InFlight, Pending)>,
}

impl Exchange {
    async fn on_task(&mut self, call: Call<'_, '_>, bytes: Bytes) -> Outcome {
        let id = call
            .params
            .some("id")
            .and_then(|id| id.str())
            .ok_or_else(|| Refusal::invalid_params("id is required, a string"))?;
        if !self.identified {
            return if self.core.is_unclaimed(&self.route, &id) {
                self.pass(bytes).await
            } else {
                Err(Refusal::task_not_found())
            };
        }
        if let Some(refused) = self.core.refused(&self.route, &self.principal, &id) {
            return match call.verb {
                Verb::Get => {
                    let task = refused_task(&refused, self.shape(call.dialect).dialect);
                    Ok(respond::own(&call.binding, &task, false))
                }
                Verb::Cancel => Err(Refusal::not_cancelable(State::Failed)),
                _ => Err(Refusal::unsupported("subscribing to a task that has ended")),
            };
        }
        let Some(subject) = self.subject(&id).await? else {
            return if self.core.policy.unknown_ids == UnknownIds::Forward {
                self.pass(bytes).await
            } else {
                Err(Refusal::task_not_found())
            };
        };
        match call.verb {
            Verb::Get => self.get(&call, subject).await,
            Verb::Cancel => {
                let outcome = self.cancel(&call, subject).await;
                self.withdraw_queued(&id).await;
                outcome
            }
            _ => Err(Refusal::unsupported("SubscribeToTask")),
        }
    }

    pub(super) async fn subject(&self, id: &str) -> Result<Option<Subject>, Refusal> {
        let Some(found) = self.find(id).await? else { return Ok(None) };
        let is_its = |pending: &Pending| {
            let bound = pending.bound.as_ref().map(|bound| &*bound.task_id);
            bound == Some(id) || pending.opening.task.as_deref() == Some(id)
        };
        let in_flight = found.in_flight.clone();
        let pending =
            in_flight.and_then(|flight| flight.pending.clone().filter(is_its).map(|pending| (flight, pending)));
        Ok(Some(Subject { id: id.to_owned(), found, pending }))
    }

    async fn leave(&self, running: &mut Running) {
        if let Err(error) = running.leave_unsettled(self.core.now()).await {
            tracing::warn!(%error, "an unsettled turn was lost");
        }
    }

    /// Takes over the turn in flight; `None` where somebody else was faster.
    pub(super) async fn take(&self, subject: &Subject, token: u64) -> Result<Option<Guard>, Refusal> {
        let begun = self.take_turn_of(subject.found.key.clone(), token).await?;
        Ok(match begun {
            Begun::Granted { lease, .. } => Some(Guard::new(Arc::clone(&self.core), lease)),
            Begun::Busy(_) => None,
        })
    }

    fn view<'a>(
        &'a self,
        subject: &'a Subject,
        chain: &'a Chain,
        originals: &'a [(String, Vec<Part>)],
        history_length: Option<u64>,
    ) -> View<'a> {
        View {
            task_id: &subject.id,
            context_id: &subject.found.key.context_id,
            everywhere: false,
            chain,
            fence: &subject.found.context.fence,
            policy: &self.core.policy,
            originals,
            history_length,
            artifacts: true,
        }
    }

    /// The task from the record: the agent has forgotten it, or does not answer.
    fn recorded(&self, call: &Call<'_, '_>, subject: &Subject, task: &ClientTask) -> Outcome {
        let context = &subject.found.context;
        let newest = context
            .failed_turn_of(task)
            .filter(|_| task.state != State::InputRequired)
            .or_else(|| context.newest_turn_of(task));
        let Some(turn) = newest else { return Err(Refusal::task_not_found()) };
        let dialect = self.shape(call.dialect).dialect;
        let task = self.recorded_task(&subject.found, &turn, dialect, history_length(call), true);
        Ok(respond::own(&call.binding, &task, false))
    }

    async fn as_recorded(&self, call: &Call<'_, '_>, id: &str) -> Outcome {
        let subject = self.subject(id).await?.ok_or_else(Refusal::task_not_found)?;
        let Some(task) = subject.found.context.task(id) else { return Err(Refusal::task_not_found()) };
        self.recorded(call, &subject, task)
    }

    /// The client's request with the agent's id in place of the client's.
    async fn forward(&mut self, call: &Call<'_, '_>, upstream: &str) -> Result<Answer, Refusal> {
        self.agent.on_task(call, upstream).await
    }
}

/// The agent's id of the task in flight, as far as it is known and still means that task.
fn known_upstream(in_flight: &InFlight, pending: &Pending) -> Option<String> {
    let bound = pending.bound.as_ref().map(|bound| &bound.upstream_task).filter(|id| !id.is_empty());
    let continued = pending.opening.continued.as_ref().map(|(task, _)| task);
    bound.or(continued).filter(|_| !in_flight.superseded).cloned()
}

fn history_length(call: &Call<'_, '_>) -> Option<u64> {
    call.params.some("historyLength").and_then(|length: Value<'_, '_>| length.u64())
}

/// The client's own messages by id, as far as they are kept: of the context's turns, and of the one in flight.
pub(super) fn originals(found: &Found, parts: Vec<Part>, id: &str) -> Vec<(String, Vec<Part>)> {
    let kept = found.context.turns.iter().filter_map(|kept| kept.turn().ok());
    let mut all: Vec<_> = kept.map(|turn: Turn| (turn.user.id, turn.user.parts)).collect();
    if !id.is_empty() {
        all.push((id.to_owned(), parts));
    }
    all
}

/// A page token: where the next page begins, opaque to the client.
pub(super) fn page_token(updated_at: u64, id: &str) -> String {
    crate::json::hex(format!("{updated_at}:{id}").as_bytes())
}
