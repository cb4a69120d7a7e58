//! What is to go next: the contexts in the order of their last use, and how much they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MemoryLimits;
use super::slot::{Slot, State};
use crate::store::rules::Live;

/// The place of a context in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// Without a turn in flight: rises with every use.
    Idle(u64),
    /// With one: when anybody may take the turn, and a number that rises.
    Leased(u64, u64),
}

/// The contexts in order. Every context has exactly one seat, kept in its state.
#[derive(Default)]
pub(super) struct Ledger {
    idle: BTreeMap<u64, (u64, Arc<Slot>)>,
    leased: BTreeMap<(u64, u64), Arc<Slot>>,
    bytes: usize,
    next: u64,
}

impl Ledger {
    /// Gives a context the seat that its state asks for.
    pub(super) fn seat(&mut self, slot: &Arc<Slot>, state: &mut State) {
        self.vacate(state);
        self.next += 1;
        // With several in flight it stays until the last of them may be taken.
        let seat = match state.lives().iter().map(Live::abandoned_at).max() {
            Some(free) => Seat::Leased(free, self.next),
            None => Seat::Idle(self.next),
        };
        match seat {
            Seat::Idle(order) => _ = self.idle.insert(order, (state.used, slot.clone())),
            Seat::Leased(free, order) => _ = self.leased.insert((free, order), slot.clone()),
        }
        state.seat = Some(seat);
    }

    fn vacate(&mut self, state: &mut State) {
        match state.seat.take() {
            Some(Seat::Idle(order)) => _ = self.idle.remove(&order),
            Some(Seat::Leased(free, order)) => _ = self.leased.remove(&(free, order)),
            None => {}
        }
    }

    /// A context goes.
    pub(super) fn leave(&mut self, state: &mut State) {
        self.vacate(state);
        self.count(state, 0);
    }

    /// A context takes so many bytes now.
    pub(super) fn count(&mut self, state: &mut State, bytes: usize) {
        self.bytes = self.bytes - state.bytes + bytes;
        state.bytes = bytes;
    }

    /// The context that goes next, if one must. Unused since `due` it must, if `sweep`; a turn may be taken from its holder up to `clock`.
    pub(super) fn next_to_go(
        &self,
        limits: &MemoryLimits,
        newest: Option<u64>,
        (due, clock): (u64, u64),
        sweep: bool,
    ) -> Option<(Seat, Arc<Slot>)> {
        let full = self.idle.len() + self.leased.len() > limits.contexts || self.bytes > limits.bytes;
        let idle = self.idle.first_key_value().filter(|(_, (_, slot))| newest != Some(slot.serial));
        let idle = idle.map(|(&order, (used, slot))| (*used, Seat::Idle(order), slot));
        let leased = self.leased.first_key_value();
        let leased = leased.map(|(&(free, order), slot)| (free, Seat::Leased(free, order), slot));
        let expired = |(since, ..): &(u64, Seat, &Arc<Slot>)| sweep && *since <= due && due > 0;
        let idle = idle.filter(|found| full || expired(found));
        let leased = || leased.filter(|found| (full && found.0 <= clock) || expired(found));
        idle.or_else(leased).map(|(_, seat, slot)| (seat, slot.clone()))
    }

    #[cfg(test)]
    pub(super) fn contexts_and_bytes(&self) -> (usize, usize) {
        (self.idle.len() + self.leased.len(), self.bytes)
    }
}
