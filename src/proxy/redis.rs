//! Conversations in Redis or Valkey.

use std::sync::Arc;

use super::SetupError;
use crate::config;
use crate::store::Store;
use crate::store::redis::{Settings, connect};

/// Connects to the store.
///
/// # Errors
/// Where it cannot be used.
pub async fn open(url: &str, store: &config::Store) -> Result<Arc<dyn Store>, SetupError> {
    let settings = Settings { ttl: store.ttl, context_bytes: store.context_bytes, ..Settings::default() };
    Ok(Arc::new(connect(url, settings).await?))
}

/// Where it is, in words for the operator: without user and password.
pub fn place(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    // A socket's address has them behind a question mark.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{}; shared with whoever uses it too", rest.split('?').next().unwrap_or_default())
}
