//! What became of a context, as records to write: of a settlement its own turn and task, however long the transcript is.

use super::key::{self, Key, Piece};
use super::record;
use crate::context::Context;
use crate::conversation::transcript::Kept;
use crate::task::ClientTask;

/// A record to write, or, without a value, to remove.
pub(super) type Write = (Key, Option<Vec<u8>>);

/// Under which numbers the records of a context are kept, of those that tell none themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Of each task of the context.
    pub(super) tasks: Vec<u32>,
    /// Behind that of the newest turn kept apart; the others stand right before.
    pub(super) apart_end: u32,
}

/// The records that make `after` of `before`.
pub(super) fn writes(serial: u64, before: &Context, after: &Context, numbers: &mut Numbers) -> Vec<Write> {
    let mut writes = Vec::new();
    turns(serial, &before.turns, &after.turns, &mut writes);
    tasks(serial, &before.tasks, &after.tasks, numbers, &mut writes);
    apart(serial, &before.apart, &after.apart, numbers, &mut writes);
    writes
}

/// Both are in the order of their numbers.
fn turns(serial: u64, before: &[Kept], after: &[Kept], writes: &mut Vec<Write>) {
    let at = |turn: &Kept| key::piece(serial, Piece::Turn, turn.number);
    let mut old = before.iter().peekable();
    for turn in after {
        while let Some(gone) = old.next_if(|old| old.number < turn.number) {
            writes.push((at(gone), None));
        }
        let same = old.next_if(|old| old.number == turn.number).is_some_and(|old| old.is_same(turn));
        if !same {
            writes.push((at(turn), Some(record::turn(turn))));
        }
    }
    writes.extend(old.map(|gone| (at(gone), None)));
}

/// Tasks come at the end and go anywhere.
fn tasks(serial: u64, before: &[ClientTask], after: &[ClientTask], numbers: &mut Numbers, writes: &mut Vec<Write>) {
    let at = |number| key::piece(serial, Piece::Task, number);
    let next = numbers.tasks.last().map_or(0, |last| last + 1);
    let old = before.iter().zip(std::mem::take(&mut numbers.tasks));
    let mut new = after.iter().peekable();
    for (task, number) in old {
        match new.next_if(|new| new.id == task.id) {
            Some(new) if new == task => numbers.tasks.push(number),
            Some(new) => {
                writes.push((at(number), Some(record::write(new))));
                numbers.tasks.push(number);
            }
            None => writes.push((at(number), None)),
        }
    }
    for (task, number) in new.zip(next..) {
        writes.push((at(number), Some(record::write(task))));
        numbers.tasks.push(number);
    }
}

/// What was kept apart comes at the end and goes at the start.
fn apart(serial: u64, before: &[Kept], after: &[Kept], numbers: &mut Numbers, writes: &mut Vec<Write>) {
    let at = |number| key::piece(serial, Piece::Apart, number);
    let gone = after.first().and_then(|first| before.iter().position(|old| old.is_same(first)));
    let gone = gone.unwrap_or(before.len());
    let first = numbers.apart_end - before.len() as u32;
    writes.extend((first..).take(gone).map(|number| (at(number), None)));
    for turn in after.iter().skip(before.len() - gone) {
        writes.push((at(numbers.apart_end), Some(record::turn(turn))));
        numbers.apart_end += 1;
    }
}

/// The keys of all records of a context.
pub(super) fn all(serial: u64, context: &Context, numbers: &Numbers) -> Vec<Key> {
    let turns = context.turns.iter().map(|turn| key::piece(serial, Piece::Turn, turn.number));
    let tasks = numbers.tasks.iter().map(|number| key::piece(serial, Piece::Task, *number));
    let apart = (numbers.apart_end - context.apart.len() as u32..numbers.apart_end)
        .map(|number| key::piece(serial, Piece::Apart, number));
    let once = [Piece::Head, Piece::Lives].map(|piece| key::piece(serial, piece, 0));
    turns.chain(tasks).chain(apart).chain(once).collect()
}
