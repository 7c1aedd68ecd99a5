//! Upstream's example of an extension server behind kindom: it asks kindom whom to trust, who may do what, and which
//! namespaces there are.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use kindom_integration::{Caller, Etcd, Server, free_ports, tools};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::chain::{SERVICES, available, front_with};
use crate::authority::{Authority, Files};
use crate::host::described;
use crate::shell::{fails, prints, prints_with, run};
use crate::support::eventually;

const GROUP: &str = "wardle.example.com";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";
/// Every request once, when it has been answered.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}"#;
const WARNING: &str =
    "Warning: wardle.example.com/v1alpha1 Flunder is deprecated in v1.3+, unavailable in v1.10+";

/// A sample-apiserver behind a kindom, with an etcd of its own.
struct Sample {
    files: Files,
    etcd: Etcd,
    front: Server,
    port: u16,
    process: Child,
}

impl Sample {
    /// Starts both and registers the sample's versions; none where there is no Go to build it.
    async fn start() -> Option<Self> {
        let program = tools::built("sample-apiserver").unwrap()?;
        let (files, proxies) = (Files::new(), Authority::new("front-proxy-ca"));
        files.write("audit.json", AUDIT_POLICY);
        let etcd = Etcd::start().await.unwrap();
        let port = free_ports(1).unwrap()[0].port();
        let flags = ["--authorization-mode=RBAC"];
        let front = front_with(&files, &proxies, &[("sample", port)], &flags).await;
        let process = launch(&program, &files, &etcd, &front, port);
        let sample = Self { files, etcd, front, port, process };
        let client = sample.front.client().unwrap();
        // The older version is the one that kubectl prefers.
        for (version, priority) in [("v1alpha1", 20), ("v1beta1", 10)] {
            let name = format!("{version}.{GROUP}");
            // It makes its certificate itself.
            let service = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
                "spec": {
                    "group": GROUP, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                    "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "sample"},
                },
            });
            client.post(SERVICES, &service).await.unwrap().expect_status(201).unwrap();
        }
        for version in ["v1alpha1", "v1beta1"] {
            available(&client, &format!("{version}.{GROUP}"), "True", "Passed").await;
            eventually("the front describes it", async || {
                described(&client, GROUP, version).await.then_some(())
            })
            .await;
        }
        Some(sample)
    }

    fn restart(&mut self) {
        let program = tools::built("sample-apiserver").unwrap().unwrap();
        self.process = launch(&program, &self.files, &self.etcd, &self.front, self.port);
    }

    fn kill9(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The event of its audit log with this id.
    async fn audited(&self, id: &str) -> Value {
        eventually("the request is in the audit log", async || {
            let text = std::fs::read_to_string(self.files.path("audit.log")).unwrap_or_default();
            let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            events.find(|event| event["auditID"] == id)
        })
        .await
    }
}

fn launch(program: &std::path::Path, files: &Files, etcd: &Etcd, front: &Server, port: u16) -> Child {
    let kubeconfig = front.kubeconfig();
    let flag = |name: &str| format!("--{name}={}", kubeconfig.display());
    Command::new(program)
        .arg(format!("--etcd-servers={}", etcd.endpoints().join(",")))
        .args([format!("--secure-port={port}"), "--bind-address=127.0.0.1".to_owned()])
        .arg(format!("--cert-dir={}", files.arg("sample")))
        .args(["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map(flag))
        .arg(format!("--audit-policy-file={}", files.arg("audit.json")))
        .arg(format!("--audit-log-path={}", files.arg("audit.log")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(files.path("sample.log")).unwrap())
        .spawn()
        .unwrap()
}

impl Drop for Sample {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- the sample's log ends with ---\n{}",
                tools::tail(&self.files.path("sample.log"), 30)
            );
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn flunder(name: &str, reference: &str) -> String {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"reference": reference},
    })
    .to_string()
}

/// B-01, B-45, B-46: kubectl keeps objects in the sample through kindom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reaches_the_types_of_sample_apiserver() {
    let Some(mut sample) = Sample::start().await else { return };
    let caller = sample.front.caller();
    objects(&caller).await;
    watched(&caller).await;
    documents(&caller).await;
    identity(&sample).await;
    limited(&sample).await;

    // The condition follows the server, and nothing that was written is lost.
    prints_with(&caller, "kubectl create -f -", &flunder("kept", "a")).await;
    let client = sample.front.client().unwrap();
    sample.kill9();
    available(&client, "v1alpha1.wardle.example.com", "False", "FailedDiscoveryCheck").await;
    let away = fails(&caller, "kubectl get flunders", "").await;
    assert!(away.contains("the server is currently unable to handle the request"), "{away}");
    prints(&caller, "kubectl get namespaces").await;
    sample.restart();
    available(&client, "v1alpha1.wardle.example.com", "True", "Passed").await;
    assert_eq!(prints(&caller, "kubectl get flunders -o name").await, "flunder.wardle.example.com/kept");
}

