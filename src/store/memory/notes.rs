//! Small things under a name, for a time.

use std::collections::{BTreeSet, HashMap};

/// Notes.
#[derive(Default)]
pub(in crate::store) struct Notes {
    /// What is noted, and until when.
    notes: HashMap<String, (Vec<u8>, u64)>,
    /// The names by when their time is over.
    ends: BTreeSet<(u64, String)>,
}

impl Notes {
    /// Forgets those whose time is over: their names.
    pub(in crate::store) fn clear(&mut self, now: u64) -> Vec<String> {
        let mut over = Vec::new();
        while self.ends.first().is_some_and(|(end, _)| *end <= now) {
            over.extend(self.ends.pop_first().map(|(_, name)| name));
        }
        over.iter().for_each(|name| drop(self.notes.remove(name)));
        over
    }

    pub(in crate::store) fn keep(&mut self, name: &str, value: Option<Vec<u8>>, until: u64) {
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

    pub(in crate::store) fn find(&self, name: &str, now: u64) -> Option<Vec<u8>> {
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
        notes.keep("a", Some(vec![1]), 10);
        notes.keep("a", Some(vec![2]), 10);
        notes.keep("a", Some(vec![3]), 20);
        notes.keep("b", Some(vec![1]), 15);
        assert_eq!(notes.entries(), 4);
        assert!(notes.clear(9).is_empty());
        notes.keep("b", None, 0);
        assert_eq!(notes.clear(20), ["a"]);
        assert_eq!(notes.entries(), 0);
    }
}
