//! Configuration: what was typed, what is wrong with it, and what it means.

mod address;
mod check;
mod effective;
mod finding;
mod keys;
mod load;
mod raw;
mod report;
mod store;
mod suggest;
mod value;

pub use effective::{
    ADDRESS, Config, Cors, Delivery, Identity, Listener, Log, LogFormat, Proxy, Push, Route, Upstream,
};
pub use finding::{Finding, Findings, Position, Severity};
pub use load::Loaded;
pub use store::{Durability, OnStoreError, Store, StoreUrl};

#[cfg(test)]
mod tests;
