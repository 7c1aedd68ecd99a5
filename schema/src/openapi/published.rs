//! Schemas as they are published: everything with a meaning in a structural schema is kept, defaults of keywords and unknown
//! keywords are not.

use kindom_api::{Map, Value, object};

use super::{Form, GroupVersionDoc, META, Names, TypeDoc, gvk};

const API_VERSION: &str = concat!(
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized ",
    "schemas to the latest internal value, and may reject unrecognized values. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
);
const KIND: &str = concat!(
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the ",
    "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
);
const EMBEDDED_API_VERSION: &str = concat!(
    "apiVersion defines the versioned schema of this representation of an object. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
);
const EMBEDDED_KIND: &str = concat!(
    "kind is a string value representing the type of this object. In CamelCase. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
);
const METADATA: &str = concat!(
    "Standard object's metadata. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
);
const LIST_METADATA: &str = concat!(
    "Standard list metadata. More info: ",
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
);

/// The schema of a registered type's objects.
pub(super) fn object(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>, form: Form) -> Value {
    let closed =
        |schema: &&Map| !doc.preserve_unknown_fields && !says(schema, "x-kubernetes-preserve-unknown-fields");
    let has_fields = |schema: &&Map| form == Form::V3 || closed(schema);
    let mut schema = match doc.schema.and_then(Value::as_object).filter(has_fields) {
        Some(schema) => {
            let mut schema = match form {
                Form::V2 => node_v2(schema),
                Form::V3 => node(schema, true),
            };
            set_property(
                &mut schema,
                "metadata",
                described_reference(&format!("{META}.ObjectMeta"), METADATA, form),
            );
            add_type_meta(&mut schema);
            schema
        }
        // Properties would make kubectl forbid all others.
        None => [("type", Value::from("object"))].into_iter().collect(),
    };
    schema.insert("x-kubernetes-group-version-kind", vec![gvk(gv, doc.kind)]);
    add_selectable_fields(doc, &mut schema);
    schema.into()
}

/// Adds `apiVersion` and `kind`, which every object has.
pub(super) fn add_type_meta(schema: &mut Map) {
    set_property(schema, "apiVersion", text(API_VERSION));
    set_property(schema, "kind", text(KIND));
}

/// The schema of a list of them.
pub(super) fn list(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>, names: &Names, form: Form) -> Value {
    let items = object! {
        "description": format!(
            "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
            doc.plural
        ),
        "type": "array",
        "items": form.reference(&names.schema),
    };
    let properties = object! {
        "apiVersion": text(API_VERSION),
        "items": items,
        "kind": text(KIND),
        "metadata": described_reference(&format!("{META}.ListMeta"), LIST_METADATA, form),
    };
    let schema = object! {
        "description": format!("{} is a list of {}", doc.list_kind, doc.kind),
        "type": "object",
        "required": vec!["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": vec![gvk(gv, doc.list_kind)],
    };
    let Value::Object(mut schema) = schema else { return schema };
    add_selectable_fields(doc, &mut schema);
    schema.into()
}

fn add_selectable_fields(doc: &TypeDoc<'_>, schema: &mut Map) {
    if !doc.selectable_fields.is_empty() {
        let field = |path: &&str| object! { "fieldPath": path.strip_prefix('.').unwrap_or(path) };
        let fields: Vec<Value> = doc.selectable_fields.iter().map(field).collect();
        schema.insert("x-kubernetes-selectable-fields", fields);
    }
}

fn text(description: &str) -> Value {
    object! { "description": description, "type": "string" }
}

fn described_reference(schema: &str, description: &str, form: Form) -> Value {
    let mut reference = form.reference(schema);
    if form == Form::V3 {
        // There it cannot carry a description of its own.
        reference = object! { "allOf": vec![reference] };
    }
    if let Some(reference) = reference.as_object_mut() {
        reference.insert("description", description);
    }
    reference
}

fn set_property(schema: &mut Map, name: &str, property: Value) {
    let properties = schema.entry_or_insert_with("properties", || Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name, property);
    }
}

/// A subschema in v3; `spine` is false below junctors.
fn node(schema: &Map, spine: bool) -> Map {
    let mut out = Map::new();
    for (keyword, value) in schema.iter() {
        if let Some(value) = keyword_value(keyword, value, spine) {
            out.insert(keyword, value);
        }
    }
    if spine && says(schema, "x-kubernetes-int-or-string") {
        unfold(&mut out);
    }
    if spine && says(schema, "x-kubernetes-embedded-resource") {
        embed(&mut out, Form::V3);
    }
    out
}

