use kindom_api::{Value, json};
use proptest::prelude::*;

use super::{DeclaredConversion, KEPT_ANNOTATION};
use crate::{Convert as _, StoredRegistration};

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn rules(list: &str) -> DeclaredConversion {
    DeclaredConversion::parse(&format!(r#"{{"hub":"v1","versions":{{"v1beta1":{list}}}}}"#)).unwrap()
}

/// There, and back.
fn both(list: &str, beta: &str, hub: &str) {
    let rules = rules(list);
    assert_eq!(rules.convert(&tree(beta), "v1beta1", "v1").unwrap(), tree(hub), "{list}");
    assert_eq!(rules.convert(&tree(hub), "v1", "v1beta1").unwrap(), tree(beta), "{list}");
}

#[test]
fn each_rule_has_its_inverse() {
    both(
        r#"[{"move":".spec.count","to":".spec.replicas"}]"#,
        r#"{"spec":{"count":3,"a":1}}"#,
        r#"{"spec":{"a":1,"replicas":3}}"#,
    );
    both(
        r#"[{"move":".spec.count","to":".spec.size.replicas"}]"#,
        r#"{"spec":{"count":3}}"#,
        r#"{"spec":{"size":{"replicas":3}}}"#,
    );
    both(
        r#"[{"move":".spec.ports[].no","to":".spec.ports[].port"}]"#,
        r#"{"spec":{"ports":[{"no":1},{"name":"x"},5,{"no":2}]}}"#,
        r#"{"spec":{"ports":[{"port":1},{"name":"x"},5,{"port":2}]}}"#,
    );
    both(
        r#"[{"move":".spec.m[].a","to":".spec.m[].b"}]"#,
        r#"{"spec":{"m":{"x":{"a":1}}}}"#,
        r#"{"spec":{"m":{"x":{"b":1}}}}"#,
    );
    both(
        r#"[{"wrap":".spec.host","to":".spec.hosts"}]"#,
        r#"{"spec":{"host":"a"}}"#,
        r#"{"spec":{"hosts":["a"]}}"#,
    );
    both(
        r#"[{"unwrap":".spec.hosts","to":".spec.host"}]"#,
        r#"{"spec":{"hosts":["a"]}}"#,
        r#"{"spec":{"host":"a"}}"#,
    );
    both(
        r#"[{"default":".spec.tier","value":{"a":1}}]"#,
        r#"{"spec":{"b":1}}"#,
        r#"{"spec":{"b":1,"tier":{"a":1}}}"#,
    );
    // Two fields change places, by a third.
    both(
        r#"[{"move":".spec.a","to":".spec.t"},{"move":".spec.b","to":".spec.a"},{"move":".spec.t","to":".spec.b"}]"#,
        r#"{"spec":{"a":1,"b":2}}"#,
        r#"{"spec":{"b":1,"a":2}}"#,
    );
    let kept = |values: &str| {
        format!(
            r#"{{"metadata":{{"annotations":{{"{KEPT_ANNOTATION}":{}}}}},"spec":{{"a":1}}}}"#,
            Value::from(values)
        )
    };
    both(r#"[{"keep":".spec.x"}]"#, &kept(r#"{".spec.x":[1]}"#), r#"{"metadata":{},"spec":{"a":1,"x":[1]}}"#);
    both(
        r#"[{"keepOwn":".spec.x"}]"#,
        r#"{"metadata":{},"spec":{"a":1,"x":[1]}}"#,
        &kept(r#"{"v1beta1 .spec.x":[1]}"#),
    );
}

#[test]
fn a_table_of_values_never_makes_two_texts_one() {
    let rules = rules(r#"[{"map":".spec.mode","values":{"on":"Enabled","off":"Disabled","a":"b","b":"c"}}]"#);
    let convert = |text: &str, from: &str, to: &str| {
        let object = tree(&format!(r#"{{"spec":{{"mode":"{text}"}}}}"#));
        rules.convert(&object, from, to).unwrap().text_at(&["spec", "mode"]).to_owned()
    };
    let texts = ["on", "off", "Enabled", "Disabled", "a", "b", "c", "other"];
    let there: Vec<String> = texts.iter().map(|text| convert(text, "v1beta1", "v1")).collect();
    assert_eq!(there, ["Enabled", "Disabled", "on", "off", "b", "c", "a", "other"]);
    let back: Vec<String> = there.iter().map(|text| convert(text, "v1", "v1beta1")).collect();
    assert_eq!(back, texts);
}

#[test]
fn mistakes_are_named() {
    for (text, why) in [
        ("{", "must be JSON"),
        (r#"{"hub":"v1"}"#, "versions must be a map"),
        (r#"{"versions":{}}"#, "hub must name a version"),
        (r#"{"hub":"v1","versions":{"v1":[]}}"#, "versions.v1 is the hub"),
        (r#"{"hub":"v1","versions":{},"rules":[]}"#, r#""rules" is neither"#),
        (r#"{"hub":"v1","versions":{"a":[{}]}}"#, "versions.a[0] must have exactly one of move"),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".a","keep":".b"}]}}"#,
            "versions.a[0] must have exactly one",
        ),
        (r#"{"hub":"v1","versions":{"a":[{"move":".a"}]}}"#, "versions.a[0].to is needed"),
        (r#"{"hub":"v1","versions":{"a":[{"move":".a","to":"b"}]}}"#, "versions.a[0].to must be a path"),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".a","to":".b","by":1}]}}"#,
            "versions.a[0].by is not of a rule",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".a.b","to":".a"}]}}"#,
            "versions.a[0].to must not be in .a.b",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".a[].b","to":".c"}]}}"#,
            "versions.a[0].to must lead through",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".metadata.name","to":".c"}]}}"#,
            "versions.a[0].move must not be in apiVersion",
        ),
        (r#"{"hub":"v1","versions":{"a":[{"keep":".a[].b"}]}}"#, "versions.a[0].keep must not lead through"),
        (r#"{"hub":"v1","versions":{"a":[{"default":".a"}]}}"#, "versions.a[0].value is needed"),
        (
            r#"{"hub":"v1","versions":{"a":[{"default":".a[].b","value":1}]}}"#,
            "versions.a[0].default must not lead through",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"move":".a[].b","to":".a[].b1.c.d.e.f"}]}}"#,
            "versions.a[0].to must have at most",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"map":".a","values":{"x":"z","y":"z"}}]}}"#,
            r#"versions.a[0].values has "z" for "x" and for "y""#,
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"map":".a","values":{"x":1}}]}}"#,
            "versions.a[0].values.x must be a text",
        ),
    ] {
        let told = DeclaredConversion::parse(text).unwrap_err();
        assert!(told.starts_with(why), "{text}: {told}");
    }
}

