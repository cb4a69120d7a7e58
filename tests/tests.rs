//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

mod alone;
#[cfg(feature = "proxy")]
mod binary;
mod broken;
mod chains;
#[cfg(feature = "proxy")]
mod classify;
mod conversations;
#[cfg(feature = "proxy")]
mod digest;
mod digests;
mod fetched;
mod guard;
mod hostile;
#[cfg(feature = "proxy")]
mod house;
mod in_process;
mod left_out;
mod observe;
mod operations;
mod parallel;
mod push;
mod question;
mod queue;
mod record;
mod replies;
mod rest;
mod rewrites;
mod settings;
mod slow;
mod streams;
mod support;
mod waiting;
