//! A store that takes its time over every verb, so that what must not be raced by it shows.

use std::sync::Arc;

use a2a_multiturn::context::{Context, Settlement};
use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use a2a_multiturn::push::PushChange;
use a2a_multiturn::store::{Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store};
use a2a_multiturn::turn::Bound;

pub struct Slow(Arc<dyn Store>);

impl Slow {
    pub fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self(store))
    }
}

async fn pause() {
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

macro_rules! slowly {
    ($this:ident, $verb:ident $(, $argument:expr)*) => {
        Box::pin(async move {
            pause().await;
            let done = $this.0.$verb($($argument),*).await;
            pause().await;
            done
        })
    };
}

impl Store for Slow {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        slowly!(self, begin, begin)
    }

    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        slowly!(self, bind, lease, bind)
    }

    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        slowly!(self, observe, lease, pending)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        slowly!(self, settle, lease, settlement)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        slowly!(self, renew, lease, until)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        slowly!(self, release, lease)
    }

    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        slowly!(self, context, key)
    }

    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        slowly!(self, by_task, route, principal, id)
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        slowly!(self, list, query)
    }

    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        slowly!(self, erase, key)
    }

    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        slowly!(self, wait_turn, key, token)
    }

    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        slowly!(self, configure, key, change)
    }

    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        slowly!(self, note, name, value, until)
    }

    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        slowly!(self, noted, name, now)
    }

    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        slowly!(self, outbox_push, delivery)
    }

    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        slowly!(self, outbox_take, now, until, limit)
    }

    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        slowly!(self, outbox_done, id, again)
    }

    fn outbox_len(&self) -> Answer<'_, usize> {
        slowly!(self, outbox_len)
    }

    fn secret(&self) -> [u8; 32] {
        self.0.secret()
    }
}
