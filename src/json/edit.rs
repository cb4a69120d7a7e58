//! Edits of a document by place: what no edit names keeps its bytes.

use std::ops::Range;

use super::scan::{Kind, Value};
use super::text::quote;

/// Edits to one text, in any order. Of two that overlap the outer one holds: who replaces a whole message need not know who edits its text.
#[derive(Debug, Default)]
pub struct Edits {
    list: Vec<(Range<usize>, String)>,
    /// Objects and arrays that were empty and got an insertion: the next one there needs a comma.
    filled: Vec<usize>,
}

impl Edits {
    /// No edits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the text stays as it is.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Puts `text` where `range` (bytes) was.
    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Puts `text` in front of the byte at `at`.
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    /// Replaces a string by another; no edit where it already has that text.
    pub fn set_string(&mut self, value: Value<'_, '_>, text: &str) {
        if value.str().as_deref() != Some(text) {
            self.replace(value.range(), quote(text));
        }
    }

    /// Gives `object` the member `name` with `value` (JSON text): replaced where it stands, else added last. What is no object, since a peer
    /// sent something else in its place, stays as it is.
    pub fn set_member(&mut self, object: Value<'_, '_>, name: &str, value: &str) {
        match object.get(name) {
            Some(old) if old.raw() == value => {}
            Some(old) => self.replace(old.range(), value),
            None if object.kind() == Kind::Object => self.add_last(object, &format!("{}:{value}", quote(name))),
            None => {}
        }
    }

    /// As [`set_member`](Self::set_member), for a string.
    pub fn set_string_member(&mut self, object: Value<'_, '_>, name: &str, text: &str) {
        if object.get(name).and_then(|old| old.str()).as_deref() != Some(text) {
            self.set_member(object, name, &quote(text));
        }
    }

    /// Adds `item` as the last element of `array`; what is no array stays as it is.
    pub fn append(&mut self, array: Value<'_, '_>, item: &str) {
        if array.kind() == Kind::Array {
            self.add_last(array, item);
        }
    }

    fn add_last(&mut self, container: Value<'_, '_>, item: &str) {
        let comma = self.takes_a_comma(container);
        self.insert(container.range().end - 1, if comma { format!(",{item}") } else { item.to_owned() });
    }

    /// Adds `items` (one, or several with commas between) in front of the first element of `array`; at most once for each array. What is no
    /// array stays as it is.
    pub fn prepend(&mut self, array: Value<'_, '_>, items: &str) {
        if array.kind() != Kind::Array {
            return;
        }
        let comma = self.takes_a_comma(array);
        self.insert(array.range().start + 1, if comma { format!("{items},") } else { items.to_owned() });
    }

    fn takes_a_comma(&mut self, container: Value<'_, '_>) -> bool {
        let start = container.range().start;
        let raw = container.raw();
        if !raw[1..raw.len() - 1].trim().is_empty() || self.filled.contains(&start) {
            return true;
        }
        self.filled.push(start);
        false
    }

    /// Takes the members called one of `names` out of `object`, with their commas.
    pub fn remove_members(&mut self, object: Value<'_, '_>, names: &[&str]) {
        let items = object.members().map(|member| (member.range(), names.contains(&&*member.name())));
        self.remove(&items.collect::<Vec<_>>());
    }

    /// Takes the elements of `array` for which `gone` holds out of it, with their commas.
    pub fn remove_elements<'d, 't>(&mut self, array: Value<'d, 't>, mut gone: impl FnMut(Value<'d, 't>) -> bool) {
        let items = array.elements().map(|element| (element.range(), gone(element)));
        self.remove(&items.collect::<Vec<_>>());
    }

    /// A removed item takes the comma in front of it along; those at the start take the comma behind.
    fn remove(&mut self, items: &[(Range<usize>, bool)]) {
        let mut kept_one = false;
        for (at, (range, gone)) in items.iter().enumerate() {
            if !gone {
                kept_one = true;
            } else if kept_one {
                self.replace(items[at - 1].0.end..range.end, "");
            } else {
                let end = items.get(at + 1).map_or(range.end, |(next, _)| next.start);
                self.replace(range.start..end, "");
            }
        }
    }

