use kindom_api::json;

use super::WholeSchema;

fn errors(schema: &str, object: &str) -> Vec<String> {
    let whole = WholeSchema::compile(schema).unwrap();
    whole.validate(&json::parse(object.as_bytes()).unwrap()).iter().map(ToString::to_string).collect()
}

#[test]
fn what_structural_schemas_cannot_say_is_held() {
    let schema = r##"{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/sloop",
        "$defs": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}},
        "properties": {"spec": {
            "properties": {"port": {"$ref": "#/$defs/port"}, "mode": {"enum": ["a", "b"]}, "tls": {"type": "object"}},
            "patternProperties": {"^x-[a-z]+$": {"type": "string"}},
            "dependentRequired": {"tls": ["port"]},
            "if": {"properties": {"mode": {"const": "b"}}, "required": ["mode"]}, "then": {"required": ["tls"]},
            "unevaluatedProperties": false}}}"##;
    assert_eq!(errors(schema, r#"{"spec":{"port":80,"mode":"a","x-rest":"any"}}"#), [""; 0]);
    assert_eq!(errors(schema, r#"{"kind":"any"}"#), [""; 0]);
    for (object, told) in [
        (
            r#"{"spec":{"port":70000}}"#,
            "spec.port: Invalid value: 70000: it is greater than the maximum of 65535 (of its JSON Schema)",
        ),
        (r#"{"spec":{"mode":"b"}}"#, "spec.tls: Required value"),
        (r#"{"spec":{"tls":{}}}"#, "spec.port: Required value"),
        (
            r#"{"spec":{"x-rest":1}}"#,
            r#"spec[x-rest]: Invalid value: 1: it is not of type "string" (of its JSON Schema)"#,
        ),
        (r#"{"spec":{"other":1}}"#, "spec.other: Forbidden: its JSON Schema has no such field"),
        (
            r#"{"spec":{"mode":"c"}}"#,
            r#"spec.mode: Invalid value: "c": it is not one of "a" or "b" (of its JSON Schema)"#,
        ),
    ] {
        assert_eq!(errors(schema, object), [told], "{object}");
    }
}

#[test]
fn errors_show_no_schema() {
    let not = r#"{"not":{"required":["a"]},"propertyNames":{"not":{"pattern":"^b"}}}"#;
    let told = "it matches a schema that it must not match (of its JSON Schema)";
    assert_eq!(errors(not, r#"{"a":1}"#), [format!(r#"<nil>: Invalid value: {{"a":1}}: {told}"#)]);
    assert_eq!(
        errors(not, r#"{"b":1}"#),
        [format!(r#"<nil>: Invalid value: {{"b":1}}: a name in it: {told}"#)]
    );
}

#[test]
fn a_schema_that_cannot_be_kept_to_is_refused() {
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(40), "}".repeat(40));
    let twice_at_once =
        doubling(40, "{}").replace(r#""properties":{"spec":"#, r#""allOf":["#).replace("}}}", "}]}");
    for (schema, why) in [
        ("{", "must be a JSON Schema: EOF"),
        ("[]", "must be a JSON object"),
        (r#"{"type":"strin"}"#, "must be a JSON Schema: #/type: "),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            "$schema must be https://json-schema.org/draft/2020-12",
        ),
        (
            r#"{"$ref":"https://example.com/s"}"#,
            r##"#/$ref must lead to a schema within it, such as #/$defs/name; "https"##,
        ),
        (
            r##"{"properties":{"a":{"$ref":"#/$defs/b"}}}"##,
            "#/properties/a/$ref must lead to a schema within it",
        ),
        (r##"{"const":{"x":{}},"$ref":"#/const/x"}"##, "#/$ref must lead to a schema within it"),
        (r#"{"properties":{"a":{"$id":"b"}}}"#, "#/properties/a/$id is not taken"),
        (r##"{"$dynamicRef":"#a"}"##, "#/$dynamicRef is not taken"),
        (
            r#"{"pattern":"(?=a)b"}"#,
            "must be a JSON Schema, with patterns of a bounded size and without look-around: ",
        ),
        (r#"{"pattern":"(a{1000}){1000}"}"#, "must be a JSON Schema, with patterns of a bounded size"),
        (&twice_at_once, "takes too long to evaluate, even for an empty object"),
        (&deep, "#/not/not"),
    ] {
        let told = WholeSchema::compile(schema).map(drop).expect_err(schema);
        assert!(told.starts_with(why), "{schema}: {told}");
    }
}

/// A schema in which two refer to one another is none that never ends: the library sees the circle.
#[test]
fn circles_end() {
    let circle = r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##;
    for schema in [circle, r##"{"$ref":"#"}"##, r##"{"not":{"$ref":"#"}}"##] {
        let whole = WholeSchema::compile(schema).unwrap();
        drop(whole.validate(&json::parse(br#"{"spec":{}}"#).unwrap()));
    }
}

/// Doubles what is to be done at each of so many references.
fn doubling(levels: usize, last: &str) -> String {
    let twice = |i: usize| {
        format!(r##""d{i}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, i + 1)
    };
    let definitions: Vec<String> = (0..levels).map(twice).collect();
    format!(
        r##"{{"$defs":{{{},"d{levels}":{last}}},"properties":{{"spec":{{"$ref":"#/$defs/d0"}}}}}}"##,
        definitions.join(",")
    )
}

#[test]
fn what_takes_too_long_is_given_up() {
    assert_eq!(errors(&doubling(10, "{}"), r#"{"spec":1}"#), [""; 0]);
    assert_eq!(
        errors(&doubling(40, "{}"), r#"{"spec":1}"#),
        ["<nil>: Forbidden: its JSON Schema takes too long to evaluate"]
    );
    let next = |i: usize| format!(r##"{{"$ref":"#/$defs/d{}"}}"##, i + 1);
    let branch = |i: usize| format!(r#""d{i}":{{"anyOf":[{{"allOf":[{0},false]}},{0}]}}"#, next(i));
    let branches: Vec<String> = (0..40).map(branch).collect();
    let refusing = format!(
        r##"{{"$defs":{{{},"d40":false}},"properties":{{"spec":{{"$ref":"#/$defs/d0"}}}}}}"##,
        branches.join(",")
    );
    assert_eq!(errors(&refusing, r#"{"spec":1}"#).len(), 1);
    // Never reached, so it costs nothing.
    assert_eq!(errors(&doubling(40, "{}"), r#"{"kind":"a"}"#), [""; 0]);
    // The wrong place is known, but there are too many ways to it.
    assert_eq!(
        errors(&doubling(12, r#"{"type":"string"}"#), r#"{"spec":1}"#).last().unwrap(),
        "<nil>: Too many: <nil>: too many errors: more are not listed"
    );
}

/// A thread that serves has 2 MiB.
#[test]
fn nesting_does_not_take_the_stack() {
    let recursive = r##"{"$defs":{"t":{"properties":{"t":{"$ref":"#/$defs/t"}},"additionalProperties":false}},
        "properties":{"t":{"$ref":"#/$defs/t"}}}"##;
    let object = |inner: &str| format!("{}{inner}{}", r#"{"t":"#.repeat(200), "}".repeat(200));
    let chain: Vec<String> =
        (0..3000).map(|i| format!(r##""c{i}":{{"$ref":"#/$defs/c{}"}}"##, i + 1)).collect();
    let chain = format!(
        r##"{{"$defs":{{{},"c3000":{{}}}},"properties":{{"spec":{{"$ref":"#/$defs/c0"}}}}}}"##,
        chain.join(",")
    );
    let run = move || {
        assert_eq!(errors(recursive, &object("{}")), [""; 0]);
        assert_eq!(errors(recursive, &object(r#"{"x":1}"#)).len(), 1);
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(30), "}".repeat(30));
        assert_eq!(errors(&deep, "{}").len(), 0);
        match WholeSchema::compile(&chain) {
            Ok(whole) => drop(whole.validate(&json::parse(br#"{"spec":1}"#).unwrap())),
            Err(told) => assert!(told.starts_with("is too large, or nests"), "{told}"),
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn an_embedded_schema_refers_to_its_own_parts() {
    let text = r##"{"$id":"https://example.com/x","$defs":{"a":{"$ref":"#"}},"allOf":[{"$ref":"#/$defs/a"}],
        "properties":{"$ref":{"const":{"$ref":"#/x"}}}}"##;
    assert_eq!(
        super::parts::embedded(text).unwrap().to_string(),
        r##"{"$defs":{"a":{"$ref":"#/$defs/whole"}},"allOf":[{"$ref":"#/$defs/whole/$defs/a"}],"properties":{"$ref":{"const":{"$ref":"#/x"}}}}"##
    );
    assert!(super::parts::embedded("[]").is_none());
}

#[test]
fn each_version_has_its_own() {
    let one = serde_json::json!({"$defs": {"n": {"minimum": 1}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
    let two = serde_json::json!({"properties": {"a": {"maximum": 0}}});
    let text = super::of_versions(vec![("g/v1".to_owned(), one), ("g/v2".to_owned(), two)]);
    for (object, told) in [
        (r#"{"apiVersion":"g/v1","a":1}"#, 0),
        (r#"{"apiVersion":"g/v1","a":0}"#, 1),
        (r#"{"apiVersion":"g/v2","a":1}"#, 1),
        (r#"{"apiVersion":"g/v3","a":-1}"#, 0),
    ] {
        assert_eq!(errors(&text, object).len(), told, "{object}");
    }
}
