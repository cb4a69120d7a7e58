//! Stores that are slow, fail, or have given the lease to another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_multiturn::a2a::EXTENSION_URI;
use a2a_multiturn::context::{Context, Settlement};
use a2a_multiturn::conversation::policy::Policy;
use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use a2a_multiturn::push::PushChange;
use a2a_multiturn::store::{
    Answer, Begin, Begun, Bind, Delivery, Found, Lease, ListQuery, Listed, Pending, Store, StoreError,
};
use a2a_multiturn::turn::Bound;
use serde_json::json;

use super::stage::{Stage, Task03, event, goes_on, settles_down, state, stream_03, timed};
use crate::support::memory;

/// A store whose every verb takes a while, and that fails where it is told to.
pub struct Tried {
    inner: Arc<dyn Store>,
    delay: Duration,
    pub unavailable: AtomicBool,
    /// The verb that fails while the store is unavailable, or has lost the lease.
    fails: Mutex<Option<(&'static str, StoreError)>>,
}

impl Tried {
    pub fn slow(inner: Arc<dyn Store>, delay: Duration) -> Arc<Self> {
        Arc::new(Self { inner, delay, unavailable: AtomicBool::new(false), fails: Mutex::default() })
    }

    pub fn failing(verb: &'static str, error: StoreError) -> Arc<Self> {
        let this = Self::slow(memory(), Duration::ZERO);
        *this.fails.lock().unwrap() = Some((verb, error));
        this.unavailable.store(true, Ordering::Relaxed);
        this
    }

    async fn wait(&self, verb: &'static str) -> Result<(), StoreError> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let fails = self.fails.lock().unwrap().clone();
        match fails.filter(|(of, _)| *of == verb && self.unavailable.load(Ordering::Relaxed)) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

macro_rules! after_a_while {
    ($this:ident, $verb:literal, $call:expr) => {
        Box::pin(async move {
            $this.wait($verb).await?;
            $call.await
        })
    };
}

impl Store for Tried {
    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        after_a_while!(self, "begin", self.inner.begin(begin))
    }
    fn bind<'a>(&'a self, lease: &'a Lease, bind: Bind) -> Answer<'a, (Lease, Bound)> {
        after_a_while!(self, "bind", self.inner.bind(lease, bind))
    }
    fn observe<'a>(&'a self, lease: &'a Lease, pending: Pending) -> Answer<'a, ()> {
        after_a_while!(self, "observe", self.inner.observe(lease, pending))
    }
    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> Answer<'a, Arc<Context>> {
        after_a_while!(self, "settle", self.inner.settle(lease, settlement))
    }
    fn renew<'a>(&'a self, lease: &'a Lease, until: u64) -> Answer<'a, ()> {
        after_a_while!(self, "renew", self.inner.renew(lease, until))
    }
    fn release<'a>(&'a self, lease: &'a Lease) -> Answer<'a, ()> {
        after_a_while!(self, "release", self.inner.release(lease))
    }
    fn context<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, Option<Found>> {
        after_a_while!(self, "context", self.inner.context(key))
    }
    fn by_task<'a>(&'a self, route: &'a RouteId, principal: &'a Principal, id: &'a str) -> Answer<'a, Option<Found>> {
        after_a_while!(self, "by_task", self.inner.by_task(route, principal, id))
    }
    fn list(&self, query: ListQuery) -> Answer<'_, Listed> {
        after_a_while!(self, "list", self.inner.list(query))
    }
    fn erase<'a>(&'a self, key: &'a ContextKey) -> Answer<'a, ()> {
        after_a_while!(self, "erase", self.inner.erase(key))
    }
    fn wait_turn<'a>(&'a self, key: &'a ContextKey, token: u64) -> Answer<'a, ()> {
        after_a_while!(self, "wait_turn", self.inner.wait_turn(key, token))
    }
    fn configure<'a>(&'a self, key: &'a ContextKey, change: PushChange) -> Answer<'a, bool> {
        after_a_while!(self, "configure", self.inner.configure(key, change))
    }
    fn note<'a>(&'a self, name: &'a str, value: Option<Vec<u8>>, until: u64) -> Answer<'a, ()> {
        after_a_while!(self, "note", self.inner.note(name, value, until))
    }
    fn noted<'a>(&'a self, name: &'a str, now: u64) -> Answer<'a, Option<Vec<u8>>> {
        after_a_while!(self, "noted", self.inner.noted(name, now))
    }
    fn outbox_push(&self, delivery: Delivery) -> Answer<'_, u64> {
        after_a_while!(self, "outbox_push", self.inner.outbox_push(delivery))
    }
    fn outbox_take(&self, now: u64, until: u64, limit: usize) -> Answer<'_, Vec<Delivery>> {
        after_a_while!(self, "outbox_take", self.inner.outbox_take(now, until, limit))
    }
    fn outbox_done(&self, id: u64, again: Option<u64>) -> Answer<'_, ()> {
        after_a_while!(self, "outbox_done", self.inner.outbox_done(id, again))
    }
    fn outbox_len(&self) -> Answer<'_, usize> {
        after_a_while!(self, "outbox_len", self.inner.outbox_len())
    }
    fn secret(&self) -> [u8; 32] {
        self.inner.secret()
    }
}

const T: Task03 = Task03("u-1", "c");

#[tokio::test(start_paused = true)]
async fn what_could_not_be_recorded_has_failed() {
    for error in [StoreError::LeaseLost, StoreError::Unavailable("full".into())] {
        let stage = Stage::default();
        let store = Tried::failing("settle", error);
        let agent = stage.agent();
        let proxy = timed(&agent, Policy::default(), store.clone());
        stage.whole(T.reply("Which city do you mean?"));
        let events = proxy.events(&stream_03("x", json!({ "contextId": "c" }))).await;
        let closing = &events.last().unwrap()["result"];
        assert_eq!((events.len(), state(closing), &closing["final"]), (4, "failed", &json!(true)));
        assert_eq!(closing["metadata"][EXTENSION_URI]["reason"], "NOT_RECORDED");
        assert!(closing["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("NOT_RECORDED"));
        store.unavailable.store(false, Ordering::Relaxed);
        settles_down(&proxy).await;
        assert_eq!(goes_on(&proxy, &stage, &agent, "c").await, "and now?");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_could_not_be_recorded_is_an_error() {
    let stage = Stage::default();
    let store = Tried::failing("settle", StoreError::LeaseLost);
    let agent = stage.agent();
    let proxy = timed(&agent, Policy::default(), store);
    let message = json!({ "kind": "message", "messageId": "m", "role": "agent", "parts": [{ "kind": "text", "text": "Noted." }] });
    stage.whole(event(&message));
    let events = proxy.events(&stream_03("x", json!({ "contextId": "c" }))).await;
    assert_eq!((events.len(), &events[0]["error"]["data"][0]["reason"]), (1, &json!("NOT_RECORDED")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn ids_that_could_not_be_kept_are_not_shown() {
    let stage = Stage::default();
    let store = Tried::failing("bind", StoreError::Unavailable("full".into()));
    let agent = stage.agent();
    let proxy = timed(&agent, Policy::default(), store.clone());
    stage.whole(T.reply("Noted."));
    let raw = proxy.raw(stream_03("x", json!({})).to_string()).await;
    assert!(raw.contains("NOT_RECORDED") && !raw.contains("u-1"), "{raw}");
    store.unavailable.store(false, Ordering::Relaxed);
    settles_down(&proxy).await;
    goes_on(&proxy, &stage, &agent, "c").await;
}
