//! How an evaluation is told: as text, and as JSON for a script.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::evaluate::{Evaluation, Groups, Judged};
use super::figures::{Counts, Figures, share};
use super::{marked, state};
use crate::conversation::question::Level;

/// How many replies are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Of those judged wrong.
    pub errors: usize,
    /// Of those without a label that are taken for questions.
    pub asking: usize,
}

pub(super) fn text(evaluation: &Evaluation<'_>, shown: Shown, out: &mut impl Write) -> io::Result<()> {
    let Evaluation { judged, counts, closers, unmarked, .. } = evaluation;
    let (asking, unlabelled) = unlabelled(judged);
    let ambiguous = judged.len() - counts.all() - unlabelled;
    writeln!(
        out,
        "{} replies at level {}: {} scored, {ambiguous} ambiguous, {unlabelled} without a label (of which {asking} are taken for questions)\n",
        judged.len(),
        level(evaluation.level),
        counts.all()
    )?;
    writeln!(out, "{:<28} {:>6}  precision  recall      F1  false alarms", "", "scored")?;
    line(out, "all", counts)?;
    for (name, counts, _) in &evaluation.baselines {
        line(out, &format!("  baseline: {name}"), counts)?;
    }
    for (by, groups) in groups(evaluation) {
        groups.iter().try_for_each(|(name, counts)| line(out, &format!("  {by} {name}"), counts))?;
    }
    writeln!(out)?;
    if let Some((name, f1)) = worst(&evaluation.sources) {
        writeln!(out, "worst source: {name}, F1 {f1:.3}")?;
    }
    writeln!(out, "closers flagged: {}", rate(*closers))?;
    for (name, _, closers) in &evaluation.baselines {
        writeln!(out, "  baseline: {name}: {}", rate(*closers))?;
    }
    writeln!(out, "requests without a question mark found: {}", rate(*unmarked))?;
    writeln!(out, "approval against free_text, macro F1: {}", figure(evaluation.macro_f1))?;
    for j in wrong(judged).take(shown.errors).chain(asks(judged).take(shown.asking)) {
        writeln!(out, "\n{}", told(j))?;
    }
    Ok(())
}

pub(super) fn json(evaluation: &Evaluation<'_>, shown: Shown) -> Value {
    let Evaluation { judged, counts, closers, unmarked, .. } = evaluation;
    let (asking, unlabelled) = unlabelled(judged);
    let of = |(some, all)| json!({"rows": all, "flagged": some, "rate": share(some, all)});
    let baselines = evaluation.baselines.iter().map(|(name, counts, closers)| {
        let mut of_it = numbers(counts);
        of_it.insert("closers".into(), of(*closers));
        (name.replace(' ', "_"), of_it.into())
    });
    let mut top = numbers(counts);
    let more = json!({
        "level": level(evaluation.level),
        "rows": judged.len(),
        "ambiguous": judged.len() - counts.all() - unlabelled,
        "unlabelled": {"rows": unlabelled, "input_required": asking},
        "closers": of(*closers),
        "requests_without_mark": {"rows": unmarked.1, "found": unmarked.0, "rate": share(unmarked.0, unmarked.1)},
        "macro_f1": evaluation.macro_f1,
        "worst_source": worst(&evaluation.sources).map(|(name, f1)| json!({"source": name, "f1": f1})),
        "baselines": baselines.collect::<Map<_, _>>(),
        "errors": wrong(judged).take(shown.errors).map(object).collect::<Vec<_>>(),
        "asking": asks(judged).take(shown.asking).map(object).collect::<Vec<_>>(),
    });
    top.extend(more.as_object().cloned().unwrap_or_default());
    for (by, groups) in groups(evaluation) {
        let groups = groups.iter().map(|(name, counts)| (name.clone(), numbers(counts).into()));
        top.insert(by.into(), groups.collect::<Map<_, _>>().into());
    }
    top.into()
}

fn groups<'e>(evaluation: &'e Evaluation<'_>) -> [(&'static str, &'e Groups); 3] {
    [("source", &evaluation.sources), ("lang", &evaluation.languages), ("kind", &evaluation.kinds)]
}

fn numbers(counts: &Counts) -> Map<String, Value> {
    let Figures { precision, recall, f1, false_alarm_rate } = counts.figures();
    let Counts { found, missed, false_alarms, left } = counts;
    let object = json!({
        "f1": f1, "precision": precision, "recall": recall, "false_alarm_rate": false_alarm_rate, "scored": counts.all(),
        "counts": {"found": found, "missed": missed, "false_alarms": false_alarms, "left": left},
    });
    object.as_object().cloned().unwrap_or_default()
}

fn line(out: &mut impl Write, name: &str, counts: &Counts) -> io::Result<()> {
    let Figures { precision, recall, f1, false_alarm_rate } = counts.figures();
    let [precision, recall, f1, alarms] = [precision, recall, f1, false_alarm_rate].map(figure);
    writeln!(out, "{name:<28} {:>6}  {precision:>9}  {recall:>6}  {f1:>6}  {alarms:>12}", counts.all())
}

fn figure(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.3}"))
}

fn rate((some, all): (usize, usize)) -> String {
    format!("{} ({some} of {all})", figure(share(some, all)))
}

/// The source with the lowest F1, of those that hold questions and finished replies.
fn worst(sources: &Groups) -> Option<(&str, f64)> {
    let both = sources.iter().filter(|(_, c)| c.found + c.missed > 0 && c.false_alarms + c.left > 0);
    both.filter_map(|(name, counts)| Some((name.as_str(), counts.figures().f1?))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Those whose decision is wrong, then those that wait for something else than they are said to.
fn wrong<'j, 'r>(judged: &'j [Judged<'r>]) -> impl Iterator<Item = &'j Judged<'r>> {
    judged.iter().filter(|j| j.is_wrong()).chain(judged.iter().filter(|j| j.is_mistaken()))
}

fn asks<'j, 'r>(judged: &'j [Judged<'r>]) -> impl Iterator<Item = &'j Judged<'r>> {
    judged.iter().filter(|j| j.row.label.is_none() && j.decision.waiting)
}

/// Of the replies without a label: those taken for questions, and all.
fn unlabelled(judged: &[Judged<'_>]) -> (usize, usize) {
    (asks(judged).count(), judged.iter().filter(|j| j.row.label.is_none()).count())
}

fn told(j: &Judged<'_>) -> String {
    let because = format!("{} by {}", state(j.decision.waiting), j.decision.reason.as_str());
    let text = marked(&j.row.text, &j.decision);
    format!("{}: {because}{}\n  {}", j.row.id, otherwise(j), text.trim_end().replace('\n', "\n  "))
}

fn otherwise(j: &Judged<'_>) -> String {
    match (j.is_wrong(), j.is_mistaken(), j.decision.waiting) {
        (true, _, true) => ", labelled completed".to_owned(),
        (true, _, false) => ", labelled input_required".to_owned(),
        (_, true, _) => {
            let wanted = j.row.expected_input.unwrap_or_default().as_str();
            format!(", told to wait for {}, labelled {wanted}", j.decision.expected.as_str())
        }
        _ => String::new(),
    }
}

fn object(j: &Judged<'_>) -> Value {
    let mut object = super::described(&j.row.text, &j.decision);
    if let Some(object) = object.as_object_mut() {
        object.insert("id".into(), j.row.id.clone().into());
        object.insert("text".into(), j.row.text.clone().into());
    }
    object
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Off => "off",
        Level::Explicit => "explicit",
        Level::Strict => "strict",
        Level::Balanced => "balanced",
    }
}
