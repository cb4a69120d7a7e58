//! The command line: one file a subcommand.

pub mod chat;
pub mod check;
pub mod classify;
pub mod client;
#[cfg(feature = "disk")]
pub mod context;
pub mod demo;
pub mod digest;
pub mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::proxy::chain;

/// Conversations for stateless A2A agents: a proxy that stands in front of one, changes nothing in it, and gives it a memory.
#[derive(Parser, Debug)]
#[command(name = "a2a-multiturn", version, max_term_width = 100)]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Serve: stand in front of an agent, or of many
    Serve(serve::ServeArgs),
    /// Check a configuration: every finding at once, with file, line and key
    Check {
        /// The configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Also reach the agents: what they speak, and what is wrong with their cards
        #[arg(long)]
        online: bool,
    },
    /// See it work: a small stateless agent and the proxy in front of it, without network
    Demo(demo::DemoArgs),
    /// Talk to an agent, through the proxy or directly
    Chat(chat::ChatArgs),
    /// Recompute the digests of a conversation from a record of it
    Digest(digest::DigestArgs),
    /// Judge replies: is the agent waiting for the user? Of one, or of a file of them with figures
    Classify(classify::ClassifyArgs),
    /// Work on the conversations of a store that no proxy holds: list, show, export, import, delete
    #[cfg(feature = "disk")]
    Context(context::ContextArgs),
}

impl Command {
    /// Reads the command line; what is wrong with it ends the process with status 2.
    pub fn read() -> Self {
        Self::parse()
    }
}

/// Runs a command.
pub fn run(command: Command) -> ExitCode {
    // What it writes is nobody else's to read: conversations, above all.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    // The process-wide provider: only ours is compiled in.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match command.verb {
        Verb::Serve(args) => on_runtime(serve::serve(args)),
        Verb::Check { config, online: false } => check::findings(&config),
        Verb::Check { config, online: true } => on_runtime(check::online(config)),
        Verb::Demo(args) => {
            let port = args.port.unwrap_or_default();
            on_runtime(demo::demo(args, async |agent| serve::beside(agent, port).await))
        }
        Verb::Chat(args) => on_runtime(chat::chat(args)),
        Verb::Digest(args) => digest::run(&args),
        Verb::Classify(args) => classify::run(&args),
        #[cfg(feature = "disk")]
        Verb::Context(args) => on_runtime(context::run(args)),
    }
}

fn on_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Tells an error with what stands behind it.
pub fn complain(error: &(dyn Error + 'static)) {
    let _ = writeln!(io::stderr(), "error: {}", chain(error));
}
