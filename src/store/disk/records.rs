//! The records, and how they get to the disk: by rounds.
//!
//! A verb writes into the round that is open and, where somebody is to be told of it, waits for its end. One thread closes a round, writes it
//! as one batch, syncs once, and wakes whoever waits for it; what is written meanwhile is the next round. So many verbs share a sync, no
//! thread waits for the disk with a lock in its hands, and a verb is on disk whole or not at all. Records of rounds that have not ended are
//! read here, all others from the keyspace.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, PersistMode};
use tokio::sync::Notify;

use super::Durability;
use super::change::Write;
use super::fault;
use super::key::{self, Key};
use crate::store::StoreError;
use crate::store::engine::lock;

/// What nobody waits for is written after this time at the latest.
const LINGER: Duration = Duration::from_millis(100);

/// The records of a store.
pub(super) struct Records {
    database: Database,
    pub(super) keyspace: Keyspace,
    durability: Durability,
    /// Held by a verb while it writes: a round ends with none of it or all of it.
    gate: RwLock<()>,
    rounds: Mutex<Rounds>,
    work: Condvar,
    /// Why nothing can be read or written any more.
    failed: OnceLock<String>,
    /// What a round is not complete without: written with each.
    totals: OnceLock<Box<dyn Fn() -> Write + Send + Sync>>,
    #[cfg(test)]
    pub(super) reads: std::sync::atomic::AtomicU64,
    #[cfg(test)]
    pub(super) written: std::sync::atomic::AtomicU64,
}

#[derive(Default)]
struct Rounds {
    open: Round,
    /// The one that is being written.
    closing: Option<Round>,
    /// When the first record came into the open one.
    since: Option<Instant>,
    /// Whether somebody waits for its end.
    awaited: bool,
    /// Whether the store is being closed.
    stopping: bool,
}

#[derive(Clone, Default)]
struct Round {
    records: Arc<BTreeMap<Key, Option<Vec<u8>>>>,
    end: Arc<End>,
}

/// The end of a round.
#[derive(Default)]
pub(super) struct End {
    is_on_disk: OnceLock<bool>,
    told: Notify,
}

impl End {
    pub(super) fn has_come(&self) -> bool {
        self.is_on_disk.get().is_some()
    }

    fn tell(&self, is_on_disk: bool) {
        let _ = self.is_on_disk.set(is_on_disk);
        self.told.notify_waiters();
    }
}

