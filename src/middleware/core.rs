//! What all requests of a layer share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_util::task::TaskTracker;

use crate::conversation::policy::Policy;
use crate::conversation::principal::{Principal, RouteId};
use crate::json::hex;
use crate::store::Store;

/// Refused sends whose tasks can still be asked for, and ids of tasks that belong to nobody.
const RING: usize = 4096;

/// The time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now(&self) -> u64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A task with which a send was refused.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) route: RouteId,
    pub(super) principal: Principal,
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) message_id: String,
    pub(super) in_flight: Option<String>,
    pub(super) at: u64,
}

/// What all requests of a layer share.
pub(super) struct Core {
    pub(super) policy: Arc<Policy>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    /// Everything that outlives a request.
    pub(super) tracker: TaskTracker,
    refused: Mutex<VecDeque<Refused>>,
    unclaimed: Mutex<VecDeque<(RouteId, String)>>,
}

impl Core {
    pub(super) fn new(policy: Arc<Policy>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self {
            policy,
            store,
            clock,
            tracker: TaskTracker::new(),
            refused: Mutex::default(),
            unclaimed: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// When a lease taken or renewed now expires.
    pub(super) fn lease_end(&self) -> u64 {
        self.now() + millis(self.policy.guard.lease)
    }

    pub(super) fn remember_refused(&self, refused: Refused) {
        let mut ring = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back(refused);
    }

    pub(super) fn refused(&self, route: &RouteId, principal: &Principal, id: &str) -> Option<Refused> {
        let ring = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        ring.iter().find(|refused| refused.id == id && refused.route == *route && refused.principal == *principal).cloned()
    }

    /// Notes a task that was made for a caller who could not be told from others.
    pub(super) fn leave_unclaimed(&self, route: &RouteId, id: &str) {
        let mut ring = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back((route.clone(), id.to_owned()));
    }

    pub(super) fn is_unclaimed(&self, route: &RouteId, id: &str) -> bool {
        let ring = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        ring.iter().any(|(of, unclaimed)| of == route && unclaimed == id)
    }
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}

/// A random id in the form that SDKs mint.
pub(super) fn mint() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A random token for a context's records: 64 bits that nobody outside can know.
pub(super) fn mint_fence() -> String {
    hex(&uuid::Uuid::new_v4().as_bytes()[..8])
}

/// A time as A2A writes it.
pub(super) fn timestamp(millis: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)).to_string()
}
