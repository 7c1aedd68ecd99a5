use kindom_api::crd::CRD;
use kindom_api::decode::{Field, Patched, Shape, Struct};
use kindom_api::faces::Face;
use kindom_api::json::{Value, parse};
use kindom_objects::kinds::namespace::NAMESPACE;
use proptest::prelude::*;

use super::StrategicPatch;
use super::merge::INCOMPARABLE;
use crate::RequestError;
use kindom_codec::FieldValidation::{self, Ignore, Strict, Warn};

const STRING: Shape = Shape::String("string");

static PORT: Struct = Struct::new(
    "v1.Port",
    &[
        Field::new("number", Shape::Int64),
        Field::new("name", STRING),
        Field::new("labels", Shape::Map(&STRING)),
        Field::new("inner", Shape::List(&Shape::Struct(&PORT))).patched(Patched::MergesBy("number")),
    ],
);

static TYPE: Struct = Struct::new(
    "v1.Type",
    &[
        Field::new("set", Shape::List(&STRING)).patched(Patched::Adds),
        Field::new("atomic", Shape::List(&STRING)),
        Field::new("ports", Shape::List(&Shape::Struct(&PORT))).patched(Patched::MergesBy("number")),
        Field::new("atomicPorts", Shape::List(&Shape::Struct(&PORT))),
        Field::new("labels", Shape::Map(&STRING)),
        Field::new("byName", Shape::Map(&Shape::Struct(&PORT))),
        Field::new("port", Shape::Pointer(&Shape::Struct(&PORT))),
        Field::new("any", Shape::Pointer(&Shape::Json)),
        Field::new("lists", Shape::List(&Shape::List(&STRING))),
    ],
);

