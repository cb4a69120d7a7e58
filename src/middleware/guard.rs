//! The lease in the hands of a request: renewed while it is held, given back on every way out.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use super::core::Core;
use super::push::{self, Pushing};
use crate::context::{Context, Settlement};
use crate::conversation::principal::ContextKey;
use crate::store::{Bind, Lease, Pending, StoreError};
use crate::turn::Bound;

/// A lease that is given back when it is dropped: by an error, a panic, a client that left.
pub(super) struct Guard {
    core: Arc<Core>,
    /// `None` once the lease is settled, given back or left to the turn.
    lease: Option<Lease>,
    /// When it was taken or last renewed.
    renewed: Instant,
    /// What the turn's notifications take.
    pub(super) push: Option<Box<Pushing>>,
}

impl Guard {
    pub(super) fn new(core: Arc<Core>, lease: Lease) -> Self {
        Self { core, lease: Some(lease), renewed: Instant::now(), push: None }
    }

    /// Runs `work`, renewing the lease at a third of its life, however many short works that life is made of.
    pub(super) async fn renewing<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let period = self.core.policy.guard.lease / 3;
        if self.renewed.elapsed() >= period {
            self.renew().await;
        }
        loop {
            match tokio::time::timeout_at(self.renewed + period, &mut work).await {
                Ok(done) => return done,
                // A lease that cannot be renewed is noticed at the settle, by its token.
                Err(_) => self.renew().await,
            }
        }
    }

    async fn renew(&mut self) {
        self.renewed = Instant::now();
        if let Some(lease) = &self.lease
            && let Err(error) = self.core.store.renew(lease, self.core.lease_end()).await
        {
            tracing::warn!(%error, "the lease could not be renewed");
        }
    }

    /// The context that the lease is on.
    pub(super) fn key(&self) -> Option<ContextKey> {
        self.lease.as_ref().map(|lease| lease.key.clone())
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn lease(&self) -> Result<&Lease, StoreError> {
        self.lease.as_ref().ok_or(StoreError::LeaseLost)
    }

    pub(super) async fn bind(&mut self, bind: Bind) -> Result<Bound, StoreError> {
        let (lease, bound) = self.core.store.bind(self.lease()?, bind).await?;
        self.core.claim(&lease.key.route, &bound.upstream_task);
        if let Some(push) = &mut self.push {
            push.bound(&self.core, &lease.key, &bound).await?;
        }
        self.lease = Some(lease);
        Ok(bound)
    }

    pub(super) async fn observe(&self, pending: Pending) -> Result<(), StoreError> {
        self.core.store.observe(self.lease()?, pending).await
    }

    /// Ends the turn; the lease is free when this returns.
    pub(super) async fn settle(&mut self, settlement: Settlement) -> Result<Arc<Context>, StoreError> {
        let (key, now) = (self.key(), settlement.now);
        let changed = settlement.task.as_ref().map(|task| task.id.clone()).or_else(|| settlement.answered.clone());
        let context = self.core.store.settle(self.lease()?, settlement).await?;
        self.lease = None;
        if let Some(push) = self.push.take() {
            push.settled(&self.core).await;
        }
        if let Some(key) = key {
            push::settled(&self.core, &key, &context, changed.as_deref(), now).await;
        }
        Ok(context)
    }

    /// Gives the lease back without a turn.
    pub(super) async fn release(&mut self) {
        self.untouched();
        if let Some(lease) = self.lease.take()
            && let Err(error) = self.core.store.release(&lease).await
        {
            tracing::warn!(%error, "the lease could not be given back; it expires");
        }
    }

    /// No turn is in flight any more in which a client made a configuration.
    fn untouched(&self) {
        if let (Some(relay), Some(lease)) = (&self.core.push, &self.lease) {
            relay.settled(&lease.key);
        }
    }

    /// Leaves the lease with the turn, which goes on at the agent.
    pub(super) fn leave(&mut self) {
        self.lease = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.untouched();
        let Some(lease) = self.lease.take() else { return };
        let core = Arc::clone(&self.core);
        // Outside a runtime nothing can be done: the lease expires.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let release = async move {
                if let Err(error) = core.store.release(&lease).await {
                    tracing::warn!(%error, "the lease could not be given back; it expires");
                }
            };
            self.core.tracker.spawn_on(release, &runtime);
        }
    }
}
