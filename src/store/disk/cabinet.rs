//! Contexts on disk, and those of them that are in memory too.
//!
//! A context that is asked for is read whole and stays in memory until it must make room for others. A turn that is not bound, and a context
//! that has nothing but such a turn, are in memory alone: nobody was told of them, and they end with the process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use dashmap::Entry;

use super::cache::Cache;
use super::change::{self, Numbers, Write};
use super::key::{self, Piece};
use super::record::{self, Head, Holders};
use super::records::{End, Records};
use crate::context::Context;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::engine::{Going, Limits, Rank, Running, Shelf, Slot, State, lock};
use crate::store::rules::Lives;

/// Parts of the index, each behind a lock of its own.
const PARTS: usize = 64;

/// Contexts on disk.
pub(super) struct Cabinet {
    pub(super) records: Arc<Records>,
    pub(super) cache: Cache,
    pub(super) totals: Arc<Totals>,
    parts: Box<[Part]>,
    /// For each standing, what all that come in the order of going are not before: when.
    pub(super) earliest: [AtomicU64; 3],
}

/// How much there is.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) contexts: AtomicU64,
    pub(super) bytes: AtomicUsize,
}

#[derive(Default)]
struct Part {
    /// Binds of one of the agent's ids are made one after the other, without those of others waiting.
    alone: Mutex<()>,
    /// Entries are read, changed and written one after the other.
    entries: Mutex<()>,
}

/// What is noted beside a context.
#[derive(Default)]
pub(in crate::store) struct Mark {
    /// Whether somebody began in it, and it has not gone.
    pub(super) is_there: bool,
    /// How it is on disk, where it is.
    pub(super) filed: Option<Box<Filed>>,
    /// The end of the last round in which it was written.
    pub(super) written: Option<Arc<End>>,
    /// Bytes that the cache counts for it.
    pub(super) cached: usize,
}

/// A context as it is on disk.
pub(super) struct Filed {
    context: Arc<Context>,
    context_id: Arc<str>,
    numbers: Numbers,
    /// The turns in flight.
    lives: Lives,
    pub(super) rank: Rank,
    bytes: usize,
}

impl Cabinet {
    pub(super) fn new(records: Arc<Records>, totals: Arc<Totals>, cache_bytes: usize) -> Self {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Self { records, cache: Cache::new(cache_bytes), totals, parts, earliest: Default::default() }
    }

    fn part(&self, key: &[u8]) -> &Part {
        &self.parts[usize::from(key[1]) % PARTS]
    }

    /// The context with this number.
    pub(super) fn by_serial(&self, serial: u64) -> Option<Arc<Slot<Self>>> {
        if let Some(slot) = self.cache.by_serial(serial) {
            return Some(slot);
        }
        let head = self.records.get(&key::piece(serial, Piece::Head, 0))?;
        let head: Head = self.read(record::read(&head), "a context's head")?;
        self.find(&head.key).filter(|slot| slot.serial == serial)
    }

    /// What cannot be read as what it should be is damaged.
    fn read<T>(&self, record: Option<T>, what: &str) -> Option<T> {
        if record.is_none() {
            self.records.fail(format!("{what} is damaged: restore the folder from a copy"));
        }
        record
    }

    fn load(&self, name: &ContextKey) -> Option<Slot<Self>> {
        let serial = self.records.get(&key::name(name))?;
        let serial = self.read(key::serial_at_end(&serial), "a context's number")?;
        self.file(serial).filter(|(head, _)| head.key == *name).map(|(_, slot)| slot)
    }

