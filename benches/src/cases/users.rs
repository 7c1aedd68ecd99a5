//! GETs by different users, and through another server: what it costs to know somebody by a front proxy's headers, to ask roles, and to
//! stand in front.

use std::path::Path;

use serde_json::json;

use super::widgets::{name, path};
use super::{Setup, established, next_established};
use crate::client::{Ask, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, Run, median};
use crate::process::Process;
use crate::report::{Row, us};
use crate::shapes::{CRDS, GROUP, collection, widget, widgets};

const HEADER_TIMES_MAX: f64 = 1.1;
const FORWARD_US_MAX: f64 = 60.0;

/// The name in the administrator's certificate.
const NAMES: &str = "--requestheader-allowed-names=kubernetes-admin";

const MASTER: &[(&str, &str)] = &[("x-remote-user", "root"), ("x-remote-group", "system:masters")];
const READER: &[(&str, &str)] = &[("x-remote-user", "reader"), ("x-remote-group", "readers")];

/// The clients of one way to ask, and their runs.
struct Way {
    clients: Clients,
    ask: Ask,
    runs: Vec<Run>,
}

impl Way {
    async fn connect(setup: &Setup, through: &Process, ask: Ask) -> Result<Self, LoadError> {
        let clients = Clients::connect(&through.endpoint()?, Protocol::Http1, setup.counts.readers).await?;
        Ok(Self { clients, ask, runs: Vec::new() })
    }

    async fn round(&mut self, setup: &Setup, process: &Process) -> Result<(), LoadError> {
        let ask = self.ask.clone();
        self.runs.push(self.clients.run(process, setup.counts.gets, move |_| ask.clone()).await?);
        Ok(())
    }

    /// Without the first round, which only warms up.
    fn costs(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().skip(1).map(Run::cpu_us)
    }
}

fn flag(name: &str, value: &Path) -> String {
    format!("--{name}={}", value.display())
}

/// GETs directly, by a front proxy's headers, by a user whom a role lets in, and through another kindom.
pub(crate) async fn requests(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    // A server's own certificates come with its first start.
    let front = setup.data("front");
    Process::kindom(&setup.binary, &front, None).await?.end().await?;
    let (authorities, pki) = (front.join("pki/ca.crt"), front.join("pki"));
    let trusts = |data: &Path| flag("requestheader-client-ca-file", &data.join("pki/ca.crt"));
    let data = setup.data("users");
    Process::kindom(&setup.binary, &data, None).await?.end().await?;
    // Both servers' administrators count as front proxies.
    let both = setup.data("both.crt");
    let read = |file: &Path| std::fs::read_to_string(file).map_err(LoadError::io("an authority"));
    let all = format!("{}{}", read(&data.join("pki/ca.crt"))?, read(&authorities)?);
    std::fs::write(&both, all).map_err(LoadError::io("the authorities"))?;
    let flags = [
        flag("requestheader-client-ca-file", &both),
        NAMES.to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ];
    let kindom = Process::kindom_with(&setup.binary, &data, &flags).await?;
    let endpoint = kindom.endpoint()?;
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let mut watch = established(endpoint.connect(Protocol::Http1).await?).await?;
    connection.expect(&Ask::post(CRDS, widgets().to_string())).await?;
    while next_established(&mut watch).await?.is_none() {}
    connection.expect(&Ask::post(collection("widgets"), widget(&name(0), 1).to_string())).await?;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "reads"}, "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get"]}]});
    connection.expect(&Ask::post(format!("{roles}/clusterroles"), role.to_string())).await?;
    let binding = json!({"metadata": {"name": "reads"}, "subjects": [{"kind": "Group", "name": "readers"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"}});
    connection.expect(&Ask::post(format!("{roles}/clusterrolebindings"), binding.to_string())).await?;

    let flags = [
        trusts(&front),
        NAMES.to_owned(),
        flag("proxy-client-cert-file", &pki.join("admin.crt")),
        flag("proxy-client-key-file", &pki.join("admin.key")),
        format!("--service-resolver=default/back:443={}", kindom.address()),
    ];
    let front = Process::kindom_with(&setup.binary, &front, &flags).await?;
    let mut connection = front.endpoint()?.connect(Protocol::Http1).await?;
    let service = json!({"metadata": {"name": format!("v1.{GROUP}")}, "spec": {"group": GROUP, "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 10, "insecureSkipTLSVerify": true,
        "service": {"namespace": "default", "name": "back"}}});
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    connection.expect(&Ask::post(services, service.to_string())).await?;
    let mut lines =
        front.endpoint()?.connect(Protocol::Http1).await?.lines(format!("{services}?watch=true")).await?;
    loop {
        let line = lines.next().await?;
        let text = String::from_utf8_lossy(&line);
        if text.contains(&format!("\"v1.{GROUP}\"")) && text.contains("\"reason\":\"Passed\"") {
            break;
        }
    }

    let get = || Ask::get(path(0));
    let mut direct = Way::connect(setup, &kindom, get()).await?;
    let mut by_header = Way::connect(setup, &kindom, get().with(MASTER)).await?;
    let mut by_role = Way::connect(setup, &kindom, get().with(READER)).await?;
    let mut forwarded = Way::connect(setup, &front, get()).await?;
    for _ in 0..setup.counts.rounds + 1 {
        direct.round(setup, &kindom).await?;
        by_header.round(setup, &kindom).await?;
        by_role.round(setup, &kindom).await?;
        forwarded.round(setup, &front).await?;
    }
    let times = |one: &Way, other: &Way| median(one.costs().zip(other.costs()).map(|(a, b)| a / b));
    let (header, role) = (times(&by_header, &direct), times(&by_role, &by_header));
    let cost = |of: &Way| median(of.costs());
    report(
        Row::cpu("GET by a front proxy's headers".to_owned(), cost(&by_header))
            .target(format!("≤ {HEADER_TIMES_MAX} × a direct one"), header <= HEADER_TIMES_MAX)
            .remark(format!("{header:.2} × {}", us(cost(&direct)))),
    );
    report(
        Row::cpu("GET by a user whom a role lets in".to_owned(), cost(&by_role))
            .remark(format!("{role:.2} × that of a master by the same headers")),
    );
    let forward = cost(&forwarded);
    report(
        Row::cpu("GET through another kindom, its part".to_owned(), forward)
            .target(format!("≤ {FORWARD_US_MAX} µs"), forward <= FORWARD_US_MAX)
            .remark(forwarded.runs.last().map(Run::remark).unwrap_or_default()),
    );
    front.end().await?;
    kindom.end().await
}
