//! Each declaration against upstream: its protobuf, its published schema, and the merging of its values.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kindom_api::{Map, Value, json};
use kindom_codec::protobuf::{self, decode_telling, encode_as};
use kindom_objects::kinds::service::ServiceNetwork;
use kindom_objects::kinds::{Profile, built_in, event, namespace, token_request};
use kindom_objects::{Declared, StoredObject, TypeSpec};
use kindom_schema::openapi::{Document, Format, GroupVersionDoc, TypeDoc};
use kindom_storage_model::Revision;

use crate::comparison::Comparison;

fn read(path: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations").join(path);
    json::parse(&std::fs::read(file).unwrap()).unwrap()
}

/// All kinds that are declared in one place, with their types.
fn declared() -> Vec<(Arc<TypeSpec>, &'static Declared)> {
    let mut types = built_in(Profile::Kubernetes, &ServiceNetwork::default());
    let events = types.iter().find(|spec| spec.names.plural == "events").unwrap();
    types.extend([event::later_events(events), namespace::namespaces(), token_request::token_requests()]);
    let mut declared = Vec::new();
    for spec in types {
        let versions: Vec<_> = spec.versions.iter().map(|version| version.declared.unwrap()).collect();
        let spec = Arc::new(spec);
        declared.extend(versions.into_iter().map(|version| (Arc::clone(&spec), version)));
    }
    assert!(declared.len() >= 2);
    declared
}

#[test]
fn protobuf_is_that_of_upstreams_go_types_to_the_byte() {
    let recorded = read("protobuf/samples.json");
    let samples = recorded.get("samples").and_then(Value::as_array).unwrap();
    let mut left: BTreeSet<String> = samples
        .iter()
        .map(|sample| (sample.at(&["apiVersion"]), sample.at(&["kind"])))
        .map(|(version, kind)| (version.unwrap().as_str().unwrap(), kind.unwrap().as_str().unwrap()))
        .filter(|(version, kind)| protobuf::message(version, kind).is_none())
        .map(|(version, kind)| format!("{version} {kind}"))
        .collect();
    for (_, declared) in declared() {
        let ours = |sample: &&Value| declared.message_of(sample.get("json").unwrap()).is_some();
        let (mut count, declaration) = (0, declared.declaration());
        for sample in samples.iter().filter(ours) {
            let text = |field: &str| sample.get(field).and_then(Value::as_str).unwrap();
            let json = sample.get("json").unwrap();
            let bytes = BASE64.decode(text("protobuf")).unwrap();
            let message = declared.message_of(json).unwrap();
            assert!(encode_as(json, message) == bytes, "{json}");
            let (read, unlisted) = decode_telling(&bytes, message).unwrap();
            assert_eq!(unlisted, [""; 0]);
            assert_eq!(encode_as(&read, message), bytes);
            if text("kind") == declaration.kind {
                // The zero values that Go's encoder does not leave out are the decoder's.
                assert_eq!(declaration.shape.decode(&read).unwrap().value.to_string(), json.to_string());
                count += 1;
            }
            left.remove(&format!("{} {}", text("apiVersion"), text("kind")));
        }
        assert!(count >= 16, "{} samples of {}", count, declaration.kind);
    }
    assert!(left.is_empty(), "nobody compares {left:?}");
}

