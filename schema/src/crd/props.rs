//! Reading a schema's tree, and printing it as upstream's internal Go types print.
//!
//! The trees are those that `kindom_api::crd::decode_crd` gives: every keyword has its right type, and empty values are
//! absent. `items: null` stands for a value that was neither a schema nor a list of schemas.

use kindom_api::{Map, Value};

/// The value of `items`.
#[derive(Clone, Copy)]
pub(crate) enum Items<'a> {
    Absent,
    /// Present, but neither of the two forms.
    Empty,
    One(&'a Value),
    Many(&'a [Value]),
}

/// The value of `additionalProperties`.
#[derive(Clone, Copy)]
pub(crate) enum OrBool<'a> {
    Allows(bool),
    Schema(&'a Value),
}

pub(crate) fn text<'a>(schema: &'a Value, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn type_of(schema: &Value) -> &str {
    text(schema, "type")
}

pub(crate) fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn has(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).is_some()
}

pub(crate) fn list<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).unwrap_or_default()
}

pub(crate) fn strings<'a>(schema: &'a Value, keyword: &str) -> Vec<&'a str> {
    list(schema, keyword).iter().filter_map(Value::as_str).collect()
}

pub(crate) fn entries<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

pub(crate) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.at(&["properties", name])
}

pub(crate) fn items(schema: &Value) -> Items<'_> {
    match schema.get("items") {
        None => Items::Absent,
        Some(one @ Value::Object(_)) => Items::One(one),
        Some(Value::Array(many)) => Items::Many(many),
        Some(_) => Items::Empty,
    }
}

/// The one schema of all items, if that is what `items` holds.
pub(crate) fn item(schema: &Value) -> Option<&Value> {
    if let Items::One(item) = items(schema) { Some(item) } else { None }
}

pub(crate) fn additional_properties(schema: &Value) -> Option<OrBool<'_>> {
    schema.get("additionalProperties").map(|value| match value.as_bool() {
        Some(allows) => OrBool::Allows(allows),
        None => OrBool::Schema(value),
    })
}

/// `x-kubernetes-list-type` and its like, which are there or not, and may be empty.
pub(crate) fn optional_text<'a>(schema: &'a Value, keyword: &str) -> Option<&'a str> {
    schema.get(keyword).and_then(Value::as_str)
}

/// Returns true if the predicate holds for this schema or any schema in it.
pub(crate) fn any_schema(schema: &Value, holds: &mut dyn FnMut(&Value) -> bool) -> bool {
    if holds(schema) {
        return true;
    }
    match items(schema) {
        Items::One(item) if any_schema(item, holds) => return true,
        Items::Many(many) if many.iter().any(|item| any_schema(item, holds)) => return true,
        _ => {}
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if list(schema, keyword).iter().any(|s| any_schema(s, holds)) {
            return true;
        }
    }
    for keyword in ["not", "additionalProperties", "additionalItems"] {
        if schema.get(keyword).filter(|s| s.as_object().is_some()).is_some_and(|s| any_schema(s, holds)) {
            return true;
        }
    }
    ["properties", "patternProperties", "definitions", "dependencies"].into_iter().any(|keyword| {
        entries(schema, keyword).filter(|(_, s)| s.as_object().is_some()).any(|(_, s)| any_schema(s, holds))
    })
}

/// A Go value as `encoding/json` prints it.
#[derive(Clone, Copy)]
enum Go {
    /// A string, bool or pointer whose zero value prints as given.
    Plain(&'static str),
    /// A pointer or list of plain values; nil prints null.
    Nil,
    Schema,
    Schemas,
    NamedSchemas,
    SchemaOrArray,
    SchemaOrBool,
    Dependencies,
    Docs,
    Rules,
}

const STRING: Go = Go::Plain("\"\"");
const BOOL: Go = Go::Plain("false");

/// The fields of upstream's internal `JSONSchemaProps`, in its order: Go's name, the keyword, how it prints.
const FIELDS: &[(&str, &str, Go)] = &[
    ("ID", "id", STRING),
    ("Schema", "$schema", STRING),
    ("Ref", "$ref", Go::Nil),
    ("Description", "description", STRING),
    ("Type", "type", STRING),
    ("Nullable", "nullable", BOOL),
    ("Format", "format", STRING),
    ("Title", "title", STRING),
    ("Default", "default", Go::Nil),
    ("Maximum", "maximum", Go::Nil),
    ("ExclusiveMaximum", "exclusiveMaximum", BOOL),
    ("Minimum", "minimum", Go::Nil),
    ("ExclusiveMinimum", "exclusiveMinimum", BOOL),
    ("MaxLength", "maxLength", Go::Nil),
    ("MinLength", "minLength", Go::Nil),
    ("Pattern", "pattern", STRING),
    ("MaxItems", "maxItems", Go::Nil),
    ("MinItems", "minItems", Go::Nil),
    ("UniqueItems", "uniqueItems", BOOL),
    ("MultipleOf", "multipleOf", Go::Nil),
    ("Enum", "enum", Go::Nil),
    ("MaxProperties", "maxProperties", Go::Nil),
    ("MinProperties", "minProperties", Go::Nil),
    ("Required", "required", Go::Nil),
    ("Items", "items", Go::SchemaOrArray),
    ("AllOf", "allOf", Go::Schemas),
    ("OneOf", "oneOf", Go::Schemas),
    ("AnyOf", "anyOf", Go::Schemas),
    ("Not", "not", Go::Schema),
    ("Properties", "properties", Go::NamedSchemas),
    ("AdditionalProperties", "additionalProperties", Go::SchemaOrBool),
    ("PatternProperties", "patternProperties", Go::NamedSchemas),
    ("Dependencies", "dependencies", Go::Dependencies),
    ("AdditionalItems", "additionalItems", Go::SchemaOrBool),
    ("Definitions", "definitions", Go::NamedSchemas),
    ("ExternalDocs", "externalDocs", Go::Docs),
    ("Example", "example", Go::Nil),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Go::Nil),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", BOOL),
    ("XIntOrString", "x-kubernetes-int-or-string", BOOL),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Go::Nil),
    ("XListType", "x-kubernetes-list-type", Go::Nil),
    ("XMapType", "x-kubernetes-map-type", Go::Nil),
    ("XValidations", "x-kubernetes-validations", Go::Rules),
];

