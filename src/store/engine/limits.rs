//! How much is kept, and what goes first where that is too much.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Shelf, State};
use crate::a2a::State as TaskState;
use crate::conversation::principal::RouteId;
use crate::store::rules::Live;

/// How much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contexts at most; beyond that the longest unused one goes: those in which nothing is open first, then those with an open question,
    /// those with a turn in flight never.
    pub contexts: usize,
    /// Bytes of all transcripts at most; beyond that likewise.
    pub bytes: usize,
    /// Bytes of one context's transcript at most; beyond that its oldest turns go.
    pub context_bytes: usize,
    /// How long a context is kept that nobody uses: in which no turn begins or settles.
    pub ttl: Duration,
    /// The same for the contexts of one route, where that differs. Where a context must go, it is the one whose time would be over first.
    pub route_ttl: Vec<(RouteId, Duration)>,
}

impl Default for Limits {
    /// A hundred thousand contexts, 1 GiB in all, 4 MiB each, for a day.
    fn default() -> Self {
        let ttl = Duration::from_secs(24 * 60 * 60);
        Self { contexts: 100_000, bytes: 1 << 30, context_bytes: 4 << 20, ttl, route_ttl: Vec::new() }
    }
}

/// The place of a context in the order in which they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::store) struct Rank {
    pub(in crate::store) standing: Standing,
    /// Of one with turns in flight: when anybody may take the last of them. Else: when its time is over.
    pub(in crate::store) when: u64,
}

/// What is open in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub(in crate::store) enum Standing {
    /// Nothing.
    Idle,
    /// A question that the client may answer.
    Open,
    /// A turn.
    Leased,
}

impl Standing {
    /// All of them, in the order in which they go.
    pub(in crate::store) const ALL: [Self; 3] = [Self::Idle, Self::Open, Self::Leased];
}

impl Limits {
    /// How long a context of the route is kept that nobody uses, in milliseconds.
    pub(in crate::store) fn ttl_of(&self, route: &RouteId) -> u64 {
        let own = self.route_ttl.iter().find(|(name, _)| name == route);
        let ttl = own.map_or(self.ttl, |(_, ttl)| *ttl);
        // So that it can be added to a time, and the order of use stays.
        u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(u64::MAX / 2)
    }

    /// Whether so much is too much.
    pub(in crate::store) fn are_passed(&self, contexts: usize, bytes: usize) -> bool {
        contexts > self.contexts || bytes > self.bytes
    }
}

/// What a context that goes is looked for by.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Going {
    /// The latest time that is known.
    pub(in crate::store) clock: u64,
    /// The context that stays: its turn was settled just now.
    pub(in crate::store) newest: Option<u64>,
    /// Whether those whose time is over go too.
    pub(in crate::store) sweep: bool,
}

impl Going {
    /// Whether a context that has this place goes: where the limits are passed (`full`), or its time is over.
    pub(in crate::store) fn takes(self, limits: &Limits, rank: Rank, route: &RouteId, full: bool) -> bool {
        let (free, over) = match rank.standing {
            Standing::Idle | Standing::Open => (true, rank.when),
            // A turn that anybody may take away counts as none.
            Standing::Leased => (rank.when <= self.clock, rank.when.saturating_add(limits.ttl_of(route))),
        };
        (full && free) || (self.sweep && over <= self.clock)
    }
}

impl<S: Shelf> State<S> {
    /// The place that it asks for in the order of going.
    pub(in crate::store) fn rank(&self, limits: &Limits, route: &RouteId) -> Rank {
        if let Some(when) = self.lives().iter().map(Live::abandoned_at).max() {
            return Rank { standing: Standing::Leased, when };
        }
        let open = self.context.tasks.iter().any(|task| task.state == TaskState::InputRequired);
        let standing = if open { Standing::Open } else { Standing::Idle };
        Rank { standing, when: self.used.saturating_add(limits.ttl_of(route)) }
    }
}
