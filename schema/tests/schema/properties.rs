//! Properties that hold for any schema and any object.

use kindom_api::crd::ColumnDefinition;
use kindom_api::{Map, Value};
use kindom_schema::Schema;
use kindom_schema::columns::Columns;
use kindom_schema::crd::coerce_defaults;
use proptest::prelude::*;

const NAMES: [&str; 11] =
    ["a", "b", "c", "metadata", "spec", "x.y", "apiVersion", "kind", "name", "labels", "generation"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..100).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("JSON has no others", |x| x.is_finite()).prop_map(Value::Float),
        "[a-c0-9.:é]{0,6}".prop_map(Value::String),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// One keyword with a value of its shape; subschemas come from `inner`.
fn keyword(inner: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let texts = |all: &'static [&'static str]| prop::sample::select(all).prop_map(Value::from);
    let keyed = |key: &'static str| move |value: Value| (key.to_owned(), value);
    let bound = || prop_oneof![(-2_i64..5).prop_map(Value::Int), (-2.5..5.5).prop_map(Value::Float)];
    let branches = || prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
    let names = || prop::collection::vec(name().prop_map(Value::String), 0..3).prop_map(Value::from);
    prop_oneof![
        4 => texts(&["object", "array", "string", "integer", "number", "boolean"]).prop_map(keyed("type")),
        4 => prop::collection::vec((name(), inner.clone()), 0..4)
            .prop_map(|fields| ("properties".to_owned(), Value::Object(fields.into_iter().collect()))),
        2 => inner.clone().prop_map(keyed("items")),
        2 => prop_oneof![inner.clone(), any::<bool>().prop_map(Value::Bool)].prop_map(keyed("additionalProperties")),
        2 => value().prop_map(keyed("default")),
        1 => any::<bool>().prop_map(Value::Bool).prop_map(keyed("nullable")),
        1 => any::<bool>().prop_map(Value::Bool).prop_map(keyed("x-kubernetes-preserve-unknown-fields")),
        1 => any::<bool>().prop_map(Value::Bool).prop_map(keyed("x-kubernetes-embedded-resource")),
        1 => any::<bool>().prop_map(Value::Bool).prop_map(keyed("x-kubernetes-int-or-string")),
        1 => texts(&["atomic", "set", "map"]).prop_map(keyed("x-kubernetes-list-type")),
        1 => names().prop_map(keyed("x-kubernetes-list-map-keys")),
        1 => names().prop_map(keyed("required")),
        1 => prop::collection::vec(value(), 0..3).prop_map(Value::from).prop_map(keyed("enum")),
        1 => texts(&["date-time", "int32", "uri", "email", "duration", "cidr", "uuid", "byte", "hostname", "ipv6", "mac"])
            .prop_map(keyed("format")),
        1 => texts(&["^a", "[", r"\d+$", "(?i)B", "x{2,1}", ""]).prop_map(keyed("pattern")),
        1 => (prop::sample::select(&["maximum", "minimum", "multipleOf"][..]), bound()).prop_map(|(k, v)| (k.to_owned(), v)),
        1 => (
            prop::sample::select(&["maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"][..]),
            -1_i64..4
        ).prop_map(|(k, n)| (k.to_owned(), Value::Int(n))),
        1 => (prop::sample::select(&["allOf", "anyOf", "oneOf"][..]), branches()).prop_map(|(k, v)| (k.to_owned(), v)),
        1 => inner.clone().prop_map(keyed("not")),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    Just(Value::Object(Map::new())).prop_recursive(4, 40, 5, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..7)
            .prop_map(|keywords| Value::Object(keywords.into_iter().collect()))
    })
}

