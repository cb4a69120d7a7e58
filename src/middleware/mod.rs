//! Where pure code and async meet: the Tower layer.

mod body;

pub use body::{BoxError, ReplyBody, RequestBody};