fn registration(v1: &str, beta: &str) -> Value {
    let version = |name: &str, spec: &str| {
        format!(
            r#"{{"name":"{name}","schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object","properties":{spec}}}}}}}}}}}"#
        )
    };
    tree(&format!(
        r#"{{"spec":{{"group":"g.io","names":{{"kind":"Thing"}},"versions":[{},{}]}}}}"#,
        version("v1", v1),
        version("v1beta1", beta)
    ))
}

fn checked(list: &str, v1: &str, beta: &str) -> Option<String> {
    let text = format!(r#"{{"hub":"v1","versions":{{"v1beta1":{list}}}}}"#);
    DeclaredConversion::check(&text, StoredRegistration::new(&registration(v1, beta)))
}

#[test]
fn a_loss_is_found_and_shown() {
    let int = r#"{"count":{"type":"integer"}}"#;
    let (two, other) =
        (r#"{"replicas":{"type":"integer"},"note":{"type":"string"}}"#, r#"{"replicas":{"type":"integer"}}"#);
    let rename = r#"{"move":".spec.count","to":".spec.replicas"}"#;
    assert_eq!(checked(&format!("[{rename}]"), other, int), None);
    let told = checked(&format!("[{rename}]"), two, int).unwrap();
    assert!(told.starts_with("loses .spec.note of v1 on the way to v1beta1 and back: "), "{told}");
    assert_eq!(checked(&format!(r#"[{rename},{{"keep":".spec.note"}}]"#), two, int), None);
    let told = checked("[]", other, int).unwrap();
    assert!(told.starts_with("loses .spec.replicas of v1 on the way to v1beta1"), "{told}");
    let host = r#"{"host":{"type":"string"}}"#;
    let hosts = r#"{"hosts":{"type":"array","items":{"type":"string"}}}"#;
    assert_eq!(checked(r#"[{"wrap":".spec.host","to":".spec.hosts"}]"#, hosts, host), None);
    assert!(checked("[]", hosts, host).unwrap().starts_with("loses .spec.hosts of v1"));
    let told = DeclaredConversion::check(
        r#"{"hub":"v2","versions":{}}"#,
        StoredRegistration::new(&registration("{}", "{}")),
    );
    assert_eq!(told.unwrap(), r#"there is no version "v2""#);
}

/// Nobody can set such an annotation, but another program may store it.
#[test]
fn rules_that_cannot_be_read_convert_nothing() {
    let of = |annotation: &str| {
        let tree = tree(&format!(r#"{{"metadata":{{"annotations":{{{annotation}}}}}}}"#));
        DeclaredConversion::of(StoredRegistration::new(&tree))
            .map(|rules| rules.convert(&tree, "v1", "v2").unwrap_err())
    };
    assert_eq!(of(""), None);
    let told =
        of(r#""conversion.kindom.dev/rules":"{\"hub\":\"v1\",\"versions\":{\"v2\":[{\"later\":1}]}}""#)
            .unwrap();
    assert!(told.contains("cannot be read: versions.v2[0] must have exactly one of"), "{told}");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[abz]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[abmst]", inner), 0..4)
                .prop_map(|entries| entries.into_iter().collect::<kindom_api::Map>().into()),
        ]
    })
}

proptest! {
    /// Whatever an object looks like, a conversion ends, and a rename of a field that the hub does not have loses nothing.
    #[test]
    fn any_object_is_converted(spec in value(), metadata in value()) {
        let object = kindom_api::object! { "spec": spec, "metadata": metadata };
        let all = rules(r#"[{"move":".spec.a","to":".spec.m.x"},{"wrap":".spec.b","to":".spec.s"},{"unwrap":".spec.t[].a","to":".spec.t[].b"},
            {"map":".spec.z","values":{"a":"b"}},{"default":".spec.m.s","value":1},{"keep":".spec.a"},{"keepOwn":".spec.t"}]"#);
        for (from, to) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
            let there = all.convert(&object, from, to).unwrap();
            drop(all.convert(&there, to, from).unwrap());
        }
        let rename = rules(r#"[{"move":".spec.a","to":".spec.new"}]"#);
        let there = rename.convert(&object, "v1beta1", "v1").unwrap();
        prop_assert_eq!(rename.convert(&there, "v1", "v1beta1").unwrap(), object);
    }
}
