//! A cluster of three.

use redis::Client;

use super::*;
use crate::a2a::State;

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
