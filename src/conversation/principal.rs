//! Who is calling, on which route, in which conversation.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! opaque_name {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name, as it is.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }
    };
}

opaque_name! {
    /// One agent as the proxy offers it. The layer takes it from the request's extensions; without one there is a single route called
    /// `default`.
    RouteId
}

opaque_name! {
    /// Who is calling, as the proxy knows it: never a credential itself, at most a keyed hash of one. The layer takes it from the request's
    /// extensions; without one all callers are the one principal `anonymous`, which is right only where they are one.
    Principal
}

impl Default for RouteId {
    fn default() -> Self {
        Self::from("default")
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::from("anonymous")
    }
}

/// A caller who could not be told from others: its messages are forwarded without conversation. Put into the request's extensions by
/// whoever decides on identity.
#[derive(Clone, Copy, Debug)]
pub struct Unidentified;

/// The key of a conversation. Never the contextId alone: a contextId of another principal is simply another conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContextKey {
    /// The route.
    pub route: RouteId,
    /// Who is calling.
    pub principal: Principal,
    /// The contextId that the client sees.
    pub context_id: Arc<str>,
}
