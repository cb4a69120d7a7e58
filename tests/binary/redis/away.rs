//! Redis out of reach.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::relay::{Relay, Way};
use super::server::{Server, free_port};
use super::*;
use crate::binary::wire::{Request, soon};

#[tokio::test]
async fn while_redis_is_away_sends_are_refused_in_time_and_recover_by_themselves() {
    let server = Server::start("redis-server", free_port(), &["--save", ""]);
    let (relay, agent) = (Relay::to(server.port).await, Agent::saying(clerk));
    let [proxy] = proxies::<1>(&format!("redis://127.0.0.1:{}", relay.port), &agent).await;
    assert_eq!(state(&proxy.call("/", &send("c", None, "Hello")).await).0, "COMPLETED");
    for (turns, way) in [(1, Way::Cut), (2, Way::Silent), (3, Way::Open(Duration::from_secs(5)))] {
        relay.set(way);
        let (begun, proxy) = (Instant::now(), &proxy);
        let sends = (0..30).map(|at| async move {
            let answer = proxy.call("/", &send(&format!("other-{at}"), None, "Hello?")).await;
            (answer, begun.elapsed())
        });
        for (answer, took) in soon("the refusals", join_all(sends)).await {
            assert_eq!(reason(&answer), "STORE_UNAVAILABLE", "{way:?}: {answer}");
            assert!(took < Duration::from_millis(2500), "{way:?}: {took:?}");
        }
        assert_eq!(agent.seen().len(), turns, "{way:?}: the agent was called without a record");
        // What needs no store goes on.
        let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await;
        assert_eq!(card.status(), 200);
        relay.set(Way::Open(Duration::ZERO));
        let begun = Instant::now();
        loop {
            let answer = proxy.call("/", &send("c", None, "I am back")).await;
            if state(&answer).0 == "COMPLETED" {
                break;
            }
            // A begin whose answer was lost on the way keeps the context for as long as its lease.
            let refused = reason(&answer) == "STORE_UNAVAILABLE" || state(&answer).0 == "FAILED";
            assert!(refused, "{way:?}: {answer}");
            assert!(begun.elapsed() < Duration::from_secs(10), "{way:?}: it did not come back");
        }
        let shown = said(&agent.last().json());
        assert_eq!(shown.matches("\"I am back\"").count(), turns - 1, "{shown}");
    }
}

/// The README says how often: told by how long a turn takes on a slow way.
#[tokio::test]
async fn a_turn_waits_for_redis_as_often_as_is_said() {
    let round_trip = Duration::from_millis(100);
    let server = Server::start("redis-server", free_port(), &["--save", ""]);
    let (relay, agent) = (Relay::to(server.port).await, Agent::saying(clerk));
    let [proxy] = proxies::<1>(&format!("redis://127.0.0.1:{}", relay.port), &agent).await;
    proxy.call("/", &send("c", None, "Hello")).await;
    relay.set(Way::Open(round_trip / 2));
    let mut quickest = u128::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(state(&proxy.call("/", &send("c", None, "Hello")).await).0, "COMPLETED");
        quickest = quickest.min(begun.elapsed().as_millis() / round_trip.as_millis());
    }
    assert_eq!(quickest, 7);
}
