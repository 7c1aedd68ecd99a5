//! cert-manager's controllers (`integration/cert-manager`) issue certificates from the registrations of their own module.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_integration::{Caller, ServerOptions, full, tools};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

/// A certificate that vouches for itself, and one of an authority that is another.
const ISSUED: &str = "\
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: own, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: shop, namespace: default}
spec:
  secretName: shop
  dnsNames: [shop.example.com]
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: own}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: root}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority, namespace: cert-manager}
spec: {isCA: true, commonName: authority, secretName: authority, issuerRef: {name: root, kind: ClusterIssuer}}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: authority}
spec: {ca: {secretName: authority}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf, namespace: default}
spec: {dnsNames: [leaf.example.com], secretName: leaf, issuerRef: {name: authority, kind: ClusterIssuer}}
";

/// A certificate in a secret of the namespace default.
async fn certificate(caller: &Caller, secret: &str, field: &str) -> CertificateDer<'static> {
    let path = format!("jsonpath={{.data.{}}}", field.replace('.', "\\."));
    let text = caller.kubectl(&["get", "secret", secret, "-o", &path]).await.unwrap();
    CertificateDer::from_pem_slice(&STANDARD.decode(text).unwrap()).unwrap()
}

/// Those of its controllers that wait for ingresses, pods or services may wait: no other one needs them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cert_manager_issues_certificates() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("cert-manager").unwrap() else { return };
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let caller = server.caller();
    let registrations = std::fs::read_to_string(program.with_file_name("cert-manager-crds.yaml")).unwrap();
    let create = ["create", "--validate=strict", "-f", "-"];
    caller.kubectl_with(&create, &registrations).await.unwrap().success().unwrap();
    caller.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();
    caller.kubectl(&["create", "namespace", "cert-manager"]).await.unwrap();
    let mut command = tokio::process::Command::new(program);
    caller.environment(&mut command);
    let log = std::fs::File::create(server.scratch().join("cert-manager.log")).unwrap();
    let mut controllers = command.stderr(log).kill_on_drop(true).spawn().unwrap();

    caller.kubectl_with(&create, ISSUED).await.unwrap().success().unwrap();
    let ready = ["wait", "certificate", "shop", "leaf", "--for=condition=Ready", "--timeout=120s"];
    caller.kubectl(&ready).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&caller, "leaf", "ca.crt").await).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let leaf = certificate(&caller, "leaf", "tls.crt").await;
    let name = ServerName::try_from("leaf.example.com").unwrap();
    verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).unwrap();

    // What is lost is issued again. Until an issue has its number, a secret that goes is written once more by the same issue.
    let issued = ["wait", "certificate", "leaf", "--for=jsonpath={.status.revision}=1", "--timeout=120s"];
    caller.kubectl(&issued).await.unwrap();
    caller.kubectl(&["delete", "secret", "leaf"]).await.unwrap();
    let again = ["wait", "certificate", "leaf", "--for=jsonpath={.status.revision}=2", "--timeout=120s"];
    caller.kubectl(&again).await.unwrap();
    assert_ne!(certificate(&caller, "leaf", "tls.crt").await, leaf);

    // The requests of a certificate are its own.
    caller.kubectl(&["delete", "certificate", "shop"]).await.unwrap();
    let gone = ["wait", "certificaterequest", "shop-1", "--for=delete", "--timeout=60s"];
    caller.kubectl(&gone).await.unwrap();
    controllers.kill().await.unwrap();
}
