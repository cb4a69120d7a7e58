//! Questions that the user ordered are the content of the reply: interview questions, a quiz, a translation of a question.

use super::structure::{Line, Mark, Page, ceil, floor};
use super::words::{self, Kind};

/// No more of the user's message than this is read: the order stands at its start or its end.
const READ: usize = 400;

/// Whether the questions in the reply are what the user's message ordered.
pub(super) fn is_content(user: &str, page: &Page) -> bool {
    let order = ends(user).to_lowercase();
    let found = words::find(&order, 0..order.len());
    if found.has(Kind::Repeat) {
        return questions(page, |_| true) > 0 && !speaks_of_the_task(page);
    }
    let ordered = found.has(Kind::Make) && found.has(Kind::Questions);
    ordered && questions(page, |line| line != Line::Text) >= 2
}

fn ends(user: &str) -> String {
    let head = floor(user, READ);
    let tail = ceil(user, head.max(user.len().saturating_sub(READ)));
    [&user[..head], " ", &user[tail..]].concat()
}

fn questions(page: &Page, on: impl Fn(Line) -> bool) -> usize {
    page.sentences.iter().filter(|s| s.mark == Mark::Question && on(s.line)).count()
}

/// The question is about the order, not its fulfilment: "Which language should I translate it into?"
fn speaks_of_the_task(page: &Page) -> bool {
    page.sentences.iter().rev().take(2).any(|s| {
        let found = words::find(&page.clean, s.range.clone());
        found.has(Kind::Leave) || found.has(Kind::Request) || found.has(Kind::Repeat)
    })
}
