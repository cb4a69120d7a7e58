//! The turns in flight in a context.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::Live;
use crate::store::{Begin, InFlight, Share};

/// The turns in flight in a context, in the order in which they began: one at most, but where they may run beside one another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::store) struct Lives(Vec<Live>);

impl Lives {
    /// Lets a turn begin, under a token that rises. The turn whose place it took; an error is the turn that is in its way.
    pub(in crate::store) fn begin(
        &mut self,
        begin: &Begin,
        token: impl FnOnce() -> u64,
        provisional: bool,
    ) -> Result<(u64, Option<InFlight>), Box<InFlight>> {
        let before = self.place(begin).map_err(|at| Box::new(self.0[at].seen()))?.map(|at| self.0.remove(at));
        let (token, previous) = (token(), before.as_ref().map(Live::seen));
        self.0.push(Live::new(begin, token, provisional, before));
        Ok((token, previous))
    }

    /// Whose place a turn may take, if anybody's; an error is whoever is in its way.
    fn place(&self, begin: &Begin) -> Result<Option<usize>, usize> {
        let free = |live: &Live| live.may_begin(begin);
        if let Some(at) = begin.take.and_then(|token| self.at(token)) {
            return if free(&self.0[at]) { Ok(Some(at)) } else { Err(at) };
        }
        let in_the_way = |live: &Live| match &begin.share {
            Share::Alone => true,
            Share::Beside(task) => task.as_ref().is_some_and(|task| live.is_of(task)),
        };
        match self.0.iter().position(|live| in_the_way(live) && !free(live)) {
            Some(at) => Err(at),
            // Whatever nobody holds any more is cleared away by whoever comes.
            None => Ok(self.0.iter().position(free)),
        }
    }

    /// What outlives the process of these turns. One that was taken over stays as it was before, until it is bound anew or settled.
    #[cfg(feature = "disk")]
    pub(in crate::store) fn unsettled(lives: &[Live], before: &Self) -> Self {
        let kept = |live: &Live| before.iter().find(|old| live.is_inherited_from(old)).cloned();
        Self(lives.iter().filter_map(|live| kept(live).or_else(|| live.unsettled())).collect())
    }

    fn at(&self, token: u64) -> Option<usize> {
        self.0.iter().position(|live| live.lease.token == token)
    }

    /// Whether the turn with this token is in flight.
    pub(in crate::store) fn holds(&self, token: u64) -> bool {
        self.at(token).is_some()
    }

    /// Takes out the turn with this token, and where it stood.
    pub(in crate::store) fn take(&mut self, token: u64) -> Option<(usize, Live)> {
        self.at(token).map(|at| (at, self.0.remove(at)))
    }

    /// Puts a turn back where it stood.
    pub(in crate::store) fn put(&mut self, at: usize, live: Live) {
        self.0.insert(at, live);
    }

    pub(in crate::store) fn all(&mut self) -> &mut [Live] {
        &mut self.0
    }
}

impl Deref for Lives {
    type Target = [Live];

    fn deref(&self) -> &[Live] {
        &self.0
    }
}

/// The turn in flight that is of the task `id`; else the one that began first.
pub(in crate::store) fn in_flight(lives: &[Live], id: Option<&str>) -> Option<InFlight> {
    let named = id.and_then(|id| lives.iter().find(|live| live.is_of(id)));
    named.or(lives.first()).map(Live::seen)
}
