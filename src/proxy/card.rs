//! The agent card of a route: fetched from the agent, shown as the proxy's own (semantics 9).

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use http_body_util::Limited;
use tower_service::Service;

use super::{RouteService, SetupError, Upstream};
use crate::a2a::Dialect;
use crate::a2a::card::{self, Binding, Located, Places, Seen, Serves};
use crate::config::Route;
use crate::middleware::{BoxError, CardRewrite, ReplyBody, RequestBody, decode};

/// A card larger than this is none.
const LARGEST: usize = 4 << 20;

/// How long the agent may take over its card when the proxy starts.
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
    /// The last card that could be shown, for when the agent is down.
    last: Mutex<Option<(HeaderMap, String)>>,
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
            last: Mutex::default(),
        };
        let seen = inner.look().await;
        if let Ok(seen) = &seen {
            inner.mount.clone_from(&seen.mount);
        }
        let base = format!("{}{}", inner.located.origin, inner.mount).parse().map_err(invalid)?;
        Ok(Discovered { cards: Self(Arc::new(inner)), base, seen })
    }

    /// Says under which URL clients reach the route, without a slash at the end.
    pub fn set_base(&self, base: &str) {
        // Only the first call counts: a listener is bound once.
        let _ = self.0.base.set(base.to_owned());
    }

    /// What is lost of the card when the proxy shows it; or why nothing of it can be shown.
    pub async fn shown(&self) -> Result<Vec<String>, String> {
        let fetched = self.0.fetch(&Method::GET, &HeaderMap::new()).await.map_err(|error| error.to_string())?;
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
        Serves { bindings: &[Binding::JsonRpc], dialects, streaming: true, push: false, rules: &self.rules }
    }

    fn rewrite(&self, card: &[u8]) -> Result<card::Rewritten, card::CardError> {
        card::rewrite(card, &self.places(), &self.serves())
    }

    async fn look(&self) -> Result<Seen, String> {
        let fetch = async { self.fetch(&Method::GET, &HeaderMap::new()).await };
        let fetched = tokio::time::timeout(PATIENCE, fetch).await.map_err(|_| "it does not answer".to_owned())?;
        let (_, card) = fetched.map_err(|error| chain(&*error))?;
        card::read(&card, &self.places()).map_err(|error| error.to_string())
    }

    async fn serve(&self, method: &Method, asked: &HeaderMap) -> Response<ReplyBody> {
        let shown = match self.fetch(&Method::GET, asked).await {
            Ok((headers, card)) => match self.rewrite(&card) {
                Ok(rewritten) => Ok((headers, rewritten.body)),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(chain(&*error)),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (shown, &*last) {
            (Ok(shown), _) => {
                let answer = answer(method, asked, &shown.0, &shown.1);
                *last = Some(shown);
                answer
            }
            (Err(why), Some((headers, body))) => {
                tracing::warn!(%why, "the agent card is served as it was last seen");
                answer(method, asked, headers, body)
            }
            (Err(why), None) => {
                tracing::warn!(%why, "no agent card");
                unavailable(&why)
            }
        }
    }

    /// The card as the agent has it, from the first place where there is one.
    async fn fetch(&self, method: &Method, headers: &HeaderMap) -> Result<(HeaderMap, Bytes), BoxError> {
        let mut failed: BoxError = "the agent has no card".into();
        for url in &self.located.card_urls {
            let path = url.strip_prefix(&self.located.origin).unwrap_or(url);
            match self.get(method, path, headers).await {
                Ok(fetched) => return Ok(fetched),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn get(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(HeaderMap, Bytes), BoxError> {
        let mut request = Request::builder().method(method).uri(path).body(RequestBody::empty())?;
        *request.headers_mut() = headers.clone();
        // The whole card is needed, whatever part of it the client has, and in bytes that can be read.
        for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::RANGE, header::CONTENT_LENGTH] {
            request.headers_mut().remove(name);
        }
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let (head, body) = self.upstream.clone().call(request).await?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
        if head.status != StatusCode::OK {
            return Err(format!("the agent answers {} at {path}", head.status).into());
        }
        let encoding = head.headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        let body = match encoding {
            Some(encoding) => {
                decode(encoding, &body, LARGEST).ok_or("the card's content-encoding cannot be decoded")?
            }
            None => body,
        };
        Ok((head.headers, body))
    }
}

/// An error with what stands behind it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
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

fn unavailable(why: &str) -> Response<ReplyBody> {
    let body = format!("{{\"error\":{}}}", crate::json::quote(&format!("no agent card: {why}")));
    let mut response = Response::new(ReplyBody::whole(body));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
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
