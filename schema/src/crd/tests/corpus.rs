//! Real registrations, and what kube-apiserver 1.37 answered to them. The corpus is not part of the repository
//! (`corpus_folder.rs`).

use std::collections::BTreeSet;

use kindom_api::crd::{decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::Face;
use kindom_api::field::aggregate;
use kindom_api::{Value, json};

use super::corpus_folder;
use crate::crd::{non_structural_schema_condition, to_v1, validate_create, validate_update};

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

/// Returns true for a registration that 1.37 refuses for the cost of a rule and 1.34 accepts; kindom is as lenient as 1.34
/// (`kindom_cel::cost`).
fn is_too_expensive_only_now(key: &str, causes: &Causes) -> bool {
    key.ends_with(" infrastructures.config.openshift.io")
        && causes.iter().any(|(_, _, message)| message.contains("estimated rule cost exceeds budget"))
}

#[test]
fn registrations_are_judged_as_by_the_reference() {
    let Some(folder) = corpus_folder::folder() else { return };
    let lines = std::fs::read_to_string(folder.join("reference/crds-1.37.jsonl")).unwrap();
    let (mut accepted, mut refused, mut cheaper, mut wrong) = (0, 0, 0, Vec::new());
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
        // The changes that every object gets before the strategy sees it.
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
        } else if is_too_expensive_only_now(key, &want) {
            cheaper += 1;
            if !got.is_empty() {
                wrong.push(format!("{key}: {got:?}"));
            }
            continue;
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
        "{accepted} accepted, {refused} refused with the same causes, {cheaper} accepted that cost too much for 1.37"
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 500 && refused > 15 && cheaper > 0);
}

/// The registrations of v1beta1 that are refused (docs/conformance.md has the reasons).
const REFUSED_V1BETA1: [&str; 3] = [
    "etcdclusters.etcd.database.coreos.com",
    "example.kubebuilder.schemapatcher.controller-tools.sigs.k8s.io",
    "nameValue",
];

/// v1beta1 went with 1.22, so there is no reference for these.
#[test]
fn v1beta1_registrations_lose_nothing() {
    const FACE: Face = Face::V1beta1;
    let Some(folder) = corpus_folder::folder() else { return };
    let lines = std::fs::read_to_string(folder.join("reference/crds-1.37.jsonl")).unwrap();
    let (mut accepted, mut refused, mut converted, mut unconverted) = (0, Vec::new(), 0, Vec::new());
    let mut names = Vec::new();
    for line in lines.lines() {
        let row = json::parse(line.as_bytes()).unwrap();
        if text(&row, "api") != "v1beta1" {
            continue;
        }
        let key = text(&row, "key");
        let (file, name) = (key.split_once('#').unwrap().0, text(&row, "name"));
        let documents = documents(&std::fs::read_to_string(folder.join(file)).unwrap());
        let parsed = documents.iter().filter_map(|d| serde_saphyr::from_str::<Value>(d).ok());
        let is_named = |d: &Value| d.at(&["metadata", "name"]).and_then(Value::as_str) == Some(name);
        let Some(document) = parsed.into_iter().find(is_named) else {
            // Its quoted texts go on at a lower indentation, which this reader refuses.
            println!("unreadable: {key}");
            continue;
        };

        match to_v1(document.clone()) {
            Ok(_) => converted += 1,
            Err(error) => unconverted.push(format!("{key}: {error}")),
        }
        let mut object = document;
        FACE.decode(&mut object, None).unwrap_or_else(|e| panic!("{key}: {e}"));
        let stored = match FACE.read(object.clone(), None, None) {
            Ok(stored) => stored,
            Err(errors) => {
                refused.push(format!("{key}: {}", aggregate(&errors)));
                names.push(name.to_owned());
                continue;
            }
        };
        let mut shown = FACE.show(stored.clone());
        FACE.decode(&mut shown, None).unwrap();
        assert_eq!(shown.get("spec").unwrap().to_string(), object.get("spec").unwrap().to_string(), "{key}");
        let (mut crd, _) = decode_crd(&stored).unwrap();
        prepare_for_create(&mut crd);
        let errors = validate_create(&crd, FACE);
        if !errors.is_empty() {
            refused.push(format!("{key}: {}", aggregate(&errors)));
            names.push(name.to_owned());
            continue;
        }
        accepted += 1;
        crd.metadata.resource_version = "1".to_owned();
        for face in Face::ALL {
            assert_eq!(validate_update(&crd, &crd, face), [], "{key}: an update through {face:?}");
            let mut shown = face.show(stored.clone());
            face.decode(&mut shown, None).unwrap();
            assert_eq!(face.read(shown, Some(&stored), None).unwrap(), stored, "{key} through {face:?}");
        }
    }
    let texts = |texts: &[String]| texts.join("\n").chars().take(3_000).collect::<String>();
    println!("{accepted} accepted, {} refused:\n{}", refused.len(), texts(&refused));
    println!("{converted} converted to v1, {} not:\n{}", unconverted.len(), texts(&unconverted));
    names.sort();
    assert_eq!(names, REFUSED_V1BETA1);
    assert!(accepted > 20 && converted > 21);
}
