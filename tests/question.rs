//! The decision on replies of every kind, in many languages: the tables in `question/`, a line of JSON for each reply.

use std::time::{Duration, Instant};

use a2a_multiturn::conversation::question::{Decision, Reply, Settings, decide};
use serde::Deserialize;

const LANGUAGES: [&str; 23] = [
    "en", "zh", "ja", "ar", "id", "ru", "sw", "fr", "hi", "ko", "de", "es", "pt", "it", "tr", "vi", "th", "pl", "nl",
    "uk", "fa", "he", "bn",
];

/// One reply and what its reader would say.
#[derive(Deserialize)]
struct Case {
    kind: String,
    lang: String,
    label: String,
    expected_input: Option<String>,
    /// Why the rules do not see it, where they do not.
    missed: Option<String>,
    #[serde(default)]
    user: String,
    text: String,
}

impl Case {
    fn judged(&self) -> Decision {
        decide(&Reply { text: &self.text, ..Reply::default() }, &self.user, &Settings::default(), 0)
    }

    /// What the decision is where it is not what the case wants.
    fn wrong(&self) -> Option<Decision> {
        let found = self.judged();
        let right = match self.label.as_str() {
            "input_required" => found.waiting && self.expected_input.as_deref() == Some(found.expected.as_str()),
            _ => !found.waiting,
        };
        (!right).then_some(found)
    }
}

fn cases() -> Vec<Case> {
    let tables = [
        include_str!("question/first.jsonl"),
        include_str!("question/second.jsonl"),
        include_str!("question/third.jsonl"),
    ];
    tables
        .iter()
        .flat_map(|table| table.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn every_reply_is_judged_as_its_reader_would() {
    let wrong: Vec<_> = cases()
        .iter()
        .filter_map(|case| {
            let Case { kind, lang, label, text, .. } = case;
            match (case.wrong(), &case.missed) {
                (Some(found), None) => Some(format!("{kind} {lang}: {label}, and not by {found:?}: {text}")),
                (None, Some(_)) => Some(format!("{kind} {lang}: no longer missed: {text}")),
                _ => None,
            }
        })
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_tables_hold_what_they_are_for() {
    let cases = cases();
    let count = |is: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| is(case)).count();
    for kind in [
        "ask",
        "closer",
        "statement",
        "code",
        "quote",
        "list",
        "json",
        "approval",
        "credential",
        "upload",
        "long",
        "status",
        "ordered",
    ] {
        assert!(count(&|case| case.kind == kind) >= 20, "{kind}");
    }
    for lang in LANGUAGES {
        assert!(count(&|case| case.lang == lang && case.label == "completed") > 0, "{lang}");
        assert!(count(&|case| case.lang == lang && case.label == "input_required") > 0, "{lang}");
    }
    assert!(count(&|case| case.missed.is_some()) <= 5);
}

/// A reply of two kilobytes in a language: of the tables' replies with one label, as often as it takes, and a question at its end.
fn two_kilobytes(lang: &str, label: &str) -> String {
    let cases: Vec<_> = cases().into_iter().filter(|case| case.lang == lang).collect();
    let all: Vec<_> = cases.iter().filter(|case| case.label == label).map(|case| &*case.text).collect();
    let question = cases.iter().find(|case| case.label == "input_required").map_or("", |case| &case.text);
    let all = all.join("\n");
    let all = all.repeat(2048 / all.len() + 1);
    let start = (all.len() - 2048..).find(|at| all.is_char_boundary(*at)).unwrap_or_default();
    format!("{}\n{question}", &all[start..])
}

fn quickest(text: &str) -> Duration {
    let (reply, settings) = (Reply { text, ..Reply::default() }, Settings::default());
    let times = (0..400).map(|_| {
        let start = Instant::now();
        std::hint::black_box(decide(std::hint::black_box(&reply), "", &settings, 0));
        start.elapsed()
    });
    // Of many: what else runs on the machine only adds.
    times.min().unwrap_or_default()
}

#[test]
#[ignore = "needs an optimised build: tests/run decision"]
fn two_kilobytes_are_judged_in_fifty_microseconds() {
    for lang in LANGUAGES {
        let took = quickest(&two_kilobytes(lang, "completed"));
        assert!(took < Duration::from_micros(50), "{lang}: {took:?}");
        // Nothing but questions: every sentence that may be looked at is.
        let took = quickest(&two_kilobytes(lang, "input_required"));
        assert!(took < Duration::from_micros(100), "{lang}, questions: {took:?}");
    }
}
