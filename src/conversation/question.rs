//! Whether a finished reply waits for the user: a pure function of the reply, the user's message, the settings and a count.
//!
//! The order is: what the agent said explicitly, then the words at the end of the reply, then the cap. Words are rules and tables, no model:
//! every row in `words` is one that a speaker of the language would agree with. What this file must never do is read a clock, draw a random
//! number or look at more than the end of a reply: the same input gives the same decision after a restart, and a hostile reply of a megabyte
//! costs as much as one of four kilobytes (plus one JSON parse where the reply looks like an object).

use std::ops::Range;

use serde::{Deserialize, Serialize};

mod answer;
mod draft;
mod explicit;
mod judge;
mod ordered;
mod structure;
#[cfg(test)]
mod tests;
mod words;

pub use explicit::marker_range;

/// How ready the proxy is to take a finished reply for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing is recognised and nothing removed: a marker stays in the text.
    Off,
    /// Only what the agent says explicitly: a marker, a JSON status, configured metadata.
    Explicit,
    /// Explicit signals, and questions and requests that stand at the very end and speak to the user. Precision first: .970 at a recall of
    /// .863 on 3,766 labelled replies in English, Chinese and Japanese that most of the rules were written with in view.
    Strict,
    /// As strict, and also questions that a short remark follows, that name no one, or that lack the form of one: precision .969, recall
    /// .973 on the same replies.
    #[default]
    Balanced,
}

/// What kind of answer the reply waits for. `FreeText` where nothing is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Any words.
    #[default]
    FreeText,
    /// A yes or no: to go on, to confirm what was understood.
    Approval,
    /// A password, one-time code, PIN, key or login. A name or customer number is none.
    Credential,
    /// A file, a form, a document in a given form.
    StructuredArtifact,
}

impl Expected {
    /// The value of `expected_input` on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FreeText => "free_text",
            Self::Approval => "approval",
            Self::Credential => "credential",
            Self::StructuredArtifact => "structured_artifact",
        }
    }
}

/// Why the decision is what it is: for the log, the metrics and the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A configured marker stands at the start or the end of the text.
    Marker,
    /// The reply is a JSON object whose `status` says it.
    JsonStatus,
    /// A configured metadata key says it.
    Metadata,
    /// The reply ends with a question.
    Question,
    /// The reply ends by asking for something without a question.
    Request,
    /// The only question is an offer of more help.
    Closer,
    /// The reply ends with a statement.
    Statement,
    /// The end of the reply is code, a quote, a table or JSON, or the reply is a file: nothing in it is judged.
    Code,
    /// There is no text.
    Empty,
    /// The questions are what the user ordered.
    Ordered,
    /// Nothing explicit was said, and the level asks for that.
    Unmarked,
    /// Recognition is off.
    Off,
    /// It asks, but the context has had as many rewrites in a row as it may.
    Cap,
}

impl Reason {
    /// The code as it is logged, counted and sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Marker => "marker",
            Self::JsonStatus => "json_status",
            Self::Metadata => "metadata",
            Self::Question => "question",
            Self::Request => "request",
            Self::Closer => "closer",
            Self::Statement => "statement",
            Self::Code => "code",
            Self::Empty => "empty",
            Self::Ordered => "ordered",
            Self::Unmarked => "unmarked",
            Self::Off => "off",
            Self::Cap => "cap",
        }
    }
}

/// What a route says about the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How ready to take a reply for a question.
    pub level: Level,
    /// Texts that mean "input is required" at the very start or end of a reply.
    pub markers: Vec<String>,
    /// This many rewrites in a row in one context, then `completed` stays. 0: never rewrite.
    pub cap: u32,
    /// Keys of the reply's metadata that say explicitly that input is required (`true`, `"input-required"`) or not (`false`, `"completed"`).
    pub metadata: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: Level::default(), markers: vec!["[INPUT_REQUIRED]".to_owned()], cap: 8, metadata: Vec::new() }
    }
}

/// The finished reply, as the client would see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Its text, rebuilt from what the agent sent.
    pub text: &'a str,
    /// The JSON text of its one data part, if the reply is one.
    pub data: Option<&'a str>,
    /// The JSON text of its metadata, read for the configured keys only.
    pub metadata: Option<&'a str>,
    /// The names of the artifacts that it is from. Where all are files' names it is a document, and no question unless it says so explicitly.
    pub names: &'a [&'a str],
}

impl Reply<'_> {
    /// Whether it is files alone: `report.md`, `main.py`.
    fn is_file(&self) -> bool {
        let is_file = |name: &&str| {
            let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
            let short = |e: &str| (1..=5).contains(&e.len()) && e.bytes().all(|b| b.is_ascii_alphanumeric());
            extension.is_some_and(|e| short(e) && e.bytes().any(|b| b.is_ascii_alphabetic())) && !name.contains(' ')
        };
        !self.names.is_empty() && self.names.iter().all(is_file)
    }
}

/// What was decided, and by what.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The agent waits for the user: `completed` becomes `input-required`.
    pub waiting: bool,
    /// For what it waits.
    pub expected: Expected,
    /// Why.
    pub reason: Reason,
    /// How sure, from 0 to 1: 1 for explicit signals, else a rank and not a probability.
    pub confidence: f32,
    /// Byte ranges of the reply's text that decided, in order.
    pub words: Vec<Range<usize>>,
    /// The asking sentences, from the first to the end of the last, where the text asks.
    pub asked: Option<Range<usize>>,
    /// For a JSON reply that asks: its `question` or `message`, which becomes the status message.
    pub shown: Option<String>,
}

impl Decision {
    fn not(reason: Reason, confidence: f32) -> Self {
        let (words, expected) = (Vec::new(), Expected::FreeText);
        Self { waiting: false, expected, reason, confidence, words, asked: None, shown: None }
    }
}

/// Decides whether a `completed` reply waits for the user. `user` is the text of the message that it answers, `rounds` the number of rewrites
/// in a row so far in this context.
pub fn decide(reply: &Reply<'_>, user: &str, settings: &Settings, rounds: u32) -> Decision {
    if settings.level == Level::Off {
        return Decision::not(Reason::Off, 1.0);
    }
    let decision = explicit::decide(reply, settings).unwrap_or_else(|| match settings.level {
        Level::Off | Level::Explicit => Decision::not(Reason::Unmarked, 1.0),
        Level::Strict | Level::Balanced => judge::decide(reply, user, settings.level),
    });
    if decision.waiting && rounds >= settings.cap {
        return Decision { waiting: false, reason: Reason::Cap, shown: None, ..decision };
    }
    decision
}
