//! Which context goes next.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cabinet::Cabinet;
use super::key;
use crate::store::engine::{Going, Limits, Rank, Slot, Standing};

/// Places that are read at once.
const PAGE: usize = 8;

impl Cabinet {
    /// Without a look at the disk where no context's time is over and the limits hold.
    pub(super) fn first_to_go(&self, limits: &Limits, going: Going) -> Option<(Rank, Arc<Slot<Self>>)> {
        let (contexts, bytes) = (&self.totals.contexts, &self.totals.bytes);
        let contexts = usize::try_from(contexts.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let full = limits.are_passed(contexts, bytes.load(Ordering::Relaxed));
        Standing::ALL.into_iter().find_map(|standing| self.first_of(standing, limits, going, full))
    }

    fn first_of(
        &self,
        standing: Standing,
        limits: &Limits,
        going: Going,
        full: bool,
    ) -> Option<(Rank, Arc<Slot<Self>>)> {
        let earliest = &self.earliest[standing as usize];
        let from = earliest.load(Ordering::Relaxed);
        if !full && from > going.clock {
            return None;
        }
        let prefix = key::standing(standing);
        let mut at = key::place(Rank { standing, when: from }, 0);
        loop {
            let page = self.records.scan(&prefix, &at, PAGE);
            if page.is_empty() && from == 0 {
                // Whatever comes makes it earlier.
                let _ = earliest.compare_exchange(0, u64::MAX, Ordering::Relaxed, Ordering::Relaxed);
            }
            let last = page.last()?.0.clone();
            for (place, _) in page {
                let (when, serial) = key::placed(&place)?;
                if !full && when > going.clock {
                    let _ = earliest.compare_exchange(from, when, Ordering::Relaxed, Ordering::Relaxed);
                    return None;
                }
                if going.newest != Some(serial)
                    && let Some(found) = self.goes(Rank { standing, when }, serial, limits, going, full)
                {
                    return Some(found);
                }
            }
            at = [&*last, &[0]].concat();
        }
    }

    /// Whether the context at a place goes. One that has come to another place meanwhile is given it.
    fn goes(
        &self,
        place: Rank,
        serial: u64,
        limits: &Limits,
        going: Going,
        full: bool,
    ) -> Option<(Rank, Arc<Slot<Self>>)> {
        let Some(slot) = self.by_serial(serial) else {
            self.records.write([(key::place(place, serial), None)]);
            return None;
        };
        let mut state = slot.lock();
        let rank = state.rank(limits, &slot.owner.0);
        if state.mark.filed.as_ref().is_none_or(|filed| filed.rank != place) {
            self.records.write([(key::place(place, serial), None)]);
        } else if rank != place {
            self.reseat(&slot, &mut state, rank);
        }
        drop(state);
        going.takes(limits, rank, &slot.owner.0, full).then_some((rank, slot))
    }
}
