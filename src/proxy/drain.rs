//! The end of the process: what asks for it, and how it went.

use std::fmt;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// Every running request had its answer.
    Finished,
    /// So many connections were cut, since their requests ran longer than they were given.
    Cut(usize),
    /// No connection was left, but turns whose clients had left were not finished.
    Unfinished,
}

impl fmt::Display for DrainOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("every request had its answer"),
            Self::Cut(1) => f.write_str("1 connection was cut"),
            Self::Cut(connections) => write!(f, "{connections} connections were cut"),
            Self::Unfinished => f.write_str("turns whose clients had left were cut"),
        }
    }
}

/// SIGTERM and SIGINT, caught from here on: the first signal of either ends the first future, the next one the second. Needs a runtime.
pub fn signals() -> io::Result<(impl Future<Output = ()> + Send, impl Future<Output = ()> + Send)> {
    let mut caught = Signals::catch()?;
    let (first, drain) = oneshot::channel();
    let (second, at_once) = oneshot::channel();
    tokio::spawn(async move {
        caught.next().await;
        // Nobody may be waiting any more.
        let _ = first.send(());
        caught.next().await;
        let _ = second.send(());
    });
    Ok((async { drain.await.unwrap_or_default() }, async { at_once.await.unwrap_or_default() }))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_first_signal_drains_and_the_second_ends_it() {
        let (drain, at_once) = signals().unwrap();
        tokio::pin!(drain, at_once);
        let moment = Duration::from_millis(50);
        assert!(tokio::time::timeout(moment, &mut drain).await.is_err());
        for (signal, second) in [("-TERM", false), ("-INT", true)] {
            assert!(Command::new("kill").args([signal, &std::process::id().to_string()]).status().unwrap().success());
            if second {
                at_once.as_mut().await;
            } else {
                drain.as_mut().await;
                assert!(tokio::time::timeout(moment, &mut at_once).await.is_err());
            }
        }
    }
}
