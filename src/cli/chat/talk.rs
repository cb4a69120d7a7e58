//! A conversation, as far as its next message needs it: which context, and which task waits for an answer.

use std::collections::HashMap;
use std::time::Duration;

use crate::a2a::State;
use crate::cli::client::{Client, ClientError, Reply, Tap};
use crate::conversation::reply::fingerprint;

/// Between two looks at a task that is not done.
const LOOKS: std::ops::Range<Duration> = Duration::from_millis(200)..Duration::from_secs(3);

pub(super) struct Talk {
    client: Client,
    timeout: Duration,
    raw: bool,
    context: Option<String>,
    task: Option<String>,
    state: Option<State>,
    /// The artifacts of the task that were shown: it keeps them while it goes on.
    shown: HashMap<String, [u8; 32]>,
}

/// What the agent said.
pub(super) struct Said {
    pub state: Option<State>,
    pub text: String,
    pub failed: bool,
}

impl Talk {
    pub fn new(client: Client, context: Option<String>, timeout: Duration, raw: bool) -> Self {
        Self { client, timeout, raw, context, task: None, state: None, shown: HashMap::new() }
    }

    /// Begins another conversation.
    pub fn forget(&mut self) {
        (self.context, self.task, self.state) = (None, None, None);
        self.shown.clear();
    }

    /// Shows or hides the wire; whether it is shown now.
    pub fn toggle_raw(&mut self, tap: Tap) -> bool {
        self.raw = !self.raw;
        self.client.set_tap(self.raw.then_some(tap));
        self.raw
    }

    /// Whether the agent waits for an answer.
    pub fn asked(&self) -> bool {
        matches!(self.state, Some(State::InputRequired | State::AuthRequired))
    }

    pub fn task(&self) -> String {
        match (&self.task, self.state) {
            (Some(task), Some(state)) => format!("task {task} {state}"),
            (Some(task), None) => format!("task {task}"),
            (None, _) => "no task".to_owned(),
        }
    }

    pub fn context(&self) -> String {
        self.context.as_ref().map_or("no context yet".to_owned(), |context| format!("context {context}"))
    }

    /// Sends a message, on the task that waits for one where there is one, and waits until its turn has ended.
    pub async fn say(&mut self, text: &str) -> Result<Said, ClientError> {
        let answered = self.task.clone().filter(|_| self.asked());
        let reply = self.client.send(text, self.context.as_deref(), answered.as_deref()).await?;
        self.note(&reply, answered.as_deref());
        let reply = self.ended(reply).await?;
        self.note(&reply, answered.as_deref());
        Ok(self.heard(&reply))
    }

    fn note(&mut self, reply: &Reply, answered: Option<&str>) {
        if reply.context.is_some() {
            self.context.clone_from(&reply.context);
        }
        // A refusal has a task of its own; the one that was to be answered still waits.
        if reply.has_failed() && answered.is_some() && reply.task.as_deref() != answered {
            return;
        }
        if reply.task != self.task {
            self.shown.clear();
        }
        self.task.clone_from(&reply.task);
        self.state = reply.state;
    }

    /// An agent may answer at once and work on.
    async fn ended(&self, reply: Reply) -> Result<Reply, ClientError> {
        let task = reply.task.clone().unwrap_or_default();
        let within = tokio::time::timeout(self.timeout, self.watched(reply)).await;
        within.unwrap_or_else(|_| {
            let limit = humantime::format_duration(self.timeout);
            Err(ClientError::Unreachable(format!("task {task} is not done within {limit}; --timeout sets this")))
        })
    }

    async fn watched(&self, mut reply: Reply) -> Result<Reply, ClientError> {
        let mut pause = LOOKS.start;
        while let Some(task) = reply.task.as_ref().filter(|_| reply.is_running()) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOKS.end);
            reply = self.client.get(task).await?;
        }
        Ok(reply)
    }

    fn heard(&mut self, reply: &Reply) -> Said {
        let text = reply.news(|heard| self.shown.get(&heard.id) != Some(&fingerprint(&heard.parts).1));
        let prints = reply.artifacts().iter().map(|heard| (heard.id.clone(), fingerprint(&heard.parts).1));
        self.shown.extend(prints);
        Said { state: reply.state, text, failed: reply.has_failed() }
    }
}
