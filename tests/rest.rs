//! HTTP+JSON of both dialects, at the layer.

mod agent;
mod bypass;
mod conversation;
mod operations;
mod refusals;
mod stream;
