//! One event of the agent's, as the client is to see it: its own bytes, but for what must change.

use super::cut::markers;
use super::{Next, Pump};
use crate::a2a::{self, ArtifactUpdate, Part, Payload, Shape, State, write_part};
use crate::exchange::{Refusal, error_event, sse_event};
use crate::json::{Doc, Edits, Value, quote};
use crate::middleware::agent::log_body;
use crate::middleware::core::timestamp;
use crate::middleware::push;
use crate::middleware::reply::is_ambiguous;
use crate::middleware::send::wrapped;
use crate::middleware::settle::{Ended, end, fail};
use crate::sse::Event;
use crate::turn::{View, task_of_message};

impl Pump {
    pub(super) async fn event(&mut self, event: Event) -> Next {
        let Some(data) = event.data().filter(|data| !data.is_empty()) else {
            // A comment, or a field that says nothing of A2A.
            self.write(event.raw).await;
            return Next::More;
        };
        log_body("from the agent", &data);
        let malformed = |what: &str| Refusal::malformed(what);
        let Ok(doc) = Doc::scan(&data) else {
            self.fail("the agent sent an event that is no JSON", &malformed("an event that is no JSON")).await;
            return Next::Done;
        };
        let root = doc.root();
        if self.binding.error_of(root).is_some() {
            return self.error_event(&event, &doc).await;
        }
        if is_ambiguous(root, &self.binding) {
            let what = "an event in which a member stands twice";
            self.fail(&format!("the agent sent {what}"), &malformed(what)).await;
            return Next::Done;
        }
        match self.binding.payload_of(root) {
            Some((payload, shape)) => self.payload(&event, &doc, &payload, shape).await,
            None => {
                // Something that the protocol does not have yet.
                self.write(event.raw).await;
                Next::More
            }
        }
    }

    async fn error_event(&mut self, event: &Event, doc: &Doc<'_>) -> Next {
        fail(&self.exchange.core, &mut self.running, "the agent answered with an error").await;
        let mut edits = Edits::new();
        self.binding.readdress(&mut edits, doc.root());
        self.tell_edited(event, doc, edits, true).await;
        Next::Done
    }

    async fn payload(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape) -> Next {
        self.dialect = shape.made_in();
        if let Payload::Task(task) = payload
            && (self.resumed || self.dialect.is_of_03())
            && self.began
            && self.running.bound.is_some()
        {
            // The official client of 0.3 takes a task behind any other event for an error: of a snapshot it gets what it has not seen.
            return self.snapshot(*task, shape).await;
        }
        self.gap &= !matches!(payload, Payload::Task(_));
        let before = self.running.turn.state();
        self.running.turn.hear(payload, shape);
        if !self.bind(payload).await {
            return Next::Done;
        }
        push::under_way(&mut self.running).await;
        self.follow(before).await;
        if payload.state().is_some_and(State::settles) || matches!(payload, Payload::Message(_)) {
            self.finish(event, doc, payload, shape).await
        } else {
            self.pass(event, doc, payload, shape).await
        }
    }

    /// The turn has ended: it is settled, and then the client is told.
    pub(super) async fn finish(
        &mut self,
        event: &Event,
        doc: &Doc<'_>,
        payload: &Payload<'_, '_>,
        shape: Shape,
    ) -> Next {
        if self.gap {
            self.fill_gap().await;
        }
        self.release_tail(Release::All).await;
        if let Some(bound) = self.running.bound.clone().filter(|_| self.running.turn.lacks_reply()) {
            self.exchange.look_for_reply(&mut self.running, &bound).await;
        }
        let ended = end(&self.exchange.core, &mut self.running).await;
        self.close(event, doc, payload, shape, &ended).await;
        Next::Done
    }

    /// Ties the agent's ids to the client's before the first byte goes out that shows them. Whether the stream can go on.
    async fn bind(&mut self, payload: &Payload<'_, '_>) -> bool {
        let known = self.running.bound.as_ref().is_some_and(|bound| !bound.upstream_task.is_empty());
        if known || (self.running.bound.is_some() && payload.task_id().is_none()) {
            return true;
        }
        let bind = self.running.bind(payload);
        match self.running.guard.bind(bind).await {
            Ok(bound) => {
                if !bound.upstream_task.is_empty() {
                    // From here on the agent is asked to cancel.
                    self.wish = None;
                }
                self.running.context_id = Some(bound.context_id.clone());
                self.running.bound = Some(bound);
                self.open_door();
                true
            }
            Err(error) => {
                tracing::error!(%error, "a turn's ids could not be kept");
                self.tell_refusal(&Refusal::not_recorded()).await;
                false
            }
        }
    }

    /// An event that closes nothing: as it came, but for ids and what may be a marker.
    pub(super) async fn pass(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape) -> Next {
        let mut edits = Edits::new();
        self.binding.readdress(&mut edits, doc.root());
        match payload {
            Payload::ArtifactUpdate(update) => self.hold_tail(&mut edits, *update).await,
            _ => self.release_tail(Release::All).await,
        }
        if let Some(bound) = &self.running.bound {
            // The first task of a send carries the chain's history and no earlier artifacts, a later one neither.
            let view = self.running.view(&self.exchange.core, bound, self.origin == super::Origin::Subscription);
            let view = if self.began { View { history_length: Some(0), artifacts: false, ..view } } else { view };
            view.show(&mut edits, payload, shape.dialect, None);
        }
        self.tell_edited(event, doc, edits, false).await;
        Next::More
    }

