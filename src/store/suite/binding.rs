//! The agent's ids and the client's.

use super::*;

behaviours! {
    async fn a_provisional_context_moves_to_the_agents(store) {
        let made = key("ada", "provisional");
        let (lease, ..) = begin(store, provisional(&made, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("u1", "agents")).await.unwrap();
        assert_eq!((&*lease.key.context_id, &*bound.context_id, &*bound.task_id), ("agents", "agents", "u1"));
        assert!(store.context(&made).await.unwrap().is_none());
        let found = find(store, "ada", "u1").await.unwrap();
        assert_eq!((found.key, found.in_flight.unwrap().pending.unwrap().bound), (lease.key.clone(), Some(bound)));
        store.release(&lease).await.unwrap();
        assert!(store.context(&lease.key).await.unwrap().is_none() && find(store, "ada", "u1").await.is_none());
    }

    async fn a_provisional_context_without_a_contextid_to_have_gets_the_minted_one(store) {
        converse(store, &key("ada", "taken"), bind("u1", "taken"), State::Completed, 1).await;
        for (agents, upstream) in [("", "u2"), ("taken", "u3")] {
            let (lease, ..) = begin(store, provisional(&key("ada", "p"), 2)).await;
            let (lease, bound) = store.bind(&lease, bind(upstream, agents)).await.unwrap();
            assert_eq!((&*bound.context_id, &*bound.upstream_context), ("minted-context", agents));
            store.release(&lease).await.unwrap();
        }
        // Another's context of that name is in nobody's way.
        let (lease, ..) = begin(store, provisional(&key("bob", "p"), 2)).await;
        assert_eq!(store.bind(&lease, bind("u4", "taken")).await.unwrap().1.context_id, "taken");
    }

    async fn a_context_that_the_client_named_keeps_its_name(store) {
        let bound = converse(store, &key("ada", "c"), bind("u1", "agents"), State::Completed, 1).await;
        assert_eq!((&*bound.context_id, &*bound.upstream_context), ("c", "agents"));
    }

    async fn an_answered_task_stays_the_task(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::InputRequired, 1).await;
        let answer = Bind { task: Some("u1".into()), ..bind("u2", "c") };
        let bound = converse(store, &key, answer, State::Completed, 2).await;
        assert_eq!((&*bound.task_id, &*bound.upstream_task), ("u1", "u2"));
        // The client never heard of the second id, but it is taken.
        assert!(find(store, "ada", "u2").await.is_none());
        assert_eq!(listed(store, all("ada")).await, (vec!["u1".to_owned()], 1));
        let other = converse(store, &super::key("bob", "d"), bind("u2", "d"), State::Completed, 3).await;
        assert_eq!(other.task_id, "minted-task");
        assert!(superseded(store, "ada", "u1").await);
    }

    async fn a_known_id_of_the_agents_makes_a_minted_one(store) {
        converse(store, &key("ada", "c"), bind("task-1", "c"), State::Completed, 1).await;
        let bound = converse(store, &key("bob", "d"), bind("task-1", "d"), State::Completed, 2).await;
        assert_eq!((&*bound.task_id, &*bound.upstream_task), ("minted-task", "task-1"));
        assert!(superseded(store, "ada", "task-1").await && !superseded(store, "bob", "minted-task").await);
        // And the same within one context.
        let again = Bind { minted_task: "another".into(), ..bind("task-1", "d") };
        assert_eq!(converse(store, &key("bob", "d"), again, State::Completed, 3).await.task_id, "another");
        assert!(superseded(store, "bob", "minted-task").await && !superseded(store, "bob", "another").await);
        // On another route the id means another task.
        let elsewhere = ContextKey { route: "elsewhere".into(), ..key("ada", "c") };
        assert_eq!(converse(store, &elsewhere, bind("task-1", "c"), State::Completed, 4).await.task_id, "task-1");
    }

    async fn a_record_that_is_only_in_flight_is_superseded_too(store) {
        let (key, other) = (key("ada", "c"), key("bob", "d"));
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("task-1", "c")).await.unwrap();
        assert_eq!(converse(store, &other, bind("task-1", "d"), State::Completed, 2).await.task_id, "minted-task");
        assert!(store.list(all("ada")).await.unwrap().tasks[0].2.superseded);
        store.settle(&lease, settlement(&context, &bound, State::Completed, 3)).await.unwrap();
        assert!(superseded(store, "ada", "task-1").await && !superseded(store, "bob", "minted-task").await);
    }

    async fn a_continued_chain_supersedes_nothing(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::InputRequired, 1).await;
        let answer = Bind { task: Some("u1".into()), ..bind("u1", "c") };
        assert_eq!(converse(store, &key, answer, State::Completed, 2).await.task_id, "u1");
        assert!(!superseded(store, "ada", "u1").await);
    }

    // Nothing goes to the agent under the id of a superseded task: when it is told again it is a new task's, and the other's no more.
    async fn an_id_that_comes_back_to_its_chain_is_taken_from_the_other(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("u1", "c"), State::InputRequired, 1).await;
        let bob = super::key("bob", "d");
        assert_eq!(converse(store, &bob, bind("u1", "d"), State::Completed, 2).await.task_id, "minted-task");
        let answer = Bind { task: Some("u1".into()), ..bind("u1", "c") };
        assert_eq!(converse(store, &key, answer, State::Completed, 3).await.task_id, "u1");
        assert!(superseded(store, "bob", "minted-task").await);
    }

    async fn a_bind_told_twice_is_one(store) {
        let (lease, ..) = begin(store, provisional(&key("ada", "p"), 1)).await;
        let (lease, first) = store.bind(&lease, bind("u1", "")).await.unwrap();
        let (lease, second) = store.bind(&lease, bind("u1", "")).await.unwrap();
        assert_eq!(first, second);
        // A later event that knows more of it, and one that knows less.
        let (lease, third) = store.bind(&lease, bind("u1", "agents")).await.unwrap();
        assert_eq!(third, Bound { upstream_context: "agents".into(), ..first });
        assert_eq!(store.bind(&lease, bind("", "")).await.unwrap().1, third);
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        assert_eq!(find(store, "ada", "u1").await.unwrap().in_flight.unwrap().pending.unwrap().bound, Some(third));
    }

    async fn a_bare_message_has_no_task_but_the_one_that_it_answers(store) {
        let key = key("ada", "c");
        let bound = converse(store, &key, bind("", "c"), State::Completed, 1).await;
        assert_eq!((&*bound.task_id, &*bound.upstream_task), ("", ""));
        converse(store, &key, bind("u1", "c"), State::InputRequired, 2).await;
        let (lease, ..) = begin(store, ask(&key, 3)).await;
        let bound = store.bind(&lease, Bind { task: Some("u1".into()), ..bind("", "c") }).await.unwrap().1;
        assert_eq!((&*bound.task_id, &*bound.upstream_task), ("u1", ""));
    }

    async fn anothers_task_is_not_found(store) {
        converse(store, &key("ada", "c"), bind("u1", "c"), State::Completed, 1).await;
        assert!(find(store, "bob", "u1").await.is_none() && find(store, "ada", "u1").await.is_some());
        let elsewhere = store.by_task(&"elsewhere".into(), &"ada".into(), "u1").await.unwrap();
        assert!(elsewhere.is_none());
    }

    async fn who_goes_on_watching_a_turn_observes_it_under_its_ids(store) {
        let key = key("ada", "c");
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        store.bind(&lease, bind("u1", "c")).await.unwrap();
        let take = Begin { take: Some(lease.token), ..ask(&key, 1 + LEASE) };
        let (taker, _, previous) = begin(store, take).await;
        let before = previous.unwrap().pending.unwrap();
        store.observe(&taker, before.clone()).await.unwrap();
        assert!(find(store, "ada", "u1").await.is_some());
        let bound = before.bound.unwrap();
        store.settle(&taker, settlement(&context, &bound, State::Completed, 2)).await.unwrap();
        assert!(find(store, "ada", "u1").await.unwrap().context.task("u1").is_some());
    }
}
