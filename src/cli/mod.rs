//! The command line: one file a subcommand.

pub mod check;
pub mod client;
pub mod demo;
