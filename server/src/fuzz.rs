//! The inputs of commands: kubeconfigs, manifests, PEM. Harness and bounds are `kindom-fuzz`'s.

use kindom_fuzz::{Mutants, Target};

use crate::host;
use crate::kubeconfig;
use crate::{manifests, pki};

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {cluster: c, user: u, namespace: n}
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:6443/
    certificate-authority-data: Cg==
    insecure-skip-tls-verify: true
    tls-server-name: x
users:
- name: u
  user:
    client-certificate-data: Cg==
    client-key-data: Cg==
    token: t
";

const MANIFEST: &str = "apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}
---
apiVersion: example.com/v1
kind: WidgetList
items: [{metadata: {name: b}}, null]
";

#[test]
fn kubeconfigs() {
    let dir = tempfile::TempDir::new().unwrap();
    let tokens = [
        "- ",
        ": ",
        "\n",
        "  ",
        "null",
        "[]",
        "{}",
        "name: ",
        "current-context",
        "exec: {}",
        "&a ",
        "*a",
        "==",
    ];
    let inputs = Mutants::of([KUBECONFIG]).tokens(&tokens);
    Target::new("kubeconfig", 4000).run(inputs, move |bytes| {
        let file = dir.path().join("config");
        std::fs::write(&file, bytes).unwrap();
        for context in [None, Some("here"), Some("")] {
            if let Ok(config) = kubeconfig::load(Some(&file), context, None) {
                assert!(config.cluster_url.host().is_some());
            }
        }
    });
}

#[test]
fn manifests_and_lists() {
    let tokens = ["- ", ": ", "\n---\n", "  ", "kind: List", "items: ", "[", "]", "{", "}", "null"];
    let inputs = Mutants::of([MANIFEST, "{\"kind\":\"List\",\"items\":[{}]}"]).tokens(&tokens);
    Target::new("manifests", 4000).run(inputs, |bytes| {
        for (_, mut document) in manifests::parse("m.yaml", bytes).unwrap_or_default() {
            manifests::complete_items(&mut document);
            assert!(manifests::items(&mut document).is_none_or(|items| items.len() <= bytes.len()));
        }
    });
}

#[test]
fn answers_of_a_host() {
    let user = r#"{"username":"jane","uid":"1","groups":["a"],"extra":{"k":["v"]}}"#;
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
    let map = format!(
        r#"{{"data":{{"client-ca-file":{authority:?},"requestheader-client-ca-file":{authority:?},
            "requestheader-allowed-names":"[\"a\"]","requestheader-username-headers":"[\"X-Remote-User\"]"}}}}"#
    );
    let answers = [
        format!(r#"{{"status":{{"authenticated":true,"user":{user},"audiences":["a"],"error":""}}}}"#),
        r#"{"status":{"allowed":true,"denied":false,"reason":"r"}}"#.to_owned(),
        map,
    ];
    let tokens = ["true", "false", "null", "\"\"", "[]", "{}", "0", "[\\\"a\\\"]"];
    Target::new("host", 4000).run(Mutants::of(answers).tokens(&tokens), |bytes| host::read_anything(bytes));
}

#[test]
fn pem_files() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let whole = format!("{}{}", certificate.pem(), key.serialize_pem());
    let tokens = [
        "-----BEGIN CERTIFICATE-----\n",
        "-----END CERTIFICATE-----\n",
        "-----BEGIN EC PRIVATE KEY-----\n",
        "\n",
        "=",
        "MIIB",
    ];
    let inputs = Mutants::of([certificate.pem(), key.serialize_pem(), whole]).tokens(&tokens);
    let dir = tempfile::TempDir::new().unwrap();
    Target::new("pem", 200).run(inputs, move |bytes| {
        let file = dir.path().join("pem");
        std::fs::write(&file, bytes).unwrap();
        if let Ok(certificates) = pki::read_certificates(&file) {
            assert!(!certificates.is_empty());
        }
        let _ = pki::read_private_key(&file);
    });
}