    /// Reads the records of a context; it is in no map yet.
    fn file(&self, serial: u64) -> Option<(Head, Slot<Self>)> {
        let (mut head, mut lives, mut numbers) = (None, Lives::default(), Numbers::default());
        let mut context = Context::default();
        let prefix = key::context(serial);
        for (at, value) in self.records.scan(&prefix, &prefix, usize::MAX) {
            let (piece, number) = self.read(key::piece_of(&at), "a record's key")?;
            match piece {
                Piece::Head => head = Some(self.read(record::read::<Head>(&value), "a context's head")?),
                Piece::Lives => lives = self.read(record::read(&value), "the turns in flight")?,
                Piece::Task => {
                    context.tasks.push(self.read(record::read(&value), "a task")?);
                    numbers.tasks.push(number);
                }
                Piece::Apart => {
                    context.apart.push(self.read(record::read_turn(&value), "a turn")?);
                    numbers.apart_end = number + 1;
                }
                Piece::Turn => context.turns.push(self.read(record::read_turn(&value), "a turn")?),
            }
        }
        let head = head?;
        context.fence.clone_from(&head.fence);
        context.push.clone_from(&head.push);
        (context.window_start, context.rewrites) = (head.window_start, head.rewrites);
        Some((head.clone(), restored(serial, head, context, lives, numbers)))
    }

    fn writes(&self, slot: &Slot<Self>, state: &mut State<Self>, rank: Rank) -> Vec<Write> {
        let Some(mut filed) = state.mark.filed.take() else {
            let unsettled = Lives::unsettled(state.lives(), &Lives::default());
            let worth = !unsettled.is_empty() || !state.context.is_blank();
            return if worth { self.first_writes(slot, state, unsettled, rank) } else { Vec::new() };
        };
        let unsettled = Lives::unsettled(state.lives(), &filed.lives);
        let mut writes = Vec::new();
        if filed.lives != unsettled {
            writes.push(lives(slot.serial, &unsettled));
            filed.lives = unsettled;
        }
        let configured = filed.context.push != state.context.push;
        if !Arc::ptr_eq(&filed.context, &state.context) {
            writes.extend(change::writes(slot.serial, &filed.context, &state.context, &mut filed.numbers));
            filed.context = state.context.clone();
        }
        if !writes.is_empty() || configured || filed.context_id != state.context_id {
            filed.context_id = state.context_id.clone();
            writes.extend(self.move_to(slot.serial, &mut filed.rank, rank));
            writes.push(head(slot, state, rank));
            count(&self.totals.bytes, &mut filed.bytes, state.bytes);
        }
        state.mark.filed = Some(filed);
        writes
    }

    fn first_writes(&self, slot: &Slot<Self>, state: &mut State<Self>, unsettled: Lives, rank: Rank) -> Vec<Write> {
        let mut numbers = Numbers::default();
        let mut writes = change::writes(slot.serial, &Context::default(), &state.context, &mut numbers);
        let serial = slot.serial.to_be_bytes().to_vec();
        writes.push((key::name(&slot.key(state)), Some(serial)));
        writes.push((key::owned(&slot.owner, slot.serial), Some(Vec::new())));
        writes.push((key::place(rank, slot.serial), Some(Vec::new())));
        writes.push(head(slot, state, rank));
        if !unsettled.is_empty() {
            writes.push(lives(slot.serial, &unsettled));
        }
        self.comes_at(rank);
        self.totals.contexts.fetch_add(1, Ordering::Relaxed);
        let mut bytes = 0;
        count(&self.totals.bytes, &mut bytes, state.bytes);
        let (context, context_id) = (state.context.clone(), state.context_id.clone());
        state.mark.filed = Some(Box::new(Filed { context, context_id, numbers, lives: unsettled, rank, bytes }));
        writes
    }

    /// Gives a context another place in the order of going.
    fn move_to(&self, serial: u64, from: &mut Rank, to: Rank) -> Vec<Write> {
        if *from == to {
            return Vec::new();
        }
        self.comes_at(to);
        let old = std::mem::replace(from, to);
        vec![(key::place(old, serial), None), (key::place(to, serial), Some(Vec::new()))]
    }

    fn comes_at(&self, rank: Rank) {
        self.earliest[rank.standing as usize].fetch_min(rank.when, Ordering::Relaxed);
    }

