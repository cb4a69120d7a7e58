//! What a conversation costs in memory, as the operating system counts it.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::a2a::Part;
use crate::conversation::reply::fingerprint;
use crate::conversation::transcript::{Artifact, Reply, Source};

const TURNS: usize = 20;
/// Of each side of a turn.
const TEXT: usize = 500;

/// Resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

fn text() -> String {
    let mut text = String::with_capacity(TEXT + 36);
    while text.len() < TEXT {
        text.push_str(&Uuid::new_v4().to_string());
    }
    text.truncate(TEXT);
    text
}

/// A conversation as SDKs hold it: ids are UUIDs, the reply is an artifact, every turn is a task of its own.
async fn conversation(store: &Memory, now: u64) {
    let mut key = key("ada", &Uuid::new_v4().to_string());
    for turn in 0..TURNS {
        let first = if turn == 0 { provisional(&key, now) } else { ask(&key, now) };
        let (lease, context, _) = begin(store, first).await;
        store.observe(&lease, pending(None, 1, now)).await.unwrap();
        let how = bind(&Uuid::new_v4().to_string(), &Uuid::new_v4().to_string());
        let (lease, bound) = store.bind(&lease, how).await.unwrap();
        let mut settlement = settlement(&context, &bound, TaskState::Completed, now);
        let mut turn = settlement.turn.take().map(Arc::unwrap_or_clone).unwrap();
        turn.user.id = Uuid::new_v4().to_string();
        turn.user.parts = vec![Part::Text(text())];
        let parts = vec![Part::Text(text())];
        let (size, sha256) = fingerprint(&parts);
        let id = Uuid::new_v4().to_string();
        turn.artifacts = vec![Artifact { id, upstream_id: None, name: Some("response".into()), parts, size, sha256 }];
        turn.reply =
            Reply { source: Source::Artifacts, from: vec![0], id: String::new(), parts: vec![], question: None };
        settlement.turn = Some(Arc::new(turn));
        store.settle(&lease, settlement).await.unwrap();
        key = lease.key;
    }
}

/// Conversations go on side by side, so that a turn's memory lies between those of others.
async fn fill(store: &Memory, contexts: usize, now: u64) {
    for _ in 0..contexts {
        conversation(store, now).await;
    }
}

/// The tests share no process with this one under nextest; under `cargo test` the others take little beside it.
async fn measure(contexts: usize) {
    let texts = contexts * TURNS * 2 * TEXT;
    let store = memory(MemoryLimits { contexts, ..NO_LIMITS });
    let before = resident();
    fill(&store, contexts, 1).await;
    let once = resident() - before;
    assert_eq!(store.contexts.len(), contexts);
    fill(&store, contexts, 2).await;
    let twice = resident() - before;
    assert_eq!(store.contexts.len(), contexts);
    let ratio = |bytes: usize| bytes as f64 / texts as f64;
    eprintln!(
        "{contexts} contexts, {} MB of text: {:.3} times that, {:.3} after as many again",
        texts >> 20,
        ratio(once),
        ratio(twice)
    );
    assert!(once <= texts * 3 / 2 + (64 << 20), "{once} bytes for {texts} bytes of text");
    assert!(twice <= once + once / 20 + (4 << 20), "{twice} bytes where {once} were enough");
}

#[tokio::test]
async fn a_thousand_conversations_fit() {
    measure(1_000).await;
}

#[tokio::test]
#[ignore = "the long run of a_thousand_conversations_fit; in a process of its own"]
async fn ten_thousand_conversations_fit() {
    measure(10_000).await;
}
