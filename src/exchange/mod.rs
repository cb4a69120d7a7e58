//! One request and its answer, in its binding: what is read from the client, what is sent to the agent, what is refused.

mod binding;
mod fetch;
mod ids;
mod open;
mod push_config;
mod refusal;
mod send;

pub use binding::Foreign;
pub use fetch::{Grant, Pointing, bearer, is_grant, transcript, transcript_of};
pub use ids::derived_id;
pub use open::{Opened, Plan, join, open, redacted};
pub use push_config::{PushCall, Rules, push_list, set_params};
pub use refusal::{BUSY_CODE, Refusal, busy_task, error_event, sse_event};
pub use send::{Asked, Send, extension_is_active};
