//! Real registrations and samples, laid out as kube-apiserver stores them. They lie beside the repository; without them the
//! test says so and ends (docs/conformance.md).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kindom_api::faces::Face;
use kindom_integration::{Client, full};
use serde_json::{Value, json};

use super::comparable;
use super::prefix::{Keys, Place};
use crate::corpus_folder;
use crate::support::{CRDS, condition};

/// The projects whose samples are laid out by default.
const PROJECTS: [&str; 5] = ["gateway-api", "cluster-api", "prometheus-operator", "karpenter", "calico"];
/// So many samples of a type are enough.
const SAMPLES_PER_TYPE: usize = 5;

/// The documents of files; null where one is no YAML. Each file is parsed once: most are named by many samples.
struct Documents {
    folder: PathBuf,
    parsed: BTreeMap<String, Vec<Value>>,
}

impl Documents {
    fn of(&mut self, file: &str) -> &[Value] {
        if !self.parsed.contains_key(file) {
            let text = format!("\n{}", std::fs::read_to_string(self.folder.join(file)).unwrap());
            let options = serde_saphyr::options! { legacy_octal_numbers: true };
            let parsed =
                |part: &str| serde_saphyr::from_str_with_options(part, options.clone()).unwrap_or_default();
            self.parsed.insert(file.to_owned(), text.split("\n---").map(parsed).collect());
        }
        &self.parsed[file]
    }
}

/// Registers the types of the corpus and creates samples of them.
async fn fill(client: &Client, corpus: &Path) {
    let rows: Vec<Value> =
        serde_json::from_slice(&std::fs::read(corpus.join("SAMPLES.json")).unwrap()).unwrap();
    let of = |row: &&Value| {
        let project = row["file"].as_str().unwrap().split('/').next().unwrap_or_default();
        (full() || PROJECTS.contains(&project)) && row["schema_errors"] == json!([])
    };
    let mut documents = Documents { folder: corpus.to_owned(), parsed: BTreeMap::new() };
    let mut registered = BTreeSet::new();
    let mut samples: BTreeMap<String, usize> = BTreeMap::new();
    for (n, row) in rows.iter().filter(of).enumerate() {
        let Some(crds) = row["crd"].as_str() else { continue };
        let mut plural = None;
        for crd in documents.of(crds) {
            if crd["kind"] != "CustomResourceDefinition" || crd["apiVersion"] != "apiextensions.k8s.io/v1" {
                continue;
            }
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if crd["spec"]["names"]["kind"] == row["kind"] {
                plural = Some(crd["spec"].clone());
            }
            if !registered.insert(name.clone()) {
                continue;
            }
            let mut crd = crd.clone();
            crd["metadata"]["annotations"]["api-approved.kubernetes.io"] = json!("unapproved, a test");
            if client.post(CRDS, &crd).await.unwrap().status == 201 {
                condition(client, &name, "Established", "True").await;
            }
        }
        let Some(spec) = plural else { continue };
        let count = samples.entry(row["kind"].to_string()).or_default();
        if *count == SAMPLES_PER_TYPE {
            continue;
        }
        *count += 1;
        let at = usize::try_from(row["doc"].as_u64().unwrap_or_default()).unwrap();
        let there = documents.of(row["file"].as_str().unwrap()).get(at);
        let Some(mut sample) = there.filter(|sample| sample["kind"] == row["kind"]).cloned() else {
            continue;
        };
        let namespace = if spec["scope"] == "Cluster" { "" } else { "/namespaces/default" };
        sample["metadata"]["name"] = json!(format!("sample-{n}"));
        for field in ["namespace", "generateName", "resourceVersion"] {
            sample["metadata"].as_object_mut().unwrap().remove(field);
        }
        let (group_version, plural) =
            (row["apiVersion"].as_str().unwrap(), spec["names"]["plural"].as_str().unwrap());
        // What is not valid is not stored; others look at that.
        client.post(&format!("/apis/{group_version}{namespace}/{plural}"), &sample).await.unwrap();
    }
}

/// A server's answers for every type in every version.
async fn answers(client: &Client) -> BTreeMap<String, (u16, Value)> {
    let crds = client.get(CRDS).await.unwrap().expect_status(200).unwrap().json();
    let mut all = BTreeMap::from([(CRDS.to_owned(), (200, comparable(crds.clone())))]);
    for crd in crds["items"].as_array().unwrap() {
        let (group, plural) =
            (crd["spec"]["group"].as_str().unwrap(), crd["spec"]["names"]["plural"].as_str().unwrap());
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let path = format!("/apis/{group}/{}/{plural}", version["name"].as_str().unwrap());
            let answer = client.get(&path).await.unwrap();
            let body = if answer.status == 404 { Value::Null } else { comparable(answer.json()) };
            all.insert(path, (answer.status, body));
        }
    }
    all
}

/// As kube-apiserver lays it out: registrations as v1beta1, everything by an encoder that ends with a line.
fn as_upstream_stores_it(key: &str, value: &Bytes) -> Bytes {
    let mut bytes = value.to_vec();
    if key.starts_with("/registry/apiextensions.k8s.io/") {
        bytes = Face::V1beta1.show(kindom_api::json::parse(value).unwrap()).to_vec();
    }
    bytes.push(b'\n');
    bytes.into()
}

/// Issue 7, show 5.
#[tokio::test]
async fn the_corpus_laid_out_by_another_server_is_served_as_it_is() {
    let Some(corpus) = corpus_folder::folder() else { return };
    let first = Place::folder();
    let gates = ["--feature-gates", "StorageVersionMigrator=false"];
    let mut server = first.serve(&gates).await;
    let client = server.client().unwrap();
    fill(&client, &corpus).await;
    let before = answers(&client).await;
    server.terminate().await.unwrap();
    let keys = first.all("/registry/").await;
    let keys: Keys =
        keys.iter().map(|(key, value)| (key.clone(), as_upstream_stores_it(key, value))).collect();
    println!("corpus: {} keys, {} lists", keys.len(), before.len());
    assert!(keys.len() > 150 && before.len() > 60, "{} keys, {} lists", keys.len(), before.len());

    for place in Place::of_each_engine().await {
        let mut server = place.over(&keys, &gates).await;
        let client = server.client().unwrap();
        let after = answers(&client).await;
        for (path, answer) in &before {
            assert!(after.get(path) == Some(answer), "{path}: {answer:?}\n{:?}", after.get(path));
        }
        assert_eq!(after.len(), before.len());
        server.terminate().await.unwrap();
        let stored = place.all("/registry/").await;
        for (key, value) in &keys {
            assert_eq!(stored.get(key), Some(value), "{key}");
        }
    }
}
