//! Credentials that change while the server goes on.

use std::fs;
use std::sync::Arc;

use kindom_integration::{Client, Server, ServerOptions};
use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio_rustls::TlsConnector;

use crate::authority::{Authority, Files};
use crate::support::eventually;

const NAMESPACES: &str = "/api/v1/namespaces";

async fn status(client: &Client) -> u16 {
    client.get(NAMESPACES).await.unwrap().status
}

/// The first certificate that the server shows to a new connection.
async fn shown(server: &Server) -> CertificateDer<'static> {
    #[derive(Debug)]
    struct Anything;
    impl rustls::client::danger::ServerCertVerifier for Anything {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let io =
        TlsConnector::from(Arc::new(config)).connect(name, server.dial_tcp().await.unwrap()).await.unwrap();
    io.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn tokens_are_read_again_on_sighup_and_watches_stay() {
    let files = Files::new();
    files.write("tokens.csv", "old,alice,1,system:masters\n");
    let server = ServerOptions::default()
        .args(&["--token-auth-file", &files.arg("tokens.csv")])
        .start()
        .await
        .unwrap();
    let with = |token| server.anonymous().unwrap().with_token(token);
    let (old, new, admin) = (with("old"), with("new"), server.client().unwrap());
    let mut watch =
        old.watch(&format!("{NAMESPACES}?watch=true&fieldSelector=metadata.name%3Dlate")).await.unwrap();
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    // A file that cannot be parsed changes nothing, and the log reports it.
    files.write("tokens.csv", "new,bob\n");
    server.hang_up().unwrap();
    eventually("the log complains", async || {
        server.log_tail().contains("what was in force stays").then_some(())
    })
    .await;
    assert!(server.log_tail().contains("tokens.csv, line 1: "), "{}", server.log_tail());
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    files.write("tokens.csv", "new,bob,2,system:masters\n");
    server.hang_up().unwrap();
    eventually("the new token counts", async || (status(&new).await == 200).then_some(())).await;
    assert_eq!(status(&old).await, 401, "on the connection that was open");
    let late = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    admin.post(NAMESPACES, &late).await.unwrap().expect_status(201).unwrap();
    assert_eq!(watch.event().await.unwrap()["type"], "ADDED", "what had begun goes on");
    assert!(!server.log_tail().contains("bob,2"), "no token is shown");
}

#[tokio::test]
async fn client_authorities_are_read_again_for_open_connections_too() {
    let files = Files::new();
    let (first, second) = (Authority::new("first"), Authority::new("second"));
    files.write("ca.pem", &first.certificate.pem());
    let server =
        ServerOptions::default().args(&["--client-ca-file", &files.arg("ca.pem")]).start().await.unwrap();
    let client = |authority: &Authority| {
        let (certificate, key) = authority.issue("eve", ExtendedKeyUsagePurpose::ClientAuth);
        server.client_with_certificate(certificate.as_bytes(), key.as_bytes()).unwrap()
    };
    let (of_first, of_second) = (client(&first), client(&second));
    assert_eq!((status(&of_first).await, status(&of_second).await), (200, 401));
    files.write("ca.pem", &second.certificate.pem());
    server.hang_up().unwrap();
    // Both connections are kept open by their clients.
    eventually("the new authority counts", async || (status(&of_second).await == 200).then_some(())).await;
    assert_eq!(status(&of_first).await, 401);
    assert_eq!(status(&server.client().unwrap()).await, 200, "the administrator's own authority stays");
}

#[tokio::test]
async fn a_certificate_from_elsewhere_is_taken_over_and_the_kubeconfig_verifies_it() {
    let files = Files::new();
    let authority = Authority::new("elsewhere");
    let write = |name: &str| {
        let (own, key) = authority.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        files.write("tls.crt", &format!("{own}{}", authority.certificate.pem()));
        files.write("tls.key", &key);
        CertificateDer::from_pem_slice(own.as_bytes()).unwrap()
    };
    let first = write("kindom.example.com");
    let args = ["--tls-cert-file", &files.arg("tls.crt"), "--tls-private-key-file", &files.arg("tls.key")];
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    assert_eq!(shown(&server).await, first);
    // It is for another name than the address that the kubeconfig has.
    let listed = server.kubectl(&["get", "namespaces", "-o", "name"]).await.unwrap();
    assert!(listed.contains("namespace/default"), "{listed}");
    let second = write("other.example.com");
    server.hang_up().unwrap();
    eventually("the new certificate is shown", async || (shown(&server).await == second).then_some(())).await;
    eventually("the kubeconfig has the new name", async || {
        fs::read_to_string(server.kubeconfig()).unwrap().contains("other.example.com").then_some(())
    })
    .await;
    server.kubectl(&["get", "namespaces"]).await.unwrap();
    // A key of another certificate is not taken.
    files.write("tls.key", &KeyPair::generate().unwrap().serialize_pem());
    files.write("tls.crt", &authority.issue("third.example.com", ExtendedKeyUsagePurpose::ServerAuth).0);
    server.hang_up().unwrap();
    eventually("the log complains", async || {
        server.log_tail().contains("is not the key of --tls-cert-file").then_some(())
    })
    .await;
    assert_eq!(shown(&server).await, second);
}

#[tokio::test]
async fn a_name_of_ones_own_is_in_the_certificate_and_its_end_in_the_metrics() {
    let server = ServerOptions::default().args(&["--tls-san", "kindom.example.com"]).start().await.unwrap();
    server.kubectl(&["get", "namespaces", "--tls-server-name", "kindom.example.com"]).await.unwrap();
    assert!(server.kubectl(&["get", "namespaces", "--tls-server-name", "other.example.com"]).await.is_err());
    let metrics = server.client().unwrap().get("/metrics").await.unwrap().text();
    for certificate in ["ca", "admin", "serving"] {
        let gauge =
            format!("kindom_certificate_expiration_timestamp_seconds{{certificate=\"{certificate}\"}} ");
        let (_, rest) = metrics.split_once(&gauge).unwrap_or_else(|| panic!("{gauge}: {metrics}"));
        assert!(rest.lines().next().unwrap().parse::<i64>().unwrap() > 1_700_000_000, "{certificate}");
    }
}

/// Replicas have addresses of their own, and so have their certificates names.
#[tokio::test]
async fn replicas_that_share_a_folder_come_to_serve_one_certificate() {
    let files = Files::new();
    let replica = |name: &'static str| {
        let options = ServerOptions::default().embedded().cert_dir(&files.path("pki"));
        async move { options.args(&["--tls-san", name]).start().await.unwrap() }
    };
    let one = replica("one.example.com").await;
    let two = replica("two.example.com").await;
    // Each minute, or at once.
    one.hang_up().unwrap();
    let theirs = shown(&two).await;
    eventually("both serve the same", async || (shown(&one).await == theirs).then_some(())).await;
    for server in [&one, &two] {
        for name in ["one.example.com", "two.example.com"] {
            server.kubectl(&["get", "namespaces", "--tls-server-name", name]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn many_hangups_under_load_cut_nothing_off() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let mut watch = client.watch(&format!("{NAMESPACES}?watch=true&labelSelector=storm")).await.unwrap();
    for number in 0..50 {
        server.hang_up().unwrap();
        let metadata = json!({"name": format!("storm-{number}"), "labels": {"storm": "yes"}});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        client.post(NAMESPACES, &object).await.unwrap().expect_status(201).unwrap();
        assert_eq!(watch.event().await.unwrap()["type"], "ADDED");
    }
}
