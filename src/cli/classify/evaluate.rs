//! Judges many replies, and the simplest rules beside it.

use std::collections::BTreeMap;

use super::figures::{Counts, macro_f1};
use super::rows::{Label, Row};
use crate::conversation::question::{self, Decision, Expected, Level, Reply, Settings};

/// A reply and what was decided of it.
#[derive(Clone, Debug)]
pub struct Judged<'r> {
    /// The reply.
    pub row: &'r Row,
    /// The decision.
    pub decision: Decision,
}

impl Judged<'_> {
    /// Whether the label says otherwise.
    pub fn is_wrong(&self) -> bool {
        asks(self.row).is_some_and(|asks| asks != self.decision.waiting)
    }

    /// Whether it was found, and is said to wait for something else.
    pub fn is_mistaken(&self) -> bool {
        let found = asks(self.row) == Some(true) && self.decision.waiting;
        found && self.row.expected_input.is_some_and(|wanted| wanted != self.decision.expected)
    }
}

/// Counts by the names of a member.
pub type Groups = BTreeMap<String, Counts>;

/// What came of a file of replies.
#[derive(Clone, Debug)]
pub struct Evaluation<'r> {
    /// At this level.
    pub level: Level,
    /// Each of them.
    pub judged: Vec<Judged<'r>>,
    /// Over all that are scored.
    pub counts: Counts,
    /// By where they are from.
    pub sources: Groups,
    /// By language.
    pub languages: Groups,
    /// By kind.
    pub kinds: Groups,
    /// Offers of more help after finished work: how many were flagged, of how many.
    pub closers: (usize, usize),
    /// Replies that wait and hold no question mark: how many were found, of how many.
    pub unmarked: (usize, usize),
    /// How well approval and free text are told apart.
    pub macro_f1: Option<f64>,
    /// The simplest rules on the same replies, with their closers flagged.
    pub baselines: [(&'static str, Counts, (usize, usize)); 3],
}

/// Judges the replies.
pub fn evaluate<'r>(rows: &'r [Row], settings: &Settings) -> Evaluation<'r> {
    let judged: Vec<_> = rows.iter().map(|row| Judged { row, decision: decide(row, settings) }).collect();
    let of = |name: fn(&Row) -> &Option<String>| groups(&judged, name);
    let unmarked = |j: &&Judged<'_>| asks(j.row) == Some(true) && !j.row.text.is_empty() && !has_mark(&j.row.text);
    let never = |_: &str| false;
    let decided = |j: &Judged<'_>| j.decision.waiting;
    Evaluation {
        level: settings.level,
        counts: counts(&judged, decided),
        sources: of(|row| &row.source),
        languages: of(|row| &row.lang),
        kinds: of(|row| &row.kind),
        closers: of_which(judged.iter().filter(|j| j.row.is_closer()), decided),
        unmarked: of_which(judged.iter().filter(unmarked), decided),
        macro_f1: macro_f1(&answers(&judged)),
        baselines: [
            baseline("never", &judged, never),
            baseline("ends with a mark", &judged, ends_with_mark),
            baseline("a mark anywhere", &judged, has_mark),
        ],
        judged,
    }
}

fn decide(row: &Row, settings: &Settings) -> Decision {
    let data = row.data.as_ref().map(|data| data.get());
    question::decide(&Reply { text: &row.text, data, ..Reply::default() }, &row.user, settings, 0)
}

/// Whether the label says that it waits; `None` where it is not scored.
fn asks(row: &Row) -> Option<bool> {
    match row.label? {
        Label::InputRequired => Some(true),
        Label::Completed => Some(false),
        Label::Ambiguous => None,
    }
}

fn counts(judged: &[Judged<'_>], waiting: impl Fn(&Judged<'_>) -> bool) -> Counts {
    let mut counts = Counts::default();
    judged.iter().for_each(|j| asks(j.row).into_iter().for_each(|asks| counts.add(asks, waiting(j))));
    counts
}

fn groups(judged: &[Judged<'_>], name: fn(&Row) -> &Option<String>) -> Groups {
    let mut groups = Groups::new();
    for j in judged {
        if let (Some(name), Some(asks)) = (name(j.row), asks(j.row)) {
            groups.entry(name.clone()).or_default().add(asks, j.decision.waiting);
        }
    }
    groups
}

fn of_which<'j, 'r: 'j>(
    all: impl Iterator<Item = &'j Judged<'r>>,
    waiting: impl Fn(&Judged<'r>) -> bool,
) -> (usize, usize) {
    all.fold((0, 0), |(some, all), j| (some + usize::from(waiting(j)), all + 1))
}

fn baseline(
    name: &'static str,
    judged: &[Judged<'_>],
    waiting: fn(&str) -> bool,
) -> (&'static str, Counts, (usize, usize)) {
    let waits = |j: &Judged<'_>| waiting(&j.row.text);
    (name, counts(judged, waits), of_which(judged.iter().filter(|j| j.row.is_closer()), waits))
}

/// Wanted and told, of the replies that wait for approval or free text and were found.
fn answers(judged: &[Judged<'_>]) -> Vec<(Expected, Expected)> {
    let found = judged.iter().filter(|j| asks(j.row) == Some(true) && j.decision.waiting);
    let wanted = found.filter_map(|j| Some((j.row.expected_input?, j.decision.expected)));
    wanted.filter(|(wanted, _)| matches!(wanted, Expected::Approval | Expected::FreeText)).collect()
}

/// A question mark of any script, but for the Greek one, which is a semicolon elsewhere.
fn is_mark(c: char) -> bool {
    "?？؟՞፧⁇⁈⁉‽﹖︖❓❔⸮\u{37e}".contains(c)
}

fn has_mark(text: &str) -> bool {
    text.contains(is_mark)
}

fn ends_with_mark(text: &str) -> bool {
    text.trim_end().ends_with(is_mark)
}
