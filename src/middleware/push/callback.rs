//! What the agent pushes: one more way to see how a turn stands.
//!
//! Nothing that is pushed is passed on, and nothing but a whole task that has artifacts settles: any other push of an end makes the proxy ask
//! for the task. While a reply is read, its reader is told and settles by what it reads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::{Place, Relay};
use crate::a2a::{Binding, Endpoint, Payload, Shape, State};
use crate::conversation::principal::RouteId;
use crate::json::Doc;
use crate::middleware::agent::{Agent, log_body};
use crate::middleware::body::{BoxError, Boxed, ReplyBody, RequestBody};
use crate::middleware::core::{Core, millis};
use crate::middleware::guard::Guard;
use crate::middleware::reading;
use crate::middleware::send::Exchange;
use crate::middleware::settle::end;
use crate::push::Callback;
use crate::store::{Begun, Found, InFlight, Pending};

/// What the token comes in, from every SDK.
const TOKEN: &str = "x-a2a-notification-token";

/// How long a turn is left alone whose reader another process is said to be, beyond its lease.
const GRACE: u64 = 100;

/// The name of the callback that a request is for.
pub(in crate::middleware) fn name<B>(core: &Core, request: &http::Request<B>) -> Option<String> {
    core.push.as_ref()?;
    Callback::name_in(request.uri().path()).map(str::to_owned)
}

/// Answers a push of the agent's.
pub(in crate::middleware) async fn call<S, B2>(
    core: Arc<Core>,
    inner: S,
    head: http::request::Parts,
    body: Boxed,
    name: String,
) -> Response<ReplyBody>
where
    S: Service<http::Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let route = head.extensions.get::<RouteId>().cloned().unwrap_or_default();
    let token = head.headers.get(TOKEN).map_or(&[][..], |token| token.as_bytes());
    if head.method != Method::POST || !Callback::verifies(&core.store.secret(), &route, &name, token) {
        return answer(StatusCode::UNAUTHORIZED);
    }
    let limits = (core.policy.limits.reply_bytes, core.policy.timeouts.request_idle);
    let Ok(bytes) = reading::read(body, limits.0, limits.1).await else {
        return answer(StatusCode::PAYLOAD_TOO_LARGE);
    };
    log_body("pushed by the agent", &bytes);
    let Some(relay) = core.push.clone() else { return answer(StatusCode::NOT_FOUND) };
    let place = match place(&core, &name).await {
        Ok(Some(place)) if place.key.route == route => place,
        // Of a turn that has settled: whatever it says changes nothing.
        Ok(_) => return answer(StatusCode::NO_CONTENT),
        Err(status) => return answer(status),
    };
    let agent = agent(&core, inner, &head, &place);
    let exchange = Exchange {
        route,
        principal: place.key.principal.clone(),
        identified: true,
        active: false,
        core: Arc::clone(&core),
        agent,
        conversation: None,
        gone: CancellationToken::new(),
    };
    answer(Pushed { exchange, relay, name }.take_in(&bytes).await)
}

fn answer(status: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::empty());
    *response.status_mut() = status;
    response
}

async fn place(core: &Core, name: &str) -> Result<Option<Place>, StatusCode> {
    let noted = core.store.noted(name, core.now()).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(noted.and_then(|bytes| postcard::from_bytes(&bytes).ok()))
}

/// The agent as the turn's send called it, without the credential: what came with the push is the agent's own.
fn agent<S, B2>(core: &Core, inner: S, head: &http::request::Parts, place: &Place) -> Agent
where
    S: Service<http::Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let mut plain = http::Request::new(()).into_parts().0;
    plain.uri = place.path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    plain.extensions = head.extensions.clone();
    plain.headers = HeaderMap::new();
    let json = http::HeaderValue::from_static("application/json");
    plain.headers.insert(http::header::CONTENT_TYPE, json.clone());
    plain.headers.insert(http::header::ACCEPT, json);
    let endpoint = Endpoint::JsonRpc { target: place.path.clone() };
    Agent::new(inner, &plain, (&Binding::json_rpc(), &endpoint), &core.policy)
}

/// A push that is the agent's.
struct Pushed {
    exchange: Exchange,
    relay: Arc<Relay>,
    name: String,
}

