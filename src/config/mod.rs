//! Configuration: what was typed, what is wrong with it, and what it means.

mod address;
mod check;
mod effective;
mod finding;
mod keys;
mod load;
mod raw;
mod report;
mod suggest;
mod value;

pub use effective::{
    ADDRESS, Config, Cors, Delivery, Identity, Listener, Log, LogFormat, Proxy, Push, Route, Store, Upstream,
};
pub use finding::{Finding, Findings, Position, Severity};
pub use load::Loaded;

#[cfg(test)]
mod tests;
