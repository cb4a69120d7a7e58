//! The rules of language: walk back from the end of the reply until a sentence decides.

use std::ops::Range;

use super::structure::{self, Line, Mark, Page, Sentence};
use super::words::{self, Found, Kind};
use super::{Decision, Expected, Level, Reason, Reply, answer, explicit, ordered};

/// No more sentences than this are looked at, from the end.
const SENTENCES: usize = 24;
/// A reply of no more sentences than this is short: an order in it is for the user, not a step of an instruction.
const SHORT: usize = 4;
/// A reply of more sentences than this told much: an offer to tell more is one.
const LONG: usize = 4;
/// This many statements may follow a question that speaks to the user.
const REMARKS: usize = 2;

/// What a sentence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It asks, with a question's mark or form.
    Question,
    /// It asks for something in other words.
    Request,
    Closer,
    /// Says nothing either way.
    Neutral,
    /// The agent went on by itself.
    Done,
    Statement,
}

pub(super) fn decide(reply: &Reply<'_>, user: &str, level: Level) -> Decision {
    if reply.text.trim_end().is_empty() {
        return Decision::not(if reply.data.is_some() { Reason::Code } else { Reason::Empty }, 1.0);
    }
    if reply.is_file() || explicit::object(reply.text).is_some() {
        return Decision::not(Reason::Code, 0.95);
    }
    let page = structure::read(reply.text);
    if page.sentences.is_empty() {
        return Decision::not(Reason::Code, 0.95);
    }
    let walk = walk(&page, level);
    match walk.ask {
        Some(_) if walk.listed || is_in_sections(&page) || ordered::is_content(user, &page) => {
            Decision::not(Reason::Ordered, 0.9)
        }
        Some(ref ask) => asking(&page, &walk, ask),
        None => Decision::not(walk.reason(&page), 0.9),
    }
}

/// Questions as items under several headings are a document: a guide, a catalogue of questions.
fn is_in_sections(page: &Page) -> bool {
    let mut sections = 0;
    let mut fresh = false;
    for sentence in &page.sentences {
        match sentence.line {
            Line::Heading => fresh = true,
            Line::Item if sentence.mark == Mark::Question && fresh => (sections, fresh) = (sections + 1, false),
            _ => {}
        }
    }
    sections > 1 && page.sentences.last().is_some_and(|last| last.line == Line::Item)
}

/// For what a text waits that is known to wait.
pub(super) fn expected(text: &str) -> Expected {
    let page = structure::read(text);
    walk(&page, Level::Balanced).expected
}

/// The sentence that asks.
#[derive(Clone, Debug)]
struct Ask {
    act: Act,
    words: Range<usize>,
    addressed: bool,
}

/// What the way back from the end has seen.
#[derive(Debug, Default)]
struct Walk {
    ask: Option<Ask>,
    /// From the first asking sentence to the end of the last.
    asked: Option<Range<usize>>,
    expected: Expected,
    /// One of the questions leaves the answer open.
    open: bool,
    closer: bool,
    /// The reply told much.
    long: bool,
    /// Statements after the question.
    remarks: usize,
    /// Anything, a list too, after the question.
    followed: bool,
    /// The questions are items of a list that is headed as one: "Questions to ask your landlord:".
    listed: bool,
}

impl Walk {
    fn reason(&self, page: &Page) -> Reason {
        match self.closer {
            true => Reason::Closer,
            false if page.ends_masked => Reason::Code,
            false => Reason::Statement,
        }
    }
}

fn walk(page: &Page, level: Level) -> Walk {
    let mut headed = false;
    let mut walk = Walk { followed: page.ends_masked, long: is_long(page), ..Walk::default() };
    for sentence in page.sentences.iter().rev().take(SENTENCES) {
        let found = words::find(&page.clean, sentence.range.clone());
        let act = act(page, sentence, &found);
        match act {
            Act::Question | Act::Request => {
                let asks = walk.ask(sentence, act, &found, level);
                if !asks {
                    break;
                }
            }
            _ if walk.ask.is_some() => {
                headed = found.has(Kind::Not);
                break;
            }
            Act::Closer => walk.closer = true,
            Act::Neutral => {}
            Act::Done => break,
            Act::Statement if sentence.line == Line::Item => walk.list(&found),
            Act::Statement => {
                walk.remarks += 1;
                walk.followed = true;
                if walk.remarks > remarks(level) {
                    break;
                }
            }
        }
    }
    walk.listed &= headed;
    // A yes would answer one of the questions only.
    if walk.open && walk.expected == Expected::Approval {
        walk.expected = Expected::FreeText;
    }
    walk
}

fn remarks(level: Level) -> usize {
    if level == Level::Strict { 0 } else { REMARKS }
}

impl Walk {
    /// Items after a question are its options, after a request what is asked for.
    fn list(&mut self, found: &Found) {
        self.followed = true;
        self.expected = answer::more(self.expected, answer::named(found));
    }

