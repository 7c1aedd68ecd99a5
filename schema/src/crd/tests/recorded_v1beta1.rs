//! v1beta1 registrations, and the results of upstream's own types, conversions and rules: `recorded_v1beta1.jsonl`.
//! `KINDOM_V1BETA1_CASES` may name another file of the same form.
//!
//! Decoding, defaults, conversions and the rules are v0.37.2's; which rules hold on v1beta1 is as in v0.21.14, the last
//! that asked by the request's version (`oracle/lax.sh`). A line is as in `recorded.rs`; `old` is in v1, as stored, and
//! `shown` is what was stored, in v1beta1.

use std::collections::BTreeSet;

use kindom_api::crd::{
    CustomResourceDefinition, decode_crd, default_crd, prepare_for_create, prepare_for_update,
};
use kindom_api::faces::Face;
use kindom_api::field::ErrorList;
use kindom_api::{Value, decode, json};

use crate::crd::{validate_create, validate_update};

const RECORDED: &str = include_str!("recorded_v1beta1.jsonl");
const FACE: Face = Face::V1beta1;

/// The fields that all versions share, and that upstream reports at the top.
const SHARED: [&str; 5] =
    ["validation", "preserveUnknownFields", "subresources", "additionalPrinterColumns", "selectableFields"];

#[derive(Debug, Default, PartialEq)]
struct Answer {
    decode: Option<String>,
    unknown: Vec<String>,
    errors: BTreeSet<String>,
    stored: Option<String>,
    shown: Option<String>,
}

fn upstream(case: &Value) -> Answer {
    let texts = |field: &str| -> Vec<String> {
        let items = case.get(field).and_then(Value::as_array).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    Answer {
        decode: case.get("decode").and_then(Value::as_str).map(str::to_owned),
        unknown: texts("unknown"),
        errors: texts("errors").into_iter().collect(),
        stored: case.get("stored").map(ToString::to_string),
        shown: case.get("shown").map(ToString::to_string),
    }
}

fn lines(errors: &ErrorList) -> BTreeSet<String> {
    errors.iter().map(|e| format!("{} {e}", e.kind.reason())).collect()
}

/// Our answer, and `true` if the face itself refused the object.
fn ours(case: &Value) -> (Answer, bool) {
    let mut answer = Answer::default();
    let mut object = case.get("new").unwrap().clone();
    let mut unknown = Vec::new();
    if let Err(text) = FACE.decode(&mut object, Some(&mut unknown)) {
        answer.decode = Some(text);
        return (answer, false);
    }
    answer.unknown = unknown.iter().map(|path| decode::unknown_field(path)).collect();
    let old = case.get("old").map(|old| {
        let (mut old, _) = decode_crd(old).unwrap();
        default_crd(&mut old);
        old
    });
    let old_tree = old.as_ref().map(|old| old.to_value());
    let stored = match FACE.read(object, old_tree.as_ref(), None) {
        Ok(stored) => stored,
        Err(errors) => {
            answer.errors = lines(&errors);
            return (answer, true);
        }
    };
    let mut new: CustomResourceDefinition = json::from_value(&stored).unwrap();
    new.metadata.managed_fields = None;
    new.metadata.namespace.clear();
    let errors = match &old {
        None => {
            prepare_for_create(&mut new);
            validate_create(&new, FACE)
        }
        Some(old) => {
            prepare_for_update(&mut new, old);
            validate_update(&new, old, FACE)
        }
    };
    answer.errors = lines(&errors);
    if errors.is_empty() {
        answer.stored = Some(Face::V1.show(new.to_value()).to_string());
        answer.shown = Some(FACE.show(new.to_value()).to_string());
    }
    (answer, false)
}

/// An error without the value that it quotes: of a list of versions upstream prints its internal Go type.
fn unquoted(error: &str) -> String {
    let Some(at) = error.find("spec.versions: Invalid value: ") else { return error.to_owned() };
    let detail = ["per-version ", "must contain", "must have exactly"].iter().find_map(|d| error.rfind(d));
    detail.map_or_else(|| error.to_owned(), |detail| format!("{} {}", &error[..at], &error[detail..]))
}

#[test]
fn v1beta1_registrations_are_read_and_judged_as_by_upstream() {
    let text = std::env::var("KINDOM_V1BETA1_CASES").map(|file| std::fs::read_to_string(file).unwrap());
    let text = text.as_deref().unwrap_or(RECORDED);
    let (mut same, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case = json::parse(line.as_bytes()).unwrap();
        let mut want = upstream(&case);
        let (mut got, refused_by_face) = ours(&case);
        if refused_by_face {
            // Fields that the stored form cannot hold are refused before the rest is validated.
            let all: BTreeSet<String> = want.errors.iter().map(|e| unquoted(e)).collect();
            let found: BTreeSet<String> = got.errors.iter().map(|e| unquoted(e)).collect();
            let ours_alone = found.iter().all(|e| e.contains("spec.selectableFields: Forbidden"));
            if !found.is_empty() && (found.is_subset(&all) || ours_alone) && got.unknown == want.unknown {
                same += 1;
            } else {
                wrong.push(format!("{case}\n  want {:#?}\n  got  {:#?}", want.errors, got.errors));
            }
            continue;
        }
        if want.decode.is_some() {
            want.unknown.clear();
        }
        // Without a version the fields that all versions share cannot be stored, so they are not validated either.
        let no_version = case
            .at(&["new", "spec", "versions"])
            .and_then(Value::as_array)
            .unwrap_or(&[])
            .is_empty()
            && case.at(&["new", "spec", "version"]).and_then(Value::as_str).unwrap_or_default().is_empty();
        if no_version && want.decode.is_none() {
            let shared = |error: &String| {
                let field = error.split_once(" spec.").map_or("", |(_, rest)| rest);
                SHARED.iter().any(|name| field.starts_with(name))
            };
            want.errors.retain(|error| !shared(error));
            // An empty list and none are one to us.
            let unquote =
                |errors: &mut BTreeSet<String>| *errors = errors.iter().map(|e| unquoted(e)).collect();
            unquote(&mut want.errors);
            unquote(&mut got.errors);
        }
        if got == want {
            same += 1;
        } else {
            wrong.push(format!("{}\n  want {want:#?}\n  got  {got:#?}", case.get("new").unwrap()));
        }
    }
    println!("{same} the same");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(same > 100);
}
