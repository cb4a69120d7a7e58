//! Requests of HTTP+JSON: read from method, path, query and body.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::{Taken, converse, passed, take_in};
use crate::a2a::rest::{self, Operation};
use crate::a2a::{Along, Call, Dialect, Endpoint, Verb, jsonrpc};
use crate::conversation::policy::Mode;
use crate::exchange::Refusal;
use crate::json::{Doc, Edits, Kind, Value};
use crate::middleware::body::{BoxError, Boxed, ReplyBody, RequestBody};
use crate::middleware::core::Core;
use crate::middleware::{HOP_HEADER, respond};

/// Headers by which some frameworks read a request with another method than its own: past the guard, and as somebody else's.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// What a request is, by method, path and headers.
pub(super) fn read<B>(request: &Request<B>) -> Result<Option<Operation>, Refusal> {
    if request.headers().contains_key(HOP_HEADER) {
        return Ok(None);
    }
    let path = request.uri().path();
    if let Some(name) = OVERRIDES.iter().find(|name| request.headers().contains_key(**name))
        && rest::may_be_any(path)
    {
        return Err(Refusal::overridden(name));
    }
    Operation::read(request.method(), path).map_err(Refusal::misread)
}

/// The answer to what may be an operation and cannot be read as one.
pub(super) fn refused<B>(request: &Request<B>, refusal: &Refusal) -> Response<ReplyBody> {
    let base = if request.uri().path().contains("/v1/") { "/v1" } else { "" };
    let dialect = dialect_of(base, request.headers(), request.uri().query().unwrap_or_default());
    respond::refused(refusal, &rest::binding(dialect), false)
}

/// The dialect of a request, as far as its head tells.
fn dialect_of(base: &str, headers: &HeaderMap, query: &str) -> Dialect {
    let header = headers.get("a2a-version").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let version = header.or_else(|| rest::in_query(query, "A2A-Version"));
    rest::dialect(base, version.as_deref())
}

/// Serves an operation.
pub(super) async fn serve<S, B2>(
    core: std::sync::Arc<Core>,
    mut inner: S,
    mut head: http::request::Parts,
    body: Boxed,
    operation: Operation,
    gone: CancellationToken,
) -> Result<Response<ReplyBody>, S::Error>
where
    S: Service<Request<RequestBody>, Response = Response<B2>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + 'static,
    B2: Body<Data = Bytes> + Send + 'static,
    B2::Error: Into<BoxError>,
{
    let query = head.uri.query().unwrap_or_default().to_owned();
    let dialect = dialect_of(&operation.base, &head.headers, &query);
    let refuse = |refusal: Refusal| Ok(respond::refused(&refusal, &rest::binding(dialect), false));
    // What a GET has for a body nobody reads, and so it is not passed on.
    let bytes = match head.method {
        Method::POST => match take_in(&core, &mut head, body).await {
            Ok(Taken::Json(bytes)) => bytes,
            Ok(Taken::Other(body)) if core.policy.mode == Mode::Observe => {
                let answer = inner.call(Request::from_parts(head, body)).await?;
                return Ok(answer.map(ReplyBody::untouched));
            }
            Ok(Taken::Other(_)) => return refuse(Refusal::parse_error(0)),
            Err(refusal) => return refuse(refusal),
        },
        _ => Bytes::new(),
    };
    let said = match Said::read(&operation, &query, &bytes, dialect) {
        Ok(said) => said,
        Err(_) if core.policy.mode == Mode::Observe => return passed(inner, head, bytes.clone()).await,
        Err(refusal) => return refuse(refusal),
    };
    let Ok(doc) = Doc::scan(said.params.as_bytes()) else { return refuse(Refusal::internal()) };
    if let Err(refusal) = plain(doc.root()) {
        return refuse(refusal);
    }
    let call = Call {
        verb: operation.verb,
        dialect: said.dialect,
        binding: rest::binding(said.dialect),
        endpoint: Endpoint::HttpJson { base: operation.base },
        params: doc.root(),
        along: Along { query, body: said.body },
    };
    converse(core, inner, head, call, bytes.clone(), gone).await
}

/// What a request says.
struct Said<'b> {
    /// Its parameters, as JSON.
    params: Cow<'b, str>,
    dialect: Dialect,
    /// The body of an operation on a task, without ids.
    body: String,
}

impl<'b> Said<'b> {
    fn read(operation: &Operation, query: &str, bytes: &'b Bytes, dialect: Dialect) -> Result<Self, Refusal> {
        let sends = matches!(operation.verb, Verb::Send | Verb::Stream);
        if !sends {
            let params = match operation.verb {
                Verb::Push(push) => {
                    rest::push_params(push, operation, dialect, bytes).map_err(Refusal::invalid_params)?
                }
                _ => rest::params(&operation.task, query),
            };
            let params = params.into();
            return Ok(Self { params, dialect, body: without_ids(bytes)? });
        }
        let doc = Doc::scan(bytes).map_err(|error| Refusal::parse_error(error.at))?;
        if doc.root().kind() != Kind::Object {
            return Err(Refusal::invalid_params("the body is an object with the message in it"));
        }
        let canonical = rest::canonical(&doc);
        // What the message's shape tells counts more than the path.
        let dialect = canonical.dialect.unwrap_or(dialect);
        Ok(Self { params: canonical.text, dialect, body: String::new() })
    }
}

/// What is read of the parameters can be read in one way only.
fn plain(params: Value<'_, '_>) -> Result<(), Refusal> {
    if params.has_duplicate_names() {
        return Err(Refusal::invalid_params("a member stands twice in the request"));
    }
    let names = ["message", "request", "configuration", "id", "historyLength", "metadata"];
    match jsonrpc::misspelled(params, &names) {
        Some(odd) => Err(Refusal::invalid_params(format!("{odd} is not spelled as A2A has it"))),
        None => Ok(()),
    }
}

/// The body of an operation whose task stands in its path: the ids in it, which some clients repeat there, are the client's.
fn without_ids(bytes: &Bytes) -> Result<String, Refusal> {
    if bytes.trim_ascii().is_empty() {
        return Ok(String::new());
    }
    let doc = Doc::scan(bytes).map_err(|error| Refusal::parse_error(error.at))?;
    let names = ["id", "name", "taskId"];
    if doc.root().has_duplicate_names() || jsonrpc::misspelled(doc.root(), &names).is_some() {
        return Err(Refusal::invalid_params("a member of the body stands twice, or is not spelled as A2A has it"));
    }
    let mut edits = Edits::new();
    edits.remove_members(doc.root(), &names);
    Ok(edits.apply(doc.text()))
}
