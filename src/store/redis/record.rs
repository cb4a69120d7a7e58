//! A context as it is kept: read, and written where it is still what was read.

use std::sync::Arc;

use redis::Value;

use super::fields::Changes;
use super::link::{self, Repeat};
use super::names::Tag;
use super::{Redis, fields, script};
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::store::rules::{self, Live, Lives};
use crate::store::{Found, StoreError};

/// Records that nobody is to expect to be for ever, in milliseconds: ten years.
pub(super) const LONGEST: u64 = 10 * 365 * 24 * 3_600_000;

/// How long, in milliseconds, it is remembered of a context that went that it was there: longer than anybody's verb on it takes.
const REMEMBERED: u64 = 600_000;

/// A context that is there.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) version: String,
    pub(super) key: ContextKey,
    /// Tells it from every other that was ever there under this key.
    pub(super) serial: u64,
    /// The newest token that was handed out in it.
    pub(super) token: u64,
    /// When its entries in the index were last made to last.
    pub(super) entered_at: u64,
    pub(super) context: Arc<Context>,
    pub(super) lives: Lives,
    /// The numbers of the first turn and the last.
    pub(super) turns: (u32, u32),
    /// Where its tasks stand, and the turns that were kept apart: numbers that rise.
    pub(super) tasks: Vec<u64>,
    pub(super) apart: Vec<u64>,
    /// Whether its turns were read with it.
    pub(super) whole: bool,
}

/// What is under a key.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    There(Arc<Record>),
    /// Nothing, or what is left of a context that went: its version and its newest token.
    Gone {
        version: String,
        token: u64,
    },
}

/// How much of a context is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Without its turns.
    Head,
    Whole,
}

impl Seen {
    pub(super) fn there(self) -> Option<Arc<Record>> {
        if let Self::There(record) = self { Some(record) } else { None }
    }

    pub(super) fn version(&self) -> &str {
        match self {
            Self::There(record) => &record.version,
            Self::Gone { version, .. } => version,
        }
    }

    pub(super) fn token(&self) -> u64 {
        match self {
            Self::There(record) => record.token,
            Self::Gone { token, .. } => *token,
        }
    }
}

impl Record {
    /// The context, and of its turns in flight that of the task which was asked for.
    pub(super) fn found(&self, task: Option<&str>) -> Found {
        let in_flight = rules::in_flight(&self.lives, task);
        Found { key: self.key.clone(), context: self.context.clone(), in_flight }
    }

    /// The turn in flight with this token.
    pub(super) fn held(&mut self, token: u64) -> Option<&mut Live> {
        self.lives.all().iter_mut().find(|live| live.lease.token == token)
    }

    pub(super) fn is_blank(&self) -> bool {
        self.lives.is_empty() && self.context.is_blank()
    }

    /// Whether the client knows, or in a turn in flight came to know, a task under this id.
    pub(super) fn has_client(&self, id: &str) -> bool {
        self.context.task(id).is_some() || self.in_turn(id)
    }

    /// Whether the agent knows, or in a turn in flight came to know, a task of it under this id.
    pub(super) fn has_agent(&self, id: &str) -> bool {
        self.context.tasks.iter().any(|task| rules::was_upstream(task, id)) || self.in_turn(id)
    }

    pub(super) fn in_turn(&self, id: &str) -> bool {
        self.lives.iter().any(|live| live.ids.iter().any(|known| **known == *id))
    }
}

impl Redis {
    /// Reads what is under a tag.
    pub(super) async fn read(&self, tag: &Tag, depth: Depth) -> Result<Seen, StoreError> {
        let known = self.cache.find(tag);
        let keys = [self.names.head(tag), self.names.turns(tag)];
        let mut read = script::READ.on(&keys);
        read = match &known {
            Some(known) => read.arg(&known.version).arg(depth.word()).arg(known.serial).arg(known.turns.1),
            None => read.arg("").arg(depth.word()).arg("").arg(0),
        };
        let reply = self.link.run(&read, Repeat::Harmless).await?;
        let parts: Vec<Value> = link::read(reply).map_err(link::unavailable)?;
        if let ([_], Some(known)) = (&*parts, &known) {
            return Ok(Seen::There(known.clone()));
        }
        let seen = fields::decode(parts, depth, known.as_deref())?;
        match &seen {
            Seen::There(record) if record.whole => self.cache.keep(tag, record),
            Seen::There(_) => {}
            Seen::Gone { .. } => self.cache.forget(tag),
        }
        Ok(seen)
    }

    /// Puts `new` in the place of what was `seen` under its tag. What is there now; nothing where somebody else was quicker.
    pub(super) async fn write(
        &self,
        tag: &Tag,
        seen: &Seen,
        mut new: Record,
    ) -> Result<Option<Arc<Record>>, StoreError> {
        new.version = self.new_version();
        let old = if let Seen::There(old) = seen { Some(&**old) } else { None };
        new.align(old);
        let how = if old.is_some() { "keep" } else { "drop" };
        let changes = fields::changes(old, &new)?;
        if !self.swap(tag, seen, (&new.version, self.kept_for(&new), how), &changes).await? {
            return Ok(None);
        }
        let new = Arc::new(new);
        if new.whole {
            self.cache.keep(tag, &new);
        }
        Ok(Some(new))
    }

    /// Takes out what was `seen` under a tag, as far as nobody has changed it. What stays for a while is that it was there: its newest token,
    /// so that those of a context that comes anew rise beyond it.
    pub(super) async fn drop_record(&self, tag: &Tag, seen: &Seen) -> Result<bool, StoreError> {
        self.swap(tag, seen, (&self.new_version(), REMEMBERED, "drop"), &fields::gone(seen.token())).await
    }

    async fn swap(
        &self,
        tag: &Tag,
        seen: &Seen,
        (version, kept_for, how): (&str, u64, &str),
        changes: &Changes,
    ) -> Result<bool, StoreError> {
        // Whatever comes of it, what was known is not to be relied on.
        self.cache.forget(tag);
        let keys = [self.names.head(tag), self.names.turns(tag)];
        let write = script::WRITE.on(&keys).arg(seen.version()).arg(version).arg(kept_for).arg(how);
        let reply = self.link.run(&changes.tell(write), Repeat::Harmless).await?;
        Ok(link::read::<u64>(reply).map_err(link::unavailable)? == 1)
    }

    /// For how long, in milliseconds, what nobody uses is kept.
    pub(super) fn ttl(&self) -> u64 {
        u64::try_from(self.settings.ttl.as_millis()).unwrap_or(LONGEST).min(LONGEST)
    }

    fn kept_for(&self, record: &Record) -> u64 {
        self.ttl() + record.lives.iter().map(|live| live.max_turn().min(LONGEST)).max().unwrap_or_default()
    }
}

impl Depth {
    fn word(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Whole => "whole",
        }
    }
}
