//! The suite over a folder, and what a folder alone promises: what was told is there after it was closed, however that came.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::a2a::State as TaskState;
use crate::store::suite::*;

mod beside;
mod folder;
mod restart;

const NO_LIMITS: Limits = Limits {
    contexts: usize::MAX,
    bytes: usize::MAX,
    context_bytes: usize::MAX,
    ttl: Duration::MAX,
    route_ttl: Vec::new(),
};

fn settings() -> Settings {
    Settings { limits: NO_LIMITS, ..Settings::default() }
}

/// A store in a folder of its own, which goes with it.
fn any_store(settings: &Settings) -> Arc<dyn Store> {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Disk::open(folder.path(), settings, [7; 32]).unwrap();
    store.folder = Some(folder);
    Arc::new(store)
}

/// So little is held in memory that every context is read from the disk, again and again.
fn forgetful() -> Settings {
    Settings { cache_bytes: 0, ..settings() }
}

fn hasty() -> Settings {
    Settings { durability: Durability::Batched(Duration::from_millis(2)), ..forgetful() }
}

#[tokio::test]
async fn behaves_as_a_store() {
    for settings in [settings(), forgetful(), hasty()] {
        table(|| any_store(&settings)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_keep_the_order() {
    for settings in [settings(), forgetful()] {
        concurrency(|| any_store(&settings)).await;
    }
}

#[test]
fn agrees_with_the_model() {
    against_the_model(|| any_store(&hasty()), 32);
}

#[test]
#[ignore = "the long run of agrees_with_the_model"]
fn agrees_with_the_model_for_long() {
    against_the_model(|| any_store(&hasty()), 2_000);
}
