//! `serve`: the proxy.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use http::Uri;
use tracing_subscriber::EnvFilter;

use super::check;
use crate::config::{ADDRESS, Config, Loaded, Log, LogFormat, Severity, StoreUrl};
use crate::proxy::{DrainOutcome, Gateway, chain, drain};

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
    /// Where conversations are kept: memory, disk:PATH or redis://HOST:PORT; by default in a folder for state
    #[arg(long, value_name = "STORE")]
    pub store: Option<StoreUrl>,
}

/// Serves until SIGTERM or SIGINT. Exit codes: 0 after a stop that let every request finish, 1 where some were cut or the proxy could not
/// start.
pub async fn serve(args: ServeArgs) -> ExitCode {
    let Some(Loaded { mut config, warnings }) = configured(&args) else { return ExitCode::FAILURE };
    config.store.url = args.store.or(config.store.url);
    let told = log_to_stderr(&config.log);
    warnings.iter().for_each(|warning| told.line(Severity::Warning, warning));
    match run(config, told).await {
        Ok(DrainOutcome::Finished) => ExitCode::SUCCESS,
        Ok(outcome) => {
            told.line(Severity::Error, &format!("stopped before all was done: {outcome}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            told.line(Severity::Error, &format!("error: {}", chain(&*error)));
            ExitCode::FAILURE
        }
    }
}

/// The configuration; where it has errors they are told in words, since how to log stands in it.
fn configured(args: &ServeArgs) -> Option<Loaded> {
    if let Some(path) = &args.config {
        return check::load(path, &mut io::stderr().lock()).ok().flatten();
    }
    let config = Config::quick(args.listen, args.upstream.clone()?);
    let warnings = config.findings();
    if warnings.count(Severity::Error) == 0 {
        return Some(Loaded { config, warnings });
    }
    let _ = writeln!(io::stderr(), "{warnings}\n{IN_A_FILE}");
    None
}

const IN_A_FILE: &str = "--listen is listener.address and --upstream is upstream.url; every other setting stands in a file: serve --config FILE";

async fn run(config: Config, told: Told) -> Result<DrainOutcome, Box<dyn std::error::Error>> {
    let (shutdown, at_once) = drain::signals()?;
    let gateway = Gateway::assemble(config).await?;
    told.report(concat!("a2a-multiturn ", env!("CARGO_PKG_VERSION")));
    told.report(gateway.report());
    Ok(gateway.serve(shutdown, at_once).await)
}

/// How what is no event of the log is told: as text where that is, too, else as the log's events, so that every line is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Told {
    /// Lines that are told whatever the log's filter is.
    fn report(self, text: &str) {
        match self {
            Self::Text => drop(writeln!(io::stderr(), "{}", text.trim_end())),
            Self::Json => text.lines().for_each(|line| tracing::info!(target: REPORT, "{}", line.trim_start())),
        }
    }

    fn line(self, severity: Severity, text: &impl std::fmt::Display) {
        match (self, severity) {
            (Self::Text, _) => drop(writeln!(io::stderr(), "{text}")),
            (Self::Json, Severity::Warning) => tracing::warn!(target: REPORT, "{text}"),
            (Self::Json, Severity::Error) => tracing::error!(target: REPORT, "{text}"),
        }
    }
}

/// The log's target for what is told at the start and at the end.
const REPORT: &str = "a2a_multiturn::report";

/// Serves in this process, on loopback, in front of the agent at `agent`, until the process ends. `port` 0 is any that is free.
///
/// # Errors
/// A port that is taken, or an agent that cannot be called.
pub async fn beside(agent: SocketAddr, port: u16) -> io::Result<SocketAddr> {
    let upstream = format!("http://{agent}").parse().map_err(io::Error::other)?;
    let mut config = Config::quick(SocketAddr::new(ADDRESS.ip(), port), upstream);
    config.store.url = Some(StoreUrl::Memory);
    let gateway = Gateway::assemble(config).await;
    let gateway = gateway.map_err(io::Error::other)?;
    let address = gateway.local_addr();
    tokio::spawn(gateway.serve(std::future::pending(), std::future::pending()));
    Ok(address)
}

/// Text on a terminal, JSON elsewhere, unless the configuration says otherwise.
pub fn log_to_stderr(log: &Log) -> Told {
    let bodies = if log.bodies { "info" } else { "off" };
    let own = format!("a2a_multiturn::bodies={bodies},{REPORT}=info");
    // The database tells at length what it opens; who wants that asks for it.
    let filter = EnvFilter::try_new(format!("fjall=warn,lsm_tree=warn,{},{own}", log.filter));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(format!("info,{own}")));
    let terminal = io::stderr().is_terminal();
    let json = log.format == LogFormat::Json || (log.format == LogFormat::Auto && !terminal);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(terminal);
    // A second subscriber, as in the demo, changes nothing.
    let _ = if json { lines.json().try_init() } else { lines.with_target(false).try_init() };
    if json { Told::Json } else { Told::Text }
}
