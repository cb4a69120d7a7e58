//! Every setting, once: its key, where its value goes, how that is read. What it is for and what it is by default is told in `proxy.toml`,
//! and a test holds the two together.

use std::collections::BTreeSet;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeString;

use super::address::{
    allowed, base, conversation_key, file, header, health, identity, origins, path, prefix, socket, url,
};
use super::effective::{Config, Cors, Route};
use super::store::StoreUrl;
use super::suggest;
use super::value::{Typed, Wrong, duration, flag, least, number, size, text, word, words};
use crate::conversation::principal::RouteId;

/// A setting of a `T`.
pub(super) struct Key<T> {
    /// From the table in which it stands, with dots.
    pub path: &'static str,
    /// What it is set with.
    pub read: Read<T>,
}

/// What a setting is set with.
pub(super) enum Read<T> {
    /// One value.
    Value(fn(&mut T, &Typed<'_>) -> Result<(), Wrong>),
    /// A table whose keys are the user's own.
    Each(fn(&mut T, &Spanned<DeString<'_>>, &Typed<'_>) -> Result<(), Wrong>),
}

/// `"key" => place, reader;` …
macro_rules! keys {
    ($target:ident: $kind:ty; $($path:literal => $place:expr, $read:expr;)*) => {
        &[$(Key {
            path: $path,
            read: Read::Value(|$target: &mut $kind, value| {
                $place = ($read)(value)?;
                Ok(())
            }),
        }),*]
    };
}

/// Tables that stand at the top level alone.
pub(super) const GLOBAL: &[Key<Config>] = keys![config: Config;
    "listener.address" => config.listener.address, socket;
    "listener.public_url" => config.listener.public_url, base;
    "listener.health_path" => config.listener.health_path, health;
    "listener.connections" => config.listener.connections, least(1, number);
    "listener.header_timeout" => config.listener.header_timeout, least(MOMENT, duration);
    "listener.drain" => config.listener.drain, duration;
    "log.filter" => config.log.filter, filter;
    "log.format" => config.log.format, word;
    "log.bodies" => config.log.bodies, flag;
    "store.url" => config.store.url, store;
    "store.durability" => config.store.durability, word;
    "store.batch" => config.store.batch, least(MOMENT, duration);
    "store.cache_bytes" => config.store.cache_bytes, size;
    "store.on_error" => config.store.on_error, word;
    "store.contexts" => config.store.contexts, least(1, number);
    "store.bytes" => config.store.bytes, least(1, size);
    "store.context_bytes" => config.store.context_bytes, least(1, size);
    "store.ttl" => config.store.ttl, least(SECOND, duration);
    "proxy.agent_url" => config.proxy.agent_url, base;
    "push.allow" => config.push.webhooks.allowed, allowed;
    "push.ca" => config.push.ca, |value: &Typed<'_>| file(value).map(Some);
    "push.outbox" => config.push.outbox, least(1, number);
    "push.timeout" => config.push.timeout, least(MOMENT, duration);
    "push.give_up" => config.push.give_up, least(SECOND, duration);
];

/// Tables that stand at the top level for all routes, and in a route for that one.
pub(super) const SHARED: &[Key<Route>] = keys![route: Route;
    "upstream.url" => route.upstream.url, url;
    "upstream.path" => route.upstream.path, |value: &Typed<'_>| path(value).map(Some);
    "upstream.ca" => route.upstream.ca, |value: &Typed<'_>| file(value).map(Some);
    "upstream.connect_timeout" => route.upstream.connect_timeout, least(MOMENT, duration);
    "upstream.pool_idle" => route.upstream.pool_idle, duration;
    "upstream.connections" => route.upstream.connections, least(1, number);
    "upstream.context_id" => route.policy.upstream.context_id, word;
    "upstream.reference_task_ids" => route.policy.upstream.reference_task_ids, word;
    "identity.from" => route.identity, identity;
    "identity.unknown_ids" => route.policy.unknown_ids, word;
    "history.policy" => route.policy.history.policy, word;
    "history.placement" => route.policy.history.placement, word;
    "history.max_turns" => route.policy.history.max_turns, least(1, number);
    "history.max_bytes" => route.policy.history.max_bytes, least(1, size);
    "history.turn_bytes" => route.policy.history.turn_bytes, least(1, size);
    "history.on_continuation" => route.policy.history.on_continuation, word;
    "history.credentials" => route.policy.history.credentials, word;
    "reply.artifacts" => route.policy.reply.artifacts, words;
    "reply.skip" => route.policy.reply.skip, words;
    "reply.thoughts" => route.policy.reply.thoughts, words;
    "rewrite.level" => route.policy.rewrite.question.level, word;
    "rewrite.markers" => route.policy.rewrite.question.markers, words;
    "rewrite.cap" => route.policy.rewrite.question.cap, least(1, number);
    "rewrite.metadata" => route.policy.rewrite.question.metadata, words;
    "rewrite.question" => route.policy.rewrite.text, word;
    "rewrite.inline" => route.policy.rewrite.inline, word;
    "rewrite.wrap_message" => route.policy.rewrite.wrap_message, flag;
    "rewrite.history_for_completed" => route.policy.rewrite.history_for_completed, flag;
    "guard.mode" => route.policy.guard.mode, word;
    "guard.queue_length" => route.policy.guard.queue_length, least(1, number);
    "guard.queue_time" => route.policy.guard.queue_time, least(MOMENT, duration);
    "guard.reject" => route.policy.guard.reject, word;
    "guard.wait" => route.policy.guard.wait, duration;
    "guard.lease" => route.policy.guard.lease, least(SECOND, duration);
    "guard.max_turn" => route.policy.guard.max_turn, least(SECOND, duration);
    "guard.watch" => route.policy.guard.watch, duration;
    "guard.replay_duplicates" => route.policy.guard.replay_duplicates, flag;
    "limits.request_bytes" => route.policy.limits.request_bytes, least(1, size);
    "limits.reply_bytes" => route.policy.limits.reply_bytes, least(1, size);
    "limits.id_bytes" => route.policy.limits.id_bytes, least(UUID, size);
    "timeouts.first_byte" => route.policy.timeouts.first_byte, least(MOMENT, duration);
    "timeouts.idle" => route.policy.timeouts.idle, least(MOMENT, duration);
    "timeouts.request_idle" => route.policy.timeouts.request_idle, least(MOMENT, duration);
    "timeouts.look" => route.policy.timeouts.look, least(MOMENT, duration);
    "cors.origins" => cors(route).origins, origins;
    "cors.credentials" => cors(route).credentials, flag;
    "cors.max_age" => cors(route).max_age, duration;
];

/// The tables among those whose keys are the user's own.
pub(super) const FREE: &[Key<Route>] = &[Key { path: "upstream.headers", read: Read::Each(set_header) }];

/// What only a route has.
pub(super) const ROUTE: &[Key<Route>] = keys![route: Route;
    "name" => route.id, name;
    "prefix" => route.prefix, prefix;
    "upstream" => route.upstream.url, url;
    "mode" => route.policy.mode, word;
    "push" => route.push, |value: &Typed<'_>| word(value).map(Some);
    "conversation_key" => route.policy.conversation_key, |value: &Typed<'_>| conversation_key(value).map(Some);
    "ttl" => route.ttl, |value: &Typed<'_>| least(SECOND, duration)(value).map(Some);
    "terminal_followup" => route.policy.terminal_followup, word;
    "on_disconnect" => route.policy.on_disconnect, word;
    "debug_header" => route.policy.debug_header, flag;
];

/// Keys that are not (or no longer) called so, with the one that is.
pub(super) const RENAMED: &[(&str, &str)] = &[
    // What the command line calls it.
    ("listener.listen", "listener.address"),
    ("store.store", "store.url"),
];

/// In which table a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// At the top level.
    File,
    /// In the route of this number.
    Route(usize),
}

impl Scope {
    /// A key as a message names it.
    pub fn name(self, path: &str) -> String {
        match self {
            Self::File => path.to_owned(),
            Self::Route(_) if path.is_empty() => "route".to_owned(),
            Self::Route(_) => format!("route.{path}"),
        }
    }

