//! Push notifications: what a client asks for, where the proxy may be made to call, and how the agent tells the proxy.

mod callback;
mod config;
mod notification;
mod webhook;

pub use callback::Callback;
pub use config::{PushChange, PushConfig};
pub use notification::Notification;
pub use webhook::{Allowed, Forbidden, Webhooks};
