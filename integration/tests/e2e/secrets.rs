//! Secret and ServiceAccount, `v1`, as kube-apiserver serves them (`objects/src/kinds/secret`, `service_account`), and Helm, which
//! keeps its releases in secrets.

use kindom_integration::{Caller, Server, ServerOptions, full, tools};
use serde_json::{Value, json};

use crate::shell::{fails, prints};
use crate::support::{crd, namespace, until_gone};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test]
async fn kubectl_creates_secrets_and_accounts() {
    let server = Server::start().await.unwrap();
    let caller = &server.caller();
    prints(caller, "kubectl create secret generic one --from-literal=a=1 --from-literal=b=2").await;
    prints(caller, "kubectl create secret generic mine --type=example.com/mine --from-literal=a=1").await;
    let registry = "--docker-server=registry.example.com --docker-username=u --docker-password=p";
    prints(caller, &format!("kubectl create secret docker-registry pull {registry}")).await;
    prints(caller, "kubectl create serviceaccount robot").await;
    let rows = |table: String| -> Vec<Vec<String>> {
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        table.lines().map(cells).collect()
    };
    let table = rows(prints(caller, "kubectl get secrets").await);
    assert_eq!(table[0], ["NAME", "TYPE", "DATA", "AGE"]);
    assert_eq!(table.iter().find(|row| row[0] == "one").unwrap()[1..3], ["Opaque", "2"]);
    let pull = table.iter().find(|row| row[0] == "pull").unwrap();
    assert_eq!(pull[1..3], ["kubernetes.io/dockerconfigjson", "1"]);
    let mine = prints(caller, "kubectl get secrets --field-selector type=example.com/mine -o name").await;
    assert_eq!(mine, "secret/mine");
    assert_eq!(rows(prints(caller, "kubectl get sa robot").await)[0], ["NAME", "AGE"]);
    // Text goes in, and never comes out.
    let patched = "kubectl patch secret one -p '{\"stringData\":{\"a\":\"x\"},\"data\":{\"b\":null}}'";
    prints(caller, patched).await;
    assert_eq!(
        prints(caller, "kubectl get secret one -o jsonpath='{.data}{.stringData}'").await,
        r#"{"a":"eA=="}"#
    );
    let described = prints(caller, "kubectl describe secret one").await;
    assert!(described.contains("a:  1 bytes"), "{described}");
    let message = fails(caller, "kubectl patch secret one -p '{\"type\":\"another\"}'", "").await;
    assert!(message.contains("type: Invalid value: \"another\": field is immutable"), "{message}");
    // The documentation is Kubernetes'.
    let explained = prints(caller, "kubectl explain secret.stringData").await;
    assert!(explained.contains("write-only input field"), "{explained}");
    prints(caller, "kubectl patch sa robot -p '{\"secrets\":[{\"name\":\"one\"}]}'").await;
    prints(caller, "kubectl patch sa robot -p '{\"secrets\":[{\"name\":\"mine\"}]}'").await;
    let names = prints(caller, "kubectl get sa robot -o jsonpath='{.secrets[*].name}'").await;
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["mine", "one"]);
    let phase = prints(caller, "kubectl get ns --field-selector status.phase=Active -o name").await;
    assert!(phase.contains("namespace/default"), "{phase}");
}

#[tokio::test]
async fn a_secret_is_stored_as_it_was_sent() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, "team").await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": {"a": "AAEC/w=="}});
    let path = SECRETS.replace("default", "team");
    client.post(&path, &secret).await.unwrap().expect_status(201).unwrap();
    let read = |client: kindom_integration::Client| {
        let path = format!("{path}/one");
        async move {
            let answer =
                client.request("GET", &path).accept("application/vnd.kubernetes.protobuf").send().await;
            answer.unwrap().expect_status(200).unwrap().body
        }
    };
    let before = read(client).await;
    assert!(before.starts_with(b"k8s\0") && before.windows(4).any(|bytes| bytes == [0, 1, 2, 0xff]));
    server.restart().await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(read(client.clone()).await, before);
    client.delete("/api/v1/namespaces/team").await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "team").await;
    assert_eq!(client.get(&format!("{path}/one")).await.unwrap().status, 404);
}

