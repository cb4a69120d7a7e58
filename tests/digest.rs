//! The published vectors, and what `digest` makes of them and of what is not quite them.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use a2a_multiturn::cli::digest::{Verdict, compute, verify};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{Agent, Proxy};

const VECTORS: &str = include_str!("vectors/digest.jsonl");

fn verified(record: &str) -> (Verdict, String) {
    let mut told = Vec::new();
    let verdict = verify(record.as_bytes(), &mut told).unwrap_or_else(|error| panic!("{error} in {record}"));
    (verdict, String::from_utf8(told).unwrap())
}

#[test]
fn the_published_vectors_hold() {
    let (verdict, told) = verified(VECTORS);
    assert!(verdict.is_match(), "{told}");
    assert_eq!((verdict.turns, verdict.wrong), (12, 0));
    assert_eq!(told.matches(": ok\n").count(), 12);
}

#[test]
fn what_is_computed_is_what_was_published() {
    let mut computed = Vec::new();
    compute(VECTORS.as_bytes(), &mut computed).unwrap();
    for (published, computed) in VECTORS.lines().zip(String::from_utf8(computed).unwrap().lines()) {
        let [published, computed] = [published, computed].map(members);
        for name in ["turn", "turn_digest", "history_turns", "accepted_history_digest"] {
            assert_eq!(published.get(name), computed.get(name), "{name} of turn {}", published["turn"]);
        }
    }
}

/// The members of a line, without the spaces in them; serde_json's values do not hold the numbers of turn 3.
fn members(line: &str) -> BTreeMap<String, String> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
    members.into_iter().map(|(name, value)| (name, value.get().replace(' ', ""))).collect()
}

