//! A context as lines of JSON: one for each turn, which `digest verify` reads; under `record` what makes it whole again.
//!
//! `record` has the encoded turn and, in a context's last line, what there is once in it. People read what stands beside it; only `record`
//! is imported.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::a2a::{Dialect, Part, State, write_part, write_receipt};
use crate::context::Context;
use crate::conversation::digest::Digest;
use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::{Kept, Turn};
use crate::json::quote;
use crate::push::PushConfig;
use crate::store::Saved;
use crate::task::ClientTask;

/// What `record` looks like. It rises with the schema of the store.
const VERSION: u64 = 1;

/// What there is once in a context.
#[derive(Serialize, Deserialize)]
struct Head {
    fence: String,
    window_start: u32,
    rewrites: u32,
    used: u64,
    tasks: Vec<ClientTask>,
    push: Vec<PushConfig>,
}

/// A turn as it is kept, and where.
#[derive(Serialize, Deserialize)]
struct Item {
    kept: Kept,
    apart: bool,
}

/// A context in one line.
pub(super) fn listed(saved: &Saved) -> String {
    let Saved { key, context, used, in_flight } = saved;
    let open: Vec<_> =
        context.tasks.iter().filter(|task| task.state == State::InputRequired).map(|task| &task.id).collect();
    let used = humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + std::time::Duration::from_millis(*used));
    json!({
        "contextId": &*key.context_id, "route": key.route.as_str(), "principal": key.principal.as_str(),
        "turns": context.turns.len(), "failed": context.apart.len(), "tasks": context.tasks.len(), "bytes": context.size(),
        "used": used.to_string(), "open": open, "inFlight": in_flight,
    })
    .to_string()
}

/// The lines of a context.
pub(super) struct Lines;

impl Lines {
    /// For people.
    pub(super) fn shown(saved: &Saved) -> impl Iterator<Item = String> {
        items(saved).map(|item| format!("{{{}}}", readable(saved, &item)))
    }

    /// For another store, with the secret with which principals are hashed.
    pub(super) fn whole(saved: &Saved, secret: Option<&[u8; 32]>) -> impl Iterator<Item = String> {
        let count = saved.context.turns.len() + saved.context.apart.len();
        items(saved).enumerate().map(move |(at, item)| {
            let ContextKey { route, principal, context_id } = &saved.key;
            let mut record = json!({
                "version": VERSION, "route": route.as_str(), "principal": principal.as_str(), "contextId": &**context_id,
                "turn": encoded(&item),
            });
            if at + 1 == count {
                record["context"] = encoded(&head(saved)).into();
            }
            if let Some(secret) = secret {
                record["secret"] = STANDARD.encode(secret).into();
            }
            format!("{{{},\"record\":{record}}}", readable(saved, &item))
        })
    }
}

fn items(saved: &Saved) -> impl Iterator<Item = Item> {
    let of = |kept: &Vec<Kept>, apart| kept.clone().into_iter().map(move |kept| Item { kept, apart });
    // What was kept apart first: a record's turns are then in one run, as who checks digests expects them.
    of(&saved.context.apart, true).chain(of(&saved.context.turns, false))
}

fn head(saved: &Saved) -> Head {
    let Context { fence, window_start, rewrites, tasks, push, .. } = (*saved.context).clone();
    Head { fence, window_start, rewrites, used: saved.used, tasks, push }
}

fn encoded(what: &impl Serialize) -> String {
    // Into memory, from types without maps of unknown length: nothing that postcard refuses.
    STANDARD.encode(postcard::to_allocvec(what).unwrap_or_default())
}

fn decoded<T: for<'d> Deserialize<'d>>(record: &Value, name: &str) -> Result<T, String> {
    let text = record[name].as_str().ok_or_else(|| format!("record.{name} is missing"))?;
    let bytes = STANDARD.decode(text).map_err(|error| format!("record.{name}: {error}"))?;
    postcard::from_bytes(&bytes).map_err(|error| format!("record.{name}: {error}"))
}

