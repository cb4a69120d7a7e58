//! The lease: who has it, how long, and what is lost with it.

use std::time::Duration;

use super::*;
use crate::store::StoreError;

behaviours! {
    async fn a_second_begin_is_told_of_the_turn_in_flight(store) {
        let key = key("ada", "c");
        let (lease, context, previous) = begin(store, ask(&key, 1)).await;
        assert_eq!((lease.key.clone(), &*context.fence, previous), (key.clone(), "f", None));
        let told = busy(store, ask(&key, 2)).await;
        assert_eq!((told.token, told.until, told.pending), (lease.token, 1 + LEASE, None));
        store.observe(&lease, pending(None, 1, 2)).await.unwrap();
        assert_eq!(busy(store, ask(&key, 3)).await.pending, Some(pending(None, 1, 2)));
        // Another's context of the same name is another context.
        begin(store, ask(&super::key("bob", "c"), 3)).await;
    }

    async fn a_context_without_a_turn_leaves_no_trace(store) {
        for first in [ask(&key("ada", "c"), 1), provisional(&key("ada", "p"), 1)] {
            let key = first.key.clone();
            let (lease, ..) = begin(store, first).await;
            store.release(&lease).await.unwrap();
            assert!(store.context(&key).await.unwrap().is_none());
            store.release(&lease).await.unwrap();
        }
    }

    async fn a_settled_turn_is_in_the_context_and_the_lease_is_free(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::Completed, 1).await;
        let (lease, context, previous) = begin(store, ask(&key, 2)).await;
        assert_eq!((context.turns.len(), previous), (1, None));
        store.release(&lease).await.unwrap();
        let found = store.context(&key).await.unwrap().unwrap();
        assert_eq!((found.key, found.context.turns.len(), found.in_flight), (key, 1, None));
    }

    async fn what_settle_answers_is_what_is_kept(store) {
        let key = key("ada", "c");
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        let (lease, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let after = store.settle(&lease, settlement(&context, &bound, State::Completed, 2)).await.unwrap();
        assert_eq!(after, store.context(&key).await.unwrap().unwrap().context);
        assert!(context.turns.is_empty(), "a context that was read does not change under its reader");
    }

    async fn an_expired_lease_is_free(store) {
        let key = key("ada", "c");
        let (old, ..) = begin(store, ask(&key, 1)).await;
        busy(store, ask(&key, LEASE)).await;
        let (new, _, previous) = begin(store, ask(&key, 1 + LEASE)).await;
        assert!(new.token > old.token);
        assert_eq!(previous.map(|turn| turn.token), Some(old.token));
    }

    async fn a_renewed_lease_is_not_free(store) {
        let key = key("ada", "c");
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.renew(&lease, 2 * LEASE).await.unwrap();
        assert_eq!(busy(store, ask(&key, 2 * LEASE - 1)).await.until, 2 * LEASE);
    }

    async fn nothing_is_done_with_a_lost_lease(store) {
        let key = key("ada", "c");
        let (old, context, _) = begin(store, ask(&key, 1)).await;
        let (_new, ..) = begin(store, ask(&key, 1 + LEASE)).await;
        let bound = Bound { task_id: "t".into(), context_id: "c".into(), upstream_task: "t".into(), upstream_context: "c".into() };
        let settled = store.settle(&old, settlement(&context, &bound, State::Completed, 2)).await;
        assert_eq!(settled, Err(StoreError::LeaseLost));
        assert_eq!(store.renew(&old, 9).await, Err(StoreError::LeaseLost));
        assert_eq!(store.observe(&old, pending(None, 1, 1)).await, Err(StoreError::LeaseLost));
        assert_eq!(store.bind(&old, bind("t", "c")).await, Err(StoreError::LeaseLost));
        store.release(&old).await.unwrap();
        let found = store.context(&key).await.unwrap().unwrap();
        assert!(found.in_flight.is_some() && found.context.turns.is_empty());
        assert!(find(store, "ada", "t").await.is_none());
    }

    async fn an_expired_lease_that_nobody_took_still_settles(store) {
        let key = key("ada", "c");
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        let (lease, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let late = settlement(&context, &bound, State::Completed, 10 * LEASE);
        assert_eq!(store.settle(&lease, late).await.unwrap().turns.len(), 1);
    }

    async fn a_turn_that_the_agent_knows_is_freed_by_the_end_of_max_turn_alone(store) {
        let key = key("ada", "c");
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 5)).await.unwrap();
        let (_, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let told = busy(store, ask(&key, 4 + MAX_TURN)).await;
        assert_eq!(told.pending.unwrap().bound, Some(bound.clone()));
        let (_, _, previous) = begin(store, ask(&key, 5 + MAX_TURN)).await;
        assert_eq!(previous.unwrap().pending.unwrap().bound, Some(bound));
    }

    async fn whoever_looks_at_a_turn_does_not_keep_it_beyond_max_turn(store) {
        let key = key("ada", "c");
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let idle = |now| Pending { idle: true, bound: Some(bound.clone()), looked_at: now, ..pending(None, 1, 1) };
        store.observe(&lease, idle(1)).await.unwrap();
        let look = Begin { take: Some(lease.token), ..ask(&key, MAX_TURN) };
        let (taker, ..) = begin(store, look).await;
        store.observe(&taker, idle(MAX_TURN)).await.unwrap();
        begin(store, ask(&key, 1 + MAX_TURN)).await;
    }

    async fn a_bare_message_is_freed_with_its_lease(store) {
        let key = key("ada", "c");
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        store.bind(&lease, bind("", "")).await.unwrap();
        begin(store, ask(&key, 1 + LEASE)).await;
    }

    async fn an_idle_turn_is_taken_by_who_knows_its_token(store) {
        let key = key("ada", "c");
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, _) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let take = |token, now| Begin { take: Some(token), ..ask(&key, now) };
        busy(store, take(lease.token, 2)).await;
        store.observe(&lease, Pending { idle: true, ..pending(None, 1, 1) }).await.unwrap();
        busy(store, ask(&key, 2)).await;
        busy(store, take(lease.token + 1, 2)).await;
        let (taker, _, previous) = begin(store, take(lease.token, 2)).await;
        assert_eq!(previous.unwrap().token, lease.token);
        // Nobody else takes it meanwhile.
        busy(store, take(lease.token, 2)).await;
        busy(store, take(taker.token, 2)).await;
        begin(store, take(taker.token, 2 + LEASE)).await;
    }

    async fn a_turn_that_was_taken_over_stays_known_until_it_is_settled(store) {
        let key = key("ada", "c");
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, Pending { idle: true, ..pending(None, 1, 1) }).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("u1", "c")).await.unwrap();
        let take = |token| Begin { take: Some(token), ..ask(&key, 2) };
        let (taker, ..) = begin(store, take(lease.token)).await;
        assert!(find(store, "ada", "u1").await.is_some());
        assert_eq!(listed(store, all("ada")).await.1, 1);
        // Given back unsettled it is as it was, but the lease that was given back is lost.
        store.release(&taker).await.unwrap();
        let left = find(store, "ada", "u1").await.unwrap().in_flight.unwrap();
        assert_eq!(left.pending.unwrap().bound, Some(bound.clone()));
        assert_eq!(store.renew(&taker, 9).await, Err(StoreError::LeaseLost));
        let (taker, ..) = begin(store, take(left.token)).await;
        store.settle(&taker, settlement(&context, &bound, State::Failed, 3)).await.unwrap();
        let found = find(store, "ada", "u1").await.unwrap();
        assert_eq!((found.context.task("u1").unwrap().state, found.in_flight), (State::Failed, None));
    }

    async fn tokens_rise_beyond_the_end_of_a_context(store) {
        let key = key("ada", "c");
        let (first, ..) = begin(store, ask(&key, 1)).await;
        store.erase(&key).await.unwrap();
        let (second, ..) = begin(store, ask(&key, 1)).await;
        assert!(second.token > first.token);
        assert_eq!(store.renew(&first, 9).await, Err(StoreError::LeaseLost));
    }

    async fn erased_is_erased(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::Completed, 1).await;
        let (lease, ..) = begin(store, ask(&key, 2)).await;
        let (lease, _) = store.bind(&lease, bind("u2", "c")).await.unwrap();
        store.erase(&key).await.unwrap();
        assert_eq!(store.renew(&lease, 9).await, Err(StoreError::LeaseLost));
        assert!(store.context(&key).await.unwrap().is_none());
        assert!(find(store, "ada", "u1").await.is_none() && find(store, "ada", "u2").await.is_none());
        assert_eq!(listed(store, all("ada")).await, (vec![], 0));
        // The agent's ids are free again.
        assert_eq!(converse(store, &key, bind("u1", "c"), State::Completed, 3).await.task_id, "u1");
    }

    async fn waiting_ends_with_the_turn(store) {
        let key = key("ada", "c");
        store.wait_turn(&key, 7).await.unwrap();
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        store.wait_turn(&key, lease.token + 1).await.unwrap();
        let mut wait = store.wait_turn(&key, lease.token);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut wait).await.is_err(), "the turn is in flight");
        store.release(&lease).await.unwrap();
        wait.await.unwrap();
        // Taken over and erased, too.
        let (lease, ..) = begin(store, ask(&key, 1)).await;
        let (_, begun) = tokio::join!(store.wait_turn(&key, lease.token), begin(store, ask(&key, 1 + LEASE)));
        let (_, erased) = tokio::join!(store.wait_turn(&key, begun.0.token), store.erase(&key));
        erased.unwrap();
    }
}
