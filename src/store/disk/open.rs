//! A folder, opened: its schema, its secret, what was counted, and the notes and notifications that wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::cabinet::Totals;
use super::fault::OpenError;
use super::records::Records;
use super::{Settings, key, record, tail};
use crate::store::Delivery;
use crate::store::memory::{Notes, Outbox};

/// What a store looks like inside. It rises whenever a record, or what a turn or a task is made of, changes.
pub(super) const SCHEMA: u32 = 1;

/// Tokens that every start takes for itself, so that they rise beyond its end however it ends.
const TOKENS: u64 = 1 << 32;

/// A store's folder, as it was found.
pub(super) struct Opened {
    pub(super) records: Arc<Records>,
    pub(super) totals: Arc<Totals>,
    pub(super) secret: [u8; 32],
    /// All tokens that were ever given are less.
    pub(super) tokens: u64,
    pub(super) outbox: Outbox,
    pub(super) notes: Notes,
    /// Whether something was erased that is still in the files.
    pub(super) erased: bool,
}

/// Opens a folder, or makes one. `secret` is what credentials are hashed with where it is new.
pub(super) fn open(folder: &Path, settings: &Settings, secret: [u8; 32]) -> Result<Opened, OpenError> {
    make_folder(folder).map_err(|error| OpenError::of_io(folder, &error))?;
    is_ours(folder)?;
    let refused = |error: fjall::Error| OpenError::of(folder, &error);
    let cut = tail::mend(folder).map_err(|error| OpenError::of_io(folder, &error))?;
    if cut > 0 {
        tracing::warn!(bytes = cut, "a write that was not finished was cut off the journal; nobody was told of it");
    }
    let database = database(folder, settings)?;
    let keyspace = database.keyspace(NAME, options).map_err(refused)?;
    let found = check(folder, &keyspace)?;
    let secret = found.as_ref().map_or(secret, |found| found.secret);
    let tokens = found.as_ref().map_or(0, |found| found.tokens);
    let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
    batch.insert(&keyspace, key::meta("schema"), SCHEMA.to_be_bytes());
    batch.insert(&keyspace, key::meta("secret"), secret);
    batch.insert(&keyspace, key::meta("tokens"), (tokens + TOKENS).to_be_bytes());
    batch.commit().map_err(refused)?;
    protect(folder).map_err(|error| OpenError::of_io(folder, &error))?;
    let outbox = outbox(folder, &keyspace, tokens)?;
    let notes = notes(folder, &keyspace)?;
    let (contexts, bytes) = found.map_or((0, 0), |found| found.totals);
    let totals = Arc::new(Totals { contexts: AtomicU64::new(contexts), bytes: AtomicUsize::new(bytes) });
    let erased = keyspace.contains_key(key::meta("erased")).map_err(refused)?;
    let records = Arc::new(Records::new(database, keyspace, settings.durability));
    let counted = Arc::clone(&totals);
    records.with_each_round(move || {
        let totals = (counted.contexts.load(Ordering::Relaxed), counted.bytes.load(Ordering::Relaxed));
        (key::meta("totals"), Some(record::write(&totals)))
    });
    Ok(Opened { records, totals, secret, tokens, outbox, notes, erased })
}

fn database(folder: &Path, settings: &Settings) -> Result<Database, OpenError> {
    let builder = Database::builder(folder)
        .cache_size(settings.block_cache_bytes)
        .manual_journal_persist(true)
        .worker_threads(WORKERS);
    // Of some damage the database says that it cannot be.
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.open()));
    let damaged = |_| OpenError::Damaged(folder.display().to_string(), "its files contradict one another".to_owned());
    opened.map_err(damaged)?.map_err(|error| OpenError::of(folder, &error))
}

/// The database's own threads: one to write tables, one to join them.
const WORKERS: usize = 2;

/// What is in memory until it becomes a table is little, and little is read again after an end without notice.
fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(16 << 20)
}

