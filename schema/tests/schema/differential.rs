//! Our validator against the `jsonschema` crate's, over random schemas and objects: on everything that both understand they
//! must agree. [`explained`] lists the differences between Kubernetes and JSON Schema.

use std::collections::BTreeMap;

use kindom_api::{Map, Value, json};
use kindom_schema::Schema;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The number of schemas, each with [`OBJECTS`] objects.
const SCHEMAS: (usize, usize) = (1_500, 40_000);
const OBJECTS: usize = 8;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        4 => (-3_i64..6).prop_map(Value::Int),
        2 => prop::sample::select(&[0.5, 1.0, 2.5, -1.5, 4.0][..]).prop_map(Value::Float),
        4 => prop::sample::select(&["", "a", "ab", "abc", "é", "éa1", "1"][..]).prop_map(Value::from),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    scalar()
        .prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name(), inner), 0..4)
                    .prop_map(|f| Value::Object(f.into_iter().collect())),
            ]
        })
        .boxed()
}

/// The bounds of a schema on numbers, strings, lists and maps, of its own type or not.
fn bounds() -> BoxedStrategy<Map> {
    let count = || (0_i64..4).prop_map(Value::Int);
    let number = || prop_oneof![12 => (-2_i64..5).prop_map(Value::Int), 1 => Just(Value::Float(1.5))];
    let pair = |key: &'static str| move |value: Value| (key.to_owned(), value);
    let flag = |key: &'static str| any::<bool>().prop_map(move |on| (key.to_owned(), Value::Bool(on)));
    let keyword = prop_oneof![
        number().prop_map(pair("minimum")),
        number().prop_map(pair("maximum")),
        flag("exclusiveMinimum"),
        flag("exclusiveMaximum"),
        (1_i64..4).prop_map(|n| ("multipleOf".to_owned(), Value::Int(n))),
        count().prop_map(pair("minLength")),
        count().prop_map(pair("maxLength")),
        prop::sample::select(&["^a", "b$", "[0-9]", "^.{2}$", "^(a|é)"][..])
            .prop_map(|text| ("pattern".to_owned(), Value::from(text))),
        count().prop_map(pair("minItems")),
        count().prop_map(pair("maxItems")),
        count().prop_map(pair("minProperties")),
        count().prop_map(pair("maxProperties")),
        flag("uniqueItems"),
        prop::sample::subsequence(&NAMES[..], 1..3).prop_map(|names| (
            "required".to_owned(),
            Value::Array(names.into_iter().map(Value::from).collect())
        )),
        prop::collection::vec(scalar(), 1..4).prop_map(|mut all| {
            // Draft 4 wants them unique, and takes 1 and 1.0 for the same.
            all.retain(|choice| !matches!(choice, Value::Float(x) if x.fract() == 0.0));
            all.sort_by_key(Value::to_string);
            all.dedup();
            ("enum".to_owned(), Value::from(if all.is_empty() { vec!["a".into()] } else { all }))
        }),
        flag("nullable"),
    ];
    prop::collection::vec(keyword, 0..3).prop_map(|all| all.into_iter().collect()).boxed()
}

fn schema() -> BoxedStrategy<Value> {
    let typed = || prop::option::weighted(0.85, prop::sample::select(&TYPES[..]));
    let leaf = (typed(), bounds(), prop::bool::weighted(0.05)).prop_map(|(kind, mut map, either)| {
        match kind {
            _ if either => drop(map.insert("x-kubernetes-int-or-string", true)),
            Some(kind) => drop(map.insert("type", kind)),
            None => {}
        }
        Value::Object(map)
    });
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()));
        let extra = prop_oneof![any::<bool>().prop_map(Value::Bool), inner.clone()];
        let branches = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from);
        let junctor = (prop::sample::select(&["allOf", "anyOf", "oneOf"][..]), branches);
        (
            bounds(),
            prop_oneof![
                4 => (fields, prop::option::weighted(0.3, extra)).prop_map(|(fields, extra)| {
                    let mut map: Map = [("type", Value::from("object")), ("properties", fields)].into_iter().collect();
                    if let Some(extra) = extra {
                        map.insert("additionalProperties", extra);
                    }
                    map
                }),
                3 => inner.clone().prop_map(|items| {
                    [("type", Value::from("array")), ("items", items)].into_iter().collect()
                }),
                2 => junctor.prop_map(|(key, branches)| [(key, branches)].into_iter().collect::<Map>()),
                1 => inner.prop_map(|not| [("not", not)].into_iter().collect()),
            ],
        )
            .prop_map(|(mut map, own)| {
                for (key, value) in own {
                    map.insert(key, value);
                }
                Value::Object(map)
            })
    })
    .boxed()
}

