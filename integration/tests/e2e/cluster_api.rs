//! Cluster API's core types, in two versions with its own webhooks, which change, judge and convert them (`integration/cluster-api`).

use std::path::Path;

use kindom_integration::{Client, Server, ServerOptions, full, tools};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::authority::{Authority, Files};
use crate::foreign::Gate;
use crate::support::{crd, names, namespace, refused, register, until};

/// The Service of the webhooks, as the kustomization of the module calls it.
const SERVICE: &str = "capi-webhook-service";
const NAMESPACE: &str = "capi-system";

fn path(version: &str, plural: &str) -> String {
    format!("/apis/cluster.x-k8s.io/{version}/namespaces/default/{plural}")
}

/// The documents of a YAML file.
fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let parts = text
        .split("\n---\n")
        .map(|part| part.trim_start_matches("---\n"))
        .filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

/// A type of another provider, whose version is known by its label.
fn infrastructure() -> Value {
    let mut machines = crd("infrastructure.cluster.x-k8s.io", "shopmachines", "ShopMachine", "Namespaced");
    machines["metadata"]["labels"] =
        json!({"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v1"});
    machines
}

/// The registrations and configurations of the module, as its kustomization completes them.
async fn install(server: &Server, client: &Client, program: &Path, bundle: &str) {
    let service = |path: &str| json!({"namespace": NAMESPACE, "name": SERVICE, "path": path});
    let create = ["create", "--validate=strict", "-f", "-"];
    for mut registration in documents(&program.with_file_name("cluster-api-crds.yaml")) {
        registration["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"service": service("/convert"), "caBundle": bundle}}});
        server.kubectl_with(&create, &registration.to_string()).await.unwrap().success().unwrap();
    }
    server.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).await.unwrap();
    register(client, &infrastructure()).await;
    for mut configuration in documents(&program.with_file_name("cluster-api-webhooks.yaml")) {
        for hook in configuration["webhooks"].as_array_mut().unwrap() {
            let path = hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            hook["clientConfig"] = json!({"service": service(&path), "caBundle": bundle});
        }
        server.kubectl_with(&create, &configuration.to_string()).await.unwrap().success().unwrap();
    }
}

fn reference(version: &str, name: &str) -> Value {
    match version {
        "v1beta1" => {
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "ShopMachine", "name": name, "namespace": "default"})
        }
        _ => json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ShopMachine", "name": name}),
    }
}

fn deployment(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineDeployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterName": "shop", "replicas": 2, "selector": {}, "template": {"spec": {
            "clusterName": "shop", "version": "1.30.0", "bootstrap": {"dataSecretName": "secret"}, "infrastructureRef": reference(version, name),
        }}},
    })
}

