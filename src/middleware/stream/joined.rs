//! What other requests have to say to whoever reads a turn.

use std::sync::Arc;

use super::{Next, Pump};
use crate::a2a::{Payload, State};
use crate::json::Doc;
use crate::middleware::listeners::Knock;
use crate::middleware::send::wrapped;

impl Pump {
    pub(super) async fn knocked(&mut self, knock: Knock) -> Next {
        match knock {
            Knock::Listens(listener) => self.admit(listener),
            Knock::Joins(joining) => {
                Arc::make_mut(&mut self.running.turn.opening).joined.push(joining.receipt);
                self.running.originals.push(joining.original);
                self.say_where_it_stands().await;
                let _ = joining.noted.send(());
            }
            Knock::Answered(json, binding) => {
                let Ok(doc) = Doc::scan(&json) else { return Next::More };
                let Some((payload, shape)) = binding.result_of(doc.root()).and_then(Payload::read) else {
                    return Next::More;
                };
                return match payload {
                    Payload::Task(task) => self.snapshot(task, shape).await,
                    // What led to it came in another stream, if not in this one.
                    Payload::StatusUpdate(update) => {
                        self.gap = true;
                        self.made(&wrapped("statusUpdate", update.value.raw(), shape.dialect)).await
                    }
                    Payload::Message(message) => {
                        self.made(&wrapped("message", message.value.raw(), shape.dialect)).await
                    }
                    Payload::ArtifactUpdate(_) => Next::More,
                };
            }
        }
        Next::More
    }

    /// A turn that waits for an authorisation is joined by the message that brings it, while it is read here: others have to know.
    pub(super) async fn follow(&mut self, before: Option<State>) {
        let now = self.running.turn.state();
        if before != now && [before, now].contains(&Some(State::AuthRequired)) {
            self.say_where_it_stands().await;
        }
    }

    async fn say_where_it_stands(&mut self) {
        if let Err(error) = self.running.say_where_it_stands(self.exchange.core.now()).await {
            tracing::warn!(%error, "how a turn stands could not be kept");
        }
    }
}
