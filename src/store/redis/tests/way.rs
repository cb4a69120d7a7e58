//! The way to the server: how often it is gone, and what comes of it when it is slow or silent.

use super::relay::{Relay, Way};
use super::*;
use crate::a2a::State;

/// How often an answer is waited for, told by how long it takes on a slow way.
async fn waits<T>(verb: impl Future<Output = T>) -> (T, u128) {
    let begun = std::time::Instant::now();
    let done = verb.await;
    (done, begun.elapsed().as_millis() / ROUND_TRIP.as_millis())
}

const ROUND_TRIP: Duration = Duration::from_millis(200);

/// The README states these.
#[tokio::test(flavor = "multi_thread")]
async fn every_verb_waits_for_the_server_as_often_as_is_said() {
    let server = Server::start("redis-server", server::free_port(), &["--save", ""]);
    let relay = Relay::to(server.port).await;
    let settings = Settings { patience: Duration::from_secs(20), ..Settings::default() };
    let store = connect(&format!("redis://127.0.0.1:{}", relay.port), settings).await.unwrap();
    // The scripts are on the server from here on.
    converse(&store, &key("ada", "warm"), bind("u0", "warm"), State::InputRequired, 1).await;
    store.by_task(&RouteId::default(), &"ada".into(), "u0").await.unwrap();
    let (lease, ..) = begin(&store, provisional(&key("ada", "p0"), 1)).await;
    store.release(&lease).await.unwrap();
    store.erase(&key("ada", "warm")).await.unwrap();
    relay.set(Way::Open(ROUND_TRIP / 2));

    let mut told = Vec::new();
    let mut tell = |verb: &'static str, waits| told.push((verb, waits));
    let ((lease, context, _), begun) = waits(begin(&store, ask(&key("ada", "c"), 2))).await;
    tell("begin", begun);
    tell("observe", waits(store.observe(&lease, pending(None, 1, 2))).await.1);
    let (bound, tied) = waits(store.bind(&lease, bind("u1", "c"))).await;
    tell("bind", tied);
    tell("renew", waits(store.renew(&lease, 3 * LEASE)).await.1);
    tell("settle", waits(store.settle(&lease, settlement(&context, &bound.unwrap().1, State::Completed, 3))).await.1);
    tell("context", waits(store.context(&lease.key)).await.1);
    tell("by_task", waits(find(&store, "ada", "u1")).await.1);
    tell("list", waits(store.list(all("ada"))).await.1);
    let (lease, ..) = begin(&store, provisional(&key("ada", "p"), 4)).await;
    let (bound, tied) = waits(store.bind(&lease, bind("u2", "agents"))).await;
    tell("bind that moves", tied);
    tell("release", waits(store.release(&bound.unwrap().0)).await.1);
    tell("erase", waits(store.erase(&key("ada", "c"))).await.1);
    let expected = [
        ("begin", 2),
        ("observe", 1),
        ("bind", 2),
        ("renew", 1),
        ("settle", 1),
        ("context", 1),
        ("by_task", 2),
        ("list", 3),
        ("bind that moves", 3),
        ("release", 2),
        ("erase", 5),
    ];
    assert_eq!(told, expected);
}

/// A proxy far away, and one beside the server.
async fn far_and_near(patience: Duration) -> (Server, Relay, Redis, Redis) {
    let server = Server::start("redis-server", server::free_port(), &["--save", ""]);
    let relay = Relay::to(server.port).await;
    let settings = Settings { patience, ..Settings::default() };
    let far = connect(&format!("redis://127.0.0.1:{}", relay.port), settings).await.unwrap();
    let near = connect(&server.url(), Settings::default()).await.unwrap();
    (server, relay, far, near)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_late_holder_said_while_the_way_was_silent_comes_to_nothing() {
    let (_server, relay, far, near) = far_and_near(Duration::from_millis(300)).await;
    let key = key("ada", "c");
    let (late, context, _) = begin(&far, ask(&key, 1)).await;
    let (late, bound) = far.bind(&late, bind("u1", "c")).await.unwrap();
    relay.set(Way::Silent);
    let settled = far.settle(&late, settlement(&context, &bound, State::Completed, 2)).await;
    assert!(matches!(settled, Err(StoreError::Unavailable(_))), "{settled:?}");
    let take = Begin { take: Some(late.token), ..ask(&key, 1 + LEASE) };
    let (lease, context, _) = begin(&near, take).await;
    let (lease, bound) = near.bind(&lease, bind("u2", "c")).await.unwrap();
    near.settle(&lease, settlement(&context, &bound, State::Completed, 3)).await.unwrap();
    relay.set(Way::Open(Duration::ZERO));
    // On the same connection: what was said before has been heard before.
    let found = far.context(&key).await.unwrap().unwrap();
    assert_eq!(found.context.turns.len(), 1);
    assert!(found.context.task("u1").is_none() && found.context.task("u2").is_some());
    assert_eq!(far.renew(&late, 9 * LEASE).await, Err(StoreError::LeaseLost));
}

/// Of two that settle the same turn one does, wherever on the way the other is.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_late_holder_and_its_heir_one_settles() {
    let (_server, relay, far, near) = far_and_near(Duration::from_secs(10)).await;
    relay.set(Way::Open(Duration::from_millis(10)));
    let mut late_ones = 0;
    for round in 0..25_u64 {
        let key = key("ada", &format!("c{round}"));
        let (late, context, _) = begin(&far, ask(&key, 1)).await;
        let (late, bound) = far.bind(&late, bind(&format!("u{round}"), "c")).await.unwrap();
        let settles = far.settle(&late, settlement(&context, &bound, State::Completed, 2));
        let inherits = async {
            tokio::time::sleep(Duration::from_millis(round)).await;
            let take = Begin { take: Some(late.token), ..ask(&key, 1 + LEASE) };
            let Begun::Granted { lease, context, previous } = near.begin(take).await.unwrap() else { panic!("busy") };
            let bound = previous?.pending.map_or_else(|| bound.clone(), |pending| pending.bound.unwrap());
            near.settle(&lease, settlement(&context, &bound, State::Completed, 3)).await.ok()
        };
        let (settled, inherited) = tokio::join!(settles, inherits);
        assert!(settled.is_ok() != inherited.is_some(), "round {round}: {settled:?} {inherited:?}");
        late_ones += u32::from(settled.is_err());
        assert_eq!(near.context(&key).await.unwrap().unwrap().context.turns.len(), 1);
    }
    assert!((1..25).contains(&late_ones), "both happened: {late_ones}");
}
