//! kindom behind a host, as a cluster's administrator puts it there.

use kindom_integration::{Caller, Client, Host, Proxy, Server, ServerOptions, tools};
use serde_json::Value;

use crate::passage::Passage;
use crate::sessions;
use crate::support::{AGGREGATED, eventually, until};

/// The namespace and the name of the Service.
const NAMESPACE: &str = "kindom-system";
/// The media type of discovery of all groups at once.
pub(crate) const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A host, a kindom behind it, and the address that the host knows, which stays when kindom comes back on another port.
pub(crate) struct Behind {
    pub(crate) server: Server,
    pub(crate) host: Host,
    pub(crate) front: Proxy,
}

impl Behind {
    /// Starts both and registers kindom's groups; none where no kube-apiserver can be built.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(ServerOptions::default()).await
    }

    pub(crate) async fn start_with(options: ServerOptions) -> Option<Self> {
        let behind = Self::unknown(options).await?;
        behind.publish().await;
        Some(behind)
    }

    /// Starts both; the host does not know of kindom yet.
    pub(crate) async fn unknown(options: ServerOptions) -> Option<Self> {
        let host = Host::start().await.unwrap()?;
        let options = options
            .args(&["--requestheader-client-ca-file", &host.front_proxy_ca().to_string_lossy()])
            .args(&["--requestheader-allowed-names", "front-proxy-client"])
            .args(&["--controllers=*,-garbage-collector-controller"])
            .args(&["--tls-san", &format!("kindom.{NAMESPACE}.svc")]);
        Some(Self::of(host, options).await)
    }

    /// Starts kindom behind a host that does not know of it yet. The options say whom kindom believes.
    pub(crate) async fn of(host: Host, options: ServerOptions) -> Self {
        let server = options.start().await.unwrap();
        let front = Proxy::start(&[server.address().unwrap()]).await.unwrap();
        let namespace =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let client = host.admin().unwrap();
        let made = client.post("/api/v1/namespaces", &namespace).await.unwrap();
        assert!(made.status == 201 || made.status == 409, "{}", made.text());
        Self { server, host, front }
    }

    /// Programs that may do everything on the host.
    pub(crate) fn admin(&self) -> Caller {
        self.host.admin_caller().unwrap()
    }

    /// The manifests that kindom prints for the host's administrator.
    async fn manifests(&self) -> String {
        let mut command = tokio::process::Command::new(tools::kindom().unwrap());
        command.args(["aggregation", "manifests", "--namespace", NAMESPACE, "--external-name", "localhost"]);
        command.args(["--service-port", &self.front.address().port().to_string()]);
        self.server.run(command, "").await.unwrap().success().unwrap()
    }

    /// Registers kindom's groups as they are now; returns the manifests.
    pub(crate) async fn apply(&self) -> String {
        let manifests = self.manifests().await;
        self.admin().kubectl_with(&["apply", "-f", "-"], &manifests).await.unwrap().success().unwrap();
        manifests
    }

    /// Registers kindom's groups as they are now, and waits until the host forwards them and finds what is in them.
    pub(crate) async fn publish(&self) {
        let manifests = self.apply().await;
        let names = manifests.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("name: ")?.trim_matches('"');
            name.starts_with('v').then(|| name.to_owned())
        });
        let client = self.host.admin().unwrap();
        for name in names {
            self.available(&client, &name, "True").await;
            let (version, group) = name.split_once('.').unwrap();
            eventually(&format!("the host describes {name}"), async || {
                described(&client, group, version).await.then_some(())
            })
            .await;
        }
    }

    /// Waits until the condition Available of an APIService has this status, and returns the condition.
    pub(crate) async fn available(&self, client: &Client, name: &str, status: &str) -> Value {
        let condition = |service: &Value| {
            let conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().find(|c| c["type"] == "Available" && c["status"] == status)
        };
        let service = until(client, API_SERVICES, name, |service| condition(service).is_some()).await;
        condition(&service).unwrap()
    }
}

impl sessions::Front for Behind {
    fn caller(&self) -> Caller {
        self.admin()
    }

    fn registrar(&self) -> Option<Caller> {
        None
    }

    async fn publish(&self) {
        Self::publish(self).await;
    }
}

impl Passage for Behind {
    fn back(&self) -> &Server {
        &self.server
    }

    fn through(&self, http2: bool) -> Client {
        self.host.client("kubernetes-admin", Some("system:masters"), http2).unwrap()
    }

    fn scratch(&self) -> &std::path::Path {
        self.host.scratch()
    }

    async fn restart_back(&mut self) {
        self.server.kill9().unwrap();
        self.server.restart().await.unwrap();
        self.front.aim(&[self.server.address().unwrap()]);
    }

    async fn restart_front(&mut self) {
        self.host.kill9().unwrap();
        self.host.restart().await.unwrap();
    }
}

/// Returns true if the discovery of all groups and the index of OpenAPI have a group-version.
pub(crate) async fn described(client: &Client, group: &str, version: &str) -> bool {
    let Ok(discovery) = client.request("GET", "/apis").accept(AGGREGATED).send().await else { return false };
    let groups = discovery.json()["items"].as_array().cloned().unwrap_or_default();
    let in_discovery = groups.iter().filter(|found| found["metadata"]["name"] == group).any(|found| {
        let versions = found["versions"].as_array().cloned().unwrap_or_default();
        versions.iter().any(|v| v["version"] == version && v["freshness"] == "Current")
    });
    let Ok(openapi) = client.get("/openapi/v3").await else { return false };
    in_discovery && openapi.json()["paths"].get(format!("apis/{group}/{version}")).is_some()
}