    /// The context has the place that its state asks for, also where nothing else of it was written.
    pub(super) fn reseat(&self, slot: &Slot<Self>, state: &mut State<Self>, rank: Rank) {
        if let Some(filed) = &mut state.mark.filed {
            let mut writes = self.move_to(slot.serial, &mut filed.rank, rank);
            writes.push(head(slot, state, rank));
            state.mark.written = Some(self.records.write(writes));
        }
    }

    /// Changes an entry of the index.
    fn entry<T>(&self, slot: &Slot<Self>, id: &str, act: impl FnOnce(&mut Holders) -> T) -> T {
        let (key, own) = (key::id(&slot.owner.0, id), slot.serial);
        let _one = lock(&self.part(&key).entries);
        let before = self.holders(&key);
        let mut holders = Holders { client: self.there(before.client, own), agent: self.there(before.agent, own) };
        let done = act(&mut holders);
        if holders != before {
            self.records.write([(key, holders.written())]);
        }
        done
    }

    /// A context that is gone holds nothing: its process ended before it was written.
    fn there(&self, serial: u64, own: u64) -> u64 {
        let exists = || {
            self.cache.by_serial(serial).is_some() || self.records.get(&key::piece(serial, Piece::Head, 0)).is_some()
        };
        if serial == 0 || serial == own || exists() { serial } else { 0 }
    }

    fn holders(&self, key: &[u8]) -> Holders {
        let found = self.records.get(key);
        found.and_then(|found| self.read(Holders::read(&found), "an entry of the index")).unwrap_or_default()
    }
}

fn head(slot: &Slot<Cabinet>, state: &State<Cabinet>, rank: Rank) -> Write {
    let Context { fence, window_start, rewrites, push, .. } = &*state.context;
    let (fence, window_start, rewrites, push) = (fence.clone(), *window_start, *rewrites, push.clone());
    let head = Head { key: slot.key(state), fence, window_start, rewrites, push, used: state.used, rank };
    (key::piece(slot.serial, Piece::Head, 0), Some(record::write(&head)))
}

fn lives(serial: u64, lives: &Lives) -> Write {
    (key::piece(serial, Piece::Lives, 0), (!lives.is_empty()).then(|| record::write(lives)))
}

fn restored(serial: u64, head: Head, context: Context, lives: Lives, numbers: Numbers) -> Slot<Cabinet> {
    let ContextKey { route, principal, context_id } = head.key;
    let slot = Slot::<Cabinet>::new(serial, (route, principal), context_id, context);
    let mut state = slot.lock();
    state.used = head.used;
    state.running = Running::new(lives.clone());
    let (context, context_id, bytes) = (state.context.clone(), state.context_id.clone(), state.bytes);
    state.mark.is_there = true;
    let rank = head.rank;
    state.mark.filed = Some(Box::new(Filed { context, context_id, numbers, lives, rank, bytes }));
    drop(state);
    slot
}

/// Has a total count `now` bytes for what counted `before`.
fn count(total: &AtomicUsize, before: &mut usize, now: usize) {
    total.fetch_add(now, Ordering::Relaxed);
    total.fetch_sub(std::mem::replace(before, now), Ordering::Relaxed);
}

impl Shelf for Cabinet {
    type Mark = Mark;
    type Written = Option<Arc<End>>;

    fn find(&self, key: &ContextKey) -> Option<Arc<Slot<Self>>> {
        if let Some(slot) = self.cache.get(key) {
            return Some(slot);
        }
        let slot = match self.cache.entry(key) {
            Entry::Occupied(found) => found.get().clone(),
            Entry::Vacant(vacant) => self.cache.put(vacant, self.load(key)?),
        };
        self.cache.make_room();
        Some(slot)
    }

    fn find_or(&self, key: &ContextKey, make: impl FnOnce() -> Slot<Self>) -> Arc<Slot<Self>> {
        if let Some(slot) = self.cache.get(key) {
            return slot;
        }
        let slot = match self.cache.entry(key) {
            Entry::Occupied(found) => found.get().clone(),
            Entry::Vacant(vacant) => self.cache.put(vacant, self.load(key).unwrap_or_else(make)),
        };
        self.cache.make_room();
        slot
    }

