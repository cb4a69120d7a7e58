//! The lease is taken.

use std::sync::Arc;

use redis::cmd;

use super::Redis;
use super::link::Repeat;
use super::names::Tag;
use super::record::{Depth, Record, Seen};
use crate::context::Context;
use crate::store::rules::{self, Lives};
use crate::store::{Begin, Begun, InFlight, Lease, StoreError};

/// The lower bits of a token are random: a server that has lost its newest writes may count the same number again, and a lease from before that
/// is none of what comes after.
const RANDOM_BITS: u32 = 20;

impl Redis {
    /// A token above every other that was handed out, whichever proxy did.
    pub(super) async fn next_token(&self) -> Result<u64, StoreError> {
        let count: u64 = self.link.call(cmd("INCR").arg(self.names.tokens()), Repeat::Harmless).await?;
        Ok(count << RANDOM_BITS | u64::from(uuid::Uuid::new_v4().as_fields().0 >> (32 - RANDOM_BITS)))
    }

    pub(super) async fn begin_now(&self, begin: &Begin) -> Result<Begun, StoreError> {
        self.tell_time(begin.now);
        let tag = Tag::of(&begin.key);
        let (token, seen, ()) = futures_util::future::try_join3(
            self.next_token(),
            self.read(&tag, Depth::Whole),
            // Before the record is there: an entry of none means nothing, a record without an entry would not be listed.
            self.enter_owner(begin.provisional, &begin.key, begin.now),
        )
        .await?;
        let (mut token, mut seen) = (token, seen);
        loop {
            if token <= seen.token() {
                // Somebody else came in between.
                token = self.next_token().await?;
            }
            let (new, previous) = match granted(begin, &seen, token) {
                Ok(granted) => granted,
                Err(in_flight) => return Ok(Begun::Busy(*in_flight)),
            };
            let new = self.with_entries(new, begin.now).await?;
            if let Some(record) = self.write(&tag, &seen, new).await? {
                let lease = Lease { key: begin.key.clone(), token };
                return Ok(Begun::Granted { lease, context: record.context.clone(), previous });
            }
            seen = self.read(&tag, Depth::Whole).await?;
            if matches!(seen, Seen::Gone { .. }) {
                self.enter_owner(begin.provisional, &begin.key, begin.now).await?;
            }
        }
    }

    /// The entries of a context's ids live as long as it does: twice as long as it may be unused, counted anew before half of that is over.
    async fn with_entries(&self, mut record: Record, now: u64) -> Result<Record, StoreError> {
        if now.saturating_sub(record.entered_at) <= self.ttl() / 2 {
            return Ok(record);
        }
        record.entered_at = now;
        let route = &record.key.route;
        let ids = record.context.tasks.iter().flat_map(rules::ids);
        let keep = ids.map(|id| async move {
            let entry = self.names.id(route, id);
            self.link.call::<()>(cmd("PEXPIRE").arg(entry).arg(self.entries_last()), Repeat::Harmless).await
        });
        futures_util::future::try_join_all(keep).await?;
        Ok(record)
    }
}

/// The context with the turn that begins, and the turn whose place it takes; an error is the turn that is in its way.
fn granted(begin: &Begin, seen: &Seen, token: u64) -> Result<(Record, Option<InFlight>), Box<InFlight>> {
    let (mut new, provisional) = match seen {
        Seen::There(before) => (Record::clone(before), false),
        Seen::Gone { .. } => (Record::new(begin, token), begin.provisional),
    };
    let (_, previous) = new.lives.begin(begin, || token, provisional)?;
    new.token = token;
    Ok((new, previous))
}

impl Record {
    fn new(begin: &Begin, token: u64) -> Self {
        Self {
            version: String::new(),
            key: begin.key.clone(),
            serial: token,
            token,
            entered_at: begin.now,
            context: Arc::new(Context::new(begin.fence.clone())),
            lives: Lives::default(),
            turns: (0, 0),
            tasks: Vec::new(),
            apart: Vec::new(),
            whole: true,
        }
    }
}
