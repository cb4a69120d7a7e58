//! An answer of the agent that was read whole: what it is, before anything is made of it.

use crate::a2a::{Binding, Payload};
use crate::json::{Doc, Value};

/// The agent's error in a few words: its codes alone, since its text is the client's matter.
pub(super) fn error_words(status: http::StatusCode, doc: Option<&Doc<'_>>) -> String {
    let code = doc.and_then(|doc| Some(doc.root().some("error")?.some("code")?.raw().to_owned()));
    let code = code.map(|code| format!(", code {code}")).unwrap_or_default();
    format!("the agent answered with an error (HTTP {}{code})", status.as_u16())
}

/// What an answer that was read whole is.
pub(super) enum Reply<'b> {
    /// A result that can be read in one way only.
    Result(Doc<'b>),
    /// An error, of the binding or of HTTP.
    Error(Option<Doc<'b>>),
    /// Neither.
    Unreadable(&'static str),
}

impl<'b> Reply<'b> {
    /// Reads an answer to a request in `binding`; `success` is what its HTTP status says.
    pub(super) fn read(body: &'b [u8], binding: &Binding, success: bool) -> Self {
        let doc = Doc::scan(body).ok();
        match doc {
            Some(doc) if binding.error_of(doc.root()).is_some() => Self::Error(Some(doc)),
            doc if !success => Self::Error(doc),
            None => Self::Unreadable("no JSON"),
            Some(doc) if is_ambiguous(doc.root(), binding) => Self::Unreadable("a member stands twice in it"),
            Some(doc) if binding.result_of(doc.root()).is_some() => Self::Result(doc),
            Some(_) => Self::Unreadable("neither result nor error"),
        }
    }
}

/// Whether it can answer a send: a task that has an id, or a message.
pub(super) fn is_answer(payload: &Payload<'_, '_>) -> bool {
    match payload {
        Payload::Task(_) => payload.task_id().is_some(),
        Payload::Message(_) => true,
        Payload::StatusUpdate(_) | Payload::ArtifactUpdate(_) => false,
    }
}

/// Whether what is decided on can be read in two ways.
pub(super) fn is_ambiguous(root: Value<'_, '_>, binding: &Binding) -> bool {
    let result = binding.result_of(root);
    let inside: Vec<_> = result.into_iter().flat_map(|result| result.members()).map(|member| member.value).collect();
    let deeper = inside.iter().flat_map(Value::members).map(|member| member.value);
    let all = [root].into_iter().chain(result).chain(inside.iter().copied()).chain(deeper);
    all.into_iter().any(|value| value.has_duplicate_names())
}
