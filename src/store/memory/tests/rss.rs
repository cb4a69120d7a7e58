//! What a conversation costs in memory, as the operating system counts it.

use std::process::Command;

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::a2a::Part;
use crate::conversation::reply::fingerprint;
use crate::conversation::transcript::{Artifact, Reply, Source};

const TURNS: usize = 20;
const SIDE_BY_SIDE: usize = 100;
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

/// One more turn of a conversation as SDKs hold it: ids are UUIDs, the reply is an artifact, every turn is a task of its own.
async fn go_on(store: &Memory, key: &mut Option<ContextKey>, now: u64) {
    let first = super::key("ada", &Uuid::new_v4().to_string());
    let ask = key.as_ref().map_or_else(|| provisional(&first, now), |key| ask(key, now));
    let (lease, context, _) = begin(store, ask).await;
    store.observe(&lease, pending(None, 1, now)).await.unwrap();
    let how = bind(&Uuid::new_v4().to_string(), &Uuid::new_v4().to_string());
    let (lease, bound) = store.bind(&lease, how).await.unwrap();
    let mut settlement = settlement(&context, &bound, TaskState::Completed, now);
    let turn = settlement.turn.as_mut().map(Arc::make_mut).unwrap();
    turn.user.id = Uuid::new_v4().to_string();
    turn.user.parts = vec![Part::Text(text())];
    let parts = vec![Part::Text(text())];
    let (size, sha256) = fingerprint(&parts);
    let (id, name) = (Uuid::new_v4().to_string(), Some("response".to_owned()));
    turn.artifacts = vec![Artifact { id, upstream_id: None, name, parts, size, sha256 }];
    turn.reply = Reply { source: Source::Artifacts, from: vec![0], id: String::new(), parts: vec![], question: None };
    store.settle(&lease, settlement).await.unwrap();
    *key = Some(lease.key);
}

/// Conversations go on side by side, so that a turn's memory lies between those of others.
async fn fill(store: &Memory, contexts: usize, now: u64) {
    for _ in 0..contexts / SIDE_BY_SIDE {
        let mut keys = vec![None; SIDE_BY_SIDE];
        for _ in 0..TURNS {
            for key in &mut keys {
                go_on(store, key, now).await;
            }
        }
    }
}

const CONTEXTS: &str = "MEASURED_CONTEXTS";

/// Runs [`measured`] in a process of its own: what other tests take and give back meanwhile would be counted too.
fn measure(contexts: usize) {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "--ignored", "--nocapture", "store::memory::tests::rss::measured"]);
    let output = alone.env(CONTEXTS, contexts.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("MB of text"), "{said}");
    eprintln!("{said}");
}

#[tokio::test]
#[ignore = "a part of the other tests here"]
async fn measured() {
    let Some(contexts) = std::env::var(CONTEXTS).ok().and_then(|contexts| contexts.parse().ok()) else { return };
    let texts = contexts * TURNS * 2 * TEXT;
    let store = memory(Limits { contexts, ..NO_LIMITS });
    let before = resident();
    fill(&store, contexts, 1).await;
    let once = resident() - before;
    assert_eq!(store.engine.shelf.contexts.len(), contexts);
    fill(&store, contexts, 2).await;
    let twice = resident() - before;
    assert_eq!(store.engine.shelf.contexts.len(), contexts);
    let ratio = |bytes: usize| bytes as f64 / texts as f64;
    let (first, second) = (ratio(once), ratio(twice));
    eprintln!(
        "{contexts} contexts, {} MB of text: {first:.3} times that, {second:.3} after as many again",
        texts >> 20
    );
    assert!(once <= texts * 3 / 2 + (64 << 20), "{once} bytes for {texts} bytes of text");
    // A few pages more or less count for much where the whole is small.
    assert!(twice <= once + once / 20 + (1 << 20), "{twice} bytes where {once} were enough");
}

#[test]
fn a_thousand_conversations_fit() {
    measure(1_000);
}

#[test]
#[ignore = "the long run of a_thousand_conversations_fit"]
fn ten_thousand_conversations_fit() {
    measure(10_000);
}
