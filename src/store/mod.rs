//! What is kept, and who may run a turn: one trait, so that memory, disk and Redis differ only inside.
//!
//! A context carries at most one lease, the right to run a turn in it, but where turns may run [beside](Share::Beside) one another. Every verb
//! is atomic. Times are arguments, in milliseconds since 1970;
//! so is all randomness. A store that cannot answer says so; it never answers from less than it knows.

#[cfg(feature = "disk")]
mod disk;
mod engine;
mod memory;
mod passthrough;
#[cfg(feature = "redis")]
pub mod redis;
mod rules;
#[cfg(test)]
mod suite;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[cfg(feature = "disk")]
pub use disk::{Disk, Durability, OpenError, Put, Saved, Settings as DiskSettings};
pub use engine::Limits;
pub use memory::Memory;
pub use passthrough::Passthrough;

use crate::a2a::State;
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::task::ClientTask;
use crate::turn::{Bound, Opening};

/// What a verb answers with.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why a verb had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The lease is no longer this one's: it expired and another holds it, or the context is gone.
    #[error("the lease on the context was lost")]
    LeaseLost,
    /// The store cannot be reached, is full or damaged.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

/// The right to run a turn in a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The context.
    pub key: ContextKey,
    /// The fencing token: rises with every lease of the context.
    pub token: u64,
}

/// A request for the lease.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The context; a provisional one, with a contextId minted at random, where the client named none.
    pub key: ContextKey,
    /// Whether the key is provisional.
    pub provisional: bool,
    /// The fence of a context that does not exist yet: minted at random.
    pub fence: String,
    /// Takes over the unsettled turn that holds this token, rather than being refused by it.
    pub take: Option<u64>,
    /// Which turns in flight it bears beside it.
    pub share: Share,
    /// Now.
    pub now: u64,
    /// When the lease expires that nobody renews.
    pub until: u64,
    /// How long, in milliseconds, a turn may stay unsettled that the agent knows of.
    pub max_turn: u64,
}

/// Which turns in flight a turn bears beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// None: one turn at a time.
    Alone,
    /// Those of other tasks than this one, which it answers: A2A's own parallel tasks.
    Beside(Option<String>),
}

/// What a request for the lease comes to.
#[derive(Clone, Debug)]
pub enum Begun {
    /// The lease, and the context as it is.
    Granted {
        /// The lease.
        lease: Lease,
        /// The context: what was settled so far.
        context: Arc<Context>,
        /// The turn that held the lease before and was never settled: taken over, or expired.
        previous: Option<InFlight>,
    },
    /// Another turn is in flight.
    Busy(InFlight),
}

/// A turn that holds a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The lease's token.
    pub token: u64,
    /// When the lease expires.
    pub until: u64,
    /// What is known of the turn; nothing before its message was sent.
    pub pending: Option<Pending>,
    /// Whether the agent's id of the turn has come to mean another task: then the agent is not to be asked for it.
    pub superseded: bool,
}

/// What is known of a turn that has not settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// How it began.
    pub opening: Arc<Opening>,
    /// The ids under which the client knows it, once the agent has told its own.
    pub bound: Option<Bound>,
    /// The state that the client was last told.
    pub state: State,
    /// Whether nobody reads its reply any more: the response has ended, the turn has not. It may be taken over.
    pub idle: bool,
    /// When it was last looked at.
    pub looked_at: u64,
}

/// The agent's ids of a turn, to be bound to the client's.
#[derive(Clone, Debug)]
pub struct Bind {
    /// The agent's task id; empty for a bare message.
    pub upstream_task: String,
    /// The agent's contextId; empty where it gave none.
    pub upstream_context: String,
    /// The client task that the message answers.
    pub task: Option<String>,
    /// The contextId of a provisional context whose agent gave none, or one that exists already: minted at random.
    pub minted_context: String,
    /// The id of a new client task whose agent's id has a record on the route already: minted at random.
    pub minted_task: String,
}

/// A client task, found by its id.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its context.
    pub key: ContextKey,
    /// The context as it is.
    pub context: Arc<Context>,
    /// The turn in flight there: of several that of the task which was asked for, else the one that began first.
    pub in_flight: Option<InFlight>,
}

/// What a list asks for.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// The route.
    pub route: RouteId,
    /// Whose tasks.
    pub principal: Principal,
    /// Only those of this context.
    pub context_id: Option<String>,
    /// Only those in this state, as the client was told.
    pub state: Option<State>,
    /// Only those whose state changed at this time or later.
    pub updated_since: Option<u64>,
    /// Those behind this one: its `updated_at` and its id.
    pub after: Option<(u64, String)>,
    /// At most so many.
    pub limit: usize,
}

/// A page of a list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The tasks, the one whose state changed last first, with their contexts.
    pub tasks: Vec<(ContextKey, Arc<Context>, ClientTask)>,
    /// How many there are in all, without regard to the page.
    pub total: usize,
}

/// A notification that is to be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Rises in the order in which deliveries were made.
    pub id: u64,
    /// Deliveries of one lane are delivered one after the other.
    pub lane: String,
    /// When it is due, at the earliest.
    pub due: u64,
    /// How often it was tried.
    pub tries: u32,
    /// What is delivered, and where: the caller's own form.
    pub body: Vec<u8>,
}

/// State, and the right to change it.
pub trait Store: Send + Sync + 'static {
    /// Takes the lease on a context and reads it, in one step; makes the context where there is none. An expired lease is free, unless the
    /// agent knows its turn (it is bound): then only [`Begin::take`] or the end of `max_turn` frees it. [`Share::Beside`] is refused by a turn of
    /// the same task alone; a turn takes its number when it settles, so that those beside one another stand in the order in which they ended.
    fn begin(&self, begin: Begin) -> Answer<'_, Begun>;

    /// Ties the agent's ids to the client's, before the first byte goes out that shows them; moves a provisional context to its contextId. An
    /// older task on the route that has the agent's id is superseded. The lease under its new key, and the ids.
    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)>;

    /// Notes what is known of the turn.
    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()>;

    /// Ends the turn and gives the lease back, in one step. The context after it.
    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>>;

    /// Prolongs the lease.
    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()>;

    /// Gives the lease back without a turn. A context that never had a turn goes with it. A lost lease is no error.
    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()>;

    /// A context and the turn in flight in it.
    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>>;

    /// A client task by its id. One of another principal is not found.
    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>>;

    /// A principal's client tasks.
    fn list(&self, query: ListQuery) -> Answer<'_, Listed>;

    /// Forgets a context.
    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()>;

    /// Returns when no turn is in flight in the context, or another than the one with this token. It may return early; the caller bounds it.
    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()>;

    /// Changes where clients want to be notified of the tasks of a context, with a turn in flight or without, by [`Context::configure`].
    /// Whether it did; never where there is no such context.
    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool>;

    /// Keeps something small under a name, in place of what was there, until then; `None` forgets it at once.
    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()>;

    /// What was noted under a name, if its time is not over.
    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>>;

    /// Puts a notification into the outbox. [`Delivery::id`] is given by the store.
    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64>;

    /// Takes notifications that are due, the oldest of each lane, and keeps others from taking them until `until`.
    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>>;

    /// Removes a notification, or puts it off: the new due time.
    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()>;

    /// How many notifications are in the outbox.
    fn outbox_len(&self) -> Answer<'_, usize>;

    /// The secret with which credentials are hashed: the store's own, so that a hash means the same for all that share it.
    fn secret(&self) -> [u8; 32];
}
