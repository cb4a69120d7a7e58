//! The agent card of a route: fetched from the agent, shown as the proxy's own (semantics 9).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, response};
use http_body_util::BodyExt;
use http_body_util::Limited;
use tower_service::Service;

use super::{RouteService, SetupError, Upstream, chain};
use crate::a2a::Dialect;
use crate::a2a::card::{self, Binding, Located, Places, Seen, Serves};
use crate::config::Route;
use crate::middleware::{AgentPushes, BoxError, CardRewrite, ReplyBody, RequestBody, decode};

/// A card larger than this is none.
const LARGEST: usize = 4 << 20;

/// How long the agent may take over its card, which agents have in memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a route's agent is, and how its card is shown. Clones are one.
#[derive(Clone)]
pub struct Cards(Arc<Inner>);

struct Inner {
    upstream: Upstream,
    located: Located,
    path: Option<String>,
    mount: String,
    /// The public URL of the route; known once the listener is bound.
    base: OnceLock<String>,
    rules: String,
    /// Whether the proxy pushes.
    pushes: bool,
    /// Whether the agent does, as its card says.
    agent_pushes: AgentPushes,
    /// The last card that anybody might see, for when the agent is down.
    last: Mutex<Option<Fetched>>,
}

/// The card as the agent has it, with its headers.
type Fetched = (HeaderMap, Bytes);

/// Why there is no card.
#[derive(Debug, thiserror::Error)]
enum NoCard {
    /// The agent does not show it to this client.
    #[error("the agent answers {} at {path}", head.status)]
    Refused { head: Box<response::Parts>, path: String },
    /// The agent cannot be asked, or does not know itself what to say.
    #[error("{}", chain(&**.0))]
    Failed(BoxError),
}

impl NoCard {
    fn says_not_found(&self) -> bool {
        matches!(self, Self::Refused { head, .. } if head.status == StatusCode::NOT_FOUND)
    }
}

/// What was learned of an agent by reading its card.
#[derive(Debug)]
pub struct Discovered {
    /// How its card is shown.
    pub cards: Cards,
    /// The base URL to which calls go.
    pub base: Uri,
    /// What its card says; or why it could not be read.
    pub seen: Result<Seen, String>,
}

impl Cards {
    /// Reads the card of a route's agent. An agent that is down is no error: it may come later.
    ///
    /// # Errors
    /// A route whose upstream cannot be called at all.
    pub async fn discover(route: &Route) -> Result<Discovered, SetupError> {
        let located = card::locate(&route.upstream.url.to_string());
        let invalid = |_| SetupError::Url(route.upstream.url.clone());
        let mut bare = route.clone();
        bare.prefix = String::new();
        bare.upstream.url = located.origin.parse().map_err(invalid)?;
        let upstream = Upstream::new(&bare, &Uri::from_static("http://proxy.invalid"))?;
        let mut inner = Inner {
            upstream,
            path: route.upstream.path.clone(),
            mount: located.path.clone(),
            located,
            base: OnceLock::new(),
            rules: rules(route),
            pushes: route.relays_push(),
            agent_pushes: AgentPushes::default(),
            last: Mutex::default(),
        };
        let seen = inner.look().await;
        if let Ok(seen) = &seen {
            inner.mount.clone_from(&seen.mount);
        }
        let rpc = seen.as_ref().ok().and_then(|seen| seen.rpc_path.as_deref());
        let root = root(&inner.mount, [rpc.unwrap_or_default(), route.upstream.url.path()]);
        let base = format!("{}{root}", inner.located.origin).parse().map_err(invalid)?;
        Ok(Discovered { cards: Self(Arc::new(inner)), base, seen })
    }

    /// Says under which URL clients reach the route, without a slash at the end.
    pub fn set_base(&self, base: &str) {
        // Only the first call counts: a listener is bound once.
        let _ = self.0.base.set(base.to_owned());
    }

    /// Whether the agent pushes, as its card says now and later.
    pub fn agent_pushes(&self) -> AgentPushes {
        self.0.agent_pushes.clone()
    }

    /// What is lost of the card when the proxy shows it; or why nothing of it can be shown.
    pub async fn shown(&self) -> Result<Vec<String>, String> {
        let fetched = self.0.fetch(&HeaderMap::new()).await.map_err(|error| error.to_string())?;
        self.0.rewrite(&fetched.1).map(|rewritten| rewritten.warnings).map_err(|error| error.to_string())
    }

