//! What all requests of a layer share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::ReplyBody;
use super::listeners::Readers;
use super::pumped::{Pieces, Pumped, Stalls};
use super::push::Relay;
use super::queue::Queues;
use crate::a2a::{Dialect, Shape};
use crate::conversation::policy::{OnDisconnect, Policy};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::json::{Edits, Value, hex};
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

/// Rewrites an agent card that stands in a larger document; what is wrong with it, where nothing of it can be shown.
pub type CardRewrite = Arc<dyn for<'d, 't> Fn(Value<'d, 't>, &mut Edits) -> Result<(), String> + Send + Sync>;

/// A client task in its context: turns of several may run in one.
pub(super) type TaskKey = (ContextKey, String);

/// What all requests of a layer share.
pub(super) struct Core {
    pub(super) policy: Arc<Policy>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    /// Everything that outlives a request.
    pub(super) tracker: TaskTracker,
    /// Ends what would only wait.
    pub(super) closing: CancellationToken,
    /// Ends what still waits for the agent, with an answer that says so.
    pub(super) concluding: CancellationToken,
    pub(super) card: Option<CardRewrite>,
    /// Push notifications are relayed; `None`: they are refused.
    pub(super) push: Option<Arc<Relay>>,
    /// Whether another proxy in front is believed.
    pub(super) trusts_hop: bool,
    /// The base at which the agent reaches the layer, once it is known.
    pub(super) reached_at: OnceLock<String>,
    /// Calls to the agent that can be dropped at the client's wish.
    cancels: Mutex<HashMap<TaskKey, Arc<Notify>>>,
    /// Who reads which turn.
    pub(super) readers: Readers,
    /// Who waits for a turn.
    pub(super) queues: Queues,
    stalls: Stalls,
    refused: Mutex<VecDeque<Refused>>,
    /// How the agent of a route was last seen to answer a send of a dialect.
    shapes: Mutex<HashMap<(RouteId, Dialect), Shape>>,
    unclaimed: Mutex<VecDeque<(RouteId, String)>>,
}

impl Core {
    pub(super) fn new(policy: Arc<Policy>, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        // A third of a lease has not passed when the second round comes.
        let stalls = Stalls::new(policy.guard.lease / 6);
        Self {
            policy,
            store,
            clock,
            tracker: TaskTracker::new(),
            closing: CancellationToken::new(),
            concluding: CancellationToken::new(),
            card: None,
            push: None,
            trusts_hop: false,
            reached_at: OnceLock::new(),
            cancels: Mutex::default(),
            readers: Readers::default(),
            queues: Queues::default(),
            stalls,
            refused: Mutex::default(),
            shapes: Mutex::default(),
            unclaimed: Mutex::default(),
        }
    }

    /// A body that `work` fills.
    pub(super) fn pumped(&self, work: BoxFuture<'static, ()>, pieces: Pieces) -> ReplyBody {
        let finishes = self.policy.on_disconnect == OnDisconnect::Finish;
        ReplyBody::pumped(Pumped::new(&self.stalls, work, pieces, &self.tracker, finishes))
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// When a lease taken or renewed now expires.
    pub(super) fn lease_end(&self) -> u64 {
        self.now() + millis(self.policy.guard.lease)
    }

    /// Makes the call to the agent for this task one that [`cancel`](Self::cancel) reaches, until the answer is dropped.
    pub(super) fn cancellable(self: &Arc<Self>, key: TaskKey) -> Cancellable {
        let wish = Arc::new(Notify::new());
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), Arc::clone(&wish));
        Cancellable { core: Arc::clone(self), key, wish }
    }

    /// Drops the call to the agent for this task, if one waits for the agent to tell its id.
    pub(super) fn cancel(&self, key: &TaskKey) {
        if let Some(wish) = self.cancels.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            wish.notify_one();
        }
    }

    /// Notes how the agent answers.
    pub(super) fn saw(&self, route: &RouteId, dialect: Dialect, shape: Shape) {
        let mut shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.insert((route.clone(), dialect), shape);
    }

    /// The shape in which the client of this agent reads an answer: the agent's own; until one was seen, the dialect's.
    pub(super) fn shape(&self, route: &RouteId, dialect: Dialect) -> Shape {
        let shapes = self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = shapes.get(&(route.clone(), dialect)).copied();
        seen.unwrap_or(Shape { wrapped: dialect.wraps(), dialect })
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
        ring.iter()
            .find(|refused| refused.id == id && refused.route == *route && refused.principal == *principal)
            .cloned()
    }

    /// Notes a task that was made for a caller who could not be told from others.
    pub(super) fn leave_unclaimed(&self, route: &RouteId, id: &str) {
        let mut ring = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == RING {
            ring.pop_front();
        }
        ring.push_back((route.clone(), id.to_owned()));
    }

    /// The agent has given the id to a task of somebody who can be told from others.
    pub(super) fn claim(&self, route: &RouteId, id: &str) {
        let mut ring = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        ring.retain(|(of, unclaimed)| of != route || unclaimed != id);
    }

    pub(super) fn is_unclaimed(&self, route: &RouteId, id: &str) -> bool {
        let ring = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        ring.iter().any(|(of, unclaimed)| of == route && unclaimed == id)
    }
}

/// A call to the agent that can be dropped at the client's wish.
pub(super) struct Cancellable {
    core: Arc<Core>,
    key: TaskKey,
    pub(super) wish: Arc<Notify>,
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let mut cancels = self.core.cancels.lock().unwrap_or_else(PoisonError::into_inner);
        if cancels.get(&self.key).is_some_and(|wish| Arc::ptr_eq(wish, &self.wish)) {
            cancels.remove(&self.key);
        }
    }
}

/// A duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
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
