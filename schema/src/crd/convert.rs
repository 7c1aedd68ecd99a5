//! Old registrations as manifests that `apiextensions.k8s.io/v1` takes.

use kindom_api::crd::{CustomResourceDefinition, default_crd, prepare_for_create};
use kindom_api::decode::unknown_field;
use kindom_api::faces::Face;
use kindom_api::field::{Error, ErrorList, Path, aggregate};
use kindom_api::{Map, Value, json, object};

use super::validate_create;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// The annotation in which kubectl keeps the document that it applied; dropped, as a converted document is another one.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The reason why a document cannot be converted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConvertError {
    /// It is no registration of any version that Kubernetes has had.
    #[error("cannot convert {kind:?} of {api_version:?}: it is no registration of a type")]
    Kind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It has not the shape of its kind.
    #[error("{0}")]
    Decode(String),
    /// v1 would not say the same, or not take it; the fields are those of the internal type (see the module `crd`).
    #[error("{}", aggregate(.0))]
    Invalid(ErrorList),
}

/// A converted registration.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The v1 manifest.
    pub manifest: Value,
    /// Warnings for the author: unknown fields that were dropped, older spellings.
    pub warnings: Vec<String>,
}

/// Converts a registration to an `apiextensions.k8s.io/v1` manifest: an `extensions/v1beta1` ThirdPartyResource (Kubernetes
/// 1.2 to 1.7), an `apiextension.k8s.io/v1beta1` one, or an `apiextensions.k8s.io/v1beta1` CustomResourceDefinition. A v1
/// manifest is returned as it is. Fields that the server sets (status, uid, …) are left out.
///
/// Objects have the same meaning afterwards: where unknown fields were preserved, every level of the schema preserves them.
///
/// # Errors
/// Fields that v1 would refuse: a schema that is not structural, a scale without `statusReplicasPath`.
pub fn to_v1(mut document: Value) -> Result<Converted, ConvertError> {
    let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (mut unknown, mut warnings) = (Vec::new(), Vec::new());
    let stored = match Face::of(&api_version, &kind) {
        Some(Face::V1) => return Ok(Converted { manifest: document, warnings }),
        Some(face) => {
            warnings = face.decode(&mut document, Some(&mut unknown)).map_err(ConvertError::Decode)?;
            warnings.extend(unknown.iter().map(|path| unknown_field(path)));
            face.read(document, None, None).map_err(ConvertError::Invalid)?
        }
        None if api_version == "extensions/v1beta1" && kind == "ThirdPartyResource" => alpha(&document)?,
        None => return Err(ConvertError::Kind { api_version, kind }),
    };
    let mut errors = ErrorList::new();
    scales(&Face::V1beta1.show(stored.clone()), &mut errors);
    let mut manifest = Face::V1.show(stored);
    forget_server(&mut manifest);
    if let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        preserve_in_schemas(spec);
    }
    let crd: Result<CustomResourceDefinition, _> = json::from_value(&manifest);
    let mut crd = crd.map_err(|e| ConvertError::Decode(e.to_string()))?;
    default_crd(&mut crd);
    prepare_for_create(&mut crd);
    errors.extend(validate_create(&crd, Face::V1));
    if errors.is_empty() { Ok(Converted { manifest, warnings }) } else { Err(ConvertError::Invalid(errors)) }
}

/// Scales that only the proposal for subresources could say, as v1beta1 shows them.
fn scales(shown: &Value, errors: &mut ErrorList) {
    let spec_path = Path::new("spec");
    let versions_path = spec_path.child("versions");
    let mut check = |parent: Option<&Value>, path: &Path<'_>| {
        let scale = parent.and_then(|p| p.at(&["subresources", "scale"]));
        if scale.is_some_and(|s| s.get("statusReplicasPath").is_none()) {
            let at = path.child("subresources");
            let at = at.child("scale");
            errors
                .push(Error::required(&at.child("statusReplicasPath"), "only subResources could do without"));
        }
    };
    let spec = shown.get("spec");
    check(spec, &spec_path);
    let versions = spec.and_then(|s| s.get("versions")).and_then(Value::as_array).unwrap_or_default();
    for (i, version) in versions.iter().enumerate() {
        check(Some(version), &versions_path.index(i));
    }
}

fn forget_server(manifest: &mut Value) {
    let Some(map) = manifest.as_object_mut() else { return };
    map.remove("status");
    let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|field, _| {
        matches!(field, "name" | "labels" | "annotations" | "finalizers" | "ownerReferences" | "generateName")
    });
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(LAST_APPLIED);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn preserve_in_schemas(spec: &mut Map) {
    let preserve = spec.remove("preserveUnknownFields") == Some(true.into());
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(version) = version.as_object_mut() else { continue };
        let validation = version.entry_or_insert_with("schema", || Map::new().into());
        let Some(validation) = validation.as_object_mut() else { continue };
        let missing = !validation.contains_key("openAPIV3Schema");
        let schema = validation.entry_or_insert_with("openAPIV3Schema", || Map::new().into());
        if let Some(root) = schema.as_object_mut() {
            // A custom object is one, whether its schema said so or not.
            root.entry_or_insert_with("type", || "object".into());
        }
        // Without a schema of the version, every object of it was valid.
        if preserve || missing {
            preserve_below(schema, true);
        }
    }
}

