//! An answer of the agent, read.

use ::http::Uri;

use super::fault::{self, ClientError};
use super::http::Received;
use crate::a2a::{Message, Part, Payload, Role, State, Task, text_of};
use crate::conversation::policy;
use crate::conversation::reply::{Heard, Hearing, rebuild, said_parts};
use crate::conversation::transcript::Spoken;
use crate::json::{Doc, Value};

/// What the agent answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The task's state; `None` for a bare message.
    pub state: Option<State>,
    /// The task's id.
    pub task: Option<String>,
    /// The conversation's.
    pub context: Option<String>,
    hearing: Hearing,
    /// Which artifacts and parts are no answer: what the proxy has by default.
    rules: policy::Reply,
}

impl Reply {
    /// Whether the agent waits for the person: the next message then goes to the same task.
    pub fn asks(&self) -> bool {
        matches!(self.state, Some(State::InputRequired | State::AuthRequired))
    }

    /// Whether the agent goes on by itself.
    pub fn is_running(&self) -> bool {
        matches!(self.state, Some(State::Submitted | State::Working))
    }

    /// Whether the task came to nothing.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, Some(State::Failed | State::Rejected | State::Canceled))
    }

    /// The artifacts that it has.
    pub fn artifacts(&self) -> &[Heard] {
        &self.hearing.artifacts
    }

    /// What the agent said.
    pub fn text(&self) -> String {
        self.news(|_| true)
    }

    /// What the agent said, leaving out artifacts that are not `new`: a task that goes on keeps those of its earlier rounds.
    pub fn news(&self, new: impl Fn(&Heard) -> bool) -> String {
        let rebuilt = rebuild(&self.hearing, &self.rules, &new);
        let from: Vec<_> = rebuilt.from.iter().map(|at| *at as usize).collect();
        let mut pieces: Vec<_> = from.iter().map(|at| shown(&self.hearing.artifacts[*at].parts)).collect();
        pieces.extend(rebuilt.message.map(|message| shown(&message.parts)));
        let others = self.hearing.artifacts.iter().enumerate().filter(|(at, each)| !from.contains(at) && new(each));
        pieces.extend(others.filter(|(_, each)| !each.thought && has_more(each)).map(|(_, each)| shown(&each.parts)));
        // Of a question, or a failure, the status says what is the matter; of what is done it is mostly chatter.
        let status = self.hearing.status.as_ref().filter(|_| self.state != Some(State::Completed));
        if let Some(status) = status.map(|status| shown(&status.parts))
            && !pieces.iter().any(|piece| piece.contains(&status))
        {
            pieces.push(status);
        }
        pieces.join("\n\n")
    }
}

fn has_more(heard: &Heard) -> bool {
    heard.parts.iter().any(|part| part.text().is_none())
}

/// Parts as a person reads them: fragments of text are one text, everything else stands on a line of its own.
fn shown(parts: &[Part]) -> String {
    let mut pieces = vec![text_of(parts)];
    pieces.extend(parts.iter().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Data(json) => Some(json.clone()),
        Part::File(file) => {
            let size = file.receipt.map(|(size, _)| format!("{size} bytes"));
            let words = [file.name.clone(), file.media_type.clone(), size, file.url.clone()];
            Some(format!("[file: {}]", words.into_iter().flatten().collect::<Vec<_>>().join(", ")))
        }
    }));
    pieces.retain(|piece| !piece.is_empty());
    pieces.join("\n")
}

/// Reads a JSON-RPC response.
pub(super) fn read(received: &Received, url: &Uri) -> Result<Reply, ClientError> {
    let doc = Doc::scan(&received.body).map_err(|_| fault::not_json(received, url))?;
    let root = doc.root();
    if let Some(error) = root.some("error").filter(|_| root.some("jsonrpc").is_some()) {
        return Err(refused(error));
    }
    let result = root.some("result").ok_or_else(|| fault::not_json(received, url))?;
    of_result(result)
        .ok_or_else(|| ClientError::NotA2a(format!("{url} answers with neither a task nor a message as the result")))
}

fn refused(error: Value<'_, '_>) -> ClientError {
    let code = error.some("code").and_then(|code| code.raw().parse().ok()).unwrap_or_default();
    let message = error.some("message").and_then(|message| message.str()).unwrap_or_default();
    let message = if message.trim().is_empty() { "it does not say why".into() } else { message.into_owned() };
    ClientError::Refused { code, message }
}

fn of_result(result: Value<'_, '_>) -> Option<Reply> {
    let (payload, _) = Payload::read(result)?;
    let rules = policy::Reply::default();
    let hearing = match payload {
        Payload::Task(task) => of_task(task, &rules),
        Payload::Message(message) => Hearing { message: Some(spoken(message, &rules)), ..Hearing::default() },
        Payload::StatusUpdate(_) | Payload::ArtifactUpdate(_) => return None,
    };
    Some(Reply {
        state: payload.state(),
        task: payload.task_id().map(Into::into),
        context: payload.context_id().map(Into::into),
        hearing,
        rules,
    })
}

fn of_task(task: Task<'_, '_>, rules: &policy::Reply) -> Hearing {
    let mut hearing = Hearing::default();
    hearing.artifacts(&task.artifacts(), rules);
    hearing.status = task.status_message().map(|message| spoken(message, rules));
    let history = task.history();
    let last = history.iter().rev().take_while(|message| message.role() != Some(Role::User)).next();
    hearing.history = last.map(|message| spoken(*message, rules));
    hearing
}

fn spoken(message: Message<'_, '_>, rules: &policy::Reply) -> Spoken {
    let id = message.id().unwrap_or_default().into_owned();
    Spoken { id, parts: said_parts(message.value, rules) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(result: &str) -> String {
        of_result(Doc::scan(result.as_bytes()).unwrap().root()).unwrap().text()
    }

    #[test]
    fn the_text_is_what_a_person_needs() {
        let artifact = r#""artifacts":[{"artifactId":"a","parts":[{"text":"Which "},{"text":"city?"}]}]"#;
        let message =
            |text: &str| format!(r#""message":{{"role":"agent","parts":[{{"kind":"text","text":"{text}"}}]}}"#);
        for (state, status, rest, expected) in [
            ("completed", message("done"), artifact, "Which city?"),
            ("completed", message("done"), "\"x\":1", "done"),
            ("input-required", message("Which city?"), artifact, "Which city?"),
            ("input-required", message("Fine so?"), artifact, "Which city?\n\nFine so?"),
            ("failed", message("no money"), artifact, "Which city?\n\nno money"),
            (
                "completed",
                "\"x\":1".to_owned(),
                r#""artifacts":[{"artifactId":"a","parts":[{"data":{"n":1}}]}]"#,
                r#"{"n":1}"#,
            ),
        ] {
            let task = format!(r#"{{"id":"t","status":{{"state":"{state}",{status}}},{rest}}}"#);
            assert_eq!(said(&task), expected, "{task}");
        }
        let file = r#"{"kind":"message","role":"agent","messageId":"m","parts":[{"kind":"text","text":"Here"},
            {"kind":"file","file":{"name":"o.txt","mimeType":"text/plain","bytes":"dGNr"}}]}"#;
        assert_eq!(said(file), "Here\n[file: o.txt, text/plain, 3 bytes]");
    }
}
