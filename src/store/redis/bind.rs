//! The agent's ids tied to the client's.
//!
//! An id of the agent's may mean another task than it did. Whoever binds it enters itself under it first, and is told who was there before: the
//! one that is told of nobody was first. Those that were are superseded before the newcomer is bound; one that is itself still being bound is
//! made to begin anew, and then finds the newcomer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};

use super::index::{Entry, Side};
use super::names::Tag;
use super::record::{Depth, Record, Seen};
use super::turn::both;
use super::{Backoff, Redis};
use crate::store::rules;
use crate::store::{Bind, Lease, StoreError};
use crate::turn::Bound;

/// How often it is looked whether another turn that was told the same id at the same time has got its own ids, and when first.
const LOOKS: u32 = 5;
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// What a try to bind comes to.
enum Tried {
    Bound(Lease, Bound),
    /// Somebody else changed the context.
    Stale,
    /// The contextId that a provisional context was to have is another's.
    Taken,
}

/// Who else has the agent's id.
#[derive(Default)]
struct Others {
    /// Their entries, by context.
    entries: HashMap<Tag, Vec<Entry>>,
    /// Whether the turn's own context has it, under whatever task.
    own: bool,
}

impl Redis {
    pub(super) async fn bind_now(&self, lease: &Lease, bind: &Bind) -> Result<(Lease, Bound), StoreError> {
        let tag = Tag::of(&lease.key);
        let (mut known, mut wished) = (true, !bind.upstream_context.is_empty());
        loop {
            let old = self.held(lease, &tag, known).await?;
            let context_id = if wished { &bind.upstream_context } else { &bind.minted_context };
            match self.try_bind(lease, &old, bind, context_id).await? {
                Tried::Bound(lease, bound) => return Ok((lease, bound)),
                Tried::Stale => known = false,
                Tried::Taken if wished => wished = false,
                Tried::Taken => {
                    return Err(StoreError::Unavailable("a contextId that was minted exists already".to_owned()));
                }
            }
        }
    }

    async fn try_bind(
        &self,
        lease: &Lease,
        old: &Arc<Record>,
        bind: &Bind,
        context_id: &str,
    ) -> Result<Tried, StoreError> {
        let mut new = Record::clone(old);
        let Some(live) = new.held(lease.token) else { return Err(StoreError::LeaseLost) };
        live.go_on();
        let moves = std::mem::take(&mut live.provisional);
        let again = live.bound_again(bind);
        if moves {
            new.key.context_id = context_id.into();
        }
        let (key, entered_at) = (new.key.clone(), new.entered_at);
        // One that does not move has been its owner's since it began.
        let listed = self.enter_owner(!moves, &key, entered_at);
        let (tied, ()) = try_join(self.tie((lease.token, old), &mut new, bind, again), listed).await?;
        let Some((bound, others)) = tied else {
            return Ok(Tried::Stale);
        };
        let tag = Tag::of(&lease.key);
        let lease = Lease { key: new.key.clone(), token: lease.token };
        if !moves {
            if self.write(&tag, &Seen::There(old.clone()), new).await?.is_none() {
                return Ok(Tried::Stale);
            }
        } else if self.move_to(new).await? {
            self.drop_record(&tag, &Seen::There(old.clone())).await?;
        } else {
            return Ok(Tried::Taken);
        }
        let overtaken = others.entries.into_values().flatten().filter(|entry| entry.side == Side::Agent);
        self.strike((&lease.key.route, &bound.upstream_task), &overtaken.collect::<Vec<_>>()).await?;
        Ok(Tried::Bound(lease, bound))
    }

    /// Puts a context where it was not before. Not, if another is there.
    async fn move_to(&self, new: Record) -> Result<bool, StoreError> {
        let tag = Tag::of(&new.key);
        let mut seen = Seen::Gone { version: String::new(), token: 0 };
        loop {
            if self.write(&tag, &seen, new.clone()).await?.is_some() {
                return Ok(true);
            }
            seen = self.read(&tag, Depth::Head).await?;
            if let Seen::There(_) = seen {
                return Ok(false);
            }
        }
    }

    /// Ties the ids in a context that is not written yet, and tells the index. Nothing where the context has changed meanwhile.
    async fn tie(
        &self,
        (token, old): (u64, &Record),
        new: &mut Record,
        bind: &Bind,
        again: Option<Bound>,
    ) -> Result<Option<(Bound, Others)>, StoreError> {
        let (context_id, context) = (new.key.context_id.clone(), new.context.clone());
        let Some(live) = new.held(token) else { return Ok(None) };
        let task = rules::task_of(live, bind);
        let bound = match again {
            None if rules::is_fresh(&context, live, bind) => {
                return self.tie_fresh((token, old), new, bind, task).await;
            }
            None => live.tie(task.unwrap_or_default(), &context_id, bind.clone()),
            Some(bound) => bound,
        };
        let mut ids = both(&bound);
        ids.retain(|(_, id)| !old.in_turn(id));
        self.enter_all(new, token, &ids).await?;
        Ok(Some((bound, Others::default())))
    }

