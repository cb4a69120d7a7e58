//! `proxy.toml` at the top level: the documentation of all settings, held against the code.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::keys::{ROUTE, Scope};
use super::super::raw;
use super::super::report::Report;
use super::super::{ADDRESS, Config, Cors, Loaded};
use super::loaded;

const DOCUMENTED: &str = include_str!("../../../proxy.toml");

/// A line that would set something if it were not commented out.
fn optional(line: &str) -> Option<&str> {
    line.strip_prefix('#').filter(|line| line.starts_with(|first: char| first.is_ascii_alphabetic()))
}

#[test]
fn the_documented_file_holds_the_defaults() {
    let Loaded { mut config, warnings } =
        Config::from_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("proxy.toml")).unwrap();
    assert_eq!(warnings.to_string(), "");
    let quick = Config::quick(ADDRESS, config.routes[0].upstream.url.clone());
    // Without origins the other two settings say nothing; with some they must be the defaults.
    let with_origins = loaded(&DOCUMENTED.replace("origins = []", "origins = ['https://a.example']"));
    let cors = config.routes[0].cors.take();
    assert_eq!((config, cors), (quick, None));
    let defaults = Cors { origins: vec!["https://a.example".to_owned()], ..Cors::default() };
    assert_eq!(with_origins.routes[0].cors, Some(defaults));
}

#[test]
fn what_is_commented_out_in_the_documented_file_parses() {
    let lines = DOCUMENTED.lines().collect::<Vec<_>>();
    let options = (0..lines.len()).filter_map(|number| Some((number, optional(lines[number])?))).collect::<Vec<_>>();
    assert_eq!(options.len(), 11);
    for (number, line) in options {
        let mut lines = lines.clone();
        lines[number] = line;
        let mut report = Report::new("proxy.toml", "");
        let read = raw::read(&lines.join("\n"), &mut report);
        assert!(read.is_some() && !report.failed(), "{line}: {}", report.into_findings());
    }
}

#[test]
fn the_documented_file_has_every_key() {
    let lines = DOCUMENTED.lines().map(|line| optional(line).unwrap_or(line)).collect::<Vec<_>>();
    let text = lines.join("\n");
    let mut report = Report::new("proxy.toml", &text);
    raw::read(&text, &mut report).unwrap();
    let typed = report.typed().collect::<BTreeSet<_>>();
    let known =
        Scope::File.keys().into_iter().map(str::to_owned).chain(ROUTE.iter().map(|key| format!("route.{}", key.path)));
    // A table of the user's own keys occurs with one of them.
    let occurs = |key: &String| typed.iter().any(|typed| typed == key || typed.starts_with(&format!("{key}.")));
    let missing = known.filter(|key| !occurs(key)).collect::<Vec<_>>();
    assert_eq!(missing, [""; 0]);
}