    /// Serves GET and HEAD of the card.
    pub fn service(&self) -> RouteService {
        let inner = Arc::clone(&self.0);
        RouteService::from_fn(move |request| {
            let inner = Arc::clone(&inner);
            // The body, which a GET has none of, is not `Sync`.
            let (head, _) = request.into_parts();
            async move { Ok(inner.serve(&head.method, &head.headers).await) }
        })
    }

    /// Rewrites the extended card inside the answer to its own method.
    pub fn rewriting(&self) -> CardRewrite {
        let inner = Arc::clone(&self.0);
        Arc::new(move |value, edits| {
            let serves = inner.serves();
            card::rewrite_value(value, edits, &inner.places(), &serves).map(drop).map_err(|error| error.to_string())
        })
    }
}

impl Inner {
    fn places(&self) -> Places<'_> {
        Places {
            base: self.base.get().map_or("", |base| base),
            origin: &self.located.origin,
            mount: &self.mount,
            path: self.path.as_deref(),
        }
    }

    fn serves(&self) -> Serves<'_> {
        let dialects = &[Dialect::V03, Dialect::V10];
        Serves {
            bindings: &[Binding::JsonRpc, Binding::HttpJson],
            dialects,
            streaming: true,
            push: self.pushes,
            rules: &self.rules,
        }
    }

    fn rewrite(&self, card: &[u8]) -> Result<card::Rewritten, card::CardError> {
        card::rewrite(card, &self.places(), &self.serves())
    }

    async fn look(&self) -> Result<Seen, String> {
        let fetched = self.fetch(&HeaderMap::new()).await.map_err(|error| error.to_string())?;
        let seen = self.read(&fetched);
        self.keep(fetched);
        seen
    }

    fn read(&self, fetched: &Fetched) -> Result<Seen, String> {
        let seen = card::read(&fetched.1, &self.places()).map_err(|error| error.to_string())?;
        self.agent_pushes.set(seen.push);
        Ok(seen)
    }

    async fn serve(&self, method: &Method, asked: &HeaderMap) -> Response<ReplyBody> {
        let why = match self.fetch(asked).await {
            Ok(fetched) => match self.rewrite(&fetched.1) {
                Ok(shown) => {
                    let answer = answer(method, asked, &fetched.0, &shown.body);
                    if is_for_all(asked, &fetched.0) {
                        // An agent that was down when the proxy started, or has learned to push.
                        let _ = self.read(&fetched);
                        self.keep(fetched);
                    }
                    return answer;
                }
                Err(error) => error.to_string(),
            },
            Err(refusal @ NoCard::Refused { .. }) => return unavailable(&refusal.to_string(), Some(&refusal)),
            Err(error) => error.to_string(),
        };
        if let Some((headers, body)) = self.kept() {
            tracing::warn!(%why, "the agent card is served as it was last seen");
            return answer(method, asked, &headers, &body);
        }
        tracing::warn!(%why, "no agent card");
        unavailable(&why, None)
    }

    fn keep(&self, fetched: Fetched) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(fetched);
    }

    /// The last card, as the proxy shows it.
    fn kept(&self) -> Option<(HeaderMap, String)> {
        let (headers, card) = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some((headers, self.rewrite(&card).ok()?.body))
    }

    /// The card as the agent has it, from the first place where there is one.
    async fn fetch(&self, headers: &HeaderMap) -> Result<Fetched, NoCard> {
        let found = tokio::time::timeout(PATIENCE, self.find(headers)).await;
        found.unwrap_or_else(|_| Err(NoCard::Failed("it does not answer".into())))
    }

    async fn find(&self, headers: &HeaderMap) -> Result<Fetched, NoCard> {
        let mut failed = None;
        for url in &self.located.card_urls {
            let path = url.strip_prefix(&self.located.origin).unwrap_or(url);
            match self.get(path, headers).await {
                Ok(fetched) => return Ok(fetched),
                // That there is none in one of the places says less than any other fault.
                Err(error) => failed = failed.filter(|failed: &NoCard| !failed.says_not_found()).or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| NoCard::Failed("the agent has no card".into())))
    }

    async fn get(&self, path: &str, headers: &HeaderMap) -> Result<Fetched, NoCard> {
        let (head, body) = self.ask(path, headers).await.map_err(NoCard::Failed)?;
        match head.status {
            StatusCode::OK => decoded(head.headers, body).map_err(NoCard::Failed),
            status if status.is_client_error() => Err(NoCard::Refused { head: Box::new(head), path: path.to_owned() }),
            status => Err(NoCard::Failed(format!("the agent answers {status} at {path}").into())),
        }
    }

    async fn ask(&self, path: &str, headers: &HeaderMap) -> Result<(response::Parts, Bytes), BoxError> {
        let mut request = Request::builder().uri(path).body(RequestBody::empty())?;
        *request.headers_mut() = headers.clone();
        // The whole card is needed, whatever part of it the client has, and in bytes that can be read.
        for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::RANGE, header::CONTENT_LENGTH] {
            request.headers_mut().remove(name);
        }
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let (head, body) = self.upstream.clone().call(request).await?.into_parts();
        Ok((head, Limited::new(body, LARGEST).collect().await?.to_bytes()))
    }
}

