//! What keys are called.
//!
//! Names of people and conversations are not in them: a key is a hash. All keys of a context stand on one slot of a cluster.

use sha2::{Digest, Sha256};

use crate::conversation::principal::{ContextKey, Principal, RouteId};

/// The names of one store.
pub(super) struct Names {
    prefix: String,
}

/// Where a context is: the hash of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Tag(pub(super) String);

impl Tag {
    pub(super) fn of(key: &ContextKey) -> Self {
        Self(hash("context", &[key.route.as_str(), key.principal.as_str(), &key.context_id]))
    }
}

/// Whose context it is, as entries of the index tell it.
pub(super) fn owner(route: &RouteId, principal: &Principal) -> String {
    hash("owner", &[route.as_str(), principal.as_str()])
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// A context: its head, its tasks and its turn in flight.
    pub(super) fn head(&self, tag: &Tag) -> String {
        format!("{}{{{}}}", self.prefix, tag.0)
    }

    /// The turns of a context.
    pub(super) fn turns(&self, tag: &Tag) -> String {
        format!("{}{{{}}}:turns", self.prefix, tag.0)
    }

    /// Which contexts know an id.
    pub(super) fn id(&self, route: &RouteId, id: &str) -> String {
        format!("{}id:{}", self.prefix, hash("id", &[route.as_str(), id]))
    }

    /// Which contexts somebody has.
    pub(super) fn owned(&self, route: &RouteId, principal: &Principal) -> String {
        format!("{}owner:{}", self.prefix, owner(route, principal))
    }

    /// What there is once in a store.
    pub(super) fn common(&self) -> String {
        format!("{}store", self.prefix)
    }

    /// The newest token.
    pub(super) fn tokens(&self) -> String {
        format!("{}tokens", self.prefix)
    }

    /// Something small.
    pub(super) fn note(&self, name: &str) -> String {
        format!("{}note:{}", self.prefix, hash("note", &[name]))
    }

    /// A part of the outbox. All parts stand on one slot.
    pub(super) fn outbox(&self, part: &str) -> String {
        format!("{}{{outbox}}:{part}", self.prefix)
    }
}

/// 128 bits of a hash over parts that cannot be shifted into each other.
fn hash(kind: &str, parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in [kind].iter().chain(parts) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
