//! What the sample agent answers. It knows only what stands in the message that it is given, as a stateless agent does.

use std::time::Duration;

const ASKED: &str = "Which city do you mean?";
const BOOKED: &str = "Booked a room in ";
const SLOW: Duration = Duration::from_millis(1500);

/// An answer, and how long it takes to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub text: String,
    pub after: Duration,
}

/// Answers a message. What is wanted stands in its last line; what stands above that can only help.
pub(super) fn answer(given: &str) -> Answer {
    let wanted = given.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let lower = wanted.to_ascii_lowercase();
    let after = if lower.contains("slow") { SLOW } else { Duration::ZERO };
    Answer { text: words(given, wanted, &lower), after }
}

fn words(given: &str, wanted: &str, lower: &str) -> String {
    if let Some(name) = newest_name(wanted) {
        return format!("Nice to meet you, {name}.");
    }
    if lower.contains("my name") || lower.contains("who am i") {
        return newest_name(given).map_or("I don't know your name.".to_owned(), |name| format!("Your name is {name}."));
    }
    if lower.contains("book") {
        return ASKED.to_owned();
    }
    if lower.contains("slow") {
        return "That took a while. Now it is done.".to_owned();
    }
    if is_asked(given) {
        return format!("{BOOKED}{}.", city(wanted));
    }
    "I can greet you, book a room, and do something slow. I know only what stands in the message.".to_owned()
}

/// The name in the last "My name is …".
fn newest_name(text: &str) -> Option<&str> {
    const BEFORE: &str = "my name is ";
    // Letters outside ASCII keep their length, so places in the one are places in the other.
    let lower = text.to_ascii_lowercase();
    let mut names = lower.rmatch_indices(BEFORE).map(|(at, _)| {
        let rest = &text[at + BEFORE.len()..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(rest.len())]
    });
    names.find(|name| !name.is_empty())
}

/// Whether the question about the city is the last that was said about rooms.
fn is_asked(given: &str) -> bool {
    given.rfind(ASKED) > given.rfind(BOOKED)
}

fn city(wanted: &str) -> &str {
    let wanted = wanted.trim_end_matches(['.', '!']);
    wanted.strip_prefix("In ").or_else(|| wanted.strip_prefix("in ")).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::question;

    #[test]
    fn it_knows_what_it_is_given_and_nothing_else() {
        let record = "[record]\n{\"text\":\"My name is Ada\"}\n{\"text\":\"Nice\"}\n[end]\n";
        let asked = "{\"text\":\"Book a room\"}\n{\"text\":\"Which city do you mean?\"}\n";
        for (given, expected) in [
            ("My name is Ada".to_owned(), "Nice to meet you, Ada."),
            ("What is my name?".to_owned(), "I don't know your name."),
            (format!("{record}What is my name?"), "Your name is Ada."),
            (format!("{record}my name is Zoë.\nWhat's my name?\n"), "Your name is Zoë."),
            ("Book a room".to_owned(), "Which city do you mean?"),
            (format!("{record}{asked}Oslo"), "Booked a room in Oslo."),
            (format!("{asked}In Oslo, please."), "Booked a room in Oslo, please."),
            (
                format!("{asked}Booked a room in Oslo.\nBergen"),
                "I can greet you, book a room, and do something slow. I know only what stands in the message.",
            ),
            (
                String::new(),
                "I can greet you, book a room, and do something slow. I know only what stands in the message.",
            ),
        ] {
            assert_eq!(answer(&given).text, expected, "{given}");
        }
        assert_eq!(answer("Do something slow").after, SLOW);
        assert_eq!(answer("Do something slow\nOslo").after, Duration::ZERO);
    }
    #[test]
    fn only_the_question_reads_as_one() {
        for said in [
            "My name is Ada",
            "What is my name?",
            "My name is Ada\nWhat is my name?",
            "Book a room",
            "Do something slow",
            "Hm?",
        ] {
            let Answer { text, .. } = answer(said);
            let reply = question::Reply { text: &text, ..question::Reply::default() };
            let decision = question::decide(&reply, said, &question::Settings::default(), 0);
            assert_eq!(decision.waiting, text == ASKED, "{text}: {decision:?}");
        }
    }
}
