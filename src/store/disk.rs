//! The store on disk: what it has told is there after whatever end of the process.
//!
//! The rules are the engine's; here is what it takes to keep what they say in a folder, for one process at a time.

mod cabinet;
mod cache;
mod change;
mod fault;
mod going;
mod keeper;
mod key;
mod open;
mod record;
mod records;
mod tail;
#[cfg(test)]
mod tests;
mod transfer;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use self::cabinet::Cabinet;
pub use self::fault::OpenError;
use self::keeper::Keeper;
use self::records::Records;
pub use self::transfer::{Put, Saved};
use super::engine::{Engine, Limits, lock};
use super::memory::{Notes, Outbox};
use super::{Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store, StoreError};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::turn::Bound;

/// When what was written counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before anybody is told of it.
    Acknowledged,
    /// After this time at the latest: what was written in it is lost when the process or the machine ends without notice.
    Batched(Duration),
}

/// How a store on disk is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much is kept.
    pub limits: Limits,
    /// When it counts as kept.
    pub durability: Durability,
    /// Bytes of contexts that are held in memory beside those in use.
    pub cache_bytes: usize,
    /// Bytes of files that are held in memory.
    pub block_cache_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let (cache_bytes, block_cache_bytes) = (64 << 20, 16 << 20);
        Self { limits: Limits::default(), durability: Durability::Acknowledged, cache_bytes, block_cache_bytes }
    }
}

/// Conversations in a folder. One process has it at a time.
pub struct Disk {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    threads: Vec<JoinHandle<()>>,
    /// Goes when the store has.
    #[cfg(test)]
    folder: Option<tempfile::TempDir>,
}

struct Shared {
    engine: Engine<Cabinet>,
    secret: [u8; 32],
    outbox: Mutex<Outbox>,
    notes: Mutex<Notes>,
}

impl Disk {
    /// Opens the folder, or makes one. `secret` is what credentials are hashed with in a new one: random; it is kept there.
    ///
    /// # Errors
    /// Where the folder cannot be used, with what to do about it.
    pub fn open(folder: &Path, settings: &Settings, secret: [u8; 32]) -> Result<Self, OpenError> {
        let opened = open::open(folder, settings, secret)?;
        let keeper = Arc::new(Keeper::new(opened.erased));
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|error| OpenError::of_io(folder, &error))
        };
        let writing = Arc::clone(&opened.records);
        let (keeping, kept) = (Arc::clone(&keeper), Arc::clone(&opened.records));
        let threads = vec![
            start("store", Box::new(move || writing.run()))?,
            start("store-erase", Box::new(move || keeping.run(&kept)))?,
        ];
        let cabinet = Cabinet::new(opened.records, opened.totals, settings.cache_bytes);
        let engine = Engine::new(cabinet, settings.limits.clone(), opened.tokens);
        let (outbox, notes) = (Mutex::new(opened.outbox), Mutex::new(opened.notes));
        let shared = Shared { engine, secret: opened.secret, outbox, notes };
        Ok(Self {
            shared: Arc::new(shared),
            keeper,
            threads,
            #[cfg(test)]
            folder: None,
        })
    }

    fn records(&self) -> &Records {
        &self.shared.engine.shelf.records
    }

    /// A verb whose answer tells what was there before.
    fn read<T>(&self, verb: impl FnOnce(&Engine<Cabinet>) -> T) -> Result<T, StoreError> {
        self.records().is_well()?;
        let done = {
            let _whole = self.records().in_one_round();
            verb(&self.shared.engine)
        };
        self.records().is_well().map(|()| done)
    }

    /// A verb whose answer tells what it did.
    async fn write<T>(&self, verb: impl FnOnce(&Engine<Cabinet>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (done, end) = self.read(|engine| (verb(engine), engine.shelf.records.newest()))?;
        let done = done?;
        self.records().told(end).await?;
        Ok(done)
    }

    /// A change to the outbox, and how the delivery then is.
    async fn deliver<T>(&self, change: impl FnOnce(&mut Outbox) -> (u64, T)) -> Result<T, StoreError> {
        let deliver = |engine: &Engine<Cabinet>| {
            let mut outbox = lock(&self.shared.outbox);
            let (id, done) = change(&mut outbox);
            engine.shelf.records.write([(key::delivery(id), outbox.delivery(id).map(record::write))]);
            Ok(done)
        };
        self.write(deliver).await
    }

    /// Removes from the files what was erased: all of them are written anew, so it takes a while.
    ///
    /// # Errors
    /// Where the disk fails.
    pub fn compact(&self) -> Result<(), StoreError> {
        let compacted = self.keeper.compact(self.records());
        compacted.map_err(|error| StoreError::Unavailable(fault::words(&error)))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.keeper.stop();
        self.records().stop();
        for thread in self.threads.drain(..) {
            // A panic there has failed the store already.
            let _ = thread.join();
        }
    }
}

