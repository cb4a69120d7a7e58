//! Push notifications: what a client asks for, and where the proxy may be made to call.

mod config;

pub use config::{PushChange, PushConfig};
