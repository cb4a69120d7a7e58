//! The suite, over a server of each kind; and what is Redis's own.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Client;
use tokio::runtime::Runtime;

use super::*;
use crate::a2a::State;
use crate::store::suite::*;

#[path = "../../../tests/redis/server.rs"]
#[allow(dead_code)]
mod server;

#[path = "../../../tests/redis/relay.rs"]
#[allow(dead_code)]
mod relay;

use self::relay::{Relay, Way};
use self::server::Server;

/// Where the connections live: a suite makes stores where there is no runtime, and runtimes that end before their stores.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Waits, wherever it is, for what is done there.
fn wait_for<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(future)).join().unwrap())
}

/// A store of its own on the server.
fn a_store(url: &str) -> Redis {
    static STORES: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("test{}:", STORES.fetch_add(1, Ordering::Relaxed));
    // Two cores and many tests: what is tested here is not how fast it is.
    let settings = Settings { prefix, patience: Duration::from_secs(10), ..Settings::default() };
    wait_for(connect(url, settings)).unwrap()
}

fn any_store(server: &Server) -> Arc<dyn Store> {
    Arc::new(a_store(&server.socket_url()))
}

macro_rules! over_both {
    ($($name:ident($server:ident) $body:block)*) => {
        $(mod $name {
            use super::*;

            fn over($server: &Server) $body

            #[test]
            fn redis() {
                over(&Server::on_socket("redis-server"));
            }

            #[test]
            fn valkey() {
                over(&Server::on_socket("valkey-server"));
            }
        })*
    };
}

over_both! {
    behaves_as_a_store(server) {
        Runtime::new().unwrap().block_on(table(|| any_store(server)));
    }

    many_at_once_keep_the_order(server) {
        Runtime::new().unwrap().block_on(concurrency(|| any_store(server)));
    }

    agrees_with_the_model(server) {
        against_the_model(|| any_store(server), 48);
    }
}

#[test]
#[ignore = "the long run of agrees_with_the_model"]
fn agrees_with_the_model_for_long() {
    let server = Server::on_socket("valkey-server");
    against_the_model(|| any_store(&server), 3000);
}

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
    assert!(refused.contains("NOPERM"), "{refused}");
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

/// A cluster of three, with all slots in its hands.
async fn cluster() -> ([Server; 3], String) {
    let nodes = [(); 3].map(|()| {
        Server::start("redis-server", server::free_port_of_a_node(), &["--save", "", "--cluster-enabled", "yes"])
    });
    let ports = nodes.each_ref().map(|node| node.port);
    for (at, node) in nodes.iter().enumerate() {
        let mut own = Client::open(node.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let (first, last) = ([0, 5461, 10923][at], [5460, 10922, 16383][at]);
        let slots = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last).take();
        slots.query_async::<()>(&mut own).await.unwrap();
        for port in ports {
            let meet = redis::cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(port).take();
            meet.query_async::<()>(&mut own).await.unwrap();
        }
    }
    for node in &nodes {
        let mut own = Client::open(node.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let mut backoff = Backoff(Duration::from_millis(20), Duration::from_millis(200));
        loop {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut own).await.unwrap();
            if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                break;
            }
            backoff.pause().await;
        }
    }
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    (nodes, format!("redis+cluster://{hosts}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn behaves_as_a_store_over_a_cluster() {
    let (_nodes, url) = cluster().await;
    table(|| Arc::new(a_store(&url))).await;
    let store = a_store(&url);
    for at in 0..30 {
        let (context, task) = (format!("c{at}"), format!("u{at}"));
        converse(&store, &key("ada", &context), bind(&task, &context), State::Completed, at).await;
    }
    assert_eq!(listed(&store, all("ada")).await.1, 30);
}
