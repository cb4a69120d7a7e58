//! `classify`: would this reply be taken for a question? Of one reply, or of a file of them with figures. Asks nobody, and needs no
//! configuration.

mod evaluate;
mod figures;
mod report;
mod rows;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use thiserror::Error;

pub use self::evaluate::{Evaluation, Judged, evaluate};
pub use self::figures::{Counts, Figures};
pub use self::rows::{Fault, Label, Row, rows};
use crate::conversation::question::{self, Decision, Level, Reply, Settings};

/// What `classify` is given.
#[derive(Args, Clone, Debug)]
#[command(after_help = FORMAT)]
pub struct ClassifyArgs {
    /// The reply as text; - or nothing for standard input
    file: Option<PathBuf>,
    /// The user's message that the reply answers: questions that it orders are content
    #[arg(long, value_name = "TEXT", conflicts_with = "evaluate")]
    user: Option<String>,
    /// How ready to take a reply for a question
    #[arg(long, value_enum, default_value_t = AtLevel::Balanced)]
    level: AtLevel,
    /// A text that means "input is required" at the very start or end of a reply; instead of the default, more than once if need be
    #[arg(long, value_name = "TEXT")]
    marker: Vec<String>,
    /// Judge many replies, a line of JSON for each, and tell how well; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    evaluate: Option<PathBuf>,
    /// Also show this many of the replies that are judged wrong: first the decisions, then what a reply is said to wait for
    #[arg(long, value_name = "N", default_value_t = 0, requires = "evaluate")]
    errors: usize,
    /// Also show this many of the replies without a label that are taken for questions
    #[arg(long, value_name = "N", default_value_t = 0, requires = "evaluate")]
    asking: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const FORMAT: &str = r#"A line of the file to evaluate is a JSON object; other members are left alone:
  text            the reply (or "data": the JSON that is the reply)
  label           input_required, completed, or ambiguous, which is not scored; without a label a reply is only judged
  expected_input  free_text, approval, credential, structured_artifact: scored where the label is input_required
  user            the user's message
  source, lang, kind  any names: figures are given for each. The kind closer, or an act whose name ends in reqmore,
                  makes a completed reply an offer of more help
  acts            a list of names
  id              shown with the errors
Exit code 0: judged; 2: something cannot be read, and every line that cannot is named."#;

/// As [`Level`], by the name that it has in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AtLevel {
    Off,
    Explicit,
    Strict,
    Balanced,
}

impl From<AtLevel> for Level {
    fn from(level: AtLevel) -> Self {
        match level {
            AtLevel::Off => Self::Off,
            AtLevel::Explicit => Self::Explicit,
            AtLevel::Strict => Self::Strict,
            AtLevel::Balanced => Self::Balanced,
        }
    }
}

/// Why there is nothing to tell.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("{}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// Lines of it cannot.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Lines(Vec<Fault>),
    /// Nothing is in it.
    #[error("no reply in {}", .0.display())]
    Nothing(PathBuf),
    /// Nothing can be told.
    #[error("cannot write")]
    Output(#[from] io::Error),
}

/// Runs `classify`.
pub fn run(args: &ClassifyArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let done = match &args.evaluate {
        Some(file) => many(args, file, &mut out),
        None => one(args, &mut out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::from(2)
        }
    }
}

impl ClassifyArgs {
    fn settings(&self) -> Settings {
        let default = Settings::default();
        let markers = if self.marker.is_empty() { default.markers } else { self.marker.clone() };
        Settings { level: self.level.into(), markers, ..default }
    }
}

fn one(args: &ClassifyArgs, out: &mut impl Write) -> Result<(), Unreadable> {
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    let mut text = String::new();
    open(path)?.read_to_string(&mut text).map_err(|error| Unreadable::File(path.to_owned(), error))?;
    let reply = Reply { text: &text, ..Reply::default() };
    let decision = question::decide(&reply, args.user.as_deref().unwrap_or_default(), &args.settings(), 0);
    if args.json {
        writeln!(out, "{:#}", described(&text, &decision))?;
    } else {
        writeln!(out, "{}\n\n{}", summary(&decision), marked(&text, &decision).trim_end())?;
    }
    Ok(())
}

fn many(args: &ClassifyArgs, path: &Path, out: &mut impl Write) -> Result<(), Unreadable> {
    let input = BufReader::new(open(path)?);
    let (rows, faults) = rows(input).map_err(|error| Unreadable::File(path.to_owned(), error))?;
    if !faults.is_empty() {
        return Err(Unreadable::Lines(faults));
    }
    if rows.is_empty() {
        return Err(Unreadable::Nothing(path.to_owned()));
    }
    let evaluation = evaluate(&rows, &args.settings());
    let shown = report::Shown { errors: args.errors, asking: args.asking };
    if args.json {
        writeln!(out, "{:#}", report::json(&evaluation, shown))?;
    } else {
        report::text(&evaluation, shown, out)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Box<dyn Read>, Unreadable> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| Unreadable::File(path.to_owned(), error))?;
    Ok(Box::new(file))
}

/// One line: what becomes of the state, and why.
fn summary(decision: &Decision) -> String {
    let Decision { waiting, expected, reason, confidence, .. } = decision;
    let expected = if *waiting { format!("  expected_input {}", expected.as_str()) } else { String::new() };
    format!("{}  reason {}{expected}  confidence {confidence:.2}", state(*waiting), reason.as_str())
}

fn state(waiting: bool) -> &'static str {
    if waiting { "input-required" } else { "completed" }
}

/// The text with the words that decided between `>>>` and `<<<`.
fn marked(text: &str, decision: &Decision) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    for words in &decision.words {
        out.extend([&text[at..words.start], ">>>", &text[words.clone()], "<<<"]);
        at = words.end;
    }
    out + &text[at..]
}

fn described(text: &str, decision: &Decision) -> serde_json::Value {
    let range = |range: &Range<usize>| json!({"start": range.start, "end": range.end, "text": text.get(range.clone())});
    json!({
        "decision": state(decision.waiting),
        "reason": decision.reason.as_str(),
        "expected_input": decision.waiting.then(|| decision.expected.as_str()),
        "confidence": (f64::from(decision.confidence) * 100.0).round() / 100.0,
        "words": decision.words.iter().map(range).collect::<Vec<_>>(),
        "asked": decision.asked.as_ref().map(range),
        "question": decision.shown,
    })
}
