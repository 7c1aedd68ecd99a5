//! A server in front of another one.

use kindom_integration::{Client, Proxy, Server, ServerOptions};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::authority::{Authority, Files};
use crate::support::{crd, eventually, register};

pub(super) const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Two servers: the one in front forwards to the other, which trusts its certificate.
pub(super) struct Chain {
    _files: Files,
    pub(super) front: Server,
    pub(super) back: Server,
    /// The addresses of the one in front and of the other, which stay when they come back on other ports.
    pub(super) relays: [Proxy; 2],
}

/// The authorities that a kubeconfig trusts, as a caBundle has them.
pub(super) fn authorities(server: &Server) -> String {
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let line = text.lines().find(|line| line.contains("certificate-authority-data")).unwrap();
    line.split_once(':').unwrap().1.trim().trim_matches('"').to_owned()
}

pub(super) fn api_service(group: &str, name: &str, changes: Value) -> Value {
    let mut service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "default", "name": name},
        },
    });
    for (field, value) in changes.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

/// A server that follows APIServices, with services of these names and addresses.
pub(super) async fn front(files: &Files, proxies: &Authority, services: &[(&str, u16)]) -> Server {
    front_with(files, proxies, services, &[]).await
}

pub(super) async fn front_with(
    files: &Files,
    proxies: &Authority,
    services: &[(&str, u16)],
    more: &[&str],
) -> Server {
    let (certificate, key) = proxies.issue("front-proxy-client", ExtendedKeyUsagePurpose::ClientAuth);
    files.write("proxy.crt", &certificate);
    files.write("proxy.key", &key);
    files.write("proxies.crt", &proxies.certificate.pem());
    let mut args = vec![
        "--proxy-client-cert-file".to_owned(),
        files.arg("proxy.crt"),
        "--proxy-client-key-file".to_owned(),
        files.arg("proxy.key"),
        "--requestheader-client-ca-file".to_owned(),
        files.arg("proxies.crt"),
        "--requestheader-allowed-names".to_owned(),
        "front-proxy-client".to_owned(),
        "--aggregator-probe-interval".to_owned(),
        "1s".to_owned(),
        "-v".to_owned(),
    ];
    for (name, port) in services {
        args.extend(["--service-resolver".to_owned(), format!("default/{name}:443=127.0.0.1:{port}")]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    ServerOptions::default().args(&args).args(more).start().await.unwrap()
}

/// Waits for a condition Available of this status and reason.
pub(super) async fn available(client: &Client, name: &str, status: &str, reason: &str) -> Value {
    eventually(&format!("{name} is {status}, {reason}"), async || {
        let found = client.get(&format!("{SERVICES}/{name}")).await.unwrap().json();
        let condition = found["status"]["conditions"][0].clone();
        (condition["status"] == status && condition["reason"] == reason).then_some(condition)
    })
    .await
}

pub(super) fn scaled() -> Value {
    let mut crd = crd("example.com", "widgets", "Widget", "Namespaced");
    crd["spec"]["names"]["shortNames"] = json!(["wg"]);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    crd
}

impl Chain {
    pub(super) async fn start() -> Self {
        let chain = Self::without_types(ServerOptions::default(), &[]).await;
        register(&chain.back.client().unwrap(), &scaled()).await;
        let service = api_service("example.com", "back", json!({"caBundle": authorities(&chain.back)}));
        let client = chain.front.client().unwrap();
        client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
        available(&client, "v1.example.com", "True", "Passed").await;
        chain
    }

    /// Starts both: the server behind with these options, the one in front with these flags.
    pub(super) async fn without_types(options: ServerOptions, flags: &[&str]) -> Self {
        let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
        files.write("proxies.crt", &proxies.certificate.pem());
        let back = options
            .args(&["--requestheader-client-ca-file", &files.arg("proxies.crt"), "-v"])
            .args(&["--requestheader-allowed-names", "front-proxy-client", "--tls-san", "back.default.svc"])
            .start()
            .await
            .unwrap();
        let to_back = Proxy::start(&[back.address().unwrap()]).await.unwrap();
        let front = front_with(&files, &proxies, &[("back", to_back.address().port())], flags).await;
        let relays = [Proxy::start(&[front.address().unwrap()]).await.unwrap(), to_back];
        Self { _files: files, front, back, relays }
    }
}
