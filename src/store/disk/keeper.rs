//! What was erased leaves the files: some time later, since all of them are written anew for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::records::Records;
use super::{fault, key};
use crate::store::engine::lock;

/// What is erased in this time leaves the files at once; no file is written anew more often.
const INTERVAL: Duration = Duration::from_secs(600);

/// Who writes the files anew: one thread.
#[derive(Default)]
pub(super) struct Keeper {
    state: Mutex<State>,
    changed: Condvar,
    compacting: Mutex<()>,
}

#[derive(Default)]
struct State {
    due: bool,
    stopping: bool,
    last: Option<Instant>,
}

impl Keeper {
    /// One who has something to do at once, where a process before ended with it undone.
    pub(super) fn new(due: bool) -> Self {
        Self { state: Mutex::new(State { due, ..State::default() }), ..Self::default() }
    }

    /// Something was erased.
    pub(super) fn note(&self, records: &Records) {
        records.write([(key::meta("erased"), Some(Vec::new()))]);
        lock(&self.state).due = true;
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
    }

    /// Works until it is stopped.
    pub(super) fn run(&self, records: &Records) {
        while self.await_work() {
            // Erased from here on is erased from the files the next time.
            records.write([(key::meta("erased"), None)]);
            match self.compact(records) {
                Ok(()) => tracing::info!("what was erased has left the files"),
                Err(error) => records.fail(format!("what was erased is still in the files: {}", fault::words(&error))),
            }
            lock(&self.state).last = Some(Instant::now());
        }
    }

    /// Writes all files anew.
    pub(super) fn compact(&self, records: &Records) -> fjall::Result<()> {
        let _alone = lock(&self.compacting);
        records.compact()
    }

    fn await_work(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            let left = state.last.map(|last| INTERVAL.saturating_sub(last.elapsed())).filter(|left| !left.is_zero());
            match (state.stopping, state.due, left) {
                (true, ..) => return false,
                (false, true, None) => {
                    state.due = false;
                    return true;
                }
                (false, true, Some(left)) => {
                    state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                (false, false, _) => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
