//! Contexts as they were last seen: what nobody has changed meanwhile need not be read again.
//!
//! Nothing rests on it: a verb that acts on what is here is refused by the server when it is no longer so, and reads anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::names::Tag;
use super::record::Record;

/// Contexts, the longest unused of which go.
pub(super) struct Cache {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    records: HashMap<Tag, (u64, Arc<Record>)>,
    order: BTreeMap<u64, Tag>,
    bytes: usize,
    next: u64,
}

/// Bytes that a context takes here, about.
fn size(record: &Record) -> usize {
    let asked = record.lives.iter().filter_map(|live| live.lease.pending.as_ref());
    let asked: usize = asked.map(|pending| pending.opening.user_text.len() * 2).sum();
    1024 + record.context.size() + 256 * (record.context.tasks.len() + record.context.turns.len()) + asked
}

impl Held {
    fn take(&mut self, tag: &Tag) -> Option<Arc<Record>> {
        let (order, record) = self.records.remove(tag)?;
        self.order.remove(&order);
        self.bytes -= size(&record);
        Some(record)
    }

    fn put(&mut self, tag: &Tag, record: Arc<Record>) {
        self.next += 1;
        self.bytes += size(&record);
        self.order.insert(self.next, tag.clone());
        self.records.insert(tag.clone(), (self.next, record));
    }
}

impl Cache {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, tag: &Tag) -> Option<Arc<Record>> {
        let mut held = self.lock();
        let record = held.take(tag)?;
        held.put(tag, record.clone());
        Some(record)
    }

    pub(super) fn keep(&self, tag: &Tag, record: &Arc<Record>) {
        let mut held = self.lock();
        held.take(tag);
        if size(record) <= self.most {
            held.put(tag, record.clone());
        }
        while held.bytes > self.most {
            let Some(oldest) = held.order.first_key_value().map(|(_, tag)| tag.clone()) else { return };
            held.take(&oldest);
        }
    }

    pub(super) fn forget(&self, tag: &Tag) {
        self.lock().take(tag);
    }
}