/// What kube-apiserver stored is read, in protobuf as in JSON.
#[test]
fn what_another_server_stored_is_read() {
    let recorded = read("protobuf/samples.json");
    let samples = recorded.get("samples").and_then(Value::as_array).unwrap();
    for (spec, declared) in declared().into_iter().filter(|(spec, _)| !spec.strategy.answers_creates()) {
        let is_ours = |sample: &&Value| {
            sample.get("kind").and_then(Value::as_str) == Some(declared.declaration().kind)
                && sample.get("apiVersion").and_then(Value::as_str)
                    == Some(declared.declaration().api_version)
        };
        for sample in samples.iter().filter(is_ours) {
            let json = sample.get("json").unwrap();
            let bytes = BASE64.decode(sample.get("protobuf").and_then(Value::as_str).unwrap()).unwrap();
            let mut wanted = json.clone();
            spec.strategy.fill_defaults(&mut wanted);
            for stored in [bytes, json.to_vec()] {
                let translate = |bytes: &[u8]| spec.strategy.translate(bytes);
                let object = StoredObject::read("a", Ok(stored.into()), Revision(7), translate);
                assert_eq!(object.corrupt(), None, "{json}");
                // Another face's are read as that which is stored.
                let is_stored = spec.storage().unwrap().name == declared.version();
                if is_stored && spec.shows_what_is_stored() {
                    assert_eq!(String::from_utf8_lossy(object.json()), wanted.to_string());
                }
            }
        }
        for damaged in
            [&b"k8s\0\x12\x03\x0a\x09x"[..], b"{", b"[]", br#"{"apiVersion":"v1","kind":"Nothing"}"#]
        {
            let translate = |bytes: &[u8]| spec.strategy.translate(bytes);
            let object = StoredObject::read("a", Ok(damaged.to_vec().into()), Revision(7), translate);
            assert!(object.corrupt().is_some());
        }
    }
}

/// A schema without descriptions.
fn undescribed(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(k, v)| *k != "description" || v.as_str().is_none());
            Value::Object(kept.map(|(k, v)| (k, undescribed(v))).collect())
        }
        Value::Array(items) => items.iter().map(undescribed).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn is_described(schema: &Value) -> bool {
    let text = schema.get("description").and_then(Value::as_str);
    let fields = schema.get("properties").and_then(Value::as_object);
    text.is_some_and(|text| !text.is_empty())
        // Upstream has no words for the metadata of some kinds.
        && fields
            .into_iter()
            .flat_map(Map::iter)
            .all(|(name, field)| name == "metadata" || is_described(&with_no_fields(field)))
}

fn with_no_fields(field: &Value) -> Value {
    let mut field = field.clone();
    field.as_object_mut().unwrap().remove("properties");
    field
}

#[test]
fn a_schema_is_published_as_upstream_publishes_it() {
    let recorded = read("built-in/openapi.json");
    let theirs = recorded.get("schemas").and_then(Value::as_object).unwrap();
    let mut left: BTreeSet<&str> = theirs.keys().collect();
    for (spec, declared) in declared() {
        let gv = GroupVersionDoc { group: &spec.group, version: declared.version() };
        let doc = TypeDoc {
            plural: &spec.names.plural,
            kind: &spec.names.kind,
            list_kind: &spec.names.list_kind,
            namespaced: spec.namespaced(),
            schema: None,
            preserve_unknown_fields: false,
            status: false,
            scale: false,
            declared: Vec::new(),
            selectable_fields: Vec::new(),
            built_in: true,
            declaration: Some(declared.declaration()),
            strategic_merge_patch: true,
            only_created: spec.strategy.answers_creates(),
            clears: spec.strategy.allows_delete_collection(),
        };
        let (mut document, mut bytes) = Document::start(Format::V3, "test", "1");
        bytes.extend(document.paths(&gv, &doc));
        bytes.extend(document.schemas(&gv, &doc));
        bytes.extend(document.end());
        let document = json::parse(&bytes).unwrap();
        let ours = document.at(&["components", "schemas"]).and_then(Value::as_object).unwrap();
        let prefix = declared.declaration().schema_prefix();
        // A kind may hold structs of other groups: a Deployment has the spec of a pod.
        let of_kubernetes = |name: &str| {
            name.starts_with("io.k8s.api.") || name.starts_with(&prefix) || name.ends_with("MicroTime")
        };
        for (name, schema) in ours.iter().filter(|(name, _)| of_kubernetes(name)) {
            assert!(!name.starts_with(&prefix) || is_described(schema), "{name} has no description");
            let mut expected = theirs.get(name).unwrap_or_else(|| panic!("{name}")).clone();
            // No client reads them: discriminators, and the group of a kind that stands in another's.
            for left_out in ["x-kubernetes-unions", "x-kubernetes-group-version-kind"] {
                if schema.get(left_out).is_none() {
                    expected.as_object_mut().unwrap().remove(left_out);
                }
            }
            if name.ends_with("List") {
                // Lists are made as those of registered types are, whose metadata has no default.
                let metadata = expected.get_mut("properties").and_then(|p| p.get_mut("metadata")).unwrap();
                metadata.as_object_mut().unwrap().remove("default");
            }
            assert_eq!(undescribed(schema).to_string(), expected.to_string(), "{name}");
            left.remove(name);
        }
    }
    assert!(left.is_empty(), "nobody publishes {left:?}");
}

