//! Connections to the agent: TCP, TLS where the URL says https, and the pool that keeps them.

use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

use super::body::Outgoing;
use crate::config::Upstream;
use crate::middleware::BoxError;
use crate::proxy::SetupError;

/// How often an HTTP/2 connection is asked whether it still lives: a dead one would take every new request with it, each for the whole wait
/// for a first byte.
const H2_PING: Duration = Duration::from_secs(30);

/// The pooled client for an upstream.
pub fn client(upstream: &Upstream) -> Result<Client<Connector, Outgoing>, SetupError> {
    Ok(Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(upstream.pool_idle)
        .pool_max_idle_per_host(upstream.connections)
        .http2_keep_alive_interval(H2_PING)
        .http2_adaptive_window(true)
        // Only what was never begun: see the module's head.
        .retry_canceled_requests(true)
        .build(Connector::new(upstream)?))
}

/// Connects within a limit that covers names, TCP and TLS; the inner connector's own covers TCP alone.
#[derive(Clone, Debug)]
pub struct Connector {
    inner: HttpsConnector<HttpConnector>,
    limit: Duration,
}

/// Connecting took too long.
#[derive(Debug, thiserror::Error)]
#[error("connecting took longer than {0:?}")]
pub struct ConnectTimeout(Duration);

impl Connector {
    fn new(upstream: &Upstream) -> Result<Self, SetupError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(upstream.connect_timeout));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls(upstream)?);
        let inner = tls.https_or_http().enable_all_versions().wrap_connector(tcp);
        Ok(Self { inner, limit: upstream.connect_timeout })
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let limit = self.limit;
        Box::pin(async move {
            tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| Err(ConnectTimeout(limit).into()))
        })
    }
}

fn tls(upstream: &Upstream) -> Result<ClientConfig, SetupError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let roots = match &upstream.ca {
        // Reading the system's takes milliseconds and may fail: not for an agent that is spoken to in the clear.
        None if upstream.url.scheme() == Some(&Scheme::HTTP) => RootCertStore::empty(),
        None => native_roots()?,
        Some(file) => roots_of(file).map_err(|e| SetupError::Authorities(file.to_path_buf(), e))?,
    };
    Ok(builder.map_err(SetupError::Tls)?.with_root_certificates(roots).with_no_client_auth())
}

pub(in crate::proxy) fn native_roots() -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 { Err(SetupError::NoAuthorities) } else { Ok(roots) }
}

/// These and no others: who names the authorities does not mean the rest of the world's.
pub(in crate::proxy) fn roots_of(file: &Path) -> Result<RootCertStore, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    if roots.is_empty() { Err("no certificate in it".into()) } else { Ok(roots) }
}
