//! Real registrations, samples and suites, judged by what the real server answered to each (docs/conformance.md).
//!
//! The corpus and the program that runs it lie beside the repository (`KINDOM_CORPUS`, by default `../shared/corpus`, and
//! `../tools/corpus-check` from there); without them the tests say so and end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kindom_integration::{Server, full, tools};
use serde_json::Value;

/// What runs unless everything does: enough of each to meet every kind of rule.
const REGISTRATIONS: &str =
    "^(gateway-api|cluster-api|prometheus-operator|karpenter|emissary|velero|operator-framework-api)/";
const SAMPLES: &str = "^(apiextensions-apiserver|gateway-api|cluster-api|prometheus-operator|karpenter)/";
const SUITES: &str = r"/tests/(apiservers|imagepolicies|stableconfigtypes|dnses|routes|backups|networks)\.";

/// Whose registrations are accepted although 1.37 finds a rule too costly: 1.34 does not.
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
    let folder = std::env::var_os("KINDOM_CORPUS")
        .map_or_else(|| tools::root().join("../shared/corpus"), PathBuf::from);
    let program = folder.join("../tools/corpus-check");
    if folder.join("SAMPLES.json").is_file() && program.is_file() {
        return Some(Corpus { folder, program });
    }
    println!("corpus: skipped, there is none (set KINDOM_CORPUS)");
    None
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
    /// What a server of its own answers, and what the real one did.
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
        // 1 says that something failed: whether it should have is judged here.
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
    let mut differ: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (key, theirs) in &theirs {
        let ours = ours.get(key).unwrap();
        if theirs["code"] == 500 {
            // Its conversion webhook isn't there: the text depends on the machine.
            assert_eq!(ours["code"], 500, "{ours}");
            webhooks += 1;
        } else if theirs["gvk"] != "config.openshift.io/v1 Infrastructure" {
            compared += 1;
            let agree = [
                ("code", ours["code"] == theirs["code"]),
                ("causes", causes(ours) == causes(theirs)),
                ("stored", ours["stored"] == theirs["stored"]),
            ];
            for (what, _) in agree.into_iter().filter(|(_, agrees)| !agrees) {
                differ.entry(what).or_default().push(key);
            }
        }
    }
    println!("samples: {compared} compared, {webhooks} need a webhook; these differ: {differ:#?}");
    for (what, keys) in &differ {
        assert!(keys.len() * 200 <= compared, "{what}: {} of {compared} differ", keys.len());
    }
}

#[tokio::test]
async fn suites_pass() {
    let Some(corpus) = corpus() else { return };
    let (ours, _) = corpus.run("suites", SUITES, &[]).await;
    let failed: Vec<String> = ours
        .values()
        .filter(|row| row["result"] != "pass")
        .map(|row| format!("{}: {}", row["key"], row["detail"]))
        .collect();
    println!("suites: {} cases ran, {} failed\n{}", ours.len(), failed.len(), failed.join("\n"));
    assert!(failed.len() * 100 <= ours.len(), "{} of {} failed", failed.len(), ours.len());
}