/// Installs, upgrades, rolls back and removes a chart with a widget of `shop.example.com`, a Deployment and a Service; skips where
/// no Helm can be built. The chart brings the widgets' registration, if it is given.
pub(crate) async fn helm(caller: &Caller, scratch: &std::path::Path, registration: Option<&Value>) {
    let Some(program) = tools::built("helm").unwrap() else { return };
    let chart = scratch.join("chart");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\n").unwrap();
    std::fs::write(chart.join("values.yaml"), "size: 1\n").unwrap();
    let template = "apiVersion: shop.example.com/v1\nkind: Widget\nmetadata: {name: {{ .Release.Name }}}\nspec: {size: {{ .Values.size }}}\n";
    std::fs::write(chart.join("templates/widget.yaml"), template).unwrap();
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {size: \"{{ .Values.size }}\"}\n---\n\
                    apiVersion: v1\nkind: Secret\nmetadata: {name: hidden}\nstringData: {size: \"{{ .Values.size }}\"}\n---\n\
                    apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n";
    std::fs::write(chart.join("templates/settings.yaml"), settings).unwrap();
    let workload = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}}\nspec:\n  replicas: {{ .Values.size }}\n  \
                    selector: {matchLabels: {app: shop}}\n  template:\n    metadata: {labels: {app: shop}}\n    \
                    spec: {containers: [{name: shop, image: example.com/shop:1, ports: [{containerPort: 8080}]}]}\n---\n\
                    apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\nspec: {type: NodePort, \
                    selector: {app: shop}, ports: [{port: 80, targetPort: 8080}]}\n";
    std::fs::write(chart.join("templates/workload.yaml"), workload).unwrap();
    if let Some(registration) = registration {
        std::fs::create_dir_all(chart.join("crds")).unwrap();
        std::fs::write(chart.join("crds/widgets.yaml"), registration.to_string()).unwrap();
    }
    let helm = async |args: &[&str]| {
        let mut command = tokio::process::Command::new(&program);
        command.args(args);
        caller.run(command, "").await.unwrap().success().unwrap()
    };
    let size = async || {
        let widget = caller.kubectl(&["get", "widget", "mine", "-o", "jsonpath={.spec.size}"]).await.unwrap();
        let settings =
            caller.kubectl(&["get", "configmap", "settings", "-o", "jsonpath={.data.size}"]).await.unwrap();
        assert_eq!(widget, settings);
        let replicas =
            caller.kubectl(&["get", "deployment", "mine", "-o", "jsonpath={.spec.replicas}"]).await.unwrap();
        assert_eq!(widget, replicas);
        widget
    };
    let held = async || {
        let path = "jsonpath={.spec.clusterIP} {.spec.ports[0].nodePort}";
        caller.kubectl(&["get", "service", "mine", "-o", path]).await.unwrap()
    };
    // Nothing runs the pods, so there is nothing to wait for.
    helm(&["install", "mine", "chart"]).await;
    assert_eq!(size().await, "1");
    let before = held().await;
    helm(&["upgrade", "mine", "chart", "--set", "size=7"]).await;
    assert_eq!(size().await, "7");
    helm(&["rollback", "mine", "1"]).await;
    assert_eq!(size().await, "1");
    assert_eq!(held().await, before);
    let status = helm(&["status", "mine"]).await;
    assert!(status.contains("REVISION: 3"), "{status}");
    helm(&["uninstall", "mine", "--wait"]).await;
    assert_eq!(caller.kubectl(&["get", "widgets", "-o", "name"]).await.unwrap(), "");
    let left =
        caller.kubectl(&["get", "secret", "hidden", "--ignore-not-found", "-o", "name"]).await.unwrap();
    assert_eq!(left, "");
    let left =
        caller.kubectl(&["get", "deployments,services", "-l", "!provider", "-o", "name"]).await.unwrap();
    assert_eq!(left, "");
}

/// Helm needs nothing but kindom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_manages_a_release() {
    if !full() {
        return;
    }
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let registration = crd("shop.example.com", "widgets", "Widget", "Namespaced");
    helm(&server.caller(), server.scratch(), Some(&registration)).await;
}
