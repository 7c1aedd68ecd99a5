//! Flux's source-controller (`integration/source-controller`) fetches a Helm repository by the registrations of its own module.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kindom_integration::{ServerOptions, full, tools};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::access_log::answered;
use crate::support::{namespace, until, until_gone};

const REPOSITORIES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/default/helmrepositories";
const CHARTS: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/default/helmcharts";

/// A HelmRepository at this URL, and a HelmChart of its latest `shop`.
fn manifest(url: &str) -> String {
    format!(
        "\
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {{name: shops, namespace: default}}
spec: {{url: {url}, interval: 1h}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmChart
metadata: {{name: shop, namespace: default}}
spec: {{chart: shop, sourceRef: {{kind: HelmRepository, name: shops}}, interval: 1h}}
"
    )
}

/// A Helm repository at a loopback address.
struct Repository {
    address: SocketAddr,
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
    /// Dropping it stops the server.
    _serving: JoinSet<()>,
}

impl Repository {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let files = Arc::new(Mutex::new(BTreeMap::new()));
        let served = Arc::clone(&files);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let files = Arc::clone(&served);
                connections.spawn(async move {
                    let service = service_fn(|request| ready(answer(&files, &request)));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, files, _serving: serving }
    }

    /// Offers these versions of the chart `shop`, and no other.
    fn offer(&self, versions: &[&str]) {
        let mut files = BTreeMap::new();
        let mut index = json!({"apiVersion": "v1", "entries": {"shop": []}});
        for version in versions {
            let archive = format!("shop-{version}.tgz");
            let entry = json!({"apiVersion": "v2", "name": "shop", "version": version, "urls": [archive]});
            index["entries"]["shop"].as_array_mut().unwrap().push(entry);
            files.insert(format!("/{archive}"), chart(version));
        }
        // JSON is YAML.
        files.insert("/index.yaml".to_owned(), index.to_string().into());
        *self.files.lock().unwrap() = files;
    }
}

fn answer(
    files: &Mutex<BTreeMap<String, Bytes>>,
    request: &Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let found = files.lock().unwrap().get(request.uri().path()).cloned();
    let status = if found.is_some() { 200 } else { 404 };
    Ok(Response::builder().status(status).body(Full::new(found.unwrap_or_default())).unwrap())
}

/// The archive of a version of the chart `shop`, which consists of its description alone.
fn chart(version: &str) -> Bytes {
    let text = format!("apiVersion: v2\nname: shop\nversion: {version}\n");
    // POSIX's `ustar`: a header of fields at fixed offsets, and blocks of 512 bytes, of which the last two are zero.
    let mut header = [0_u8; 512];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, b"shop/Chart.yaml");
    put(100, b"0000644\0");
    put(124, format!("{:011o}", text.len()).as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    // The sum is taken with spaces in its own place.
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(text.as_bytes());
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&archive).unwrap();
    packed.finish().unwrap().into()
}

/// Downloads the body at a URL of a loopback address.
async fn download(url: &str) -> Vec<u8> {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200 "), "{url}: {}", String::from_utf8_lossy(&answer));
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    answer.split_off(head + 4)
}

