//! Markers in a stream: a piece of text that may end in one, or begin one, is held back by just that much.

use std::borrow::Cow;

/// Holds back the tail of an artifact's text that may be, or become, a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    artifact: String,
    /// Text that came and was not passed on.
    held: String,
    /// Whether anything of the artifact's text was passed on.
    begun: bool,
}

impl Tail {
    /// Takes in a piece of an artifact's text; what may be passed on of it, with what was held before. `append` as in the event.
    pub fn pass<'t>(&mut self, artifact: &str, append: bool, text: &'t str, markers: &[String]) -> Cow<'t, str> {
        if !append || self.artifact != artifact {
            *self = Self { artifact: artifact.to_owned(), ..Self::default() };
        }
        let mut text =
            if self.held.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(std::mem::take(&mut self.held) + text) };
        if !self.begun
            && let Some(marker) = markers.iter().find(|marker| text.trim_start().starts_with(marker.as_str()))
        {
            let rest = text.trim_start()[marker.len()..].trim_start();
            // A marker that is the whole text so far may be all of it: it is held as a tail is.
            if !rest.is_empty() {
                text = Cow::Owned(rest.to_owned());
                self.begun = true;
            }
        }
        let keep = text.len() - tail(&text, markers);
        text[keep..].clone_into(&mut self.held);
        self.begun |= !text[..keep].trim().is_empty();
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..keep]),
            Cow::Owned(mut text) => {
                text.truncate(keep);
                Cow::Owned(text)
            }
        }
    }

    /// Whether a piece of this artifact is the only thing that would go on from what is held.
    pub fn goes_on(&self, artifact: &str, append: bool) -> bool {
        self.held.is_empty() || append && self.artifact == artifact
    }

    /// What is held, as another event comes: the artifact and its text. At the turn's `end` a whole marker is no text.
    pub fn release(&mut self, end: bool, markers: &[String]) -> Option<(String, String)> {
        let held = std::mem::take(&mut self.held);
        let is_marker = markers.iter().any(|marker| held.trim() == marker);
        (!held.is_empty() && (!end || !is_marker)).then(|| (self.artifact.clone(), held))
    }
}

/// How many bytes at the end of `text` are a marker with white space behind it, or may become one.
fn tail(text: &str, markers: &[String]) -> usize {
    let most = |marker: &String| {
        let whole = text.trim_end();
        if whole.ends_with(marker.as_str()) {
            return text.len() - (whole.len() - marker.len());
        }
        let begun =
            (1..marker.len()).rev().filter(|at| marker.is_char_boundary(*at)).find(|at| text.ends_with(&marker[..*at]));
        begun.unwrap_or(0)
    };
    markers.iter().map(most).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client reads of a text that comes in `pieces`, and whether it waits at the end for no more than a marker.
    fn read(pieces: &[&str]) -> String {
        let markers = ["[INPUT_REQUIRED]".to_owned()];
        let mut tail = Tail::default();
        let mut out = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            out += &tail.pass("a", at > 0, piece, &markers);
        }
        out += &tail.release(true, &markers).map(|(_, held)| held).unwrap_or_default();
        out
    }

    #[test]
    fn a_marker_at_either_end_is_taken_out_wherever_it_is_cut() {
        for (text, expected) in [
            ("Which city? [INPUT_REQUIRED]", "Which city? "),
            ("Which city?\n[INPUT_REQUIRED]\n", "Which city?\n"),
            ("[INPUT_REQUIRED] Which city?", "Which city?"),
            ("a [INPUT_REQUIRED] b", "a [INPUT_REQUIRED] b"),
            ("an [INPUT that is none", "an [INPUT that is none"),
            ("ends with [INPUT_REQ", "ends with [INPUT_REQ"),
            ("é[", "é["),
        ] {
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(read(&[&text[..at], &text[at..]]), expected, "{text} at {at}");
            }
            let single: Vec<_> = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
            assert_eq!(read(&single), expected, "{text}");
        }
    }

    #[test]
    fn no_more_is_held_than_may_be_a_marker() {
        let markers = ["[INPUT_REQUIRED]".to_owned()];
        let mut tail = Tail::default();
        assert_eq!(tail.pass("a", false, "hello ", &markers), "hello ");
        assert_eq!(tail.pass("a", true, "wor [IN", &markers), "wor ");
        assert!(!tail.goes_on("b", false));
        assert_eq!(tail.release(false, &markers), Some(("a".into(), "[IN".into())));
    }
}
