//! Cases of our own for what validation says.

use kindom_api::json::parse;

use crate::Schema;

fn check(schema: &str, object: &str, want: &[&str]) {
    let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
    let errors = schema.validate(&parse(object.as_bytes()).unwrap());
    let got: Vec<String> = errors.iter().map(|e| format!("{} {e}", e.kind.reason())).collect();
    assert_eq!(got, want, "{object}");
}

/// Checks the value of `.x` against a schema.
fn field(schema: &str, value: &str, want: &[&str]) {
    check(&format!(r#"{{"properties":{{"x":{schema}}}}}"#), &format!(r#"{{"x":{value}}}"#), want);
}

#[test]
fn types() {
    field(r#"{"type":"string"}"#, r#""a""#, &[]);
    field(
        r#"{"type":"integer"}"#,
        r#""a""#,
        &[r#"FieldValueTypeInvalid x: Invalid value: "string": x in body must be of type integer: "string""#],
    );
    field(
        r#"{"type":"string"}"#,
        "1.5",
        &[r#"FieldValueTypeInvalid x: Invalid value: "number": x in body must be of type string: "number""#],
    );
    field(
        r#"{"type":"object"}"#,
        "[]",
        &[r#"FieldValueTypeInvalid x: Invalid value: "array": x in body must be of type object: "array""#],
    );
    field(
        r#"{"type":"boolean"}"#,
        "null",
        &[r#"FieldValueTypeInvalid x: Invalid value: "null": x in body must be of type boolean: "null""#],
    );
    field(r#"{"type":"boolean","nullable":true}"#, "null", &[]);
    // Keywords that v1beta1 let into schemas.
    field(
        r#"{"type":"int"}"#,
        "1",
        &[r#"FieldValueTypeInvalid x: Invalid value: "integer": x in body must be of type int: "integer""#],
    );
    check(r#"{"properties":{"x":{"type":"int"}}}"#, "{}", &[]);
    field(r#"{}"#, "null", &[]);
    field(r#"{"type":"integer"}"#, "2.0", &[]);
    field(r#"{"type":"number"}"#, "2", &[]);
    check(
        r#"{"type":"object"}"#,
        "5",
        &[
            r#"FieldValueTypeInvalid <nil>: Invalid value: "integer":  in body must be of type object: "integer""#,
        ],
    );
}

#[test]
fn a_format_takes_part_in_the_type() {
    field(
        r#"{"type":"integer","format":"int32"}"#,
        "1.5",
        &[
            r#"FieldValueTypeInvalid x: Invalid value: "float64": x in body must be of type int32: "float64""#,
            r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in x"#,
        ],
    );
    field(
        r#"{"type":"string","format":"date-time"}"#,
        "5",
        &[r#"FieldValueTypeInvalid x: Invalid value: "int64": x in body must be of type date-time: "int64""#],
    );
    field(
        r#"{"type":"string","format":"ipv4"}"#,
        r#""x""#,
        &[r#"FieldValueTypeInvalid x: Invalid value: "x": x in body must be of type ipv4: "x""#],
    );
    field(r#"{"type":"string","format":"no-such"}"#, r#""x""#, &[]);
    field(
        r#"{"type":"integer","format":"int32"}"#,
        "3000000000",
        &[
            r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in x"#,
        ],
    );
}

#[test]
fn int_or_string() {
    let schema = r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#;
    field(schema, "5", &[]);
    field(schema, r#""5%""#, &[]);
    field(
        schema,
        "true",
        &[
            r#"FieldValueTypeInvalid x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#,
            r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
            r#"FieldValueTypeInvalid x: Invalid value: "boolean": x in body must be of type integer: "boolean""#,
        ],
    );
}

#[test]
fn fields_and_sizes() {
    check(
        r#"{"required":["a","spec"],"properties":{"spec":{"type":"object","required":["b"],"minProperties":1}}}"#,
        r#"{"spec":{}}"#,
        &[
            "FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 properties",
            "FieldValueRequired spec.b: Required value",
            "FieldValueRequired a: Required value",
        ],
    );
    field(
        r#"{"type":"object","maxProperties":1,"additionalProperties":{"type":"string"}}"#,
        r#"{"a":"x","b":{}}"#,
        &[
            "FieldValueTooMany x: Too many: 2: must have at most 1 item",
            r#"FieldValueTypeInvalid x.b: Invalid value: "object": x.b in body must be of type string: "object""#,
        ],
    );
    field(
        r#"{"type":"object","additionalProperties":false}"#,
        r#"{"a":1}"#,
        &[r#"FieldValueInvalid x: Invalid value: "a": x.a in body is a forbidden property"#],
    );
    field(
        r#"{"type":"array","minItems":3,"maxItems":1,"items":{"type":"integer","minimum":2}}"#,
        "[1,2]",
        &[
            "FieldValueInvalid x[0]: Invalid value: 1: x[0] in body should be greater than or equal to 2",
            "FieldValueInvalid x: Invalid value: 2: x in body should have at least 3 items",
            "FieldValueTooMany x: Too many: 2: must have at most 1 item",
        ],
    );
}

#[test]
fn strings() {
    field(
        r#"{"type":"string","maxLength":2}"#,
        r#""äöü""#,
        &["FieldValueTooLong x: Too long: may not be more than 2 bytes"],
    );
    field(
        r#"{"type":"string","maxLength":1}"#,
        r#""ab""#,
        &["FieldValueTooLong x: Too long: may not be more than 1 byte"],
    );
    field(r#"{"type":"string","maxLength":3}"#, r#""äöü""#, &[]);
    field(
        r#"{"type":"string","minLength":2,"pattern":"^x"}"#,
        r#""a""#,
        &[r#"FieldValueInvalid x: Invalid value: "a": x in body should be at least 2 chars long"#],
    );
    field(
        r#"{"type":"string","pattern":"^\\d+$"}"#,
        r#""a""#,
        &[r#"FieldValueInvalid x: Invalid value: "a": x in body should match '^\d+$'"#],
    );
    field(
        r#"{"type":"string","pattern":"(a"}"#,
        r#""a""#,
        &[concat!(
            r#"FieldValueInvalid x: Invalid value: "a": x in body should match '(a, but pattern is invalid: "#,
            "error parsing regexp: missing closing ): `(a`'"
        )],
    );
}

#[test]
fn numbers() {
    field(
        r#"{"type":"integer","maximum":5,"exclusiveMaximum":true}"#,
        "5",
        &["FieldValueInvalid x: Invalid value: 5: x in body should be less than 5"],
    );
    field(
        r#"{"type":"number","minimum":0.5}"#,
        "0.25",
        &["FieldValueInvalid x: Invalid value: 0.25: x in body should be greater than or equal to 0.5"],
    );
    // A bound is cut to a whole number where the value is one.
    field(r#"{"type":"number","minimum":0.5}"#, "0", &[]);
    field(
        r#"{"type":"integer","multipleOf":3}"#,
        "4",
        &["FieldValueInvalid x: Invalid value: 4: x in body should be a multiple of 3"],
    );
    field(r#"{"type":"number","multipleOf":0.1}"#, "0.3", &[]);
    field(
        r#"{"type":"integer","maximum":1.5}"#,
        "1",
        &[concat!(
            r#"FieldValueInvalid <nil>: Invalid value: "": "#,
            "Maximum boundary value must be of type integer (default format) in x"
        )],
    );
    field(
        r#"{"type":"number","maximum":1}"#,
        "1e25",
        &["FieldValueInvalid x: Invalid value: 1e+25: x in body should be less than or equal to 1"],
    );
}

#[test]
fn choices() {
    field(r#"{"enum":["a",1,null,{"k":[1]}]}"#, r#"{"k":[1]}"#, &[]);
    field(r#"{"type":"number","enum":[1]}"#, "1.0", &[]);
    field(
        r#"{"type":"string","enum":["a","b"]}"#,
        r#""c""#,
        &[r#"FieldValueNotSupported x: Unsupported value: "c": supported values: "a", "b""#],
    );
    field(
        r#"{"type":"string","nullable":true,"enum":["a",null]}"#,
        "null",
        &[r#"FieldValueNotSupported x: Unsupported value: null: supported values: "a", "null""#],
    );
}

#[test]
fn junctors() {
    let one = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
        "oneOf":[{"required":["a"]},{"required":["b"]}]}"#;
    field(one, r#"{"a":"x"}"#, &[]);
    field(
        one,
        "{}",
        &[
            concat!(
                r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). "#,
                "Found none valid"
            ),
            "FieldValueRequired x.a: Required value",
        ],
    );
    field(
        one,
        r#"{"a":"x","b":"y"}"#,
        &[concat!(
            r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). "#,
            "Found 2 valid alternatives"
        )],
    );
    field(
        r#"{"allOf":[{"minimum":5},{"maximum":1}]}"#,
        "3",
        &[
            "FieldValueInvalid x: Invalid value: 3: x in body should be greater than or equal to 5",
            "FieldValueInvalid x: Invalid value: 3: x in body should be less than or equal to 1",
            r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate all the schemas (allOf). None validated"#,
        ],
    );
    field(
        r#"{"not":{"enum":["bad"]}}"#,
        r#""bad""#,
        &[r#"FieldValueInvalid <nil>: Invalid value: "": "x" must not validate the schema (not)"#],
    );
    // The error is that of the branch that matches best: more of it applies.
    field(
        r#"{"anyOf":[{"type":"string"},{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["c"]}]}"#,
        r#"{"a":"x","b":1}"#,
        &[
            r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate at least one schema (anyOf)"#,
            "FieldValueRequired x.c: Required value",
        ],
    );
}

#[test]
fn the_same_is_said_once() {
    field(
        r#"{"maxLength":1,"allOf":[{"maxLength":1},{}]}"#,
        r#""ab""#,
        &[
            "FieldValueTooLong x: Too long: may not be more than 1 byte",
            r#"FieldValueInvalid <nil>: Invalid value: "": "x" must validate all the schemas (allOf)"#,
        ],
    );
}

#[test]
fn lists_are_unique() {
    let set = r#"{"type":"array","x-kubernetes-list-type":"set","items":{}}"#;
    field(set, r#"["a","b"]"#, &[]);
    field(
        set,
        r#"["a","a","a",1,1.0,{"k":1},{"k":1}]"#,
        &[
            r#"FieldValueDuplicate x[1]: Duplicate value: "a""#,
            r#"FieldValueDuplicate x[6]: Duplicate value: {"k":1}"#,
        ],
    );
    let many: Vec<String> = (0..40).map(|i| (i % 39).to_string()).collect();
    field(set, &format!("[{}]", many.join(",")), &["FieldValueDuplicate x[39]: Duplicate value: 0"]);
    let map = r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],
        "items":{"type":"object","properties":{"n":{"type":"string"}}}}"#;
    field(
        map,
        r#"[{"n":"a"},{"n":"b"},{"n":"a","v":1},{},{}]"#,
        &[
            r#"FieldValueDuplicate x[2]: Duplicate value: {"n":"a"}"#,
            "FieldValueDuplicate x[4]: Duplicate value: {}",
        ],
    );
    let two = r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{}}"#;
    field(
        two,
        r#"[{"a":1,"b":2},{"a":1,"b":3},{"b":2,"a":1}]"#,
        &[r#"FieldValueDuplicate x[2]: Duplicate value: {"a":1,"b":2}"#],
    );
}

#[test]
fn an_embedded_resource_has_a_type() {
    let schema = r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#;
    field(schema, r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#, &[]);
    field(
        schema,
        r#"{"apiVersion":"","metadata":{"name":"a/b"}}"#,
        &[
            r#"FieldValueInvalid x.apiVersion: Invalid value: "": must not be empty"#,
            "FieldValueRequired x.kind: Required value",
            r#"FieldValueInvalid x.metadata.name: Invalid value: "a/b": may not contain '/'"#,
        ],
    );
}

#[test]
fn errors_that_block_rules_say_so() {
    let schema = r#"{"properties":{"x":{"type":"string","maxLength":1,"pattern":"^b",
        "x-kubernetes-validations":[{"rule":"self != ''"}]}}}"#;
    check(
        schema,
        r#"{"x":"ab"}"#,
        &[
            "FieldValueTooLong x: Too long: may not be more than 1 byte",
            concat!(
                "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object ",
                "was invalid; correct the existing errors to complete validation"
            ),
        ],
    );
    // A pattern does not block.
    check(
        schema,
        r#"{"x":"a"}"#,
        &[r#"FieldValueInvalid x: Invalid value: "a": x in body should match '^b'"#],
    );
}

fn update(schema: &str, old: &str, new: &str, want: &[&str]) {
    let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
    let errors = schema.validate_update(&parse(new.as_bytes()).unwrap(), &parse(old.as_bytes()).unwrap());
    let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, want, "{old} -> {new}");
}

#[test]
fn what_was_wrong_before_and_is_unchanged_passes() {
    let schema = r#"{"type":"object","properties":{
        "a":{"type":"string","pattern":"^good"},"b":{"type":"string"},
        "set":{"type":"array","items":{"type":"string","maxLength":1}},
        "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],
                 "items":{"type":"object","properties":{"n":{"type":"string"},"v":{"type":"string","maxLength":1}}}}}}"#;
    update(schema, r#"{"a":"bad","b":"1"}"#, r#"{"a":"bad","b":"2"}"#, &[]);
    update(
        schema,
        r#"{"a":"bad"}"#,
        r#"{"a":"worse"}"#,
        &[r#"a: Invalid value: "worse": a in body should match '^good'"#],
    );
    update(schema, r#"{"set":["xx"]}"#, r#"{"set":["xx"],"b":"2"}"#, &[]);
    update(
        schema,
        r#"{"set":["xx"]}"#,
        r#"{"set":["xx","y"]}"#,
        &["set[0]: Too long: may not be more than 1 byte"],
    );
    update(
        schema,
        r#"{"keyed":[{"n":"a","v":"xx"},{"n":"b","v":"yy"}]}"#,
        r#"{"keyed":[{"n":"c","v":"z"},{"n":"b","v":"yy"},{"n":"a","v":"new"}]}"#,
        &["keyed[2].v: Too long: may not be more than 1 byte"],
    );
    // Lists that held duplicates before may keep them.
    update(schema, r#"{"keyed":[{"n":"a"},{"n":"a"}]}"#, r#"{"keyed":[{"n":"b"},{"n":"b"}]}"#, &[]);
}

/// As upstream: an unchanged value is let through in a branch too, even if the branch must not hold.
#[test]
fn what_is_let_through_may_fail_a_negation() {
    let schema =
        r#"{"properties":{"o":{"properties":{"a":{},"b":{}},"not":{"properties":{"a":{"enum":["x"]}}}}}}"#;
    check(schema, r#"{"o":{"a":"y","b":2}}"#, &[]);
    update(
        schema,
        r#"{"o":{"a":"y","b":1}}"#,
        r#"{"o":{"a":"y","b":2}}"#,
        &[r#"<nil>: Invalid value: "": "o" must not validate the schema (not)"#],
    );
}

/// Long lists are indexed; which old item stands for a new one is the same.
#[test]
fn items_of_long_lists_find_their_old_ones() {
    let schema = r#"{"properties":{"l":{"type":"array","x-kubernetes-list-type":"map",
        "x-kubernetes-list-map-keys":["n","p"],"items":{"type":"object","properties":{
        "n":{"type":"string"},"p":{"type":"integer","default":7},"v":{"type":"string","maxLength":1}}}}}}"#;
    let list = |items: &[String]| format!(r#"{{"l":[{}]}}"#, items.join(","));
    for count in [3, 100] {
        let item = |i: usize, v: &str| format!(r#"{{"n":"i{i}","p":7,"v":"{v}"}}"#);
        let old: Vec<String> = (0..count).map(|i| item(i, "bad")).collect();
        let mut new = old.clone();
        new.reverse();
        new[0] = item(count - 1, "worse");
        new[1] = r#"{"v":"bad","p":7,"n":"i0"}"#.to_owned();
        new[2] = r#"{"n":"i0","p":8,"v":"bad"}"#.to_owned();
        new.truncate(count.max(4) - 1);
        let too_long = "v: Too long: may not be more than 1 byte";
        update(schema, &list(&old), &list(&new), &[&format!("l[0].{too_long}"), &format!("l[2].{too_long}")]);
    }
}

#[test]
fn a_status_write_is_held_to_the_status_alone() {
    let schema = r#"{"type":"object","properties":{"spec":{"type":"string"},
        "status":{"type":"object","required":["r"],"properties":{"n":{"type":"integer"}}}}}"#;
    let schema = Schema::compile(Some(&parse(schema.as_bytes()).unwrap()), false).unwrap();
    let new = parse(br#"{"spec":5,"status":{"n":"x"}}"#).unwrap();
    let got: Vec<String> =
        schema.validate_status_update(&new, &parse(b"{}").unwrap()).iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        [
            r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#,
            "status.r: Required value"
        ]
    );
}
