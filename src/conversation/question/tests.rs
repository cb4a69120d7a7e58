//! One table of replies, each with what a reader who speaks the language would say; then the explicit signals, and hostile input.

use proptest::prelude::*;

use super::*;

mod replies;

fn judge(text: &str) -> Decision {
    answer(text, "")
}

fn answer(text: &str, user: &str) -> Decision {
    decide(&Reply { text, ..Reply::default() }, user, &Settings::default(), 0)
}

fn at(level: Level, text: &str) -> Decision {
    decide(&Reply { text, ..Reply::default() }, "", &Settings { level, ..Settings::default() }, 0)
}

fn markers() -> Vec<String> {
    Settings::default().markers
}

#[test]
fn every_reply_is_judged_as_its_reader_would() {
    let mut wrong = Vec::new();
    for &(language, text, wanted) in replies::REPLIES {
        let found = judge(text);
        if found.waiting.then_some(found.expected) != wanted {
            wrong.push(format!("{language}: {text:?}: wanted {wanted:?}, {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), replies::REPLIES.len(), wrong.join("\n"));
}

#[test]
fn strict_finds_no_question_that_balanced_does_not() {
    for &(_, text, _) in replies::REPLIES {
        assert!(!at(Level::Strict, text).waiting || judge(text).waiting, "{text}");
    }
}

#[test]
fn the_reason_says_what_decided() {
    let cases = [
        ("Which one?", Reason::Question),
        ("I need the order number from you.", Reason::Request),
        ("Done. Anything else?", Reason::Closer),
        ("Do you mean A or B? I assumed A and finished.", Reason::Statement),
        ("```sql\nSELECT ?\n```", Reason::Code),
        ("{\"answer\": \"why?\"}", Reason::Code),
        ("", Reason::Empty),
        (" \n\t", Reason::Empty),
        ("[INPUT_REQUIRED] The colour", Reason::Marker),
    ];
    for (text, reason) in cases {
        assert_eq!(judge(text).reason, reason, "{text}");
    }
}

#[test]
fn the_deciding_words_and_the_asking_sentences_are_shown() {
    let text = "I found two flights. Would you like me to book one? Please confirm. Anything else?";
    let found = judge(text);
    assert_eq!(found.words.iter().map(|w| &text[w.clone()]).collect::<Vec<_>>(), ["Please confirm"]);
    assert_eq!(text[found.asked.unwrap()].trim(), "Would you like me to book one? Please confirm.");
}

#[test]
fn questions_that_the_user_ordered_are_content() {
    let list = "Here you go:\n1. Why do you want this job?\n2. What are your strengths?\n3. Where do you see yourself?";
    let cases = [
        ("Write 5 interview questions", list, Reason::Ordered),
        ("Tell me about the job", list, Reason::Question),
        ("Write 5 interview questions", "Sure. Which role should they be for?", Reason::Question),
        ("Translate 'Where are you?' into Spanish", "¿Dónde estás?", Reason::Ordered),
        ("Translate this into Spanish", "Please provide the text to translate. Which dialect?", Reason::Question),
        ("写5个面试问题", "1. 您为什么想要这份工作？\n2. 您的优势是什么？", Reason::Ordered),
        ("把“你在哪里？”翻译成英文", "Where are you?", Reason::Ordered),
        ("Erstelle ein Quiz", "1. Welche Stadt ist Ihre Hauptstadt?\n2. Haben Sie Flüsse?", Reason::Ordered),
    ];
    for (user, text, reason) in cases {
        assert_eq!(answer(text, user).reason, reason, "{user} / {text}");
    }
}

#[test]
fn markers_are_found_at_the_ends_with_their_white_space() {
    let cases = [
        ("[INPUT_REQUIRED] Which?", Some("[INPUT_REQUIRED] ")),
        ("  [INPUT_REQUIRED]\nWhich?", Some("  [INPUT_REQUIRED]\n")),
        ("Which?\n\n[INPUT_REQUIRED]\n", Some("[INPUT_REQUIRED]\n")),
        (" [INPUT_REQUIRED] ", Some(" [INPUT_REQUIRED] ")),
        ("Write [INPUT_REQUIRED] at the end", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(marker_range(text, &markers()).map(|r| &text[r]), wanted, "{text:?}");
    }
    assert_eq!(marker_range("WAITING for it", &["WAIT".to_owned()]), None);
    assert_eq!(marker_range("Text ASK MORE", &["MORE".to_owned(), "ASK MORE".to_owned()]), Some(5..13));
    assert_eq!(marker_range("any", &[String::new()]), None);
}

#[test]
fn a_json_reply_says_it_itself() {
    let data = |data| decide(&Reply { data: Some(data), ..Reply::default() }, "", &Settings::default(), 0);
    let asks = judge(r#"{"status": "input_required", "question": "What is your password?", "message": "other"}"#);
    assert_eq!((asks.waiting, asks.reason, asks.expected), (true, Reason::JsonStatus, Expected::Credential));
    assert_eq!(asks.shown.as_deref(), Some("What is your password?"));
    assert_eq!(
        judge("```json\n{\"status\":\"input-required\",\"message\":\"Size?\"}\n```").shown.as_deref(),
        Some("Size?")
    );
    let stated = judge(r#"{"status": "input-required", "expected_input": "structured_artifact"}"#);
    assert_eq!((stated.expected, stated.shown), (Expected::StructuredArtifact, None));
    assert!(!judge(r#"{"status": "completed", "message": "Which one?"}"#).waiting);
    assert!(data(r#"{"status": "input_required"}"#).waiting);
    assert!(!data(r#"{"status": "working"}"#).waiting);
    assert!(!judge(r#"{"status": "input_required", "status": "completed"}"#).waiting);
}

#[test]
fn what_comes_as_a_file_is_no_question_unless_it_says_so() {
    let named = |names: &[&str], text| decide(&Reply { text, names, ..Reply::default() }, "", &Settings::default(), 0);
    for names in [&["quiz.md"][..], &["main.py", "a.b.txt"], &["Reply.JSON"]] {
        assert_eq!(named(names, "Which one do you want?").reason, Reason::Code, "{names:?}");
        assert_eq!(named(names, "Which one? [INPUT_REQUIRED]").reason, Reason::Marker, "{names:?}");
    }
    for names in [&[][..], &["response"], &["quiz.md", "response"], &["Step 1. Who"], &["v1.2"], &[".md"], &["end."]] {
        assert!(named(names, "Which one do you want?").waiting, "{names:?}");
    }
}

#[test]
fn configured_metadata_wins_both_ways() {
    let settings = Settings { metadata: vec!["needs_input".to_owned()], ..Settings::default() };
    let with = |text, metadata| decide(&Reply { text, metadata: Some(metadata), ..Reply::default() }, "", &settings, 0);
    assert_eq!(with("Done.", r#"{"needs_input": true}"#).reason, Reason::Metadata);
    assert!(with("Done.", r#"{"needs_input": "input-required"}"#).waiting);
    assert!(!with("Which one?", r#"{"needs_input": false}"#).waiting);
    assert_eq!(with("Which one?", r#"{"other": false}"#).reason, Reason::Question);
    assert_eq!(with("Which one?", "no json").reason, Reason::Question);
}

#[test]
fn levels_and_cap() {
    assert_eq!(at(Level::Off, "[INPUT_REQUIRED] Which one?").reason, Reason::Off);
    assert_eq!(at(Level::Explicit, "Which one?").reason, Reason::Unmarked);
    assert!(at(Level::Explicit, "Which one? [INPUT_REQUIRED]").waiting);
    let rounds = |text, n| decide(&Reply { text, ..Reply::default() }, "", &Settings::default(), n);
    assert!(rounds("Shall I go on?", 7).waiting);
    for text in ["Shall I go on?", "Go on? [INPUT_REQUIRED]", r#"{"status":"input_required"}"#] {
        let capped = rounds(text, 8);
        assert_eq!((capped.waiting, capped.reason), (false, Reason::Cap), "{text}");
    }
    assert_eq!(rounds("Done.", 8).reason, Reason::Statement);
}

#[test]
fn a_megabyte_of_anything_is_read_at_its_end_only() {
    let units = [
        "?",
        "`",
        "\"",
        "'",
        "{",
        "[",
        "(",
        "\n",
        " ",
        "*",
        "|",
        ">",
        "か",
        "吗",
        "please confirm ",
        "i need ",
        "a? ",
        "www.",
        "- ?\n",
        "```\n",
        "hi x,\n",
        "hi x,\nbest\n",
        "---\n",
        "q: ?\n",
        "<x>\n",
    ];
    for unit in units {
        let text = unit.repeat((1 << 20) / unit.len());
        let found = judge(&text);
        assert!(found.words.iter().all(|w| w.end <= text.len()), "{unit:?}");
        assert!(judge(&(text + "\n\nWhich city would you like to fly to?\n")).waiting || unit == "{", "{unit:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranges_are_on_character_boundaries(text in "(\\PC|[\n`\"'?.*_|>「」])*", user in "\\PC*") {
        let found = answer(&text, &user);
        for range in found.words.iter().chain(&found.asked) {
            prop_assert!(text.get(range.clone()).is_some());
        }
        if let Some(range) = marker_range(&text, &markers()) {
            prop_assert!(text.get(range).is_some());
        }
    }

    #[test]
    fn a_cut_in_front_does_no_harm(lead in "\\PC{0,40}", at in 0usize..5000) {
        let text = format!("{}{lead} ваш ответ 您要哪一个？", "ж".repeat(at));
        let found = judge(&text);
        prop_assert!(found.words.iter().all(|w| text.get(w.clone()).is_some()));
    }
}
