//! What browsers from elsewhere may do, where the route says so; else the agent's own answers stand.

use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

use super::SetupError;
use crate::config::Cors;
use crate::middleware::ReplyBody;

/// What a client needs from a reply and a browser hides unless told. Named one by one: `*` does not hold with credentials.
const EXPOSED: [HeaderName; 8] = [
    HeaderName::from_static("a2a-version"),
    HeaderName::from_static("a2a-extensions"),
    HeaderName::from_static("x-a2a-extensions"),
    HeaderName::from_static("a2a-multiturn"),
    header::ETAG,
    header::LOCATION,
    header::RETRY_AFTER,
    header::WWW_AUTHENTICATE,
];

/// The layer for a route's rule. Methods and headers are mirrored: `*` would not cover Authorization.
pub fn layer(rule: &Cors) -> Result<CorsLayer, SetupError> {
    Ok(CorsLayer::new()
        .allow_origin(origins(rule)?)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .allow_credentials(rule.credentials)
        .expose_headers(EXPOSED)
        .max_age(rule.max_age))
}

fn origins(rule: &Cors) -> Result<AllowOrigin, SetupError> {
    if rule.origins.iter().any(|origin| origin == "*") {
        return if rule.credentials { Err(SetupError::CredentialsForAll) } else { Ok(AllowOrigin::any()) };
    }
    let parse = |origin: &String| HeaderValue::from_str(origin).map_err(|_| SetupError::Origin(origin.clone()));
    rule.origins.iter().map(parse).collect::<Result<Vec<_>, _>>().map(AllowOrigin::list)
}

/// Whether this asks for permission; any other OPTIONS request is the agent's to answer.
pub fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// `CorsLayer` answers preflights with it.
impl Default for ReplyBody {
    fn default() -> Self {
        Self::empty()
    }
}
