//! What the agent said: the reply of a turn, rebuilt from what the client saw.
//!
//! It comes from one source, the first that has text: artifacts, the message of the final status, the last agent message in the history, a
//! bare message. What SDKs put into the history of a task is progress chatter as often as an answer, so artifacts come first.

use sha2::{Digest, Sha256};

use super::digest;
use super::policy;
use super::transcript::{Artifact, Reply, Source, Spoken};
use crate::a2a::{Part, read_parts_where, text_of};
use crate::json::Value;

/// An artifact as the agent sent it, piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its id at the agent.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its parts so far.
    pub parts: Vec<Part>,
    /// Whether it is marked as a thought.
    pub thought: bool,
}

/// What was heard from the agent so far in a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    /// Artifacts, in the order first seen.
    pub artifacts: Vec<Heard>,
    /// The message of the newest status that ends the turn.
    pub status: Option<Spoken>,
    /// The last agent message in the history after the turn's own user message.
    pub history: Option<Spoken>,
    /// The bare message that is the whole answer.
    pub message: Option<Spoken>,
}

impl Hearing {
    /// A piece of an artifact: added to what came before under its id, or in its place.
    pub fn artifact(&mut self, artifact: Value<'_, '_>, append: bool, rules: &policy::Reply) {
        let word = |name| artifact.some(name).and_then(|word| word.str()).map(std::borrow::Cow::into_owned);
        let id = word("artifactId").unwrap_or_default();
        let at = self.artifacts.iter().position(|heard| heard.id == id).unwrap_or_else(|| {
            self.artifacts.push(Heard { id, name: None, parts: Vec::new(), thought: false });
            self.artifacts.len() - 1
        });
        let heard = &mut self.artifacts[at];
        heard.name = word("name").or(heard.name.take());
        heard.thought |= is_thought(artifact, rules);
        if !append {
            heard.parts.clear();
        }
        add(&mut heard.parts, said_parts(artifact, rules));
    }

    /// A snapshot: all artifacts that there are.
    pub fn artifacts(&mut self, artifacts: &[Value<'_, '_>], rules: &policy::Reply) {
        for artifact in artifacts {
            self.artifact(*artifact, false, rules);
        }
    }
}

/// Text that follows text is one text: a reply of ten thousand chunks is kept as one part.
fn add(parts: &mut Vec<Part>, more: Vec<Part>) {
    for part in more {
        match (parts.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(text)) => *before += &text,
            (_, part) => parts.push(part),
        }
    }
}

/// The parts of a message or artifact that are not marked as thoughts.
pub fn said_parts(owner: Value<'_, '_>, rules: &policy::Reply) -> Vec<Part> {
    read_parts_where(owner, |part| !is_thought(part, rules))
}

fn is_thought(owner: Value<'_, '_>, rules: &policy::Reply) -> bool {
    let Some(metadata) = owner.some("metadata") else { return false };
    // Most metadata names none of the flags: it is not opened then.
    if !rules.thoughts.iter().any(|flag| metadata.raw().contains(flag)) {
        return false;
    }
    let metadata = metadata.open();
    rules.thoughts.iter().any(|flag| metadata.root().get(flag).and_then(|value| value.bool()) == Some(true))
}

/// Which artifacts, by their place, and which message make up the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// Where it was found.
    pub source: Source,
    /// Of a reply in artifacts: their places in [`Hearing::artifacts`].
    pub from: Vec<u32>,
    /// Of any other: the message.
    pub message: Option<Spoken>,
}

