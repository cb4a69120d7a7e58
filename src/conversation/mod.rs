//! Pure decisions about a conversation: who is speaking, what was said, what is shown to the agent, and whether the agent is asking.

pub mod principal;
pub mod transcript;

pub mod digest;
pub mod question;

pub mod policy;
pub mod record;
pub mod reply;
