//! Notifications that are to be delivered: lane by lane, each lane in order. All on one slot, and every verb is one script.

use redis::cmd;

use super::Redis;
use super::link::{self, Repeat};
use super::script::{DONE, PUSH, TAKE};
use crate::store::{Delivery, StoreError};

/// What the outbox is made of: the newest id; the ids of each lane in order; the oldest of each lane by when it may be taken; and, by id, its
/// lane, when it is due, how often it was tried, and what it is.
const PARTS: [&str; 7] = ["newest", "lanes", "heads", "due", "tries", "lane", "body"];

/// The most that is taken at once.
const MOST: usize = 10_000;

impl Redis {
    fn outbox(&self) -> [String; PARTS.len()] {
        PARTS.map(|part| self.names.outbox(part))
    }

    pub(super) async fn push(&self, delivery: &Delivery) -> Result<u64, StoreError> {
        let keys = self.outbox();
        let push = PUSH.on(&keys).arg(&delivery.lane).arg(delivery.due).arg(&*delivery.body);
        // Said twice it would be delivered twice.
        link::read(self.link.run(&push, Repeat::Never).await?).map_err(link::unavailable)
    }

    pub(super) async fn take(&self, now: u64, until: u64, limit: usize) -> Result<Vec<Delivery>, StoreError> {
        let keys = self.outbox();
        let take = TAKE.on(&keys).arg(now).arg(until).arg(limit.min(MOST));
        let taken: Vec<(u64, String, u64, u32, Vec<u8>)> =
            link::read(self.link.run(&take, Repeat::Harmless).await?).map_err(link::unavailable)?;
        let delivery = |(id, lane, due, tries, body)| Delivery { id, lane, due, tries, body };
        Ok(taken.into_iter().map(delivery).collect())
    }

    pub(super) async fn waiting(&self) -> Result<usize, StoreError> {
        self.link.call(cmd("ZCARD").arg(self.names.outbox("lanes")), Repeat::Harmless).await
    }

    pub(super) async fn done(&self, id: u64, again: Option<u64>) -> Result<(), StoreError> {
        let keys = self.outbox();
        let again = again.map(|due| due.to_string()).unwrap_or_default();
        let done = DONE.on(&keys).arg(id).arg(again);
        self.link.run(&done, Repeat::Harmless).await.map(drop)
    }
}
