//! Streams through the layer: what the client gets of them, and what becomes of the turn.

mod cuts;
mod events;
mod joining;
mod leaving;
mod real;
mod recordings;
mod snapshots;
mod stage;
mod stalled;
mod stores;
mod subscribing;
mod time;
mod watch;
