//! The registered types and stored objects: a type like those of real projects, objects of 1 KB, schemas of 8 KB.

use serde_json::{Map, Value, json};

pub(crate) const GROUP: &str = "bench.kindom.dev";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The path of a type's objects in namespace `default`.
pub(crate) fn collection(plural: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/{plural}")
}

/// A registration. `singular` is lower case.
fn registration(singular: &str, spec_properties: Value) -> Value {
    let plural = format!("{singular}s");
    let mut kind = singular.to_owned();
    if let Some(first) = kind.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": {"type": "object", "properties": spec_properties, "required": ["image"]},
                    "status": {"type": "object", "properties": {
                        "phase": {"type": "string"},
                        "observedGeneration": {"type": "integer"},
                    }},
                },
            }}}],
        },
    })
}

fn widget_spec() -> Value {
    json!({
        "image": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9./:-]+$"},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 1},
        "policy": {"type": "string", "enum": ["Always", "Never", "OnFailure"], "default": "Always"},
        "paused": {"type": "boolean"},
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {"type": "array", "maxItems": 20, "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                "protocol": {"type": "string", "default": "TCP"},
            },
            "required": ["port"],
        }},
        "args": {"type": "array", "items": {"type": "string"}},
        "notes": {"type": "string"},
    })
}

/// The registration of `widgets`, whose objects are measured.
pub(crate) fn widgets() -> Value {
    registration("widget", widget_spec())
}

/// An object of `widgets`; stored and served it has 1 KB.
pub(crate) fn widget(name: &str, replicas: usize) -> Value {
    let text = |length: usize| "lorem ipsum dolor sit amet ".chars().cycle().take(length).collect::<String>();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Widget",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "load", "tier": "backend"},
            "annotations": {"example.com/owner": "team-a", "example.com/note": text(80)},
        },
        "spec": {
            "image": "registry.example.com/team/app:1.2.3",
            "replicas": replicas,
            "policy": "OnFailure",
            "paused": false,
            "nodeSelector": {"kubernetes.io/arch": "amd64", "disk": "ssd"},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9090}],
            "args": ["--listen=:8080", "--metrics=:9090", "--log-level=info"],
            "notes": text(230),
        },
    })
}

/// The part of an object of `widgets` that one of its managers applies: all fields but those that others set.
pub(crate) fn configuration(name: &str, round: usize) -> Value {
    let mut object = widget(name, 0);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
        spec.remove("paused");
        spec.insert("image".to_owned(), format!("registry.example.com/team/app:1.2.{round}").into());
    }
    object
}

/// The singular of the n-th of many types.
pub(crate) fn singular(n: usize) -> String {
    format!("part{n}x")
}

/// The registration of the n-th of many types; its schema has 8 KB.
pub(crate) fn part(n: usize) -> Value {
    const SCHEMA_BYTES: usize = 8 << 10;
    let mut properties = Map::new();
    let mut size = 300;
    while size < SCHEMA_BYTES {
        let Value::Object(mut nested) = widget_spec() else { break };
        for property in nested.values_mut().filter_map(Value::as_object_mut) {
            property.insert("description".into(), "What a user would read here about this field.".into());
        }
        let section = json!({"type": "object", "properties": nested});
        size += section.to_string().len() + 16;
        properties.insert(format!("section{}", properties.len()), section);
    }
    properties.insert("image".into(), json!({"type": "string"}));
    registration(&singular(n), Value::Object(properties))
}

/// The registration of a type each of whose strings is compared with so many patterns.
pub(crate) fn costly(singular: &str, patterns: usize) -> Value {
    let pattern = |pattern: String| json!({"pattern": pattern});
    let mut any: Vec<Value> = (0..patterns).map(|n| pattern(format!("^no{n}x*$|^no[a-f]+{n}$"))).collect();
    any.push(pattern("^arg".to_owned()));
    let items = json!({"type": "string", "anyOf": any});
    registration(singular, json!({"image": {"type": "string"}, "args": {"type": "array", "items": items}}))
}

/// An object of it, with a hundred strings.
pub(crate) fn costly_object(singular: &str, name: &str) -> Value {
    let args: Vec<String> = (0..100).map(|n| format!("argument {n}")).collect();
    let mut kind = singular.to_owned();
    if let Some(first) = kind.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"image": "registry.example.com/team/app:1.2.3", "args": args},
    })
}

/// The collection of the objects of the example's typed kind.
pub(crate) const SLOOPS: &str = "/apis/sails.example.com/v1beta1/namespaces/default/sloops";

/// An object of the typed kind; stored it has 1 KB.
pub(crate) fn sloop(name: &str) -> Value {
    boat("Sloop", name, json!({}), json!({}))
}

/// An object of `rafts`, of the same content as a sloop that is stored.
pub(crate) fn raft(name: &str) -> Value {
    boat(
        "Raft",
        name,
        json!({"finalizers": ["sails.example.com/berth"]}),
        json!({"keeper": "kubernetes-admin"}),
    )
}

/// With more metadata, and more of a spec.
fn boat(kind: &str, name: &str, mut metadata: Value, mut spec: Value) -> Value {
    let sails: Vec<String> = (0..20).map(|n| format!("sail-{n:02}")).collect();
    let more = json!({
        "name": name,
        "labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "load", "tier": "backend"},
        "annotations": {"example.com/owner": "team-a", "example.com/note": "lorem ipsum dolor sit amet, consectetur"},
    });
    for (all, more) in [(&mut metadata, more), (&mut spec, json!({"hull": "oak", "crew": 3, "sails": sails}))]
    {
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
    }
    json!({"apiVersion": "sails.example.com/v1beta1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// The registration of `rafts`, which are as sloops are, without the program's rules. `sloops` is the program's.
pub(crate) fn rafts(sloops: &Value) -> Value {
    let versions = sloops.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<&Value> =
        versions.filter(|version| version.get("name").and_then(Value::as_str) == Some("v1beta1")).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rafts.sails.example.com"},
        "spec": {
            "group": "sails.example.com",
            "scope": "Namespaced",
            "names": {"plural": "rafts", "singular": "raft", "kind": "Raft", "listKind": "RaftList"},
            "versions": versions,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_they_are_called() {
        let schema = part(7).pointer("/spec/versions/0/schema").unwrap().to_string().len();
        assert!((8 << 10..10 << 10).contains(&schema), "{schema}");
        // uid, timestamps, generation and resourceVersion come on top.
        let object = widget("widget-000001", 3).to_string().len();
        assert!((850..950).contains(&object), "{object}");
    }
}
