//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

mod conversations;
mod streams;
mod support;
