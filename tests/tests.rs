//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

mod alone;
mod chains;
mod conversations;
mod digests;
mod guard;
mod hostile;
mod operations;
mod record;
mod replies;
mod rewrites;
mod slow;
mod support;
mod waiting;
