//! HTTP for one answer at a time: bounded, within a time, no redirects.

use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, uri::Scheme};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use super::fault::{self, ClientError};
use crate::a2a::Dialect;

/// Longer answers are not read: nobody reads them on a command line.
const MOST: usize = 16 << 20;

const CONNECT_TIME: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub(super) struct Received {
    pub status: StatusCode,
    /// `content-type`, as it came; empty where there is none.
    pub media_type: String,
    pub location: Option<String>,
    pub body: Bytes,
}

impl Received {
    /// Told by the bytes: agents send cards as `text/plain` and `application/octet-stream` too.
    pub fn looks_like_json(&self) -> bool {
        self.body.trim_ascii_start().first() == Some(&b'{')
    }

    pub fn is_html(&self) -> bool {
        self.media_type.starts_with("text/html") || self.body.trim_ascii_start().first() == Some(&b'<')
    }
}

/// The way to one origin.
pub(super) struct Http {
    pool: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    headers: HeaderMap,
}

impl Http {
    pub fn new(origin: &Uri, mut headers: HeaderMap) -> Result<Self, ClientError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIME));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls(origin)?).https_or_http();
        let connector = tls.enable_all_versions().wrap_connector(tcp);
        let agent = HeaderValue::from_static(concat!("a2a-multiturn/", env!("CARGO_PKG_VERSION")));
        headers.entry(header::USER_AGENT).or_insert(agent);
        let mut pool = legacy::Client::builder(TokioExecutor::new());
        // A person thinks for longer than agents keep connections, and a send that meets a closing one cannot be repeated.
        pool.pool_max_idle_per_host(0);
        Ok(Self { pool: pool.build(connector), headers })
    }

    pub async fn get(&self, url: &Uri, within: Duration) -> Result<Received, ClientError> {
        let mut request = self.request(Method::GET, url, Bytes::new());
        // Agents with two cards choose by it.
        version(request.headers_mut());
        self.exchange(request, within).await
    }

    pub async fn post(
        &self,
        url: &Uri,
        dialect: Dialect,
        body: String,
        within: Duration,
    ) -> Result<Received, ClientError> {
        let mut request = self.request(Method::POST, url, body.into());
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if dialect == Dialect::V10 {
            version(headers);
        }
        self.exchange(request, within).await
    }

    fn request(&self, method: Method, url: &Uri, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        request
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, within: Duration) -> Result<Received, ClientError> {
        let url = request.uri().clone();
        let exchange = async {
            let response = self.pool.request(request).await.map_err(|error| fault::unreachable(&url, &error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MOST).collect().await.map_err(|error| match error.downcast_ref() {
                Some(LengthLimitError { .. }) => fault::too_long(&url, MOST),
                None => fault::cut(&url, &*error),
            })?;
            let word =
                |name| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            Ok(Received {
                status: head.status,
                media_type: word(header::CONTENT_TYPE).unwrap_or_default(),
                location: word(header::LOCATION),
                body: body.to_bytes(),
            })
        };
        tokio::time::timeout(within, exchange).await.unwrap_or_else(|_| Err(fault::too_slow(&url, within)))
    }
}

fn version(headers: &mut HeaderMap) {
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
}

fn tls(origin: &Uri) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    // Reading the system's takes milliseconds and may fail: not for an agent that is spoken to in the clear.
    if origin.scheme() == Some(&Scheme::HTTPS) {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(ClientError::Unreachable(
                "this system has no certificate authorities: install ca-certificates, or name a file in SSL_CERT_FILE"
                    .into(),
            ));
        }
    }
    let builder = ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| ClientError::Unreachable(format!("TLS cannot be set up: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