/// Objects that are written in either version are changed and judged by the webhooks, stored in one, and read, listed, watched, patched, applied and
/// scaled in both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_types_serve_and_store_in_two_versions() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("cluster-api").unwrap() else { return };
    let (files, authority, gate) = (Files::new(), Authority::new("webhooks"), Gate::open().await);
    let (certificate, key) =
        authority.issue(&format!("{SERVICE}.{NAMESPACE}.svc"), ExtendedKeyUsagePurpose::ServerAuth);
    files.write("tls.crt", &certificate);
    files.write("tls.key", &key);
    let resolver = format!("{NAMESPACE}/{SERVICE}:443=127.0.0.1:{}", gate.port);
    let server = ServerOptions::default().args(&["--service-resolver", &resolver]).start().await.unwrap();
    let client = server.client().unwrap();
    let mut command = Command::new(&program);
    command.arg(files.path(""));
    let mut webhooks = gate.lead_to(&server, "cluster-api", command).await;
    namespace(&client, NAMESPACE).await;
    install(&server, &client, &program, &authority.bundle()).await;

    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"paused": true, "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}, "infrastructureRef": reference("v1beta1", "shop"),
            "controlPlaneEndpoint": {"host": "10.1.2.3", "port": 6443}},
    });
    client.post(&path("v1beta1", "clusters"), &cluster).await.unwrap().expect_status(201).unwrap();
    let shop = until(&client, &path("v1beta2", "clusters"), "shop", |_| true).await;
    assert_eq!(shop["spec"]["infrastructureRef"], reference("v1beta2", "shop"));
    assert_eq!(
        client
            .get(&format!("{}/shop", path("v1beta1", "clusters")))
            .await
            .unwrap()
            .at("/spec/infrastructureRef"),
        reference("v1beta1", "shop")
    );

    // Defaults and rules are the webhooks', in whichever version an object comes.
    for version in ["v1beta1", "v1beta2"] {
        let name = format!("of-{version}");
        let created =
            client.post(&path(version, "machinedeployments"), &deployment(version, &name)).await.unwrap();
        let created = created.expect_status(201).unwrap();
        assert_eq!(created.at("/apiVersion"), format!("cluster.x-k8s.io/{version}"));
        assert_eq!(created.at("/spec/template/spec/version"), "v1.30.0", "{}", created.text());
        assert_eq!(created.at("/metadata/labels/cluster.x-k8s.io~1cluster-name"), "shop");
        let mut wrong = deployment(version, "wrong");
        wrong["spec"]["template"]["spec"]["version"] = json!("none");
        let why = "validation.machinedeployment.cluster.x-k8s.io\" denied the request";
        refused(client.post(&path(version, "machinedeployments"), &wrong).await, 422, "Invalid", why);
        let renamed = json!({"spec": {"clusterName": "other"}});
        refused(
            client.merge_patch(&format!("{}/{name}", path(version, "machinedeployments")), &renamed).await,
            422,
            "Invalid",
            "spec.clusterName",
        );
    }
    let listed = client.get(&path("v1beta1", "machinedeployments")).await.unwrap().json();
    assert_eq!(names(&listed), ["of-v1beta1", "of-v1beta2"]);
    for item in listed["items"].as_array().unwrap() {
        assert_eq!(
            item["spec"]["template"]["spec"]["infrastructureRef"]["apiVersion"],
            "infrastructure.cluster.x-k8s.io/v1"
        );
    }
    let revision = listed["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{}?watch=true&resourceVersion={revision}", path("v1beta1", "machinedeployments"));
    let mut watch = client.watch(&watch).await.unwrap();
    // Applied and scaled in the version that is not stored, seen in it.
    let mut sent = deployment("v1beta1", "of-v1beta2");
    sent["spec"] = json!({"clusterName": "shop", "selector": {}, "template": sent["spec"]["template"], "minReadySeconds": 7});
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    server.kubectl_with(&apply, &sent.to_string()).await.unwrap().success().unwrap();
    let event = watch.event().await.unwrap();
    assert_eq!(
        (&event["object"]["apiVersion"], &event["object"]["spec"]["minReadySeconds"]),
        (&json!("cluster.x-k8s.io/v1beta1"), &json!(7))
    );
    server
        .kubectl(&["scale", "machinedeployments.v1beta1.cluster.x-k8s.io/of-v1beta2", "--replicas=5"])
        .await
        .unwrap();
    assert_eq!(watch.event().await.unwrap()["object"]["spec"]["replicas"], 5);
    let stored = client.get(&format!("{}/of-v1beta2", path("v1beta2", "machinedeployments"))).await.unwrap();
    assert_eq!(
        (stored.at("/spec/replicas"), stored.at("/spec/template/spec/minReadySeconds")),
        (json!(5), json!(7)),
        "{}",
        stored.text()
    );

    // Nothing is lost while nobody converts, and deletion goes on.
    gate.close();
    webhooks.kill().await.unwrap();
    let away = client.get(&format!("{}/shop", path("v1beta1", "clusters"))).await;
    refused(away, 500, "InternalError", "conversion webhook for");
    assert_eq!(client.get(&format!("{}/shop", path("v1beta2", "clusters"))).await.unwrap().json(), shop);
    client.delete(&format!("{}/of-v1beta2", path("v1beta2", "machinedeployments"))).await.unwrap();
    let mut command = Command::new(&program);
    command.arg(files.path(""));
    let mut webhooks = gate.lead_to(&server, "cluster-api-again", command).await;
    let listed =
        client.get(&path("v1beta1", "machinedeployments")).await.unwrap().expect_status(200).unwrap();
    assert_eq!(names(&listed.json()), ["of-v1beta1"]);
    webhooks.kill().await.unwrap();
}