    /// Shortens the last text of an artifact's piece by what may be a marker, and puts what was held before in front of its first.
    async fn hold_tail(&mut self, edits: &mut Edits, update: ArtifactUpdate<'_, '_>) {
        let id = update.artifact.some("artifactId").and_then(|id| id.str()).unwrap_or_default();
        let append = update.appends();
        self.release_tail(if append { Release::AllBut(&id) } else { Release::All }).await;
        let texts = texts_of(update.artifact);
        self.heard += texts.iter().map(|text| text.raw().len()).sum::<usize>();
        let markers = markers(&self.exchange.core.policy);
        if markers.is_empty() {
            return;
        }
        for (at, value) in texts.iter().enumerate() {
            let Some(text) = value.str() else { continue };
            edits.set_string(*value, &self.tail.pass(&id, append || at > 0, &text, markers));
        }
    }

    /// What was held back turns out to be text: it goes out in an event of its own.
    pub(super) async fn release_tail(&mut self, which: Release<'_>) {
        let core = std::sync::Arc::clone(&self.exchange.core);
        let markers = markers(&core.policy);
        let released = match which {
            Release::All => self.tail.release(None, markers),
            Release::AllBut(id) => self.tail.release(Some(id), markers),
        };
        for (artifact, text) in released {
            self.tell_text(&artifact, text).await;
        }
    }

    /// Text that goes on with an artifact, in an event of our own.
    pub(super) async fn tell_text(&mut self, artifact: &str, text: String) {
        let id = self.running.turn.chain.artifact_id(artifact);
        let part = write_part(&Part::Text(text), self.dialect);
        let artifact = format!("{{\"artifactId\":{},\"parts\":[{part}]}}", quote(&id));
        self.tell_artifact(&artifact, true).await;
    }

    /// A piece of an artifact, in an event of our own.
    pub(super) async fn tell_artifact(&mut self, artifact: &str, append: bool) {
        let Some(bound) = &self.running.bound else { return };
        let event = a2a::artifact_update(self.dialect, (&bound.task_id, &bound.context_id), artifact, append);
        self.tell_result("artifactUpdate", &event, false).await;
    }

    async fn close(&mut self, event: &Event, doc: &Doc<'_>, payload: &Payload<'_, '_>, shape: Shape, ended: &Ended) {
        let Some(bound) = self.running.bound.clone() else { return };
        let told = ended.told();
        if let Payload::Message(_) = payload {
            match ended.turn.as_deref() {
                // A message that answers an open task is reported as that task.
                Some(turn) if !bound.task_id.is_empty() => {
                    let view = self.running.view(&self.exchange.core, &bound, false);
                    let task = task_of_message(&view, turn, self.dialect, &told, &timestamp(turn.settled_at));
                    return self.tell_result("task", &task, true).await;
                }
                Some(_) => {}
                // A message has no state that could say so.
                None => return self.tell_refusal(&Refusal::not_recorded()).await,
            }
        }
        let mut edits = Edits::new();
        self.binding.readdress(&mut edits, doc.root());
        let view = self.running.view(&self.exchange.core, &bound, !self.began);
        view.show(&mut edits, payload, shape.dialect, Some(&told));
        self.tell_edited(event, doc, edits, true).await;
    }

    async fn tell_edited(&mut self, event: &Event, doc: &Doc<'_>, edits: Edits, last: bool) {
        self.began = true;
        if edits.is_empty() {
            self.audience.tell(doc.text(), last);
            self.write(if last { event.last() } else { event.raw.clone() }).await;
        } else {
            let data = one_line(edits.apply(doc.text()));
            self.audience.tell(&data, last);
            self.write(event.with_data(&data)).await;
        }
    }

    pub(super) async fn tell_result(&mut self, name: &str, noun: &str, last: bool) {
        let result = wrapped(name, noun, self.dialect);
        self.tell(&self.binding.wrap(&result), last).await;
    }

    /// Says in a closing event that nothing can be told.
    pub(super) async fn tell_refusal(&mut self, refusal: &Refusal) {
        self.began = true;
        let json = refusal.body(&self.binding);
        self.audience.tell(&json, true);
        self.write(error_event(&json, &self.binding).into_bytes()).await;
    }

    pub(super) async fn tell(&mut self, json: &str, last: bool) {
        self.began = true;
        self.audience.tell(json, last);
        self.write(sse_event(json).into_bytes()).await;
    }
}

/// Of which artifacts what is held back is released.
pub(super) enum Release<'a> {
    All,
    /// All but the one that the next event goes on with.
    AllBut(&'a str),
}

fn texts_of<'d, 't>(artifact: Value<'d, 't>) -> Vec<Value<'d, 't>> {
    let parts = artifact.some("parts").into_iter().flat_map(|parts| parts.elements());
    parts.filter_map(|part| part.some("text")).collect()
}

/// JSON on one line: where it was pretty-printed, line ends stand between its values alone.
fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}
