//! Conversations for stateless A2A (Agent2Agent) agents.
//!
//! Modules stand in the order of the flow, from bytes to sockets; a module names only modules above it. Everything up to and including
//! [`exchange`] is pure: no runtime, no clock, no random source; time and randomness come in as arguments.

pub mod json;

pub mod a2a;

pub mod sse;

pub mod conversation;

pub mod push;

pub mod task;

pub mod context;

pub mod turn;

pub mod exchange;

pub mod store;

pub mod middleware;

#[cfg(feature = "proxy")]
pub mod config;

#[cfg(feature = "proxy")]
pub mod proxy;

#[cfg(feature = "proxy")]
pub mod cli;
