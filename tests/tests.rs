//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

mod chains;
mod conversations;
mod digests;
mod operations;
mod record;
mod replies;
mod rewrites;
mod support;
