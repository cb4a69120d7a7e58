//! Questions that the user ordered are the content of the reply: interview questions, a quiz, a translation of a question.

use super::structure::{Line, Mark, Page, Sentence, ceil, floor};
use super::words::{self, Kind};

/// No more of the user's message than this is read: the order stands at its start or its end.
const READ: usize = 400;

/// Whether the questions in the reply are what the user's message ordered.
pub(super) fn is_content(user: &str, page: &Page) -> bool {
    let order = ends(user).to_lowercase();
    let found = words::find(&order, 0..order.len());
    let makes = found.has(Kind::Make);
    if found.has(Kind::Repeat) || makes && found.has(Kind::Piece) && is_piece(page) {
        return questions(page, |_| true) > 0 && !speaks_of_the_task(page);
    }
    makes && found.has(Kind::Questions) && questions(page, |s| s.line != Line::Text || is_alone(page, s)) >= 2
}

/// A question to the reader alone is about the piece; in the piece itself there is more, or it is to nobody.
fn is_piece(page: &Page) -> bool {
    page.sentences.len() > 2
        || !page.sentences.iter().any(|s| words::find(&page.clean, s.range.clone()).has(Kind::Address))
}

/// Whether the sentence has its line to itself.
fn is_alone(page: &Page, sentence: &Sentence) -> bool {
    let (before, after) = (&page.clean[..sentence.range.start], &page.clean[sentence.range.end..]);
    before.trim_end_matches(' ').chars().next_back().is_none_or(|c| c == '\n')
        && after.trim_start_matches(' ').chars().next().is_none_or(|c| c == '\n')
}

fn ends(user: &str) -> String {
    let head = floor(user, READ);
    let tail = ceil(user, head.max(user.len().saturating_sub(READ)));
    [&user[..head], " ", &user[tail..]].concat()
}

fn questions(page: &Page, of: impl Fn(&Sentence) -> bool) -> usize {
    page.sentences.iter().filter(|s| s.mark == Mark::Question && of(s)).count()
}

/// The question is about the order, not its fulfilment: "Which language should I translate it into?"
fn speaks_of_the_task(page: &Page) -> bool {
    const TASK: [Kind; 5] = [Kind::Leave, Kind::Repeat, Kind::Piece, Kind::Questions, Kind::Still];
    let has = |sentence: &Sentence, kinds: &[Kind]| {
        let found = words::find(&page.clean, sentence.range.clone());
        kinds.iter().any(|kind| found.has(*kind))
    };
    let mut last = page.sentences.iter().rev().take(2);
    let announced = page.sentences.iter().any(|s| page.clean[s.range.clone()].trim_end().ends_with([':', '：']));
    !announced && page.sentences.iter().take(2).any(|s| has(s, &[Kind::Willing]))
        || last.any(|s| match s.mark {
            Mark::Question => has(s, &TASK),
            Mark::Other => has(s, &[Kind::Leave, Kind::Request]),
        })
}
