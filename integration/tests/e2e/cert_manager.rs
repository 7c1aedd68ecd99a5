//! cert-manager's controllers (`integration/cert-manager`) issue certificates from the registrations of their own module.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_integration::{Caller, ServerOptions, full, tools};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::foreign::Gate;
use crate::support::{namespace, refused, until};

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

/// A request to be signed, as a CertificateRequest has it.
fn signing_request() -> String {
    let (mut params, key) =
        (CertificateParams::new(vec!["shop.example.com".to_owned()]).unwrap(), KeyPair::generate().unwrap());
    params.distinguished_name.push(DnType::CommonName, "shop.example.com");
    STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap())
}

/// The webhook of its module changes, judges and refuses objects, and while it is away nobody writes any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cert_managers_webhook_judges_its_types() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("cert-manager-webhook").unwrap() else { return };
    let gate = Gate::open().await;
    let resolver = format!("cert-manager/cert-manager-webhook:443=127.0.0.1:{}", gate.port);
    let options = ServerOptions::default().args(&["--profile=kubernetes", "--service-resolver", &resolver]);
    let server = options.start().await.unwrap();
    let (client, caller) = (server.client().unwrap(), server.caller());
    let registrations = program.with_file_name("cert-manager-crds.yaml");
    let registrations = std::fs::read_to_string(registrations).unwrap();
    let create = ["create", "--validate=strict", "-f", "-"];
    caller.kubectl_with(&create, &registrations).await.unwrap().success().unwrap();
    caller.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();
    namespace(&client, "cert-manager").await;
    let mut webhook = gate.lead_to(&server, "webhook", Command::new(&program)).await;
    // Its CA injector would read the authority from here.
    let secret =
        until(&client, "/api/v1/namespaces/cert-manager/secrets", "cert-manager-webhook-ca", |secret| {
            secret["data"]["ca.crt"].is_string()
        });
    let bundle = secret.await["data"]["ca.crt"].clone();
    let hook = |path: &str, resources: &str, operations: &[&str]| {
        json!({
            "name": "webhook.cert-manager.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "matchPolicy": "Equivalent", "failurePolicy": "Fail", "timeoutSeconds": 30,
            "rules": [{"apiGroups": ["cert-manager.io", "acme.cert-manager.io"], "apiVersions": ["v1"],
                "operations": operations, "resources": [resources]}],
            "clientConfig": {"caBundle": bundle,
                "service": {"namespace": "cert-manager", "name": "cert-manager-webhook", "path": path}},
        })
    };
    let configured = |kind: &str, hook: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "cert-manager-webhook"}, "webhooks": [hook]})
    };
    let validating = hook("/validate", "*/*", &["CREATE", "UPDATE"]);
    let mutating = hook("/mutate", "certificaterequests", &["CREATE"]);
    for (kind, hook) in
        [("ValidatingWebhookConfiguration", validating), ("MutatingWebhookConfiguration", mutating)]
    {
        let object = configured(kind, hook).to_string();
        caller.kubectl_with(&create, &object).await.unwrap().success().unwrap();
    }
    caller.kubectl_with(&create, ISSUED).await.unwrap().success().unwrap();

    // What only the webhook knows: the schema takes it.
    let patch = ["patch", "certificate", "shop", "--type=merge", "-p"];
    let patched = async |spec: &str| {
        let args: Vec<&str> = patch.iter().copied().chain([spec]).collect();
        caller.kubectl_with(&args, "").await.unwrap()
    };
    let wrong = patched(r#"{"spec": {"duration": "1h", "renewBefore": "2h"}}"#).await;
    let why = "admission webhook \"webhook.cert-manager.io\" denied the request: spec.";
    let wrong = wrong.success().unwrap_err().to_string();
    assert!(wrong.contains(why), "{wrong}");
    patched(r#"{"spec": {"duration": "2h", "renewBefore": "1h"}}"#).await.success().unwrap();

    // Who asks for a certificate is written into the request, whatever it says, and stays there.
    let request = json!({"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": {"name": "one"},
        "spec": {"request": signing_request(), "issuerRef": {"name": "own"}}});
    let requests = "/apis/cert-manager.io/v1/namespaces/default/certificaterequests";
    let created = client.post(requests, &request).await.unwrap().expect_status(201).unwrap();
    assert_eq!(created.at("/spec/username"), "kubernetes-admin");
    assert!(
        created.at("/spec/groups").as_array().unwrap().contains(&json!("system:masters")),
        "{}",
        created.text()
    );
    let one = format!("{requests}/one");
    let renamed = client.merge_patch(&one, &json!({"spec": {"username": "root"}})).await;
    refused(renamed, 403, "Forbidden", "spec.username: Forbidden");
    // Its approval is judged by a question to this server.
    let approved = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Tested", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}});
    let status = format!("{one}/status");
    client.merge_patch(&status, &approved).await.unwrap().expect_status(200).unwrap();
    let denied = json!({"status": {"conditions": [
        {"type": "Denied", "status": "True", "reason": "Tested", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}});
    refused(
        client.merge_patch(&status, &denied).await,
        403,
        "Forbidden",
        "condition may not be modified once set",
    );

    gate.close();
    webhook.kill().await.unwrap();
    let away = patched(r#"{"spec": {"duration": "3h"}}"#).await;
    let why = "failed calling webhook \"webhook.cert-manager.io\"";
    let away = away.success().unwrap_err().to_string();
    assert!(away.contains(why), "{away}");
    assert_eq!(client.get(&one).await.unwrap().status, 200);
    let mut webhook = gate.lead_to(&server, "webhook-again", Command::new(&program)).await;
    patched(r#"{"spec": {"duration": "3h"}}"#).await.success().unwrap();
    webhook.kill().await.unwrap();
}
