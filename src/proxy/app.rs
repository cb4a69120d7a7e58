//! What every request goes through: health, route, headers, identity, CORS, the route's own service.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use http::{Method, Request, Response, Uri};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::health::Health;
use super::identity::Identification;
use super::route::{self, Routes};
use super::{RouteService, SetupError, cors, headers, refusal};
use crate::config::{Listener, Route};
use crate::conversation::principal::{RouteId, Unidentified};
use crate::exchange::{bearer, is_grant};
use crate::middleware::{BoxError, ReplyBody, RequestBody};
use crate::push::Callback;

/// What serves a route.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Everything but the card: the layer around the route's upstream. It sees the path as the client sent it, prefix and all.
    pub agent: RouteService,
    /// A GET or HEAD of the agent card, at either well-known path under the prefix; `None`: the agent's own, as it is.
    pub card: Option<RouteService>,
}

/// The proxy as a service. It never fails: what fails inside becomes an answer. Clones are cheap.
#[derive(Clone, Debug)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    health: Health,
    routes: Routes<Mounted>,
    scheme: String,
}

/// A route with what serves it.
struct Mounted {
    id: RouteId,
    identification: Identification,
    warned: AtomicBool,
    /// With the route's CORS headers, where it has a rule.
    outer: RouteService,
    inner: RouteService,
}

impl App {
    /// Routes with what serves each. `public` is the base at which clients reach the proxy; `key` is the store's own, with which credentials
    /// are hashed.
    pub fn new<'a>(
        listener: &Listener,
        public: &Uri,
        key: &[u8; 32],
        mounts: impl IntoIterator<Item = (&'a Route, Mount)>,
    ) -> Result<Self, SetupError> {
        let loopback = listener.address.ip().to_canonical().is_loopback();
        let mounted = mounts.into_iter().map(|(route, mount)| {
            let identification = Identification::new(route.identity.clone(), key, loopback);
            Ok((route.prefix.clone(), Mounted::new(route, mount, identification)?))
        });
        Ok(Self(Arc::new(Inner {
            health: Health::new(listener.health_path.as_deref()),
            routes: Routes::new(mounted.collect::<Result<Vec<_>, SetupError>>()?),
            scheme: public.scheme_str().unwrap_or("http").to_owned(),
        })))
    }

    /// Whether it is ready; to be told when it no longer is.
    pub fn health(&self) -> &Health {
        &self.0.health
    }
}

impl<B> Service<Request<B>> for App
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, path) = (request.method(), request.uri().path());
        if let Some(answer) = self.0.health.answer(method, path) {
            return ready(Ok(answer)).boxed();
        }
        if method == Method::CONNECT {
            return ready(Ok(refusal::tunnel())).boxed();
        }
        match self.0.routes.find(path) {
            Some(route) => route.serve(request.map(RequestBody::untouched), &self.0.scheme),
            None => ready(Ok(refusal::no_route())).boxed(),
        }
    }
}

impl Mounted {
    fn new(route: &Route, mount: Mount, identification: Identification) -> Result<Self, SetupError> {
        let inner = answering(route, mount);
        let outer = match &route.cors {
            Some(rule) => RouteService::new(cors::layer(rule)?.layer(inner.clone())),
            None => inner.clone(),
        };
        Ok(Self { id: route.id.clone(), identification, warned: AtomicBool::new(false), outer, inner })
    }

    fn serve(
        &self,
        mut request: Request<RequestBody>,
        scheme: &str,
    ) -> BoxFuture<'static, Result<Response<ReplyBody>, Infallible>> {
        headers::arrive(&mut request, scheme);
        let principal = self.identification.principal(request.headers());
        // An agent that pushes is no caller, and one that fetches a conversation is told by its token.
        let pushes = Callback::name_in(request.uri().path()).is_some();
        let fetches = bearer(request.headers()).is_some_and(is_grant);
        let is_call = request.method() == Method::POST && !pushes && !fetches;
        let extensions = request.extensions_mut();
        extensions.insert(self.id.clone());
        match principal {
            Some(principal) => _ = extensions.insert(principal),
            None => {
                // A card is read by everybody; what is lost is lost by a call.
                if is_call {
                    self.warn_once();
                }
                extensions.insert(Unidentified);
            }
        }
        // tower-http takes every OPTIONS request for a preflight.
        let asks = request.method() == Method::OPTIONS && !cors::is_preflight(&request);
        let mut service = if asks { self.inner.clone() } else { self.outer.clone() };
        let answer = service.call(request);
        Box::pin(async move { Ok(answer.await.unwrap_or_else(|error| refusal::failure(&error))) })
    }

    fn warn_once(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                route = self.id.as_str(),
                "a caller that cannot be told from others: forwarded without conversation (said once a route)"
            );
        }
    }
}

/// The route's service, which always answers: so CORS headers come to the proxy's own answers too.
fn answering(route: &Route, mount: Mount) -> RouteService {
    let (id, prefix) = (route.id.clone(), route.prefix.clone());
    RouteService::from_fn(move |request| {
        let path = request.uri().path();
        if route::escapes(path) {
            return ready(Ok(refusal::path())).boxed();
        }
        let mut service = match &mount.card {
            Some(card) if asks_for_card(request.method(), path, &prefix) => card.clone(),
            _ => mount.agent.clone(),
        };
        let id = id.clone();
        async move { Ok(service.call(request).await.unwrap_or_else(|error| failed(&id, &error))) }.boxed()
    })
}

fn asks_for_card(method: &Method, path: &str, prefix: &str) -> bool {
    (method == Method::GET || method == Method::HEAD)
        && route::rest(path, prefix).is_some_and(|rest| route::CARDS.contains(&rest))
}

fn failed(route: &RouteId, error: &BoxError) -> Response<ReplyBody> {
    tracing::warn!(
        route = route.as_str(),
        error = &**error as &(dyn std::error::Error + 'static),
        "no answer from the route's service"
    );
    refusal::failure(error)
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted")
            .field("id", &self.id)
            .field("identification", &self.identification)
            .finish_non_exhaustive()
    }
}
