//! From a file to what it means: read all of it, hold its settings against one another, then succeed or fail.

use std::path::Path;

use super::check;
use super::effective::{Config, Route};
use super::finding::Findings;
use super::raw;
use super::report::Report;
use crate::conversation::principal::RouteId;

/// A configuration without an error.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub config: Config,
    /// What the operator should know all the same.
    pub warnings: Findings,
}

impl Config {
    /// Reads a file. Fails with everything that is wrong, warnings included, in the order of the file. Where the file is no TOML, that is
    /// all that is said of it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Loaded, Findings> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let read = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"));
        let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_owned()));
        let text = text.map_err(|message| unreadable(&name, message))?;
        load(&text, &name, path.parent())
    }

    /// Reads a text as if it were the file of that name: files that it names are looked for beside it.
    pub fn from_str(text: &str, name: &str) -> Result<Loaded, Findings> {
        load(text, name, Path::new(name).parent())
    }

    /// What is wrong with settings that come from no file.
    pub fn findings(&self) -> Findings {
        let mut report = Report::new("", "");
        check::together(self, &mut report);
        report.into_findings()
    }
}

fn unreadable(name: &str, message: String) -> Findings {
    let mut report = Report::new(name, "");
    report.file(message);
    report.into_findings()
}

fn load(text: &str, name: &str, folder: Option<&Path>) -> Result<Loaded, Findings> {
    let mut report = Report::new(name, text);
    let Some(mut config) = raw::read(text, &mut report) else { return Err(report.into_findings()) };
    config.routes.iter_mut().for_each(|route| complete(route, folder));
    if let (Some(folder), Some(file)) = (folder, &mut config.push.ca) {
        *file = folder.join(&file);
    }
    if let (Some(folder), Some(url)) = (folder, &mut config.store.url) {
        url.beside(folder);
    }
    check::together(&config, &mut report);
    match report.failed() {
        true => Err(report.into_findings()),
        false => Ok(Loaded { config, warnings: report.into_findings() }),
    }
}

/// What follows for a route from what was said of it.
fn complete(route: &mut Route, folder: Option<&Path>) {
    if route.id.as_str().is_empty() {
        route.id = match route.prefix.trim_start_matches('/') {
            "" => RouteId::default(),
            name => RouteId::from(name),
        };
    }
    if let (Some(folder), Some(file)) = (folder, &mut route.upstream.ca) {
        *file = folder.join(&file);
    }
    route.cors.take_if(|cors| cors.origins.is_empty());
}