    /// The same, where the agent's id means another task from now on.
    async fn tie_fresh(
        &self,
        (token, old): (u64, &Record),
        new: &mut Record,
        bind: &Bind,
        task: Option<String>,
    ) -> Result<Option<(Bound, Others)>, StoreError> {
        let route = new.key.route.clone();
        let id = (&route, &*bind.upstream_task);
        let as_client: Vec<_> = task.is_none().then(|| self.entry(new, token, Side::Client)).into_iter().collect();
        let before = self.enter(id, &as_client, &[self.entry(new, token, Side::Agent)]).await?;
        let first = before.is_empty();
        let Some(others) = self.others(old, new, bind, before).await? else { return Ok(None) };
        let free = others.entries.is_empty() && !others.own;
        let minted = || if free { bind.upstream_task.clone() } else { bind.minted_task.clone() };
        let entered = first && task.is_none();
        let task_id = task.unwrap_or_else(minted);
        if !entered && !old.has_client(&task_id) {
            self.enter_all(new, token, &[(Side::Client, task_id.as_str().into())]).await?;
        }
        try_join_all(others.entries.iter().map(|(tag, entries)| self.overtake(tag, entries, id.1))).await?;
        let context_id = new.key.context_id.clone();
        let Some(live) = new.held(token) else { return Ok(None) };
        let bound = live.tie(task_id, &context_id, bind.clone());
        rules::supersede(&mut new.context, new.lives.all(), id.1, Some(&bound.task_id));
        Ok(Some((bound, others)))
    }

    /// Who of those that were entered before has the agent's id indeed. Nothing where the context that is to be bound has changed meanwhile.
    async fn others(
        &self,
        old: &Record,
        new: &Record,
        bind: &Bind,
        before: Vec<Entry>,
    ) -> Result<Option<Others>, StoreError> {
        let (id, home) = (&*bind.upstream_task, Tag::of(&new.key));
        let mut others = Others::default();
        for entry in before {
            if entry.tag == home && entry.serial == old.serial {
                others.own |= if entry.side == Side::Client { old.has_client(id) } else { old.has_agent(id) };
            } else {
                others.entries.entry(entry.tag.clone()).or_default().push(entry);
            }
        }
        if others.entries.is_empty() {
            return Ok(Some(others));
        }
        let mut dangling = Vec::new();
        let seen = try_join_all(others.entries.keys().cloned().map(|tag| async move {
            let seen = self.read(&tag, Depth::Head).await?;
            Ok::<_, StoreError>((tag, seen))
        }));
        for (tag, seen) in seen.await? {
            let record = seen.there();
            let holds = |entry: &Entry| record.as_ref().is_some_and(|record| entry.holds(record, id));
            let Some(entries) = others.entries.remove(&tag) else { continue };
            let (hold, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(holds);
            dangling.extend(rest);
            if !hold.is_empty() {
                others.entries.insert(tag, hold);
            }
        }
        self.strike((&new.key.route, id), &dangling).await?;
        // Nobody is superseded by a turn whose lease is lost.
        let still =
            others.entries.is_empty() || self.read(&Tag::of(&old.key), Depth::Head).await?.version() == old.version;
        Ok(still.then_some(others))
    }

    /// Tells another context that the agent's id means another task from now on.
    async fn overtake(&self, tag: &Tag, entries: &[Entry], id: &str) -> Result<(), StoreError> {
        let mut backoff = Backoff(FIRST_LOOK, FIRST_LOOK * 8);
        let mut looks = LOOKS;
        loop {
            let seen = self.read(tag, Depth::Head).await?;
            let Seen::There(record) = &seen else { return Ok(()) };
            if !entries.iter().any(|entry| entry.holds(record, id)) {
                return Ok(());
            }
            // One may be on its way to be bound whose context has known the id before.
            let binding = entries.iter().any(|entry| entry.is_being_bound(record, id));
            if binding && looks > 0 {
                looks -= 1;
                backoff.pause().await;
                continue;
            }
            let mut new = Record::clone(record);
            rules::supersede(&mut new.context, new.lives.all(), id, None);
            let same = Arc::ptr_eq(&new.context, &record.context) && new.lives == record.lives;
            // What is written without a change is another version: the bind that is on its way there is refused, and begins anew.
            if (same && !binding) || self.write(tag, &seen, new).await?.is_some() {
                return Ok(());
            }
        }
    }
}
