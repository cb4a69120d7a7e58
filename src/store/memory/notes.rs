//! Small things under a name, for a time.

use std::collections::{BTreeSet, HashMap};

/// Notes.
#[derive(Default)]
pub(super) struct Notes {
    /// What is noted, and until when.
    notes: HashMap<String, (Vec<u8>, u64)>,
    /// The names by when their time is over.
    ends: BTreeSet<(u64, String)>,
}

impl Notes {
    pub(super) fn keep(&mut self, name: &str, value: Option<Vec<u8>>, until: u64, now: u64) {
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, name)) = self.ends.pop_first() {
                self.notes.remove(&name);
            }
        }
        let before = match value {
            Some(value) => {
                self.ends.insert((until, name.to_owned()));
                self.notes.insert(name.to_owned(), (value, until)).filter(|(_, end)| *end != until)
            }
            None => self.notes.remove(name),
        };
        if let Some((_, end)) = before {
            self.ends.remove(&(end, name.to_owned()));
        }
    }

    pub(super) fn find(&self, name: &str, now: u64) -> Option<Vec<u8>> {
        self.notes.get(name).filter(|(_, end)| now < *end).map(|(value, _)| value.clone())
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.notes.len() + self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_over() {
        let mut notes = Notes::default();
        notes.keep("a", Some(vec![1]), 10, 1);
        notes.keep("a", Some(vec![2]), 10, 1);
        notes.keep("a", Some(vec![3]), 20, 1);
        notes.keep("b", Some(vec![1]), 15, 1);
        assert_eq!(notes.entries(), 4);
        notes.keep("b", None, 0, 1);
        notes.keep("c", None, 0, 20);
        assert_eq!(notes.entries(), 0);
    }
}
