//! All tests that need more than one module: one binary, a module per topic.

#![allow(missing_docs)]

mod conversations;
#[cfg(feature = "proxy")]
mod digest;
#[cfg(feature = "proxy")]
mod house;
mod in_process;
mod support;
