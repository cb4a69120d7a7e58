//! Notifications on their way to the clients' webhooks: out of the store's outbox, one lane in order, each until it is taken or given up.

mod attempt;
mod connect;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::attempt::Attempt;
use self::connect::Connector;
use super::SetupError;
use crate::config;
use crate::middleware::{Clock, SystemClock, millis};
use crate::push::{Notification, PushConfig};
use crate::store::{Delivery, Store, StoreError};

/// Notifications on their way at once: many, so that webhooks that never answer do not hold up the others.
const AT_ONCE: usize = 256;

/// How often the outbox is looked into unasked: what was put off, or in by another process.
const TICK: Duration = Duration::from_secs(1);

/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Delivers the notifications of all routes.
pub struct Courier {
    store: Arc<dyn Store>,
    settings: config::Delivery,
    wake: Arc<Notify>,
    /// Made for the first one: few proxies ever have one, and reading the system's authorities takes a while.
    client: OnceLock<Client<Connector, Full<Bytes>>>,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Courier {
    /// Delivers from `store`'s outbox, whenever `wake` is notified and now and then.
    ///
    /// # Errors
    /// Authorities of its own that cannot be read.
    pub fn new(settings: &config::Delivery, store: Arc<dyn Store>, wake: Arc<Notify>) -> Result<Self, SetupError> {
        let courier = Self { store, settings: settings.clone(), wake, client: OnceLock::new() };
        if settings.ca.is_some() {
            let _ = courier.client.set(courier.new_client()?);
        }
        Ok(courier)
    }

    fn new_client(&self) -> Result<Client<Connector, Full<Bytes>>, SetupError> {
        let connector = Connector::new(&self.settings)?;
        // No connection is kept: each is made to an address that was looked up and judged for it.
        Ok(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
    }

    fn client(&self) -> Result<&Client<Connector, Full<Bytes>>, SetupError> {
        match self.client.get() {
            Some(client) => Ok(client),
            None => {
                let made = self.new_client()?;
                Ok(self.client.get_or_init(|| made))
            }
        }
    }

    /// Delivers until `stop`, and then what is due.
    pub async fn run(self, stop: CancellationToken) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let stopping = stop.is_cancelled();
            let room = AT_ONCE - under_way.len();
            for delivery in self.due(room).await {
                under_way.push(self.deliver(delivery));
            }
            if stopping && under_way.is_empty() {
                return self.left().await;
            }
            tokio::select! {
                Some(()) = under_way.next() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
                () = stop.cancelled(), if !stopping => {}
            }
        }
    }

    /// Says what stays behind.
    async fn left(&self) {
        match self.store.outbox_len().await {
            Ok(0) => {}
            Ok(left) => tracing::warn!(left, "push notifications wait for their webhooks"),
            Err(error) => tracing::warn!(%error, "the outbox cannot be read"),
        }
    }

    fn now() -> u64 {
        SystemClock.now()
    }

    async fn due(&self, room: usize) -> Vec<Delivery> {
        if room == 0 {
            return Vec::new();
        }
        let now = Self::now();
        // Who has not said by then what became of it has died.
        let until = now + millis(self.settings.timeout * 2 + TICK * 10);
        self.store.outbox_take(now, until, room).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the outbox cannot be read");
            Vec::new()
        })
    }

    async fn deliver(&self, delivery: Delivery) {
        let again = match postcard::from_bytes::<Notification>(&delivery.body) {
            Ok(notification) => self.attempt(&delivery, &notification).await,
            Err(error) => {
                tracing::error!(%error, "a push notification cannot be read and is lost");
                None
            }
        };
        if let Err(error) = self.store.outbox_done(delivery.id, again).await {
            tracing::warn!(%error, "a push notification may be delivered twice");
        }
    }

    /// Tries it once. When it is tried again.
    async fn attempt(&self, delivery: &Delivery, notification: &Notification) -> Option<u64> {
        let (route, task) = (notification.key.route.as_str(), &*notification.config.task);
        let state = &*notification.state;
        let config = match self.config(notification).await {
            Ok(Some(config)) => config,
            Ok(None) => {
                tracing::info!(route, task, state, "a push notification went with its configuration");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, "a push notification waits for the store");
                return Some(Self::now() + millis(FIRST_WAIT));
            }
        };
        let tries = delivery.tries + 1;
        match self.post(notification, &config).await {
            Attempt::Taken => {
                tracing::info!(route, task, state, tries, "push notification delivered");
                None
            }
            Attempt::Refused(why) => {
                tracing::warn!(route, task, state, why, "a push notification is not delivered");
                None
            }
            Attempt::Failed(why) => self.again(delivery, notification, &why),
        }
    }

    fn again(&self, delivery: &Delivery, notification: &Notification, why: &str) -> Option<u64> {
        let (route, task) = (notification.key.route.as_str(), &*notification.config.task);
        let (now, tries, state) = (Self::now(), delivery.tries + 1, &*notification.state);
        let wait = FIRST_WAIT.saturating_mul(1 << delivery.tries.min(16)).min(LONGEST_WAIT);
        let due = now + millis(wait);
        if due.saturating_sub(notification.made_at) > millis(self.settings.give_up) {
            tracing::error!(route, task, state, tries, why, "a push notification is given up");
            return None;
        }
        tracing::warn!(route, task, state, tries, why, wait_ms = millis(wait), "a push notification waits");
        Some(due)
    }

    /// The configuration as it is now: the client may have changed its mind, or be forgotten.
    async fn config(&self, notification: &Notification) -> Result<Option<PushConfig>, StoreError> {
        let found = self.store.context(&notification.key).await?;
        let config = &notification.config;
        Ok(found.and_then(|found| found.context.push_of(&config.task).find(|one| one.id == config.id).cloned()))
    }
}