proptest! {
    #[test]
    fn pruning_is_idempotent_and_names_what_it_drops(schema in schema(), object in value()) {
        let schema = Schema::compile(Some(&schema), false).unwrap();
        let (mut once, mut named) = (object.clone(), object.clone());
        let mut unknown = Vec::new();
        schema.prune(&mut once, None);
        schema.prune(&mut named, Some(&mut unknown));
        prop_assert_eq!(&once, &named);
        prop_assert!(unknown.is_sorted());
        prop_assert!(!unknown.is_empty() || once == object || has_meta_at_the_root(&object));
        let mut twice = once.clone();
        schema.prune(&mut twice, None);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_is_idempotent(schema in schema(), object in value()) {
        let schema = Schema::compile(Some(&schema), false).unwrap();
        let mut once = object;
        // Nulls in a default are dropped by the next round, as upstream does.
        schema.default(&mut once).unwrap();
        schema.default(&mut once).unwrap();
        let mut again = once.clone();
        schema.default(&mut again).unwrap();
        prop_assert_eq!(once, again);
    }

    /// Upstream's order for a client's object, and for one from its store.
    #[test]
    fn what_was_written_survives_every_reading(schema in schema(), object in value()) {
        let schema = Schema::compile(Some(&schema), false).unwrap();
        let mut written = object.clone();
        // An object that upstream's decoder refuses is not written.
        prop_assume!(schema.reshape(&mut written, None).is_ok());
        let mut again = written.clone();
        prop_assert!(schema.reshape(&mut again, None).is_ok());
        prop_assert_eq!(&again, &written, "reshaping twice differs");
        let mut unknown = Vec::new();
        prop_assert!(schema.reshape(&mut again, Some(&mut unknown)).is_ok());
        prop_assert!(unknown.is_empty(), "what was reshaped has unknown fields: {:?}", unknown);

        let mut read = object;
        schema.refresh(&mut read).unwrap();
        for _ in 0..2 {
            let before = read.clone();
            schema.refresh(&mut read).unwrap();
            prop_assert_eq!(&read, &before, "reading twice differs");
        }
        schema.fill_defaults(&mut written).unwrap();
        schema.refresh(&mut written).unwrap();
        prop_assert_eq!(&written, &read, "what is sent is not what is read");
    }

    #[test]
    fn defaults_are_coerced_once(schema in schema()) {
        let registration = |schema| kindom_api::object! { "spec": kindom_api::object! { "versions": vec![
            kindom_api::object! { "schema": kindom_api::object! { "openAPIV3Schema": schema } }
        ] } };
        let mut once = registration(schema);
        coerce_defaults(&mut once);
        let mut twice = once.clone();
        coerce_defaults(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn validation_ends_and_an_unchanged_object_stays_as_valid(schema in schema(), object in value(), old in value()) {
        let schema = Schema::compile(Some(&schema), false).unwrap();
        let created = schema.validate(&object);
        let updated = schema.validate_update(&object, &old);
        let unchanged = schema.validate_update(&object, &object);
        let status = schema.validate_status_update(&object, &old);
        for error in created.iter().chain(&updated).chain(&status) {
            let _ = error.to_string();
        }
        // Embedded resources, and the note on rules, aside, an update never finds what a create does not.
        prop_assert!(unchanged.len() <= created.len());
    }

    #[test]
    fn columns_never_panic(path in r#"[.\[\]@?()='"a-c0-9:*, ${}\\<>!-]{0,16}"#, object in value()) {
        let column = ColumnDefinition { name: "C".into(), kind: "string".into(), json_path: path, ..Default::default() };
        let columns = Columns::compile(&[column]);
        prop_assert_eq!(columns.cells(&object, 0).len(), columns.definitions().len());
    }

    #[test]
    fn patterns_that_are_accepted_match_or_not(pattern in r"[a-c\[\]()|*+?{}0-9,\\dwsbpQEx^$.:<>=!-]{0,16}", text in ".{0,8}") {
        let schema = [("pattern", Value::from(pattern.clone()))].into_iter().collect::<Map>();
        let schema = Schema::compile(Some(&schema.into()), false).unwrap();
        let errors = schema.validate(&Value::from(text));
        if kindom_formats::pattern::check(&pattern).is_ok() {
            prop_assert!(errors.iter().all(|e| !e.detail.contains("pattern is invalid")), "{:?}", errors);
        }
    }
}

fn has_meta_at_the_root(object: &Value) -> bool {
    object.get("metadata").is_some()
}
