//! The `a2a-multiturn` command.

use std::process::ExitCode;

use a2a_multiturn::cli::{self, Command};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(Command::read())
}
