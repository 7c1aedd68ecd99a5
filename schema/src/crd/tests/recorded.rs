//! Registrations that break a rule or two, and what upstream's own decoder, strategy and validation (v0.37.2) said about
//! each: `recorded.jsonl`. `KINDOM_CRD_CASES` may name another file of the same form.
//!
//! A line has the registration (`new`), what it replaces (`old`) and by which verb (`status` for that subresource), and
//! upstream's answers: `decode` is an error that ended it, `unknown` strict errors, `errors` what validation found (kind
//! and message), `warnings`, and `stored` what would have been stored, unless it was refused.

use std::collections::BTreeSet;

use kindom_api::crd::{
    decode_crd, default_crd, prepare_for_create, prepare_for_status_update, prepare_for_update,
};
use kindom_api::faces::Face;
use kindom_api::{Value, decode, json};

use crate::crd::{
    validate_create, validate_status_update, validate_update, warnings_on_create, warnings_on_update,
};

const RECORDED: &str = include_str!("recorded.jsonl");

/// Lines of our own words for each line upstream has, to be compared as sets: upstream walks over maps in no order.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    decode: Option<String>,
    unknown: Vec<String>,
    errors: BTreeSet<String>,
    warnings: BTreeSet<String>,
    stored: Option<String>,
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
        warnings: texts("warnings").into_iter().collect(),
        stored: case.get("stored").map(ToString::to_string),
    }
}

fn ours(case: &Value) -> Answer {
    let mut answer = Answer::default();
    let (mut new, unknown) = match decode_crd(case.get("new").unwrap()) {
        Ok(decoded) => decoded,
        Err(error) => {
            answer.decode = Some(error.to_string());
            return answer;
        }
    };
    default_crd(&mut new);
    answer.unknown = unknown.iter().map(|path| decode::unknown_field(path)).collect();
    let old = match case.get("old").map(decode_crd) {
        None => None,
        Some(Ok((mut old, _))) => {
            default_crd(&mut old);
            Some(old)
        }
        Some(Err(error)) => {
            answer.decode = Some(format!("panic: {error}"));
            return answer;
        }
    };
    let is_status = case.get("verb").and_then(Value::as_str) == Some("status");
    let errors = match &old {
        None => {
            prepare_for_create(&mut new);
            answer.warnings.extend(warnings_on_create(&new));
            validate_create(&new, Face::V1)
        }
        Some(old) if is_status => {
            prepare_for_status_update(&mut new, old);
            validate_status_update(&new, old)
        }
        Some(old) => {
            prepare_for_update(&mut new, old);
            answer.warnings.extend(warnings_on_update(&new, old));
            validate_update(&new, old, Face::V1)
        }
    };
    answer.errors = errors.iter().map(|e| format!("{} {e}", e.kind.reason())).collect();
    answer.stored = Some(new.to_value().to_string());
    answer
}

#[test]
fn registrations_are_judged_as_by_upstream() {
    let text = std::env::var("KINDOM_CRD_CASES").map(|file| std::fs::read_to_string(file).unwrap());
    let text = text.as_deref().unwrap_or(RECORDED);
    let (mut same, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let case = json::parse(line.as_bytes()).unwrap();
        let want = upstream(&case);
        // Upstream has bugs that end in a recovered panic; here it suffices that there is no panic.
        let panicked = want.decode.as_ref().is_some_and(|text| text.starts_with("panic: "));
        let mut got = ours(&case);
        // Upstream has no word on names that follow no convention (B-13, B-15).
        got.warnings
            .retain(|text| !text.contains("has none of the forms") && !text.ends_with("UpperCamelCase"));
        // A refused registration is not stored.
        if want.stored.is_none() {
            got.stored = None;
        }
        if panicked || got == want {
            same += 1;
            continue;
        }
        let name = case.get("name").unwrap();
        if got.decode != want.decode {
            wrong.push(format!("{name} decode\n  want {:?}\n  got  {:?}", want.decode, got.decode));
            continue;
        }
        if got.unknown != want.unknown {
            wrong.push(format!("{name} unknown\n  want {:?}\n  got  {:?}", want.unknown, got.unknown));
        }
        let missing: Vec<_> = want.errors.difference(&got.errors).collect();
        let extra: Vec<_> = got.errors.difference(&want.errors).collect();
        if !missing.is_empty() || !extra.is_empty() {
            wrong.push(format!("{name} errors\n  missing {missing:#?}\n  extra {extra:#?}"));
        }
        if got.warnings != want.warnings {
            wrong.push(format!("{name} warnings\n  want {:?}\n  got  {:?}", want.warnings, got.warnings));
        }
        if let (Some(got), Some(want)) = (&got.stored, &want.stored)
            && got != want
        {
            let at = got.bytes().zip(want.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(60);
            let part = |text: &str| text.chars().skip(at).take(200).collect::<String>();
            wrong.push(format!("{name} stored\n  want {}\n  got  {}", part(want), part(got)));
        }
    }
    println!("{same} the same");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
