//! Small things under a name, for a time; and what clients want to be notified of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::cmd;

use super::Redis;
use super::link::Repeat;
use super::names::Tag;
use super::record::{Depth, LONGEST, Record, Seen};
use crate::conversation::principal::ContextKey;
use crate::push::PushChange;
use crate::store::StoreError;

/// How much longer, in milliseconds, a note is kept than it counts: proxies' clocks differ.
const SLACK: u64 = 60_000;

/// Bytes of the time in front of a note.
const TIME: usize = size_of::<u64>();

impl Redis {
    pub(super) async fn configure_now(&self, key: &ContextKey, change: &PushChange) -> Result<bool, StoreError> {
        let tag = Tag::of(key);
        loop {
            let seen = self.read(&tag, Depth::Head).await?;
            let Seen::There(record) = &seen else { return Ok(false) };
            let mut new = Record::clone(record);
            if !Arc::make_mut(&mut new.context).configure(change.clone()) {
                return Ok(false);
            }
            if self.write(&tag, &seen, new).await?.is_some() {
                return Ok(true);
            }
        }
    }

    /// Whether it counts is told by the time in it; when the server forgets it, by how far that is off now.
    pub(super) async fn note_now(&self, name: &str, value: Option<Vec<u8>>, until: u64) -> Result<(), StoreError> {
        let key = self.names.note(name);
        let Some(value) = value else { return self.link.call(cmd("DEL").arg(key), Repeat::Harmless).await };
        let left = until.saturating_sub(self.clock.load(Ordering::Relaxed)).min(LONGEST) + SLACK;
        let value = [&until.to_le_bytes()[..], &value].concat();
        self.link.call(cmd("SET").arg(key).arg(value).arg("PX").arg(left), Repeat::Harmless).await
    }

    pub(super) async fn noted_now(&self, name: &str, now: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.tell_time(now);
        let noted: Option<Vec<u8>> = self.link.call(cmd("GET").arg(self.names.note(name)), Repeat::Harmless).await?;
        let noted = noted.as_deref().and_then(|noted| noted.split_first_chunk::<TIME>());
        Ok(noted.filter(|(until, _)| now < u64::from_le_bytes(**until)).map(|(_, value)| value.to_vec()))
    }
}