/// Sets `x-kubernetes-preserve-unknown-fields` at each level: it ends where a schema lists fields. Without a `type` it also
/// stands for one: the schema then applies to values of any type, as before.
fn preserve_below(schema: &mut Value, is_root: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    for (name, property) in
        map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::iter_mut)
    {
        // The server knows these, and registrations may say little of them.
        if !(is_root && matches!(name, "apiVersion" | "kind" | "metadata")) {
            preserve_below(property, false);
        }
    }
    for field in ["items", "additionalProperties"] {
        if let Some(below) = map.get_mut(field).filter(|below| below.as_object().is_some()) {
            preserve_below(below, false);
        }
    }
    if map.get("additionalProperties") == Some(&true.into()) {
        map.remove("additionalProperties");
    }
    let is_object = matches!(map.get("type").and_then(Value::as_str), None | Some("object"));
    let is_int_or_string = map.get("x-kubernetes-int-or-string") == Some(&true.into());
    if is_object && !is_int_or_string && !map.contains_key("additionalProperties") {
        map.insert(PRESERVE, true);
    }
}

/// A ThirdPartyResource of `extensions/v1beta1`, whose names are derived from its own
/// (kubernetes 1.7 `pkg/registry/extensions/thirdpartyresourcedata/util.go` and apimachinery `meta.KindToResource`):
/// `cron-tab.stable.example.com` is CronTab, crontabs, in stable.example.com.
fn alpha(document: &Value) -> Result<Value, ConvertError> {
    let name = document.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    let metadata = Path::new("metadata");
    let invalid =
        |detail: &str| ConvertError::Invalid(Error::invalid(&metadata.child("name"), name, detail).into());
    let (dashed, group) = name
        .split_once('.')
        .filter(|(dashed, group)| !dashed.is_empty() && group.contains('.'))
        .ok_or_else(|| {
            invalid("must be <kind>.<domain>.<tld>, the kind in lower case with its words divided by dashes")
        })?;
    let kind: String = dashed.split('-').map(capitalized).collect();
    let singular = kind.to_lowercase();
    let plural = plural(&singular);
    let mut schema = object! { "type": "object", "x-kubernetes-preserve-unknown-fields": true };
    if let (Some(description), Some(schema)) =
        (document.get("description").and_then(Value::as_str), schema.as_object_mut())
    {
        schema.insert("description", description);
    }
    let versions_of_document = document.get("versions").and_then(Value::as_array).unwrap_or_default();
    let versions: Vec<Value> = versions_of_document
        .iter()
        .enumerate()
        .map(|(i, version)| {
            object! {
                "name": version.get("name").and_then(Value::as_str).unwrap_or_default(),
                "served": true,
                "storage": i == 0,
                "schema": object! { "openAPIV3Schema": schema.clone() },
            }
        })
        .collect();
    let mut manifest = object! {
        "apiVersion": Face::V1.api_version(),
        "kind": Face::V1.kind(),
        "metadata": document.get("metadata").cloned().unwrap_or_default(),
        "spec": object! {
            "group": group,
            "names": object! {
                "plural": plural.as_str(), "singular": singular, "kind": kind.as_str(), "listKind": format!("{kind}List"),
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    };
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name", format!("{plural}.{group}"));
    }
    Ok(manifest)
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn plural(singular: &str) -> String {
    match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if singular.ends_with('s') => format!("{singular}es"),
        None => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use kindom_api::json::parse;

    fn convert(text: &str) -> Result<String, String> {
        let converted = to_v1(parse(text.as_bytes()).unwrap());
        converted.map(|c| c.manifest.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_third_party_resources() {
        let text = r#"{"apiVersion":"extensions/v1beta1","kind":"ThirdPartyResource","description":"A crontab",
            "metadata":{"name":"cron-tab.stable.example.com","uid":"u","labels":{"a":"b"}},
            "versions":[{"name":"v1"},{"name":"v2"}]}"#;
        assert_eq!(
            convert(text).unwrap(),
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"labels":{"a":"b"},"name":"crontabs.stable.example.com"},"spec":{"group":"stable.example.com","names":{"kind":"CronTab","listKind":"CronTabList","plural":"crontabs","singular":"crontab"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"description":"A crontab","type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true},{"name":"v2","schema":{"openAPIV3Schema":{"description":"A crontab","type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":false}]}}"#
        );
        for (name, kind, plural) in [("policy", "Policy", "policies"), ("my-class", "MyClass", "myclasses")] {
            let converted = convert(&text.replace("cron-tab", name)).unwrap();
            assert!(converted.contains(&format!(r#""kind":"{kind}","#)), "{converted}");
            assert!(converted.contains(&format!(r#""name":"{plural}.stable.example.com""#)), "{converted}");
        }
        let wrong = convert(&text.replace("cron-tab.stable.example.com", "cron-tab.example")).unwrap_err();
        assert!(
            wrong.starts_with(r#"metadata.name: Invalid value: "cron-tab.example": must be <kind>"#),
            "{wrong}"
        );
    }

    #[test]
    fn the_proposals_third_party_resources() {
        let text = r#"{"apiVersion":"apiextension.k8s.io/v1beta1","kind":"ThirdPartyResource",
            "metadata":{"name":"oxen.example.com","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},
            "spec":{"group":"example.com","version":"v1","Names":{"plural":"oxen","kind":"Ox"}}}"#;
        assert_eq!(
            convert(text).unwrap(),
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"oxen.example.com"},"spec":{"conversion":{"strategy":"None"},"group":"example.com","names":{"kind":"Ox","listKind":"OxList","plural":"oxen","singular":"ox"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true}]}}"#
        );
    }

    const OXEN: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition",
        "metadata":{"name":"oxen.example.com"},"spec":{"group":"example.com","version":"v1",
        "names":{"plural":"oxen","kind":"Ox"},"validation":{"openAPIV3Schema":SCHEMA}}}"#;

    #[test]
    fn what_was_preserved_still_is() {
        let schema = r#"{"properties":{
            "spec":{"required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"object"},"n":{"minimum":1}}},
            "list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}}}},
            "map":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"integer"}}}},
            "any":{"type":"object","additionalProperties":true},
            "either":{"x-kubernetes-int-or-string":true},
            "metadata":{"type":"object"}}}"#;
        let text = OXEN.replace("SCHEMA", schema).replace(r#""version":"v1""#, r#""version":"v1","x":1"#);
        let converted = to_v1(parse(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(converted.warnings, [r#"unknown field "spec.x""#]);
        let versions = converted.manifest.at(&["spec", "versions"]).and_then(Value::as_array).unwrap();
        let schema = versions[0].at(&["schema", "openAPIV3Schema"]).unwrap();
        let schema = Schema::compile(Some(schema), false).unwrap();
        let object = r#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{"name":"a"},"u":{"v":1},
            "spec":{"a":"x","b":{"c":{"d":1}},"n":2,"u":[{"v":1}]},
            "list":[{"x":1,"y":{"z":1}}],"map":{"k":{"x":1,"y":{"z":1}}},"any":{"k":{"y":1}},"either":1}"#;
        let object = parse(object.as_bytes()).unwrap();
        let mut pruned = object.clone();
        schema.prune(&mut pruned, None);
        assert_eq!(pruned, object);
        assert_eq!(schema.validate(&object), []);
        let wrong =
            parse(br#"{"apiVersion":"example.com/v1","kind":"Ox","metadata":{"name":"a"},"spec":{"n":0}}"#)
                .unwrap();
        assert_eq!(schema.validate(&wrong).len(), 2, "what it said it still says");
    }

    #[test]
    fn what_v1_cannot_say_is_named() {
        let check = |schema: &str, want: &str| {
            assert_eq!(convert(&OXEN.replace("SCHEMA", schema)).unwrap_err(), want);
        };
        check(
            r#"{"properties":{"spec":{"anyOf":[{"type":"string"}]}}}"#,
            "spec.validation.openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        );
        check(
            r#"{"additionalProperties":{"type":"string"}}"#,
            "spec.validation.openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root",
        );
        let proposed = OXEN.replace(
            r#""validation":{"openAPIV3Schema":SCHEMA}"#,
            r#""subResources":{"scale":{"specReplicasPath":".spec.replicas"}}"#,
        );
        assert_eq!(
            convert(&proposed).unwrap_err(),
            "spec.subresources.scale.statusReplicasPath: Required value: only subResources could do without"
        );
        assert_eq!(
            convert(r#"{"apiVersion":"v1","kind":"Pod"}"#).unwrap_err(),
            r#"cannot convert "Pod" of "v1": it is no registration of a type"#
        );
        assert_eq!(
            convert(&OXEN.replace(r#""group":"example.com""#, r#""group":1"#).replace("SCHEMA", "{}"))
                .unwrap_err(),
            "json: cannot unmarshal number into Go struct field CustomResourceDefinitionSpec.spec.group of type string"
        );
    }

    #[test]
    fn v1_is_left_alone() {
        let text = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","x":1}"#;
        assert_eq!(convert(text).unwrap(), text);
    }
}