    /// All keys, with dots.
    pub fn keys(self) -> Vec<&'static str> {
        let shared = paths(SHARED).chain(paths(FREE));
        match self {
            Self::File => shared.chain(paths(GLOBAL)).chain(["route"]).collect(),
            Self::Route(_) => shared.chain(paths(ROUTE)).collect(),
        }
    }

    /// What may stand in a table; that of the scope itself is the empty path.
    pub fn names_in(self, table: &str) -> BTreeSet<&'static str> {
        let inside = self.keys().into_iter().filter_map(|path| match table {
            "" => Some(path),
            _ => path.strip_prefix(table)?.strip_prefix('.'),
        });
        inside.filter_map(|rest| rest.split('.').next()).collect()
    }

    /// Where a name may stand that does not stand here, as the headers of tables are written.
    pub fn places_of(self, name: &str) -> BTreeSet<String> {
        let ours = if self == Self::File { "[" } else { "[route." };
        let shared = tables_with(SHARED, ours, name).chain(tables_with(FREE, ours, name));
        let global = tables_with(GLOBAL, "[", name);
        let route = paths(ROUTE).filter(|path| *path == name).map(|_| "[[route]]".to_owned());
        shared.chain(global).chain(route).collect()
    }
}

fn tables_with<T>(keys: &'static [Key<T>], open: &str, name: &str) -> impl Iterator<Item = String> {
    let split = paths(keys).filter_map(|path| path.rsplit_once('.'));
    split.filter(move |(_, last)| *last == name).map(move |(table, _)| format!("{open}{table}]"))
}

