//! The store in Redis or Valkey: one for many proxies in front of the same agents.
//!
//! A context is one record on one hash slot, with a version. A verb reads it, computes what becomes of it with the rules that
//! all stores share, and writes the difference if the version still is what it was; if not, it begins anew. The rules stand in one place, in
//! Rust, and the script that writes knows none of them. Which context knows an id, and which contexts a principal has, stands elsewhere: it is
//! written before the record, and an entry that the record does not bear out means nothing.
//!
//! Redis's own clock decides on nothing but how long a record that nobody uses is kept.

mod begin;
mod bind;
mod cache;
mod fields;
mod index;
mod link;
mod list;
mod names;
mod notes;
mod outbox;
mod record;
mod script;
#[cfg(test)]
mod tests;
mod turn;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::cache::Cache;
pub use self::link::ConnectError;
use self::link::Link;
use self::names::Names;
use super::{Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store, StoreError};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::turn::Bound;

/// How conversations are kept in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What every key begins with: stores with different ones share a server and nothing else.
    pub prefix: String,
    /// How long a context is kept in which no turn begins or settles. One with a turn in flight is kept at least until the turn is over.
    pub ttl: Duration,
    /// Bytes of one context's transcript at most; beyond that its oldest turns go.
    pub context_bytes: usize,
    /// How long a verb may take; beyond that the store is unavailable. Also how long a connection may take to be made.
    pub patience: Duration,
    /// Bytes of contexts that are held here so as not to be read again while nobody has changed them.
    pub held_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "a2a:".to_owned(),
            ttl: Duration::from_secs(30 * 24 * 3600),
            context_bytes: 4 << 20,
            patience: Duration::from_millis(1500),
            held_bytes: 64 << 20,
        }
    }
}

/// Conversations in Redis or Valkey.
pub struct Redis {
    settings: Settings,
    names: Names,
    link: Link,
    secret: [u8; 32],
    /// Tells the versions that this store writes from those of every other.
    writer: String,
    writes: AtomicU64,
    cache: Cache,
    /// The latest time that a verb was told.
    clock: AtomicU64,
}

/// Connects to the Redis or Valkey at `url`, and makes or reads what all that share it have in common.
///
/// `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, `redis+unix:///path` for a socket; `redis+cluster://` and
/// `rediss+cluster://` with one or more `host:port`, separated by commas, for a cluster.
///
/// # Errors
/// An address that cannot be read, a server that cannot be reached or refuses the user, or one that holds another version's records.
pub async fn connect(url: &str, settings: Settings) -> Result<Redis, ConnectError> {
    let link = Link::to(url, settings.patience).await?;
    let names = Names::new(&settings.prefix);
    let secret = link::common(&link, &names).await?;
    let writer = uuid::Uuid::new_v4().simple().to_string();
    let cache = Cache::new(settings.held_bytes);
    Ok(Redis { settings, names, link, secret, writer, writes: AtomicU64::new(0), cache, clock: AtomicU64::new(0) })
}

impl Redis {
    /// A version that no record ever had.
    fn new_version(&self) -> String {
        format!("{}-{}", self.writer, self.writes.fetch_add(1, Ordering::Relaxed))
    }

    fn tell_time(&self, now: u64) {
        self.clock.fetch_max(now, Ordering::Relaxed);
    }

    /// A verb, cut off when it takes too long: whoever waits for it is told so in time, however many there are.
    async fn bounded<T>(&self, verb: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::Unavailable(format!("no answer within {:?}", self.settings.patience));
        tokio::time::timeout(self.settings.patience, verb).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Waits a little longer before each look than before the last one.
struct Backoff(Duration, Duration);

impl Backoff {
    async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(self.1);
    }
}

impl Store for Redis {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(async move { self.bounded(self.begin_now(&begin)).await })
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        Box::pin(async move { self.bounded(self.bind_now(lease, &bind)).await })
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        Box::pin(async move { self.bounded(self.observe_now(lease, &pending)).await })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        Box::pin(async move { self.bounded(self.settle_now(lease, &settlement)).await })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.bounded(self.renew_now(lease, until)).await })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        Box::pin(async move { self.bounded(self.release_now(lease)).await })
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        Box::pin(async move { self.bounded(self.find(key)).await })
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        Box::pin(async move { self.bounded(self.find_task(route, principal, id)).await })
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        Box::pin(async move { self.bounded(self.list_now(&query)).await })
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        Box::pin(async move { self.bounded(self.erase_now(key)).await })
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.wait_now(key, token).await })
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        Box::pin(async move { self.bounded(self.configure_now(key, &change)).await })
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        Box::pin(async move { self.bounded(self.note_now(name, value, until)).await })
    }

    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move { self.bounded(self.noted_now(name, now)).await })
    }

    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        Box::pin(async move { self.bounded(self.push(&delivery)).await })
    }

    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        Box::pin(async move { self.bounded(self.take(now, until, limit)).await })
    }

    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        Box::pin(async move { self.bounded(self.done(id, again)).await })
    }

    fn outbox_len(&self) -> Answer<'_, usize> {
        Box::pin(async move { self.bounded(self.waiting()).await })
    }

    fn secret(&self) -> [u8; 32] {
        self.secret
    }
}
