//! What every store must do: one suite over memory, disk and Redis. Times are passed in; every behaviour has a store of its own.

mod beside;
mod binding;
mod crowd;
mod lease;
mod listing;
mod model;
mod notes;
mod outbox;
mod random;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Begin, Begun, Bind, InFlight, Lease, ListQuery, Pending, Share, Store};
use crate::a2a::{Dialect, Part, State};
use crate::context::{Context, Settlement, TaskChange};
use crate::conversation::digest::Digest;
use crate::conversation::policy::HistoryPolicy;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::conversation::transcript::{Reply, Shown, Source, Spoken, Turn};
use crate::task::{Attempt, OpenedBy};
use crate::turn::{Bound, Opening};

pub(super) const LEASE: u64 = 30_000;
pub(super) const MAX_TURN: u64 = 3_600_000;

/// Something that holds for every store.
type Behaviour = for<'a> fn(&'a dyn Store) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Functions over a store, and the table of them.
macro_rules! behaviours {
    ($($(#[doc = $doc:literal])* async fn $name:ident($store:ident) $body:block)*) => {
        $($(#[doc = $doc])* async fn $name($store: &dyn Store) $body)*
        pub(super) const BEHAVIOURS: &[(&str, super::Behaviour)] = &[$((stringify!($name), |store| Box::pin($name(store)))),*];
    };
}
use behaviours;

/// Runs the table, every behaviour on a new store, and names what does not hold.
pub(super) async fn table(make: impl Fn() -> Arc<dyn Store>) {
    let mut broken = Vec::new();
    let tables = [
        lease::BEHAVIOURS,
        beside::BEHAVIOURS,
        binding::BEHAVIOURS,
        listing::BEHAVIOURS,
        notes::BEHAVIOURS,
        outbox::BEHAVIOURS,
    ];
    for (name, behaviour) in tables.concat() {
        let store = make();
        if tokio::spawn(async move { behaviour(&*store).await }).await.is_err() {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "does not hold: {broken:?}");
}

/// What many at once may not break. On a runtime of several threads.
pub(super) async fn concurrency(make: impl Fn() -> Arc<dyn Store>) {
    crowd::one_of_fifty_begins_is_granted(make()).await;
    crowd::the_next_begin_behind_a_settle_is_never_refused(make()).await;
    crowd::random_verbs_keep_ids_apart(make()).await;
}

/// The same, but for one id of the agent's that several contexts bind at once.
#[cfg(feature = "redis")]
pub(super) async fn concurrency_within_contexts(make: impl Fn() -> Arc<dyn Store>) {
    crowd::one_of_fifty_begins_is_granted(make()).await;
    crowd::the_next_begin_behind_a_settle_is_never_refused(make()).await;
    crowd::random_verbs_keep_the_order(make()).await;
}

/// Random verbs against a plain model. `cases` of them.
pub(super) fn against_the_model(make: impl Fn() -> Arc<dyn Store>, cases: u32) {
    random::agrees(make, cases);
}

pub(super) fn key(principal: &str, context: &str) -> ContextKey {
    let (route, principal) = (RouteId::default(), Principal::from(principal));
    ContextKey { route, principal, context_id: context.into() }
}

pub(super) fn ask(key: &ContextKey, now: u64) -> Begin {
    let until = now + LEASE;
    Begin {
        key: key.clone(),
        provisional: false,
        fence: "f".into(),
        take: None,
        share: Share::Alone,
        now,
        until,
        max_turn: MAX_TURN,
    }
}

pub(super) fn provisional(key: &ContextKey, now: u64) -> Begin {
    Begin { provisional: true, ..ask(key, now) }
}

pub(super) async fn begin(store: &dyn Store, begin: Begin) -> (Lease, Arc<Context>, Option<InFlight>) {
    match store.begin(begin).await.unwrap() {
        Begun::Granted { lease, context, previous } => (lease, context, previous),
        Begun::Busy(in_flight) => panic!("busy: {in_flight:?}"),
    }
}

pub(super) async fn busy(store: &dyn Store, begin: Begin) -> InFlight {
    match store.begin(begin).await.unwrap() {
        Begun::Granted { lease, .. } => panic!("granted: {lease:?}"),
        Begun::Busy(in_flight) => in_flight,
    }
}

pub(super) fn bind(task: &str, context: &str) -> Bind {
    Bind {
        upstream_task: task.to_owned(),
        upstream_context: context.to_owned(),
        task: None,
        minted_context: "minted-context".to_owned(),
        minted_task: "minted-task".to_owned(),
    }
}

pub(super) fn opening(task: Option<&str>, attempt: u32, now: u64) -> Arc<Opening> {
    Arc::new(Opening {
        number: 1,
        task: task.map(ToOwned::to_owned),
        attempt,
        continued: None,
        user: said("hello"),
        user_text: String::new(),
        named: (false, false),
        user_digest: Digest([0; 32]),
        shown: Shown::default(),
        injected: 0,
        joined: Vec::new(),
        accepted: Digest([0; 32]),
        history_policy: HistoryPolicy::ClientSupplied,
        window_start: 1,
        dialect: Dialect::V03,
        endpoint: None,
        active: false,
        inline: false,
        history_length: None,
        started_at: now,
        callback: None,
    })
}

pub(super) fn pending(task: Option<&str>, attempt: u32, now: u64) -> Pending {
    let opening = opening(task, attempt, now);
    Pending { opening, bound: None, state: State::Working, idle: false, looked_at: now }
}

pub(super) fn said(text: &str) -> Spoken {
    Spoken { id: "message".to_owned(), parts: vec![Part::Text(text.to_owned())] }
}

pub(super) fn turn(context: &Context, bound: &Bound, attempt: u32, state: State, now: u64) -> Turn {
    let reply = said("world");
    Turn {
        number: context.next_number(),
        task: bound.task_id.clone(),
        attempt,
        settled_at: now,
        state,
        user: said("hello"),
        named: (false, false),
        joined: Vec::new(),
        user_digest: Digest([0; 32]),
        history_policy: HistoryPolicy::ClientSupplied,
        shown: Shown::default(),
        accepted: Digest([0; 32]),
        reply: Reply { source: Source::Message, from: vec![], id: reply.id, parts: reply.parts, question: None },
        artifacts: Vec::new(),
        decided: None,
    }
}

/// How a turn with these ids ends, in a context as it is. A question is the proxy's.
pub(super) fn settlement(context: &Context, bound: &Bound, state: State, now: u64) -> Settlement {
    let attempt = context.task(&bound.task_id).map_or(1, |task| task.attempts.len() as u32 + 1);
    let turn = turn(context, bound, attempt, state, now);
    let success = matches!(state, State::Completed | State::InputRequired);
    let other = |upstream: &str, shown: &str| (upstream != shown).then(|| upstream.into());
    let change = TaskChange {
        id: bound.task_id.clone(),
        number: attempt,
        state,
        opened_by: OpenedBy::Proxy,
        dialect: Dialect::V03,
        attempt: Attempt {
            upstream_task: other(&bound.upstream_task, &bound.task_id),
            upstream_context: other(&bound.upstream_context, &bound.context_id),
            turn: success.then_some(turn.number),
        },
    };
    Settlement {
        turn: Some(Arc::new(turn)),
        success,
        record_bytes: 10,
        task: (!bound.task_id.is_empty()).then_some(change),
        answered: None,
        window_start: 1,
        rewrites: 0,
        now,
    }
}

/// A whole turn, with the agent's ids.
pub(super) async fn converse(store: &dyn Store, key: &ContextKey, how: Bind, state: State, now: u64) -> Bound {
    let (lease, context, _) = begin(store, ask(key, now)).await;
    let attempt =
        how.task.as_ref().and_then(|task| context.task(task)).map_or(1, |task| task.attempts.len() as u32 + 1);
    store.observe(&lease, pending(how.task.as_deref(), attempt, now)).await.unwrap();
    let (lease, bound) = store.bind(&lease, how).await.unwrap();
    store.settle(&lease, settlement(&context, &bound, state, now)).await.unwrap();
    bound
}

pub(super) fn all(principal: &str) -> ListQuery {
    ListQuery {
        route: RouteId::default(),
        principal: Principal::from(principal),
        context_id: None,
        state: None,
        updated_since: None,
        after: None,
        limit: 100,
    }
}

pub(super) async fn listed(store: &dyn Store, query: ListQuery) -> (Vec<String>, usize) {
    let listed = store.list(query).await.unwrap();
    (listed.tasks.iter().map(|(.., task)| task.id.to_string()).collect(), listed.total)
}

pub(super) async fn find(store: &dyn Store, principal: &str, id: &str) -> Option<super::Found> {
    store.by_task(&RouteId::default(), &Principal::from(principal), id).await.unwrap()
}

pub(super) async fn superseded(store: &dyn Store, principal: &str, id: &str) -> bool {
    find(store, principal, id).await.unwrap().context.task(id).unwrap().superseded
}
