//! A task in mid-turn, from what was heard so far: what a client is told that joins late.

use super::show::{View, write_artifact};
use super::{Tail, Turn};
use crate::a2a::{self, Dialect, Part, Role, State, message};
use crate::conversation::question;
use crate::conversation::reply::{self, Heard};

impl Turn {
    /// The artifacts that were heard so far, under the agent's ids.
    pub fn heard(&self) -> &[Heard] {
        &self.hearing.artifacts
    }

    /// The task as it stands: all that was passed on, and nothing that is held back in `tail`.
    pub fn standing(&self, view: &View<'_>, tail: &Tail, dialect: Dialect, timestamp: &str) -> String {
        let ids = (view.task_id, view.context_id);
        let earlier = self.chain.artifacts().into_iter().cloned();
        let heard = self.heard().iter().map(|heard| {
            let passed = Heard { parts: self.passed(heard, tail), ..heard.clone() };
            reply::keep(&passed, &self.chain.artifact_id(&heard.id))
        });
        let artifacts: Vec<_> = earlier.chain(heard).map(|artifact| write_artifact(&artifact, dialect)).collect();
        let mut said = self.chain.messages();
        said.push((Role::User, self.opening.user.id.clone(), self.opening.user.parts.clone()));
        let history: Vec<_> =
            said.iter().map(|(role, id, parts)| message(dialect, *role, id, parts, ids, None)).collect();
        let mut members = vec![format!("\"history\":[{}]", history.join(","))];
        if !artifacts.is_empty() {
            members.push(format!("\"artifacts\":[{}]", artifacts.join(",")));
        }
        let state = self.state.filter(|state| !state.settles()).unwrap_or(State::Working);
        // What an authorisation is wanted for, and where, stands there.
        let status = self.hearing.status.as_ref().filter(|_| state == State::AuthRequired);
        let status = status.map(|said| message(dialect, Role::Agent, &said.id, &said.parts, ids, None));
        a2a::task(dialect, ids, state, status.as_deref(), timestamp, &members)
    }

    fn passed(&self, heard: &Heard, tail: &Tail) -> Vec<Part> {
        let mut parts = heard.parts.clone();
        if let Some(Part::Text(text)) = parts.first_mut()
            && let Some(range) = question::marker_range(text, super::show::markers(&self.policy))
            && range.start == 0
        {
            text.drain(range);
        }
        if let (Some(Part::Text(text)), Some(held)) = (parts.last_mut(), tail.held_of(&heard.id)) {
            text.truncate(text.strip_suffix(held).map_or(text.len(), str::len));
        }
        parts
    }
}
