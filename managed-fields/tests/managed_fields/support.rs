//! A type, and objects of it.

use kindom_api::names::GroupVersionKind;
use kindom_api::{Value, json};
use kindom_managed_fields::{ConvertError, Scope, Versions};
use kindom_schema::Schema;
use kindom_schema::merge::MergeType;

pub(crate) const T1: &str = "2026-01-01T00:00:00Z";
pub(crate) const T2: &str = "2026-01-02T00:00:00Z";

/// `example.com/v1` and `/v2`, which differ in nothing.
pub(crate) struct Things {
    schema: Schema,
    reset: &'static [&'static str],
}

impl Things {
    pub(crate) fn new() -> Self {
        let schema = r#"{"type":"object","properties":{
            "spec":{"type":"object","properties":{
                "replicas":{"type":"integer"},
                "text":{"type":"string"},
                "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
                "atomic":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
                "labels":{"type":"object","additionalProperties":{"type":"string"}},
                "list":{"type":"array","items":{"type":"string"}},
                "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
                "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],
                    "items":{"type":"object","properties":{"port":{"type":"integer"},
                        "protocol":{"type":"string","default":"TCP"},"name":{"type":"string"}}}}}},
            "status":{"type":"object","properties":{"phase":{"type":"string"}}}}}"#;
        let schema = Schema::compile(Some(&parse(schema)), false).unwrap();
        Self { schema, reset: &[] }
    }

    pub(crate) fn resetting(reset: &'static [&'static str]) -> Self {
        Self { reset, ..Self::new() }
    }
}

impl Versions for Things {
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>> {
        ["example.com/v1", "example.com/v2"].contains(&api_version).then(|| self.schema.merge_type())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if self.merge_type(api_version).is_none() {
            return Err(ConvertError::NoSuchVersion);
        }
        let mut object = object.clone();
        object.as_object_mut().unwrap().insert("apiVersion", api_version);
        Ok(object)
    }

    fn reset_fields(&self, _: &str) -> &[&str] {
        self.reset
    }
}

pub(crate) fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// The object of a spec.
pub(crate) fn thing(spec: &str) -> Value {
    parse(&format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a","namespace":"n"}},"spec":{spec}}}"#
    ))
}

pub(crate) fn gvk() -> GroupVersionKind {
    GroupVersionKind::new("example.com", "v1", "Thing")
}

pub(crate) fn scope<'a>(things: &'a Things, gvk: &'a GroupVersionKind, now: &'a str) -> Scope<'a> {
    Scope { versions: things, gvk, subresource: "", now }
}

/// The managers of an object, each in a line: `name operation subresource fields`, with `@` and the day of its time.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let list = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).unwrap_or_default();
    let text = |entry: &Value, field| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.iter()
        .map(|entry| {
            let day = text(entry, "time");
            let day = day.get(8..10).unwrap_or("-");
            let subresource = text(entry, "subresource");
            let subresource = if subresource.is_empty() { subresource } else { format!("/{subresource}") };
            let fields = entry.get("fieldsV1").unwrap();
            format!("{} {}{subresource} @{day} {fields}", text(entry, "manager"), text(entry, "operation"))
        })
        .collect()
}
