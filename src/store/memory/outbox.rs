//! Notifications that are to be delivered: lane by lane, each lane in order.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::store::Delivery;

/// The outbox.
#[derive(Default)]
pub(in crate::store) struct Outbox {
    /// The newest id.
    newest: u64,
    deliveries: HashMap<u64, Delivery>,
    /// The deliveries of each lane, the oldest first; a lane without any is not here.
    lanes: HashMap<String, VecDeque<u64>>,
    /// The oldest of each lane, with when it may be taken.
    heads: BTreeSet<(u64, u64)>,
    /// When those may be taken again that were.
    taken: HashMap<u64, u64>,
}

impl Outbox {
    /// One whose ids are greater than this.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn beyond(id: u64) -> Self {
        Self { newest: id, ..Self::default() }
    }

    /// A delivery as it is.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn delivery(&self, id: u64) -> Option<&Delivery> {
        self.deliveries.get(&id)
    }

    pub(in crate::store) fn push(&mut self, delivery: Delivery) -> u64 {
        self.newest += 1;
        let id = self.newest;
        self.restore(Delivery { id, ..delivery });
        id
    }

    /// Puts in a delivery that has its id; those of a lane in their order.
    pub(in crate::store) fn restore(&mut self, delivery: Delivery) {
        let id = delivery.id;
        let lane = self.lanes.entry(delivery.lane.clone()).or_default();
        lane.push_back(id);
        if lane.len() == 1 {
            self.heads.insert((delivery.due, id));
        }
        self.deliveries.insert(id, delivery);
    }

    pub(in crate::store) fn take(&mut self, now: u64, until: u64, limit: usize) -> Vec<Delivery> {
        let due: Vec<_> = self.heads.range(..=(now, u64::MAX)).take(limit).copied().collect();
        for head in &due {
            self.heads.remove(head);
            self.heads.insert((until, head.1));
            self.taken.insert(head.1, until);
        }
        due.iter().filter_map(|(_, id)| self.deliveries.get(id).cloned()).collect()
    }

    pub(in crate::store) fn done(&mut self, id: u64, again: Option<u64>) {
        let Some(delivery) = self.deliveries.get_mut(&id) else { return };
        let head = self.heads.remove(&(self.taken.remove(&id).unwrap_or(delivery.due), id));
        match again {
            Some(due) => {
                delivery.due = due;
                delivery.tries += 1;
                if head {
                    self.heads.insert((due, id));
                }
            }
            None => self.remove(id),
        }
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.deliveries.len()
    }

    fn remove(&mut self, id: u64) {
        let Some(delivery) = self.deliveries.remove(&id) else { return };
        let Some(lane) = self.lanes.get_mut(&delivery.lane) else { return };
        let head = lane.front() == Some(&id);
        lane.retain(|other| *other != id);
        match lane.front() {
            None => _ = self.lanes.remove(&delivery.lane),
            Some(next) if head => _ = self.heads.insert((self.deliveries.get(next).map_or(0, |next| next.due), *next)),
            Some(_) => {}
        }
    }

    #[cfg(test)]
    pub(in crate::store) fn entries(&self) -> usize {
        self.deliveries.len() + self.lanes.len() + self.heads.len() + self.taken.len()
    }
}
