//! One request and its answer, in its binding: what is read from the client, what is sent to the agent, what is refused.

mod binding;
mod open;
mod refusal;
mod send;

pub use binding::Foreign;
pub use open::{Opened, Plan, join, open, redacted};
pub use refusal::{BUSY_CODE, Refusal, busy_task, error_event, sse_event};
pub use send::{Asked, Send, extension_is_active};
