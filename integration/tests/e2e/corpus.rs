//! Registrations and objects of three real projects, judged by what the real server answered to each.
//!
//! The corpus lies beside the repository (`KINDOM_CORPUS`, by default `../shared/corpus`); without it the test says so
//! and ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kindom_integration::{Client, Server, tools};
use serde_json::{Value, json};

use crate::support::{CRDS, condition, names, namespace, until_gone};

/// The folder of each project's registrations below the corpus.
const PROJECTS: [&str; 3] =
    ["gateway-api/crds/config/crd/standard/", "cluster-api/crds/", "prometheus-operator/crds/"];
const NAMESPACE: &str = "corpus";
/// What must not grow smaller unnoticed: registrations, accepted samples, refused samples.
const FLOOR: (usize, usize, usize) = (55, 99, 10);

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("KINDOM_CORPUS")
        .map_or_else(|| tools::root().join("../shared/corpus"), PathBuf::from);
    folder.join("SAMPLES.json").is_file().then_some(folder)
}

fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut all = Vec::new();
    for (at, line) in split(&text) {
        let value: Value =
            serde_saphyr::from_str(&line).unwrap_or_else(|e| panic!("{} #{at}: {e}", file.display()));
        all.push(value);
    }
    all
}

/// The documents of a YAML stream with their numbers, empty ones left out of the text but not of the count.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            all.push(String::new());
        } else {
            let last = all.last_mut().unwrap();
            last.push_str(line);
            last.push('\n');
        }
    }
    let content =
        |doc: &String| doc.lines().any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'));
    all.into_iter().filter(content).enumerate().collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            found.push(path);
        }
    }
}

/// What the real server answered to a sample.
struct Verdict {
    code: u64,
    causes: Vec<(String, String)>,
}

/// Whether a refusal rests on nothing but rules that are not enforced yet: CEL, and `allOf` and its kin.
fn only_by_unenforced_rules(verdict: &Verdict) -> bool {
    verdict.causes.iter().all(|(reason, message)| {
        let by_schema = message.contains(" in body ")
            || matches!(
                reason.as_str(),
                "FieldValueRequired"
                    | "FieldValueNotSupported"
                    | "FieldValueTypeInvalid"
                    | "FieldValueDuplicate"
            );
        !by_schema || message.contains("must validate ")
    })
}

fn reference(corpus: &Path) -> BTreeMap<String, Verdict> {
    let text = std::fs::read_to_string(corpus.join("reference/samples-1.37.jsonl")).unwrap();
    let verdict = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let causes = row["causes"].as_array().cloned().unwrap_or_default();
        let causes = causes.iter().map(|c| (text(&c["reason"]), text(&c["message"]))).collect();
        (text(&row["key"]), Verdict { code: row["code"].as_u64().unwrap_or_default(), causes })
    };
    text.lines().map(verdict).collect()
}

/// A registration's group, plural, kind and scope.
struct Type {
    group: String,
    plural: String,
    namespaced: bool,
}

impl Type {
    fn of(crd: &Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        Self {
            group: text(&crd["spec"]["group"]),
            plural: text(&crd["spec"]["names"]["plural"]),
            namespaced: crd["spec"]["scope"] == "Namespaced",
        }
    }

    fn collection(&self, version: &str) -> String {
        let scope = if self.namespaced { format!("namespaces/{NAMESPACE}/") } else { String::new() };
        format!("/apis/{}/{version}/{scope}{}", self.group, self.plural)
    }
}

async fn unregister(client: &Client, name: &str) {
    client.delete(&format!("{CRDS}/{name}")).await.unwrap().expect_status(200).unwrap();
    until_gone(client, CRDS, name).await;
}

