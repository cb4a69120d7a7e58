//! Whether the agent is waiting for the user.

use serde::{Deserialize, Serialize};

/// How ready the proxy is to take a finished reply for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Never.
    Off,
    /// Only where the reply says so.
    Explicit,
    /// Where it is all but certain.
    Strict,
    /// Where it is likely.
    #[default]
    Balanced,
}

/// What is taken for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How ready the proxy is.
    pub level: Level,
    /// Markers at the very start or end of a reply that say it asks.
    pub markers: Vec<String>,
    /// Rewrites in a row in one context at most.
    pub cap: u32,
    /// Metadata keys that say whether input is required.
    pub metadata: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { level: Level::Balanced, markers: vec!["[INPUT_REQUIRED]".to_owned()], cap: 8, metadata: Vec::new() }
    }
}

/// What kind of answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    /// .
    FreeText,
    /// .
    Approval,
    /// .
    Credential,
    /// .
    StructuredArtifact,
}
impl Expected {
    /// .
    pub fn as_str(self) -> &'static str {
        "free_text"
    }
}
/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// .
    Question,
    /// .
    Cap,
}
impl Reason {
    /// .
    pub fn as_str(self) -> &'static str {
        "question"
    }
}
/// The reply.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// .
    pub text: &'a str,
    /// .
    pub data: Option<&'a str>,
    /// .
    pub metadata: Option<&'a str>,
}
/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// .
    pub waiting: bool,
    /// .
    pub expected: Expected,
    /// .
    pub reason: Reason,
    /// .
    pub confidence: f32,
    /// .
    pub words: Vec<std::ops::Range<usize>>,
    /// .
    pub shown: Option<String>,
}
/// Decides.
pub fn decide(reply: &Reply<'_>, _user: &str, settings: &Settings, rounds: u32) -> Decision {
    let asks = reply.text.trim_end().ends_with('?') && settings.level != Level::Off;
    Decision {
        waiting: asks && rounds < settings.cap,
        expected: Expected::FreeText,
        reason: if asks && rounds >= settings.cap { Reason::Cap } else { Reason::Question },
        confidence: 1.0,
        words: Vec::new(),
        shown: None,
    }
}
/// Marker.
pub fn marker_range(text: &str, markers: &[String]) -> Option<std::ops::Range<usize>> {
    markers.iter().find_map(|m| text.strip_suffix(m.as_str()).map(|r| r.trim_end().len()..text.len()))
}
