//! The folder: who may use it, what is in it, and what is said where it will not do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::restart::{left_by, open};
use super::*;

fn refused(folder: &Path) -> String {
    Disk::open(folder, &settings(), [7; 32]).map(drop).unwrap_err().to_string()
}

fn says(error: &str, all: &[&str]) {
    for words in all {
        assert!(error.contains(words), "{words:?} in {error:?}");
    }
}

#[tokio::test]
async fn one_process_at_a_time_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    says(&refused(folder.path()), &["held by another process", "--store disk:PATH"]);
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    drop(store);
    open(folder.path());
}

#[test]
fn one_that_cannot_be_written_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    says(&refused(&folder.path().join("file/store")), &["cannot be written", "--store memory"]);
    says(&refused(Path::new("/proc/store")), &["cannot be written", "--store memory"]);
}

#[test]
fn a_folder_with_something_else_in_it_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
    says(&refused(folder.path()), &["no store", "empty folder"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn another_schema_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    let set = |store: &Disk, schema: &[u8]| {
        store.records().keyspace.insert(key::meta("schema"), schema).unwrap();
    };
    for (schema, words) in [(&[0, 0, 0, 2][..], "schema is 2, this one's 1"), (b"?", "damaged")] {
        let left = left_by(folder.path());
        let store = open(left.path());
        set(&store, schema);
        drop(store);
        says(&refused(left.path()), &[words]);
        says(&refused(left.path()), &[words]);
    }
}

#[tokio::test]
async fn nobody_else_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("a/b");
    drop(open(&folder));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in files(&folder) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn hits(folder: &Path, text: &str) -> usize {
    let holds =
        |path: &std::path::PathBuf| memchr::memmem::find(&std::fs::read(path).unwrap(), text.as_bytes()).is_some();
    files(folder).iter().filter(|path| holds(path)).count()
}

#[tokio::test]
async fn erased_bytes_leave_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for (context, text) in [("a", "the-secret-of-ada"), ("b", "what-bob-said")] {
        let (lease, context, _) = begin(&store, ask(&key("ada", context), 1)).await;
        let (lease, bound) = store.bind(&lease, bind(text, "a")).await.unwrap();
        store.settle(&lease, settlement(&context, &bound, TaskState::Completed, 1)).await.unwrap();
    }
    assert!(hits(folder.path(), "the-secret-of-ada") > 0 && hits(folder.path(), "what-bob-said") > 0);
    store.erase(&key("ada", "a")).await.unwrap();
    // What the thread does in its time.
    store.compact().unwrap();
    assert_eq!(hits(folder.path(), "the-secret-of-ada"), 0, "{:?}", files(folder.path()));
    assert!(hits(folder.path(), "what-bob-said") > 0 && find(&store, "ada", "what-bob-said").await.is_some());
}

/// The end of the journal is what a machine that lost its power may not have written, or not whole.
#[tokio::test]
async fn a_torn_end_costs_what_was_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    converse(&store, &key("ada", "a"), bind("u1", "a"), TaskState::Completed, 1).await;
    // Every batch ends with these.
    let end = |folder: &Path| {
        let journal = std::fs::read(folder.join("0.jnl")).unwrap();
        memchr::memmem::rfind(&journal, b"FJL\x03").unwrap() + 4
    };
    let whole = end(folder.path());
    converse(&store, &key("ada", "a"), bind("u2", "a"), TaskState::Completed, 2).await;
    let torn = end(folder.path());
    for at in (whole..torn).step_by(29) {
        let left = left_by(folder.path());
        let journal = std::fs::OpenOptions::new().write(true).open(left.path().join("0.jnl")).unwrap();
        journal.set_len(at as u64).unwrap();
        journal.set_len(64 << 20).unwrap();
        let store = Disk::open(left.path(), &settings(), [7; 32]).unwrap_or_else(|error| panic!("at {at}: {error}"));
        let found = store.context(&key("ada", "a")).await.unwrap().unwrap();
        assert_eq!(found.context.turns[0].number, 1, "cut at {at}");
    }
    // A hole in the last batch, as from pages that were not written in their order.
    let journal = std::fs::read(folder.path().join("0.jnl")).unwrap();
    let last = memchr::memmem::rfind(&journal[..torn - 4], b"FJL\x03").unwrap() + 4;
    for at in (last..torn).step_by(29) {
        let left = left_by(folder.path());
        let path = left.path().join("0.jnl");
        let mut journal = std::fs::read(&path).unwrap();
        journal[at] ^= 0x55;
        std::fs::write(&path, journal).unwrap();
        let store =
            Disk::open(left.path(), &settings(), [7; 32]).unwrap_or_else(|error| panic!("hole at {at}: {error}"));
        let found = store.context(&key("ada", "a")).await.unwrap().unwrap();
        assert_eq!(found.context.turns[0].number, 1, "hole at {at}");
    }
}

/// What was told is not to be cut off, so there it is damage, and told.
#[tokio::test]
async fn damage_in_the_middle_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for now in 1..=9 {
        converse(&store, &key("ada", "a"), bind(&format!("u{now}"), "a"), TaskState::Completed, now).await;
    }
    let left = left_by(folder.path());
    let path = left.path().join("0.jnl");
    let mut journal = std::fs::read(&path).unwrap();
    let middle = memchr::memmem::find(&journal, b"u4").unwrap();
    journal[middle] = b'x';
    std::fs::write(&path, journal).unwrap();
    says(&refused(left.path()), &["damaged", "restore it from a copy"]);
}
