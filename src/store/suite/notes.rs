//! Push configurations, and notes.

use super::*;
use crate::push::{PushChange, PushConfig};

fn config(task: &str, id: &str, url: &str) -> PushConfig {
    PushConfig {
        task: task.into(),
        id: id.to_owned(),
        dialect: Dialect::V10,
        url: url.to_owned(),
        token: Some("t".to_owned()),
        schemes: vec!["Bearer".to_owned()],
        credentials: None,
        active: false,
    }
}

fn delete(task: &str, id: &str) -> PushChange {
    PushChange::Delete { task: task.into(), id: id.to_owned() }
}

async fn urls(store: &dyn Store, task: &str) -> Vec<String> {
    let found = store.context(&key("ada", "c")).await.unwrap().unwrap();
    found.context.push_of(task).map(|config| config.url.clone()).collect()
}

behaviours! {
    async fn configurations_change_with_a_turn_in_flight_and_without(store) {
        let key = key("ada", "c");
        let set = |id: &str, url: &str| PushChange::Set(config("t", id, url));
        assert!(!store.configure(&key, set("1", "a")).await.unwrap(), "there is no such context");
        let (lease, context, _) = begin(store, ask(&key, 1)).await;
        store.observe(&lease, pending(None, 1, 1)).await.unwrap();
        let (lease, bound) = store.bind(&lease, bind("t", "c")).await.unwrap();
        assert!(store.configure(&key, set("1", "a")).await.unwrap());
        assert!(store.configure(&key, set("2", "b")).await.unwrap());
        let settled = store.settle(&lease, settlement(&context, &bound, State::Completed, 2)).await.unwrap();
        assert_eq!(settled.push_of("t").count(), 2, "the settlement leaves them alone");
        assert!(store.configure(&key, set("1", "c")).await.unwrap());
        assert_eq!(urls(store, "t").await, ["c", "b"]);
        assert_eq!(find(store, "ada", "t").await.unwrap().context.push.len(), 2);
        assert!(store.configure(&key, delete("t", "1")).await.unwrap());
        assert!(!store.configure(&key, delete("t", "1")).await.unwrap());
        assert!(!store.configure(&key, delete("other", "2")).await.unwrap());
        assert_eq!(urls(store, "t").await, ["b"]);
        store.erase(&key).await.unwrap();
        assert!(!store.configure(&key, set("1", "a")).await.unwrap());
    }

    async fn configurations_of_a_task_are_bounded(store) {
        let key = key("ada", "c");
        converse(store, &key, bind("t", "c"), State::Completed, 1).await;
        for id in 0..16 {
            assert!(store.configure(&key, PushChange::Set(config("t", &id.to_string(), "u"))).await.unwrap());
        }
        assert!(!store.configure(&key, PushChange::Set(config("t", "16", "u"))).await.unwrap());
        assert!(store.configure(&key, PushChange::Set(config("t", "3", "v"))).await.unwrap());
        assert!(store.configure(&key, PushChange::Set(config("other", "1", "u"))).await.unwrap());
        assert_eq!(urls(store, "t").await.len(), 16);
    }

    async fn notes_are_kept_for_their_time(store) {
        assert_eq!(store.noted("a", 1).await.unwrap(), None);
        store.note("a", Some(vec![1]), 10).await.unwrap();
        store.note("b", Some(vec![2]), 10).await.unwrap();
        assert_eq!(store.noted("a", 9).await.unwrap(), Some(vec![1]));
        assert_eq!(store.noted("a", 10).await.unwrap(), None);
        store.note("a", Some(vec![3]), 20).await.unwrap();
        assert_eq!(store.noted("a", 19).await.unwrap(), Some(vec![3]));
        store.note("a", None, 0).await.unwrap();
        assert_eq!(store.noted("a", 1).await.unwrap(), None);
        assert_eq!(store.noted("b", 1).await.unwrap(), Some(vec![2]));
    }
}
