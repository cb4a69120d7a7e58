//! Where Redis is, and whether it is it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::server::{Server, free_port};
use super::*;
use crate::binary::process::run;

#[tokio::test]
async fn redis_behind_tls_is_trusted_for_its_certificate_alone() {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let own = own.signed_by(&key, &authority).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let (trusted, own) = (write("ca.pem", authority.pem()), write("own.pem", own.pem()));
    let key = write("key.pem", key.serialize_pem());
    let port = free_port().to_string();
    let [own, key, ca] = [&own, &key, &trusted].map(|path| path.to_str().unwrap());
    let tls = ["--tls-port", &port, "--tls-cert-file", own, "--tls-key-file", key, "--tls-ca-cert-file", ca];
    let more = ["--tls-auth-clients", "no", "--save", ""];
    let _server = Server::start("redis-server", 0, &[&tls[..], &more].concat());
    let (url, agent) = (format!("rediss://127.0.0.1:{port}"), Agent::saying(clerk));
    let proxy = Proxy::sharing_over_tls(&url, &config(&agent), &trusted).await;
    assert_eq!(state(&proxy.call("/", &send("c", None, "Hello")).await).0, "COMPLETED");
    let ended = run(["serve", "--listen", "127.0.0.1:0", "--upstream", &agent.url(), "--store", &url]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("cannot keep conversations in Redis"), "{}", ended.err);
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_told_at_the_start_without_the_password() {
    let (agent, nobody) = (Agent::saying(clerk), free_port());
    let url = format!("redis://ada:secret@127.0.0.1:{nobody}");
    let ended = run(["serve", "--listen", "127.0.0.1:0", "--upstream", &agent.url(), "--store", &url]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("Redis") && !ended.err.contains("secret"), "{}", ended.err);
    let server = Server::on_socket("redis-server");
    let mut proxy = Proxy::sharing(&format!("{}?db=1", server.socket_url()), &config(&agent)).await;
    assert!(proxy.line("store: ").await.contains("/socket; shared with whoever uses it too"));
}
