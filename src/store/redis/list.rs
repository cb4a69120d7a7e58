//! A principal's client tasks, page by page.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use redis::cmd;

use super::Redis;
use super::link::Repeat;
use super::names::Tag;
use super::record::{Depth, Seen};
use crate::conversation::principal::ContextKey;
use crate::store::rules::Page;
use crate::store::{ListQuery, Listed, StoreError};

/// Contexts that are read at a time.
const AT_A_TIME: usize = 64;

impl Redis {
    /// Every context is read as it is when its turn comes: the heads of all, and the turns of those on the page.
    pub(super) async fn list_now(&self, query: &ListQuery) -> Result<Listed, StoreError> {
        let owned = self.names.owned(&query.route, &query.principal);
        let tags: Vec<Tag> = match &query.context_id {
            Some(id) => {
                let (route, principal) = (query.route.clone(), query.principal.clone());
                vec![Tag::of(&ContextKey { route, principal, context_id: id.as_str().into() })]
            }
            None => {
                let owned: Vec<String> =
                    self.link.call(cmd("ZRANGE").arg(&owned).arg(0).arg(-1), Repeat::Harmless).await?;
                owned.into_iter().map(Tag).collect()
            }
        };
        let mut page = Page::new(query);
        let reads = tags.into_iter().map(|tag| async move { self.read(&tag, Depth::Head).await });
        let mut reads = stream::iter(reads).buffer_unordered(AT_A_TIME);
        while let Some(seen) = reads.next().await {
            // Of one that is not there the entry goes in time: it may be one that comes at this moment.
            if let Seen::There(record) = seen? {
                page.look_at(&record.key, &record.context, &record.lives);
            }
        }
        self.with_turns(page.listed()).await
    }

    /// The contexts as a whole.
    async fn with_turns(&self, mut listed: Listed) -> Result<Listed, StoreError> {
        let keys: HashSet<_> = listed.tasks.iter().map(|(key, ..)| key.clone()).collect();
        let reads = keys.into_iter().map(|key| async move {
            let seen = self.read(&Tag::of(&key), Depth::Whole).await?;
            Ok::<_, StoreError>((key, seen.there()))
        });
        let whole: HashMap<_, _> = stream::iter(reads).buffer_unordered(AT_A_TIME).try_collect().await?;
        listed.tasks.retain_mut(|(key, context, _)| {
            let read = whole.get(key).and_then(Option::as_ref);
            if let Some(record) = read {
                *context = record.context.clone();
            }
            read.is_some()
        });
        Ok(listed)
    }
}
