//! The contexts that are in memory: those in use, and of the others as many as there is room for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dashmap::{DashMap, Entry, VacantEntry};

use super::cabinet::Cabinet;
use crate::conversation::principal::ContextKey;
use crate::store::engine::{Slot, State, lock};

type Held = Arc<Slot<Cabinet>>;

/// What a context takes beside its turns, about.
const HEAD: usize = 512;
/// And each of its turns and tasks.
const ITEM: usize = 192;
/// Contexts looked at when room is made for one.
const LOOKS: usize = 16;

/// Contexts in memory. There is one slot of a context at a time: it goes from here only when nobody has it in hand and all of it is on disk.
pub(super) struct Cache {
    by_name: DashMap<ContextKey, Held>,
    by_serial: DashMap<u64, Held>,
    /// In the order in which they came.
    order: Mutex<VecDeque<u64>>,
    bytes: AtomicUsize,
    most: usize,
}

impl Cache {
    pub(super) fn new(most: usize) -> Self {
        let (by_name, by_serial) = (DashMap::new(), DashMap::new());
        Self { by_name, by_serial, order: Mutex::default(), bytes: AtomicUsize::new(0), most }
    }

    pub(super) fn get(&self, key: &ContextKey) -> Option<Held> {
        self.by_name.get(key).map(|slot| slot.value().clone())
    }

    pub(super) fn by_serial(&self, serial: u64) -> Option<Held> {
        self.by_serial.get(&serial).map(|slot| slot.value().clone())
    }

    /// The place of a name: while it is held nobody else reads that context from disk.
    pub(super) fn entry(&self, key: &ContextKey) -> Entry<'_, ContextKey, Held> {
        self.by_name.entry(key.clone())
    }

    pub(super) fn put(&self, place: VacantEntry<'_, ContextKey, Held>, slot: Slot<Cabinet>) -> Held {
        let slot = Arc::new(slot);
        self.by_serial.insert(slot.serial, slot.clone());
        lock(&self.order).push_back(slot.serial);
        self.count(&mut slot.lock());
        place.insert(slot.clone());
        slot
    }

    /// Counts what a context takes.
    pub(super) fn count(&self, state: &mut State<Cabinet>) {
        let items = state.context.turns.len() + state.context.tasks.len();
        self.count_as(state, HEAD + state.bytes + items * ITEM);
    }

    fn count_as(&self, state: &mut State<Cabinet>, now: usize) {
        self.bytes.fetch_add(now, Ordering::Relaxed);
        self.bytes.fetch_sub(std::mem::replace(&mut state.mark.cached, now), Ordering::Relaxed);
    }

    pub(super) fn forget_name(&self, key: &ContextKey, serial: u64) {
        self.by_name.remove_if(key, |_, slot| slot.serial == serial);
    }

    pub(super) fn forget(&self, key: &ContextKey, serial: u64, state: &mut State<Cabinet>) {
        self.count_as(state, 0);
        self.forget_name(key, serial);
        self.by_serial.remove(&serial);
    }

    /// Lets contexts go that came long ago, where there are too many. No slot may be locked by the caller whose context may go.
    pub(super) fn make_room(&self) {
        for _ in 0..LOOKS {
            if self.bytes.load(Ordering::Relaxed) <= self.most {
                return;
            }
            let Some(serial) = lock(&self.order).pop_front() else { return };
            if !self.let_go(serial) && self.by_serial.contains_key(&serial) {
                lock(&self.order).push_back(serial);
            }
        }
    }

    fn let_go(&self, serial: u64) -> bool {
        let Some(slot) = self.by_serial(serial) else { return true };
        let Some(key) = slot.try_lock().map(|state| slot.key(&state)) else { return false };
        drop(slot);
        // Both maps are held, so nobody gets it in hand meanwhile; the two are theirs.
        let goes = |slot: &Held| Arc::strong_count(slot) == 2 && self.is_idle(slot);
        let gone = self.by_name.remove_if(&key, |_, slot| {
            slot.serial == serial && self.by_serial.remove_if(&serial, |_, slot| goes(slot)).is_some()
        });
        let Some((_, slot)) = gone else { return false };
        self.count_as(&mut slot.lock(), 0);
        true
    }

    /// Whether what is on disk is all of it.
    fn is_idle(&self, slot: &Held) -> bool {
        slot.try_lock().is_some_and(|state| {
            let written = state.mark.written.as_ref().is_none_or(|end| end.has_come());
            state.running.is_none() && state.mark.filed.is_some() && written
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_serial.len()
    }
}
