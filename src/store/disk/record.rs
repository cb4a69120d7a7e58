//! Records as they are written. Whatever changes here, or in what a turn or a task is made of, makes another schema: see
//! [`SCHEMA`](super::open::SCHEMA).

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::conversation::principal::ContextKey;
use crate::conversation::transcript::Kept;
use crate::push::PushConfig;
use crate::store::engine::Rank;

/// What there is once in a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) key: ContextKey,
    pub(super) fence: String,
    pub(super) window_start: u32,
    pub(super) rewrites: u32,
    pub(super) push: Vec<PushConfig>,
    pub(super) used: u64,
    /// Its place in the order of going.
    pub(super) rank: Rank,
}

/// The contexts that know an id: by serial numbers, of which none is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Where the client knows a task under it.
    pub(super) client: u64,
    /// Where it last came to mean a task of the agent's.
    pub(super) agent: u64,
}

impl Holders {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (client, agent) = (bytes.first_chunk()?, bytes.last_chunk()?);
        Some(Self { client: u64::from_be_bytes(*client), agent: u64::from_be_bytes(*agent) })
    }

    pub(super) fn written(self) -> Option<Vec<u8>> {
        (self != Self::default()).then(|| [self.client.to_be_bytes(), self.agent.to_be_bytes()].concat())
    }
}

/// A turn's number stands in its key.
pub(super) fn turn(kept: &Kept) -> Vec<u8> {
    [&kept.record_bytes.to_be_bytes()[..], &kept.number.to_be_bytes(), &kept.digest.0, kept.encoded()].concat()
}

pub(super) fn read_turn(bytes: &[u8]) -> Option<Kept> {
    let (record_bytes, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (digest, encoded) = rest.split_first_chunk()?;
    let (record_bytes, number) = (u32::from_be_bytes(*record_bytes), u32::from_be_bytes(*number));
    Some(Kept::of(number, record_bytes, crate::conversation::digest::Digest(*digest), Arc::from(encoded)))
}

/// From types without maps of unknown length: nothing that postcard refuses.
pub(super) fn write(record: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(record).unwrap_or_default()
}

pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}
