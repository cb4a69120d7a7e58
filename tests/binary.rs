//! The binary as its users have it: a process, its sockets, and what it prints. Agents are scripted, on ports of 127.0.0.1 that the kernel
//! picks; where a test waits, it waits for a request, a line or a latch.

mod agent;
mod process;
mod wire;

mod card;
mod command;
mod context;
mod end;
mod fetched;
mod kill;
mod left;
mod limits;
mod logs;
mod push;
#[cfg(feature = "redis")]
mod redis;
mod sockets;
mod start;
mod talk;
