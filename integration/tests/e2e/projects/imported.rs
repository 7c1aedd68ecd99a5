//! `kindom create types`: kinds from registrations, by what kopium makes of them.

use std::path::Path;

use kindom_integration::{Caller, tools};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Project, output};
use crate::corpus_folder;

/// The registrations of public projects that are tried with full counts, where the corpus is there.
const PROJECTS: [&str; 4] = ["jobset", "karpenter", "metallb", "velero"];

fn folder() -> std::path::PathBuf {
    tools::root().join("integration/kopium")
}

/// Adds the kind of the registration in `integration/kopium`.
pub(super) async fn create(project: &Project) {
    let (registration, kopium) = (folder().join("lockers.crd.yaml"), folder().join("kopium"));
    let line = format!("create types --from-crd {} --kopium {}", registration.display(), kopium.display());
    let out = project.kindom(&line).await;
    assert!(out.contains("apis/harbour/v1/locker.rs"), "{out}");
    assert_eq!(project.kindom(&line).await, "everything is there already\n");
}

/// It is served as its registration says, and its objects as its types say.
pub(super) async fn served(user: &Caller, project: &Path) {
    user.kubectl(&["apply", "-f", "samples/harbour_v1_locker.yaml"]).await.unwrap();
    let table = user.kubectl(&["get", "lk", "-o", "wide"]).await.unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SIZE", "BOXES", "KEEPER", "AGE"], "{table}");
    assert_eq!(rows[1][..4], ["locker-sample", "small", "2", "example"], "{table}");
    user.kubectl(&["scale", "locker", "locker-sample", "--replicas=5"]).await.unwrap();
    let boxes = user.kubectl(&["get", "locker", "locker-sample", "-o", "jsonpath={.spec.boxes}"]).await;
    assert_eq!(boxes.unwrap(), "5");
    let explained = user.kubectl(&["explain", "locker.spec.keeper"]).await.unwrap();
    assert!(explained.contains("Who has the keys."), "{explained}");
    // Any JSON stays, and what no type has goes.
    let sample = std::fs::read_to_string(project.join("samples/harbour_v1_locker.yaml")).unwrap();
    let more = format!("{sample}  more: [1, {{a: {{b: 2}}}}]\n  keys: 2\n");
    std::fs::write(project.join("more.yaml"), more).unwrap();
    user.kubectl(&["apply", "--validate=false", "-f", "more.yaml"]).await.unwrap();
    let spec = user.kubectl(&["get", "locker", "locker-sample", "-o", "jsonpath={.spec}"]).await.unwrap();
    assert!(spec.contains(r#""more":[1,{"a":{"b":2}}]"#) && !spec.contains("keys"), "{spec}");
    std::fs::write(project.join("more.yaml"), sample.replace("small", "tiny")).unwrap();
    let refused = user.kubectl(&["apply", "-f", "more.yaml"]).await.unwrap_err().to_string();
    assert!(refused.contains(r#"supported values: "small", "large""#), "{refused}");
}

/// The real kopium prints what is recorded of it, and what it makes of public projects' registrations is served.
pub(super) async fn by_kopium(project: &Project) {
    let tool = tools::root().join(".test/kopium");
    let kopium = tool.join("bin/kopium");
    if !kopium.is_file() {
        let mut install = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        install.args(["install", "kopium", "--version", "0.24.1", "--locked", "--root"]).arg(&tool);
        let out = output(&mut install).await;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let mut print = Command::new("sh");
    let flags = "--api-version v1 --hide-kube --hide-prelude --docs --schema derived --derive PartialEq --no-condition --no-object-reference";
    print.args(["-c", &format!("\"$1\" --filename - {flags} <lockers.crd.yaml"), "sh"]).arg(&kopium);
    let printed = output(print.current_dir(folder())).await;
    let recorded = std::fs::read(folder().join("lockers.rs.txt")).unwrap();
    assert_eq!(String::from_utf8_lossy(&printed.stdout), String::from_utf8_lossy(&recorded));

    let Some(corpus) = corpus_folder::folder() else { return };
    let mut made = 0;
    for name in PROJECTS {
        for mut registration in registrations(&corpus.join(name).join("crds")) {
            // A project has the groups of one domain.
            let group = format!("g{made}.example.com");
            let plural = registration["spec"]["names"]["plural"].as_str().unwrap().to_owned();
            registration["metadata"] = json!({"name": format!("{plural}.{group}")});
            registration["spec"]["group"] = json!(group);
            std::fs::write(project.0.path().join("renamed.json"), registration.to_string()).unwrap();
            let line = format!("create types --from-crd renamed.json --kopium {}", kopium.display());
            let out = output(&mut project.command(&line)).await;
            let error = String::from_utf8_lossy(&out.stderr);
            // Some have no spec, or fields beside it; and a project has a name for one kind only.
            let explained = ["no spec with fields", "stands beside spec", "a name for one kind only"];
            match out.status.success() {
                true => made += 1,
                false => assert!(explained.iter().any(|why| error.contains(why)), "{error}"),
            }
        }
    }
    assert!(made > 10, "{made}");
}

/// The registrations in the files of a folder.
fn registrations(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut registrations(&path));
        } else if path.extension().is_some_and(|of| of == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let documents = serde_saphyr::from_multiple::<Value>(&text).unwrap_or_default();
            found.extend(documents.into_iter().filter(|document| {
                document["kind"] == "CustomResourceDefinition"
                    && document["apiVersion"] == "apiextensions.k8s.io/v1"
            }));
        }
    }
    found
}
