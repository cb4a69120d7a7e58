//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

#[cfg(feature = "proxy")]
mod binary;
mod conversations;
mod support;
