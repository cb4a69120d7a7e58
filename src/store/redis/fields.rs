//! A context as fields of two hashes: one of its head, its tasks and its turn in flight, one of its turns.
//!
//! A verb writes the fields that it changes: a turn that settled is written once.

use std::collections::HashMap;
use std::sync::Arc;

use redis::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link;
use super::record::{Depth, Record, Seen};
use super::script::Invocation;
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::Kept;
use crate::store::StoreError;

/// What is short and changes seldom.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    key: ContextKey,
    serial: u64,
    entered_at: u64,
    fence: String,
    window_start: u32,
    rewrites: u32,
    first: u32,
}

type Field = (String, Vec<u8>);

/// Fields that are set and fields that go, of each of the two hashes.
#[derive(Default)]
pub(super) struct Changes([(Vec<Field>, Vec<String>); 2]);

impl Changes {
    pub(super) fn tell<'k>(&self, mut write: Invocation<'k>) -> Invocation<'k> {
        for (sets, deletes) in &self.0 {
            write = write.arg(sets.len()).arg(deletes.len());
            for (name, value) in sets {
                write = write.arg(name).arg(&**value);
            }
            for name in deletes {
                write = write.arg(name);
            }
        }
        write
    }
}

/// What is left of a context that went.
pub(super) fn gone(token: u64) -> Changes {
    Changes([(vec![("z".to_owned(), token.to_string().into_bytes())], vec![]), (vec![], vec![])])
}

/// What has to be written so that `old` becomes `new`.
pub(super) fn changes(old: Option<&Record>, new: &Record) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    let [head, turns] = &mut changes.0;
    let (before, after) = (old.map(singles).transpose()?.unwrap_or_default(), singles(new)?);
    head.1.extend(before.keys().filter(|name| !after.contains_key(*name)).map(|name| (*name).to_owned()));
    let changed = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
    head.0.extend(changed.map(|(name, value)| (name.to_owned(), value)));
    if old.is_some_and(|old| Arc::ptr_eq(&old.context, &new.context)) {
        return Ok(changes);
    }
    differ("t", old.map(tasks), tasks(new), head)?;
    differ("a", old.map(apart), apart(new), turns)?;
    differ("", old.map(settled), settled(new), turns)?;
    Ok(changes)
}

fn tasks(record: &Record) -> impl Iterator<Item = (u64, &crate::task::ClientTask)> {
    record.tasks.iter().copied().zip(&record.context.tasks)
}

fn apart(record: &Record) -> impl Iterator<Item = (u64, &Kept)> {
    record.apart.iter().copied().zip(&record.context.apart)
}

fn settled(record: &Record) -> impl Iterator<Item = (u64, &Kept)> {
    record.context.turns.iter().map(|turn| (u64::from(turn.number), turn))
}

/// The difference between two lists whose items have numbers.
fn differ<'r, T: Serialize + PartialEq + 'r>(
    kind: &str,
    old: Option<impl Iterator<Item = (u64, &'r T)>>,
    new: impl Iterator<Item = (u64, &'r T)>,
    (sets, deletes): &mut (Vec<Field>, Vec<String>),
) -> Result<(), StoreError> {
    let mut before: HashMap<u64, &T> = old.into_iter().flatten().collect();
    for (number, item) in new {
        if before.remove(&number) != Some(item) {
            sets.push((format!("{kind}{number}"), encode(item)?));
        }
    }
    deletes.extend(before.keys().map(|number| format!("{kind}{number}")));
    Ok(())
}

/// The fields that every context has at most one of.
fn singles(record: &Record) -> Result<HashMap<&'static str, Vec<u8>>, StoreError> {
    let head = Head {
        key: record.key.clone(),
        serial: record.serial,
        entered_at: record.entered_at,
        fence: record.context.fence.clone(),
        window_start: record.context.window_start,
        rewrites: record.context.rewrites,
        first: record.turns.0,
    };
    let apart: Vec<_> = record.apart.iter().map(u64::to_string).collect();
    let mut fields = HashMap::from([
        ("h", encode(&head)?),
        ("s", record.serial.to_string().into_bytes()),
        ("n", record.turns.1.to_string().into_bytes()),
        ("a", apart.join(",").into_bytes()),
        ("z", record.token.to_string().into_bytes()),
    ]);
    if !record.lives.is_empty() {
        let tokens: Vec<_> = record.lives.iter().map(|live| live.lease.token.to_string()).collect();
        fields.insert("k", tokens.join(",").into_bytes());
        fields.insert("l", encode(&record.lives)?);
    }
    if !record.context.push.is_empty() {
        fields.insert("p", encode(&record.context.push)?);
    }
    Ok(fields)
}

fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(value).map_err(link::unavailable)
}

fn damaged(what: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("a record is damaged: {what}"))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(damaged)
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Result<T, StoreError> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or_else(|| damaged("a number"))
}

