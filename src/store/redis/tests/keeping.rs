//! What is kept, for how long, and for whom.

use super::*;
use crate::a2a::State;

/// A user that may do what the README says, and nothing else.
#[tokio::test]
async fn a_user_with_few_rights_is_enough_and_another_is_refused() {
    let user = "--user a2a on >secret ~a2a:* resetchannels -@all +@connection +@read +@write +@scripting";
    let user: Vec<_> = user.split(' ').collect();
    let server = Server::start("redis-server", server::free_port(), &user);
    let at = |who: &str| format!("redis://{who}@127.0.0.1:{}", server.port);
    let store = connect(&at("a2a:secret"), Settings::default()).await.unwrap();
    converse(&store, &key("ada", "c"), bind("u1", "c"), State::Completed, 1).await;
    assert!(find(&store, "ada", "u1").await.is_some());
    store.outbox_len().await.unwrap();
    let refused = connect(&at("a2a:wrong"), Settings::default()).await.err().unwrap().to_string();
    assert!(refused.starts_with("Redis cannot be used: ") && !refused.contains("wrong"), "{refused}");
    let settings = Settings { prefix: "others:".to_owned(), ..Settings::default() };
    let refused = connect(&at("a2a:secret"), settings).await.err().unwrap().to_string();
    assert!(refused.contains("NoPerm"), "{refused}");
}

#[tokio::test]
async fn an_address_that_is_none_and_another_form_of_records_are_refused() {
    for url in ["redis://", "http://127.0.0.1", "redis+cluster://", "redis://127.0.0.1:6379/x"] {
        assert!(matches!(connect(url, Settings::default()).await, Err(ConnectError::Address(_))), "{url}");
    }
    let server = Server::on_socket("redis-server");
    let store = connect(&server.socket_url(), Settings::default()).await.unwrap();
    let again = connect(&server.socket_url(), Settings::default()).await.unwrap();
    assert_eq!(store.secret(), again.secret(), "the store's own, for all that share it");
    let form = redis::cmd("HSET").arg(store.names.common()).arg("schema").arg("2").take();
    store.link.call::<()>(&form, link::Repeat::Harmless).await.unwrap();
    let refused = connect(&server.socket_url(), Settings::default()).await;
    assert!(matches!(refused, Err(ConnectError::Schema { found }) if found == "2"));
}

/// As after a failover to a replica that lags behind, or a crash between two syncs: the newest writes are gone, the counter's too.
#[tokio::test]
async fn a_server_that_lost_its_newest_writes_takes_no_lease_from_before_for_a_new_one() {
    let mut server = Server::start("redis-server", server::free_port(), &["--save", "", "--appendonly", "no"]);
    let store = connect(&server.url(), Settings::default()).await.unwrap();
    let key = key("ada", "c");
    converse(&store, &key, bind("u1", "c"), State::Completed, 1).await;
    store.link.call::<()>(&redis::cmd("SAVE"), link::Repeat::Harmless).await.unwrap();
    let (lost, context, _) = begin(&store, ask(&key, 2)).await;
    let (lost, bound) = store.bind(&lost, bind("u2", "c")).await.unwrap();
    server.kill();
    server.restart();
    let other = connect(&server.url(), Settings::default()).await.unwrap();
    let (lease, ..) = begin(&other, ask(&key, 3)).await;
    assert_eq!(lease.token >> 20, lost.token >> 20, "the same number was counted again");
    let settled = store.settle(&lost, settlement(&context, &bound, State::Completed, 4)).await;
    assert_eq!(settled, Err(StoreError::LeaseLost));
    other.renew(&lease, 9 * LEASE).await.unwrap();
    assert_eq!(other.context(&key).await.unwrap().unwrap().context.turns.len(), 1);
}

/// Redis forgets by itself what nobody uses, and entries of what is forgotten mean nothing.
#[tokio::test]
async fn what_nobody_uses_goes_by_itself_and_its_ids_are_free() {
    let server = Server::on_socket("redis-server");
    let settings = Settings { ttl: Duration::from_millis(300), ..Settings::default() };
    let store = connect(&server.socket_url(), settings).await.unwrap();
    let kept = key("ada", "c");
    converse(&store, &kept, bind("u1", "c"), State::Completed, 1).await;
    assert!(store.context(&kept).await.unwrap().is_some());
    let mut backoff = Backoff(Duration::from_millis(20), Duration::from_millis(50));
    while store.context(&kept).await.unwrap().is_some() {
        backoff.pause().await;
    }
    assert!(find(&store, "ada", "u1").await.is_none());
    assert_eq!(listed(&store, all("ada")).await, (vec![], 0));
    let bound = converse(&store, &key("bob", "d"), bind("u1", "d"), State::Completed, 2).await;
    assert_eq!(bound.task_id, "u1", "the agent's id is free again");
    // With a turn in flight it stays for as long as that may take.
    let (lease, ..) = begin(&store, ask(&kept, 3)).await;
    let left: u64 = store
        .link
        .call(redis::cmd("PTTL").arg(store.names.head(&names::Tag::of(&kept))), link::Repeat::Harmless)
        .await
        .unwrap();
    assert!(left > MAX_TURN - 60_000, "{left}");
    store.release(&lease).await.unwrap();
}

/// Of a context with many turns a settlement writes the one that is new, and a proxy that knows the others reads no more.
#[tokio::test]
async fn a_settlement_writes_its_own_turn_alone_and_a_reader_reads_what_is_new() {
    let server = Server::on_socket("redis-server");
    let connected = async || connect(&server.socket_url(), Settings::default()).await.unwrap();
    let (one, other) = (connected().await, connected().await);
    let bytes = async |field: &str| -> u64 {
        let info: String = one.link.call(redis::cmd("INFO").arg("stats"), link::Repeat::Harmless).await.unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.trim().parse().unwrap()
    };
    let long = "x".repeat(10_000);
    let turn = async |store: &Redis, number: u64| {
        let (lease, context, _) = begin(store, ask(&key("ada", "c"), number)).await;
        let (lease, bound) = store.bind(&lease, bind(&format!("u{number}"), "c")).await.unwrap();
        let mut settlement = settlement(&context, &bound, State::Completed, number);
        Arc::make_mut(settlement.turn.as_mut().unwrap()).user = said(&long);
        assert_eq!(store.settle(&lease, settlement).await.unwrap().turns.len() as u64, number);
    };
    for number in 1..=50 {
        turn(&one, number).await;
    }
    turn(&other, 51).await;
    turn(&one, 52).await;
    let before = (bytes("total_net_input_bytes").await, bytes("total_net_output_bytes").await);
    turn(&other, 53).await;
    let after = (bytes("total_net_input_bytes").await, bytes("total_net_output_bytes").await);
    assert!((10_000..30_000).contains(&(after.0 - before.0)), "told {} bytes", after.0 - before.0);
    assert!((10_000..30_000).contains(&(after.1 - before.1)), "read {} bytes", after.1 - before.1);
}
