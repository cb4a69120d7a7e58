//! A principal's client tasks, page by page.

use std::sync::Arc;

use super::Memory;
use super::slot::Slot;
use crate::conversation::principal::ContextKey;
use crate::store::rules::Page;
use crate::store::{ListQuery, Listed};

impl Memory {
    /// Every context is read as it is when its turn comes: a task that changes meanwhile may be listed by its old state or by its new one.
    pub(super) fn list_now(&self, query: &ListQuery) -> Listed {
        let mut page = Page::new(query);
        for slot in self.slots_of(query) {
            let mut state = slot.lock();
            let key = slot.key(&state);
            if self.is_there(&slot, &mut state, &key) {
                page.look_at(&key, &state.context, state.lives());
            }
        }
        page.listed()
    }

    fn slots_of(&self, query: &ListQuery) -> Vec<Arc<Slot>> {
        let (route, principal) = (query.route.clone(), query.principal.clone());
        match &query.context_id {
            Some(id) => {
                let key = ContextKey { route, principal, context_id: id.as_str().into() };
                self.contexts.get(&key).map(|slot| slot.value().clone()).into_iter().collect()
            }
            None => {
                let owned = self.owners.get(&(route, principal));
                owned.map(|slots| slots.values().cloned().collect()).unwrap_or_default()
            }
        }
    }
}
