//! Conversations for stateless A2A (Agent2Agent) agents.
//!
//! Modules stand in the order of the flow, from bytes to sockets; a module names only modules above it. Everything up to and including
//! `exchange` is pure: no runtime, no clock, no random source; time and randomness come in as arguments.

pub mod json;

pub mod a2a;

pub mod conversation;