    /// The edited text of one value: edits outside it do not count.
    pub fn apply_within(mut self, value: Value<'_, '_>) -> String {
        let range = value.range();
        self.list.retain(|(edit, _)| range.start <= edit.start && edit.end <= range.end);
        for (edit, _) in &mut self.list {
            *edit = edit.start - range.start..edit.end - range.start;
        }
        self.apply(value.raw())
    }

    /// The edited text.
    pub fn apply(mut self, text: &str) -> String {
        // Stable, and an insertion in front of a replacement at the same place; the longer of two replacements first, so that it holds.
        self.list.sort_by_key(|(range, _)| (range.start, !range.is_empty(), std::cmp::Reverse(range.end)));
        let grown: usize = self.list.iter().map(|(_, new)| new.len()).sum();
        let mut out = String::with_capacity(text.len() + grown);
        let mut done = 0;
        for (range, new) in &self.list {
            if range.start < done {
                continue;
            }
            out.push_str(&text[done..range.start]);
            out.push_str(new);
            done = range.end;
        }
        out.push_str(&text[done..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::Doc;
    use super::*;

    fn edited(text: &str, edit: impl FnOnce(&mut Edits, Value<'_, '_>)) -> String {
        let doc = Doc::scan(text.as_bytes()).unwrap();
        let mut edits = Edits::new();
        edit(&mut edits, doc.root());
        let out = edits.apply(text);
        assert!(Doc::scan(out.as_bytes()).is_ok(), "{out}");
        out
    }

    #[test]
    fn leaves_other_bytes_alone() {
        let out = edited("{ \"a\" : 1e3,\t\"b\":\"x\" }", |edits, root| {
            edits.set_string_member(root, "b", "y\"");
            edits.set_member(root, "c", "[]");
            edits.set_member(root, "d", "2");
        });
        assert_eq!(out, "{ \"a\" : 1e3,\t\"b\":\"y\\\"\" ,\"c\":[],\"d\":2}");
    }

    #[test]
    fn fills_empty_containers() {
        assert_eq!(
            edited("{}", |edits, root| {
                edits.set_member(root, "a", "1");
                edits.set_member(root, "b", "2");
            }),
            "{\"a\":1,\"b\":2}"
        );
        assert_eq!(edited("[ ]", |edits, root| edits.prepend(root, "1,2")), "[1,2 ]");
        assert_eq!(edited("[3]", |edits, root| edits.prepend(root, "1,2")), "[1,2,3]");
    }

    #[test]
    fn removes_members_with_their_commas() {
        for (names, expected) in [
            (&["a"][..], "{ \"b\":2, \"c\":3 }"),
            (&["b"], "{ \"a\":1, \"c\":3 }"),
            (&["c"], "{ \"a\":1, \"b\":2 }"),
            (&["a", "b"], "{ \"c\":3 }"),
            (&["b", "c"], "{ \"a\":1 }"),
            (&["a", "c"], "{ \"b\":2 }"),
            (&["a", "b", "c"], "{  }"),
            (&["x"], "{ \"a\":1, \"b\":2, \"c\":3 }"),
        ] {
            assert_eq!(
                edited("{ \"a\":1, \"b\":2, \"c\":3 }", |edits, root| edits.remove_members(root, names)),
                expected
            );
        }
    }

    #[test]
    fn what_is_of_another_kind_stays_as_it_is() {
        for text in ["5", "true", "null", "\"x\"", "[1]", "{\"a\":1}"] {
            let out = edited(text, |edits, root| {
                if root.kind() != Kind::Object {
                    edits.set_member(root, "b", "1");
                    edits.set_string_member(root, "b", "x");
                    edits.remove_members(root, &["a"]);
                }
                if root.kind() != Kind::Array {
                    edits.append(root, "1");
                    edits.prepend(root, "1");
                    edits.remove_elements(root, |_| true);
                }
            });
            assert_eq!(out, text);
        }
    }

    #[test]
    fn the_outer_of_two_edits_holds() {
        let out = edited("{\"m\":{\"t\":\"x\"},\"n\":1}", |edits, root| {
            let message = root.get("m").unwrap();
            edits.set_string(message.get("t").unwrap(), "inner");
            edits.replace(message.range(), "\"outer\"");
        });
        assert_eq!(out, "{\"m\":\"outer\",\"n\":1}");
    }
}