/// Returns true if the object is ready and has an artifact.
fn fetched(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let ready = |all: &Vec<Value>| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    conditions.is_some_and(ready) && object["status"]["artifact"]["revision"].is_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_controller_fetches_a_helm_repository() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("source-controller").unwrap() else { return };
    let server = ServerOptions::default()
        .args(&["--profile=kubernetes", "-v", "--log-format", "json"])
        .start()
        .await
        .unwrap();
    let client = server.client().unwrap();
    let registrations =
        std::fs::read_to_string(program.with_file_name("source-controller-crds.yaml")).unwrap();
    let apply = ["apply", "--server-side", "--validate=strict", "-f", "-"];
    server.kubectl_with(&apply, &registrations).await.unwrap().success().unwrap();
    server.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();
    namespace(&client, "flux-system").await;
    let artifacts = server.scratch().join("artifacts");
    std::fs::create_dir(&artifacts).unwrap();
    let mut command = Command::new(program);
    server.environment(&mut command);
    command.arg("--enable-leader-election").arg("--storage-path").arg(&artifacts);
    let log = std::fs::File::create(server.scratch().join("source-controller.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true);
    let mut controller = command.spawn().unwrap();

    let repository = Repository::start().await;
    repository.offer(&["0.1.0"]);
    let refused = server.kubectl_with(&apply, &manifest("ftp://127.0.0.1")).await.unwrap();
    assert!(refused.stderr.contains("spec.url"), "{refused:?}");
    let url = format!("http://{}", repository.address);
    server.kubectl_with(&apply, &manifest(&url)).await.unwrap().success().unwrap();
    let first = until(&client, REPOSITORIES, "shops", fetched).await;
    assert_eq!(first["metadata"]["finalizers"], json!(["finalizers.fluxcd.io"]));
    let revision = first["status"]["artifact"]["revision"].as_str().unwrap();
    let index = download(first["status"]["artifact"]["url"].as_str().unwrap()).await;
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(index["entries"]["shop"][0]["version"], "0.1.0");
    let made = until(&client, CHARTS, "shop", fetched).await;
    assert_eq!(made["status"]["artifact"]["revision"], "0.1.0");
    assert_eq!(download(made["status"]["artifact"]["url"].as_str().unwrap()).await, chart("0.1.0"));
    let event = |revision: &str| {
        let revision = json!(revision);
        until(&client, "/api/v1/namespaces/default/events", "", move |event| {
            let annotations = &event["metadata"]["annotations"];
            event["reason"] == "NewArtifact"
                && event["involvedObject"]["name"] == "shops"
                && annotations["source.toolkit.fluxcd.io/revision"] == revision
        })
    };
    assert_eq!(event(revision).await["source"]["component"], "source-controller");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases";
    let lease = "source-controller-leader-election";
    let held =
        |lease: &Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    until(&client, leases, lease, held).await;

    // The annotation requests the new index, and the chart follows the index.
    repository.offer(&["0.1.0", "0.2.0"]);
    let request = ["annotate", "helmrepository", "shops", "reconcile.fluxcd.io/requestedAt=now"];
    server.kubectl(&request).await.unwrap();
    let second = until(&client, REPOSITORIES, "shops", |object| {
        fetched(object) && object["status"]["lastHandledReconcileAt"] == "now"
    });
    let second = second.await;
    assert_ne!(second["status"]["artifact"]["revision"], revision);
    event(second["status"]["artifact"]["revision"].as_str().unwrap()).await;
    let latest = until(&client, CHARTS, "shop", |object| {
        fetched(object) && object["status"]["artifact"]["revision"] == "0.2.0"
    });
    assert_eq!(download(latest.await["status"]["artifact"]["url"].as_str().unwrap()).await, chart("0.2.0"));
    let shown = server.kubectl(&["get", "helmrepositories,helmcharts"]).await.unwrap();
    assert!(shown.contains(&url) && shown.contains("stored artifact: revision"), "{shown}");

    // The controller removes an object's artifacts, and then its finalizer.
    for (collection, name, object) in [(CHARTS, "shop", &made), (REPOSITORIES, "shops", &second)] {
        let path = object["status"]["artifact"]["path"].as_str().unwrap();
        let folder = artifacts.join(path).parent().unwrap().to_owned();
        assert!(folder.is_dir(), "{}", folder.display());
        client.delete(&format!("{collection}/{name}")).await.unwrap().expect_status(200).unwrap();
        until_gone(&client, collection, name).await;
        assert!(!folder.exists(), "{}", folder.display());
    }

    // The server knows every request of the controller. It answers 404 to a look for the lease before there is one and to a status
    // of an object that has gone, and 409 to a patch of an object that the controller's cache is behind.
    for line in answered(&server) {
        let agent = line["agent"].as_str().unwrap_or_default();
        let code = line["code"].as_u64().unwrap();
        if agent.starts_with("source-controller/") && code >= 400 {
            let uri = line["uri"].as_str().unwrap();
            let expected = match (line["method"].as_str().unwrap(), code) {
                ("GET", 404) => uri.starts_with(&format!("{leases}/{lease}?")),
                ("PATCH", 404) => uri.contains("/status?"),
                ("PATCH", 409) => true,
                _ => false,
            };
            assert!(expected, "{line}");
        }
    }

    // The controller releases its lease.
    let id = controller.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    controller.wait().await.unwrap();
    until(&client, leases, lease, |lease| !held(lease)).await;
}
