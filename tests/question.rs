//! The decision on replies of every kind, in many languages: the tables in `question/`, a line of JSON for each reply.

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
    let table = include_str!("question/first.jsonl");
    table.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
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
    // What the rules missed when the table was written, before any of it was seen by them.
    assert!(wrong.len() <= 92, "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