    /// Takes a sentence that asks. False if it does not count here, or if it is not to be looked beyond.
    fn ask(&mut self, sentence: &Sentence, act: Act, found: &Found, level: Level) -> bool {
        let addressed = act == Act::Request || found.has(Kind::Address) || found.has(Kind::Leave);
        if self.ask.is_none() && !addressed && (self.followed || sentence.line == Line::Heading) {
            return false;
        }
        // One that speaks to the user in no known form is as likely answered by what follows in its paragraph.
        let known = [Kind::Question, Kind::Leave, Kind::Wish, Kind::Approval].iter().any(|kind| found.has(*kind));
        if self.ask.is_none() && act == Act::Question && (self.remarks > 1 || self.long && self.remarks > 0) && !known {
            return false;
        }
        // A heading that asks is answered by the text below it.
        if self.ask.is_none() && sentence.line == Line::Heading && self.remarks > 0 {
            return false;
        }
        if self.ask.is_none() && level == Level::Strict && !is_plain(sentence, act, found, addressed) {
            return false;
        }
        let range = sentence.range.clone();
        self.asked = Some(range.start..self.asked.as_ref().map_or(range.end, |a| a.end));
        self.expected = answer::more(self.expected, answer::kind(act, found));
        self.open |= found.has(Kind::Open) && act == Act::Question;
        let kinds = if act == Act::Request { [Kind::Request, Kind::Order] } else { [Kind::Question, Kind::Question] };
        let words = kinds.into_iter().find_map(|k| found.at(k)).unwrap_or_else(|| range.clone());
        self.listed = sentence.line == Line::Item;
        self.ask.get_or_insert(Ask { act, words, addressed });
        true
    }
}

/// At `strict` a question has its mark and speaks to the user.
fn is_plain(sentence: &Sentence, act: Act, found: &Found, addressed: bool) -> bool {
    act == Act::Request || addressed && (sentence.mark == Mark::Question || found.has(Kind::Question))
}

fn act(page: &Page, sentence: &Sentence, found: &Found) -> Act {
    let before = |a: Kind, b: Kind| found.at(a).is_some_and(|a| found.at(b).is_none_or(|b| a.start < b.start));
    let marked = sentence.mark == Mark::Question;
    let ordered = found.has(Kind::Order) || found.has(Kind::Step) && page.sentences.len() <= SHORT;
    let requests = (found.has(Kind::Request) || ordered && sentence.line == Line::Text) && !found.has(Kind::Not);
    let offers = found.has(Kind::Closer) || found.has(Kind::Offer) && is_long(page);
    if offers && !found.has(Kind::Still) && !before(Kind::Request, Kind::Closer) {
        return Act::Closer;
    }
    if found.has(Kind::Courtesy) && !(marked && before(Kind::Question, Kind::Courtesy)) && !requests {
        return Act::Neutral;
    }
    if found.has(Kind::Done) && !marked {
        return Act::Done;
    }
    let asks = match found.has(Kind::Not) {
        true => marked && found.has(Kind::Question),
        false => marked || found.has(Kind::Question) || is_bare_question(page, sentence, found),
    };
    if asks {
        return Act::Question;
    }
    if requests {
        return Act::Request;
    }
    let bracketed = page.clean[sentence.range.clone()].trim_start().starts_with(['(', '（']);
    if found.has(Kind::Follow) || bracketed { Act::Neutral } else { Act::Statement }
}

/// Whether the reply told much before its last sentence.
fn is_long(page: &Page) -> bool {
    page.base > 0 || page.sentences.len() > LONG
}

/// The last sentence begins or ends with a word that leaves something open, and has no mark at all: "Which colour do you want".
fn is_bare_question(page: &Page, sentence: &Sentence, found: &Found) -> bool {
    let Some(open) = found.at(Kind::Open) else { return false };
    let text = page.clean[sentence.range.clone()].trim();
    let start = sentence.range.start + page.clean[sentence.range.clone()].find(char::is_alphanumeric).unwrap_or(0);
    let end = sentence.range.start + page.clean[sentence.range.clone()].trim_end().len();
    sentence.line == Line::Text
        && sentence.range.end == page.sentences.last().map_or(0, |last| last.range.end)
        && text.ends_with(char::is_alphanumeric)
        && (open.start == start || open.end == end && !text.is_ascii())
        && found.has(Kind::Address)
}

fn asking(page: &Page, walk: &Walk, ask: &Ask) -> Decision {
    let shift = |r: &Range<usize>| r.start + page.base..r.end + page.base;
    let reason = if ask.act == Act::Request { Reason::Request } else { Reason::Question };
    let confidence = match (ask.addressed, walk.remarks) {
        (true, 0) => 0.95,
        (true, _) => 0.8,
        (false, _) => 0.7,
    };
    let asked = walk.asked.as_ref().map(shift);
    let words = vec![shift(&ask.words)];
    Decision { waiting: true, expected: walk.expected, words, asked, ..Decision::not(reason, confidence) }
}
