//! `demo`: a stateless agent, the proxy in front of it, and a conversation that shows what the proxy is for.

mod agent;
mod mind;
mod noun;
mod screen;
mod story;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

pub use self::agent::{Agent, start};
use self::screen::Screen;
pub use self::story::{StoryError, story};

/// Show on one screen what the proxy does for a stateless sample agent, then serve both to try it. Needs no network.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End after the conversation instead of serving on.
    #[arg(long)]
    pub once: bool,
    /// The port of the proxy on 127.0.0.1; without it a free one.
    #[arg(long)]
    pub port: Option<u16>,
}

/// Starts the sample agent, has `start_proxy` put a proxy in front of it, and holds the conversation. Fails if the proxy did not do what is
/// shown.
pub async fn demo(args: DemoArgs, start_proxy: impl AsyncFnOnce(SocketAddr) -> io::Result<SocketAddr>) -> ExitCode {
    let mut screen = Screen { out: io::stdout(), colours: colours() };
    match told(args.once, start_proxy, &mut screen).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, and there is no other place to say so.
            let _ = writeln!(io::stderr(), "demo: {}", super::chain(&error));
            ExitCode::FAILURE
        }
    }
}

async fn told(
    once: bool,
    start_proxy: impl AsyncFnOnce(SocketAddr) -> io::Result<SocketAddr>,
    screen: &mut Screen<impl Write>,
) -> Result<(), StoryError> {
    let agent = start().await.map_err(StoryError::Start)?;
    let proxy = start_proxy(agent.addr()).await.map_err(StoryError::Start)?;
    story::tell(&agent, &format!("http://{proxy}"), screen).await?;
    if once {
        return Ok(());
    }
    screen.line("Serving both until Ctrl-C.")?;
    stopped().await.map_err(StoryError::Start)
}

/// Only for a person who has not declined (no-color.org).
fn colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(unix)]
async fn stopped() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn stopped() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