/// The part of a subschema that v2 can express and that the kubectl of its time understands: no junctors, no null, no
/// defaults, no fields where there may be others (`openapi/v2/conversion.go`, `handler/default_pruning.go` of kube-openapi).
fn node_v2(schema: &Map) -> Map {
    let child = |schema: &Value| schema.as_object().map(node_v2).unwrap_or_default();
    let nullable = |schema: &Value| schema.as_object().is_some_and(|s| says(s, "nullable"));
    let (is_null, is_open) = (says(schema, "nullable"), says(schema, "x-kubernetes-preserve-unknown-fields"));
    let has_fields = !is_null && !is_open;
    let mut out = Map::new();
    for (keyword, value) in schema.iter() {
        let kept = match (keyword, value) {
            ("allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default", _) => None,
            ("items" | "properties", _) if !has_fields => None,
            ("items", value) => value.as_object().map(|items| node_v2(items).into()),
            ("properties", Value::Object(fields)) if !fields.is_empty() => {
                Some(fields.iter().map(|(name, schema)| (name, child(schema))).collect::<Map>().into())
            }
            ("additionalProperties", Value::Object(schema)) => Some(node_v2(schema).into()),
            ("required", Value::Array(names)) => {
                let fields = schema.get("properties").and_then(Value::as_object).filter(|_| has_fields);
                let may_be_null =
                    |name: &Value| name.as_str().and_then(|name| fields?.get(name)).is_some_and(nullable);
                let all_gone = schema.get("additionalProperties").is_some_and(nullable);
                let names: Vec<Value> =
                    names.iter().filter(|n| !all_gone && !may_be_null(n)).cloned().collect();
                (!names.is_empty()).then(|| names.into())
            }
            _ => keyword_value(keyword, value, true),
        };
        if let Some(kept) = kept {
            out.insert(keyword, kept);
        }
    }
    let kind = out.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_list_of_anything = kind == "array" && !out.contains_key("items");
    if is_null || is_list_of_anything || (is_open && kind == "object") {
        out.remove("type");
    }
    if !is_open && says(schema, "x-kubernetes-embedded-resource") {
        embed(&mut out, Form::V2);
    }
    out
}

fn says(schema: &Map, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool) == Some(true)
}

/// Adds the fields that every object has to the schema of one inside of another.
fn embed(schema: &mut Map, form: Form) {
    set_property(schema, "apiVersion", text(EMBEDDED_API_VERSION));
    set_property(schema, "kind", text(EMBEDDED_KIND));
    set_property(schema, "metadata", described_reference(&format!("{META}.ObjectMeta"), METADATA, form));
    let required = schema.entry_or_insert_with("required", || Value::Array(Vec::new().into()));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
    }
}

/// The published value of a keyword; `None` where it has no effect, or is no keyword of a structural schema.
fn keyword_value(keyword: &str, value: &Value, spine: bool) -> Option<Value> {
    match keyword {
        "properties" => {
            let properties = value.as_object().filter(|map| !map.is_empty())?;
            let child = |schema: &Value| {
                Value::Object(schema.as_object().map(|s| node(s, spine)).unwrap_or_default())
            };
            Some(Value::Object(properties.iter().map(|(name, schema)| (name, child(schema))).collect()))
        }
        "items" => Some(node(value.as_object()?, spine).into()),
        "not" => Some(node(value.as_object()?, false).into()),
        // Upstream loses it below junctors.
        "additionalProperties" if spine => match value {
            Value::Object(schema) => Some(node(schema, true).into()),
            Value::Bool(allows) => Some((*allows).into()),
            _ => None,
        },
        "allOf" | "anyOf" | "oneOf" => {
            let branches = value.as_array().filter(|branches| !branches.is_empty())?;
            let branch = |schema: &Value| schema.as_object().map(|s| node(s, false)).unwrap_or_default();
            Some(branches.iter().map(branch).collect::<Vec<Map>>().into())
        }
        "nullable" | "uniqueItems" | "exclusiveMaximum" | "exclusiveMinimum" => {
            (value.as_bool() == Some(true)).then(|| value.clone())
        }
        "x-kubernetes-preserve-unknown-fields"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string" => (value.as_bool() == Some(true)).then(|| value.clone()),
        "type"
        | "description"
        | "title"
        | "format"
        | "pattern"
        | "x-kubernetes-list-type"
        | "x-kubernetes-map-type" => value.as_str().filter(|s| !s.is_empty()).map(Value::from),
        "required" | "enum" | "x-kubernetes-list-map-keys" | "x-kubernetes-validations" => {
            value.as_array().filter(|items| !items.is_empty()).map(|_| value.clone())
        }
        "default" | "example" | "externalDocs" | "maximum" | "minimum" | "multipleOf" | "maxLength"
        | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            (!value.is_null()).then(|| value.clone())
        }
        _ => None,
    }
}

/// Adds the standard keywords of an int-or-string (`schema/unfold.go`), unless it has them already.
fn unfold(schema: &mut Map) {
    let either = || Value::from(vec![object! { "type": "integer" }, object! { "type": "string" }]);
    let first_of_all = schema.get("allOf").and_then(Value::as_array).and_then(<[Value]>::first);
    let already = schema.get("anyOf") == Some(&either())
        || first_of_all.is_some_and(|first| first.get("anyOf") == Some(&either()));
    if already {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf", either());
        return;
    }
    let all = schema.entry_or_insert_with("allOf", || Value::Array(Vec::new().into()));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, object! { "anyOf": either() });
    }
}
