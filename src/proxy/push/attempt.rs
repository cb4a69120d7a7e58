//! One attempt to deliver a notification: a POST, and what its answer means.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Full;

use super::{Courier, connect};
use crate::middleware::BoxError;
use crate::proxy::chain;
use crate::push::{Forbidden, Notification, PushConfig};

/// What the webhook knows the sender by.
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");

/// What became of an attempt.
pub(super) enum Attempt {
    Taken,
    /// It is tried again.
    Failed(String),
    /// It never will be.
    Refused(String),
}

impl Courier {
    pub(super) async fn post(&self, notification: &Notification, config: &PushConfig) -> Attempt {
        let url = match self.settings.webhooks.check(&config.url) {
            Ok(url) => url,
            Err(why) => return Attempt::Refused(why.to_string()),
        };
        let current = Notification { config: config.clone(), ..notification.clone() };
        let request = match request(url, &current, notification.content_type()) {
            Ok(request) => request,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return Attempt::Failed(chain(&error)),
        };
        let answer = tokio::time::timeout(self.settings.timeout, client.request(request)).await;
        match answer {
            // Of the answer's body nothing is read.
            Ok(Ok(answer)) => judged(answer.status()),
            Ok(Err(error)) => match forbidden(&error) {
                Some(why) => Attempt::Refused(why.to_string()),
                None => Attempt::Failed(chain(&error)),
            },
            Err(_) => Attempt::Failed("the webhook does not answer".to_owned()),
        }
    }
}

fn judged(status: StatusCode) -> Attempt {
    match status {
        status if status.is_success() => Attempt::Taken,
        StatusCode::GONE => Attempt::Refused("the webhook is gone".to_owned()),
        // A redirection is not followed: it may lead anywhere.
        status => Attempt::Failed(format!("the webhook answers {status}")),
    }
}

fn request(
    url: Uri,
    notification: &Notification,
    content_type: &'static str,
) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = Request::post(url).body(Full::from(notification.body.clone()))?;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    if let Some(token) = &notification.config.token {
        headers.insert(TOKEN, secret(token)?);
    }
    if let Some(authorization) = notification.authorization() {
        headers.insert(header::AUTHORIZATION, secret(&authorization)?);
    }
    Ok(request)
}

fn secret(text: &str) -> Result<HeaderValue, BoxError> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

const AGENT: &str = concat!("a2a-multiturn/", env!("CARGO_PKG_VERSION"));

/// Whether the connector refused the address, wherever that stands in the chain.
fn forbidden<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Forbidden> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(why) = connect::refusal(error) {
            return Some(why);
        }
        cause = error.source();
    }
    None
}
