//! A body that is written while its work goes on.
//!
//! The work is polled by the client's connection itself, so that no piece has to wake another task. A connection whose client stops reading
//! polls no more, and work that holds a lease must not stand still with it: then it goes on as a task of its own.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use super::body::{BoxError, Polled, go_on};

/// The client, as the work sees it.
pub(super) struct Client {
    pieces: mpsc::Sender<Bytes>,
    /// Whether its stream is cut off rather than ended.
    cut: Arc<AtomicBool>,
}

impl Client {
    /// A client, and what it takes its pieces from.
    pub(super) fn new() -> (Self, Pieces) {
        let (sender, receiver) = mpsc::channel(1);
        let cut = Arc::new(AtomicBool::new(false));
        (Self { pieces: sender, cut: Arc::clone(&cut) }, Pieces { receiver, cut })
    }

    /// Whether it has left.
    pub(super) fn is_gone(&self) -> bool {
        self.pieces.is_closed() || self.cut.load(Ordering::Relaxed)
    }

    /// Ends its stream as one that is not whole.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Returns when it leaves.
    pub(super) async fn left(&self) {
        self.pieces.closed().await;
    }

    /// Hands it a piece if it waits for one.
    pub(super) fn offer(&self, piece: Bytes) {
        let _ = self.pieces.try_send(piece);
    }

    /// Hands it a piece. One that has left hears nothing more, and one that takes nothing `within` this time has left.
    pub(super) async fn send(&self, piece: Bytes, within: Duration) {
        if self.cut.load(Ordering::Relaxed) {
            return;
        }
        // Most of the time there is room, and no clock is asked.
        let Err(mpsc::error::TrySendError::Full(piece)) = self.pieces.try_send(piece) else { return };
        if tokio::time::timeout(within, self.pieces.send(piece)).await.is_err() {
            self.cut();
        }
    }
}

/// The pieces for a client.
pub(super) struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    cut: Arc<AtomicBool>,
}

/// Work and what it yields.
pub(super) struct Pumped {
    work: Arc<Mutex<Work>>,
    pieces: Pieces,
    /// Where the work goes on when the client has left; `None`: it ends.
    tracker: Option<TaskTracker>,
    /// Ends when the client leaves, where that is known and ends the work.
    left: Option<BoxFuture<'static, ()>>,
}

/// Where the work is done.
enum Place {
    /// Where the body is polled.
    Here(BoxFuture<'static, ()>),
    /// In a task of its own.
    Apart(AbortHandle),
    /// It is done.
    Nowhere,
}

struct Work {
    place: Place,
    pace: Pace,
    tracker: TaskTracker,
}

/// Whether the client's connection asks for more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It does.
    Asks,
    /// It was handed a piece since.
    Handed,
    /// It was handed a piece before the last round, and has not asked for another.
    Stalled,
}

impl Pumped {
    /// `work` is done where the body is polled, and on `tracker` where it is polled no more; `finishes`: there too where the client leaves.
    pub(super) fn new(
        stalls: &Stalls,
        work: BoxFuture<'static, ()>,
        pieces: Pieces,
        tracker: &TaskTracker,
        finishes: bool,
    ) -> Self {
        // A panic ends the stream; it has dropped all that the work held.
        let work = AssertUnwindSafe(work).catch_unwind().map(drop).boxed();
        let work = Work { place: Place::Here(work), pace: Pace::Asks, tracker: tracker.clone() };
        let work = Arc::new(Mutex::new(work));
        stalls.watch(&work);
        Self { work, pieces, tracker: finishes.then(|| tracker.clone()), left: None }
    }

    /// Ends the work, and cuts the stream, when `left` ends.
    pub(super) fn unless(&mut self, left: BoxFuture<'static, ()>) {
        self.left = Some(left);
    }

