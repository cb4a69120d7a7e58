//! Lists of client tasks.

use super::*;

/// Three contexts of one principal, a task each and one more, and somebody else's.
async fn some(store: &dyn Store) {
    for (principal, context, task, state, now) in [
        ("ada", "c1", "t1", State::Completed, 10),
        ("ada", "c2", "t3", State::Completed, 20),
        ("ada", "c3", "t2", State::InputRequired, 20),
        ("ada", "c1", "t4", State::Failed, 30),
        ("bob", "c1", "t5", State::Completed, 40),
    ] {
        converse(store, &key(principal, context), bind(task, context), state, now).await;
    }
}

behaviours! {
    async fn the_newest_comes_first_then_the_id_decides(store) {
        some(store).await;
        assert_eq!(listed(store, all("ada")).await, (["t4", "t2", "t3", "t1"].map(String::from).to_vec(), 4));
        assert_eq!(listed(store, all("eve")).await, (vec![], 0));
    }

    async fn a_list_is_filtered(store) {
        some(store).await;
        let of = |ids: &[&str]| (ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), ids.len());
        let query = ListQuery { context_id: Some("c1".into()), ..all("ada") };
        assert_eq!(listed(store, query).await, of(&["t4", "t1"]));
        let query = ListQuery { context_id: Some("c9".into()), ..all("ada") };
        assert_eq!(listed(store, query).await, of(&[]));
        let query = ListQuery { state: Some(State::Completed), ..all("ada") };
        assert_eq!(listed(store, query).await, of(&["t3", "t1"]));
        let query = ListQuery { updated_since: Some(20), ..all("ada") };
        assert_eq!(listed(store, query).await, of(&["t4", "t2", "t3"]));
        let query = ListQuery { route: "elsewhere".into(), ..all("ada") };
        assert_eq!(listed(store, query).await, of(&[]));
    }

    async fn pages_join_without_gap_or_overlap(store) {
        some(store).await;
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(ListQuery { after, limit: 1, ..all("ada") }).await.unwrap();
            assert_eq!(page.total, 4, "without regard to the page");
            assert!(page.tasks.len() <= 1);
            let Some((_, _, task)) = page.tasks.first() else { break };
            seen.push(task.id.to_string());
            after = Some((task.updated_at, task.id.to_string()));
        }
        assert_eq!(seen, ["t4", "t2", "t3", "t1"]);
        assert_eq!(listed(store, ListQuery { limit: 3, ..all("ada") }).await.0, ["t4", "t2", "t3"]);
        assert_eq!(listed(store, ListQuery { limit: 0, ..all("ada") }).await, (vec![], 4));
    }

    async fn a_turn_in_flight_counts_as_the_client_was_told(store) {
        some(store).await;
        let (new, ..) = begin(store, ask(&key("ada", "c1"), 50)).await;
        store.observe(&new, pending(None, 1, 50)).await.unwrap();
        assert_eq!(listed(store, all("ada")).await.1, 4, "not before the agent has told its id");
        store.bind(&new, bind("t6", "c1")).await.unwrap();
        let (answer, ..) = begin(store, ask(&key("ada", "c3"), 60)).await;
        store.observe(&answer, pending(Some("t2"), 2, 60)).await.unwrap();
        assert_eq!(listed(store, all("ada")).await, (["t2", "t6", "t4", "t3", "t1"].map(String::from).to_vec(), 5));
        let working = store.list(ListQuery { state: Some(State::Working), ..all("ada") }).await.unwrap();
        assert_eq!((working.total, working.tasks[1].2.attempts.len()), (2, 1));
        store.release(&answer).await.unwrap();
        assert_eq!(listed(store, all("ada")).await.0, ["t6", "t4", "t2", "t3", "t1"], "its old question stands again");
    }
}
