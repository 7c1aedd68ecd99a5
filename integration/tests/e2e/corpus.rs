//! Real registrations, samples and suites, compared with the real server's verdicts (docs/conformance.md).
//!
//! The corpus lies beside the repository (`corpus_folder.rs`), and the program that runs it at `../tools/corpus-check` from
//! there; without a corpus the tests say that they skip. What differs from the real server is listed by its key in
//! `integration/expectations/corpus-differences.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kindom_integration::{Server, full, tools};
use serde::Deserialize;
use serde_json::Value;

use crate::corpus_folder;

/// The part of the corpus that runs by default: enough of each to meet every kind of rule.
const REGISTRATIONS: &str =
    "^(gateway-api|cluster-api|prometheus-operator|karpenter|emissary|velero|operator-framework-api)/";
const SAMPLES: &str = "^(apiextensions-apiserver|gateway-api|cluster-api|prometheus-operator|karpenter)/";
const SUITES: &str = r"/tests/(apiservers|imagepolicies|stableconfigtypes|dnses|routes|backups|networks)\.";

/// The registration that is accepted although 1.37 finds a rule too costly: 1.34 does not.
const LENIENT: &str = "infrastructures.config.openshift.io";
/// The registrations of v1beta1 that are refused.
const REFUSED_V1BETA1: [&str; 3] = [
    "etcdclusters.etcd.database.coreos.com",
    "example.kubebuilder.schemapatcher.controller-tools.sigs.k8s.io",
    "nameValue",
];

struct Corpus {
    folder: PathBuf,
    program: PathBuf,
}

fn corpus() -> Option<Corpus> {
    let folder = corpus_folder::folder()?;
    let program = folder.join("../tools/corpus-check");
    assert!(program.is_file(), "{} is not there", program.display());
    Some(Corpus { folder, program })
}

type Verdicts = BTreeMap<String, Value>;

fn read(file: &Path) -> Verdicts {
    let text = std::fs::read_to_string(file).unwrap();
    let row = |line| {
        let row: Value = serde_json::from_str(line).unwrap();
        (row["key"].as_str().unwrap().to_owned(), row)
    };
    text.lines().map(row).collect()
}

impl Corpus {
    /// The answers of a new server, and those of the real one.
    async fn run(&self, what: &str, part: &str, more: &[&str]) -> (Verdicts, Verdicts) {
        let server = Server::start().await.unwrap();
        let out = server.scratch().join("verdicts.jsonl");
        let mut command = tokio::process::Command::new(tools::python().unwrap());
        command.arg(&self.program).arg(what).args(more);
        command.arg("--kubeconfig").arg(server.kubeconfig()).arg("--corpus").arg(&self.folder);
        command.arg("--out").arg(&out);
        if !full() {
            command.args(["--filter", part]);
        }
        let said = server.run(command, "").await.unwrap();
        // 1 means that something failed: this test judges if it should have.
        assert!(matches!(said.status.code(), Some(0 | 1)), "{}", said.stderr);
        let ours = read(&out);
        let mut theirs = read(&self.folder.join(format!("reference/{what}-1.37.jsonl")));
        theirs.retain(|key, _| ours.contains_key(key));
        assert!(!full() || theirs.len() == ours.len());
        assert!(ours.len() > 50, "{} ran", ours.len());
        (ours, theirs)
    }
}

