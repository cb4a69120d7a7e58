//! `check`: everything that is wrong with a configuration, at once. Opens no port, and asks the agents only where it is told to.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config::{Config, Findings, Identity, Loaded, Route, Severity};
use crate::proxy::card::{Cards, Discovered};
use crate::proxy::gateway::described;

/// Checks a file: what is wrong goes to standard error, what is served to standard output. Fails if there is an error.
pub fn findings(path: &Path) -> ExitCode {
    let passed = told(path, &mut io::stderr().lock()).and_then(|config| match config {
        Some(config) => summary(&config, &mut io::stdout().lock()).map(|()| true),
        None => Ok(false),
    });
    if passed.unwrap_or(false) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// As [`findings`], and reaches every agent: which dialects and bindings it serves, what is wrong with its card, and what of it the proxy
/// would not show. Fails also where an agent cannot be reached or nothing of its card can be shown.
pub async fn online(path: PathBuf) -> ExitCode {
    let Ok(Some(config)) = told(&path, &mut io::stderr()) else { return ExitCode::FAILURE };
    let mut out = io::stdout();
    let mut fine = summary(&config, &mut out).is_ok();
    for route in &config.routes {
        let _ = writeln!(out, "{}: {}", route.id.as_str(), route.upstream.url);
        fine &= match Cards::discover(route).await {
            Ok(found) => seen(&found, route, &mut out).await.unwrap_or(false),
            Err(error) => writeln!(out, "  error: {error}").is_err(),
        };
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What an agent's card shows. Whether it will do.
async fn seen(found: &Discovered, route: &Route, out: &mut impl Write) -> io::Result<bool> {
    let seen = match &found.seen {
        Ok(seen) => seen,
        Err(why) => {
            writeln!(out, "  error: its card cannot be read: {why}")?;
            return Ok(false);
        }
    };
    writeln!(out, "  {}\n  calls go to {}", described(seen), found.base)?;
    seen.warnings.iter().try_for_each(|warning| writeln!(out, "  card: {warning}"))?;
    found.cards.set_base(&format!("http://proxy.invalid{}", route.prefix));
    match found.cards.shown().await {
        Ok(warnings) => {
            warnings.iter().try_for_each(|warning| writeln!(out, "  shown without: {warning}"))?;
            Ok(true)
        }
        Err(why) => {
            writeln!(out, "  error: {why}")?;
            Ok(false)
        }
    }
}

/// Reads a file; `None` if there is an error, and then everything that is wrong with it was told.
pub fn load(path: &Path, err: &mut impl Write) -> io::Result<Option<Loaded>> {
    match Config::from_file(path) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(findings) => list(path, &findings, err).map(|()| None),
    }
}

/// As [`load`], and tells the warnings too.
fn told(path: &Path, err: &mut impl Write) -> io::Result<Option<Config>> {
    let Some(Loaded { config, warnings }) = load(path, err)? else { return Ok(None) };
    if !warnings.is_empty() {
        list(path, &warnings, err)?;
    }
    Ok(Some(config))
}

fn list(path: &Path, findings: &Findings, err: &mut impl Write) -> io::Result<()> {
    writeln!(err, "{findings}\n{}: {}", path.display(), counted(findings))
}

/// Tells what is served, a line for each route.
pub fn summary(config: &Config, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "ok: {} on {}", plural(config.routes.len(), "route"), config.listener.address)?;
    config.routes.iter().try_for_each(|route| {
        let Route { id, prefix, upstream, .. } = route;
        writeln!(out, "  {}  {prefix}/ -> {}  callers: {}", id.as_str(), upstream.url, callers(&route.identity))
    })
}

fn callers(identity: &Identity) -> String {
    match identity {
        Identity::Authorization => "by credential".to_owned(),
        Identity::Header(name) => format!("by header {name}"),
        Identity::Anonymous => "all the same".to_owned(),
    }
}

fn counted(findings: &Findings) -> String {
    let errors = plural(findings.count(Severity::Error), "error");
    format!("{errors}, {}", plural(findings.count(Severity::Warning), "warning"))
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> (String, String, ExitCode) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy.toml");
        std::fs::write(&path, text).unwrap();
        let (mut err, mut out) = (Vec::new(), Vec::new());
        if let Some(config) = told(&path, &mut err).unwrap() {
            summary(&config, &mut out).unwrap();
        }
        let plain =
            |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&path.display().to_string(), "proxy.toml");
        (plain(out), plain(err), findings(&path))
    }

    #[test]
    fn a_good_file_lists_its_routes() {
        let (out, err, code) = checked(
            "[[route]]\nprefix = '/a'\nupstream = 'http://a.example'\n[[route]]\nprefix = '/b'\nupstream.url = 'http://b.example/x'\nidentity.from = 'header:X-User'\n",
        );
        assert_eq!(err, "");
        assert_eq!(
            out,
            "ok: 2 routes on 127.0.0.1:8080\n  a  /a/ -> http://a.example/  callers: by credential\n  b  /b/ -> http://b.example/x  callers: by header x-user\n"
        );
        assert_eq!(code, ExitCode::SUCCESS);
    }

    #[test]
    fn warnings_alone_pass() {
        let (out, err, code) = checked("[upstream]\nurl = 'http://a.example'\n[guard]\nlease = '2h'\n");
        assert!(err.ends_with("\nproxy.toml: 0 errors, 1 warning\n"), "{err}");
        assert!(out.starts_with("ok: 1 route on"), "{out}");
        assert_eq!(code, ExitCode::SUCCESS);
    }

    #[test]
    fn errors_are_told_and_fail() {
        let (out, err, code) = checked("[upstream]\nurl = 'ftp://a'\n[histroy]\n");
        assert_eq!(out, "");
        assert_eq!(
            err,
            "proxy.toml:2:7: error: upstream.url: the scheme must be http or https\nproxy.toml:3:2: error: histroy: unknown key; did you mean `history`?\nproxy.toml: 2 errors, 0 warnings\n"
        );
        assert_eq!(code, ExitCode::FAILURE);
    }

    #[test]
    fn a_file_that_is_not_there_is_told() {
        let mut err = Vec::new();
        assert!(load(Path::new("/nowhere/proxy.toml"), &mut err).unwrap().is_none());
        let err = String::from_utf8(err).unwrap();
        assert!(err.starts_with("/nowhere/proxy.toml: error: cannot be read: No such file"), "{err}");
    }
}
