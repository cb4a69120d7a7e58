//! The store that a configuration names, opened.

use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::SetupError;
use crate::config::{Config, OnStoreError, StoreUrl};
use crate::store::{Limits, Memory, Passthrough, Store};

/// A store, and where it is, in words for the operator.
pub struct Kept {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Where it is.
    pub place: String,
}

/// Opens the store.
///
/// # Errors
/// Where it cannot be used, with what to do about it.
pub async fn open(config: &Config) -> Result<Kept, SetupError> {
    let url = config.store.url.clone().or_else(StoreUrl::default_of_process).ok_or(SetupError::NoStateFolder)?;
    let kept = match &url {
        StoreUrl::Memory => {
            let store = Arc::new(Memory::new(limits(config), secret()));
            Kept { store, place: format!("memory; conversations end with this process; {}", bounds(config)) }
        }
        StoreUrl::Disk(folder) => disk(config, folder)?,
        StoreUrl::Redis(at) => redis(config, at, &url).await?,
    };
    Ok(match config.store.on_error {
        OnStoreError::Refuse => kept,
        OnStoreError::Passthrough => {
            let store: Arc<dyn Store> = Arc::new(Passthrough::new(kept.store, limits(config)));
            Kept { store, place: format!("{}; while it fails, sends are answered without memory", kept.place) }
        }
    })
}

#[cfg(feature = "disk")]
fn disk(config: &Config, folder: &Path) -> Result<Kept, SetupError> {
    use crate::config::Durability;
    use crate::store::{Disk, DiskSettings};

    let (durability, promise) = match config.store.durability {
        Durability::Acknowledged => {
            (crate::store::Durability::Acknowledged, "before a client is told of them".to_owned())
        }
        Durability::Batched => {
            let window = config.store.batch;
            (crate::store::Durability::Batched(window), format!("within {}", humantime::format_duration(window)))
        }
    };
    let (limits, cache_bytes) = (limits(config), config.store.cache_bytes);
    let settings = DiskSettings { limits, durability, cache_bytes, ..DiskSettings::default() };
    let store = Disk::open(folder, &settings, secret()).map_err(SetupError::Disk)?;
    let place = format!("disk, {}; turns are on disk {promise}; {}", folder.display(), bounds(config));
    Ok(Kept { store: Arc::new(store), place })
}

#[cfg(not(feature = "disk"))]
fn disk(_: &Config, folder: &Path) -> Result<Kept, SetupError> {
    Err(SetupError::NoSuchStore(format!("disk:{}", folder.display())))
}

#[cfg(feature = "redis")]
async fn redis(config: &Config, at: &str, url: &StoreUrl) -> Result<Kept, SetupError> {
    use crate::store::redis::{Settings, connect};

    let Config { store, .. } = config;
    let settings = Settings { ttl: store.ttl, context_bytes: store.context_bytes, ..Settings::default() };
    let store = Arc::new(connect(at, settings).await?);
    Ok(Kept { store, place: format!("{url}; shared with whoever uses it too") })
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &Config, _: &str, url: &StoreUrl) -> Result<Kept, SetupError> {
    Err(SetupError::NoSuchStore(url.to_string()))
}

fn bounds(config: &Config) -> String {
    format!("at most {} contexts and {} MiB", config.store.contexts, config.store.bytes >> 20)
}

/// How much is kept.
fn limits(config: &Config) -> Limits {
    let store = &config.store;
    let own = config.routes.iter().filter_map(|route| Some((route.id.clone(), route.ttl?)));
    Limits {
        contexts: store.contexts,
        bytes: store.bytes,
        context_bytes: store.context_bytes,
        ttl: store.ttl,
        route_ttl: own.collect(),
    }
}

/// What credentials are hashed with in a new store: random.
pub fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    secret[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    secret[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    secret
}
