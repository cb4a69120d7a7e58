//! Who else listens to a turn: subscribers get this turn's events from the one who reads it, in its order.
//!
//! A reader never waits for a listener: one that falls behind is let go, and told the end from the record.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::core::{Cancellable, Core, TaskKey};
use crate::a2a::{Binding, Part};
use crate::exchange::{error_event, sse_event};
use crate::json::{Doc, Edits};

/// Events that a listener may be behind.
pub(super) const BACKLOG: usize = 256;

/// Bytes that a listener may be behind, beyond one event.
const BACKLOG_BYTES: usize = 4 << 20;

/// Listeners that may wait to be let in.
const QUEUE: usize = 16;

/// Readers of turns in flight, by their tasks.
#[derive(Default)]
pub(super) struct Readers(Mutex<HashMap<TaskKey, mpsc::Sender<Knock>>>);

impl Readers {
    /// The way to whoever reads the turn of this task, if that is somebody here.
    pub(super) fn of(&self, key: &TaskKey) -> Option<mpsc::Sender<Knock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

/// What another request has to say to whoever reads a turn.
pub(super) enum Knock {
    /// Its client wants to listen.
    Listens(Listener),
    /// Its message joins the turn.
    Joins(Box<Joining>),
    /// What the agent answered to that, as JSON in its binding.
    Answered(Bytes, Binding),
}

/// A message that joins a turn.
pub(super) struct Joining {
    /// What is kept of it.
    pub(super) receipt: Part,
    /// Its messageId and parts, to be put back where the agent echoes them.
    pub(super) original: (String, Vec<Part>),
    /// Tells when that is noted: before the agent hears of the message, since it may end the turn at once.
    pub(super) noted: oneshot::Sender<()>,
}

/// One who listens to a turn that another request reads.
pub(super) struct Listener {
    /// The binding of its request.
    pub(super) binding: Binding,
    /// Whether it still has to be told how the task stands.
    pub(super) fresh: bool,
    pub(super) out: mpsc::Sender<Heard>,
    /// Bytes of the events that it has not taken yet.
    pub(super) behind: Arc<AtomicUsize>,
}

/// What a listener hears.
pub(super) enum Heard {
    /// An event, after which others follow.
    Event(Bytes),
    /// The event that ends the turn.
    Last(Bytes),
}

impl Listener {
    /// Whether it can be told more.
    fn hears(&self, data: &str, last: bool) -> bool {
        let Ok(doc) = Doc::scan(data.as_bytes()) else { return true };
        let mut edits = Edits::new();
        self.binding.readdress(&mut edits, doc.root());
        let json = edits.apply(data);
        let fails = self.binding.error_of(doc.root()).is_some();
        let event = Bytes::from(if fails { error_event(&json, &self.binding) } else { sse_event(&json) });
        let before = self.behind.fetch_add(event.len(), Ordering::Relaxed);
        if before > 0 && before + event.len() > BACKLOG_BYTES {
            return false;
        }
        self.out.try_send(if last { Heard::Last(event) } else { Heard::Event(event) }).is_ok()
    }
}

/// What happens beside the agent's answer.
pub(super) enum Stir {
    /// Another request has something to say.
    Knocked(Knock),
    /// The client cancelled its task.
    Canceled,
}

/// All who listen to one turn.
#[derive(Default)]
pub(super) struct Audience {
    listeners: Vec<Listener>,
    door: Option<Door>,
}

/// Where listeners come in while the turn is read.
struct Door {
    core: Arc<Core>,
    key: TaskKey,
    entry: mpsc::Sender<Knock>,
    queue: mpsc::Receiver<Knock>,
}

impl Audience {
    pub(super) fn is_open(&self) -> bool {
        self.door.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Lets listeners in: from here on the turn of this task is read here.
    pub(super) fn open(&mut self, core: &Arc<Core>, key: TaskKey) {
        let (entry, queue) = mpsc::channel(QUEUE);
        core.readers.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), entry.clone());
        self.door = Some(Door { core: Arc::clone(core), key, entry, queue });
    }

    /// The next thing that happens beside the agent's answer.
    pub(super) async fn stir(&mut self, wish: Option<&Cancellable>) -> Stir {
        let knocked = async {
            match self.door.as_mut().map(|door| &mut door.queue) {
                // The door holds an entry itself, so the queue does not end.
                Some(queue) => queue.recv().await,
                None => None,
            }
        };
        let canceled = async {
            match wish {
                Some(wish) => wish.wish.notified().await,
                None => std::future::pending().await,
            }
        };
        let knocked = async {
            match knocked.await {
                Some(knock) => knock,
                None => std::future::pending().await,
            }
        };
        match futures_util::future::select(std::pin::pin!(knocked), std::pin::pin!(canceled)).await {
            futures_util::future::Either::Left((knock, _)) => Stir::Knocked(knock),
            futures_util::future::Either::Right(_) => Stir::Canceled,
        }
    }

    /// Lets one in. `standing` is how the task stands, as an answer in the reader's binding; what is told later comes on top of it.
    pub(super) fn admit(&mut self, listener: Listener, standing: impl FnOnce() -> String) {
        if !listener.fresh || listener.hears(&standing(), false) {
            self.listeners.push(listener);
        }
    }

    /// Tells all an event: the data that the reader's own client gets.
    pub(super) fn tell(&mut self, data: &str, last: bool) {
        self.listeners.retain(|listener| listener.hears(data, last));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut readers = self.core.readers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.get(&self.key).is_some_and(|entry| entry.same_channel(&self.entry)) {
            readers.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_takes_nothing_is_let_go_by_bytes_too() {
        let (out, mut queue) = mpsc::channel(BACKLOG);
        let listener =
            Listener { binding: Binding::JsonRpc { id: "1".to_owned() }, fresh: false, out, behind: Arc::default() };
        let event = format!("{{\"id\":1,\"result\":\"{}\"}}", "x".repeat(BACKLOG_BYTES + 1));
        assert!(listener.hears(&event, false), "one event may be of any size");
        assert!(!listener.hears(&event, false));
        assert!(matches!(queue.try_recv(), Ok(Heard::Event(_))));
    }
}
