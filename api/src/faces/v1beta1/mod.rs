//! `apiextensions.k8s.io/v1beta1` (`pkg/apis/apiextensions/v1beta1` and `v1/conversion.go`, 1.37): fields that all versions
//! share stand once, beside the versions.

mod shapes;

use super::sub_resources::{self, SubResources};
use super::{Face, as_map, map_at, map_in, normal, take};
use crate::decode::{DecodeError, Struct};
use crate::field::{Error, ErrorList, Path};
use crate::{List, Map, Value, object};

/// The fields that stand in each version or once for all versions: the name in a version, and the name above.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

fn text<'a>(map: &'a Map, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(map: &'a Map, field: &str) -> &'a [Value] {
    map.get(field).and_then(Value::as_array).unwrap_or_default()
}

pub(super) fn go_type() -> &'static Struct {
    &shapes::CRD
}

pub(super) fn decode(object: &Value) -> Result<(Value, Vec<String>, Vec<String>), DecodeError> {
    let decoded = shapes::CRD.decode(object)?;
    let mut value = decoded.value;
    let spec = map_at(&mut value, "spec");
    default_spec(spec);
    let warnings = sub_resources::warnings(spec);
    let storage = list(spec, "versions").iter().find(|v| v.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.and_then(|v| v.get("name")).cloned();
    let status = map_at(&mut value, "status");
    if let Some(name) = storage.filter(|_| list(status, "storedVersions").is_empty()) {
        status.insert("storedVersions", vec![name]);
    }
    Ok((value, decoded.unknown_fields, warnings))
}

/// `v1beta1/defaults.go`
fn default_spec(spec: &mut Map) {
    if text(spec, "scope").is_empty() {
        spec.insert("scope", "Namespaced");
    }
    let names = map_in(spec, "names");
    let kind = text(names, "kind").to_owned();
    if !kind.is_empty() {
        names.entry_or_insert_with("singular", || kind.to_lowercase().into());
        names.entry_or_insert_with("listKind", || format!("{kind}List").into());
    }
    let version = text(spec, "version").to_owned();
    if list(spec, "versions").is_empty() && !version.is_empty() {
        let version = object! { "name": version, "served": true, "storage": true };
        spec.insert("versions", vec![version]);
    } else if version.is_empty()
        && let Some(first) = list(spec, "versions").first().and_then(|v| v.get("name")).cloned()
    {
        spec.insert("version", first);
    }
    spec.entry_or_insert_with("preserveUnknownFields", || true.into());
    let conversion = map_in(spec, "conversion");
    if conversion.is_empty() {
        conversion.insert("strategy", "None");
    }
    if text(conversion, "strategy") == "Webhook" {
        conversion.entry_or_insert_with("conversionReviewVersions", || vec!["v1beta1"].into());
    }
    let config = conversion.get_mut("webhookClientConfig");
    if let Some(service) = config.and_then(|c| c.get_mut("service")?.as_object_mut()) {
        service.entry_or_insert_with("port", || 443.into());
    }
}

pub(super) fn show(mut stored: Value, sub_resources: &SubResources) -> Value {
    let mut before = match take(&mut stored, "spec") {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    let mut versions = match before.remove("versions") {
        Some(Value::Array(versions)) => versions,
        _ => List::default(),
    };
    let mut spec = Map::new();
    for field in ["group", "names", "scope"] {
        if let Some(value) = before.remove(field) {
            spec.insert(field, value);
        }
    }
    let preserve = before.remove("preserveUnknownFields");
    spec.insert("preserveUnknownFields", preserve.and_then(|p| p.as_bool()).unwrap_or(false));
    if let Some(conversion) = before.remove("conversion") {
        spec.insert("conversion", show_conversion(conversion));
    }
    if let Some(first) = versions.first().and_then(|v| v.get("name")).cloned() {
        spec.insert("version", first);
    }
    for version in &mut versions {
        sub_resources.show(as_map(version));
        for column in columns(as_map(version)) {
            rename(as_map(column), "jsonPath", "JSONPath");
        }
    }
    for (field, shared) in SHARED {
        let mut values = versions.iter().map(|v| v.get(field));
        let first = values.next().flatten().cloned();
        if let Some(first) = first.filter(|first| values.all(|other| other == Some(first))) {
            for version in &mut versions {
                take(version, field);
            }
            spec.insert(shared, first);
        }
    }
    if !versions.is_empty() {
        spec.insert("versions", versions);
    }
    let shown = as_map(&mut stored);
    shown.insert("spec", spec);
    shown.insert("apiVersion", Face::V1beta1.api_version());
    shown.insert("kind", Face::V1beta1.kind());
    stored
}

/// A stored tree of this version in the stored form.
pub(super) fn stored_form(tree: &Value) -> Result<Value, String> {
    let (mut object, ..) = decode(tree).map_err(|e| e.to_string())?;
    let spec = map_at(&mut object, "spec");
    if let Some(error) = too_much_shared(spec, &Path::new("spec")) {
        return Err(error.to_string());
    }
    spread(spec);
    let stored = as_map(&mut object);
    stored.insert("apiVersion", Face::V1.api_version());
    stored.insert("kind", Face::V1.kind());
    normal(&object).map_err(|errors| crate::field::aggregate(&errors))
}

fn show_conversion(conversion: Value) -> Value {
    let Value::Object(mut conversion) = conversion else { return conversion };
    if let Some(Value::Object(mut webhook)) = conversion.remove("webhook") {
        if let Some(config) = webhook.remove("clientConfig") {
            conversion.insert("webhookClientConfig", config);
        }
        if let Some(versions) = webhook.remove("conversionReviewVersions").filter(|v| !v.is_null()) {
            conversion.insert("conversionReviewVersions", versions);
        }
    }
    conversion.into()
}

fn columns(version: &mut Map) -> &mut [Value] {
    version
        .get_mut("additionalPrinterColumns")
        .and_then(Value::as_array_mut)
        .map_or(&mut [], |columns| columns.as_mut_slice())
}

fn rename(map: &mut Map, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to, value);
    }
}

