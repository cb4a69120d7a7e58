//! Connections to webhooks: only to addresses that may be, judged after names are looked up, so that what is judged is what is connected to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::config::Delivery;
use crate::middleware::BoxError;
use crate::proxy::SetupError;
use crate::proxy::upstream::connect::{native_roots, roots_of};
use crate::push::{Forbidden, Webhooks};

/// Connects to webhooks.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    webhooks: Arc<Webhooks>,
    /// Names are judged by whether TLS is spoken to what they mean.
    plain: HttpsConnector<HttpConnector<Judged>>,
    secure: HttpsConnector<HttpConnector<Judged>>,
}

impl Connector {
    pub(super) fn new(settings: &Delivery) -> Result<Self, SetupError> {
        let webhooks = Arc::new(settings.webhooks.clone());
        let tls = tls(settings)?;
        let connector = |plain| {
            let names = Judged { webhooks: Arc::clone(&webhooks), plain, names: GaiResolver::new() };
            let mut tcp = HttpConnector::new_with_resolver(names);
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_connect_timeout(Some(settings.timeout));
            HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http().enable_http1().wrap_connector(tcp)
        };
        Ok(Self { plain: connector(true), secure: connector(false), webhooks })
    }
}

fn tls(settings: &Delivery) -> Result<ClientConfig, SetupError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
    let roots = match &settings.ca {
        Some(file) => roots_of(file).map_err(|error| SetupError::Authorities(file.clone(), error))?,
        // Where webhooks are allowed without TLS, none may be needed.
        None => native_roots().unwrap_or_else(|error| {
            tracing::warn!(%error, "no webhook can be called over TLS");
            RootCertStore::empty()
        }),
    };
    Ok(builder.map_err(SetupError::Tls)?.with_root_certificates(roots).with_no_client_auth())
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Both are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        // An address in the URL is connected to without any name being looked up.
        if let Err(why) = self.webhooks.check(&url.to_string()) {
            return Box::pin(std::future::ready(Err(denied(why).into())));
        }
        let plain = url.scheme_str() == Some("http");
        let connecting = if plain { self.plain.call(url) } else { self.secure.call(url) };
        Box::pin(connecting)
    }
}

/// Looks names up, and tells of their addresses only those that may be connected to.
#[derive(Clone, Debug)]
struct Judged {
    webhooks: Arc<Webhooks>,
    plain: bool,
    names: GaiResolver,
}

impl Service<Name> for Judged {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, webhooks, plain) = (name.as_str().to_owned(), Arc::clone(&self.webhooks), self.plain);
        let found = self.names.call(name);
        Box::pin(async move {
            let mut why = None;
            let permitted = |address: &SocketAddr| match webhooks.permits(&host, plain, address.ip()) {
                Ok(()) => true,
                Err(forbidden) => {
                    why = Some(forbidden);
                    false
                }
            };
            let left: Vec<_> = found.await?.filter(permitted).collect();
            match why.filter(|_| left.is_empty()) {
                Some(why) => Err(denied(why)),
                None => Ok(left.into_iter()),
            }
        })
    }
}

fn denied(why: Forbidden) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Why an address was refused, where that is what an error says.
pub(super) fn refusal<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Forbidden> {
    error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}
