//! What was typed where, and what is wrong with it: gathered while the file is read, then while its settings are held against one another.

use std::collections::BTreeMap;
use std::ops::Range;

use super::finding::{Finding, Findings, Position, Severity};
use super::keys::Scope;
use super::value::Wrong;

/// Findings, and the places of all settings that were typed.
pub(super) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    typed: BTreeMap<(Scope, String), Place>,
    findings: Vec<Finding>,
}

/// Where a setting was typed.
struct Place {
    span: Range<usize>,
    /// Whether its value could be read. Nothing more is said about one that could not.
    sound: bool,
}

impl<'a> Report<'a> {
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, typed: BTreeMap::new(), findings: Vec::new() }
    }

    /// Notes that a setting was typed, and what is wrong with it.
    pub fn setting(&mut self, scope: Scope, path: &str, span: Range<usize>, read: Result<(), Wrong>) {
        let sound = read.is_ok();
        if let Err(wrong) = read {
            self.wrong(scope, path, wrong);
        }
        self.typed.insert((scope, path.to_owned()), Place { span, sound });
    }

    /// An error at a place.
    pub fn wrong(&mut self, scope: Scope, path: &str, wrong: Wrong) {
        let position = Some(Position::of(self.text, wrong.span.start));
        self.push(Severity::Error, position, scope.name(path), wrong.message, wrong.help);
    }

    /// An error of syntax. Of several in one line the first alone is told: the others follow from it.
    pub fn syntax(&mut self, wrong: Wrong) {
        let line = |finding: &Finding| finding.position.map(|position| position.line);
        if self.findings.last().and_then(line) != Some(Position::of(self.text, wrong.span.start).line) {
            self.wrong(Scope::File, "", wrong);
        }
    }

    /// An error of the file as a whole.
    pub fn file(&mut self, message: impl Into<String>) {
        self.push(Severity::Error, None, String::new(), message.into(), None);
    }

    /// Something that several settings make together, told at the first of them that was typed. Nothing is said if one of them could not be
    /// read: its value is not what was meant. Returns the finding, for more to be said.
    pub fn together(
        &mut self,
        severity: Severity,
        scope: Scope,
        paths: &[&str],
        message: impl Into<String>,
    ) -> Option<&mut Finding> {
        let places = paths.iter().map(|path| self.place(scope, path)).collect::<Vec<_>>();
        if paths.iter().any(|path| !self.sound(scope, path)) {
            return None;
        }
        let first = paths
            .iter()
            .zip(&places)
            .find_map(|(path, place)| place.as_ref().map(|(scope, place)| (*path, *scope, place)));
        let (path, scope, span) = match first {
            Some((path, scope, place)) => (path, scope, Some(place.span.clone())),
            None => (*paths.first()?, scope, self.typed.get(&(scope, String::new())).map(|header| header.span.clone())),
        };
        let position = span.map(|span| Position::of(self.text, span.start));
        self.push(severity, position, scope.name(path), message.into(), None)
    }

    /// Where the settings of a route are told: in its own table, or at the top level where it has none.
    pub fn scope(&self, route: usize) -> Scope {
        let scope = Scope::Route(route);
        if self.typed.contains_key(&(scope, String::new())) { scope } else { Scope::File }
    }

    /// The line of a setting.
    pub fn line(&self, scope: Scope, paths: &[&str]) -> Option<usize> {
        let place = paths.iter().chain(&[""]).find_map(|path| self.typed.get(&(scope, (*path).to_owned())));
        place.map(|place| Position::of(self.text, place.span.start).line)
    }

    /// Whether something is wrong enough not to start.
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// All of it.
    pub fn into_findings(self) -> Findings {
        Findings::new(self.findings)
    }

    /// Keys that were typed, without the number of the route.
    #[cfg(test)]
    pub fn typed(&self) -> impl Iterator<Item = String> {
        self.typed.keys().filter(|(_, path)| !path.is_empty()).map(|(scope, path)| scope.name(path))
    }

    /// Whether a setting, and the table in which it stands, could be read as far as they were typed.
    fn sound(&self, scope: Scope, path: &str) -> bool {
        let tables = path.match_indices('.').map(|(end, _)| &path[..end]);
        tables.chain([path]).all(|path| self.place(scope, path).is_none_or(|(_, place)| place.sound))
    }

    /// Where a setting of a route comes from: the route itself, or the top level.
    fn place(&self, scope: Scope, path: &str) -> Option<(Scope, &Place)> {
        [scope, Scope::File].into_iter().find_map(|scope| Some((scope, self.typed.get(&(scope, path.to_owned()))?)))
    }

    /// What several routes take from the same line is told once.
    fn push(
        &mut self,
        severity: Severity,
        position: Option<Position>,
        key: String,
        message: String,
        help: Option<String>,
    ) -> Option<&mut Finding> {
        let finding = Finding {
            severity,
            file: self.file.to_owned(),
            position,
            key: key.escape_debug().to_string(),
            message,
            help,
        };
        let same = |other: &Finding| other.position == finding.position && other.message == finding.message;
        if position.is_some() && self.findings.iter().any(same) {
            return None;
        }
        self.findings.push(finding);
        self.findings.last_mut()
    }
}