/// Finds the reply among what was heard. `new` tells whether an artifact is new or changed since the task's previous settle.
pub fn rebuild(hearing: &Hearing, rules: &policy::Reply, new: impl Fn(&Heard) -> bool) -> Rebuilt {
    let candidates = hearing.artifacts.iter().enumerate().filter(|(_, heard)| new(heard) && !is_skipped(heard, rules));
    let candidates: Vec<_> = candidates.map(|(at, heard)| (at as u32, heard)).collect();
    let has_text = |heard: &Heard| heard.parts.iter().filter_map(Part::text).any(|text| !text.trim().is_empty());
    let preferred = rules.artifacts.iter().find_map(|wanted| {
        candidates
            .iter()
            .find(|(_, heard)| (heard.id == *wanted || heard.name.as_ref() == Some(wanted)) && has_text(heard))
    });
    let texts = || candidates.iter().filter(|(_, heard)| has_text(heard)).map(|(at, _)| *at).collect::<Vec<_>>();
    let from = preferred.map_or_else(texts, |(at, _)| vec![*at]);
    if !from.is_empty() {
        return Rebuilt { source: Source::Artifacts, from, message: None };
    }
    let spoken =
        [(Source::Status, &hearing.status), (Source::History, &hearing.history), (Source::Message, &hearing.message)];
    let with_text = |message: &&Spoken| !text_of(&message.parts).trim().is_empty();
    for (source, message) in spoken {
        if let Some(message) = message.as_ref().filter(with_text) {
            return Rebuilt { source, from: Vec::new(), message: Some(message.clone()) };
        }
    }
    // No text anywhere: a bare message or artifacts of data and files are a reply all the same.
    if let Some(message) = &hearing.message {
        return Rebuilt { source: Source::Message, from: Vec::new(), message: Some(message.clone()) };
    }
    let from: Vec<_> = candidates.iter().filter(|(_, heard)| !heard.parts.is_empty()).map(|(at, _)| *at).collect();
    let source = if from.is_empty() { Source::Nothing } else { Source::Artifacts };
    Rebuilt { source, from, message: None }
}

fn is_skipped(heard: &Heard, rules: &policy::Reply) -> bool {
    let names = [Some(&heard.id), heard.name.as_ref()];
    heard.thought || names.into_iter().flatten().any(|name| rules.skip.iter().any(|pattern| matches(pattern, name)))
}

