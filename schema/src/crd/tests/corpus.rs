//! Real registrations, and what kube-apiserver 1.37 answered to them. `KINDOM_CORPUS` names the corpus, which is not part
//! of the repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kindom_api::crd::{decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::Face;
use kindom_api::{Value, json};

use crate::crd::{non_structural_schema_condition, validate_create, validate_update};

fn corpus() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("KINDOM_CORPUS").map_or_else(default, PathBuf::from);
    if folder.join("reference/crds-1.37.jsonl").is_file() {
        return Some(folder);
    }
    println!("skipped: no corpus at {}", folder.display());
    None
}

/// The texts of the documents of a YAML file, by position.
fn documents(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().extend([line, "\n"]);
        }
    }
    parts
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

type Causes = BTreeSet<(String, String, String)>;

/// The rules about the cost of CEL, which need its compiler.
fn is_about_cel(causes: &Causes) -> bool {
    !causes.is_empty()
        && causes.iter().all(|(_, field, _)| {
            field.contains("x-kubernetes-validations")
                || causes.len() > 1 && field.ends_with("openAPIV3Schema")
        })
}

#[test]
fn registrations_are_judged_as_by_the_reference() {
    let Some(folder) = corpus() else { return };
    let lines = std::fs::read_to_string(folder.join("reference/crds-1.37.jsonl")).unwrap();
    let (mut accepted, mut refused, mut cel, mut wrong) = (0, 0, 0, Vec::new());
    for line in lines.lines() {
        let row = json::parse(line.as_bytes()).unwrap();
        if text(&row, "api") != "v1" {
            continue;
        }
        let key = text(&row, "key");
        let (file, rest) = key.split_once('#').unwrap();
        let number: usize = rest.split(' ').next().unwrap().parse().unwrap();
        let documents = documents(&std::fs::read_to_string(folder.join(file)).unwrap());
        let document: Value = serde_saphyr::from_str(&documents[number]).unwrap();
        let want: Causes = row
            .get("causes")
            .and_then(Value::as_array)
            .unwrap_or_default()
            .iter()
            .map(|c| {
                (text(c, "reason").to_owned(), text(c, "field").to_owned(), text(c, "message").to_owned())
            })
            .collect();

        let (mut crd, _) = decode_crd(&document).unwrap_or_else(|e| panic!("{key}: {e}"));
        default_crd(&mut crd);
        // What is done for objects of every type before the strategy sees them.
        crd.metadata.namespace.clear();
        crd.metadata.managed_fields = None;
        prepare_for_create(&mut crd);
        let errors = validate_create(&crd, Face::V1);
        let got: Causes =
            errors.iter().map(|e| (e.kind.reason().to_owned(), e.field.clone(), e.body())).collect();
        if want.is_empty() {
            accepted += 1;
            crd.metadata.resource_version = "1".to_owned();
            let update = validate_update(&crd, &crd, Face::V1);
            if !update.is_empty() || non_structural_schema_condition(&crd).is_some() {
                wrong.push(format!("{key}: its update is refused: {update:?}"));
            }
        } else if is_about_cel(&want) {
            cel += 1;
            if got.is_empty() {
                continue;
            }
        } else {
            refused += 1;
        }
        if got != want {
            let missing: Vec<_> = want.difference(&got).collect();
            let extra: Vec<_> = got.difference(&want).collect();
            wrong.push(format!("{key}\n  missing: {missing:#?}\n  extra: {extra:#?}"));
        }
    }
    println!(
        "{accepted} accepted, {refused} refused with the same causes, {cel} refused for CEL's cost (not here)"
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 500 && refused > 15);
}
