//! What the sample agent has to show: its tasks and its card.

use std::net::SocketAddr;

use crate::a2a::{self, Dialect, Part, Role, State, message, write_parts};
use crate::json::quote;

/// A task; all of them are done.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub id: String,
    pub context: String,
    pub asked: (String, Vec<Part>),
    pub reply: String,
    pub at: String,
}

impl Done {
    fn ids(&self) -> (&str, &str) {
        (&self.id, &self.context)
    }

    fn history(&self, dialect: Dialect) -> String {
        let (id, parts) = &self.asked;
        format!("\"history\":[{}]", message(dialect, Role::User, id, parts, self.ids(), None))
    }

    fn artifact(&self, dialect: Dialect) -> String {
        let parts = write_parts(&[Part::Text(self.reply.clone())], dialect);
        format!("{{\"artifactId\":{},\"name\":\"response\",\"parts\":{parts}}}", quote(&format!("{}-1", self.id)))
    }

    pub fn task(&self, dialect: Dialect) -> String {
        let members = [format!("\"artifacts\":[{}]", self.artifact(dialect)), self.history(dialect)];
        a2a::task(dialect, self.ids(), State::Completed, None, &self.at, &members)
    }

    /// The task, its artifact, its end.
    pub fn events(&self, dialect: Dialect) -> [String; 3] {
        let task = a2a::task(dialect, self.ids(), State::Working, None, &self.at, &[self.history(dialect)]);
        let status = a2a::status_update(dialect, self.ids(), State::Completed, None, &self.at, None);
        let artifact = format!(
            "\"taskId\":{},\"contextId\":{},\"artifact\":{}",
            quote(&self.id),
            quote(&self.context),
            self.artifact(dialect)
        );
        match dialect {
            Dialect::V03 => [
                task,
                format!("{{\"kind\":\"artifact-update\",{artifact},\"append\":false,\"lastChunk\":true}}"),
                status,
            ],
            Dialect::V10 | Dialect::Proto03 => [
                format!("{{\"task\":{task}}}"),
                format!("{{\"artifactUpdate\":{{{artifact},\"lastChunk\":true}}}}"),
                format!("{{\"statusUpdate\":{status}}}"),
            ],
        }
    }
}

/// The card of the agent that listens at `addr`.
pub(super) fn card(addr: SocketAddr) -> String {
    format!(
        r#"{{"name":"Demo agent","description":"A sample agent that knows only the message it is given.","version":"1.0.0",
"protocolVersion":"0.3.0","url":"http://{addr}/","preferredTransport":"JSONRPC",
"supportedInterfaces":[{{"url":"http://{addr}/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}}],
"capabilities":{{"streaming":true,"pushNotifications":false}},
"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
"skills":[{{"id":"rooms","name":"Rooms","description":"Books a room.","tags":["demo"],"examples":["Book a room"]}}]}}"#
    )
}