impl Records {
    pub(super) fn new(database: Database, keyspace: Keyspace, durability: Durability) -> Self {
        Self {
            database,
            keyspace,
            durability,
            gate: RwLock::default(),
            rounds: Mutex::default(),
            work: Condvar::new(),
            failed: OnceLock::new(),
            totals: OnceLock::new(),
            #[cfg(test)]
            reads: std::sync::atomic::AtomicU64::new(0),
            #[cfg(test)]
            written: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// What is written with every round.
    pub(super) fn with_each_round(&self, totals: impl Fn() -> Write + Send + Sync + 'static) {
        let _ = self.totals.set(Box::new(totals));
    }

    /// While this is held no round is closed: what is written meanwhile is on disk whole or not at all.
    pub(super) fn in_one_round(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is answered from here on: what is kept is not known any more.
    pub(super) fn fail(&self, why: impl Into<String>) {
        let why = why.into();
        if self.failed.set(why.clone()).is_ok() {
            tracing::error!(%why, "the store on disk failed; it answers nothing until the next start");
        }
    }

    pub(super) fn is_well(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |why| Err(StoreError::Unavailable(why.clone())))
    }

    /// Writes, in the order given. The end of the round in which they are.
    pub(super) fn write(&self, writes: impl IntoIterator<Item = Write>) -> Arc<End> {
        let mut rounds = lock(&self.rounds);
        Arc::make_mut(&mut rounds.open.records).extend(writes);
        if rounds.since.is_none() {
            rounds.since = Some(Instant::now());
            self.work.notify_one();
        }
        rounds.open.end.clone()
    }

    /// The end of the newest round with something in it; none where all that was written is on disk.
    pub(super) fn newest(&self) -> Option<Arc<End>> {
        let rounds = lock(&self.rounds);
        let open = rounds.since.map(|_| rounds.open.end.clone());
        open.or_else(|| rounds.closing.as_ref().map(|round| round.end.clone()))
    }

    /// Waits until a round is on disk, where that is promised.
    pub(super) async fn told(&self, end: Option<Arc<End>>) -> Result<(), StoreError> {
        let Some(end) = end.filter(|_| self.durability == Durability::Acknowledged) else { return self.is_well() };
        loop {
            let told = end.told.notified();
            let mut told = std::pin::pin!(told);
            told.as_mut().enable();
            match end.is_on_disk.get() {
                Some(true) => return Ok(()),
                Some(false) => return self.is_well().and(Err(StoreError::Unavailable("not written".to_owned()))),
                None => self.ask_for(&end),
            }
            told.await;
        }
    }

    fn ask_for(&self, end: &Arc<End>) {
        let mut rounds = lock(&self.rounds);
        if Arc::ptr_eq(&rounds.open.end, end) && !rounds.awaited {
            rounds.awaited = true;
            self.work.notify_one();
        }
    }

    /// A record.
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        {
            let rounds = lock(&self.rounds);
            let closing = rounds.closing.as_ref().and_then(|round| round.records.get(key));
            if let Some(found) = rounds.open.records.get(key).or(closing) {
                return found.clone();
            }
        }
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.read(self.keyspace.get(key)).flatten().map(|found| found.to_vec())
    }

    /// Records whose keys begin so, from a key on, at most so many.
    pub(super) fn scan(&self, prefix: &[u8], from: &[u8], most: usize) -> Vec<(Key, Vec<u8>)> {
        let range = (Bound::Included(from.to_vec()), Bound::Unbounded);
        let mut young: BTreeMap<Key, Option<Vec<u8>>> = BTreeMap::new();
        {
            let rounds = lock(&self.rounds);
            for round in rounds.closing.iter().chain([&rounds.open]) {
                let those = round.records.range::<Key, _>(range.clone()).take_while(|(key, _)| key.starts_with(prefix));
                young.extend(those.map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut found = BTreeMap::new();
        for entry in self.keyspace.range(range) {
            let Some((key, value)) = self.read(entry.into_inner()) else { return Vec::new() };
            if !key.starts_with(prefix) || found.len() >= most {
                break;
            }
            if !young.contains_key(&*key) {
                found.insert(key.to_vec(), value.to_vec());
            }
        }
        found.extend(young.into_iter().filter_map(|(key, value)| Some((key, value?))));
        found.into_iter().take(most).collect()
    }

    fn read<T>(&self, read: fjall::Result<T>) -> Option<T> {
        read.map_err(|error| self.fail(format!("cannot be read: {}", fault::words(&error)))).ok()
    }

    /// Writes rounds until the store is closed: the work of one thread.
    pub(super) fn run(&self) {
        while self.await_work() {
            let round = self.close();
            let written = self.is_well().is_ok() && self.commit(&round);
            lock(&self.rounds).closing = None;
            round.end.tell(written);
        }
    }

    /// Whether there is a round to write; false when the store is closed and all is written.
    fn await_work(&self) -> bool {
        let mut rounds = lock(&self.rounds);
        loop {
            let window = match self.durability {
                Durability::Acknowledged => LINGER,
                Durability::Batched(window) => window,
            };
            let Some(since) = rounds.since else {
                if rounds.stopping {
                    return false;
                }
                rounds = self.work.wait(rounds).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = window.saturating_sub(since.elapsed());
            if rounds.awaited || rounds.stopping || left.is_zero() {
                return true;
            }
            rounds = self.work.wait_timeout(rounds, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn close(&self) -> Round {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let totals = self.totals.get().map(|totals| totals());
        let mut rounds = lock(&self.rounds);
        let mut round = std::mem::take(&mut rounds.open);
        Arc::make_mut(&mut round.records).extend(totals);
        (rounds.since, rounds.awaited) = (None, false);
        rounds.closing = Some(round.clone());
        round
    }

    fn commit(&self, round: &Round) -> bool {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in &*round.records {
            #[cfg(test)]
            self.written.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match value {
                Some(value) => batch.insert(&self.keyspace, key.as_slice(), value.as_slice()),
                None => batch.remove(&self.keyspace, key.as_slice()),
            }
        }
        let written = batch.commit();
        written.map_err(|error| self.fail(format!("cannot be written: {}", fault::words(&error)))).is_ok()
    }

    /// Has the thread that writes rounds end when all is written.
    pub(super) fn stop(&self) {
        lock(&self.rounds).stopping = true;
        self.work.notify_all();
    }

    /// Removes from the files what was removed from the store: all of them are written anew.
    ///
    /// The journal still has what the tables no longer have. It is given up for a new one when it is long enough, so it is made so.
    pub(super) fn compact(&self) -> fjall::Result<()> {
        let filler = vec![0_u8; FILLER];
        for _ in 0..JOURNAL / FILLER / AT_ONCE {
            for _ in 0..AT_ONCE {
                self.keyspace.insert(key::meta("filler"), filler.as_slice())?;
            }
            self.keyspace.rotate_memtable_and_wait()?;
        }
        self.keyspace.remove(key::meta("filler"))?;
        self.database.persist(PersistMode::SyncData)?;
        self.keyspace.rotate_memtable_and_wait()?;
        self.keyspace.major_compact()
    }
}

/// Bytes after which the database begins another journal, and more.
const JOURNAL: usize = 72 << 20;

/// Bytes of what is written to come there, and how many of those are in memory at a time.
const FILLER: usize = 4 << 20;
const AT_ONCE: usize = 3;
