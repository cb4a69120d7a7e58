//! A route's service, whatever it is made of.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tower_service::Service;

use crate::middleware::{BoxError, ReplyBody, RequestBody};

type Answer = BoxFuture<'static, Result<Response<ReplyBody>, BoxError>>;

/// A service with its type forgotten, as cheap to clone as an [`Arc`].
#[derive(Clone)]
pub struct RouteService(Arc<dyn Fn(Request<RequestBody>) -> Answer + Send + Sync>);

impl RouteService {
    /// Each request is served by a clone of `service`, once that is ready.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<ReplyBody>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
    {
        Self::from_fn(move |request| {
            let mut service = service.clone();
            async move {
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
                service.call(request).await.map_err(Into::into)
            }
        })
    }

    /// Each request is served by a call of `serve`.
    pub fn from_fn<F, Fut>(serve: F) -> Self
    where
        F: Fn(Request<RequestBody>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Response<ReplyBody>, BoxError>> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(serve(request))))
    }
}

impl Service<Request<RequestBody>> for RouteService {
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Answer {
        (self.0)(request)
    }
}

impl fmt::Debug for RouteService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RouteService")
    }
}
