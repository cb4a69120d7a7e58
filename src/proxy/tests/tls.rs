//! Agents behind https.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::upstream::{Phase, UpstreamError};
use super::*;
use crate::middleware::RequestBody;

/// An authority of the test's own, in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    fn acceptor(&self, alpn: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            builder.unwrap().with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// An agent that answers with the version and the host it was asked with. Its URL.
async fn tls_agent(acceptor: TlsAcceptor) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/base", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let connection = async move {
                let service = service_fn(|request| async { echo(request).await });
                auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
            };
            tokio::spawn(connection);
        }
    });
    url
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let host = if parts.version == Version::HTTP_2 {
        assert!(!parts.headers.contains_key("host"), "a literal Host beside :authority");
        parts.uri.host().map(str::to_owned)
    } else {
        parts.headers.get("host").map(|host| host.to_str().unwrap().split(':').next().unwrap().to_owned())
    };
    let body = String::from_utf8(body.collect().await?.to_bytes().into()).unwrap();
    let said = format!("{:?} {} {} {body}", parts.version, host.unwrap_or_default(), parts.uri.path());
    Ok(Response::new(said.into()))
}

#[tokio::test]
async fn an_https_agent_is_reached_over_what_it_offers() {
    let authority = Authority::new();
    for (alpn, version) in [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")] {
        let mut config = config(&tls_agent(authority.acceptor(alpn)).await);
        config.routes[0].upstream.ca = Some(authority.file.path().to_owned());
        let running = serve_bare(&config).await;
        let mut client = running.connect().await;
        for _ in 0..2 {
            client
                .send("POST /rpc HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
                .await;
            let (_, body) = client.message().await;
            assert_eq!(body, format!("{version} localhost /base/rpc {{}}"));
        }
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_not_trusted() {
    let url = tls_agent(Authority::new().acceptor(&[])).await;
    let mut route = route(&url);
    for ca in [None, Some(Authority::new())] {
        route.upstream.ca = ca.as_ref().map(|ca| ca.file.path().to_owned());
        let upstream = Upstream::new(&route, &Uri::from_static("http://front.example"));
        // A machine without any authorities is told so before the first request.
        let Ok(mut upstream) = upstream else {
            assert!(matches!(upstream, Err(SetupError::NoAuthorities)));
            continue;
        };
        let answer = upstream.call(Request::new(RequestBody::empty())).await;
        assert!(matches!(answer, Err(UpstreamError::Unreachable(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn the_limit_on_connecting_covers_the_handshake() {
    let authority = Authority::new();
    let (_silent, url) = agent().await;
    let mut route = route(&url.replace("http:", "https:"));
    route.upstream.ca = Some(authority.file.path().to_owned());
    route.upstream.connect_timeout = Duration::from_millis(100);
    let answer = an_upstream(&route).call(Request::new(RequestBody::empty())).await;
    assert!(matches!(answer, Err(UpstreamError::Timeout(Phase::Connect, _))), "{answer:?}");
}

#[tokio::test]
async fn a_file_without_authorities_is_refused() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let mut route = route("https://localhost");
    for file in [empty.path().to_owned(), PathBuf::from("/no/such/file.pem")] {
        route.upstream.ca = Some(file);
        let upstream = Upstream::new(&route, &Uri::from_static("http://front.example"));
        assert!(matches!(upstream, Err(SetupError::Authorities(..))));
    }
}
