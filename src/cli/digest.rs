//! `digest`: recomputes what a client was told of a conversation from its own record of it. Asks nobody, and needs no configuration.

mod export;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use self::export::{Recorded, Unreadable, turns};
use crate::conversation::digest;
use crate::json::quote;

/// What `digest` is given.
#[derive(Args, Clone, Debug)]
pub struct DigestArgs {
    #[command(subcommand)]
    verb: DigestVerb,
}

#[derive(Subcommand, Clone, Debug)]
enum DigestVerb {
    /// Check the digests that a record gives against its content; exit code 0: all match, 1: some do not, 2: it cannot be read
    #[command(after_help = FORMAT)]
    Verify {
        /// The record, a line of JSON for each turn; - for standard input
        file: PathBuf,
    },
    /// Print the digests of every turn; where history_turns is missing, every earlier turn is taken to have been shown in full
    #[command(after_help = FORMAT)]
    Compute {
        /// The record, a line of JSON for each turn; - for standard input
        file: PathBuf,
    },
}

const FORMAT: &str = r#"A turn is one line, the oldest first; digests, history_turns and what else is not known may be missing:
  {"turn":"2","user":{"parts":[…]},"agent":{"parts":[…]},"artifacts":[{"taskId":…,"artifactId":…}],
   "turn_digest":"sha256:…","history_turns":["sha256:…",…],"accepted_history_digest":"sha256:…"}
Parts are A2A's, of 0.3 or 1.0. The agent's are its reply: the text in one part, then the others."#;

/// How a record compares with what it says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Turns in it.
    pub turns: usize,
    /// Digests, and entries of `history_turns`, that are given.
    pub given: usize,
    /// Those of them that are not what the content comes to.
    pub wrong: usize,
}

impl Verdict {
    /// Whether all that is given matches; where nothing is given nothing was checked, and that is no match.
    pub fn is_match(&self) -> bool {
        self.wrong == 0 && self.given > 0
    }
}

/// Runs `digest`.
pub fn run(args: &DigestArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let done = match &args.verb {
        DigestVerb::Verify { file } => open(file).and_then(|file| verify(file, &mut out)).map(|told| told.is_match()),
        DigestVerb::Compute { file } => open(file).and_then(|file| compute(file, &mut out)).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            super::complain(&error);
            ExitCode::from(2)
        }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Unreadable> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    Ok(Box::new(BufReader::new(File::open(path).map_err(named)?)))
}

/// Checks a record, and tells of each turn what differs.
///
/// # Errors
/// Where the record cannot be read; what stands before that place has been told.
pub fn verify(input: impl BufRead, out: &mut impl Write) -> Result<Verdict, Unreadable> {
    let mut verdict = Verdict::default();
    let mut earlier = HashSet::new();
    for turn in turns(input) {
        let turn = turn?;
        let (given, wrong) = differences(&turn, &earlier);
        match (given, &*wrong) {
            (0, _) => writeln!(out, "turn {}: no digest is given", turn.name)?,
            (_, []) => writeln!(out, "turn {}: ok", turn.name)?,
            (_, wrong) => wrong.iter().try_for_each(|what| writeln!(out, "turn {}: {what}", turn.name))?,
        }
        verdict.turns += 1;
        verdict.given += given;
        verdict.wrong += wrong.len();
        earlier.extend(turn.turn.map(|turn| turn.to_string()));
    }
    let Verdict { turns, given, wrong } = verdict;
    writeln!(out, "{turns} turns: of {given} digests {} match, {wrong} differ", given - wrong)?;
    Ok(verdict)
}

/// How many digests a turn gives, and what is wrong with those that are.
fn differences(turn: &Recorded, earlier: &HashSet<String>) -> (usize, Vec<String>) {
    let history = turn.said_history.as_deref();
    let entries = history.unwrap_or_default().iter().enumerate();
    let mut wrong: Vec<_> = entries
        .filter_map(|(at, entry)| {
            let why = unknown(entry, earlier)?;
            Some(format!("history_turns[{at}]: {why}: {entry}"))
        })
        .collect();
    let accepted = history.map(|history| digest::accepted(history, turn.message).to_string());
    let said = [
        ("turn_digest", &turn.said_turn, turn.turn.map(|turn| turn.to_string()), "agent"),
        ("accepted_history_digest", &turn.said_accepted, accepted, "history_turns"),
    ];
    let given = history.map_or(0, <[_]>::len) + said.iter().filter(|(_, said, ..)| said.is_some()).count();
    wrong.extend(said.into_iter().filter_map(|(name, said, found, needs)| match (said, found) {
        (Some(said), Some(found)) if *said != found => Some(format!("{name}: expected {said}, found {found}")),
        (Some(_), None) => Some(format!("{name}: cannot be checked without {needs}")),
        _ => None,
    }));
    (given, wrong)
}

/// What is wrong with an entry of `history_turns`.
fn unknown(entry: &str, earlier: &HashSet<String>) -> Option<&'static str> {
    let (turn, cut) = entry.split_once(';').map_or((entry, None), |(turn, cut)| (turn, Some(cut)));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut = |cut: &str| {
        let ends = cut.strip_prefix("head=").and_then(|rest| rest.split_once(";tail="));
        ends.is_some_and(|(head, tail)| number(head) && number(tail))
    };
    match cut {
        Some(cut) if !is_cut(cut) => Some("not of the form sha256:…;head=N;tail=N"),
        _ if !earlier.contains(turn) => Some("no earlier turn of this record comes to that"),
        _ => None,
    }
}

/// Prints the digests of every turn, a line of JSON for each.
///
/// # Errors
/// Where the record cannot be read; what stands before that place has been told.
pub fn compute(input: impl BufRead, out: &mut impl Write) -> Result<(), Unreadable> {
    let mut earlier: Vec<String> = Vec::new();
    for turn in turns(input) {
        let turn = turn?;
        let history = turn.said_history.as_deref().unwrap_or(&earlier);
        let accepted = digest::accepted(history, turn.message);
        let history: Vec<_> = history.iter().map(|entry| quote(entry)).collect();
        let own = turn.turn.map(|turn| format!("\"turn_digest\":\"{turn}\",")).unwrap_or_default();
        writeln!(
            out,
            "{{\"turn\":{},{own}\"history_turns\":[{}],\"accepted_history_digest\":\"{accepted}\"}}",
            quote(&turn.name),
            history.join(",")
        )?;
        earlier.extend(turn.turn.map(|turn| turn.to_string()));
    }
    Ok(())
}
