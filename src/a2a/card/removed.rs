//! Interfaces that the proxy cannot offer, and why: words for whoever has to set it right.

use std::fmt;

use super::Binding;
use super::address::Fault;
use super::interface::Interface;

/// Further ones are counted: a card may list thousands.
const LINES: usize = 8;

/// Why an interface cannot be offered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Removed {
    /// Another binding: a client that followed it would get past the proxy.
    #[error("{0} is not served by the proxy")]
    Binding(Binding),
    /// A version with other words.
    #[error("its protocol version is not served by the proxy")]
    Version,
    /// No URL that a client could be sent to.
    #[error("{0}")]
    Url(#[from] Fault),
    /// Somebody else's, for all the proxy knows.
    #[error("it is of another origin than the agent's main JSON-RPC interface")]
    Foreign,
    /// The agent's, but not under what the configuration names.
    #[error(
        "its path is not under {0}, the path of the configured upstream; if something in front of the agent puts {0} there, say so with \
         [upstream] path = \"{0}/\", else configure the upstream without it"
    )]
    Outside(String),
}

/// What was removed and why; of many the first few.
#[derive(Default)]
pub(super) struct Removals {
    lines: Vec<String>,
    more: usize,
}

impl Removals {
    /// One more.
    pub fn add(&mut self, interface: &Interface<'_, '_>, reason: &Removed) {
        if self.lines.len() < LINES {
            self.lines.push(format!("interface \"{}\" ({}): {reason}", interface.said(), interface.binding));
        } else {
            self.more += 1;
        }
    }

    /// A warning for each.
    pub fn lines(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} further interfaces were removed", self.more));
        self.lines.into_iter().map(|line| format!("removed {line}")).chain(more)
    }
}

impl fmt::Display for Removals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lines.as_slice(), self.more) {
            ([], _) => f.write_str("it lists none"),
            (lines, 0) => f.write_str(&lines.join("; ")),
            (lines, more) => write!(f, "{}; and {more} more", lines.join("; ")),
        }
    }
}