/// The same in the words of JSON Schema, draft 4, whose exclusive bounds are flags as OpenAPI's are.
fn translated(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let is = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
    let mut out = Map::new();
    let mut types: Vec<Value> = map.get("type").into_iter().cloned().collect();
    if is("x-kubernetes-int-or-string") {
        types = vec!["integer".into(), "string".into()];
    }
    if is("nullable") && !types.is_empty() {
        types.push("null".into());
    }
    if !types.is_empty() {
        out.insert("type", types);
    }
    for (key, value) in map.iter() {
        let value = match key {
            "type" | "nullable" | "x-kubernetes-int-or-string" => continue,
            // Draft 4 knows them beside their bound only.
            "exclusiveMinimum" if !map.contains_key("minimum") => continue,
            "exclusiveMaximum" if !map.contains_key("maximum") => continue,
            "properties" => {
                let fields = value.as_object().unwrap();
                Value::Object(fields.iter().map(|(k, v)| (k.to_owned(), translated(v))).collect())
            }
            "items" | "additionalProperties" | "not" => translated(value),
            "allOf" | "anyOf" | "oneOf" => {
                Value::Array(value.as_array().unwrap().iter().map(translated).collect())
            }
            _ => value.clone(),
        };
        out.insert(key, value);
    }
    Value::Object(out)
}

fn plain(value: &Value) -> serde_json::Value {
    serde_json::from_slice(&value.to_vec()).unwrap()
}

/// The reason why Kubernetes may judge an object otherwise than JSON Schema does; the list of docs/conformance.md.
fn explained(schema: &Value, object: &Value) -> Option<&'static str> {
    let any = |holds: &dyn Fn(&Value) -> bool| anywhere(object, holds);
    if any(&Value::is_null) {
        // `SchemaValidator.Validate` looks at nothing of a null but its type and the enum.
        return Some("null: only type and enum are looked at");
    }
    let fraction = |number: &Value| number.as_f64().is_some_and(|x| x.fract() != 0.0);
    if anywhere(schema, &|part| ["minimum", "maximum"].iter().any(|key| part.get(key).is_some_and(fraction)))
    {
        // `MinimumNativeType`, `IsValueValidAgainstRange`
        return Some("a bound with a fraction: integers are compared with what is before the point");
    }
    let chosen = anywhere(schema, &|part| part.get("enum").is_some());
    if chosen && any(&|part| fraction(part)) {
        // `EnumCase` converts the value to the choice's type.
        return Some("enum: a fraction is cut off where the choice is an integer");
    }
    let unique = anywhere(schema, &|part| part.get("uniqueItems") == Some(&Value::Bool(true)));
    (unique && any(&|part| matches!(part, Value::Float(_)))).then_some("uniqueItems: 1 and 1.0 differ in Go")
}

fn anywhere(value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    holds(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| anywhere(item, holds)),
            Value::Object(map) => map.iter().any(|(_, value)| anywhere(value, holds)),
            _ => false,
        }
}

#[test]
fn both_validators_judge_alike() {
    let full = std::env::var_os("KINDOM_TEST_FULL").is_some();
    let schemas = if full { SCHEMAS.1 } else { SCHEMAS.0 };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (schemas_made, values) = (schema(), value());
    let (mut valid, mut invalid) = (0_usize, 0_usize);
    let mut unexplained = Vec::new();
    let mut differences: BTreeMap<&'static str, usize> = BTreeMap::new();
    for _ in 0..schemas {
        let tree = schemas_made.new_tree(&mut runner).unwrap().current();
        let ours = Schema::compile(Some(&tree), false).unwrap();
        let theirs = jsonschema::draft4::new(&plain(&translated(&tree))).unwrap();
        for _ in 0..OBJECTS {
            let object = values.new_tree(&mut runner).unwrap().current();
            let errors = ours.validate(&object);
            let agreed = theirs.is_valid(&plain(&object));
            if errors.is_empty() == agreed {
                valid += usize::from(agreed);
                invalid += usize::from(!agreed);
            } else if let Some(why) = explained(&tree, &object) {
                *differences.entry(why).or_default() += 1;
            } else {
                unexplained.push(format!("{tree}\n{object}\nours: {errors:?}\njsonschema: {agreed}"));
            }
        }
    }
    println!(
        "{schemas} schemas, {OBJECTS} objects each: both valid {valid}, both invalid {invalid}, explained {differences:?}"
    );
    assert!(unexplained.is_empty(), "{}", unexplained.get(..unexplained.len().min(5)).unwrap().join("\n\n"));
    // Else this compares little.
    let all = schemas * OBJECTS;
    assert!(valid > all / 10 && invalid > all / 10, "valid {valid}, invalid {invalid} of {all}");
    let explained: usize = differences.values().sum();
    assert!(explained < all / 20, "{differences:?}");
}

#[test]
fn what_is_explained_is_so() {
    let check = |schema: &str, object: &str, ours: bool| {
        let (schema, object) =
            (json::parse(schema.as_bytes()).unwrap(), json::parse(object.as_bytes()).unwrap());
        let valid = Schema::compile(Some(&schema), false).unwrap().validate(&object).is_empty();
        assert_eq!(valid, ours, "{schema} {object}");
        assert_eq!(jsonschema::draft4::is_valid(&plain(&translated(&schema)), &plain(&object)), !ours);
        assert!(explained(&schema, &object).is_some());
    };
    check(r#"{"allOf":[{"type":"string"}]}"#, "null", true);
    check(r#"{"minimum":1.5}"#, "1", true);
    check(r#"{"type":"integer","minimum":1.5}"#, "2", false);
    check(r#"{"enum":["a",2]}"#, "2.5", true);
    check(r#"{"uniqueItems":true}"#, "[1,1.0]", true);
}
