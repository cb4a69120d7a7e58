//! What is to go next: the contexts in the order in which they go, and how much they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::shelf::Maps;
use crate::store::engine::{Going, Limits, Rank, Slot, Standing, State};

/// The place of a context in the order: those of one rank in the order in which they came to it.
pub(super) type Seat = (Rank, u64);

/// The contexts in order. Every context has exactly one seat, kept in its mark.
#[derive(Default)]
pub(super) struct Ledger {
    seats: BTreeMap<Seat, Arc<Slot<Maps>>>,
    bytes: usize,
    next: u64,
}

impl Ledger {
    /// Gives a context the seat that its state asks for.
    pub(super) fn seat(&mut self, slot: &Arc<Slot<Maps>>, state: &mut State<Maps>, rank: Rank) {
        self.vacate(state);
        self.next += 1;
        let seat = (rank, self.next);
        self.seats.insert(seat, slot.clone());
        state.mark.seat = Some(seat);
        self.count(state, state.bytes);
    }

    fn vacate(&mut self, state: &mut State<Maps>) {
        if let Some(seat) = state.mark.seat.take() {
            self.seats.remove(&seat);
        }
    }

    /// A context goes.
    pub(super) fn leave(&mut self, state: &mut State<Maps>) {
        self.vacate(state);
        self.count(state, 0);
    }

    fn count(&mut self, state: &mut State<Maps>, bytes: usize) {
        self.bytes = self.bytes - state.mark.bytes + bytes;
        state.mark.bytes = bytes;
    }

    /// The context that goes next, if one must.
    pub(super) fn next_to_go(&self, limits: &Limits, going: Going) -> Option<(Rank, Arc<Slot<Maps>>)> {
        let full = limits.are_passed(self.seats.len(), self.bytes);
        let first = |standing| {
            let from = (Rank { standing, when: 0 }, 0);
            let mut all = self.seats.range(from..).take_while(|((rank, _), _)| rank.standing == standing);
            all.find(|(_, slot)| going.newest != Some(slot.serial))
        };
        let mut firsts = Standing::ALL.into_iter().filter_map(first);
        let next = firsts.find(|((rank, _), slot)| going.takes(limits, *rank, &slot.owner.0, full));
        next.map(|((rank, _), slot)| (*rank, slot.clone()))
    }

    #[cfg(test)]
    pub(super) fn contexts_and_bytes(&self) -> (usize, usize) {
        (self.seats.len(), self.bytes)
    }
}