fn paths<T>(keys: &'static [Key<T>]) -> impl Iterator<Item = &'static str> {
    keys.iter().map(|key| key.path)
}

fn cors(route: &mut Route) -> &mut Cors {
    route.cors.get_or_insert_default()
}

/// One header more; a route's own takes the place of one of the same name that stands at the top level.
fn set_header(route: &mut Route, name: &Spanned<DeString<'_>>, value: &Typed<'_>) -> Result<(), Wrong> {
    let (header, content) = header(name, value)?;
    let headers = &mut route.upstream.headers;
    headers.retain(|(other, _)| *other != header);
    headers.push((header, content));
    Ok(())
}

/// A route's name goes into log fields, metrics and keys.
fn name(value: &Typed<'_>) -> Result<RouteId, Wrong> {
    let typed = text(value, "a name such as \"research\"")?;
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    if typed.chars().all(plain) {
        return Ok(RouteId::from(typed));
    }
    Err(Wrong::new(value, format!("{typed:?} is not a name")).help("use letters, digits, `-`, `_`, `.` and `/`"))
}

/// Where conversations are kept. It may hold a password, which is never repeated.
fn store(value: &Typed<'_>) -> Result<Option<StoreUrl>, Wrong> {
    let typed = text(value, "a place such as \"disk:PATH\"")?;
    typed.parse().map(Some).map_err(|help: &str| Wrong::new(value, "not a place to keep conversations in").help(help))
}

/// A filter for the log. A mistyped level would be taken for the name of a module, and nothing would be logged.
fn filter(value: &Typed<'_>) -> Result<String, Wrong> {
    let typed = text(value, "a filter such as \"info\"")?;
    for word in typed.split(',').map(|directive| directive.trim().to_ascii_lowercase()) {
        if let Some(level) = suggest::nearest(&word, LEVELS).filter(|level| *level != word) {
            return Err(Wrong::new(value, format!("{word:?} is no level")).help(format!("did you mean \"{level}\"?")));
        }
    }
    let parsed = typed.parse::<tracing_subscriber::EnvFilter>();
    parsed.map(|_| typed.to_owned()).map_err(|error| Wrong::new(value, format!("not a filter: {error}")))
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Less is not a time that anything could be done in.
const MOMENT: Duration = Duration::from_millis(1);

/// Leases and turns are renewed and looked at by the second.
const SECOND: Duration = Duration::from_secs(1);

/// The length of the ids that the proxy mints.
const UUID: usize = 36;