impl Pushed {
    async fn take_in(mut self, bytes: &[u8]) -> StatusCode {
        let doc = Doc::scan(bytes).ok();
        let read = doc.as_ref().and_then(|doc| Payload::read(doc.root()));
        let Some((payload, shape)) = read else { return StatusCode::BAD_REQUEST };
        let Some((found, in_flight, pending)) = self.turn().await else { return StatusCode::NO_CONTENT };
        let bound = pending.bound.as_ref().map(|bound| &*bound.upstream_task).filter(|id| !id.is_empty());
        if bound.is_some_and(|bound| payload.task_id().as_deref() != Some(bound)) {
            // Of another task: this callback says nothing of it.
            return StatusCode::NO_CONTENT;
        }
        let ends = payload.state().is_some_and(State::settles);
        // On a task that is continued the agent may push first how it stood before.
        let continues = pending.opening.continued.is_some();
        let whole = !continues && matches!(payload, Payload::Task(task) if !task.artifacts().is_empty());
        if pending.idle && (whole || !ends) && !in_flight.superseded {
            self.hear(found, &in_flight, pending, &payload, shape).await;
        } else if ends && !self.relay.ring(&self.name) {
            self.look_later();
        }
        StatusCode::NO_CONTENT
    }

    /// The turn that the callback is of, if it is still in flight.
    async fn turn(&self) -> Option<(Found, InFlight, Pending)> {
        let core = &self.exchange.core;
        let place = place(core, &self.name).await.ok()??;
        let found = core.store.context(&place.key).await.ok()??;
        let in_flight = found.in_flight.clone()?;
        let pending = in_flight.pending.clone()?;
        let ours = pending.opening.callback.as_deref() == Some(&*self.name);
        ours.then_some((found, in_flight, pending))
    }

    async fn take(&self, found: &Found, in_flight: &InFlight) -> Option<(Guard, Arc<crate::context::Context>)> {
        let begun = self.exchange.take_turn_of(found.key.clone(), in_flight.token).await;
        let Ok(Begun::Granted { lease, context, .. }) = begun else { return None };
        Some((Guard::new(Arc::clone(&self.exchange.core), lease), context))
    }

    /// A turn that nobody reads is heard through what is pushed.
    async fn hear(
        &mut self,
        found: Found,
        in_flight: &InFlight,
        pending: Pending,
        payload: &Payload<'_, '_>,
        shape: Shape,
    ) {
        // Who is faster sees it too.
        let Some((guard, context)) = self.take(&found, in_flight).await else { return };
        let mut running = self.exchange.resumed(guard, context, pending);
        running.turn.hear(payload, shape);
        if running.turn.has_ended() {
            if let Some(bound) = running.bound.clone().filter(|_| running.turn.lacks_reply()) {
                self.exchange.look_for_reply(&mut running, &bound).await;
            }
            end(&self.exchange.core, &mut running).await;
        } else if let Err(error) = running.leave_unsettled(self.exchange.core.now()).await {
            tracing::warn!(%error, "an unsettled turn was lost");
        }
    }

    /// Nobody in this process has to do with the turn: it is looked at from here, once nobody reads it elsewhere either.
    fn look_later(self) {
        let core = Arc::clone(&self.exchange.core);
        let closing = core.closing.clone();
        core.tracker.spawn(async move {
            closing.run_until_cancelled(self.looking()).await;
        });
    }

    async fn looking(mut self) {
        let core = Arc::clone(&self.exchange.core);
        let end = core.now().saturating_add(millis(core.policy.guard.max_turn));
        while let Some((found, in_flight, pending)) = self.turn().await {
            let now = core.now();
            if pending.idle || in_flight.until <= now {
                if let Some((guard, context)) = self.take(&found, &in_flight).await {
                    // An agent that wants a credential for that is asked again with the client's next request.
                    self.exchange.look(guard, context, pending).await;
                }
                return;
            }
            if now >= end {
                return;
            }
            let left = (in_flight.until - now).saturating_add(GRACE).min(millis(LOOK));
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }
}

/// A turn that another process reads is looked at so often, for whether it still does.
const LOOK: Duration = Duration::from_secs(1);
