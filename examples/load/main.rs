//! What `tests/bench` measures with: an agent that costs next to nothing, and a client that sends a fixed number of requests.
//!
//! ```text
//! load agent --port 9100
//! load client --url http://127.0.0.1:9000/ --kind send --connections 32 --requests 10000 --size 1024
//! ```
//!
//! Both speak plain HTTP/1.1 on one thread, over sockets of their own: a library would cost more than the proxies that are compared. The client
//! prints one JSON object: requests and errors, seconds, and latencies in microseconds.

mod agent;
mod client;
mod figures;
mod http;
mod requests;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::requests::Kind;

/// An agent and a client for measuring proxies between them.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Answer every send with a completed task, until the process ends
    Agent {
        /// Where to listen on 127.0.0.1
        #[arg(long)]
        port: u16,
    },
    /// Send requests, one after the other on each connection, and tell how that went
    Client(ClientArgs),
}

/// What the client sends, and how much of it.
#[derive(Args, Clone)]
pub struct ClientArgs {
    /// Where to
    #[arg(long)]
    pub address: SocketAddr,
    /// The path
    #[arg(long, default_value = "/")]
    pub path: String,
    /// What is asked for
    #[arg(long)]
    pub kind: Kind,
    /// Connections, each with a conversation of its own
    #[arg(long, default_value_t = 32)]
    pub connections: usize,
    /// Requests on all connections together
    #[arg(long)]
    pub requests: usize,
    /// Bytes of the message's text
    #[arg(long, default_value_t = 1024)]
    pub size: usize,
    /// Bytes of the reply's text
    #[arg(long, default_value_t = 500)]
    pub reply: usize,
    /// Events of a stream
    #[arg(long, default_value_t = 200)]
    pub events: usize,
    /// Milliseconds between two events of a stream
    #[arg(long, default_value_t = 0)]
    pub gap: u64,
    /// Every message begins a conversation, rather than going on with its connection's
    #[arg(long)]
    pub fresh: bool,
    /// Told apart from other runs by this: conversations of a run go on where an earlier one with the same word ended
    #[arg(long, default_value = "run")]
    pub run: String,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let outcome = match Cli::parse().verb {
        Verb::Agent { port } => runtime.block_on(agent::serve(port)),
        Verb::Client(args) => runtime.block_on(client::run(args)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
