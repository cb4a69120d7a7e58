//! The command line: one file a subcommand.

pub mod chat;
pub mod check;
pub mod client;
pub mod demo;