/// Creates, lists and deletes one sample, or sees it refused. Returns whether it was to be accepted.
async fn check(
    client: &Client,
    of: &Type,
    key: &str,
    mut sample: Value,
    verdict: &Verdict,
) -> Result<bool, String> {
    let version =
        sample["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("v1", |(_, v)| v).to_owned();
    let metadata = sample["metadata"].as_object_mut().ok_or("no metadata")?;
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "namespace"] {
        metadata.remove(field);
    }
    let name =
        metadata.entry("name").or_insert_with(|| json!("sample")).as_str().ok_or("no name")?.to_owned();
    let collection = of.collection(&version);
    let answer = client.post(&collection, &sample).await.map_err(|e| e.to_string())?;
    if verdict.code != 201 {
        let fine = answer.status == 422;
        return if fine { Ok(false) } else { Err(format!("{key}: {} instead of 422", answer.status)) };
    }
    if answer.status != 201 {
        return Err(format!("{key}: {} {}", answer.status, answer.text()));
    }
    let list = client.get(&collection).await.map_err(|e| e.to_string())?.json();
    if names(&list) != [name.as_str()] {
        return Err(format!("{key}: listed as {:?}", names(&list)));
    }
    let gone = client.delete(&format!("{collection}/{name}")).await.map_err(|e| e.to_string())?;
    if gone.status != 200 {
        return Err(format!("{key}: deletion answered {}", gone.status));
    }
    // Some samples carry finalizers: nobody is there to remove them.
    let open = json!({"metadata": {"finalizers": null}});
    let last = client.merge_patch(&format!("{collection}/{name}"), &open).await.map_err(|e| e.to_string())?;
    if last.status != 404 && last.status != 200 {
        return Err(format!("{key}: removing its finalizers answered {}", last.status));
    }
    let left = client.get(&collection).await.map_err(|e| e.to_string())?.json();
    if names(&left).is_empty() { Ok(true) } else { Err(format!("{key}: not deleted")) }
}

#[tokio::test]
async fn three_real_projects_register_and_their_samples_get_their_verdicts() {
    let Some(corpus) = corpus() else {
        println!("corpus: skipped, there is none (set KINDOM_CORPUS)");
        return;
    };
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    namespace(&client, NAMESPACE).await;
    let verdicts = reference(&corpus);
    let samples: Vec<Value> =
        serde_json::from_slice(&std::fs::read(corpus.join("SAMPLES.json")).unwrap()).unwrap();

    let (mut registered, mut accepted, mut refused, mut left_out) = (0, 0, 0, 0);
    let mut faults = Vec::new();
    let mut files = Vec::new();
    PROJECTS.iter().for_each(|folder| find(&corpus.join(folder), &mut files));
    for file in files {
        let short = file.strip_prefix(&corpus).unwrap().to_str().unwrap().to_owned();
        let said = server.kubectl(&["create", "-f", file.to_str().unwrap()]).await;
        if let Err(e) = said {
            faults.push(format!("{short}: {e}"));
            continue;
        }
        let crds: Vec<Value> =
            documents(&file).into_iter().filter(|d| d["kind"] == "CustomResourceDefinition").collect();
        for crd in &crds {
            condition(&client, crd["metadata"]["name"].as_str().unwrap(), "Established", "True").await;
            registered += 1;
        }
        for row in samples.iter().filter(|row| row["crd"] == short.as_str()) {
            let (sample_file, number) = (row["file"].as_str().unwrap(), row["doc"].as_u64().unwrap());
            let key = format!("{sample_file}#{number}");
            let Some(verdict) = verdicts.get(&key) else { continue };
            if !matches!(verdict.code, 201 | 422) || verdict.code == 422 && only_by_unenforced_rules(verdict)
            {
                left_out += 1;
                continue;
            }
            let all = documents(&corpus.join(sample_file));
            let sample =
                all.into_iter().nth(usize::try_from(number).unwrap()).expect("the document is there");
            let of = crds.iter().find(|c| c["spec"]["names"]["kind"] == sample["kind"]).map(Type::of);
            let of = of.unwrap_or_else(|| panic!("{key}: no type for it in {short}"));
            match check(&client, &of, &key, sample, verdict).await {
                Ok(true) => accepted += 1,
                Ok(false) => refused += 1,
                Err(fault) => faults.push(fault),
            }
        }
        // Some files hold other stages of the same registration: one at a time.
        for crd in &crds {
            unregister(&client, crd["metadata"]["name"].as_str().unwrap()).await;
        }
    }
    println!(
        "corpus: {registered} registrations, {accepted} samples accepted, {refused} refused, {left_out} left out"
    );
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(registered >= FLOOR.0 && accepted >= FLOOR.1 && refused >= FLOOR.2, "fewer ran than there are");
}

#[test]
fn documents_are_split_and_counted() {
    assert_eq!(
        split("a: 1\n---\n# only a comment\n---\nb: 2\n"),
        [(0, "a: 1\n".to_owned()), (1, "b: 2\n".to_owned())]
    );
}
