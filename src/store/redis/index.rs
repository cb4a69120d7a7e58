//! Which contexts know an id, and which somebody has.
//!
//! An entry says where to look, and no more: it counts where the context bears it out. So it is written before the context is, it may outlive
//! it, and what is found to mean nothing is taken out by whoever comes across it.

use std::collections::HashMap;

use redis::cmd;

use super::Redis;
use super::link::{self, Repeat};
use super::names::{Tag, owner};
use super::record::{Depth, Record, Seen};
use super::script::{ENTER, OWN, STRIKE};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::rules;
use crate::store::{Found, StoreError};

/// As what a context knows an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A task of the client's.
    Client,
    /// A task of the agent's.
    Agent,
}

/// An entry of a context under an id: a field and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) tag: Tag,
    pub(super) side: Side,
    /// Which of the contexts that were ever there under the tag.
    pub(super) serial: u64,
    /// The lease under which it was entered: as long as that is held, the entry holds, though the context may not show it yet.
    pub(super) token: u64,
    owner: String,
    /// Tells it from one that is entered anew.
    version: String,
}

impl Entry {
    pub(super) fn field(&self) -> String {
        let side = if self.side == Side::Client { 'c' } else { 'a' };
        format!("{side}{}:{}", self.tag.0, self.serial)
    }

    pub(super) fn value(&self) -> String {
        format!("{} {} {}", self.token, self.owner, self.version)
    }

    fn read((field, value): &(String, String)) -> Option<Self> {
        let mut parts = value.split(' ');
        let side = if field.starts_with('c') { Side::Client } else { Side::Agent };
        let mut next = || parts.next();
        let (token, owner, version) = (next()?.parse().ok()?, next()?.to_owned(), next()?.to_owned());
        let (tag, serial) = field.get(1..)?.split_once(':')?;
        Some(Self { tag: Tag(tag.to_owned()), side, serial: serial.parse().ok()?, token, owner, version })
    }

    /// Whether the turn that entered it is in flight and has another of the agent's ids, or none yet.
    pub(super) fn is_being_bound(&self, record: &Record, id: &str) -> bool {
        let own = record.lives.iter().find(|live| self.serial == record.serial && live.lease.token == self.token);
        own.is_some_and(|live| live.bound.as_ref().is_none_or(|bound| bound.upstream_task != id))
    }

    /// Whether the context bears it out.
    pub(super) fn holds(&self, record: &Record, id: &str) -> bool {
        let leased = record.lives.holds(self.token);
        let known = || match self.side {
            Side::Client => record.has_client(id),
            Side::Agent => record.has_agent(id),
        };
        self.serial == record.serial && (leased || known())
    }
}

impl Redis {
    /// How long, in milliseconds, an entry is kept.
    pub(super) fn entries_last(&self) -> u64 {
        2 * self.ttl()
    }

    /// The entry of a context that is going to know an id.
    pub(super) fn entry(&self, record: &Record, token: u64, side: Side) -> Entry {
        Entry {
            tag: Tag::of(&record.key),
            side,
            serial: record.serial,
            token,
            owner: owner(&record.key.route, &record.key.principal),
            version: self.new_version(),
        }
    }

    /// Enters a context under an id; as `vacant` only where nobody is. Who was there before.
    pub(super) async fn enter(
        &self,
        (route, id): (&RouteId, &str),
        vacant: &[Entry],
        always: &[Entry],
    ) -> Result<Vec<Entry>, StoreError> {
        let keys = [self.names.id(route, id)];
        let mut enter = ENTER.on(&keys).arg(self.entries_last()).arg(vacant.len());
        for entry in vacant.iter().chain(always) {
            enter = enter.arg(entry.field()).arg(entry.value());
        }
        let before: Vec<(String, String)> =
            link::read(self.link.run(&enter, Repeat::Harmless).await?).map_err(link::unavailable)?;
        Ok(before.iter().filter_map(Entry::read).collect())
    }

    /// Takes entries out, unless they were entered anew.
    pub(super) async fn strike(&self, (route, id): (&RouteId, &str), entries: &[Entry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let keys = [self.names.id(route, id)];
        let pairs = entries.iter().map(|entry| (entry.field(), entry.value()));
        let strike = pairs.fold(STRIKE.on(&keys), |strike, (field, value)| strike.arg(field).arg(value));
        self.link.run(&strike, Repeat::Harmless).await.map(drop)
    }

    /// Enters what a verb makes known of a context, before the context is written.
    pub(super) async fn enter_all(
        &self,
        record: &Record,
        token: u64,
        ids: &[(Side, Box<str>)],
    ) -> Result<(), StoreError> {
        let enter = ids.iter().filter(|(_, id)| !id.is_empty()).map(|(side, id)| async move {
            self.enter((&record.key.route, id), &[], &[self.entry(record, token, *side)]).await
        });
        futures_util::future::try_join_all(enter).await.map(drop)
    }

    /// A client task by its id. Entries of others are told apart without a look at their contexts.
    pub(super) async fn find_task(
        &self,
        route: &RouteId,
        principal: &Principal,
        id: &str,
    ) -> Result<Option<Found>, StoreError> {
        let entered: Vec<(String, String)> =
            self.link.call(cmd("HGETALL").arg(self.names.id(route, id)), Repeat::Harmless).await?;
        let owner = owner(route, principal);
        let entries = entered.iter().filter_map(Entry::read);
        for entry in entries.filter(|entry| entry.side == Side::Client && entry.owner == owner) {
            let Seen::There(record) = self.read(&entry.tag, Depth::Whole).await? else { continue };
            if record.serial == entry.serial && rules::knows(&record.context, &record.lives, id) {
                return Ok(Some(record.found(Some(id))));
            }
        }
        Ok(None)
    }

    /// Enters a context as one of its owner's. One under a provisional key is not listed.
    pub(super) async fn enter_owner(&self, provisional: bool, key: &ContextKey, now: u64) -> Result<(), StoreError> {
        if provisional {
            return Ok(());
        }
        let keys = [self.names.owned(&key.route, &key.principal)];
        let oldest = now.saturating_sub(self.entries_last());
        let own = OWN.on(&keys).arg(now).arg(Tag::of(key).0).arg(oldest).arg(self.entries_last());
        self.link.run(&own, Repeat::Harmless).await.map(drop)
    }

    /// Takes a context that goes out of its owner's, before it is gone: whoever begins in it meanwhile enters it again.
    pub(super) async fn leave_owner(&self, tag: &Tag, key: &ContextKey) -> Result<(), StoreError> {
        let owned = self.names.owned(&key.route, &key.principal);
        self.link.call(cmd("ZREM").arg(owned).arg(&tag.0), Repeat::Harmless).await
    }

    /// Takes a context that went out of the entries of its ids.
    pub(super) async fn leave_ids(&self, tag: &Tag, record: &Record) -> Result<(), StoreError> {
        let key = &record.key;
        let in_turn = record.lives.iter().flat_map(|live| live.ids.iter().map(|id| &**id));
        let ids = record.context.tasks.iter().flat_map(rules::ids).chain(in_turn);
        let strikes = ids.map(|id| async move {
            let entered: HashMap<String, String> =
                self.link.call(cmd("HGETALL").arg(self.names.id(&key.route, id)), Repeat::Harmless).await?;
            let entries = entered.into_iter().filter_map(|pair| Entry::read(&pair));
            let own: Vec<_> = entries.filter(|entry| entry.tag == *tag && entry.serial == record.serial).collect();
            self.strike((&key.route, id), &own).await
        });
        futures_util::future::try_join_all(strikes).await.map(drop)
    }
}
