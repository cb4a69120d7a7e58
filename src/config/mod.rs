//! Configuration: what was typed, what is wrong with it, and what it means.

mod effective;

pub use effective::{Config, Cors, Identity, Listener, Log, LogFormat, Route, Store, Upstream};
