//! `classify`: one reply told, many replies counted, and every line that cannot be read named.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use a2a_multiturn::cli::classify::{Counts, evaluate, rows};
use a2a_multiturn::conversation::question::{Level, Settings};
use serde_json::{Value, json};

const SMALL: &str = include_str!("question/small.jsonl");

fn classify(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-multiturn"));
    command.arg("classify").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(arguments: &[&str], input: &str) -> String {
    let output = classify(arguments, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn value(arguments: &[&str], input: &str) -> Value {
    serde_json::from_str(&text(arguments, input)).unwrap()
}

#[test]
fn one_reply_is_told_with_the_words_that_decided() {
    let told = text(&[], "The plan is ready.\n\nShall I go ahead?\n");
    assert_eq!(
        told,
        "input-required  reason question  expected_input approval  confidence 0.95\n\nThe plan is ready.\n\n>>>Shall I<<< go ahead?\n"
    );
    assert_eq!(text(&["-"], "It is done.\n"), "completed  reason statement  confidence 0.90\n\nIt is done.\n");
}

#[test]
fn a_file_the_users_message_the_level_and_the_markers_count() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all("¿Dónde estás?".as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let ask = |more: &[&str]| value(&[&[path, "--json"], more].concat(), "");
    assert_eq!(ask(&[])["decision"], "input-required");
    assert_eq!(ask(&["--user", "Translate 'Where are you?' into Spanish"])["reason"], "ordered");
    assert_eq!(ask(&["--level", "explicit"])["reason"], "unmarked");
    assert_eq!(ask(&["--level", "off"])["reason"], "off");
    assert_eq!(value(&["--json", "--marker", "WAIT"], "Tell me WAIT")["reason"], "marker");
}

#[test]
fn json_of_one_reply_has_byte_ranges_into_the_text() {
    let input = "Größe: 4. I need your order number.";
    let told = value(&["--json"], input);
    let (start, end) = (told["words"][0]["start"].as_u64().unwrap(), told["words"][0]["end"].as_u64().unwrap());
    assert_eq!(told["words"][0]["text"], input[start as usize..end as usize]);
    assert_eq!(told["expected_input"], "free_text");
    let done = value(&["--json"], "It is done.");
    assert_eq!((&done["expected_input"], &done["words"]), (&Value::Null, &json!([])));
}

#[test]
fn the_counts_are_those_of_the_labels() {
    let (rows, faults) = rows(SMALL.as_bytes()).unwrap();
    assert!(faults.is_empty());
    let told = evaluate(&rows, &Settings::default());
    assert_eq!(told.counts, Counts { found: 5, missed: 1, false_alarms: 1, left: 4 });
    assert_eq!(told.sources["travel"], Counts { found: 3, missed: 0, false_alarms: 0, left: 3 });
    assert_eq!(told.languages["de"], Counts { found: 1, missed: 0, false_alarms: 0, left: 1 });
    assert_eq!(told.kinds["ask"], Counts { found: 2, missed: 1, false_alarms: 0, left: 0 });
    assert_eq!((told.closers, told.unmarked, told.macro_f1), ((0, 2), (1, 2), Some(1.0)));
    let baselines: Vec<_> =
        told.baselines.iter().map(|(name, counts, closers)| (*name, counts.found, *closers)).collect();
    assert_eq!(baselines, [("never", 0, (0, 2)), ("ends with a mark", 3, (2, 2)), ("a mark anywhere", 3, (2, 2))]);
}

#[test]
fn at_a_lower_level_less_is_found() {
    let (rows, _) = rows(SMALL.as_bytes()).unwrap();
    let found = [Level::Off, Level::Explicit, Level::Strict, Level::Balanced]
        .map(|level| evaluate(&rows, &Settings { level, ..Settings::default() }).counts.found);
    assert_eq!(found, [0, 1, 5, 5]);
}

#[test]
fn json_of_many_has_the_figures_at_the_top() {
    let told = value(&["--evaluate", "-", "--json", "--errors", "1", "--asking", "9"], SMALL);
    let third = |name: &str| (told[name].as_f64().unwrap() * 1000.0).round();
    assert_eq!(["f1", "precision", "recall", "false_alarm_rate"].map(third), [833.0, 833.0, 833.0, 200.0]);
    assert_eq!(told["counts"], json!({"found": 5, "missed": 1, "false_alarms": 1, "left": 4}));
    assert_eq!((&told["rows"], &told["scored"], &told["ambiguous"]), (&json!(14), &json!(11), &json!(1)));
    assert_eq!(told["unlabelled"], json!({"rows": 2, "input_required": 1}));
    assert_eq!((&told["errors"][0]["id"], told["errors"].as_array().unwrap().len()), (&json!("b2"), 1));
    assert_eq!(told["asking"][0]["id"], "c1");
    assert_eq!(told["worst_source"]["source"], "build");
    assert_eq!(told["baselines"]["never"]["precision"], Value::Null);
    assert_eq!(told["baselines"]["a_mark_anywhere"]["closers"]["rate"], 1.0);
    assert_eq!(told["kind"]["statement"]["recall"], Value::Null);
}

#[test]
fn text_of_many_shows_the_errors_that_were_asked_for() {
    let told = text(&["--evaluate", "-", "--errors", "9"], SMALL);
    assert!(
        told.contains("b2: input-required by question, labelled completed\n  >>>Which branch should I<<< deploy?"),
        "{told}"
    );
    assert!(told.contains("b3: completed by statement, labelled input_required"), "{told}");
    assert!(told.contains("worst source: build, F1 0.667"), "{told}");
    assert!(!text(&["--evaluate", "-"], SMALL).contains("labelled"));
}

#[test]
fn every_line_that_cannot_be_read_is_named() {
    let input = concat!(
        "{\"text\": \"fine\"}\n",
        "no json\n",
        "\n",
        "{\"text\": 5}\n",
        "{\"label\": \"completed\"}\n",
        "{\"text\": \"x\", \"label\": \"done\"}\n",
        "{\"text\": \"x\", \"text\": \"y\"}\n",
        "{\"text\": \"x\", \"label\": \"completed\", \"expected_input\": \"approval\"}\n",
    );
    let output = classify(&["--evaluate", "-"], input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for line in ["line 2: ", "line 4: ", "line 5: ", "line 6: unknown variant `done`", "line 7: duplicate", "line 8: "]
    {
        assert!(told.contains(line), "{line} in {told}");
    }
    assert!(!told.contains("line 1:") && !told.contains("line 3:"), "{told}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_is_not_there_is_an_error() {
    for (arguments, input) in [
        (&["/nowhere/at/all"][..], ""),
        (&["--evaluate", "/nowhere/at/all"], ""),
        (&["--evaluate", "-"], "\n\n"),
        (&["--errors", "3"], ""),
        (&["--evaluate", "-", "other"], ""),
    ] {
        let output = classify(arguments, input);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(classify(&[], "\u{0}").status.code(), Some(0));
}
