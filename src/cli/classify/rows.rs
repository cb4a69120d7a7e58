//! The replies to judge, a line of JSON for each. What cannot be read is named by its line, all of it at once.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::conversation::question::Expected;

/// What a reader said of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The agent cannot go on without an answer.
    #[serde(alias = "input-required")]
    InputRequired,
    /// It is done, an offer of more help or not.
    Completed,
    /// Readers differ: not scored.
    Ambiguous,
}

/// A reply and what is known of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Row {
    /// What the errors are shown with; the line's number where it has none.
    #[serde(default)]
    pub id: String,
    /// The reply's text.
    #[serde(default)]
    pub text: String,
    /// The JSON text of the data part that is the reply.
    pub data: Option<Box<RawValue>>,
    /// What is right; `None` where nobody said.
    pub label: Option<Label>,
    /// For what it waits, where it does.
    pub expected_input: Option<Expected>,
    /// The user's message.
    #[serde(default)]
    pub user: String,
    /// Where it is from.
    pub source: Option<String>,
    /// Its language.
    pub lang: Option<String>,
    /// What kind of reply it is.
    pub kind: Option<String>,
    /// What a corpus says that the agent does in it.
    pub acts: Option<Vec<String>>,
}

impl Row {
    /// Whether it is done and offers more help.
    pub fn is_closer(&self) -> bool {
        let more = |act: &String| act.to_lowercase().replace(['_', '-'], "").ends_with("reqmore");
        let closes = self.kind.as_deref() == Some("closer") || self.acts.iter().flatten().any(more);
        self.label == Some(Label::Completed) && closes
    }
}

/// A line that cannot be read.
#[derive(Debug, Error)]
#[error("line {line}: {what}")]
pub struct Fault {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Reads every line; blank ones are none.
///
/// # Errors
/// Where the input fails. What is wrong with single lines comes beside the rows.
pub fn rows(input: impl BufRead) -> io::Result<(Vec<Row>, Vec<Fault>)> {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in input.split(b'\n').enumerate() {
        let line = line?;
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match row(line, at + 1) {
            Ok(row) => rows.push(row),
            Err(what) => faults.push(Fault { line: at + 1, what }),
        }
    }
    Ok((rows, faults))
}

fn row(line: &[u8], number: usize) -> Result<Row, String> {
    let mut row: Row = serde_json::from_slice(line).map_err(|error| why(&error))?;
    if row.text.is_empty() && row.data.is_none() {
        return Err("neither `text` nor `data`".to_owned());
    }
    if row.expected_input.is_some() && row.label == Some(Label::Completed) {
        return Err("`expected_input` beside the label `completed`".to_owned());
    }
    if row.id.is_empty() {
        row.id = format!("line {number}");
    }
    Ok(row)
}

/// The library's message without its line, which is always the first.
fn why(error: &serde_json::Error) -> String {
    let told = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    match told.strip_suffix(&at) {
        Some(what) => format!("{what} (column {})", error.column()),
        None => told,
    }
}
