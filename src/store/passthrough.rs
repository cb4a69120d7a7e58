//! A store that may fail, with memory in its place while it does: sends are answered without what was said before, rather than refused.

use std::sync::Arc;

use super::{
    Answer, Begin, Begun, Bind, Delivery, Found, Lease, Limits, ListQuery, Listed, Memory, Pending, Store, StoreError,
};
use crate::context::{Context, Settlement};
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::push::PushChange;
use crate::turn::Bound;

/// A store with something in its place while it fails. What is said meanwhile is held in memory for a while, so that questions can be
/// answered, and never gets into the store.
pub struct Passthrough {
    store: Arc<dyn Store>,
    meanwhile: Memory,
}

/// Leases given meanwhile are told from the store's own by their tokens.
const MEANWHILE: u64 = 1 << 63;

impl Passthrough {
    /// `limits` are those of what is held meanwhile.
    pub fn new(store: Arc<dyn Store>, limits: Limits) -> Self {
        let meanwhile = Memory::starting_at(limits, store.secret(), MEANWHILE);
        Self { store, meanwhile }
    }

    fn is_meanwhile(lease: &Lease) -> bool {
        lease.token >= MEANWHILE
    }

    fn of(&self, lease: &Lease) -> &dyn Store {
        if Self::is_meanwhile(lease) { &self.meanwhile } else { &*self.store }
    }
}

/// Whether the store failed, which is told.
fn failed<T>(done: &Result<T, StoreError>, verb: &str) -> bool {
    if let Err(StoreError::Unavailable(why)) = done {
        tracing::error!(verb, %why, "the store failed: answered without memory");
        return true;
    }
    false
}

