//! What settings make together. Each function holds one thing; nothing here reads the file or fills in a value.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use http::Uri;
use http::header::AUTHORIZATION;
use rustls::RootCertStore;
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::address;
use super::effective::{Config, Identity, Push, Route};
use super::finding::{Finding, Severity};
use super::keys::Scope;
use super::report::Report;
use crate::conversation::policy::{HistoryPolicy, UnknownIds};

/// Holds all settings against one another.
pub(super) fn together(config: &Config, report: &mut Report<'_>) {
    public_url(config, report);
    store(config, report);
    for (number, route) in config.routes.iter().enumerate() {
        let scope = report.scope(number);
        twins(&config.routes[..number], route, scope, report);
        agent(config.listener.address, route, scope, report);
        authorities(route, scope, report);
        identity(config.listener.address, route, scope, report);
        unknown_ids(route, scope, report);
        push(config, route, scope, report);
        fetched(config, route, scope, report);
        cors(route, scope, report);
        sizes(route, scope, report);
    }
    if config.routes.is_empty() {
        no_agent(report);
    }
}

fn help(finding: Option<&mut Finding>, help: impl Into<String>) {
    if let Some(finding) = finding {
        finding.help = Some(help.into());
    }
}

fn no_agent(report: &mut Report<'_>) {
    let finding = report.together(Severity::Error, Scope::File, &["route"], "there is no agent");
    help(finding, "name one: `[upstream]` and `url = \"http://…\"`, or a `[[route]]` for each");
}

/// Cards and callbacks would name an address that leads nowhere.
fn public_url(config: &Config, report: &mut Report<'_>) {
    let listener = &config.listener;
    if listener.address.ip().is_unspecified() && listener.public_url.is_none() {
        let message = format!("{} is no address that clients can call", listener.address);
        let finding =
            report.together(Severity::Error, Scope::File, &["listener.address", "listener.public_url"], message);
        help(finding, "set `listener.public_url` to the base URL under which they reach the proxy");
    }
}

/// The agent would be told an address that leads nowhere.
fn push(config: &Config, route: &Route, scope: Scope, report: &mut Report<'_>) {
    if route.push == Some(Push::Relay) && !config.knows_agent_url() {
        let message = "the agent cannot be told where it reaches the proxy";
        let finding = report.together(Severity::Error, scope, &["push", "proxy.agent_url"], message);
        help(finding, "set `proxy.agent_url` to the base URL under which it does");
    }
}

fn store(config: &Config, report: &mut Report<'_>) {
    if config.store.context_bytes > config.store.bytes {
        let paths = ["store.context_bytes", "store.bytes"];
        report.together(
            Severity::Error,
            Scope::File,
            &paths,
            "`store.context_bytes` is more than `store.bytes`: one conversation would not fit",
        );
    }
}

/// Two routes with one prefix: the second would never be called. With one name: they would share conversations.
fn twins(before: &[Route], route: &Route, scope: Scope, report: &mut Report<'_>) {
    let same_prefix = before.iter().position(|other| other.prefix == route.prefix);
    if let Some(number) = same_prefix {
        let prefix = if route.prefix.is_empty() { "/" } else { &route.prefix };
        let message = format!("{} has the prefix \"{prefix}\" already", named(before, number, &["prefix"], report));
        report.together(Severity::Error, scope, &["prefix"], message);
    }
    let same_name = before.iter().position(|other| other.id == route.id);
    if let Some(number) = same_name.filter(|_| same_name != same_prefix) {
        let message = format!("{} has this name already", named(before, number, &["name"], report));
        report.together(Severity::Error, scope, &["name", "prefix"], message);
    }
}

fn named(routes: &[Route], number: usize, paths: &[&str], report: &Report<'_>) -> String {
    let line = report.line(report.scope(number), paths).map(|line| format!(" (line {line})")).unwrap_or_default();
    format!("route `{}`{line}", routes[number].id.as_str())
}

/// An agent that cannot be called, or is the proxy itself.
fn agent(listener: SocketAddr, route: &Route, scope: Scope, report: &mut Report<'_>) {
    let url = &route.upstream.url;
    let paths: &[&str] = if scope == Scope::File { &["upstream.url"] } else { &["upstream.url", "upstream"] };
    if *url == Uri::default() {
        let finding = report.together(Severity::Error, scope, paths, "there is no agent");
        help(finding, format!("set `{} = \"http://…\"`", scope.name("upstream.url")));
    } else if let Err(message) = address::web(url) {
        let finding = report.together(Severity::Error, scope, paths, message);
        if url.scheme().is_none() {
            help(finding, "write it with http:// or https:// in front");
        }
    } else if leads_to(url, listener) {
        report.together(Severity::Error, scope, paths, "this is the proxy's own address: it would call itself");
    }
}

