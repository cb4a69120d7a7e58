//! The four operations on push configurations: answered here, since the agent knows of one callback and of no webhook.

use super::Relay;
use crate::a2a::{Call, Dialect, Push};
use crate::exchange::{PushCall, Refusal, push_list, set_params};
use crate::middleware::operate::Subject;
use crate::middleware::respond;
use crate::middleware::send::{Exchange, Outcome, store_refusal};
use crate::push::{PushChange, PushConfig};

impl Exchange {
    pub(in crate::middleware) async fn push(&mut self, push: Push, call: &Call<'_, '_>) -> Outcome {
        let Some(relay) = self.core.push.clone().filter(|_| self.identified) else {
            return Err(Refusal::push_not_supported());
        };
        let asked = PushCall::read(push, call, &self.rules(&relay))?;
        let subject = self.subject(asked.task()).await?.ok_or_else(Refusal::task_not_found)?;
        let result = match asked {
            PushCall::Set(config) => self.set(&relay, subject, config, call.dialect).await?,
            PushCall::Get { id, .. } => one(&subject, &id)?.written(call.dialect),
            PushCall::List { task } => push_list(subject.found.context.push_of(&task), call.dialect),
            PushCall::Delete { task, id } => {
                let change = PushChange::Delete { task: task.into(), id };
                // One that is not there is gone, as with the SDKs.
                self.change(&subject, change).await?;
                "null".to_owned()
            }
        };
        Ok(respond::own(&call.binding, &result, false))
    }

    async fn change(&self, subject: &Subject, change: PushChange) -> Result<bool, Refusal> {
        self.core.store.configure(&subject.found.key, change).await.map_err(|error| store_refusal(&error))
    }

    async fn set(
        &mut self,
        relay: &Relay,
        subject: Subject,
        config: PushConfig,
        dialect: Dialect,
    ) -> Result<String, Refusal> {
        let result = config.written(dialect);
        if subject.pending.is_some() {
            relay.touch(&subject.found.key);
        }
        if !self.change(&subject, PushChange::Set(config)).await? {
            return Err(Refusal::invalid_params("the task has as many push configurations as it may have"));
        }
        self.hasten(relay, &subject).await;
        Ok(result)
    }

    /// A turn that nobody reads would be seen to end at the next look: the agent is asked to tell. One that was asked already tells anyway.
    async fn hasten(&mut self, relay: &Relay, subject: &Subject) {
        let pending = subject.pending.as_ref().filter(|(_, pending)| pending.idle).map(|(_, pending)| pending);
        let Some(pending) = pending.filter(|pending| pending.opening.callback.is_none()) else { return };
        let upstream = pending.bound.as_ref().map(|bound| &bound.upstream_task).filter(|id| !id.is_empty());
        let (Some(upstream), true) = (upstream, relay.agent_pushes()) else { return };
        let token = subject.pending.as_ref().map_or(0, |(in_flight, _)| in_flight.token);
        if let Err(refusal) = self.register(relay, subject, token, upstream).await {
            tracing::debug!(why = refusal.message, "the agent was given no callback: the task is looked at instead");
        }
    }

    /// Writes down the callback with the turn, then gives it to the agent.
    async fn register(&mut self, relay: &Relay, subject: &Subject, token: u64, upstream: &str) -> Result<(), Refusal> {
        let callback = self.new_callback(relay);
        let Some(guard) = self.take(subject, token).await? else { return Ok(()) };
        let Some((_, mut pending)) = subject.pending.clone() else { return Ok(()) };
        let mut opening = crate::turn::Opening::clone(&pending.opening);
        opening.callback = Some(callback.name.clone());
        pending.opening = opening.into();
        let (voice, dialect) = (pending.opening.voice(), pending.opening.dialect);
        let context = std::sync::Arc::clone(&subject.found.context);
        let mut running = self.resumed(guard, context, pending);
        self.push_with(&mut running.guard, Some(&callback), None).await?;
        running.leave_unsettled(self.core.now()).await.map_err(|error| store_refusal(&error))?;
        let params = set_params(&callback, upstream, dialect);
        self.agent.set_push(&params, &voice, self.core.policy.timeouts.look).await
    }
}

fn one<'s>(subject: &'s Subject, id: &str) -> Result<&'s PushConfig, Refusal> {
    let mut configs = subject.found.context.push_of(&subject.id);
    configs.find(|config| config.id == id).ok_or_else(Refusal::task_not_found)
}