/// Puts items into the order of their numbers.
fn ordered<T>(mut items: Vec<(u64, T)>) -> (Vec<u64>, Vec<T>) {
    items.sort_by_key(|item| item.0);
    items.into_iter().unzip()
}

/// What the script that reads has found. `known` is what the caller had: the script left out what is in there.
pub(super) fn decode(parts: Vec<Value>, depth: Depth, known: Option<&Record>) -> Result<Seen, StoreError> {
    if parts.is_empty() {
        return Ok(Seen::Gone { version: String::new(), token: 0 });
    }
    let found: (String, Vec<Field>, Vec<Field>, u32) = link::read(Value::Array(parts)).map_err(damaged)?;
    let (version, head, turns, from) = found;
    let mut singles: HashMap<&str, &[u8]> = HashMap::new();
    let mut tasks = Vec::new();
    for (name, value) in &head {
        match name.strip_prefix('t') {
            Some(ordinal) => tasks.push((number(ordinal.as_bytes())?, read(value)?)),
            None => _ = singles.insert(name, value),
        }
    }
    let field = |name| singles.get(name).copied().ok_or_else(|| damaged(name));
    let token = number(field("z")?)?;
    let Some(bytes) = singles.get("h") else { return Ok(Seen::Gone { version, token }) };
    let head: Head = read(bytes)?;
    let (tasks, client_tasks) = ordered(tasks);
    let mut record = Record {
        version,
        serial: head.serial,
        token,
        entered_at: head.entered_at,
        context: Arc::default(),
        lives: singles.get("l").map(|lives| read(lives)).transpose()?.unwrap_or_default(),
        turns: (head.first, number(field("n")?)?),
        tasks,
        apart: Vec::new(),
        whole: depth == Depth::Whole,
        key: head.key,
    };
    let mut context = Context {
        fence: head.fence,
        tasks: client_tasks,
        window_start: head.window_start,
        rewrites: head.rewrites,
        push: singles.get("p").map(|push| read(push)).transpose()?.unwrap_or_default(),
        ..Context::default()
    };
    if let Some(known) = known.filter(|_| from > 0) {
        let stand = known.context.turns.iter().filter(|turn| (record.turns.0..=from).contains(&turn.number));
        context.turns = stand.cloned().collect();
    }
    take_in(&mut context, &mut record.apart, turns)?;
    let whole = context.turns.first().map(|turn| turn.number) == Some(record.turns.0) || record.turns.1 == 0;
    if record.whole && !(whole && context.turns.last().map_or(0, |turn| turn.number) == record.turns.1) {
        return Err(damaged("a turn is missing"));
    }
    if !record.whole {
        let ordinals = field("a")?.split(|byte| *byte == b',').filter(|ordinal| !ordinal.is_empty());
        record.apart = ordinals.map(number).collect::<Result<_, _>>()?;
    }
    record.context = Arc::new(context);
    Ok(Seen::There(Arc::new(record)))
}

fn take_in(context: &mut Context, ordinals: &mut Vec<u64>, turns: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
    let (mut apart, mut settled) = (Vec::new(), Vec::new());
    for (name, value) in &turns {
        match name.strip_prefix('a') {
            Some(ordinal) => apart.push((number(ordinal.as_bytes())?, read(value)?)),
            None => settled.push((number(name.as_bytes())?, read(value)?)),
        }
    }
    (*ordinals, context.apart) = ordered(apart);
    context.turns.extend(ordered(settled).1);
    Ok(())
}

impl Record {
    /// Numbers what is new in the lists, after what was there in `old`.
    pub(super) fn align(&mut self, old: Option<&Self>) {
        if old.is_some_and(|old| Arc::ptr_eq(&old.context, &self.context)) {
            return;
        }
        let known: HashMap<&str, u64> =
            old.into_iter().flat_map(tasks).map(|(ordinal, task)| (&*task.id, ordinal)).collect();
        let mut next = old.and_then(|old| old.tasks.last()).map_or(1, |last| last + 1)..;
        let ordinals = self.context.tasks.iter().map(|task| known.get(&*task.id).copied().or_else(|| next.next()));
        self.tasks = ordinals.flatten().collect();
        if self.whole {
            self.align_turns(old);
        }
    }

    fn align_turns(&mut self, old: Option<&Self>) {
        let turn = |turn: Option<&Kept>| turn.map_or(0, |turn| turn.number);
        self.turns = (turn(self.context.turns.first()), turn(self.context.turns.last()));
        let before = old.map_or(&[][..], |old| &old.context.apart);
        let gone = (0..=before.len()).find(|gone| self.context.apart.starts_with(&before[*gone..])).unwrap_or_default();
        let stand = old.map_or(&[][..], |old| old.apart.get(gone..).unwrap_or_default());
        let newest = old.and_then(|old| old.apart.last()).map_or(0, |last| *last);
        self.apart = stand.iter().copied().chain(newest + 1..).take(self.context.apart.len()).collect();
    }
}
