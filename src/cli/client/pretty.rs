//! A body for a person to read: indented, with every name and value as it came over the wire.

use crate::json::{Doc, Kind, Value, quote};

/// Of what is no JSON, this much is shown.
const EXCERPT: usize = 2000;

/// `body`, indented where it is JSON. `serde_json` would sort the members and round the numbers.
pub(super) fn pretty(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match Doc::scan_fully(&text) {
        Ok(doc) => {
            let mut out = String::new();
            write(&mut out, doc.root(), 0);
            out
        }
        Err(_) => text.chars().take(EXCERPT).collect(),
    }
}

fn write(out: &mut String, value: Value<'_, '_>, depth: usize) {
    match value.kind() {
        Kind::Object => {
            let members = value.members().map(|member| (Some(quote(&member.name())), member.value));
            container(out, ['{', '}'], members, depth);
        }
        Kind::Array => container(out, ['[', ']'], value.elements().map(|element| (None, element)), depth),
        _ => out.push_str(value.raw()),
    }
}

fn container<'d, 't: 'd>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = (Option<String>, Value<'d, 't>)>,
    depth: usize,
) {
    out.push(open);
    let mut empty = true;
    for (name, value) in items {
        out.push_str(if empty { "\n" } else { ",\n" });
        empty = false;
        indent(out, depth + 1);
        if let Some(name) = name {
            out.push_str(&name);
            out.push_str(": ");
        }
        write(out, value, depth + 1);
    }
    if !empty {
        out.push('\n');
        indent(out, depth);
    }
    out.push(close);
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_spelling() {
        let text = r#"{"b":[1.50,{}],"a":{"metadata":{"x":1e3}},"e":[]}"#;
        let expected = "{\n  \"b\": [\n    1.50,\n    {}\n  ],\n  \"a\": {\n    \"metadata\": {\n      \"x\": 1e3\n    }\n  },\n  \"e\": []\n}";
        assert_eq!(pretty(text.as_bytes()), expected);
        assert_eq!(pretty(b"<html>"), "<html>");
    }
}
