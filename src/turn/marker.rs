//! Markers in a stream: a piece of text that may end in one, or begin one, is held back by just that much.

use std::borrow::Cow;

/// Holds back the tails of artifacts' texts that may be, or become, a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail(Vec<Held>);

/// What is known of one artifact's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    artifact: String,
    /// Text that came and was not passed on.
    text: String,
    /// Whether anything of the artifact's text was passed on, other than white space.
    begun: bool,
    /// The last character that was passed on.
    before: Option<char>,
}

impl Tail {
    /// Takes in a piece of an artifact's text; what may be passed on of it, with what was held before. `append` as in the event.
    pub fn pass<'t>(&mut self, artifact: &str, append: bool, text: &'t str, markers: &[String]) -> Cow<'t, str> {
        let at = self.0.iter().position(|held| held.artifact == artifact).unwrap_or_else(|| {
            self.0.push(Held { artifact: artifact.to_owned(), ..Held::default() });
            self.0.len() - 1
        });
        if !append {
            self.0[at] = Held { artifact: artifact.to_owned(), ..Held::default() };
        }
        self.0[at].pass(text, markers)
    }

    /// What is held back of an artifact.
    pub fn held_of(&self, artifact: &str) -> Option<&str> {
        let held = self.0.iter().find(|held| held.artifact == artifact)?;
        (!held.text.is_empty()).then_some(&*held.text)
    }

    /// What turns out to be text as another event comes, one that does not go on with the artifact `but`: artifacts and their texts. A whole
    /// marker stays where it is: at the turn's end it is no text.
    pub fn release(&mut self, but: Option<&str>, markers: &[String]) -> Vec<(String, String)> {
        let others = self.0.iter_mut().filter(|held| but != Some(&held.artifact) && !held.is_marker(markers));
        others.filter_map(Held::take).collect()
    }
}

impl Held {
    fn pass<'t>(&mut self, text: &'t str, markers: &[String]) -> Cow<'t, str> {
        let mut text =
            if self.text.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(std::mem::take(&mut self.text) + text) };
        if !self.begun
            && let Some(rest) = markers.iter().find_map(|marker| without_head(&text, marker))
        {
            text = Cow::Owned(rest.to_owned());
            self.begun = true;
        }
        let keep = text.len() - tail(&text, self.before, markers);
        text[keep..].clone_into(&mut self.text);
        self.begun |= !text[..keep].trim().is_empty();
        self.before = text[..keep].chars().next_back().or(self.before);
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..keep]),
            Cow::Owned(mut text) => {
                text.truncate(keep);
                Cow::Owned(text)
            }
        }
    }

    fn is_marker(&self, markers: &[String]) -> bool {
        markers.iter().any(|marker| self.text.trim() == marker)
    }

    fn take(&mut self) -> Option<(String, String)> {
        self.before = self.text.chars().next_back().or(self.before);
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then(|| (self.artifact.clone(), text))
    }
}

/// The text behind a marker at its start. A marker that is the whole text so far may be all of it: it is held as a tail is.
fn without_head<'t>(text: &'t str, marker: &str) -> Option<&'t str> {
    let behind = text.trim_start().strip_prefix(marker)?;
    let rest = behind.trim_start();
    (!rest.is_empty() && !joined(marker.chars().next_back(), behind.chars().next())).then_some(rest)
}

/// How many bytes at the end of `text`, which came behind `before`, are a marker with white space behind it, or may become one.
fn tail(text: &str, before: Option<char>, markers: &[String]) -> usize {
    let most = |marker: &String| {
        let whole = text.trim_end();
        if let Some(front) = whole.strip_suffix(marker.as_str())
            && !joined(front.chars().next_back().or(before), marker.chars().next())
        {
            return text.len() - front.len();
        }
        let begun =
            (1..marker.len()).rev().filter(|at| marker.is_char_boundary(*at)).find(|at| text.ends_with(&marker[..*at]));
        begun.unwrap_or(0)
    };
    markers.iter().filter(|marker| !marker.is_empty()).map(most).max().unwrap_or(0)
}

/// A marker that is a bare word must not be taken for a part of a longer one: `WAIT` in `WAITING`.
fn joined(left: Option<char>, right: Option<char>) -> bool {
    left.is_some_and(char::is_alphanumeric) && right.is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markers() -> [String; 2] {
        ["[INPUT_REQUIRED]".to_owned(), "WAIT".to_owned()]
    }

    /// What a client reads of a text that comes in `pieces`, with an event of another kind between any two.
    fn read(pieces: &[&str], between: bool) -> String {
        let mut tail = Tail::default();
        let mut out = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            out += &tail.pass("a", at > 0, piece, &markers());
            if between {
                out += &tail.release(None, &markers()).into_iter().map(|(_, text)| text).collect::<String>();
            }
        }
        out + &tail.release(None, &markers()).into_iter().map(|(_, text)| text).collect::<String>()
    }

    #[test]
    fn a_marker_at_either_end_is_taken_out_wherever_it_is_cut() {
        for (text, expected) in [
            ("Which city? [INPUT_REQUIRED]", "Which city? "),
            ("Which city?\n[INPUT_REQUIRED]\n", "Which city?\n"),
            ("[INPUT_REQUIRED] Which city?", "Which city?"),
            ("[INPUT_REQUIRED]", ""),
            ("a [INPUT_REQUIRED] b", "a [INPUT_REQUIRED] b"),
            ("an [INPUT that is none", "an [INPUT that is none"),
            ("ends with [INPUT_REQ", "ends with [INPUT_REQ"),
            ("é[", "é["),
            ("Which? WAIT", "Which? "),
            ("an AWAIT", "an AWAIT"),
            ("WAITING", "WAITING"),
            ("WAIT for it", "for it"),
        ] {
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(read(&[&text[..at], &text[at..]], false), expected, "{text} at {at}");
            }
            let single: Vec<_> = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
            assert_eq!(read(&single, false), expected, "{text}");
        }
    }

    #[test]
    fn a_whole_marker_waits_through_other_events_and_a_begun_one_does_not() {
        assert_eq!(read(&["Which city? [INPUT_REQUIRED]"], true), "Which city? ");
        assert_eq!(read(&["Which city? ", "[INPUT_REQUIRED]"], true), "Which city? ");
        assert_eq!(read(&["[INPUT_REQUIRED]", "Which city?"], true), "Which city?");
        assert_eq!(read(&["wor [IN", "PUT"], true), "wor [INPUT");
    }

    #[test]
    fn no_more_is_held_than_may_be_a_marker() {
        let mut tail = Tail::default();
        assert_eq!(tail.pass("a", false, "hello ", &markers()), "hello ");
        assert_eq!(tail.pass("a", true, "wor [IN", &markers()), "wor ");
        assert_eq!(tail.held_of("a"), Some("[IN"));
        assert!(tail.release(Some("a"), &markers()).is_empty());
        assert_eq!(tail.pass("b", false, "other [", &markers()), "other ");
        assert_eq!(tail.release(Some("b"), &markers()), [("a".into(), "[IN".into())]);
        assert_eq!(tail.pass("a", true, "PUT_REQUIRED]", &markers()), "PUT_REQUIRED]");
        assert_eq!(tail.release(None, &markers()), [("b".into(), "[".into())]);
    }
}
