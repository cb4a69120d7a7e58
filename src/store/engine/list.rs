//! A principal's client tasks, page by page.

use std::sync::Arc;

use super::{Engine, Shelf, Slot};
use crate::conversation::principal::ContextKey;
use crate::store::rules::Page;
use crate::store::{ListQuery, Listed};

impl<S: Shelf> Engine<S> {
    /// Every context is read as it is when its turn comes: a task that changes meanwhile may be listed by its old state or by its new one.
    pub(in crate::store) fn list_now(&self, query: &ListQuery) -> Listed {
        let mut page = Page::new(query);
        self.each_of(query, |slot| {
            let mut state = slot.lock();
            let key = slot.key(&state);
            if self.is_there(&slot, &mut state, &key) {
                page.look_at(&key, &state.context, state.lives());
            }
        });
        page.listed()
    }

    fn each_of(&self, query: &ListQuery, mut visit: impl FnMut(Arc<Slot<S>>)) {
        let (route, principal) = (query.route.clone(), query.principal.clone());
        match &query.context_id {
            Some(id) => {
                let key = ContextKey { route, principal, context_id: id.as_str().into() };
                self.shelf.find(&key).into_iter().for_each(visit);
            }
            None => self.shelf.each_owned(&(route, principal), &mut visit),
        }
    }
}
