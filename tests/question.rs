//! The decision on replies of every kind, in many languages: the tables in `question/`, a line of JSON for each reply.

use std::time::{Duration, Instant};

use a2a_multiturn::conversation::question::{Decision, Reply, Settings, decide};
use serde::Deserialize;

/// One reply and what its reader would say.
#[derive(Deserialize)]
struct Case {
    kind: String,
    lang: String,
    label: String,
    expected_input: Option<String>,
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
    let tables = [include_str!("question/first.jsonl"), include_str!("question/second.jsonl")];
    tables
        .iter()
        .flat_map(|table| table.lines())
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn every_reply_is_judged_as_its_reader_would() {
    let cases = cases();
    let wrong = cases.iter().filter_map(|case| {
        let found = case.wrong()?;
        let words: Vec<_> = found.words.iter().map(|w| &case.text[w.clone()]).collect();
        Some(format!(
            "{} {} {} {:?} ||| {:?}: {} {:?} {words:?}",
            case.kind,
            case.lang,
            case.label,
            case.text,
            case.user,
            found.reason.as_str(),
            found.expected
        ))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.len() <= 22, "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Replies of two kilobytes, one a language: what the tables hold in it, as often as it takes.
fn two_kilobytes() -> Vec<(String, String)> {
    let mut texts = std::collections::BTreeMap::<String, String>::new();
    for case in cases() {
        let text = texts.entry(case.lang).or_default();
        text.push_str(&case.text);
        text.push('\n');
    }
    let cut = |text: &str| {
        let all = text.repeat(2048 / text.len() + 1);
        let end = (0..=2048).rev().find(|at| all.is_char_boundary(*at)).unwrap_or_default();
        all[..end].to_owned()
    };
    texts.into_iter().map(|(lang, text)| (lang, cut(&text))).collect()
}

#[test]
#[ignore = "needs an optimised build: tests/run decision"]
fn two_kilobytes_are_judged_in_fifty_microseconds() {
    let settings = Settings::default();
    for (lang, text) in two_kilobytes() {
        let reply = Reply { text: &text, ..Reply::default() };
        let times = (0..400).map(|_| {
            let start = Instant::now();
            std::hint::black_box(decide(std::hint::black_box(&reply), "Write an email", &settings, 0));
            start.elapsed()
        });
        // The quickest of many: what else runs on the machine only adds.
        let best = times.min().unwrap_or_default();
        println!("{lang}: {} bytes in {best:?}", text.len());
        assert!(best < Duration::from_micros(50), "{lang}: {best:?}");
    }
}