    pub(super) fn is_end(&self) -> bool {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(work.place, Place::Nowhere)
            && self.pieces.receiver.is_empty()
            && !self.pieces.cut.load(Ordering::Relaxed)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.pace = Pace::Asks;
        if self.left.as_mut().is_some_and(|left| left.as_mut().poll(cx).is_ready()) {
            self.left = None;
            self.pieces.cut.store(true, Ordering::Relaxed);
            work.end();
            return Poll::Ready(self.pieces.end());
        }
        let polled = self.pieces.poll(&mut work.place, cx);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            work.pace = Pace::Handed;
        }
        polled
    }
}

impl Work {
    /// Drops it where it is.
    fn end(&mut self) {
        if let Place::Apart(task) = std::mem::replace(&mut self.place, Place::Nowhere) {
            task.abort();
        }
    }
}

impl Pieces {
    fn poll(&mut self, place: &mut Place, cx: &mut Context<'_>) -> Polled {
        loop {
            if let Place::Apart(_) = place {
                return self
                    .receiver
                    .poll_recv(cx)
                    .map(|piece| piece.map_or_else(|| self.end(), |piece| Some(Ok(Frame::data(piece)))));
            }
            // Not `poll_recv`: for a task that has done much at once it says "pending" of a piece that is there. The work is the only sender
            // and is polled here, so nothing has to wake this task.
            match self.receiver.try_recv() {
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(TryRecvError::Disconnected) => return Poll::Ready(self.end()),
                Err(TryRecvError::Empty) => {}
            }
            let Place::Here(work) = place else { return Poll::Ready(self.end()) };
            if work.as_mut().poll(cx).is_ready() {
                *place = Place::Nowhere;
            } else if self.receiver.is_empty() && !self.receiver.is_closed() {
                return Poll::Pending;
            }
        }
    }

    /// How a stream ends behind its last piece: one that was cut must not look whole.
    fn end(&self) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.cut.load(Ordering::Relaxed).then(|| Err("the stream was cut".into()))
    }
}

impl Drop for Pumped {
    fn drop(&mut self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tracker) = self.tracker.take() else { return work.end() };
        if let Place::Here(work) = std::mem::replace(&mut work.place, Place::Nowhere) {
            go_on(Some(work), Some(tracker));
        }
    }
}

/// The work of the bodies that are watched; `None` while nobody makes rounds.
type Bodies = Arc<Mutex<Option<Vec<Weak<Mutex<Work>>>>>>;

/// Watches bodies for clients that stop reading. A round comes every `period` while there are bodies.
pub(super) struct Stalls {
    period: Duration,
    bodies: Bodies,
}

impl Stalls {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, bodies: Arc::default() }
    }

    fn watch(&self, work: &Arc<Mutex<Work>>) {
        // Outside a runtime nothing is polled either.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        if bodies.is_none() {
            runtime.spawn(rounds(Arc::clone(&self.bodies), self.period));
        }
        bodies.get_or_insert_default().push(Arc::downgrade(work));
    }
}

/// Makes rounds until there is no body left.
async fn rounds(bodies: Bodies, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let mut bodies = bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = bodies.as_mut() else { return };
        watched.retain(|work| work.upgrade().is_some_and(|work| look_at(&work)));
        if watched.is_empty() {
            *bodies = None;
            return;
        }
    }
}

/// Whether it has to be looked at again.
fn look_at(work: &Mutex<Work>) -> bool {
    // One that is just polled does not stall.
    let Ok(mut work) = work.try_lock() else { return true };
    match (work.pace, &work.place) {
        (_, Place::Apart(_) | Place::Nowhere) => return false,
        (Pace::Asks, Place::Here(_)) => return true,
        (Pace::Handed, Place::Here(_)) => {
            work.pace = Pace::Stalled;
            return true;
        }
        (Pace::Stalled, Place::Here(_)) => {}
    }
    if let Place::Here(task) = std::mem::replace(&mut work.place, Place::Nowhere) {
        tracing::debug!("a client reads no more of its stream: the turn goes on apart");
        work.place = Place::Apart(work.tracker.spawn(task).abort_handle());
    }
    false
}