/// The stored form of what [`decode`] gave; the proposal's subresources are noted in `sub_resources`.
pub(super) fn read(
    mut object: Value,
    old: Option<&Value>,
    is_status: bool,
    sub_resources: &mut SubResources,
) -> Result<Value, ErrorList> {
    if let Some(old) = old.filter(|_| is_status) {
        let spec = old.get("spec").cloned().unwrap_or_default();
        as_map(&mut object).insert("spec", spec);
    } else {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = map_at(&mut object, "spec");
        // Only a write that uses the older name depends on what the client was shown.
        let is_proposed = !sub_resources::warnings(spec).is_empty();
        let shown = old.filter(|_| is_proposed).map(|old| show(old.clone(), sub_resources));
        let shown = shown.as_ref().and_then(|shown| shown.get("spec"));
        sub_resources.take_from(spec, shown, &path, &mut errors);
        exclusive(spec, &path, &mut errors);
        if let Some(error) = too_much_shared(spec, &path) {
            errors.push(error);
            return Err(errors);
        }
        spread(spec);
        sub_resources.keep_from(spec, old, &path, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
    }
    let stored = as_map(&mut object);
    stored.insert("apiVersion", Face::V1.api_version());
    stored.insert("kind", Face::V1.kind());
    normal(&object)
}

/// Refuses what v1beta1 can express and v1 cannot: a field in both places, or the same value in each version
/// (`validation.go`, `validateCustomResourceDefinitionSpec`).
fn exclusive(spec: &Map, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = list(spec, "versions");
    // Upstream has no such rules for selectable fields, which came after v1beta1 went; the same holds for them here, as
    // one place would be lost.
    const WORDS: [(&str, &str, &str); 4] = [
        ("schema", "validation", "schemas"),
        ("subresources", "subresources", "subresources"),
        ("additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"),
        ("selectableFields", "selectableFields", "selectableFields"),
    ];
    for (field, shared, plural) in WORDS {
        if spec.contains_key(shared) && versions.iter().any(|v| v.get(field).is_some()) {
            let detail = format!("top-level and per-version {plural} are mutually exclusive");
            errors.push(Error::forbidden(&path.child(shared), detail));
        }
    }
    for (field, shared, plural) in WORDS.into_iter().take(3) {
        let first = versions.first().and_then(|v| v.get(field));
        if first.is_some() && versions.iter().all(|v| v.get(field) == first) {
            let detail = format!(
                "per-version {plural} may not all be set to identical values (top-level {shared} should be used instead)"
            );
            errors.push(Error::invalid(&path.child("versions"), versions.to_vec(), detail));
        }
    }
    let (version, first) = (text(spec, "version"), versions.first().and_then(|v| v.get("name")));
    if !version.is_empty() && first.is_some_and(|first| first.as_str() != Some(version)) {
        let detail = "must match the first version in spec.versions";
        errors.push(Error::invalid(&path.child("version"), version, detail));
    }
}

/// The most bytes of shared fields, counted once per version: 1 MB for 50,000 versions would be 50 GB.
const SPREAD_BYTES_MAX: usize = 32 << 20;

fn too_much_shared(spec: &Map, path: &Path<'_>) -> Option<Error> {
    let versions = list(spec, "versions").len();
    SHARED.into_iter().find_map(|(_, shared)| {
        let bytes = spec.get(shared)?.to_vec().len();
        let detail = format!("may not take more than {SPREAD_BYTES_MAX} bytes once each version has it");
        (bytes.saturating_mul(versions) > SPREAD_BYTES_MAX)
            .then(|| Error::forbidden(&path.child(shared), detail))
    })
}

/// Turns the spec into v1's shape: copies the shared fields into each version.
fn spread(spec: &mut Map) {
    spec.remove("version");
    let shared: Vec<(&str, Value)> =
        SHARED.into_iter().filter_map(|(field, shared)| Some((field, spec.remove(shared)?))).collect();
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let version = as_map(version);
        for (field, value) in &shared {
            version.insert(*field, value.clone());
        }
        for column in columns(version) {
            rename(as_map(column), "JSONPath", "jsonPath");
        }
    }
    let conversion = map_in(spec, "conversion");
    let config = conversion.remove("webhookClientConfig");
    let review_versions = conversion.remove("conversionReviewVersions");
    if config.is_some() || review_versions.is_some() {
        let webhook = map_in(conversion, "webhook");
        webhook.insert("conversionReviewVersions", review_versions);
        if let Some(config) = config {
            webhook.insert("clientConfig", config);
        }
    }
}