fn apply_as(of: &'static Struct, patch: &str, object: &str, validation: FieldValidation) -> String {
    let object = parse(object.as_bytes()).unwrap();
    let patched =
        StrategicPatch::decode(patch.as_bytes(), validation).and_then(|p| p.apply(object, of, validation));
    match patched {
        Ok((object, warnings)) if warnings.is_empty() => object.to_string(),
        Ok((object, warnings)) => format!("{object} {warnings:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn check(patch: &str, object: &str, want: &str) {
    assert_eq!(apply_as(&TYPE, patch, object, Warn), want, "{patch} on {object}");
}

#[test]
fn maps_merge() {
    check(
        r#"{"labels":{"a":"2","c":"3"}}"#,
        r#"{"labels":{"a":"1","b":"1"}}"#,
        r#"{"labels":{"a":"2","b":"1","c":"3"}}"#,
    );
    check(r#"{"labels":{"a":null,"x":null}}"#, r#"{"labels":{"a":"1","b":"1"}}"#, r#"{"labels":{"b":"1"}}"#);
    check(r#"{"labels":null}"#, r#"{"labels":{"a":"1"}}"#, "{}");
    check(r#"{"labels":{"a":null,"b":"1"}}"#, "{}", r#"{"labels":{"b":"1"}}"#);
    check(r#"{"labels":{"$patch":"replace","b":"1"}}"#, r#"{"labels":{"a":"1"}}"#, r#"{"labels":{"b":"1"}}"#);
    check(r#"{"labels":{"$patch":"delete","b":"1"}}"#, r#"{"labels":{"a":"1"}}"#, r#"{"labels":{}}"#);
    // Without a map, the directive brings its own.
    check(r#"{"labels":{"$patch":"replace","b":"1"}}"#, "{}", "{}");
    check("null", r#"{"labels":{"a":"1"}}"#, r#"{"labels":{"a":"1"}}"#);
    let merge = r#"error: unknown patch type: merge in map: map[$patch:merge b:1]"#;
    check(r#"{"labels":{"$patch":"merge","b":"1"}}"#, r#"{"labels":{"a":"1"}}"#, merge);
    let no_text = "error: unknown patch type: %!s(bool=true) in map: map[$patch:true]";
    check(r#"{"labels":{"$patch":true}}"#, r#"{"labels":{"a":"1"}}"#, no_text);
}

#[test]
fn sets_add() {
    let object = r#"{"set":["a","b","c"]}"#;
    check(r#"{"set":["d","b"]}"#, object, r#"{"set":["d","a","b","c"]}"#);
    check(r#"{"set":["b","b","a"]}"#, object, r#"{"set":["b","a","c"]}"#);
    check(r#"{"set":["x","x"]}"#, "{}", r#"{"set":["x","x"]}"#);
    check(r#"{"set":[]}"#, object, object);
    check(r#"{"atomic":["x"]}"#, r#"{"atomic":["a"]}"#, r#"{"atomic":["x"]}"#);
    check(r#"{"$deleteFromPrimitiveList/set":["a","x"]}"#, object, r#"{"set":["b","c"]}"#);
    check(r#"{"$deleteFromPrimitiveList/set":["a"],"set":["a"]}"#, object, r#"{"set":["a","b","c"]}"#);
    check(r#"{"$deleteFromPrimitiveList/atomic":["a"]}"#, r#"{"atomic":["a","b"]}"#, r#"{"atomic":["b"]}"#);
    check(r#"{"$deleteFromPrimitiveList/set":"a"}"#, object, object);
    check(r#"{"$deleteFromPrimitiveList/set":["a"]}"#, "{}", "{}");
    check(r#"{"$deleteFromPrimitiveList":["a"]}"#, object, "error: invalid patch format of primitive list");
    let mixed = "error: list element types are not identical: [[a b c] [1]]";
    check(r#"{"set":[1]}"#, object, mixed);
}

#[test]
fn keyed_lists_merge() {
    let object = r#"{"ports":[{"number":1,"name":"a"},{"number":2,"name":"b"}]}"#;
    check(
        r#"{"ports":[{"number":3},{"number":2,"labels":{"x":"y"}}]}"#,
        object,
        r#"{"ports":[{"number":3},{"name":"a","number":1},{"labels":{"x":"y"},"name":"b","number":2}]}"#,
    );
    check(r#"{"ports":[{"number":1,"$patch":"delete"}]}"#, object, r#"{"ports":[{"name":"b","number":2}]}"#);
    check(r#"{"ports":[{"$patch":"replace"},{"number":5}]}"#, object, r#"{"ports":[{"number":5}]}"#);
    check(r#"{"ports":[{"$patch":"replace"}]}"#, object, r#"{"ports":[]}"#);
    check(
        r#"{"ports":[{"number":1,"inner":[{"number":7,"name":"i"}]},{"number":1,"inner":[{"number":7,"name":"j"},{"number":8}]}]}"#,
        r#"{"ports":[{"number":1,"inner":[]}]}"#,
        r#"{"ports":[{"inner":[{"name":"j","number":7},{"number":8}],"number":1}]}"#,
    );
    check(
        r#"{"ports":[{"name":"x"}]}"#,
        object,
        "error: map: map[name:x] does not contain declared merge key: number",
    );
    check(
        r#"{"ports":[{"$patch":"merge"}]}"#,
        object,
        "error: merging lists cannot yet be specified in the patch",
    );
    check(
        r#"{"ports":[{"$patch":null}]}"#,
        object,
        "error: unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]",
    );
    check(
        r#"{"ports":[{"number":[]}]}"#,
        object,
        "error: lists, maps and null cannot be keys or items of a list that is merged",
    );
    check(
        r#"{"ports":[null]}"#,
        r#"{"ports":[]}"#,
        "error: lists, maps and null cannot be keys or items of a list that is merged",
    );
    check(r#"{"ports":[["a"]]}"#, r#"{"ports":[]}"#, "error: lists of lists are not supported");
    let no_key = "error: cannot merge lists without merge key for struct";
    check(
        r#"{"$deleteFromPrimitiveList/atomicPorts":[{"number":1}]}"#,
        r#"{"atomicPorts":[{"number":1}]}"#,
        no_key,
    );
}

#[test]
fn orders_are_set() {
    let object = r#"{"set":["a","b","c"]}"#;
    check(r#"{"$setElementOrder/set":["c","a"]}"#, object, r#"{"set":["b","c","a"]}"#);
    check(r#"{"$setElementOrder/set":["c","d","a"],"set":["d"]}"#, object, r#"{"set":["b","c","d","a"]}"#);
    check(r#"{"$setElementOrder/set":["d","e"],"set":["d","e"]}"#, "{}", r#"{"set":["d","e"]}"#);
    check(r#"{"$setElementOrder/set":["d"]}"#, "{}", "{}");
    // Items that neither order knows come last, and the other way round.
    check(r#"{"$setElementOrder/set":[],"set":["d","e"]}"#, object, r#"{"set":["a","b","c","e","d"]}"#);
    check(
        r#"{"$setElementOrder/atomic":["y","x"],"atomic":["x"]}"#,
        r#"{"atomic":["a"]}"#,
        r#"{"atomic":["x"]}"#,
    );
    let ports = r#"{"ports":[{"number":1},{"number":2},{"number":3}]}"#;
    check(
        r#"{"$setElementOrder/ports":[{"number":3},{"number":1}],"ports":[{"number":1,"name":"x"},{"number":2,"$patch":"delete"}]}"#,
        ports,
        r#"{"ports":[{"number":3},{"name":"x","number":1}]}"#,
    );
    check(r#"{"$setElementOrder":["a"]}"#, object, "error: invalid patch format of setElementOrder list");
    check(
        r#"{"$setElementOrder/set":"a"}"#,
        object,
        "error: expected a []interface {}, but received a string",
    );
    check(
        r#"{"$setElementOrder/set":[]}"#,
        r#"{"set":null}"#,
        "error: expected a []interface {}, but received a %!s(<nil>)",
    );
    check(
        r#"{"$setElementOrder/set":[],"set":[]}"#,
        r#"{"set":[]}"#,
        "error: no elements in any of the given slices",
    );
    check(r#"{"$setElementOrder/ports":[5]}"#, ports, "error: value for key 0 is not a map");
    check(
        r#"{"$setElementOrder/ports":[5],"ports":[{"number":1}]}"#,
        ports,
        "error: expected a map[string]interface {}, but received a int64",
    );
    check(
        r#"{"$setElementOrder/set":["x","y"],"set":["y","x"]}"#,
        object,
        "error: The order in patch list:\n[y x]\n doesn't match $setElementOrder list:\n[x y]\n",
    );
}

#[test]
fn keys_are_retained() {
    let object = r#"{"port":{"name":"a","number":1}}"#;
    check(r#"{"port":{"$retainKeys":["name"],"name":"b"}}"#, object, r#"{"port":{"name":"b"}}"#);
    check(r#"{"port":{"$retainKeys":[]}}"#, object, r#"{"port":{}}"#);
    check(r#"{"port":{"$retainKeys":["number"],"name":null}}"#, object, r#"{"port":{"number":1}}"#);
    let malformed = "error: invalid patch format of retainKeys";
    check(r#"{"port":{"$retainKeys":["number"],"name":"b"}}"#, object, malformed);
    check(r#"{"port":{"$retainKeys":"name"}}"#, object, malformed);
}

#[test]
fn fields_are_looked_up_only_where_both_sides_have_more() {
    let why = "error: merging an object in json but data type is not struct, instead is: map";
    check(r#"{"byName":{"a":{"name":"x"}}}"#, r#"{"byName":{"a":{"number":1}}}"#, why);
    check(
        r#"{"byName":{"b":{"name":"x"}}}"#,
        r#"{"byName":{"a":{}}}"#,
        r#"{"byName":{"a":{},"b":{"name":"x"}}}"#,
    );
    check(
        r#"{"any":{"a":{}}}"#,
        r#"{"any":{"a":{}}}"#,
        "error: unable to find api field in struct JSON for the json field \"a\"",
    );
    check(r#"{"any":{"a":2,"b":{"c":1}}}"#, r#"{"any":{"a":1}}"#, r#"{"any":{"a":2,"b":{"c":1}}}"#);
    check(r#"{"lists":[]}"#, r#"{"lists":[["a"]]}"#, "error: unexpected slice of slice");
    check(r#"{"$setElementOrder/port":[]}"#, "{}", "{}");
    check(r#"{"$setElementOrder/labels":[]}"#, "{}", "error: expected slice or array type, but got: struct");
    // A name in another case is found, and then is unknown all the same.
    check(
        r#"{"PORTS":[{"number":1,"name":"x"}]}"#,
        r#"{"PORTS":[{"number":1}]}"#,
        r#"{"PORTS":[{"name":"x","number":1}]} ["unknown field \"PORTS\""]"#,
    );
}

#[test]
fn what_comes_out_is_of_the_type() {
    let check = |validation, patch: &str, want: &str| {
        assert_eq!(
            apply_as(NAMESPACE.declaration().shape, patch, r#"{"metadata":{"name":"a"}}"#, validation),
            want,
            "{patch}"
        );
    };
    let invalid =
        |patch: &str, why: &str| format!("error:  is invalid: patch: Invalid value: \"{patch}\": {why}");
    let number = invalid("map[metadata:map[name:5]]", "cannot convert int64 to string");
    check(Ignore, r#"{"metadata":{"name":5}}"#, &number);
    check(Warn, r#"{"metadata":{"name":5}}"#, &number);
    check(Ignore, r#"{"x":1,"x":2}"#, r#"{"metadata":{"name":"a"},"x":2}"#);
    check(
        Warn,
        r#"{"x":1,"x":2}"#,
        r#"{"metadata":{"name":"a"},"x":2} ["duplicate field \"x\"", "unknown field \"x\""]"#,
    );
    let twice = invalid("map[x:2]", r#"strict decoding error: duplicate field "x", unknown field "x""#);
    check(Strict, r#"{"x":1,"x":2}"#, &twice);
    // The error shows the patch without the directives that were followed.
    let retained =
        invalid("map[metadata:map[labels:map[a:1]] x:1]", r#"strict decoding error: unknown field "x""#);
    check(Strict, r#"{"x":1,"metadata":{"labels":{"a":"1","b":null}}}"#, &retained);
    let list = "error: json: cannot unmarshal array into Go value of type map[string]interface {}";
    check(Warn, "[]", list);
    check(Warn, "{", "error: invalid JSON patch");
}

#[test]
fn conditions_of_namespaces_merge_by_type() {
    let object = r#"{"status":{"conditions":[{"type":"A","status":"True"},{"type":"B","status":"True"}]}}"#;
    let patch = r#"{"status":{"conditions":[{"type":"B","status":"False"}]}}"#;
    let want = r#"{"status":{"conditions":[{"status":"True","type":"A"},{"status":"False","type":"B"}]}}"#;
    assert_eq!(apply_as(NAMESPACE.declaration().shape, patch, object, Strict), want);
    // The lists of registrations do not merge: their Go type has no such tag.
    let want = r#"{"status":{"conditions":[{"status":"False","type":"B"}]}}"#;
    assert_eq!(apply_as(&CRD, patch, object, Strict), want);
}

#[test]
fn long_lists_take_no_quadratic_time() {
    let numbers =
        |from: usize| (from..from + 60_000).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(",");
    let (set, more) = (numbers(0), numbers(30_000));
    let object = parse(format!("{{\"set\":[{set}]}}").as_bytes()).unwrap();
    let patch = format!("{{\"set\":[{more}],\"$setElementOrder/set\":[{more}]}}");
    let patch = StrategicPatch::decode(patch.as_bytes(), Warn).unwrap();
    let (patched, _) = patch.apply(object, &TYPE, Warn).unwrap();
    assert_eq!(patched.at(&["set"]).and_then(Value::as_array).unwrap().len(), 90_000);
}

/// A patch, or an object if it has no directives.
fn tree(directives: bool) -> impl Strategy<Value = String> {
    let directive =
        if directives { "(\"\\$patch\":(\"replace\"|\"delete\"|\"merge\"|1|null),)?" } else { "" };
    let null = if directives { "|null" } else { "" };
    let port = format!(
        "\\{{{directive}\"number\":[1-4](,\"name\":\"[ab]\")?(,\"labels\":\\{{\"a\":\"[ab]\"\\}})?\\}}"
    );
    let text = "\"[a-d]\"";
    let mut fields = vec![
        format!("\"set\":(\\[({text},){{0,3}}{text}\\]|\\[\\]{null})"),
        format!("\"ports\":(\\[({port},){{0,3}}{port}\\]{null})"),
        format!("\"labels\":(\\{{{directive}\"a\":{text},\"b\":({text}{null})\\}}{null})"),
    ];
    if directives {
        fields.push(format!("\"\\$setElementOrder/set\":(\\[({text},){{0,3}}{text}\\]|1)"));
        fields.push(format!("\"\\$setElementOrder/ports\":\\[({port},){{0,3}}{port}\\]"));
        fields.push(format!("\"\\$deleteFromPrimitiveList/set\":(\\[({text},){{0,3}}{text}\\]|null)"));
        fields.push(format!("\"\\$retainKeys\":\\[({text},){{0,3}}\"set\"\\]"));
        fields.push("\"any\":(1|\\[1,\\{\\}\\]|\\{\"a\":\\{\\}\\})".to_owned());
    }
    let count = fields.len();
    let fields: Vec<_> = fields.iter().map(|f| proptest::string::string_regex(f).unwrap()).collect();
    (fields, proptest::collection::vec(any::<bool>(), count)).prop_map(|(fields, which)| {
        let kept: Vec<String> =
            fields.into_iter().zip(which).filter(|(_, keep)| *keep).map(|(f, _)| f).collect();
        format!("{{{}}}", kept.join(","))
    })
}

proptest! {
    #[test]
    fn no_patch_panics(object in tree(true), patch in tree(true)) {
        let _ = apply_as(&TYPE, &patch, &object, Warn);
    }

    /// Without directives the patched object has the patch's values, and applying the patch again changes nothing.
    #[test]
    fn a_patch_is_idempotent(object in tree(false), patch in tree(false)) {
        let patch = StrategicPatch::decode(patch.as_bytes(), Strict).unwrap();
        let object = parse(object.as_bytes()).unwrap();
        // The object must not have a key twice.
        let unique = |list: Option<&[Value]>| {
            let mut keys: Vec<String> = list.unwrap_or_default().iter()
                .map(|item| item.get("number").unwrap_or(item).to_string()).collect();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            keys.len() == count
        };
        for list in ["set", "ports"] {
            prop_assume!(unique(object.get(list).and_then(Value::as_array)));
            prop_assume!(unique(patch.patch.get(list).and_then(Value::as_array)));
        }
        let (once, _) = patch.apply(object, &TYPE, Strict).unwrap();
        let (twice, _) = patch.apply(once.clone(), &TYPE, Strict).unwrap();
        prop_assert_eq!(twice, once);
    }
}

/// The results that upstream's own code gave for random patches (`integration/oracle/strategic`).
#[test]
fn random_patches_come_out_as_recorded() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../integration/expectations/strategic/patches.recorded.json");
    let recorded = parse(&std::fs::read(path).unwrap()).unwrap();
    let cases = recorded.as_array().unwrap();
    assert!(cases.len() >= 1000, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let of: &Struct = match case.get("type").and_then(Value::as_str).unwrap() {
            "Type" => &TYPE,
            "Namespace" => NAMESPACE.declaration().shape,
            "v1" => Face::V1.go_type(),
            "v1beta1" => Face::V1beta1.go_type(),
            other => panic!("no type {other}"),
        };
        let (object, patch) = (case.get("object").unwrap(), case.get("patch").unwrap().to_vec());
        let patch = StrategicPatch::decode(&patch, Warn).unwrap();
        let got = match patch.apply(object.clone(), of, Warn) {
            Ok((object, unknown)) => {
                let mut got = kindom_api::object! { "object": object };
                if !unknown.is_empty() {
                    got.as_object_mut().unwrap().insert("unknown", unknown);
                }
                got
            }
            Err(RequestError::BadRequest(why)) if why == INCOMPARABLE => {
                kindom_api::object! { "panics": true }
            }
            Err(RequestError::Invalid { errors, .. }) => {
                kindom_api::object! { "error": errors[0].detail.clone() }
            }
            Err(error) => kindom_api::object! { "error": error.to_string() },
        };
        let want = case.get("want").unwrap();
        if got != *want {
            wrong.push(format!("{case}\n  got {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}
