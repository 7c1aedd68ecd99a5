//! Servers that are trusted by their certificates, and that ask for ours.

use kindom_storage::{Etcd, EtcdOptions, EtcdTls, Storage as _, StorageError};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{Cluster, in_time, options, put, read};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn sign(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let params = CertificateParams::new(names).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn certificates_are_asked_for_on_both_sides() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (chain, key) = authority.sign(&["127.0.0.1"]);
    let flags = [
        format!("--cert-file={}", file("server.crt", &chain)),
        format!("--key-file={}", file("server.key", &key)),
        format!("--trusted-ca-file={}", file("ca.crt", &authority.pem)),
        "--client-cert-auth".to_owned(),
    ];
    let cluster = Cluster::start_with(1, "https", &flags);
    let open = async |authority: &Authority, identity: Option<(String, String)>| {
        let identity = identity.map(|(chain, key)| (chain.into_bytes(), key.into_bytes()));
        let tls = Some(EtcdTls { authorities: Some(authority.pem.clone().into_bytes()), identity });
        in_time("an end", Etcd::open(EtcdOptions { tls, ..options(&cluster, "") }, |_| ())).await
    };
    let store = open(&authority, Some(authority.sign(&["client"]))).await.unwrap();
    put(&store, "a", "1").await;
    assert_eq!(read(&store, "").await, "a=1");
    store.close().await.unwrap();
    // Waiting would be of no use.
    let refused = [
        open(&stranger, Some(authority.sign(&["client"]))).await,
        open(&authority, Some(stranger.sign(&["client"]))).await,
        open(&authority, None).await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(StorageError::Unavailable { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn what_cannot_work_is_refused_at_once() {
    for url in ["127.0.0.1:2379", "ftp://127.0.0.1", "http://", "http://a b"] {
        let options = EtcdOptions::new(vec![url.to_owned()], Vec::new(), "/mark");
        let refused = in_time("a refusal", Etcd::open(options, |_| ())).await;
        assert!(matches!(refused, Err(StorageError::Corrupt(_))), "{url}: {refused:?}");
    }
    let none = EtcdOptions::new(Vec::new(), Vec::new(), "/mark");
    assert!(in_time("a refusal", Etcd::open(none, |_| ())).await.is_err());
    let tls = Some(EtcdTls { authorities: Some(b"no certificate".to_vec()), identity: None });
    let options =
        EtcdOptions { tls, ..EtcdOptions::new(vec!["https://127.0.0.1:1".to_owned()], Vec::new(), "/mark") };
    assert!(in_time("a refusal", Etcd::open(options, |_| ())).await.is_err());
}
