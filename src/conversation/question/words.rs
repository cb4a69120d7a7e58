//! The phrases, and the search for them.
//!
//! They stand in a file for each language, below the name of their kind, with `|` between them; every row is one that a speaker of the
//! language would agree with. A word that several languages share stands in one of them. A phrase is lower case. `^` at its start: only where a clause begins. `$` at its end: only where the sentence ends. `~` at its end: the
//! word may go on (an inflection). `*` inside: a gap of a few words. A space stands for any white space, `'` for any apostrophe. Scripts
//! that put no space between words are matched anywhere.

use std::ops::Range;

use self::files::KINDS;
use self::index::{Start, begins};
use super::structure::{ceil, floor, is_word};

mod files;
mod index;

/// What a phrase says about the sentence that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It asks, with or without a mark.
    Question,
    /// It asks the user for something, as a statement or an order.
    Request,
    /// It orders the user to give something, without a "please": in a list that is as likely a step of an instruction. Rows of kind
    /// [`Kind::Request`] that begin with `^` are of this kind.
    Order,
    /// It orders the user to give something, in the words of a step of an instruction: counts in a short reply only.
    Step,
    /// It offers more help.
    Closer,
    /// It asks, though it holds words of an offer: "to assist you further, which …".
    Still,
    /// It is none of that, though it holds words that say so: "please note", "please contact them".
    Not,
    /// Farewell, thanks, a rhetorical question: says nothing either way.
    Courtesy,
    /// It goes with the question before it: "for example", "once you confirm".
    Follow,
    /// The agent went on without an answer: "I assumed".
    Done,
    /// It speaks to the user, or of the agent and the user.
    Address,
    /// It leaves the answer open: "which".
    Open,
    /// It gives a choice: "or".
    Choice,
    /// A yes alone would not do: "any", "another", "specify".
    Vague,
    /// A yes or no is asked for.
    Approval,
    /// What the user would like: of a question that leaves nothing open the answer is a yes or no.
    Wish,
    /// To go on. A question for that is one for approval; what is needed to go on is something else.
    Proceed,
    /// To tell more of what was told: after a long answer an offer, not a question.
    Offer,
    /// The agent asks leave to act, whatever the object: "shall I".
    Leave,
    /// A password or the like is named.
    Credential,
    /// A file or form is to be handed over.
    Artifact,
    /// A file or form is named.
    Document,
    /// Words of the user's message that order text …
    Make,
    /// … which consists of questions.
    Questions,
    /// … or in which questions are at home: a letter, an advertisement …
    Piece,
    /// … or which repeats what the user gave: a translation, a correction.
    Repeat,
    /// The agent takes up the order and has not fulfilled it: "sure", "happy to".
    Willing,
}

/// No sentence is searched beyond this: what asks stands at its start or its end.
const REACH: usize = 400;
/// A bare order stands at the start of its sentence, after a word like "okay" at most.
const START: usize = 20;
/// The longest gap that `*` stands for.
const GAP: usize = 60;

/// Where the first phrase of each kind was found.
#[derive(Debug, Default)]
pub(super) struct Found([Option<(usize, usize)>; KINDS.len()]);

impl Found {
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.at(kind).is_some()
    }

    pub(super) fn at(&self, kind: Kind) -> Option<Range<usize>> {
        self.0[kind as usize].map(|(start, end)| start..end)
    }
}

/// Finds the phrases in a sentence of `text`, which is lower case.
pub(super) fn find(text: &str, sentence: Range<usize>) -> Found {
    let text = &text[..sentence.end];
    let mut found = Found::default();
    let head = floor(text, sentence.end.min(sentence.start + REACH));
    let tail = ceil(text, head.max(sentence.end.saturating_sub(REACH)));
    scan(text, sentence.start..head, true, &mut found);
    scan(text, tail..sentence.end, tail == sentence.start, &mut found);
    found
}

