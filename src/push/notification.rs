//! A notification as it waits in the outbox.

use serde::{Deserialize, Serialize};

use super::PushConfig;
use crate::a2a::Dialect;
use crate::conversation::principal::ContextKey;

/// What a webhook is told, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The context of its task.
    pub key: ContextKey,
    /// The configuration by which it is made; once that is gone, so is what was made by it.
    pub config: PushConfig,
    /// The state that it tells, for the log.
    pub state: String,
    /// The body, as JSON.
    pub body: String,
    /// When it was made: milliseconds since 1970.
    pub made_at: u64,
}

impl Notification {
    /// A notification that shows `task`, written in the configuration's dialect: 0.3 has the bare task, 1.0 a stream's response.
    pub fn new(key: ContextKey, config: PushConfig, state: String, task: String, made_at: u64) -> Self {
        let body = match config.dialect {
            Dialect::V03 | Dialect::Proto03 => task,
            Dialect::V10 => format!("{{\"task\":{task}}}"),
        };
        Self { key, config, state, body, made_at }
    }

    /// Notifications of one lane are delivered one after the other: those of one task to one webhook.
    pub fn lane(&self) -> String {
        format!("{}\n{}\n{}", self.key.route.as_str(), self.config.task, self.config.id)
    }

    /// The body's content type.
    pub fn content_type(&self) -> &'static str {
        match self.config.dialect {
            Dialect::V03 | Dialect::Proto03 => "application/json",
            Dialect::V10 => "application/a2a+json",
        }
    }

    /// The value of `Authorization`, where the client gave credentials: for the first scheme that it named, as the SDKs send it.
    pub fn authorization(&self) -> Option<String> {
        let credentials = self.config.credentials.as_deref().filter(|credentials| !credentials.is_empty())?;
        let scheme = self.config.schemes.iter().find(|scheme| !scheme.is_empty())?;
        Some(format!("{scheme} {credentials}"))
    }
}