/// The turn, what stands there, what stands there instead.
const CHANGES: [(usize, &str, &str); 27] = [
    (1, "Ada", "Bda"),
    (1, "Hello Ada.", "Hello Ada"),
    (1, r#""taskId": "t-1""#, r#""taskId": "t-2""#),
    (1, r#""artifactId": "response""#, r#""artifactId": "Response""#),
    (2, r"caf\u00e9", r"caf\u00e8"),
    (2, r"\u0001", r"\u0002"),
    (2, r"\ud83d\ude00", r"\ud83d\ude01"),
    (2, r"\u2028", r"\u2029"),
    (3, "9007199254740993", "9007199254740994"),
    (3, "1.0,", "1.1,"),
    (3, "1e999", "1e998"),
    (3, "-1e999", "1e999"),
    (3, "null", "true"),
    (3, "1071043517320029.3", "1071043517320029.2"),
    (4, "[1]", "[2]"),
    (4, r#""9":7"#, r#""8":7"#),
    (5, "dGNr", "dGNs"),
    (5, "text/plain", "text/plaim"),
    (5, r#""size":"3""#, r#""size":"4""#),
    (6, "b=c", "b=d"),
    (6, "fileWithUri", "fileWithUrl"),
    (7, r#""parts":[]"#, r#""parts":[{"text":""}]"#),
    (8, "upon", "upom"),
    (9, ";head=16;", ";head=17;"),
    (10, "response~2", "response~3"),
    (11, "0f0f", "0f0e"),
    (12, "And now?", "And now!"),
];

#[test]
fn a_change_anywhere_is_noticed() {
    for (turn, from, to) in CHANGES {
        let mut lines: Vec<_> = VECTORS.lines().map(str::to_owned).collect();
        let changed = lines[turn - 1].replacen(from, to, 1);
        assert_ne!(lines[turn - 1], changed, "{from} is in turn {turn}");
        lines[turn - 1] = changed;
        let (verdict, told) = verified(&lines.join("\n"));
        assert!(!verdict.is_match(), "turn {turn}: {from} -> {to}");
        let first = told.lines().find(|line| !line.ends_with(": ok")).unwrap();
        assert!(first.starts_with(&format!("turn {turn}: ")), "{told}");
    }
}

#[test]
fn a_change_in_any_digit_of_a_digest_is_noticed() {
    let digits = VECTORS.match_indices("sha256:").flat_map(|(at, found)| at + found.len()..at + found.len() + 64);
    // All of them take half a minute in a debug build; a step that is no divisor of 64 meets every place.
    for at in digits.step_by(37) {
        let mut record = VECTORS.as_bytes().to_vec();
        record[at] = if record[at] == b'0' { b'1' } else { b'0' };
        let (verdict, _) = verified(std::str::from_utf8(&record).unwrap());
        assert!(!verdict.is_match(), "the digit at {at}");
    }
}

#[test]
fn the_dialect_and_the_spelling_do_not_matter() {
    for (from, to) in [
        (r#"{"kind":"text","text":"Thanks."}"#, r#"{ "text":"Thank\u0073." , "metadata":null}"#),
        (
            r#"{"url":"https://e.example/a?b=c&d","filename":"a"}"#,
            r#"{"file":{"name":"a","uri":"https:\/\/e.example/a?b=c&d"}}"#,
        ),
        (r#"{"raw":"-_-_AA""#, r#"{"raw":"+/+/AA==""#),
        ("1e3,", "1000.00,"),
    ] {
        let record = VECTORS.replacen(from, to, 1);
        assert_ne!(record, VECTORS, "{from}");
        assert!(verified(&record).0.is_match(), "{from} -> {to}");
    }
}

#[test]
fn what_cannot_be_checked_is_no_match() {
    let bare = r#"{"user":{"parts":[{"text":"hi"}]},"agent":{"parts":[]}}"#;
    let mut computed = Vec::new();
    compute(bare.as_bytes(), &mut computed).unwrap();
    let computed: Value = serde_json::from_slice(&computed).unwrap();
    let accepted = computed["accepted_history_digest"].as_str().unwrap();
    for (members, line) in [
        (String::new(), "turn 1: no digest is given"),
        (
            format!(",\"accepted_history_digest\":\"{accepted}\""),
            "turn 1: accepted_history_digest: cannot be checked without history_turns",
        ),
        (
            format!(",\"history_turns\":[\"{accepted}\"]"),
            "turn 1: history_turns[0]: no earlier turn of this record comes to that",
        ),
        (format!(",\"history_turns\":[\"{accepted};tail=3\"]"), "turn 1: history_turns[0]: not of the form"),
    ] {
        let (verdict, told) = verified(&format!("{}{members}}}", &bare[..bare.len() - 1]));
        assert!(!verdict.is_match() && told.starts_with(line), "{told}");
    }
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-multiturn"));
    command.arg("digest").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that ends before it has read everything is judged by what it says.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn exit_codes() {
    let changed = VECTORS.replacen("Hello", "Jello", 1);
    let duplicate = VECTORS.replacen("\"turn\"", "\"turn\":\"1\",\"turn\"", 1);
    for (arguments, input, code, out, err) in [
        (["verify", "-"], VECTORS, 0, "12 turns: of 64 digests 64 match, 0 differ\n", ""),
        (["verify", "-"], &changed, 1, "turn 1: turn_digest: expected sha256:", ""),
        (["verify", "-"], &duplicate, 2, "", "error: line 1: an object has two members of one name"),
        (["verify", "-"], "{\"user\"", 2, "", "error: line 1: not valid JSON at byte 7"),
        (["verify", "no/such/file"], "", 2, "", "error: no/such/file: No such file"),
        (["compute", "-"], VECTORS, 0, "{\"turn\":\"1\",\"turn_digest\":\"sha256:", ""),
    ] {
        let output = run(&arguments, input);
        let (told, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}{complained}");
        assert!(told.contains(out) && complained.contains(err), "{arguments:?}: {told}{complained}");
    }
}

const URI: &str = a2a_multiturn::a2a::EXTENSION_URI;

/// A turn as a client can write it down: what it sent, and what it got.
fn record(sent: &str, task: &Value) -> String {
    let artifacts = task["artifacts"].as_array().unwrap();
    let ids: Vec<_> =
        artifacts.iter().map(|one| json!({ "taskId": task["id"], "artifactId": one["artifactId"] })).collect();
    let mut line = json!({
        "user": { "parts": [{ "kind": "text", "text": sent }] },
        "agent": { "parts": artifacts[0]["parts"] },
        "artifacts": ids,
    });
    for name in ["history_turns", "accepted_history_digest"] {
        line[name] = task["metadata"][URI][name].clone();
    }
    line.to_string() + "\n"
}

#[tokio::test]
async fn a_client_comes_to_the_same_by_its_own_record() {
    let agent =
        Agent::saying(|seen| if seen.before == 1 { "Which city?".into() } else { format!("\u{e9} {}", seen.before) });
    let proxy = Proxy::new(&agent).with_header("a2a-extensions", URI);
    let mut kept = String::new();
    let on_its_own = json!({ "metadata": { URI: { "history_policy": "none" } } });
    for (sent, more) in [
        ("My name is Ada \u{1f600}", json!({})),
        ("book a room", json!({})),
        ("Oslo", json!({ "taskId": "u-2" })),
        ("forget that", on_its_own),
        ("thanks", json!({})),
    ] {
        let mut ids = more;
        ids["contextId"] = "c".into();
        let task = proxy.send(sent, ids).await;
        kept += &record(sent, &task);
    }
    assert!(kept.contains(r#""response~2""#), "{kept}");
    let (verdict, told) = verified(&kept);
    // Five digests; and three times the turns so far.
    assert_eq!((verdict.given, verdict.wrong), (5 + 1 + 2 + 4, 0), "{told}{kept}");
}
