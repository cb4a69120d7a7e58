//! The connection: made again by itself, and never waited for longer than a verb may take.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, RedisError, ServerErrorKind, Value,
};

use super::Backoff;
use super::names::Names;
use crate::store::StoreError;

/// How records are kept; another number is another way.
const SCHEMA: &str = "1";

/// How often a command is said, at most, on a way that was lost before.
const TRIES: u32 = 2;

/// Why there is no store at an address. Never names the password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be read.
    #[error("this is no address of Redis or Valkey: {0}")]
    Address(String),
    /// The server cannot be reached, or refuses.
    #[error("Redis cannot be used: {0}")]
    Unreachable(String),
    /// The server holds the records of another version.
    #[error("Redis holds conversations in form {found}, and this version reads and writes form {SCHEMA}")]
    Schema {
        /// The form that was found.
        found: String,
    },
}

impl From<RedisError> for ConnectError {
    fn from(error: RedisError) -> Self {
        if error.kind() == ErrorKind::InvalidClientConfig {
            return Self::Address(error.to_string());
        }
        Self::Unreachable(error.to_string())
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

#[derive(Clone)]
enum Way {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// Whether a command may be said twice, where it is not known whether it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Harmless,
    Never,
}

/// A connection to one server, or to a cluster's.
pub(super) struct Link {
    way: Way,
    /// Whether the last command was answered. While it was not, nobody waits for a second try.
    healthy: AtomicBool,
}

impl Link {
    pub(super) async fn to(url: &str, patience: Duration) -> Result<Self, ConnectError> {
        let way = match cluster_nodes(url) {
            Some(nodes) => Way::Cluster(cluster(nodes, patience).await?),
            None => Way::One(one(url, patience).await?),
        };
        Ok(Self { way, healthy: AtomicBool::new(true) })
    }

    /// Says a command and reads what comes of it.
    pub(super) async fn call<T: FromRedisValue>(&self, command: &Cmd, repeat: Repeat) -> Result<T, StoreError> {
        self.tell(command, repeat).await.and_then(read).map_err(unavailable)
    }

    async fn tell(&self, command: &Cmd, repeat: Repeat) -> Result<Value, RedisError> {
        let mut backoff = Backoff(Duration::from_millis(10), Duration::from_millis(100));
        let mut tries = TRIES;
        loop {
            let result = self.once(command).await;
            let lost = result.as_ref().is_err_and(is_passing);
            let was_healthy = self.healthy.swap(!lost, Ordering::Relaxed);
            // The first try on a way that was lost is told so; it is with the second that the way is new.
            tries = if was_healthy { TRIES } else { tries - 1 };
            if !lost || repeat == Repeat::Never || tries == 0 {
                return result;
            }
            backoff.pause().await;
        }
    }

    async fn once(&self, command: &Cmd) -> Result<Value, RedisError> {
        let value = match &self.way {
            Way::One(connection) => connection.clone().req_packed_command(command).await,
            Way::Cluster(connection) => connection.clone().req_packed_command(command).await,
        };
        // What the server refuses comes as an answer.
        value.and_then(Value::extract_error)
    }

    /// Runs a script that stands on the server, or brings it there.
    pub(super) async fn run(
        &self,
        invocation: &super::script::Invocation<'_>,
        repeat: Repeat,
    ) -> Result<Value, StoreError> {
        let result = match self.tell(&invocation.by_hash(), repeat).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.tell(&invocation.by_text(), repeat).await
            }
            result => result,
        };
        result.map_err(unavailable)
    }
}

/// Whether the fault is the connection's, or a state of the server that passes.
fn is_passing(error: &RedisError) -> bool {
    let ErrorKind::Server(server) = error.kind() else {
        return error.is_io_error() || error.is_connection_dropped() || error.is_cluster_error();
    };
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly, TryAgain};
    matches!(server, BusyLoading | ClusterDown | MasterDown | ReadOnly | TryAgain)
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, RedisError> {
    Ok(T::from_redis_value(value)?)
}

/// The nodes, each with its own address, where the URL is a cluster's.
fn cluster_nodes(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.strip_suffix("+cluster")?;
    let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { String::new() } else { format!("{user}@") };
    let hosts = hosts.trim_end_matches('/').split(',');
    Some(hosts.map(|host| format!("{scheme}://{at}{host}")).collect())
}

/// A connection whose other end says nothing is given up, rather than kept for as long as TCP would.
fn tcp(patience: Duration) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(patience);
    settings
}

async fn one(url: &str, patience: Duration) -> Result<ConnectionManager, ConnectError> {
    let info: ConnectionInfo = url.into_connection_info()?;
    let client = Client::open(info.set_tcp_settings(tcp(patience)))?;
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    Ok(ConnectionManager::new_with_config(client, config).await?)
}

async fn cluster(nodes: Vec<String>, patience: Duration) -> Result<ClusterConnection, ConnectError> {
    let client = ClusterClient::builder(nodes)
        .tcp_settings(tcp(patience))
        .connection_timeout(patience)
        .response_timeout(patience)
        .overall_response_timeout(Some(patience))
        .build()?;
    Ok(client.get_async_connection().await?)
}

/// What all that share a store have in common: the form of its records, and the secret. Whoever comes first makes it.
pub(super) async fn common(link: &Link, names: &Names) -> Result<[u8; 32], ConnectError> {
    let key = names.common();
    let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(uuid::Uuid::into_bytes).concat();
    for (field, value) in [("schema", SCHEMA.as_bytes()), ("secret", &random)] {
        link.call::<()>(redis::cmd("HSETNX").arg(&key).arg(field).arg(value), Repeat::Harmless).await?;
    }
    let both = redis::cmd("HMGET").arg(&key).arg(&["schema", "secret"]).take();
    let (schema, secret): (String, Vec<u8>) = link.call(&both, Repeat::Harmless).await?;
    if schema != SCHEMA {
        return Err(ConnectError::Schema { found: schema });
    }
    secret.try_into().map_err(|_| ConnectError::Unreachable("its secret is damaged".to_owned()))
}
