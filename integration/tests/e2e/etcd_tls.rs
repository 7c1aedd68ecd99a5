//! An etcd that proves who it is, and asks who comes.

use std::path::{Path, PathBuf};

use kindom_integration::{EtcdOptions, Server, ServerOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::support::{crd, kindom, names, object, register};

const GROUP: &str = "tls.example.com";
const PAWNS: &str = "/apis/tls.example.com/v1/namespaces/default/pawns";

/// The files of an authority, of a server and of a client.
struct Files(PathBuf);

impl Files {
    fn make(folder: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(folder.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for name in ["127.0.0.1", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap().pem();
            std::fs::write(folder.join(format!("{name}.crt")), certificate).unwrap();
            std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self(folder.to_owned())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// `--flag=file` for each.
    fn flags(&self, flags: [(&str, &str); 3]) -> Vec<String> {
        flags.map(|(flag, name)| format!("--{flag}={}", self.path(name))).to_vec()
    }
}

fn refs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

/// A server, and all that works without one, with certificates on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(folder.path());
    let mut flags = files.flags([
        ("cert-file", "127.0.0.1.crt"),
        ("key-file", "127.0.0.1.key"),
        ("trusted-ca-file", "ca.crt"),
    ]);
    flags.push("--client-cert-auth".to_owned());
    let etcd = EtcdOptions::default().https().args(&refs(&flags)).start().await.unwrap();
    let access = files.flags([
        ("etcd-cafile", "ca.crt"),
        ("etcd-certfile", "client.crt"),
        ("etcd-keyfile", "client.key"),
    ]);

    // Waiting would be of no use: it ends, and says which side refused.
    for (flags, why) in [(&[][..], "UnknownIssuer"), (&access[..1], "CertificateRequired")] {
        let Err(error) = ServerOptions::default().etcd(&etcd.endpoints()).args(&refs(flags)).start().await
        else {
            panic!("{why}: it is served");
        };
        // Servers before TLS 1.3's alert say it with an older one.
        let error = error.to_string();
        assert!(error.contains(why) || error.contains("BadCertificate"), "{error}");
    }

    let serve = ServerOptions::default().etcd(&etcd.endpoints()).args(&refs(&access));
    let server = serve.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd(GROUP, "pawns", "Pawn", "Namespaced")).await;
    client.post(PAWNS, &object(GROUP, "Pawn", "a", json!({}))).await.unwrap().expect_status(201).unwrap();

    let urls = format!("--etcd-servers={}", etcd.endpoints().join(","));
    let snapshot = async |args: &[&str]| {
        let args = [&["snapshot"], args, &refs(&access)].concat();
        kindom(&server, &args, "").await.success().unwrap()
    };
    let file = server.scratch().join("a.snapshot");
    let (file, copy) = (file.to_str().unwrap(), server.scratch().join("copy"));
    snapshot(&["save", file, &urls]).await;
    snapshot(&["restore", file, &urls, "--etcd-prefix", "/other"]).await;
    snapshot(&["copy", "--from", &etcd.endpoints().join(","), "--to", copy.to_str().unwrap()]).await;
    let options = ServerOptions::default().etcd(&etcd.endpoints()).args(&refs(&access));
    let restored = options.args(&["--etcd-prefix", "/other"]).start().await.unwrap();
    let copied = ServerOptions::default().data_dir(&copy).embedded().start().await.unwrap();
    for other in [restored, copied] {
        assert_eq!(pawns(&other).await, ["a"]);
    }
}

async fn pawns(server: &Server) -> Vec<String> {
    names(&server.client().unwrap().get(PAWNS).await.unwrap().expect_status(200).unwrap().json())
}