    fn owner(&self, key: &ContextKey) -> (RouteId, Principal) {
        (key.route.clone(), key.principal.clone())
    }

    fn each_owned(&self, owner: &(RouteId, Principal), visit: &mut dyn FnMut(Arc<Slot<Self>>)) {
        let prefix = key::owner(owner);
        for (at, _) in self.records.scan(&prefix, &prefix, usize::MAX) {
            key::serial_at_end(&at).and_then(|serial| self.by_serial(serial)).into_iter().for_each(&mut *visit);
        }
    }

    fn is_there(&self, mark: &Mark) -> bool {
        mark.is_there
    }

    fn note(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>, rank: Rank) {
        state.mark.is_there = true;
        let writes = self.writes(slot, state, rank);
        if !writes.is_empty() {
            state.mark.written = Some(self.records.write(writes));
        }
        self.cache.count(state);
    }

    fn rename(&self, slot: &Arc<Slot<Self>>, old: &ContextKey, new: &ContextKey) -> bool {
        // Only a provisional context is renamed, and nothing of one is on disk.
        let Entry::Vacant(vacant) = self.cache.entry(new) else { return false };
        if self.records.get(&key::name(new)).is_some() {
            return false;
        }
        drop(vacant.insert(slot.clone()));
        self.cache.forget_name(old, slot.serial);
        true
    }

    fn forget(&self, slot: &Arc<Slot<Self>>, state: &mut State<Self>) {
        state.mark.is_there = false;
        if let Some(filed) = state.mark.filed.take() {
            let pieces = change::all(slot.serial, &filed.context, &filed.numbers);
            let others = [
                key::name(&slot.key(state)),
                key::owned(&slot.owner, slot.serial),
                key::place(filed.rank, slot.serial),
            ];
            self.totals.contexts.fetch_sub(1, Ordering::Relaxed);
            self.totals.bytes.fetch_sub(filed.bytes, Ordering::Relaxed);
            state.mark.written = Some(self.records.write(pieces.into_iter().chain(others).map(|key| (key, None))));
        }
        self.cache.forget(&slot.key(state), slot.serial, state);
    }

    fn written(&self, mark: &Mark) -> Self::Written {
        mark.written.clone().filter(|end| !end.has_come())
    }

    fn next_to_go(&self, limits: &Limits, going: Going) -> Option<(Rank, Arc<Slot<Self>>)> {
        self.first_to_go(limits, going)
    }

    fn alone(&self, route: &RouteId, id: &str) -> MutexGuard<'_, ()> {
        lock(&self.part(&key::id(route, id)).alone)
    }

    fn client(&self, route: &RouteId, id: &str) -> Option<Arc<Slot<Self>>> {
        let serial = self.holders(&key::id(route, id)).client;
        if serial == 0 { None } else { self.by_serial(serial) }
    }

    fn take_agent(&self, slot: &Arc<Slot<Self>>, id: &str) -> Vec<Arc<Slot<Self>>> {
        let before = self.entry(slot, id, |holders| {
            let before = *holders;
            holders.agent = slot.serial;
            before
        });
        let client = if before.client == before.agent { 0 } else { before.client };
        let known = [client, before.agent].into_iter().filter(|serial| *serial != 0);
        known.filter_map(|serial| self.by_serial(serial)).collect()
    }

    fn add_agent(&self, slot: &Arc<Slot<Self>>, id: &str) {
        self.entry(slot, id, |holders| {
            if holders.agent == 0 {
                holders.agent = slot.serial;
            }
        });
    }

    fn add_client(&self, slot: &Arc<Slot<Self>>, id: &str) {
        self.entry(slot, id, |holders| {
            if holders.client == 0 {
                holders.client = slot.serial;
            }
        });
    }

    fn keep(&self, slot: &Arc<Slot<Self>>, id: &str, client: bool, agent: bool) {
        self.entry(slot, id, |holders| {
            if !client && holders.client == slot.serial {
                holders.client = 0;
            }
            if !agent && holders.agent == slot.serial {
                holders.agent = 0;
            }
        });
    }
}
