//! A module names only modules that stand above it in lib.rs, and the pure part names no runtime, clock or random source.

use std::collections::BTreeSet;

/// The last module of the pure part.
const LAST_PURE: &str = "exchange";

const RUNTIMES: [&str; 11] = [
    "fastrand",
    "getrandom",
    "hyper",
    "hyper_util",
    "rand",
    "tokio",
    "tokio_util",
    "tower",
    "tower_layer",
    "tower_service",
    "uuid",
];
const CLOCKS: [&str; 2] = ["Instant", "SystemTime"];

/// The modules that lib.rs lists, in its order.
fn order(lib: &str) -> Vec<&str> {
    let names = lib.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    names.collect()
}

/// What a file (its path in src) says that it must not, each with its line.
fn violations(order: &[&str], file: &str, source: &str) -> BTreeSet<String> {
    let modules: Vec<_> = file.trim_end_matches(".rs").split('/').filter(|name| *name != "mod").collect();
    let rank = |name: &str| order.iter().position(|module| *module == name);
    let (own, last_pure) = (rank(modules[0]), rank(LAST_PURE));
    assert!(own.is_some() && last_pure.is_some(), "{file}, {order:?}");
    let code = without_comments(source);
    let mut found = BTreeSet::new();
    for (at, word) in words(&code) {
        let mut add = |what: String| {
            found.insert(format!("{file}:{}: {what}", code[..at].matches('\n').count() + 1));
        };
        for named in from_root(&code, at, word, modules.len()) {
            match rank(named) {
                Some(rank) if Some(rank) <= own => {}
                Some(_) => add(format!("{named} stands below {}", modules[0])),
                None => add(format!("{named} is no module of lib.rs")),
            }
        }
        let rest = &code[at + word.len()..];
        let used = rest.starts_with("::") || code[..at].ends_with("use ");
        if own <= last_pure && (CLOCKS.contains(&word) || used && RUNTIMES.contains(&word)) {
            add(format!("{word} in the pure part"));
        }
    }
    found
}

/// Lines stay where they are. What is said about a module below is no import of it.
fn without_comments(source: &str) -> String {
    let code = |line: &str| if line.trim_start().starts_with("//") { String::new() } else { line.to_owned() };
    source.lines().map(code).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = code.char_indices().scan(' ', |before, (at, c)| {
        let starts = is_word(c) && !is_word(*before);
        *before = c;
        Some((starts, at))
    });
    starts.filter(|(starts, _)| *starts).map(|(_, at)| (at, word(&code[at..])))
}

fn word(code: &str) -> &str {
    &code[..code.find(|c| !is_word(c)).unwrap_or(code.len())]
}

/// The modules of the crate's root that a path which begins at `at` names; `depth` is the file's own.
fn from_root<'c>(code: &'c str, at: usize, word: &str, depth: usize) -> Vec<&'c str> {
    let mut rest = &code[at..];
    match word {
        "crate" => rest = rest["crate".len()..].strip_prefix("::").unwrap_or_default(),
        "super" if !code[..at].ends_with("::") => {
            let mut supers = 0;
            while let Some(inner) = rest.strip_prefix("super::") {
                (rest, supers) = (inner, supers + 1);
            }
            if supers < depth + usize::from(is_inline(&code[..at])) {
                return Vec::new();
            }
        }
        _ => return Vec::new(),
    }
    match rest.strip_prefix('{') {
        Some(group) => group_names(group),
        None => Some(self::word(rest)).filter(|name| !name.is_empty()).into_iter().collect(),
    }
}

/// Whether what follows `before` stands in a module within the file; rustfmt has it begin and end at the margin.
fn is_inline(before: &str) -> bool {
    let opens = |line: &str| line.trim_start_matches("pub ").starts_with("mod ") && line.ends_with('{');
    before.lines().fold(false, |inside, line| if line == "}" { false } else { inside || opens(line) })
}

/// The names that begin the paths of a `{…}` group, after its brace.
fn group_names(group: &str) -> Vec<&str> {
    let (mut depth, mut begins, mut names) = (0, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if is_word(c) && depth == 0 && begins => {
                begins = false;
                names.push(word(&group[at..]));
            }
            _ => {}
        }
    }
    names
}

#[test]
fn modules_name_only_what_stands_above_them() {
    let lib = std::fs::read_to_string(super::root().join("src/lib.rs")).unwrap();
    let (order, src) = (order(&lib), super::root().join("src"));
    let mut found = Vec::new();
    let mut files = 0;
    for path in super::files(&src) {
        let file = path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
        if file.ends_with(".rs") && !["lib.rs", "main.rs"].contains(&&*file) {
            found.extend(violations(&order, &file, &std::fs::read_to_string(&path).unwrap()));
            files += 1;
        }
    }
    assert!(order.len() > 10 && files > 50, "{files} files, {order:?}");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_check_can_fail() {
    let order =
        order("//! mod doc;\npub mod json;\n\nmod a2a;\npub mod exchange;\n#[cfg(feature = \"x\")]\npub mod store;\n");
    assert_eq!(order, ["json", "a2a", "exchange", "store"]);
    for (file, source, expected) in [
        ("a2a/mod.rs", "use crate::json::Doc;\nuse std::fmt;\nuse super::json;", ""),
        ("a2a/mod.rs", "use std::fmt;\nuse crate::store::Store;", "a2a/mod.rs:2: store stands below a2a"),
        ("a2a.rs", "/// See [`crate::store`] and tokio::spawn.\nfn f() {}", ""),
        ("a2a.rs", "fn f() -> crate::store::S {}", "a2a.rs:1: store stands below a2a"),
        ("a2a.rs", "use crate::{json::{self, X}, exchange::Y};", "a2a.rs:1: exchange stands below a2a"),
        ("a2a.rs", "use crate::{\n    json::{exchange, store},\n};", ""),
        ("a2a.rs", "use super::store::S;", "a2a.rs:1: store stands below a2a"),
        ("a2a.rs", "mod tests {\n    use super::store;\n}", ""),
        ("a2a.rs", "mod tests {\n    use super::super::store::S;\n}", "a2a.rs:2: store stands below a2a"),
        ("a2a.rs", "mod tests {\n    fn f() {}\n}\nuse super::store::S;", "a2a.rs:4: store stands below a2a"),
        ("a2a/card/read.rs", "use super::super::{noun, part};", ""),
        ("a2a/card/read.rs", "use super::super::super::store;", "a2a/card/read.rs:1: store stands below a2a"),
        ("a2a.rs", "use crate::Thing;", "a2a.rs:1: Thing is no module of lib.rs"),
        ("a2a.rs", "pub(crate) fn f() { self::store::g() }", ""),
        ("exchange/send.rs", "let now = SystemTime::now();", "exchange/send.rs:1: SystemTime in the pure part"),
        ("exchange/send.rs", "use std::time::{Duration, Instant};", "exchange/send.rs:1: Instant in the pure part"),
        ("json/scan.rs", "use tokio::sync::Mutex;", "json/scan.rs:1: tokio in the pure part"),
        ("json/scan.rs", "let id = uuid::Uuid::new_v4();", "json/scan.rs:1: uuid in the pure part"),
        ("json/scan.rs", "let tower = rand + hyper;", ""),
        ("store/mod.rs", "use tokio::sync::Mutex;\nuse std::time::Instant;\nuse crate::exchange::X;", ""),
    ] {
        let found: Vec<_> = violations(&order, file, source).into_iter().collect();
        assert_eq!(found.join(", "), expected, "{source}");
    }
}
