//! The suite, over a server of each kind; and what is Redis's own.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;

use super::*;
use crate::store::suite::*;

#[path = "../../../tests/redis/server.rs"]
#[allow(dead_code)]
mod server;

#[path = "../../../tests/redis/relay.rs"]
#[allow(dead_code)]
mod relay;

mod cluster;
mod keeping;
mod way;

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
        Runtime::new().unwrap().block_on(concurrency_within_contexts(|| any_store(server)));
    }

    agrees_with_the_model(server) {
        against_the_model(|| any_store(server), 48);
    }
}

#[test]
#[ignore = "known to fail now and then: two contexts that bind one id of the agent's at once may both keep it"]
fn ids_are_kept_apart_for_long() {
    let server = Server::on_socket("redis-server");
    for _ in 0..5 {
        Runtime::new().unwrap().block_on(concurrency(|| any_store(&server)));
    }
}

#[test]
#[ignore = "the long run of agrees_with_the_model"]
fn agrees_with_the_model_for_long() {
    let server = Server::on_socket("valkey-server");
    against_the_model(|| any_store(&server), 1000);
}