const RULE_FIELDS: &[(&str, &str, Go)] = &[
    ("Rule", "rule", STRING),
    ("Message", "message", STRING),
    ("MessageExpression", "messageExpression", STRING),
    ("Reason", "reason", Go::Nil),
    ("FieldPath", "fieldPath", STRING),
    ("OptionalOldSelf", "optionalOldSelf", Go::Nil),
];

const DOCS_FIELDS: &[(&str, &str, Go)] = &[("Description", "description", STRING), ("URL", "url", STRING)];

/// The keywords that are set, by their Go names and in the order of the Go struct.
pub(crate) fn go_fields(schema: &Value) -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(|(_, keyword, _)| has(schema, keyword)).map(|(go, _, _)| *go)
}

/// A schema as JSON of the internal Go type, which has no JSON names: `{"ID":"","Schema":"",…}`.
pub(crate) fn go_schema(schema: &Value) -> String {
    go_struct(schema, FIELDS)
}

/// A rule of `x-kubernetes-validations` likewise.
pub(crate) fn go_rule(rule: &Value) -> String {
    go_struct(rule, RULE_FIELDS)
}

/// JSON as Go prints it: with `<`, `>`, `&` and the two line separators escaped.
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// `items` as JSON of the internal Go type.
pub(crate) fn go_items(items: Items<'_>) -> String {
    let (one, many) = match items {
        Items::Absent => return "null".to_owned(),
        Items::Empty => ("null".to_owned(), "null".to_owned()),
        Items::One(schema) => (go_schema(schema), "null".to_owned()),
        Items::Many(schemas) => ("null".to_owned(), go_list(schemas, go_schema)),
    };
    format!("{{\"Schema\":{one},\"JSONSchemas\":{many}}}")
}

fn go_struct(value: &Value, fields: &[(&str, &str, Go)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, keyword, how)| format!("\"{name}\":{}", go_field(value, keyword, *how)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn go_field(schema: &Value, keyword: &str, how: Go) -> String {
    let Some(value) = schema.get(keyword) else {
        return if let Go::Plain(zero) = how { zero } else { "null" }.to_owned();
    };
    match how {
        Go::Plain(_) | Go::Nil => go_json(value),
        Go::Schema => go_schema(value),
        Go::Schemas => go_list(list(schema, keyword), go_schema),
        Go::NamedSchemas => go_map(value, go_schema),
        Go::SchemaOrArray => go_items(items(schema)),
        Go::SchemaOrBool => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", go_schema(value)),
        },
        Go::Dependencies => go_map(value, |value| match value {
            Value::Object(_) => format!("{{\"Schema\":{},\"Property\":null}}", go_schema(value)),
            _ => format!("{{\"Schema\":null,\"Property\":{}}}", go_json(value)),
        }),
        Go::Docs => go_struct(value, DOCS_FIELDS),
        Go::Rules => go_list(list(schema, keyword), |rule| go_struct(rule, RULE_FIELDS)),
    }
}

fn go_list(items: &[Value], print: impl Fn(&Value) -> String) -> String {
    format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(","))
}

fn go_map(map: &Value, print: impl Fn(&Value) -> String) -> String {
    let entries = map.as_object().into_iter().flat_map(Map::iter);
    let entries = entries.map(|(key, value)| format!("{}:{}", go_json(&key.into()), print(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}