/// Creates objects, changes them by every command of kubectl that the sample has a use for, and deletes them.
async fn objects(caller: &Caller) {
    let one = "flunder.wardle.example.com/one";
    assert_eq!(
        prints_with(caller, "kubectl apply -f -", &flunder("one", "a")).await,
        format!("{one} created")
    );
    assert_eq!(
        prints_with(caller, "kubectl apply -f -", &flunder("one", "b")).await,
        format!("{one} configured")
    );
    assert_eq!(
        prints_with(caller, "kubectl apply -f -", &flunder("one", "b")).await,
        format!("{one} unchanged")
    );
    let apply = "kubectl apply --server-side --field-manager=other -f -";
    let conflict = fails(caller, apply, &flunder("one", "c")).await;
    assert!(
        conflict.contains("conflict with \"kubectl-client-side-apply\" using wardle.example.com/v1alpha1"),
        "{conflict}"
    );
    let forced = apply.replace("--server-side", "--server-side --force-conflicts");
    assert_eq!(prints_with(caller, &forced, &flunder("one", "c")).await, format!("{one} serverside-applied"));
    let patch = r#"kubectl patch flunder one --type=merge -p '{"spec":{"reference":"d"}}'"#;
    assert_eq!(prints(caller, patch).await, format!("{one} patched"));
    let edit = "KUBE_EDITOR='sed -i s/reference:.d/reference:\\ e/' kubectl edit flunder one";
    assert_eq!(prints(caller, edit).await, format!("{one} edited"));
    let get = "kubectl get flunder one -o jsonpath={.spec.reference}";
    assert_eq!(prints(caller, get).await, "e");
    assert_eq!(
        prints(caller, "kubectl wait flunder/one --for=jsonpath='{.spec.reference}'=e").await,
        format!("{one} condition met")
    );
    assert_eq!(prints(caller, "kubectl label flunder one a=b").await, format!("{one} labeled"));
    let table = prints(caller, "kubectl get flunders -l a=b").await;
    assert!(table.starts_with("NAME   CREATED AT\none "), "{table}");
    // The other version has the reference in a field of its own.
    let other = "kubectl get flunders.v1beta1.wardle.example.com one -o jsonpath={.spec.flunderReference}";
    assert_eq!(prints(caller, other).await, "e");
    // The sample's admission and its rules, the namespaces of kindom.
    let fischer = r#"{"apiVersion":"wardle.example.com/v1alpha1","kind":"Fischer","metadata":{"name":"f"},"disallowedFlunders":["bad"]}"#;
    assert_eq!(
        prints_with(caller, "kubectl create -f -", fischer).await,
        "fischer.wardle.example.com/f created"
    );
    let refused = eventually("the sample knows the fischer", async || {
        let output = run(caller, "kubectl create -f - --dry-run=server", &flunder("bad", "a")).await;
        (!output.status.success()).then_some(output.stderr)
    })
    .await;
    assert!(
        refused.contains(
            "Error from server (Forbidden): error when creating \"STDIN\": flunders.wardle.example.com \"bad\" is \
             forbidden: this name may not be used, please change the resource name"
        ),
        "{refused}"
    );
    assert!(refused.contains(WARNING), "{refused}");
    let nowhere = flunder("one", "a").replace("\"default\"", "\"nowhere\"");
    let nowhere = fails(caller, "kubectl create -f -", &nowhere).await;
    assert!(nowhere.ends_with("namespaces \"nowhere\" not found"), "{nowhere}");
    let scaled = fails(caller, "kubectl scale flunder one --replicas=2", "").await;
    assert!(scaled.ends_with("the server could not find the requested resource"), "{scaled}");
    prints(caller, "kubectl delete fischer f").await;
    assert!(
        prints(caller, "kubectl delete flunder one")
            .await
            .starts_with("flunder.wardle.example.com \"one\" deleted")
    );
    assert_eq!(prints(caller, "kubectl get flunders -o name").await, "");
}

