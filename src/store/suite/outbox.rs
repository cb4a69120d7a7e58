//! The outbox.

use super::*;
use crate::store::Delivery;

fn delivery(lane: &str, due: u64) -> Delivery {
    Delivery { id: 0, lane: lane.to_owned(), due, tries: 0, body: lane.as_bytes().to_vec() }
}

async fn take(store: &dyn Store, now: u64) -> Vec<u64> {
    store.outbox_take(now, now + 10, 9).await.unwrap().iter().map(|delivery| delivery.id).collect()
}

behaviours! {
    async fn a_lane_is_delivered_in_order(store) {
        let first = store.outbox_push(delivery("a", 5)).await.unwrap();
        let second = store.outbox_push(delivery("a", 1)).await.unwrap();
        let other = store.outbox_push(delivery("b", 1)).await.unwrap();
        assert!(first < second && second < other);
        assert_eq!(take(store, 2).await, [other], "the lane waits for its oldest");
        assert_eq!(take(store, 5).await, [first]);
        assert_eq!(take(store, 6).await, [0; 0], "taken is taken");
        store.outbox_done(first, None).await.unwrap();
        assert_eq!(take(store, 6).await, [second]);
        store.outbox_done(second, None).await.unwrap();
        store.outbox_done(second, None).await.unwrap();
        store.outbox_done(other, None).await.unwrap();
        assert_eq!(take(store, 1000).await, [0; 0]);
    }

    async fn what_was_taken_and_never_done_comes_again(store) {
        let id = store.outbox_push(delivery("a", 1)).await.unwrap();
        assert_eq!(take(store, 1).await, [id]);
        assert_eq!(take(store, 10).await, [0; 0]);
        assert_eq!(take(store, 11).await, [id]);
    }

    async fn what_is_put_off_is_due_later(store) {
        let id = store.outbox_push(delivery("a", 1)).await.unwrap();
        let next = store.outbox_push(delivery("a", 1)).await.unwrap();
        take(store, 1).await;
        store.outbox_done(id, Some(100)).await.unwrap();
        assert_eq!(take(store, 99).await, [0; 0], "nor does what is behind it overtake");
        let taken = store.outbox_take(100, 110, 9).await.unwrap();
        assert_eq!(taken, [Delivery { id, due: 100, tries: 1, ..delivery("a", 1) }]);
        store.outbox_done(id, None).await.unwrap();
        assert_eq!(take(store, 100).await, [next]);
    }

    async fn what_waits_is_counted(store) {
        assert_eq!(store.outbox_len().await.unwrap(), 0);
        let first = store.outbox_push(delivery("a", 1)).await.unwrap();
        store.outbox_push(delivery("a", 1)).await.unwrap();
        take(store, 1).await;
        store.outbox_done(first, Some(100)).await.unwrap();
        assert_eq!(store.outbox_len().await.unwrap(), 2, "what is taken or put off waits too");
        store.outbox_done(first, None).await.unwrap();
        assert_eq!(store.outbox_len().await.unwrap(), 1);
    }

    async fn no_more_are_taken_than_asked_for(store) {
        for lane in ["a", "b", "c"] {
            store.outbox_push(delivery(lane, 1)).await.unwrap();
        }
        assert_eq!(store.outbox_take(1, 9, 2).await.unwrap().len(), 2);
        assert_eq!(store.outbox_take(1, 9, 2).await.unwrap().len(), 1);
    }
}
