//! Where pure code and async meet: the Tower layer.
//!
//! [`ConversationLayer`] wraps any service that speaks A2A over HTTP. A request that is none of our business is handed on as it came. A send
//! runs on a task of its own, so that the turn is recorded whatever becomes of the client; what outlives a request runs on the layer's task
//! tracker, which [`ConversationLayer::drained`] waits for.

mod acquire;
mod agent;
mod body;
mod core;
mod fetch;
mod guard;
mod join;
mod layer;
mod left;
mod list;
mod listeners;
mod operate;
mod pumped;
mod push;
mod queue;
mod reading;
mod recorded;
mod reply;
mod respond;
mod running;
mod send;
mod settle;
mod stream;
mod subscribe;
mod untouched;
mod watch;

pub use body::{BoxError, ReplyBody, RequestBody};
#[cfg(feature = "proxy")]
pub(crate) use core::millis;
pub use core::{CardRewrite, Clock, SystemClock};
pub use layer::{Conversation, ConversationLayer};
pub use left::ClientLeft;
pub use push::{AgentPushes, Relay};
pub use reading::decode;

/// Says that the message was put into its conversation by a proxy in front: neither inject nor rewrite a second time. Set on every forwarded
/// send.
pub const HOP_HEADER: http::HeaderName = http::HeaderName::from_static("a2a-multiturn-hop");

/// What was done with a request, for whoever debugs.
pub const DEBUG_HEADER: http::HeaderName = http::HeaderName::from_static("a2a-multiturn");
