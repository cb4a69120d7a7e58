//! A client's wish to be notified of a task, as it is kept.

use serde::{Deserialize, Serialize};

use crate::a2a::Dialect;

/// Where a client wants to be notified of a task, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushConfig {
    /// The client task.
    pub task: Box<str>,
    /// The configuration's id, unique among those of the task.
    pub id: String,
    /// The dialect in which the client made it: notifications are spelled so.
    pub dialect: Dialect,
    /// The webhook.
    pub url: String,
    /// What the webhook knows the sender by: goes in `X-A2A-Notification-Token`.
    pub token: Option<String>,
    /// The schemes of authentication that the webhook takes: 1.0 has one of them, 0.3 a list.
    pub schemes: Vec<String>,
    /// The credentials for the first of them.
    pub credentials: Option<String>,
    /// Whether the client activated the extension when it made the configuration.
    pub active: bool,
}

/// A change of the configurations of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PushChange {
    /// A new one, or another in place of the one with the same task and id.
    Set(PushConfig),
    /// The one with this id goes.
    Delete {
        /// The client task.
        task: Box<str>,
        /// The configuration's id.
        id: String,
    },
}
