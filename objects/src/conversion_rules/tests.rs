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
    both(
        r#"[{"constant":".spec.tier","value":"x"}]"#,
        r#"{"spec":{"b":1,"tier":"x"}}"#,
        r#"{"spec":{"b":1}}"#,
    );
    both(
        r#"[{"cel":".spec.wait","to":".spec.waitSeconds","toHub":"duration(self).getSeconds()","toVersion":"string(self) + 's'"}]"#,
        r#"{"spec":{"b":1,"wait":"90s"}}"#,
        r#"{"spec":{"b":1,"waitSeconds":90}}"#,
    );
    both(
        r#"[{"cel":".spec.l[].n","toHub":"{'x': self}","toVersion":"self.x"}]"#,
        r#"{"spec":{"l":[{"n":9007199254740993},{"a":1},{"n":[1.5,"x"]}]}}"#,
        r#"{"spec":{"l":[{"n":{"x":9007199254740993}},{"a":1},{"n":{"x":[1.5,"x"]}}]}}"#,
    );
    // Several fields are one: others bring them together.
    both(
        r#"[{"move":".spec.group","to":".spec.ref.group"},{"move":".spec.name","to":".spec.ref.name"},
            {"cel":".spec.ref","toHub":"self.group + '/' + self.name","toVersion":"{'group': self.split('/')[0], 'name': self.split('/')[1]}"}]"#,
        r#"{"spec":{"group":"g","name":"n"}}"#,
        r#"{"spec":{"ref":"g/n"}}"#,
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
fn a_constant_that_is_another_value_is_another_rules_to_keep() {
    let rules = rules(r#"[{"constant":".spec.tier","value":"x"},{"keepOwn":".spec.tier"}]"#);
    let other = tree(r#"{"metadata":{},"spec":{"tier":"y"}}"#);
    let hub = rules.convert(&other, "v1beta1", "v1").unwrap();
    assert_eq!(hub.at(&["spec", "tier"]), None);
    assert_eq!(rules.convert(&hub, "v1", "v1beta1").unwrap(), other);
}

#[test]
fn an_expression_may_leave_a_value_out_or_fail() {
    let expressed = |to_hub: &str, value: &str| {
        let rules = rules(&format!(
            r#"[{{"default":".spec.a","value":1}},{{"cel":".spec.x","toHub":{},"toVersion":"self"}}]"#,
            Value::from(to_hub)
        ));
        rules.convert(&tree(&format!(r#"{{"spec":{{"x":{value}}}}}"#)), "v1beta1", "v1")
    };
    let spec = |to_hub: &str, value: &str| expressed(to_hub, value).unwrap().to_string();
    assert_eq!(spec("self == 5 ? null : self", "5"), r#"{"spec":{"a":1}}"#);
    assert_eq!(spec("optional.none()", "5"), r#"{"spec":{"a":1}}"#);
    assert_eq!(spec("optional.of(self + 1)", "5"), r#"{"spec":{"a":1,"x":6}}"#);
    let failed = |to_hub: &str, value: &str| {
        let why = expressed(to_hub, value).unwrap_err();
        let place = "versions.v1beta1[1] of conversion.kindom.dev/rules: ";
        why.strip_prefix(place).unwrap_or_else(|| panic!("{why}")).to_owned()
    };
    assert_eq!(failed("self.y", r#"{"z":1}"#), "no such key: y");
    assert_eq!(failed("type(self)", "1"), "type conversion not supported for 'type'");
    assert_eq!(failed("{1: self}", "1"), "unsupported type conversion from 'int' to string");
}

/// An object is converted wherever anybody reads it, and many may write one.
#[test]
fn expressions_have_as_much_as_the_object_is_large() {
    let object = tree(r#"{"spec":{"x":5}}"#);
    let rule =
        |to_hub: &str| format!(r#"{{"cel":".spec.x","toHub":{},"toVersion":"self"}}"#, Value::from(to_hub));
    let nine = "[1,2,3,4,5,6,7,8,9]";
    let loops = format!("{nine}.all(a, {nine}.all(b, {nine}.all(c, a + b + c > 0)))");
    let doubled = format!("[self]{}", ".map(v, [v, v])".repeat(20));
    let compared = format!("[{doubled}, {doubled}].all(v, v == {doubled})");
    for (to_hub, why) in [
        (loops, "cost limit exceeded"),
        (compared, "cost limit exceeded"),
        (doubled, "the expression made a value of more than "),
    ] {
        let told = rules(&format!("[{}]", rule(&to_hub))).convert(&object, "v1beta1", "v1").unwrap_err();
        assert!(told.contains(why), "{to_hub}: {told}");
    }
    // Each costs little, all together too much.
    let many = rules(&format!("[{}]", vec![rule("[1, 2].map(x, self)[0]"); 200].join(",")));
    let told = many.convert(&object, "v1beta1", "v1").unwrap_err();
    assert!(told.contains("cost limit exceeded"), "{told}");
    // Rules may nest a value deeper than anything that is parsed; nothing walks it then.
    let deeper = |i: usize| format!(r#"{{"move":".a{i}","to":".a{}{}"}}"#, i + 1, ".x".repeat(31));
    let mut nested: Vec<String> = (0..255).map(deeper).collect();
    nested.push(r#"{"cel":".a255","toHub":"self.sum()","toVersion":"self"}"#.to_owned());
    let nested = rules(&format!("[{}]", nested.join(",")));
    let told = nested.convert(&tree(r#"{"a0":[1]}"#), "v1beta1", "v1").unwrap_err();
    assert!(told.ends_with("its value exceeds max depth"), "{told}");
    // Nor without expressions, by rules of one version or of two.
    let deep: Vec<String> = (0..255).map(deeper).collect();
    let text = format!(r#"{{"hub":"v1","versions":{{"v1beta1":[{}],"v2":[]}}}}"#, deep.join(","));
    let deep = DeclaredConversion::parse(&text).unwrap();
    for to in ["v1", "v2"] {
        let told = deep.convert(&tree(r#"{"a0":1}"#), "v1beta1", to).unwrap_err();
        assert_eq!(told, "conversion.kindom.dev/rules nests it deeper than 1024 levels");
    }
    // A larger one may take longer.
    let each = rules(
        r#"[{"cel":".spec.l[].wait","toHub":"duration(self).getSeconds()","toVersion":"string(self) + 's'"}]"#,
    );
    let item = kindom_api::object! { "wait": "90s" };
    let spec = kindom_api::object! { "l": vec![item; 5000] };
    let large = kindom_api::object! { "spec": spec };
    let hub = each.convert(&large, "v1beta1", "v1").unwrap();
    assert_eq!(each.convert(&hub, "v1", "v1beta1").unwrap(), large);
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
            r#"{"hub":"v1","versions":{"a":[{"constant":".a[].b","value":1}]}}"#,
            "versions.a[0].constant must not lead",
        ),
        (r#"{"hub":"v1","versions":{"a":[{"constant":".a"}]}}"#, "versions.a[0].value is needed"),
        (
            r#"{"hub":"v1","versions":{"a":[{"cel":".a","toHub":"self"}]}}"#,
            "versions.a[0].toVersion must be an expression",
        ),
        (
            r#"{"hub":"v1","versions":{"a":[{"cel":".a[].b","to":".b","toHub":"1","toVersion":"1"}]}}"#,
            "versions.a[0].to must lead through the same lists and maps as .a[].b",
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

#[test]
fn rules_nest_objects_so_deep_and_no_deeper() {
    let map = r#"{"a":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}"#;
    let moves = |count: usize, from: &str, to: &str| {
        let each = |i: usize| format!(r#"{{"move":".spec.{from}{i}","to":".spec.{to}{i}.x.x"}}"#);
        format!("[{}]", (0..count).map(each).collect::<Vec<_>>().join(","))
    };
    assert_eq!(checked(&moves(128, "b", "c"), map, map), None);
    let why = "versions.v1beta1 must not nest objects more than 256 levels deeper";
    assert_eq!(checked(&moves(129, "b", "c"), map, map).as_deref(), Some(why));
    let back = moves(129, "b", "c").replace("move", "y").replace("to", "move").replace('y', "to");
    assert_eq!(checked(&back, map, map).as_deref(), Some(why));
}

#[test]
fn expressions_that_do_not_belong_together_are_found() {
    let (text, seconds) =
        (r#"{"wait":{"type":"string"}}"#, r#"{"wait":{"type":"integer","minimum":0,"maximum":9000000}}"#);
    let rule = |to_version: &str| {
        format!(
            r#"[{{"cel":".spec.wait","toHub":"duration(self).getSeconds()","toVersion":"{to_version}"}}]"#
        )
    };
    // What is no duration is refused when it is written.
    assert_eq!(checked(&rule("string(self) + 's'"), seconds, text), None);
    let told = checked(&rule("string(self) + 'm'"), seconds, text).unwrap();
    assert!(told.starts_with("loses .spec.wait of v1 on the way to v1beta1 and back: "), "{told}");
    let told = checked(&rule("self"), seconds, text).unwrap();
    assert!(
        told.starts_with("loses .spec.wait of v1 ") || told.starts_with("loses an object of v1 "),
        "{told}"
    );
    let told = checked(&rule("self.text"), seconds, text).unwrap();
    assert!(told.contains(" of v1 has no form in v1beta1: versions.v1beta1[0] of "), "{told}");
    let told = checked(&rule("self + that"), seconds, text).unwrap();
    assert!(
        told.starts_with("versions.v1beta1[0].toVersion: ERROR: <input>:1:8: undeclared reference to 'that'"),
        "{told}"
    );
    let long = format!(
        "[{}]",
        vec![format!(r#"{{"cel":".a","toHub":"self","toVersion":"{}"}}"#, "1".repeat(4000)); 9].join(",")
    );
    assert_eq!(checked(&long, seconds, text).unwrap(), "expressions must have at most 32768 bytes together");
    let told = checked(&rule(&"1".repeat(4097)), seconds, text).unwrap();
    assert_eq!(told, "versions.v1beta1[0].toVersion must have from 1 to 4096 bytes");
    // Where it is stored, it has to have a form in the other version as well.
    let mut stored = registration(seconds, text);
    let versions =
        stored.get_mut("spec").and_then(|spec| spec.get_mut("versions")).and_then(Value::as_array_mut);
    versions.unwrap()[1].as_object_mut().unwrap().insert("storage", true);
    let all = format!(r#"{{"hub":"v1","versions":{{"v1beta1":{}}}}}"#, rule("string(self) + 's'"));
    let told = DeclaredConversion::check(&all, StoredRegistration::new(&stored)).unwrap();
    assert!(told.contains(" of v1beta1 has no form in v1: "), "{told}");
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
    /// An object may look like anything: a conversion ends, and a rename of a field that the hub does not have loses nothing.
    #[test]
    fn any_object_is_converted(spec in value(), metadata in value()) {
        let object = kindom_api::object! { "spec": spec, "metadata": metadata };
        let all = rules(r#"[{"move":".spec.a","to":".spec.m.x"},{"wrap":".spec.b","to":".spec.s"},{"unwrap":".spec.t[].a","to":".spec.t[].b"},
            {"map":".spec.z","values":{"a":"b"}},{"default":".spec.m.s","value":1},{"constant":".spec.m.b","value":"a"},
            {"cel":".spec.m","toHub":"[self, self]","toVersion":"self"},{"keep":".spec.a"},{"keepOwn":".spec.t"}]"#);
        for (from, to) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
            let there = all.convert(&object, from, to).unwrap();
            drop(all.convert(&there, to, from).unwrap());
        }
        let listed = rules(r#"[{"cel":".spec.t","to":".spec.new","toHub":"[self]","toVersion":"self[0]"}]"#);
        if let Some(new) = object.at(&["spec", "t"]).filter(|_| object.at(&["spec", "new"]).is_none()) {
            let hub = listed.convert(&object, "v1beta1", "v1").unwrap();
            prop_assert_eq!(hub.at(&["spec", "new"]).is_some(), !new.is_null());
            let back = listed.convert(&hub, "v1", "v1beta1").unwrap();
            prop_assert_eq!(back.at(&["spec", "t"]).cloned().unwrap_or_default(), new.clone());
        }
        let rename = rules(r#"[{"move":".spec.a","to":".spec.new"}]"#);
        let there = rename.convert(&object, "v1beta1", "v1").unwrap();
        prop_assert_eq!(rename.convert(&there, "v1", "v1beta1").unwrap(), object);
    }
}