/// The path of the base, with the slash at the end that the card gives it, else whoever configured it: agents differ on that.
fn root<'a>(mount: &'a str, said: [&'a str; 2]) -> &'a str {
    said.into_iter().find(|path| !path.is_empty() && path.trim_end_matches('/') == mount).unwrap_or(mount)
}

fn decoded(headers: HeaderMap, body: Bytes) -> Result<Fetched, BoxError> {
    let encoding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let body = match encoding {
        Some(encoding) => decode(encoding, &body, LARGEST).ok_or("the card's content-encoding cannot be decoded")?,
        None => body,
    };
    Ok((headers, body))
}

/// Whether anybody may see this card: it was asked for without a credential, and the agent does not forbid to keep it.
fn is_for_all(asked: &HeaderMap, from: &HeaderMap) -> bool {
    let forbids = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
        value.contains("private") || value.contains("no-store")
    };
    !asked.contains_key(header::AUTHORIZATION)
        && !asked.contains_key(header::COOKIE)
        && !from.get_all(header::CACHE_CONTROL).iter().any(forbids)
}

/// The card, with caching headers that are those of these bytes.
fn answer(method: &Method, asked: &HeaderMap, from: &HeaderMap, body: &str) -> Response<ReplyBody> {
    let etag = card::etag(body.as_bytes());
    let matches = |value: &HeaderValue| {
        let listed = value.to_str().unwrap_or_default();
        listed.split(',').any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == etag)
    };
    let unchanged = asked.get_all(header::IF_NONE_MATCH).iter().any(matches);
    let length = body.len();
    let empty = unchanged || *method == Method::HEAD;
    let mut response = Response::new(if empty { ReplyBody::empty() } else { ReplyBody::whole(body.to_owned()) });
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for name in [header::CACHE_CONTROL, header::VARY] {
        for value in from.get_all(&name) {
            headers.append(&name, value.clone());
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    if *method == Method::HEAD && !unchanged {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// Why there is no card; where the agent says no, its status, and how to ask for a yes.
fn unavailable(why: &str, refusal: Option<&NoCard>) -> Response<ReplyBody> {
    let body = format!("{{\"error\":{}}}", crate::json::quote(&format!("no agent card: {why}")));
    let mut response = Response::new(ReplyBody::whole(body));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    if let Some(NoCard::Refused { head, .. }) = refusal {
        *response.status_mut() = head.status;
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
            for value in head.headers.get_all(&name) {
                response.headers_mut().append(&name, value.clone());
            }
        }
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// By what rules replies are rebuilt: the params of the extension's declaration.
fn rules(route: &Route) -> String {
    let list = |words: &[String]| {
        let words: Vec<_> = words.iter().map(|word| crate::json::quote(word)).collect();
        words.join(",")
    };
    let reply = &route.policy.reply;
    format!(
        "{{\"reply_artifacts\":[{}],\"reply_skip\":[{}],\"markers\":[{}]}}",
        list(&reply.artifacts),
        list(&reply.skip),
        list(&route.policy.rewrite.question.markers)
    )
}

impl fmt::Debug for Cards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cards").field("located", &self.0.located).field("mount", &self.0.mount).finish_non_exhaustive()
    }
}