/// The one keyspace: what is written together is in one place.
const NAME: &str = "records";

struct Found {
    secret: [u8; 32],
    tokens: u64,
    totals: (u64, usize),
}

/// What a store that is there says of itself; none where it is new.
fn check(folder: &Path, keyspace: &Keyspace) -> Result<Option<Found>, OpenError> {
    let get = |name| keyspace.get(key::meta(name)).map_err(|error| OpenError::of(folder, &error));
    let damaged = |what: &str| OpenError::Damaged(folder.display().to_string(), format!("no {what}"));
    let Some(schema) = get("schema")? else {
        return if keyspace.is_empty().unwrap_or(false) { Ok(None) } else { Err(damaged("schema")) };
    };
    match <[u8; 4]>::try_from(&*schema).map(u32::from_be_bytes) {
        Ok(SCHEMA) => {}
        Ok(other) => return Err(OpenError::Schema(folder.display().to_string(), other.to_string(), SCHEMA)),
        Err(_) => return Err(damaged("schema that can be read")),
    }
    let secret =
        get("secret")?.and_then(|secret| <[u8; 32]>::try_from(&*secret).ok()).ok_or_else(|| damaged("secret"))?;
    let tokens =
        get("tokens")?.and_then(|tokens| <[u8; 8]>::try_from(&*tokens).ok()).ok_or_else(|| damaged("tokens"))?;
    let totals =
        get("totals")?.map_or(Some((0, 0)), |totals| record::read(&totals)).ok_or_else(|| damaged("totals"))?;
    Ok(Some(Found { secret, tokens: u64::from_be_bytes(tokens), totals }))
}

fn outbox(folder: &Path, keyspace: &Keyspace, newest: u64) -> Result<Outbox, OpenError> {
    let mut outbox = Outbox::beyond(newest);
    for entry in keyspace.prefix(b"B") {
        let (_, value) = entry.into_inner().map_err(|error| OpenError::of(folder, &error))?;
        let delivery: Option<Delivery> = record::read(&value);
        let damaged = || OpenError::Damaged(folder.display().to_string(), "a notification".to_owned());
        outbox.restore(delivery.ok_or_else(damaged)?);
    }
    Ok(outbox)
}

fn notes(folder: &Path, keyspace: &Keyspace) -> Result<Notes, OpenError> {
    let mut notes = Notes::default();
    for entry in keyspace.prefix(b"N") {
        let (_, value) = entry.into_inner().map_err(|error| OpenError::of(folder, &error))?;
        let note: Option<(String, Vec<u8>, u64)> = record::read(&value);
        let damaged = || OpenError::Damaged(folder.display().to_string(), "a note".to_owned());
        let (name, value, until) = note.ok_or_else(damaged)?;
        notes.keep(&name, Some(value), until);
    }
    Ok(notes)
}

/// A folder with something in it that is no store is not to be written into.
fn is_ours(folder: &Path) -> Result<(), OpenError> {
    let refused = |error| OpenError::of_io(folder, &error);
    let is_new = !folder.join("version").try_exists().map_err(refused)?;
    let mut others = fs::read_dir(folder).map_err(refused)?.filter_map(Result::ok);
    let known = ["lock", "keyspaces", "0.jnl"];
    if is_new && others.any(|entry| !known.iter().any(|known| entry.file_name() == *known)) {
        return Err(OpenError::Foreign(folder.display().to_string()));
    }
    Ok(())
}

#[cfg(unix)]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

/// Nobody else reads what is in the folder; the files that come later are behind its mode.
#[cfg(unix)]
fn protect(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let is_folder = path.is_dir();
            fs::set_permissions(&path, fs::Permissions::from_mode(if is_folder { 0o700 } else { 0o600 }))?;
            if is_folder {
                folders.push(path);
            }
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn protect(_: &Path) -> std::io::Result<()> {
    Ok(())
}
