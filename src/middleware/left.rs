//! Whether a client that waits for an answer still does.

use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either, select};

/// How to learn that a request's client has closed its side of the connection: to be put into the request's extensions by whoever owns that.
///
/// Without it a client that leaves is noticed when the service's future or the reply's body is dropped, which HTTP/1.1 servers that let
/// clients half-close do only after a write has failed. It is asked only where
/// [`OnDisconnect::Abort`](crate::conversation::policy::OnDisconnect::Abort) is set.
#[derive(Clone)]
pub struct ClientLeft(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl ClientLeft {
    /// `wait` makes a future that ends when the client has closed its side.
    pub fn new<F>(wait: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(wait())))
    }

    /// Does the work unless the client leaves meanwhile: then the work is dropped.
    pub(super) async fn unless<T>(left: Option<&Self>, work: impl Future<Output = T>) -> Option<T> {
        let Some(left) = left else { return Some(work.await) };
        // An answer that is there is the answer: it is asked for first.
        match select(std::pin::pin!(work), left.wait()).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Ends when the client has closed its side.
    pub(super) fn wait(&self) -> BoxFuture<'static, ()> {
        (self.0)()
    }
}

impl fmt::Debug for ClientLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientLeft")
    }
}