#[test]
fn values_merge_as_upstream_has_them() {
    let expected = read("merge/expected.json");
    // A question is never merged with another, and no client knows a type for that.
    let merged = declared().into_iter().filter(|(spec, _)| !spec.strategy.answers_creates());
    for (spec, declared) in merged {
        let mut comparison = Comparison::new(expected.get("types").unwrap());
        let model = format!("{}{}", declared.declaration().schema_prefix(), spec.names.kind);
        let theirs = expected.at(&["types", &model]).unwrap_or_else(|| panic!("{model} is not recorded"));
        comparison.compare(&spec.names.kind, declared.merge_type(), theirs);
        assert_eq!(comparison.differences, Vec::<String>::new());
        assert!(comparison.seen.contains("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    }
}

#[test]
fn a_built_in_kind_is_stored_under_kube_apiservers_key() {
    let keys = [
        ("namespaces", "/registry/namespaces/"),
        ("leases", "/registry/leases/"),
        ("endpoints", "/registry/services/endpoints/"),
        ("endpointslices", "/registry/endpointslices/"),
        ("events", "/registry/events/"),
        ("flowschemas", "/registry/flowschemas/"),
        ("prioritylevelconfigurations", "/registry/prioritylevelconfigurations/"),
        ("services", "/registry/services/specs/"),
        ("ipaddresses", "/registry/ipaddresses/"),
        ("mutatingwebhookconfigurations", "/registry/mutatingwebhookconfigurations/"),
        ("mutatingadmissionpolicies", "/registry/mutatingadmissionpolicies/"),
        ("mutatingadmissionpolicybindings", "/registry/mutatingadmissionpolicybindings/"),
        ("validatingadmissionpolicies", "/registry/validatingadmissionpolicies/"),
        ("validatingadmissionpolicybindings", "/registry/validatingadmissionpolicybindings/"),
        ("validatingwebhookconfigurations", "/registry/validatingwebhookconfigurations/"),
        ("certificatesigningrequests", "/registry/certificatesigningrequests/"),
        ("limitranges", "/registry/limitranges/"),
        ("nodes", "/registry/minions/"),
        ("persistentvolumes", "/registry/persistentvolumes/"),
        ("persistentvolumeclaims", "/registry/persistentvolumeclaims/"),
        ("pods", "/registry/pods/"),
        ("podtemplates", "/registry/podtemplates/"),
        ("replicationcontrollers", "/registry/controllers/"),
        ("priorityclasses", "/registry/priorityclasses/"),
        ("cronjobs", "/registry/cronjobs/"),
        ("jobs", "/registry/jobs/"),
        ("ingresses", "/registry/ingress/"),
        ("ingressclasses", "/registry/ingressclasses/"),
        ("networkpolicies", "/registry/networkpolicies/"),
        ("horizontalpodautoscalers", "/registry/horizontalpodautoscalers/"),
        ("controllerrevisions", "/registry/controllerrevisions/"),
        ("csinodes", "/registry/csinodes/"),
        ("volumeattachments", "/registry/volumeattachments/"),
        ("servicecidrs", "/registry/servicecidrs/"),
        ("deviceclasses", "/registry/deviceclasses/"),
        ("resourceclaims", "/registry/resourceclaims/"),
        ("resourceclaimtemplates", "/registry/resourceclaimtemplates/"),
        ("resourceslices", "/registry/resourceslices/"),
        ("runtimeclasses", "/registry/runtimeclasses/"),
        ("storageclasses", "/registry/storageclasses/"),
        ("volumeattributesclasses", "/registry/volumeattributesclasses/"),
        ("csidrivers", "/registry/csidrivers/"),
        ("csistoragecapacities", "/registry/csistoragecapacities/"),
        ("poddisruptionbudgets", "/registry/poddisruptionbudgets/"),
        ("resourcequotas", "/registry/resourcequotas/"),
        ("configmaps", "/registry/configmaps/"),
        ("daemonsets", "/registry/daemonsets/"),
        ("deployments", "/registry/deployments/"),
        ("replicasets", "/registry/replicasets/"),
        ("statefulsets", "/registry/statefulsets/"),
        ("clusterroles", "/registry/clusterroles/"),
        ("clusterrolebindings", "/registry/clusterrolebindings/"),
        ("roles", "/registry/roles/"),
        ("rolebindings", "/registry/rolebindings/"),
        ("secrets", "/registry/secrets/"),
        ("serviceaccounts", "/registry/serviceaccounts/"),
        // As the aggregator has it.
        ("apiservices", "/registry/apiregistration.k8s.io/apiservices/"),
    ];
    for (spec, _) in declared().into_iter().filter(|(spec, _)| !spec.strategy.answers_creates()) {
        let key = keys.iter().find(|(plural, _)| *plural == spec.names.plural);
        assert_eq!(Some(&*spec.prefix), key.map(|(_, key)| *key), "{}", spec.names.plural);
    }
}