/// Whether `text` is of `pattern`, in which `*` stands for anything; letter case does not count.
fn matches(pattern: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let pattern = pattern.to_lowercase();
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The artifact as it is kept, under the id that the client saw.
pub fn keep(heard: &Heard, id: &str) -> Artifact {
    let (size, sha256) = fingerprint(&heard.parts);
    Artifact {
        id: id.to_owned(),
        upstream_id: (id != heard.id).then(|| heard.id.clone()),
        name: heard.name.clone(),
        parts: heard.parts.clone(),
        size,
        sha256,
    }
}

/// Size and SHA-256 of an artifact's content: of its text, joined; of the one part that it has; else of its parts' hashes.
pub fn fingerprint(parts: &[Part]) -> (u64, [u8; 32]) {
    if parts.iter().all(|part| part.text().is_some()) {
        let text = text_of(parts);
        return (text.len() as u64, Sha256::digest(&text).into());
    }
    let each: Vec<_> = parts.iter().map(content).collect();
    let size = each.iter().map(|(size, _)| size).sum();
    match &each[..] {
        [(_, one)] => (size, *one),
        all => (size, Sha256::digest(all.iter().flat_map(|(_, sha256)| *sha256).collect::<Vec<u8>>()).into()),
    }
}

fn content(part: &Part) -> (u64, [u8; 32]) {
    match part {
        Part::Text(text) => (text.len() as u64, Sha256::digest(text).into()),
        // As the digest has it: two spellings of the same data are the same.
        Part::Data(json) => (json.len() as u64, digest::data(json).0),
        Part::File(file) => file.receipt.unwrap_or_else(|| {
            let url = file.url.as_deref().unwrap_or_default();
            (url.len() as u64, Sha256::digest(url).into())
        }),
    }
}

/// Reply and artifacts as they are kept.
pub fn record(rebuilt: &Rebuilt) -> Reply {
    let message = rebuilt.message.as_ref();
    Reply {
        source: rebuilt.source,
        from: rebuilt.from.clone(),
        id: message.map(|message| message.id.clone()).unwrap_or_default(),
        parts: message.map(|message| message.parts.clone()).unwrap_or_default(),
        question: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Doc;

    fn rules() -> policy::Reply {
        policy::Reply::default()
    }

    fn hear(pieces: &[(&str, bool)]) -> Hearing {
        let mut hearing = Hearing::default();
        for (text, append) in pieces {
            hearing.artifact(Doc::scan(text.as_bytes()).unwrap().root(), *append, &rules());
        }
        hearing
    }

    fn reply_of(hearing: &Hearing) -> (Source, String) {
        let rebuilt = rebuild(hearing, &rules(), |_| true);
        let texts: Vec<_> = rebuilt.from.iter().map(|at| text_of(&hearing.artifacts[*at as usize].parts)).collect();
        let text = rebuilt.message.map_or_else(|| texts.join("\n\n"), |message| text_of(&message.parts));
        (rebuilt.source, text)
    }

    fn artifact(id: &str, text: &str) -> String {
        format!(r#"{{"artifactId":"{id}","parts":[{{"text":"{text}"}}]}}"#)
    }

    fn spoken(text: &str) -> Option<Spoken> {
        Some(Spoken { id: "m".into(), parts: vec![Part::Text(text.into())] })
    }

    #[test]
    fn chunks_join_without_a_separator_and_a_new_start_replaces() {
        let (a, b, c) = (artifact("a1", "Hel"), artifact("b1", "other"), artifact("a1", "lo"));
        let hearing = hear(&[(&a, false), (&b, false), (&c, true)]);
        assert_eq!(reply_of(&hearing), (Source::Artifacts, "Hello\n\nother".into()));
        let (draft, fine) = (artifact("a1", "draft"), artifact("a1", "final text"));
        assert_eq!(reply_of(&hear(&[(&draft, false), (&fine, false)])).1, "final text");
        let many: Vec<_> = (0..1000).map(|_| (&*a, true)).collect();
        assert_eq!(hear(&many).artifacts[0].parts.len(), 1);
    }

    #[test]
    fn the_named_artifact_is_the_reply_and_tools_are_not() {
        let (tool, response, last) = (artifact("tool", "42"), artifact("response", "It is 7."), artifact("final", "7"));
        assert_eq!(reply_of(&hear(&[(&tool, false), (&last, false), (&response, false)])).1, "It is 7.");
        assert_eq!(reply_of(&hear(&[(&tool, false), (&last, false)])).1, "7");
        let empty = artifact("response", " ");
        assert_eq!(reply_of(&hear(&[(&empty, false), (&last, false)])).1, "7");
        for skipped in ["Reasoning", "my-scratchpad-1", "tool-call-7", "Thoughts", "tool_calls"] {
            let piece = artifact(skipped, "x");
            assert_eq!(reply_of(&hear(&[(&piece, false)])).0, Source::Nothing, "{skipped}");
        }
        for kept in ["toolbox-report", "answer", "a1"] {
            let piece = artifact(kept, "x");
            assert_eq!(reply_of(&hear(&[(&piece, false)])).0, Source::Artifacts, "{kept}");
        }
    }

    #[test]
    fn thoughts_are_told_by_their_metadata() {
        let part = r#"{"artifactId":"a","parts":[{"text":"hm","metadata":{"adk_thought":true}},{"text":"yes","metadata":{"thought":false}}]}"#;
        assert_eq!(reply_of(&hear(&[(part, false)])).1, "yes");
        let whole = r#"{"artifactId":"a","metadata":{"thought":true},"parts":[{"text":"hm"}]}"#;
        assert_eq!(reply_of(&hear(&[(whole, false)])).0, Source::Nothing);
    }

    #[test]
    fn one_source_counts_and_the_order_is_fixed() {
        let piece = artifact("a1", "artifact");
        let mut hearing = hear(&[(&piece, false)]);
        hearing.status = spoken("status");
        hearing.history = spoken("history");
        hearing.message = spoken("message");
        assert_eq!(reply_of(&hearing), (Source::Artifacts, "artifact".into()));
        hearing.artifacts.clear();
        assert_eq!(reply_of(&hearing), (Source::Status, "status".into()));
        hearing.status = spoken(" ");
        assert_eq!(reply_of(&hearing), (Source::History, "history".into()));
        hearing.history = None;
        assert_eq!(reply_of(&hearing), (Source::Message, "message".into()));
    }

    #[test]
    fn only_what_is_new_counts_on_a_continued_task() {
        let (old, new) = (artifact("a1", "old"), artifact("a2", "new"));
        let hearing = hear(&[(&old, false), (&new, false)]);
        let rebuilt = rebuild(&hearing, &rules(), |heard| heard.id != "a1");
        assert_eq!(rebuilt.from, [1]);
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("tool", "tool", true),
            ("tool", "toolbox", false),
            ("tool*", "TOOLBOX", true),
            ("*call*", "a-call-b", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