/// The members of a turn's line, as `digest verify` reads them.
fn readable(saved: &Saved, item: &Item) -> String {
    let Ok(turn) = item.kept.turn() else { return format!("\"turn\":\"{}\",\"unreadable\":true", item.kept.number) };
    let mut members = vec![
        format!("\"contextId\":{}", quote(&saved.key.context_id)),
        format!("\"turn\":\"{}\"", turn.number),
        format!("\"task\":{}", quote(&turn.task)),
        format!("\"state\":\"{}\"", turn.state),
        format!("\"user\":{{\"parts\":{}}}", parts(&turn.user.parts)),
        format!("\"agent\":{{\"parts\":{}}}", parts(&turn.reply_parts())),
        format!("\"artifacts\":[{}]", artifacts(&turn)),
    ];
    if item.apart {
        members.push("\"failed\":true".to_owned());
    } else {
        members.push(format!("\"turn_digest\":\"{}\"", item.kept.digest));
        members.extend(history(saved, &turn));
    }
    members.join(",")
}

/// Which turns were shown; left out where some of them are no longer kept.
fn history(saved: &Saved, turn: &Turn) -> Option<String> {
    let shown = turn.shown.entries(&saved.context.turns);
    let accepted: Digest = turn.accepted;
    let entries = shown.iter().map(|entry| quote(entry)).collect::<Vec<_>>().join(",");
    (shown.len() == turn.shown.count())
        .then(|| format!("\"history_turns\":[{entries}],\"accepted_history_digest\":\"{accepted}\""))
}

fn parts(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::File(file) => format!("{{\"file\":{}}}", write_receipt(file)),
        other => write_part(other, Dialect::V10),
    };
    format!("[{}]", parts.iter().map(part).collect::<Vec<_>>().join(","))
}

fn artifacts(turn: &Turn) -> String {
    let artifact = |id: &str| format!("{{\"taskId\":{},\"artifactId\":{}}}", quote(&turn.task), quote(id));
    turn.artifacts.iter().map(|found| artifact(&found.id)).collect::<Vec<_>>().join(",")
}

/// Lines read back: contexts, each once its last line has come.
#[derive(Default)]
pub(super) struct Contexts {
    begun: Option<(ContextKey, Context)>,
    /// The secret that came along.
    pub(super) secret: Option<[u8; 32]>,
}

impl Contexts {
    /// Reads a line. The context that is whole with it.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub(super) fn read(&mut self, text: &str) -> Result<Option<Saved>, String> {
        let line: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let record = &line["record"];
        if record["version"] != VERSION {
            return Err(format!("record.version is not {VERSION}: it was not exported, or by another version"));
        }
        let name = |name: &str| record[name].as_str().ok_or_else(|| format!("record.{name} is missing"));
        let (route, principal, context_id) = (name("route")?, name("principal")?, name("contextId")?);
        let key = ContextKey { route: route.into(), principal: principal.into(), context_id: context_id.into() };
        if let Some(secret) = record["secret"].as_str() {
            let secret = STANDARD.decode(secret).ok().and_then(|secret| secret.try_into().ok());
            self.secret = Some(secret.ok_or("record.secret is no secret")?);
        }
        let (begun, mut context) = self.begun.take().unwrap_or_else(|| (key.clone(), Context::new(String::new())));
        if begun != key {
            return Err(cut_short(&begun));
        }
        let Item { kept, apart } = decoded(record, "turn")?;
        if apart {
            context.apart.push(kept);
        } else {
            context.turns.push(kept);
        }
        if record["context"].is_null() {
            self.begun = Some((key, context));
            return Ok(None);
        }
        let Head { fence, window_start, rewrites, used, tasks, push } = decoded(record, "context")?;
        let context = Arc::new(Context { fence, window_start, rewrites, tasks, push, ..context });
        Ok(Some(Saved { key, context, used, in_flight: Vec::new() }))
    }

    /// Nothing comes any more.
    ///
    /// # Errors
    /// Where a context is not whole.
    pub(super) fn end(&self) -> Result<(), String> {
        self.begun.as_ref().map_or(Ok(()), |(key, _)| Err(cut_short(key)))
    }
}

fn cut_short(key: &ContextKey) -> String {
    format!("the last line of context {:?} is missing", key.context_id)
}