impl Store for Passthrough {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        Box::pin(async move {
            let begun = self.store.begin(begin.clone()).await;
            if failed(&begun, "begin") { self.meanwhile.begin(begin).await } else { begun }
        })
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        Box::pin(async move {
            let bound = self.of(lease).bind(lease, bind.clone()).await;
            if !failed(&bound, "bind") {
                return bound;
            }
            // The client knows the turn by the agent's ids, and nobody else does.
            let named = |id: &str, minted: &str| if id.is_empty() { minted.to_owned() } else { id.to_owned() };
            let task_id = bind.task.unwrap_or_else(|| bind.upstream_task.clone());
            let context_id = named(&lease.key.context_id, &bind.minted_context);
            let Bind { upstream_task, upstream_context, .. } = bind;
            Ok((lease.clone(), Bound { task_id, context_id, upstream_task, upstream_context }))
        })
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        Box::pin(async move {
            let done = self.of(lease).observe(lease, pending).await;
            if failed(&done, "observe") { Ok(()) } else { done }
        })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        Box::pin(async move {
            let settled = self.of(lease).settle(lease, settlement.clone()).await;
            if !failed(&settled, "settle") {
                return settled;
            }
            let mut context = Context::new(String::new());
            context.settle(settlement);
            Ok(Arc::new(context))
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        self.of(lease).renew(lease, until)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        self.of(lease).release(lease)
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            let found = self.store.context(key).await;
            if failed(&found, "context") { self.meanwhile.context(key).await } else { found }
        })
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        Box::pin(async move {
            match self.store.by_task(route, principal, id).await {
                Ok(Some(found)) => Ok(Some(found)),
                Ok(None) => self.meanwhile.by_task(route, principal, id).await,
                failing => {
                    failed(&failing, "by_task");
                    self.meanwhile.by_task(route, principal, id).await
                }
            }
        })
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        // A list that lacks what it should have is no answer.
        self.store.list(query)
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        Box::pin(async move {
            self.meanwhile.erase(key).await?;
            self.store.erase(key).await
        })
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        if token >= MEANWHILE { self.meanwhile.wait_turn(key, token) } else { self.store.wait_turn(key, token) }
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        Box::pin(async move {
            let configured = self.store.configure(key, change.clone()).await;
            if matches!(configured, Ok(true)) {
                return configured;
            }
            failed(&configured, "configure");
            if self.meanwhile.configure(key, change).await? { Ok(true) } else { configured }
        })
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let noted = self.store.note(name, value.clone(), until).await;
            let value = if failed(&noted, "note") { value } else { None };
            // What the store was to forget and did not is not forgotten.
            let done = if value.is_some() { Ok(()) } else { noted };
            self.meanwhile.note(name, value, until).await.and(done)
        })
    }

    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            match self.meanwhile.noted(name, now).await? {
                Some(value) => Ok(Some(value)),
                None => self.store.noted(name, now).await,
            }
        })
    }

    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        self.store.outbox_push(delivery)
    }

    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        self.store.outbox_take(now, until, limit)
    }

    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        self.store.outbox_done(id, again)
    }

    fn outbox_len(&self) -> Answer<'_, usize> {
        self.store.outbox_len()
    }

    fn secret(&self) -> [u8; 32] {
        self.store.secret()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::a2a::State;
    use crate::store::suite::*;

    /// A store whose disk may go.
    struct Failing {
        store: Memory,
        fails: AtomicBool,
    }

    impl Failing {
        fn or<'a, T: Send + 'a>(&'a self, answer: Answer<'a, T>) -> Answer<'a, T> {
            Box::pin(async move {
                match self.fails.load(Ordering::SeqCst) {
                    true => Err(StoreError::Unavailable("no disk".to_owned())),
                    false => answer.await,
                }
            })
        }
    }

    impl Store for Failing {
        fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
            self.or(self.store.begin(begin))
        }
        fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
            self.or(self.store.bind(lease, bind))
        }
        fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
            self.or(self.store.observe(lease, pending))
        }
        fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
            self.or(self.store.settle(lease, settlement))
        }
        fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
            self.or(self.store.renew(lease, until))
        }
        fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
            self.or(self.store.release(lease))
        }
        fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
            self.or(self.store.context(key))
        }
        fn by_task<'a>(&'a self, route: &'a RouteId, whose: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
            self.or(self.store.by_task(route, whose, id))
        }
        fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
            self.or(self.store.list(query))
        }
        fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
            self.or(self.store.erase(key))
        }
        fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
            self.or(self.store.wait_turn(key, token))
        }
        fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
            self.or(self.store.configure(key, change))
        }
        fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
            self.or(self.store.note(name, value, until))
        }
        fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
            self.or(self.store.noted(name, now))
        }
        fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
            self.or(self.store.outbox_push(delivery))
        }
        fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
            self.or(self.store.outbox_take(now, until, limit))
        }
        fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
            self.or(self.store.outbox_done(id, again))
        }
        fn outbox_len(&self) -> Answer<'_, usize> {
            self.or(self.store.outbox_len())
        }
        fn secret(&self) -> [u8; 32] {
            self.store.secret()
        }
    }

    fn failing() -> (Arc<Failing>, Passthrough) {
        let store = Arc::new(Failing { store: Memory::new(Limits::default(), [7; 32]), fails: AtomicBool::new(false) });
        (Arc::clone(&store), Passthrough::new(store, Limits::default()))
    }

    #[tokio::test]
    async fn a_store_that_does_not_fail_is_all_there_is() {
        table(|| Arc::new(failing().1)).await;
    }

    #[tokio::test]
    async fn turns_go_on_without_memory_while_it_fails_and_with_it_after() {
        let (disk, store) = failing();
        let key = key("ada", "c");
        converse(&store, &key, bind("u1", "c"), State::Completed, 1).await;
        disk.fails.store(true, Ordering::SeqCst);
        let (lease, context, _) = begin(&store, ask(&key, 2)).await;
        assert!(context.turns.is_empty());
        store.release(&lease).await.unwrap();
        // A question that is asked meanwhile is answered on its task.
        assert_eq!(converse(&store, &key, bind("u2", "c"), State::InputRequired, 2).await.task_id, "u2");
        let answer = Bind { task: Some("u2".into()), ..bind("u3", "c") };
        assert_eq!(converse(&store, &key, answer, State::Completed, 3).await.task_id, "u2");
        disk.fails.store(false, Ordering::SeqCst);
        let (_, context, _) = begin(&store, ask(&key, 4)).await;
        assert_eq!(context.turns.len(), 1);
        assert!(find(&store, "ada", "u1").await.is_some() && find(&store, "ada", "u2").await.is_some());
    }

    #[tokio::test]
    async fn a_turn_in_which_it_fails_is_answered_all_the_same() {
        let (disk, store) = failing();
        let (lease, context, _) = begin(&store, ask(&key("ada", "c"), 1)).await;
        disk.fails.store(true, Ordering::SeqCst);
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        assert_eq!((&*bound.task_id, &*bound.context_id), ("u1", "c"));
        let settled = store.settle(&lease, settlement(&context, &bound, State::Completed, 2)).await.unwrap();
        assert_eq!(settled.turns.len(), 1);
    }

    #[tokio::test]
    async fn webhooks_of_what_is_said_meanwhile_are_kept_with_it() {
        use crate::push::PushConfig;

        let (disk, store) = failing();
        let config = |task: &str| {
            PushChange::Set(PushConfig {
                task: task.into(),
                id: "1".to_owned(),
                dialect: crate::a2a::Dialect::V10,
                url: "u".to_owned(),
                token: None,
                schemes: Vec::new(),
                credentials: None,
                active: false,
            })
        };
        let (kept, meanwhile) = (key("ada", "a"), key("ada", "b"));
        converse(&store, &kept, bind("u1", "a"), State::Completed, 1).await;
        disk.fails.store(true, Ordering::SeqCst);
        let (lease, ..) = begin(&store, ask(&meanwhile, 2)).await;
        store.note("n", Some(vec![1]), 10).await.unwrap();
        assert!(store.configure(&meanwhile, config("u2")).await.unwrap());
        assert!(matches!(store.configure(&kept, config("u1")).await, Err(StoreError::Unavailable(_))));
        assert_eq!(store.noted("n", 2).await.unwrap(), Some(vec![1]));
        disk.fails.store(false, Ordering::SeqCst);
        assert!(store.configure(&meanwhile, config("u3")).await.unwrap(), "its turn is still in flight");
        assert!(store.configure(&kept, config("u1")).await.unwrap());
        assert!(!store.configure(&key("ada", "z"), config("u1")).await.unwrap());
        assert_eq!(store.noted("n", 2).await.unwrap(), Some(vec![1]));
        store.note("n", None, 0).await.unwrap();
        assert_eq!(store.noted("n", 2).await.unwrap(), None);
        store.release(&lease).await.unwrap();
    }
}