/// `kubectl get --watch` prints each event as it comes.
async fn watched(caller: &Caller) {
    let mut watch = tokio::process::Command::new(tools::kubectl().unwrap());
    watch.args(["get", "flunders", "--watch", "--output-watch-events", "-o"]);
    watch.arg(r#"jsonpath={.type} {.object.spec.reference}{"\n"}"#);
    caller.environment(&mut watch);
    let mut watch = watch.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut saw = async |expected: &str| {
        let line = tokio::time::timeout(std::time::Duration::from_secs(60), events.next_line());
        assert_eq!(line.await.expect("an event").unwrap().as_deref(), Some(expected));
    };
    prints_with(caller, "kubectl create -f -", &flunder("two", "a")).await;
    saw("ADDED a").await;
    prints(caller, r#"kubectl patch flunder two --type=merge -p '{"spec":{"reference":"b"}}'"#).await;
    saw("MODIFIED b").await;
    prints(caller, "kubectl delete flunder two").await;
    saw("DELETED b").await;
}

/// Discovery and OpenAPI v3 describe the sample's types beside kindom's own.
async fn documents(caller: &Caller) {
    let found = prints(caller, "kubectl api-resources --api-group wardle.example.com -o name").await;
    assert_eq!(found, "fischers.wardle.example.com\nflunders.wardle.example.com");
    let explained = prints(caller, "kubectl explain flunder.spec.reference").await;
    assert!(explained.contains("A name of another flunder or fischer"), "{explained}");
    assert!(prints(caller, "kubectl explain lease.spec").await.contains("holderIdentity"));
}

/// The sample knows who asks, by the front's word; and asks the front what that user may do.
async fn identity(sample: &Sample) {
    let client = sample.front.client().unwrap();
    let asked = client.request("GET", FLUNDERS).header("Audit-Id", "one-id").header("X-Remote-User", "root");
    asked.send().await.unwrap().expect_status(200).unwrap();
    let event = sample.audited("one-id").await;
    assert_eq!(event["user"]["username"], "kubernetes-admin");
    assert_eq!(sample.front.anonymous().unwrap().get(FLUNDERS).await.unwrap().status, 403);
}

/// A user with few permissions has them in the sample as in kindom, and is refused in the same words: those that kindom refuses
/// never reach the sample, and what the sample asks about is answered by the same roles.
async fn limited(sample: &Sample) {
    let caller = &sample.front.caller();
    prints(caller, "kubectl create role keeper --verb=get,list,watch,create,patch --resource=flunders.wardle.example.com").await;
    prints(caller, "kubectl create rolebinding keepers --role=keeper --user=jane").await;
    for command in ["apply -f -", "apply --server-side --force-conflicts -f -"] {
        prints_with(caller, &format!("kubectl --as=jane {command}"), &flunder("limited", "a")).await;
    }
    prints(
        caller,
        "kubectl --as=jane patch flunder limited --type=merge -p '{\"spec\":{\"reference\":\"b\"}}'",
    )
    .await;
    assert!(prints(caller, "kubectl --as=jane get flunders").await.contains("limited"));
    prints(caller, "kubectl --as=jane wait flunder limited --for=jsonpath={.spec.reference}=b").await;
    let refused = |verb: &str, of: &str, place: &str| {
        format!("User \"jane\" cannot {verb} resource \"{of}\" in API group \"wardle.example.com\" {place}")
    };
    for (command, text) in [
        ("delete flunder limited", refused("delete", "flunders", "in the namespace \"default\"")),
        ("get flunders -A", refused("list", "flunders", "at the cluster scope")),
        ("get flunders -n kube-system", refused("list", "flunders", "in the namespace \"kube-system\"")),
        ("get fischers", refused("list", "fischers", "at the cluster scope")),
        ("replace -f -", refused("update", "flunders", "in the namespace \"default\"")),
    ] {
        let said = fails(caller, &format!("kubectl --as=jane {command}"), &flunder("limited", "c")).await;
        assert!(said.contains(&text), "{said}");
    }
    // The sample asks by itself: a client that comes to it directly, with a token of kindom's.
    prints(caller, "kubectl create serviceaccount direct").await;
    prints(caller, "kubectl create rolebinding direct --role=keeper --serviceaccount=default:direct").await;
    let token = prints(caller, "kubectl create token direct").await;
    let direct = |path: &str| {
        format!("curl -sk -H 'Authorization: Bearer {token}' https://127.0.0.1:{}{path}", sample.port)
    };
    assert!(prints(caller, &direct(FLUNDERS)).await.contains("\"limited\""));
    let fischers = prints(caller, &direct("/apis/wardle.example.com/v1alpha1/fischers")).await;
    assert!(fischers.contains("cannot list resource \\\"fischers\\\""), "{fischers}");
    prints(caller, "kubectl delete flunder limited").await;
}
