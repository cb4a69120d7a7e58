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
