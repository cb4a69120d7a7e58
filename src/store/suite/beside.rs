//! Turns that run beside one another in one context.

use super::*;
use crate::conversation::question::{Expected, Reason};
use crate::conversation::transcript::Decided;
use crate::store::StoreError;

fn beside(key: &ContextKey, task: Option<&str>, now: u64) -> Begin {
    Begin { share: Share::Beside(task.map(str::to_owned)), ..ask(key, now) }
}

/// A turn under way, its message sent and the agent's task known.
async fn running(store: &dyn Store, key: &ContextKey, task: &str, now: u64) -> (Lease, Arc<Context>, Bound) {
    let (lease, context, _) = begin(store, beside(key, None, now)).await;
    store.observe(&lease, pending(None, 1, now)).await.unwrap();
    let (lease, bound) = store.bind(&lease, bind(task, "c")).await.unwrap();
    (lease, context, bound)
}

fn asking(context: &Context, bound: &Bound, now: u64) -> Settlement {
    let mut settlement = settlement(context, bound, State::InputRequired, now);
    let decided = Decided { rewritten: true, reason: Reason::Question, expected: Expected::FreeText };
    let turn = settlement.turn.as_mut().map(Arc::make_mut).unwrap();
    turn.decided = Some(decided);
    settlement
}

super::behaviours! {
    async fn turns_beside_one_another_settle_in_the_order_in_which_they_end(store) {
        let key = key("ada", "c");
        let (first, context, one) = running(store, &key, "u1", 1).await;
        let (second, _, two) = running(store, &key, "u2", 2).await;
        assert!(second.token > first.token);
        store.renew(&first, 3 + LEASE).await.unwrap();
        store.settle(&second, settlement(&context, &two, State::Completed, 3)).await.unwrap();
        let after = store.settle(&first, settlement(&context, &one, State::Completed, 4)).await.unwrap();
        let order: Vec<_> = after.turns.iter().map(|turn| (turn.number, turn.turn().unwrap().task)).collect();
        assert_eq!(order, [(1, "u2".to_owned()), (2, "u1".to_owned())]);
        assert!(after.turns.iter().all(|kept| kept.turn().unwrap().number == kept.number));
        let turn_of = |id: &str| after.task(id).unwrap().attempts[0].turn;
        assert_eq!((turn_of("u1"), turn_of("u2")), (Some(2), Some(1)));
        assert_eq!(store.context(&key).await.unwrap().unwrap().in_flight, None);
    }

    async fn a_turn_of_the_same_task_and_one_that_bears_none_are_refused(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::InputRequired, 1).await;
        let (answer, ..) = begin(store, beside(&key, Some("u1"), 2)).await;
        // Before anything else is known of it too.
        assert_eq!(busy(store, beside(&key, Some("u1"), 2)).await.token, answer.token);
        let (other, ..) = begin(store, beside(&key, None, 2)).await;
        assert_eq!(busy(store, ask(&key, 2)).await.token, answer.token);
        store.release(&answer).await.unwrap();
        assert_eq!(busy(store, ask(&key, 2)).await.token, other.token);
        begin(store, beside(&key, Some("u1"), 2)).await;
    }

    async fn each_turn_is_found_by_its_task_and_listed(store) {
        let key = key("ada", "c");
        let (first, context, one) = running(store, &key, "u1", 1).await;
        let (second, ..) = running(store, &key, "u2", 2).await;
        for (id, token) in [("u1", first.token), ("u2", second.token)] {
            assert_eq!(find(store, "ada", id).await.unwrap().in_flight.unwrap().token, token);
        }
        assert_eq!(listed(store, all("ada")).await, (vec!["u2".to_owned(), "u1".to_owned()], 2));
        store.settle(&first, settlement(&context, &one, State::Failed, 3)).await.unwrap();
        store.renew(&second, 9 + LEASE).await.unwrap();
        assert_eq!(find(store, "ada", "u2").await.unwrap().in_flight.unwrap().token, second.token);
        assert_eq!(store.renew(&first, 9).await, Err(StoreError::LeaseLost));
    }

    async fn a_question_that_was_asked_beside_a_turn_is_not_overtaken_by_it(store) {
        let key = key("ada", "c");
        let (lease, context, _) = begin(store, beside(&key, None, 1)).await;
        let (lease, old) = store.bind(&lease, bind("old", "c")).await.unwrap();
        store.settle(&lease, asking(&context, &old, 1)).await.unwrap();
        let (first, context, one) = running(store, &key, "u1", 2).await;
        let (second, _, two) = running(store, &key, "u2", 2).await;
        store.settle(&first, asking(&context, &one, 3)).await.unwrap();
        let after = store.settle(&second, settlement(&context, &two, State::Completed, 4)).await.unwrap();
        let state = |id: &str| after.task(id).unwrap().state;
        assert_eq!((state("old"), state("u1"), state("u2")), (State::Completed, State::InputRequired, State::Completed));
    }

    async fn an_id_that_the_agent_gives_to_two_turns_means_the_second(store) {
        let key = key("ada", "c");
        let (first, context, one) = running(store, &key, "u1", 1).await;
        let (second, _, two) = running(store, &key, "u1", 2).await;
        assert_eq!((&*one.task_id, &*two.task_id), ("u1", "minted-task"));
        assert!(find(store, "ada", "u1").await.unwrap().in_flight.unwrap().superseded);
        store.settle(&first, settlement(&context, &one, State::Failed, 3)).await.unwrap();
        store.settle(&second, settlement(&context, &two, State::Completed, 4)).await.unwrap();
        assert!(superseded(store, "ada", "u1").await && !superseded(store, "ada", "minted-task").await);
        // The agent's id is still known as taken.
        let (_, _, three) = running(store, &key, "u1", 5).await;
        assert_eq!(three.task_id, "minted-task");
    }

    async fn a_turn_that_nobody_holds_is_cleared_away_by_whoever_comes(store) {
        let key = key("ada", "c");
        let (lost, ..) = begin(store, beside(&key, None, 1)).await;
        store.observe(&lost, pending(None, 1, 1)).await.unwrap();
        let (held, ..) = begin(store, beside(&key, None, 2)).await;
        store.renew(&held, 9 + 2 * LEASE).await.unwrap();
        let (next, _, previous) = begin(store, beside(&key, None, 1 + LEASE)).await;
        assert_eq!(previous.unwrap().token, lost.token);
        assert_eq!(store.renew(&lost, 9).await, Err(StoreError::LeaseLost));
        for lease in [&held, &next] {
            store.renew(lease, 9 + 2 * LEASE).await.unwrap();
        }
    }

    async fn waiting_ends_with_the_turn_that_is_waited_for(store) {
        let key = key("ada", "c");
        let (first, ..) = begin(store, beside(&key, None, 1)).await;
        let (second, ..) = begin(store, beside(&key, None, 1)).await;
        store.release(&second).await.unwrap();
        let waited = tokio::join!(store.wait_turn(&key, first.token), store.release(&first));
        waited.0.unwrap();
        assert!(store.context(&key).await.unwrap().is_none());
    }
}
