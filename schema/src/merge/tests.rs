//! Schemas and their merge types. `tests/schema/merge.rs` compares them with upstream's.

use kindom_api::json::parse;

use super::{ListRelation, MergeType, Scalar, built_in};
use crate::Schema;

/// `num`, `str`, `bool`, `any`; `[… items]`; `{field … *others}`, `!` before an atomic one and `?` before a deduced one;
/// `deduced` and `untyped` for the two types of anything; `meta` for ObjectMeta.
fn shape(of: MergeType<'_>, depth: usize) -> String {
    let mut parts = Vec::new();
    match of.scalar() {
        Some(Scalar::Numeric) => parts.push("num".to_owned()),
        Some(Scalar::String) => parts.push("str".to_owned()),
        Some(Scalar::Boolean) => parts.push("bool".to_owned()),
        Some(Scalar::Untyped) => parts.push("any".to_owned()),
        None => {}
    }
    let child = |of: MergeType<'_>| if depth == 0 { "…".to_owned() } else { shape(of, depth - 1) };
    if let Some(list) = of.list() {
        let relation = match list.relation() {
            ListRelation::Atomic => "!".to_owned(),
            ListRelation::Set => "set ".to_owned(),
            ListRelation::Keys(keys) => {
                let key = |key: &str| match list.key_default(key) {
                    Some(default) => format!("{key}={default}"),
                    None => key.to_owned(),
                };
                keys.iter().map(|name| key(name)).collect::<Vec<_>>().join(",") + " "
            }
        };
        parts.push(format!("[{relation}{}]", child(list.element())));
    }
    if let Some(map) = of.map() {
        let mut fields: Vec<String> = map
            .fields()
            .inspect(|(name, _)| assert!(map.field(name).is_some()))
            .map(|(name, of)| {
                let is_meta =
                    name == "metadata" && of.map().is_some_and(|m| m.field("ownerReferences").is_some());
                format!("{name}:{}", if is_meta { "meta".to_owned() } else { child(of) })
            })
            .collect();
        fields.extend(map.element().map(|of| format!("*:{}", child(of))));
        let marks = [(map.is_atomic(), "!"), (map.is_deduced(), "?")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        parts.push(format!("{marks}{{{}}}", fields.join(" ")));
    }
    let text = parts.join("|");
    for known in ["any|[!…]|?{*:…}", "any|[!…]|!{*:…}"] {
        if text.replace(DEDUCED, "…").replace(UNTYPED, "…") == known {
            return if known.contains('?') { DEDUCED.to_owned() } else { UNTYPED.to_owned() };
        }
    }
    text
}

const DEDUCED: &str = "deduced";
const UNTYPED: &str = "untyped";
const TYPE_META: &str = "apiVersion:str kind:str metadata:meta";

fn check_with(schema: &str, preserve: bool, want: &str) {
    let schema = parse(schema.as_bytes()).unwrap();
    let schema = Schema::compile(Some(&schema), preserve).unwrap();
    assert_eq!(shape(schema.merge_type(), 3).replace(TYPE_META, "@"), want);
}

/// Compares the merge type of a field of the schema.
fn check(schema: &str, want: &str) {
    let schema = format!(r#"{{"type":"object","properties":{{"x":{schema}}}}}"#);
    check_with(&schema, false, &format!("{{@ x:{want}}}"));
}

#[test]
fn scalars() {
    check(r#"{"type":"integer","format":"int32"}"#, "num");
    check(r#"{"type":"number"}"#, "num");
    check(r#"{"type":"boolean","nullable":true}"#, "bool");
    check(r#"{"type":"string","format":""}"#, "str");
    check(r#"{"type":"string","format":"byte"}"#, "str");
    check(r#"{"type":"string","format":"date-time"}"#, "any");
    check(r#"{"type":"string","format":"of-no-one"}"#, "any");
    check(r#"{"x-kubernetes-int-or-string":true}"#, DEDUCED);
    check(r#"{"type":"string","x-kubernetes-int-or-string":true}"#, "str");
}

#[test]
fn lists() {
    check(r#"{"type":"array","items":{"type":"string"}}"#, "[!str]");
    check(r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}"#, "[set str]");
    check(
        r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["z","a"],"items":{"type":"object",
            "properties":{"a":{"type":"integer","default":1},"z":{"type":"string"}}}}"#,
        "[z,a=1 {a:num z:str}]",
    );
    check(
        r#"{"x-kubernetes-preserve-unknown-fields":true,"items":{"type":"string"}}"#,
        "any|[!str]|?{*:deduced}",
    );
}

#[test]
fn maps() {
    check(r#"{"type":"object"}"#, "?{*:deduced}");
    check(r#"{"type":"object","properties":{}}"#, "?{*:deduced}");
    check(r#"{"type":"object","required":["a"]}"#, "?{*:deduced}");
    check(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, "{a:str}");
    check(
        r#"{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}}"#,
        "!{a:str}",
    );
    check(r#"{"type":"object","x-kubernetes-map-type":"granular"}"#, "?{*:deduced}");
    check(r#"{"type":"object","additionalProperties":{"type":"integer"}}"#, "{*:num}");
    check(r#"{"type":"object","additionalProperties":true}"#, "?{*:deduced}");
    check(r#"{"type":"object","additionalProperties":false}"#, "{}");
    // A value that may be any scalar may be anything.
    check(r#"{"type":"object","additionalProperties":{"type":"string","format":"date"}}"#, "?{*:any}");
    check(r#"{"type":"object","additionalProperties":{"x-kubernetes-int-or-string":true}}"#, "?{*:deduced}");
}

#[test]
fn unknown_fields_are_kept_below_too() {
    check(
        r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object","properties":{
            "b":{"type":"string"}}}}}"#,
        "{a:{b:str *:deduced} *:deduced}",
    );
    // Not in a schema that is referred to by name.
    check(
        r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}"#,
        "{@ *:deduced}",
    );
    let schema =
        r#"{"type":"object","properties":{"x":{"type":"object","properties":{"a":{"type":"string"}}}}}"#;
    check_with(schema, true, "{@ x:{a:str *:deduced} *:deduced}");
    let schema = parse(schema.as_bytes()).unwrap();
    for (preserve, want) in [(false, false), (true, true)] {
        let schema = Schema::compile(Some(&schema), preserve).unwrap();
        let metadata = schema.merge_type().map().unwrap().field("metadata").unwrap().map().unwrap();
        assert_eq!(metadata.element().is_some(), want);
    }
}

#[test]
fn embedded_resources_have_type_and_metadata() {
    check(
        r#"{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string","format":"x"},
            "metadata":{"type":"object"},"spec":{"type":"object"}}}"#,
        "{@ spec:?{*:deduced}}",
    );
}

#[test]
fn without_a_published_schema_all_is_deduced() {
    let open = "?{*:deduced}";
    assert_eq!(shape(Schema::compile(None, false).unwrap().merge_type(), 1), open);
    assert_eq!(shape(Schema::compile(None, true).unwrap().merge_type(), 1), open);
    // Neither is structural, which only v1beta1 let in.
    check_with(r#"{"properties":{"a":{"type":"string"}}}"#, true, open);
    check_with(r#"{"type":"object","properties":{"a":{"type":"thing"}}}"#, false, open);
    check_with(r#"{"type":"object"}"#, false, "{@}");
    check_with(r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#, false, "{@ *:deduced}");
}

#[test]
fn built_in_types_merge_as_they_are_published() {
    let object = |group, version, kind| built_in(group, version, kind).unwrap().map().unwrap();
    let at = |mut of: MergeType<'static>, path: &[&str]| {
        for name in path {
            of = match (*name, of.list()) {
                ("*", Some(list)) => list.element(),
                ("*", None) => of.map().unwrap().element().unwrap(),
                (name, _) => of.map().unwrap().field(name).unwrap(),
            };
        }
        shape(of, 1)
    };
    let crd = built_in("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    assert_eq!(at(crd, &["apiVersion"]), "str");
    assert_eq!(at(crd, &["metadata", "finalizers"]), "[set str]");
    assert_eq!(at(crd, &["metadata", "managedFields", "*", "fieldsV1"]), "?{*:deduced}");
    assert_eq!(at(crd, &["metadata", "labels"]), "{*:str}");
    assert_eq!(at(crd, &["metadata", "creationTimestamp"]), "any");
    assert!(at(crd, &["metadata", "ownerReferences"]).starts_with(r#"[uid="" !{apiVersion:…"#));
    assert!(at(crd, &["status", "conditions"]).starts_with(r#"[type="" {lastTransitionTime:…"#));
    assert_eq!(at(crd, &["spec", "names", "shortNames"]), "[!str]");
    let schema = ["spec", "versions", "*", "schema", "openAPIV3Schema"];
    let deep = [&schema[..], &["properties", "*", "items"]].concat();
    assert_eq!(at(crd, &deep), DEDUCED);
    let deep = [&schema[..], &["not", "not", "properties", "*", "x-kubernetes-validations"]].concat();
    assert!(at(crd, &deep).starts_with(r#"[rule="" {fieldPath:…"#));
    for (group, version, kind) in [
        ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"),
        ("apiextension.k8s.io", "v1beta1", "ThirdPartyResource"),
        ("autoscaling", "v1", "Scale"),
    ] {
        let object = object(group, version, kind);
        assert!(object.element().is_none() && !object.is_atomic() && !object.is_deduced());
        assert!(object.field("spec").unwrap().map().is_some());
    }
    let scale = built_in("autoscaling", "v1", "Scale").unwrap();
    assert_eq!(at(scale, &["spec"]), "{replicas:num}");
}