/// T-01 and what follows from it: a registration is accepted, Established, published and listed, or refused.
#[tokio::test]
async fn registrations_get_the_real_servers_verdicts() {
    let Some(corpus) = corpus() else { return };
    // One at a time: each alone, on an empty registry.
    let (ours, theirs) = corpus.run("crds", REGISTRATIONS, &["--jobs", "1"]).await;
    let mut faults = Vec::new();
    let mut projects: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for (key, row) in &ours {
        let (name, older) = (row["name"].as_str().unwrap(), row["api"] == "v1beta1");
        let accepted = row["accepted"] == true;
        let expected = match older {
            true => !REFUSED_V1BETA1.contains(&name),
            false => theirs.get(key).is_some_and(|row| row["accepted"] == true) || name == LENIENT,
        };
        if accepted != expected || (accepted && row["result"] != "pass") {
            faults.push(row.to_string());
        }
        let counts = projects.entry(key.split('/').next().unwrap()).or_default();
        counts[usize::from(older) * 2 + usize::from(!accepted)] += 1;
    }
    println!("project: v1 accepted, refused; v1beta1 accepted, refused");
    let mut all = [0; 4];
    for (project, counts) in &projects {
        println!("{project}: {counts:?}");
        all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    println!("all {}: {all:?}", ours.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test]
async fn samples_get_the_real_servers_verdicts() {
    let Some(corpus) = corpus() else { return };
    let (ours, theirs) = corpus.run("samples", SAMPLES, &[]).await;
    let causes = |row: &Value| -> BTreeSet<String> {
        row["causes"].as_array().into_iter().flatten().map(Value::to_string).collect()
    };
    let (mut compared, mut webhooks) = (0, 0);
    let mut differ: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, theirs) in &theirs {
        let ours = ours.get(key).unwrap();
        if theirs["code"] == 500 {
            // Its conversion webhook isn't there: the text depends on the machine.
            assert_eq!(ours["code"], 500, "{ours}");
            webhooks += 1;
            continue;
        }
        compared += 1;
        let agree = [
            ("code", ours["code"] == theirs["code"]),
            ("causes", causes(ours) == causes(theirs)),
            ("stored", ours["stored"] == theirs["stored"]),
        ];
        let parts: Vec<&str> =
            agree.into_iter().filter(|(_, agrees)| !agrees).map(|(part, _)| part).collect();
        if !parts.is_empty() {
            differ.insert(key, parts);
        }
    }
    println!("samples: {compared} compared, {webhooks} need a webhook, {} differ", differ.len());
    let all = theirs.keys().map(String::as_str).collect();
    assert_eq!(listed("samples", &all), differ, "listed, and what differs");
}

/// A sample or a case whose verdict is another one than the real server's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    key: String,
    /// The parts of the verdict that differ.
    differs: Vec<String>,
    #[allow(dead_code, reason = "for whoever reads the list")]
    reason: String,
}

/// The listed differences of the keys that ran. The list names no key that is not in the corpus.
fn listed<'a>(what: &str, ran: &BTreeSet<&'a str>) -> BTreeMap<&'a str, Vec<&'static str>> {
    const PARTS: [&str; 4] = ["code", "causes", "stored", "result"];
    let path = tools::root().join("integration/expectations/corpus-differences.json");
    let mut all: BTreeMap<String, Vec<Listed>> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for Listed { key, differs, .. } in all.remove(what).unwrap() {
        let Some(key) = ran.get(key.as_str()) else {
            assert!(!full(), "{key} is listed, but not in the corpus");
            continue;
        };
        let parts = differs.iter().map(|part| *PARTS.iter().find(|known| *known == part).unwrap());
        assert!(found.insert(*key, parts.collect()).is_none(), "{key} is listed twice");
    }
    found
}

#[tokio::test]
async fn suites_pass() {
    let Some(corpus) = corpus() else { return };
    let (ours, _) = corpus.run("suites", SUITES, &[]).await;
    let failed: BTreeMap<&str, &Value> = ours
        .iter()
        .filter(|(_, row)| row["result"] != "pass")
        .map(|(key, row)| (key.as_str(), &row["detail"]))
        .collect();
    println!("suites: {} cases ran, {} failed", ours.len(), failed.len());
    let all = ours.keys().map(String::as_str).collect();
    let differ = failed.keys().map(|key| (*key, vec!["result"])).collect();
    assert_eq!(listed("suites", &all), differ, "listed, and what failed: {failed:#?}");
}
