//! Whether the process lives, and whether it takes new work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Response, StatusCode};

use crate::middleware::ReplyBody;

/// `/livez` and `/readyz`, answered before routing, so that no agent can hide them. Clones share whether the proxy drains.
#[derive(Clone, Debug)]
pub struct Health {
    base: Option<Arc<str>>,
    draining: Arc<AtomicBool>,
}

impl Health {
    /// Answers under `path`; `None`: nowhere.
    pub fn new(path: Option<&str>) -> Self {
        Self { base: path.map(|path| path.trim_end_matches('/').into()), draining: Arc::default() }
    }

    /// From now on the proxy is not ready for new work.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The answer, if this is asked here.
    pub fn answer(&self, method: &Method, path: &str) -> Option<Response<ReplyBody>> {
        let asked = path.strip_prefix(&**self.base.as_ref()?)?;
        let status = match asked {
            "/livez" => StatusCode::OK,
            "/readyz" if self.draining.load(Ordering::Relaxed) => StatusCode::SERVICE_UNAVAILABLE,
            "/readyz" => StatusCode::OK,
            _ => return None,
        };
        (method == Method::GET || method == Method::HEAD).then(|| state(status))
    }
}

fn state(status: StatusCode) -> Response<ReplyBody> {
    let word = if status.is_success() { "ok\n" } else { "draining\n" };
    let mut response = Response::new(ReplyBody::whole(word));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(health: &Health, path: &str) -> Option<u16> {
        health.answer(&Method::GET, path).map(|response| response.status().as_u16())
    }

    #[test]
    fn stands_where_it_is_told() {
        for base in ["", "/"] {
            let health = Health::new(Some(base));
            assert_eq!(status(&health, "/livez"), Some(200));
            assert_eq!(status(&health, "/readyz"), Some(200));
            assert_eq!(status(&health, "/livez/x"), None);
        }
        let health = Health::new(Some("/-/health"));
        assert_eq!(status(&health, "/-/health/livez"), Some(200));
        assert_eq!(status(&health, "/livez"), None);
        assert_eq!(status(&Health::new(None), "/livez"), None);
    }

    #[test]
    fn a_draining_proxy_lives_but_is_not_ready() {
        let health = Health::new(Some("/"));
        health.clone().drain();
        assert_eq!(status(&health, "/livez"), Some(200));
        assert_eq!(status(&health, "/readyz"), Some(503));
    }

    #[test]
    fn a_post_is_the_agents() {
        assert!(Health::new(Some("/")).answer(&Method::POST, "/livez").is_none());
    }
}
