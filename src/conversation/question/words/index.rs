//! The phrases by how they begin, in a table of its own: the search asks it at every word, and comparing keys was half of its time.

use std::sync::LazyLock;

use super::super::structure::is_word;
use super::Kind;
use super::files::{FILES, Row, rows};

/// How a phrase begins: its first two letters, or one and `\0`.
pub(super) type Start = (char, char);

pub(super) fn begins(first: char, second: Option<char>) -> Start {
    (first, second.filter(|c| is_word(*c)).unwrap_or_default())
}

/// A phrase, taken apart.
#[derive(Debug)]
pub(super) struct Phrase {
    pub kind: Kind,
    /// Only where a clause begins.
    pub clause: bool,
    /// The bytes before its first sign.
    pub plain: &'static [u8],
    /// What stands before its first gap.
    pub first: &'static str,
    /// What stands behind that.
    pub rest: Option<&'static str>,
}

/// The phrases that begin so.
pub(super) fn begun(start: Start) -> &'static [Phrase] {
    let index = &*INDEX;
    let mut at = hash(start);
    loop {
        match index.slots[at].checked_sub(1).map(|group| &index.groups[usize::from(group)]) {
            None => return &[],
            Some((here, phrases)) if *here == start => return phrases,
            Some(_) => at = (at + 1) % SLOTS,
        }
    }
}

/// More than twice as many as there are beginnings, so that most are found at once; a power of two.
const SLOTS: usize = 1 << 13;

fn hash((first, second): Start) -> usize {
    let mixed = u32::from(first).wrapping_mul(0x9e37_79b1) ^ u32::from(second).wrapping_mul(0x85eb_ca77);
    (mixed.wrapping_mul(0xc2b2_ae35) >> 19) as usize
}

struct Index {
    groups: Vec<(Start, Vec<Phrase>)>,
    /// For each hash the group, counted from 1; 0 for none.
    slots: Vec<u16>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut rows: Vec<_> = FILES.iter().copied().flat_map(rows).filter_map(taken_apart).collect();
    rows.sort_by_key(|(start, _)| *start);
    let mut groups: Vec<(Start, Vec<Phrase>)> = Vec::new();
    for (start, phrase) in rows {
        match groups.last_mut() {
            Some((last, phrases)) if *last == start => phrases.push(phrase),
            _ => groups.push((start, vec![phrase])),
        }
    }
    let mut slots = vec![0; SLOTS];
    for (number, (start, _)) in (1..).zip(&groups) {
        let mut at = hash(*start);
        while slots[at] != 0 {
            at = (at + 1) % SLOTS;
        }
        slots[at] = number;
    }
    Index { groups, slots }
});

fn taken_apart((kind, row): Row) -> Option<(Start, Phrase)> {
    let phrase = row.strip_prefix('^').unwrap_or(row);
    let clause = phrase.len() < row.len();
    let kind = if kind == Kind::Request && clause { Kind::Order } else { kind };
    let (first, rest) = phrase.split_once('*').map_or((phrase, None), |(first, rest)| (first, Some(rest)));
    let plain = first.find(['~', '$', ' ', '\'']).map_or(first, |sign| &first[..sign]).as_bytes();
    let mut letters = phrase.chars();
    let start = begins(letters.next()?, letters.next());
    Some((start, Phrase { kind, clause, plain, first, rest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_is_found_by_its_beginning() {
        let all = FILES.iter().copied().flat_map(rows).filter_map(taken_apart);
        for (start, phrase) in all {
            assert!(begun(start).iter().any(|p| p.first == phrase.first && p.kind == phrase.kind), "{phrase:?}");
        }
        assert!(INDEX.groups.len() * 2 < SLOTS, "{}", INDEX.groups.len());
        assert!(begun(('\u{1}', 'x')).is_empty());
    }
}
