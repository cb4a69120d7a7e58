//! `serve`: the proxy.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::Uri;
use tracing_subscriber::EnvFilter;

use super::check;
use crate::config::{ADDRESS, Config, Log, LogFormat, Severity};
use crate::proxy::{DrainOutcome, Gateway, drain};

/// What `serve` is given.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The configuration; without one, --upstream names the agent
    #[arg(long, value_name = "FILE", conflicts_with = "upstream")]
    pub config: Option<PathBuf>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = ADDRESS, conflicts_with = "config")]
    pub listen: SocketAddr,
    /// The agent: its base URL, or the URL of its card
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    pub upstream: Option<Uri>,
}

/// Serves until SIGTERM or SIGINT. Exit codes: 0 after a stop that let every request finish, 1 where some were cut or the proxy could not
/// start.
pub async fn serve(args: ServeArgs) -> ExitCode {
    let Some(config) = configured(&args) else { return ExitCode::FAILURE };
    log_to_stderr(&config.log);
    match run(config).await {
        Ok(DrainOutcome::Finished) => ExitCode::SUCCESS,
        Ok(DrainOutcome::Cut(connections)) => {
            let _ = writeln!(
                io::stderr(),
                "stopped; {connections} connections were cut, since they ran longer than listener.drain"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            super::complain(&*error);
            ExitCode::FAILURE
        }
    }
}

fn configured(args: &ServeArgs) -> Option<Config> {
    if let Some(path) = &args.config {
        return check::load(path, &mut io::stderr().lock()).ok().flatten();
    }
    let config = Config::quick(args.listen, args.upstream.clone()?);
    let findings = config.findings();
    if !findings.is_empty() {
        let _ = writeln!(io::stderr(), "{findings}");
    }
    (findings.count(Severity::Error) == 0).then_some(config)
}

async fn run(config: Config) -> Result<DrainOutcome, Box<dyn std::error::Error>> {
    let (shutdown, at_once) = drain::signals()?;
    let gateway = Gateway::assemble(config).await?;
    let _ = write!(io::stderr(), "a2a-multiturn {}\n{}", env!("CARGO_PKG_VERSION"), gateway.report());
    Ok(gateway.serve(shutdown, at_once).await)
}

/// Serves in this process, on loopback, in front of the agent at `agent`, until the process ends. `port` 0 is any that is free.
///
/// # Errors
/// A port that is taken, or an agent that cannot be called.
pub async fn beside(agent: SocketAddr, port: u16) -> io::Result<SocketAddr> {
    let upstream = format!("http://{agent}").parse().map_err(io::Error::other)?;
    let gateway = Gateway::assemble(Config::quick(SocketAddr::new(ADDRESS.ip(), port), upstream)).await;
    let gateway = gateway.map_err(io::Error::other)?;
    let address = gateway.local_addr();
    tokio::spawn(gateway.serve(std::future::pending(), std::future::pending()));
    Ok(address)
}

/// Text on a terminal, JSON elsewhere, unless the configuration says otherwise.
pub fn log_to_stderr(log: &Log) {
    let bodies = if log.bodies { "info" } else { "off" };
    let filter = format!("{},a2a_multiturn::bodies={bodies}", log.filter);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info,a2a_multiturn::bodies=off"));
    let terminal = io::stderr().is_terminal();
    let json = log.format == LogFormat::Json || (log.format == LogFormat::Auto && !terminal);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(terminal);
    // A second subscriber, as in the demo, changes nothing.
    let _ = if json { lines.json().try_init() } else { lines.with_target(false).try_init() };
}