impl Store for Disk {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(async move {
            let (begun, written) = self.read(|engine| engine.begin_now(&begin))?;
            self.records().told(written).await?;
            Ok(begun)
        })
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        Box::pin(self.write(move |engine| engine.bind_now(lease, bind)))
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        // Who is told of it was told of the bind before.
        Box::pin(async move { self.read(|engine| engine.observe_now(lease, pending))? })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        Box::pin(self.write(move |engine| engine.settle_now(lease, settlement)))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.read(|engine| engine.renew_now(lease, until))? })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        Box::pin(async move { self.read(|engine| engine.release_now(lease)) })
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let found = self.read(|engine| engine.within(key, |slot, state| engine.found(slot, state, None)))?;
            let (found, written) = found.unzip();
            self.records().told(written.flatten()).await?;
            Ok(found)
        })
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let (found, written) = self.read(|engine| engine.find_task(route, principal, id))?.unzip();
            self.records().told(written.flatten()).await?;
            Ok(found)
        })
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            self.records().is_well()?;
            // It may read all that its principal has.
            let listed = tokio::task::spawn_blocking(move || shared.engine.list_now(&query)).await;
            let listed = listed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            self.records().told(self.records().newest()).await?;
            Ok(listed)
        })
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        Box::pin(self.write(move |engine| {
            if engine.within(key, |slot, state| engine.discard(slot, state)).is_some() {
                self.keeper.note(&engine.shelf.records);
            }
            Ok(())
        }))
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            // Registered while the slot is locked: a turn that ends from here on wakes it, however late it is polled.
            let end = self.read(|engine| engine.within(key, |_, state| state.end_of(token)).flatten())?;
            if let Some(end) = end {
                end.await;
            }
            Ok(())
        })
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        Box::pin(self.write(move |engine| Ok(engine.configure_now(key, change))))
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        Box::pin(self.write(move |engine| {
            let mut notes = lock(&self.shared.notes);
            let over = notes.clear(engine.now()).into_iter().map(|name| (key::note(&name), None));
            let record = value.as_ref().map(|value| record::write(&(name, value, until)));
            engine.shelf.records.write(over.chain([(key::note(name), record)]));
            notes.keep(name, value, until);
            Ok(())
        }))
    }

    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        // Who asks was given the name once it was on disk.
        Box::pin(async move { self.read(|_| lock(&self.shared.notes).find(name, now)) })
    }

    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        Box::pin(self.deliver(move |outbox| {
            let id = outbox.push(delivery);
            (id, id)
        }))
    }

    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        // Who took one is not written: when the process ends, so does whoever delivers.
        Box::pin(async move { self.read(|_| lock(&self.shared.outbox).take(now, until, limit)) })
    }

    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        Box::pin(self.deliver(move |outbox| {
            outbox.done(id, again);
            (id, ())
        }))
    }

    fn outbox_len(&self) -> Answer<'_, usize> {
        Box::pin(async move { self.read(|_| lock(&self.shared.outbox).len()) })
    }

    fn secret(&self) -> [u8; 32] {
        self.shared.secret
    }
}
