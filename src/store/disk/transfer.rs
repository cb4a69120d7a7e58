//! Contexts taken out of a store and put into one, whole.

use std::sync::Arc;

use super::key;
use super::record::{self, Head};
use super::{Disk, fault};
use crate::context::Context;
use crate::conversation::principal::ContextKey;
use crate::store::{StoreError, engine::Shelf};

/// A context as it is carried from one store to another: without the turns in flight, which are its proxy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its key.
    pub key: ContextKey,
    /// Its turns and tasks.
    pub context: Arc<Context>,
    /// When it was last used: milliseconds since 1970.
    pub used: u64,
    /// The client task of each turn in flight; `None` of one that has no name yet.
    pub in_flight: Vec<Option<String>>,
}

/// What came of putting a context into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there now.
    Made,
    /// One of its key was there before, and is as it was.
    Kept,
}

impl Disk {
    /// The keys of all contexts, in no order that means something.
    ///
    /// # Errors
    /// Where the disk fails.
    pub fn keys(&self) -> Result<Vec<ContextKey>, StoreError> {
        let mut keys = Vec::new();
        for entry in self.records().keyspace.prefix(b"K") {
            let failed = |error: fjall::Error| StoreError::Unavailable(fault::words(&error));
            let serial = key::serial_at_end(&entry.value().map_err(failed)?).unwrap_or_default();
            let head = self.records().get(&key::piece(serial, key::Piece::Head, 0));
            keys.extend(head.and_then(|head| record::read::<Head>(&head)).map(|head| head.key));
        }
        self.records().is_well().map(|()| keys)
    }

    /// A context.
    ///
    /// # Errors
    /// Where the disk fails.
    pub fn saved(&self, key: &ContextKey) -> Result<Option<Saved>, StoreError> {
        self.read(|engine| {
            engine.within(key, |slot, state| Saved {
                key: slot.key(state),
                context: state.context.clone(),
                used: state.used,
                in_flight: state.lives().iter().map(|live| live.shown().map(|bound| bound.task_id.clone())).collect(),
            })
        })
    }

    /// Puts a context in, unless there is one of its key.
    ///
    /// # Errors
    /// Where the disk fails.
    pub async fn put(&self, saved: Saved) -> Result<Put, StoreError> {
        self.write(move |engine| Ok(engine.put(saved))).await
    }
}

impl<S: Shelf> crate::store::engine::Engine<S> {
    fn put(&self, saved: Saved) -> Put {
        let slot = self.slot_of(&saved.key, String::new());
        let mut state = slot.lock();
        if self.shelf.is_there(&state.mark) {
            return Put::Kept;
        }
        (state.bytes, state.context, state.used) = (saved.context.size(), saved.context, saved.used);
        for task in &state.context.tasks {
            self.shelf.add_client(&slot, &task.id);
            let upstream = task.attempts.iter().map(|attempt| task.upstream_task(attempt));
            let upstream = upstream.filter(|id| !task.superseded && !id.is_empty());
            upstream.for_each(|id| self.shelf.add_agent(&slot, &id));
        }
        self.note(&slot, &mut state);
        Put::Made
    }
}
