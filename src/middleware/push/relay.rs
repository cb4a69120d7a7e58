//! What all requests of a route share for their notifications.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::sync::Notify;

use crate::conversation::principal::ContextKey;
use crate::push::Webhooks;

/// Whether the agent pushes, as its card says: shared between who reads the card and who sends. Until a card was read it does not, and what
/// it does not push the proxy sees by looking.
#[derive(Clone, Debug, Default)]
pub struct AgentPushes(Arc<AtomicBool>);

impl AgentPushes {
    /// Says what the card says.
    pub fn set(&self, pushes: bool) {
        self.0.store(pushes, Ordering::Relaxed);
    }
}

/// What it takes to relay a route's push notifications.
pub struct Relay {
    pub(super) webhooks: Webhooks,
    /// Notifications that may wait at once, for all webhooks together.
    pub(super) outbox: usize,
    agent: AgentPushes,
    /// Where the agent reaches the route; known once the listener is bound.
    base: OnceLock<String>,
    /// Rung when a notification was put into the outbox.
    wake: Arc<Notify>,
    bells: Mutex<HashMap<String, Weak<Bell>>>,
    /// Contexts in which a client made a configuration while a turn was in flight.
    touched: Mutex<HashSet<ContextKey>>,
}

impl Relay {
    /// A relay to these webhooks. Of `outbox` notifications that wait no further ones are taken. `wake` is notified when there is one to be
    /// delivered: whoever delivers takes it from the store's outbox, where it stands as a [`Notification`](crate::push::Notification).
    pub fn new(webhooks: Webhooks, outbox: usize, agent: AgentPushes, wake: Arc<Notify>) -> Self {
        Self {
            webhooks,
            outbox,
            agent,
            wake,
            base: OnceLock::new(),
            bells: Mutex::default(),
            touched: Mutex::default(),
        }
    }

    /// Says under which URL the agent reaches the route: once, before it is served.
    pub fn set_base(&self, base: &str) {
        // Only the first call counts: a listener is bound once.
        let _ = self.base.set(base.to_owned());
    }

    pub(super) fn base(&self) -> &str {
        self.base.get().map_or("", |base| base)
    }

    pub(super) fn agent_pushes(&self) -> bool {
        self.agent.0.load(Ordering::Relaxed) && !self.base().is_empty()
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// The bell of a callback, for as long as somebody has it.
    pub(in crate::middleware) fn bell(self: &Arc<Self>, name: &str) -> Arc<Bell> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::new(Bell { name: name.to_owned(), rung: Notify::new(), relay: Arc::clone(self) });
        bells.insert(name.to_owned(), Arc::downgrade(&bell));
        bell
    }

    /// Rings a callback's bell. Whether anybody has it: who does looks at the turn, with the credential of its send.
    pub(super) fn ring(&self, name: &str) -> bool {
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let bell = bells.get(name).and_then(Weak::upgrade);
        // Dropped here it would want the lock that is held.
        drop(bells);
        bell.is_some_and(|bell| {
            bell.rung.notify_one();
            true
        })
    }

    pub(super) fn touch(&self, key: &ContextKey) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
    }

    pub(super) fn is_touched(&self, key: &ContextKey) -> bool {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// No turn is in flight in the context any more.
    pub(in crate::middleware) fn settled(&self, key: &ContextKey) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("webhooks", &self.webhooks).field("outbox", &self.outbox).finish_non_exhaustive()
    }
}

/// Rung when the agent has pushed that a turn has ended.
pub(in crate::middleware) struct Bell {
    pub(super) name: String,
    rung: Notify,
    relay: Arc<Relay>,
}

impl Bell {
    /// Waits until it is rung; it may have been before.
    pub(in crate::middleware) async fn rung(&self) {
        self.rung.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = self.relay.bells.lock().unwrap_or_else(PoisonError::into_inner);
        // Another may hang there by now.
        if bells.get(&self.name).is_some_and(|bell| bell.strong_count() == 0) {
            bells.remove(&self.name);
        }
    }
}
