//! A turn from its lease to its settlement.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use super::index::Side;
use super::link::Repeat;
use super::names::Tag;
use super::record::{Depth, Record, Seen};
use super::{Backoff, Redis};
use crate::context::{Context, Settlement};
use crate::conversation::principal::ContextKey;
use crate::store::rules::{self, Live};
use crate::store::{Found, Lease, Pending, StoreError};
use crate::turn::Bound;

/// How long after the first look it is looked again whether a turn has ended, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(100));

/// Ids that a verb makes known.
type Known = Vec<(Side, Box<str>)>;

pub(super) fn both(bound: &Bound) -> Known {
    vec![(Side::Client, bound.task_id.as_str().into()), (Side::Agent, bound.upstream_task.as_str().into())]
}

/// What a release comes to.
enum Left {
    Given,
    /// The turn was taken over, and there is no token to leave it under.
    Inherited,
}

fn leave(record: &mut Record, token: u64, next: Option<u64>) -> Left {
    match (record.held(token), next) {
        (Some(live), Some(next)) if live.inherited => {
            live.leave(next);
            record.token = next;
        }
        (Some(live), None) if live.inherited => return Left::Inherited,
        _ => drop(record.lives.take(token)),
    }
    Left::Given
}

impl Redis {
    /// The context whose lease this is. What is known here is believed, where `known` says so: the server refuses what rests on it when it no
    /// longer holds.
    pub(super) async fn held(&self, lease: &Lease, tag: &Tag, known: bool) -> Result<Arc<Record>, StoreError> {
        let holds = |record: &Arc<Record>| record.lives.holds(lease.token);
        if let Some(record) = self.cache.find(tag).filter(|record| known && holds(record)) {
            return Ok(record);
        }
        self.read(tag, Depth::Whole).await?.there().filter(holds).ok_or(StoreError::LeaseLost)
    }

    /// Does something in the context whose lease this is, until it is done on the context as it is.
    pub(super) async fn change<T>(
        &self,
        lease: &Lease,
        mut act: impl FnMut(&mut Record) -> (T, Known),
    ) -> Result<(Arc<Record>, T), StoreError> {
        let tag = Tag::of(&lease.key);
        let mut known = true;
        loop {
            let record = self.held(lease, &tag, known).await?;
            let mut new = Record::clone(&record);
            let (done, mut ids) = act(&mut new);
            ids.retain(|(_, id)| !record.in_turn(id));
            self.enter_all(&new, lease.token, &ids).await?;
            let seen = Seen::There(record);
            if new.is_blank() {
                self.leave_owner(&tag, &new.key).await?;
                if self.drop_record(&tag, &seen).await? {
                    return Ok((Arc::new(new), done));
                }
            } else if let Some(record) = self.write(&tag, &seen, new).await? {
                return Ok((record, done));
            }
            known = false;
        }
    }

    async fn in_turn(&self, lease: &Lease, mut act: impl FnMut(&mut Live)) -> Result<(), StoreError> {
        let act = |record: &mut Record| (record.held(lease.token).map(&mut act), Known::new());
        self.change(lease, act).await.map(drop)
    }

    pub(super) async fn observe_now(&self, lease: &Lease, pending: &Pending) -> Result<(), StoreError> {
        let observe = |record: &mut Record| {
            let known = record.held(lease.token).map(|live| live.observe(pending.clone())).and(pending.bound.as_ref());
            ((), known.map(both).unwrap_or_default())
        };
        self.change(lease, observe).await.map(drop)
    }

    pub(super) async fn renew_now(&self, lease: &Lease, until: u64) -> Result<(), StoreError> {
        self.in_turn(lease, |live| live.lease.until = until).await
    }

    pub(super) async fn settle_now(&self, lease: &Lease, settlement: &Settlement) -> Result<Arc<Context>, StoreError> {
        let most = self.settings.context_bytes;
        let settle = |record: &mut Record| {
            let Some((_, live)) = record.lives.take(lease.token) else { return ((), Known::new()) };
            let settled = rules::settle(Arc::make_mut(&mut record.context), &live, settlement.clone(), most);
            let known = settled.known.map(|(task, upstream)| [(Side::Client, task), (Side::Agent, upstream.into())]);
            ((), known.into_iter().flatten().collect())
        };
        let (record, ()) = self.change(lease, settle).await?;
        Ok(record.context.clone())
    }

    pub(super) async fn release_now(&self, lease: &Lease) -> Result<(), StoreError> {
        let known = self.cache.find(&Tag::of(&lease.key));
        let inherits = |record: &Record| record.lives.iter().any(|live| live.inherited);
        let mut inherited = known.is_none_or(|record| inherits(&record));
        loop {
            // A turn that was taken over is as unsettled as it was, under a token of its own: dropped here it would be lost.
            let next = if inherited { Some(self.next_token().await?) } else { None };
            match self.change(lease, |record| (leave(record, lease.token, next), Known::new())).await {
                Ok((_, Left::Inherited)) => inherited = true,
                Ok((_, Left::Given)) | Err(StoreError::LeaseLost) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn find(&self, key: &ContextKey) -> Result<Option<Found>, StoreError> {
        Ok(self.read(&Tag::of(key), Depth::Whole).await?.there().map(|record| record.found(None)))
    }

    /// Looks at the turn from time to time: whichever proxy ends it.
    pub(super) async fn wait_now(&self, key: &ContextKey, token: u64) -> Result<(), StoreError> {
        let token = token.to_string();
        let look = cmd("HGET").arg(self.names.head(&Tag::of(key))).arg("k").take();
        let mut backoff = Backoff(LOOKS.0, LOOKS.1);
        loop {
            let running: Option<String> = self.bounded(self.link.call(&look, Repeat::Harmless)).await?;
            if !running.is_some_and(|running| running.split(',').any(|one| *one == token)) {
                return Ok(());
            }
            backoff.pause().await;
        }
    }

    pub(super) async fn erase_now(&self, key: &ContextKey) -> Result<(), StoreError> {
        let tag = Tag::of(key);
        loop {
            let seen = self.read(&tag, Depth::Head).await?;
            let Seen::There(record) = &seen else { return Ok(()) };
            self.leave_owner(&tag, key).await?;
            if self.drop_record(&tag, &seen).await? {
                return self.leave_ids(&tag, record).await;
            }
        }
    }
}