fn scan(text: &str, range: Range<usize>, mut clause: bool, found: &mut Found) {
    let (mut before, mut first) = (' ', clause);
    for (i, c) in text[range.clone()].char_indices() {
        let at = range.start + i;
        if is_separator(c) || c == '-' && before == ' ' {
            clause = true;
        } else if is_word(c) {
            if !is_joined(before, c) {
                look(text, at, Place { clause, start: at < range.start + START, first }, found);
            }
            (clause, first) = (false, false);
        }
        before = c;
    }
}

/// Where in its sentence a word stands.
#[derive(Clone, Copy)]
struct Place {
    clause: bool,
    start: bool,
    first: bool,
}

fn look(text: &str, at: usize, place: Place, found: &mut Found) {
    let mut chars = text[at..].chars();
    let Some(first) = chars.next() else { return };
    let start = begins(first, chars.next());
    look_for(start, text, at, place, found);
    if start.1 != '\0' && is_unspaced(first) {
        look_for((first, '\0'), text, at, place, found);
    }
}

fn look_for(start: Start, text: &str, at: usize, place: Place, found: &mut Found) {
    let here = &text.as_bytes()[at..];
    for phrase in index::begun(start) {
        let allowed = match phrase.kind {
            // "Then enter the amount" is a step of an instruction, whoever reads it.
            Kind::Step => place.first,
            Kind::Order => place.clause && place.start,
            _ => place.clause || !phrase.clause,
        };
        let slot = &mut found.0[phrase.kind as usize];
        if allowed && slot.is_none() && here.starts_with(phrase.plain) {
            *slot = matched(phrase.first, phrase.rest, text, at).map(|end| (at, end));
        }
    }
}

/// The end of the phrase that begins at `at`; `rest` is what stands behind its gap.
fn matched(first: &str, rest: Option<&str>, text: &str, at: usize) -> Option<usize> {
    let end = literal(first, text, at)?;
    let Some(rest) = rest else { return Some(end) };
    let (first, rest) = rest.split_once('*').map_or((rest, None), |(a, b)| (a, Some(b)));
    let begin = first.chars().next()?;
    let reach = floor(text, text.len().min(end + GAP));
    text[end..reach].char_indices().filter(|(_, c)| *c == begin).find_map(|(i, here)| {
        let at = end + i;
        let before = text[..at].chars().next_back().unwrap_or(' ');
        if is_joined(before, here) { None } else { matched(first, rest, text, at) }
    })
}

/// Byte by byte: the signs of a phrase are ASCII, and this is the innermost loop.
fn literal(phrase: &str, text: &str, mut at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    for &p in phrase.as_bytes() {
        match p {
            b'~' => return Some(at),
            b'$' => return text.get(at..)?.chars().all(|c| !is_word(c)).then_some(at),
            b' ' => at = Some(skip_space(text, at)).filter(|&to| to > at)?,
            b'\'' => at = text.len() - text[skip_space(text, at)..].strip_prefix(['\'', '’'])?.len(),
            _ if bytes.get(at) == Some(&p) => at += 1,
            _ => return None,
        }
    }
    let last = phrase.chars().next_back().unwrap_or(' ');
    let next = text[at..].chars().next().unwrap_or(' ');
    (!is_joined(last, next)).then_some(at)
}

fn skip_space(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches([' ', '\t', '\u{a0}', '\u{3000}']).len()
}

/// Whether two neighbours are inside one word. In Han, Kana, Thai and the like, and in Hangul with its endings, nothing is.
fn is_joined(left: char, right: char) -> bool {
    let within = is_word(left) || matches!(left, '\'' | '’');
    within && is_word(right) && !is_unspaced(left) && !is_unspaced(right)
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..)
}

fn is_separator(c: char) -> bool {
    matches!(
        c,
        ',' | ':'
            | ';'
            | '('
            | '['
            | '\n'
            | '\u{1}'
            | '，'
            | '、'
            | '：'
            | '；'
            | '（'
            | '،'
            | '؛'
            | '–'
            | '—'
            | '¿'
            | '.'
            | '!'
            | '?'
            | '…'
            | '。'
    )
}
