//! How records are keyed: a letter for the kind, then what tells one from another, of fixed length and in the order in which they are read.

use sha2::{Digest as _, Sha256};

use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::store::engine::{Rank, Standing};

/// A key.
pub(super) type Key = Vec<u8>;

/// What the records of a context are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Piece {
    /// What there is once.
    Head = 0,
    /// The turns in flight that the agent knows.
    Lives = 1,
    /// A client task, by the order in which they began.
    Task = 2,
    /// A turn that was kept apart, by the order in which they came.
    Apart = 3,
    /// A turn, by its number.
    Turn = 4,
}

/// A setting of the store's own.
pub(super) fn meta(name: &str) -> Key {
    [b"M", name.as_bytes()].concat()
}

/// All records of a context, by its serial number.
pub(super) fn context(serial: u64) -> Key {
    [&b"C"[..], &serial.to_be_bytes()].concat()
}

/// A record of a context.
pub(super) fn piece(serial: u64, piece: Piece, number: u32) -> Key {
    let mut key = context(serial);
    key.push(piece as u8);
    if piece as u8 >= Piece::Task as u8 {
        key.extend(number.to_be_bytes());
    }
    key
}

/// What a key of a context's record says behind the serial number.
pub(super) fn piece_of(key: &[u8]) -> Option<(Piece, u32)> {
    let (piece, number) = key.get(9..)?.split_first()?;
    let number = || Some(u32::from_be_bytes(number.try_into().ok()?));
    Some(match piece {
        0 => (Piece::Head, 0),
        1 => (Piece::Lives, 0),
        2 => (Piece::Task, number()?),
        3 => (Piece::Apart, number()?),
        4 => (Piece::Turn, number()?),
        _ => return None,
    })
}

/// The serial number of the context that goes by a contextId.
pub(super) fn name(key: &ContextKey) -> Key {
    hashed(b'K', &[key.route.as_str(), key.principal.as_str(), &key.context_id])
}

/// The contexts of an owner.
pub(super) fn owner((route, principal): &(RouteId, Principal)) -> Key {
    hashed(b'O', &[route.as_str(), principal.as_str()])
}

/// A context of an owner.
pub(super) fn owned(owner: &(RouteId, Principal), serial: u64) -> Key {
    [&*self::owner(owner), &serial.to_be_bytes()].concat()
}

/// The contexts that know a task's id.
pub(super) fn id(route: &RouteId, id: &str) -> Key {
    hashed(b'I', &[route.as_str(), id])
}

/// The contexts of a standing, in the order in which they go.
pub(super) fn standing(standing: Standing) -> Key {
    vec![b'X', standing as u8]
}

/// The place of a context among them.
pub(super) fn place(rank: Rank, serial: u64) -> Key {
    [&*standing(rank.standing), &rank.when.to_be_bytes(), &serial.to_be_bytes()].concat()
}

/// When, and which, from the key of a place.
pub(super) fn placed(key: &[u8]) -> Option<(u64, u64)> {
    let when = u64::from_be_bytes(key.get(2..10)?.try_into().ok()?);
    Some((when, serial_at_end(key)?))
}

/// The serial number with which a key ends.
pub(super) fn serial_at_end(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

/// A notification.
pub(super) fn delivery(id: u64) -> Key {
    [&b"B"[..], &id.to_be_bytes()].concat()
}

/// What is noted under a name.
pub(super) fn note(name: &str) -> Key {
    hashed(b'N', &[name])
}

/// Names are hashed, since they may be long, and nobody can make two collide.
fn hashed(kind: u8, names: &[&str]) -> Key {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name.as_bytes());
    }
    let mut key = vec![kind];
    key.extend_from_slice(&hash.finalize()[..16]);
    key
}
