//! Leases, the example of a built-in kind that is one folder (`docs/adding-a-kind.md`), with kubectl. What kube-apiserver
//! answers is replayed in `replay.rs`; client-go's leader election runs in `go_clients.rs`.

use kindom_integration::{Server, tools};
use kindom_storage::{Op, Txn};
use serde_json::{Value, json};

use crate::support::{refused, store, until, until_gone};

const MANIFEST: &str = "\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: one
spec:
  holderIdentity: a
  leaseDurationSeconds: 15
  renewTime: 2026-01-02T03:04:05.000006Z
";

#[tokio::test]
async fn kubectl_applies_shows_and_explains_one() {
    let server = Server::start().await.unwrap();
    let apply = async |manifest: &str, side: &str| {
        let args = ["apply", side, "--validate=strict", "-f", "-"];
        server.kubectl_with(&args, manifest).await.unwrap().success().unwrap()
    };
    for (manifest, side, said) in [
        (MANIFEST, "--server-side=false", "created"),
        (MANIFEST, "--server-side=false", "unchanged"),
        // A strategic merge patch, as kubectl knows the kind.
        (&MANIFEST.replace("Identity: a", "Identity: b"), "--server-side=false", "configured"),
        (&MANIFEST.replace("Identity: a", "Identity: b"), "--server-side", "serverside-applied"),
    ] {
        assert_eq!(apply(manifest, side).await, format!("lease.coordination.k8s.io/one {said}\n"));
    }
    let misspelt = MANIFEST.replace("holderIdentity", "holderIdentify");
    let refused = server.kubectl_with(&["apply", "--validate=strict", "-f", "-"], &misspelt).await.unwrap();
    assert!(!refused.status.success());
    let refused = refused.stderr;
    assert!(refused.contains(r#"unknown field "spec.holderIdentify""#), "{refused}");

    let shown = server.kubectl(&["get", "leases"]).await.unwrap();
    let shown: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(shown[0], ["NAME", "HOLDER", "AGE"]);
    assert_eq!(shown[1][..2], ["one", "b"]);
    let yaml = server.kubectl(&["get", "lease/one", "-o", "yaml"]).await.unwrap();
    assert!(yaml.contains("renewTime: \"2026-01-02T03:04:05.000006Z\""), "{yaml}");
    let explained = server.kubectl(&["explain", "lease.spec.renewTime"]).await.unwrap();
    for part in ["GROUP:      coordination.k8s.io", "KIND:       Lease", "FIELD: renewTime <string>"] {
        assert!(explained.contains(part), "{explained}");
    }
    let described = server.kubectl(&["describe", "lease", "one"]).await.unwrap();
    assert!(described.contains("Holder Identity:") && described.contains("Renew Time:"), "{described}");
    server.kubectl(&["delete", "lease", "one"]).await.unwrap();
    let none = server.kubectl(&["get", "leases", "-A", "-o", "name"]).await.unwrap();
    assert_eq!(none, "");
}

/// kube-apiserver's registry of namespaces has no DELETE of the collection, and its discovery says so (`storage.go` of
/// `pkg/registry/core/namespace`, 1.37: `REST` is no `rest.CollectionDeleter`); leases have it.
#[tokio::test]
async fn namespaces_are_deleted_one_by_one() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let all = client.delete("/api/v1/namespaces").await;
    refused(all, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    client.get("/api/v1/namespaces/default").await.unwrap().expect_status(200).unwrap();
    for (group, resource, has) in
        [("/api/v1", "namespaces", false), ("/apis/coordination.k8s.io/v1", "leases", true)]
    {
        let resources = client.get(group).await.unwrap().expect_status(200).unwrap().json();
        let mut listed = resources["resources"].as_array().unwrap().iter();
        let found = listed.find(|r| r["name"] == resource).unwrap();
        let verbs = found["verbs"].as_array().unwrap();
        assert_eq!(verbs.contains(&json!("deletecollection")), has, "{resource}: {verbs:?}");
    }
    let leases = client.delete("/apis/coordination.k8s.io/v1/namespaces/default/leases").await.unwrap();
    leases.expect_status(200).unwrap();
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_leases_with_it() {
    let mut server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let leases = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    for name in ["going", "staying"] {
        client.post("/api/v1/namespaces", &namespace(name)).await.unwrap().expect_status(201).unwrap();
        for lease in ["free", "held"] {
            let finalizers = if lease == "held" { json!(["example.com/hold"]) } else { json!([]) };
            let metadata = json!({"name": lease, "finalizers": finalizers});
            let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
            client.post(&leases(name), &body).await.unwrap().expect_status(201).unwrap();
        }
    }
    // One of them as kube-apiserver stores it.
    let held = client.request("GET", &format!("{}/held", leases("going")));
    let held = held.accept("application/vnd.kubernetes.protobuf").send().await.unwrap();
    let held = held.expect_status(200).unwrap().body;
    assert!(held.starts_with(b"k8s\0"));
    server.terminate().await.unwrap();
    let store = store(&server).await;
    let put = Op::Put("/registry/leases/going/held".into(), held);
    store.txn(Txn { compares: Vec::new(), ops: vec![put] }).await.unwrap();
    store.close().await.unwrap();
    server.restart().await.unwrap();
    let client = server.client().unwrap();

    client.delete("/api/v1/namespaces/going").await.unwrap().expect_status(200).unwrap();
    let says_what_is_left = |namespace: &Value| {
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let message = "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances";
        conditions.iter().any(|condition| condition["message"] == message)
    };
    until(&client, "/api/v1/namespaces", "going", says_what_is_left).await;
    let names = async |namespace: &str| {
        let list = client.get(&leases(namespace)).await.unwrap().expect_status(200).unwrap().json();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("going").await, ["held"]);
    let release = client.request("PATCH", &format!("{}/held", leases("going")));
    let release = release.body("application/merge-patch+json", r#"{"metadata":{"finalizers":null}}"#);
    release.send().await.unwrap().expect_status(200).unwrap();
    until_gone(&client, "/api/v1/namespaces", "going").await;
    assert_eq!(names("going").await, [""; 0]);
    assert_eq!(names("staying").await, ["free", "held"]);
}

/// The examples of the page are lines of the folders that it names.
#[test]
fn the_page_quotes_what_is_there() {
    let page = std::fs::read_to_string(tools::root().join("docs/adding-a-kind.md")).unwrap();
    let read = |kind| {
        let file = format!("objects/src/kinds/{kind}/mod.rs");
        assert!(page.contains(&file), "{file}");
        std::fs::read_to_string(tools::root().join(file)).unwrap()
    };
    let folders = [read("lease"), read("secret")];
    let quotes: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(quotes.len(), 3);
    for quote in quotes {
        assert!(folders.iter().any(|folder| folder.contains(quote)), "in no folder any more:\n{quote}");
    }
}

/// No source but its folder's names the kind, and the list of kinds names the folder: a kind is one folder and one place.
#[test]
fn a_kind_is_one_folder() {
    let root = tools::root();
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let source = name.split('/').any(|part| part == "src");
            if path.is_dir()
                && !name.starts_with(['.'])
                && !["target", "integration", "fuzz"].contains(&&*name)
            {
                folders.push(path);
            } else if source && name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                if code.clone().any(|line| line.contains("coordination.k8s.io") || line.contains("lease::")) {
                    found.push(name);
                }
            }
        }
    }
    found.sort();
    assert_eq!(found, ["objects/src/kinds/lease/mod.rs", "objects/src/kinds/mod.rs"]);
}