fn leads_to(url: &Uri, listener: SocketAddr) -> bool {
    let host = url.host().map(|host| host.trim_matches(['[', ']'])).unwrap_or_default();
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    let here = listener.ip().is_loopback() || listener.ip().is_unspecified();
    port == listener.port() && (loopback && here || host.parse().is_ok_and(|ip: IpAddr| ip == listener.ip()))
}

/// The file of authorities, which is read again at every start.
fn authorities(route: &Route, scope: Scope, report: &mut Report<'_>) {
    let Some(file) = &route.upstream.ca else { return };
    if let Err(message) = certificates(file) {
        report.together(Severity::Error, scope, &["upstream.ca"], format!("{}: {message}", file.display()));
    }
    if route.upstream.url.scheme_str() == Some("http") {
        let paths = ["upstream.ca", "upstream.url", "upstream"];
        report.together(Severity::Warning, scope, &paths, "of no use: the agent is called over plain http");
    }
}

fn certificates(file: &Path) -> Result<(), String> {
    let pem = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let list = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, PemError>>();
    let list = list.map_err(|error| format!("is no PEM file: {error}"))?;
    if list.is_empty() && PrivateKeyDer::from_pem_slice(&pem).is_ok() {
        return Err("holds a private key and no certificate: name the file of the authority's certificate".to_owned());
    }
    if list.is_empty() {
        return Err(
            "holds no certificate: it should have a block that starts with -----BEGIN CERTIFICATE-----".to_owned()
        );
    }
    let mut store = RootCertStore::empty();
    list.into_iter()
        .try_for_each(|certificate| store.add(certificate))
        .map_err(|error| format!("no certificate: {error}"))
}

fn identity(listener: SocketAddr, route: &Route, scope: Scope, report: &mut Report<'_>) {
    if route.identity == Identity::Anonymous && !listener.ip().is_loopback() {
        let message =
            format!("whoever reaches {listener} is the same principal and may read all conversations of this route");
        let paths = ["identity.from", "listener.address"];
        let finding = report.together(Severity::Warning, scope, &paths, message);
        help(finding, "tell callers apart with \"authorization\" or \"header:NAME\", or listen on 127.0.0.1");
    }
}

/// Ids without record go to the agent, which separates callers by their credential: but here it sees the proxy's.
fn unknown_ids(route: &Route, scope: Scope, report: &mut Report<'_>) {
    let shared = route.upstream.headers.iter().any(|(name, _)| *name == AUTHORIZATION);
    if shared && route.policy.unknown_ids == UnknownIds::Forward && route.identity != Identity::Anonymous {
        let message = "the agent is called with one credential for all (`upstream.headers`), so it would show each caller the tasks of all";
        let finding = report.together(Severity::Error, scope, &["identity.unknown_ids"], message);
        help(finding, "write \"refuse\"");
    }
}

/// The agent would be pointed to an address that leads nowhere.
fn fetched(config: &Config, route: &Route, scope: Scope, report: &mut Report<'_>) {
    if route.policy.history.policy == HistoryPolicy::AgentFetched && !config.knows_agent_url() {
        let message = "the agent cannot be told where it fetches conversations";
        let finding = report.together(Severity::Error, scope, &["history.policy", "proxy.agent_url"], message);
        help(finding, "set `proxy.agent_url` to the base URL under which it reaches the proxy");
    }
}

fn cors(route: &Route, scope: Scope, report: &mut Report<'_>) {
    let Some(cors) = &route.cors else { return };
    if cors.credentials && cors.origins.iter().any(|origin| origin == "*") {
        let message = "credentials cannot be allowed to every origin: browsers refuse it";
        let finding = report.together(Severity::Error, scope, &["cors.credentials", "cors.origins"], message);
        help(finding, "list the origins");
    }
}

/// Limits of which one makes another meaningless.
fn sizes(route: &Route, scope: Scope, report: &mut Report<'_>) {
    let policy = &route.policy;
    if policy.history.turn_bytes > policy.history.max_bytes {
        let paths = ["history.turn_bytes", "history.max_bytes"];
        report.together(
            Severity::Warning,
            scope,
            &paths,
            "`history.turn_bytes` is more than `history.max_bytes`: no turn of that length is shown",
        );
    }
    if policy.history.max_bytes >= policy.limits.request_bytes {
        let paths = ["history.max_bytes", "limits.request_bytes"];
        report.together(
            Severity::Warning,
            scope,
            &paths,
            "`history.max_bytes` leaves no room in `limits.request_bytes` for a message",
        );
    }
    if policy.guard.max_turn < policy.guard.lease {
        let paths = ["guard.max_turn", "guard.lease"];
        report.together(
            Severity::Warning,
            scope,
            &paths,
            "`guard.max_turn` is less than `guard.lease`: a turn stays held until its lease ends",
        );
    }
}
