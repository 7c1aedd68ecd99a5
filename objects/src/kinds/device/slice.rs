//! ResourceSlice (`pkg/registry/resource/resourceslice/strategy.go`, 1.37): devices that a driver offers.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::meta::names::{is_label_value, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value};
use kindom_schema::columns::Printed;

use super::request::EFFECTS;
use super::{API_VERSION, OTHER_VERSIONS, capacity, drop_fields, entries, names, of, status, table};
use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, items_mut, number, part, present, same, text, texts};
use crate::kinds::pod_spec::affinity::validate_node_selector;
use crate::kinds::pod_spec::sources::validate_driver;
use crate::kinds::{generation, metadata_update};
use crate::metadata::keep_reset;
use crate::version::SelectableField;
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static SLICE: Declared = Declared::catalogued(API_VERSION, "ResourceSlice");
const DEVICES_MAX: usize = 128;
/// The most devices if one has taints or consumes counters.
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMED_MAX: usize = 2;
const TAINTS_MAX: usize = 16;
const ENTRIES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 64;
/// The fields of an attribute that are not alpha.
const VALUES: [&str; 4] = ["int", "bool", "string", "version"];
const LISTS: [&str; 4] = ["ints", "bools", "strings", "versions"];

pub(super) fn slices() -> TypeSpec {
    let text_of = |path: &[&str]| SLICE.text_of(path);
    let columns = [
        ("Node", text_of(&["spec", "nodeName"]), ".spec.nodeName", Printed::Text),
        ("Driver", text_of(&["spec", "driver"]), ".spec.driver", Printed::Text),
        ("Pool", text_of(&["spec", "pool", "name"]), ".spec.pool.name", Printed::Text),
    ];
    of(Names::of_kind("resourceslices", "ResourceSlice"), Scope::Cluster, table(&columns), Arc::new(Slices))
}

/// The rules of ResourceSlices.
struct Slices;

impl Strategy for Slices {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SLICE)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &OTHER_VERSIONS
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn selectable(&self) -> Vec<SelectableField> {
        ["spec.nodeName", "spec.driver", "spec.pool.name"].map(SelectableField::new).into()
    }

    fn unselectable(&self, field: &str) -> String {
        format!("field label not supported for {API_VERSION}, Kind=ResourceSlice: {field}")
    }

    fn fill_defaults(&self, slice: &mut Value) {
        default_nil(slice, "spec", Map::new());
    }

    /// Taints get the time of the request (`SetDefaults_DeviceTaint`).
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        slice: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        keep_reset(slice, |slice| {
            let decoded = SLICE.declaration().shape.decode(slice).map_err(|e| e.to_string())?;
            if let Some(unknown) = unknown {
                unknown.extend(decoded.unknown_fields);
            }
            *slice = decoded.value;
            self.fill_defaults(slice);
            if let Some(spec) = slice.get_mut("spec") {
                for taint in items_mut(spec, "devices").flat_map(|device| items_mut(device, "taints")) {
                    default_nil(taint, "timeAdded", cx.now);
                }
            }
            Ok(Vec::new())
        })
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, slice: &mut Value) {
        generation::first(slice);
        drop_alpha(slice);
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, slice: &mut Value, old: &Value) {
        drop_alpha(slice);
        generation::next_if_changed(slice, old, "spec");
    }

    fn validate(&self, _: &RuleContext<'_>, slice: &Value) -> ErrorList {
        let at = Path::new("metadata");
        let mut errors = validate_object_meta(part(slice, "metadata"), false, &name_is_dns_subdomain, &at);
        validate_spec(part(slice, "spec"), None, &mut errors);
        errors
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        slice: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(slice, old);
        validate_spec(part(slice, "spec"), Some(part(old, "spec")), &mut errors);
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, slice: &Value, _: Option<&Value>) -> Vec<String> {
        let driver = text(part(slice, "spec"), "driver");
        let has_capitals = driver != driver.to_lowercase();
        let warning = || {
            let driver = go_quote(driver);
            format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")
        };
        has_capitals.then(warning).into_iter().collect()
    }
}

/// Drops the fields of features that are alpha and off (`dropDisabledFields`).
fn drop_alpha(slice: &mut Value) {
    let Some(spec) = slice.get_mut("spec") else { return };
    drop_fields(spec, &["partitionTypeAttribute", "skipNodeOperations"]);
    for device in items_mut(spec, "devices") {
        drop_fields(device, &["nodeAllocatableResources"]);
        items_mut(device, "consumesCounters").for_each(|of| drop_fields(of, &["compatibilityGroups"]));
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        attributes.into_iter().flat_map(Map::iter_mut).for_each(|(_, of)| drop_fields(of, &LISTS));
    }
}

/// The ways of naming nodes that are used, of which there may be one, with their errors.
fn nodes_of<'a>(
    of: &Value,
    fields: &[&'a str],
    empty: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> Vec<&'a str> {
    let mut used = Vec::new();
    for field in fields {
        let at = at.child(field);
        match (*field, present(of, field)) {
            (_, None) => {}
            ("nodeName", Some(name)) => match name.as_str().unwrap_or_default() {
                "" => errors.push(Error::invalid(&at, "", empty)),
                name => {
                    used.push(*field);
                    texts(name_is_dns_subdomain(name, false), name, &at, errors);
                }
            },
            ("nodeSelector", Some(selector)) => {
                used.push(*field);
                validate_node_selector(selector, &at, errors);
            }
            (_, Some(Value::Bool(true))) => used.push(*field),
            (_, Some(_)) => {
                errors.push(Error::invalid(&at, false, "must be either unset or set to true"));
            }
        }
    }
    used
}

/// The error in several ways of naming nodes, or in none.
fn one_of(used: &[&str], why: &str, tail: &str, at: &Path<'_>, errors: &mut ErrorList) {
    match used {
        [] => errors.push(Error::required(at, why)),
        [_] => {}
        used => {
            let used: Vec<String> = used.iter().map(|field| format!("`{field}`")).collect();
            errors.push(Error::invalid(at, format!("{{{}}}", used.join(", ")), format!("{why}{tail}")));
        }
    }
}

/// `validateResourceSliceSpec`
fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    validate_driver(text(spec, "driver"), &at.child("driver"), errors);
    let (pool, at_pool) = (part(spec, "pool"), at.child("pool"));
    names::pool(text(pool, "name"), &at_pool.child("name"), errors);
    let count = number(pool, "resourceSliceCount").unwrap_or_default();
    if count <= 0 {
        errors.push(Error::invalid(&at_pool.child("resourceSliceCount"), count, "must be greater than zero"));
    }
    if let Some(generation @ ..0) = number(pool, "generation") {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&at_pool.child("generation"), generation, detail));
    }
    if let Some(old) = old {
        let immutable = "field is immutable";
        if text(pool, "name") != text(part(old, "pool"), "name") {
            errors.push(Error::invalid(&at_pool.child("name"), text(pool, "name"), immutable));
        }
        for field in ["driver", "nodeName"] {
            if present(spec, field) != present(old, field) {
                errors.push(Error::invalid(&at.child(field), part(spec, field).clone(), immutable));
            }
        }
    }
    let ways = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let used = nodes_of(spec, &ways, "must be either unset or set to a non-empty string", &at, errors);
    if let Some(selector) = present(spec, "nodeSelector")
        && items(selector, "nodeSelectorTerms").len() != 1
    {
        let at = at.child("nodeSelector");
        let terms = Value::from(items(selector, "nodeSelectorTerms").to_vec());
        let shown = SLICE.internal(&["spec", "nodeSelector", "nodeSelectorTerms"], &terms);
        let detail = "must have exactly one node selector term";
        errors.push(Error::invalid_raw(&at.child("nodeSelectorTerms"), shown, detail));
    }
    let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    one_of(&used, why, ", but multiple fields are set", &at, errors);
    if present(spec, "sharedCounters").is_some() && present(spec, "devices").is_some() {
        errors.push(Error::invalid(&at, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    validate_devices(spec, old, used.contains(&"perDeviceNodeSelection"), &at, errors);
    names::list(spec, "sharedCounters", COUNTER_SETS_MAX, &at, errors, |set, at, errors| {
        names::required_label(text(set, "name"), &at.child("name"), errors);
        validate_counters(set, at, errors);
    });
    let shape = SLICE.item_at(&["spec", "sharedCounters"]);
    let name_of = |set: &Value| text(set, "name").to_owned();
    names::unique(spec, "sharedCounters", COUNTER_SETS_MAX, shape, &at, errors, name_of);
}

/// The counters of a set, or those that a device takes of it.
fn validate_counters(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (count, at) = (entries(of, "counters").count(), at.child("counters"));
    if count == 0 {
        errors.push(Error::required(&at, ""));
    }
    if count > COUNTERS_MAX {
        return errors.push(Error::too_many(&at, count, COUNTERS_MAX));
    }
    entries(of, "counters").for_each(|(name, _)| names::label(name, &at, errors));
}

fn validate_devices(spec: &Value, old: Option<&Value>, each: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let is_advanced =
        |device: &Value| ["taints", "consumesCounters"].iter().any(|field| !items(device, field).is_empty());
    let advanced = items(spec, "devices").iter().any(is_advanced);
    let max = if advanced { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let mut before = BTreeMap::new();
    for device in old.into_iter().flat_map(|old| items(old, "devices")) {
        before.entry(text(device, "name")).or_insert(device);
    }
    names::list(spec, "devices", max, at, errors, |device, at, errors| {
        let old = before.get(text(device, "name")).copied();
        validate_device(device, old, each, at, errors);
    });
    let (devices, at) = (items(spec, "devices"), at.child("devices"));
    let mut seen = std::collections::BTreeSet::new();
    for (index, device) in devices.iter().enumerate().filter(|_| devices.len() <= max) {
        let name = text(device, "name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index), name));
        }
    }
}

/// `validateDevice`
fn validate_device(device: &Value, old: Option<&Value>, each: bool, at: &Path<'_>, errors: &mut ErrorList) {
    names::label(text(device, "name"), &at.child("name"), errors);
    let count = entries(device, "attributes").count().saturating_add(entries(device, "capacity").count());
    if count > ENTRIES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {ENTRIES_MAX}");
        errors.push(Error::invalid(at, i64::try_from(count).unwrap_or(i64::MAX), detail));
    }
    let at_attributes = at.child("attributes");
    for (name, attribute) in entries(device, "attributes") {
        names::qualified(name, &at_attributes, errors);
        validate_attribute(attribute, &at_attributes.key(&names::truncated(name)), errors);
    }
    let is_new = |field: &str| old.is_none_or(|old| !same(old.get(field), device.get(field)));
    if is_new("capacity") {
        let several = device.get("allowMultipleAllocations") == Some(&Value::Bool(true));
        let at = at.child("capacity");
        for (name, of) in entries(device, "capacity") {
            names::qualified(name, &at, errors);
            capacity::validate(of, several, &at.key(&names::truncated(name)), errors);
        }
    }
    if is_new("taints") {
        names::list(device, "taints", TAINTS_MAX, at, errors, validate_taint);
    }
    names::list(device, "consumesCounters", CONSUMED_MAX, at, errors, |of, at, errors| {
        names::required_label(text(of, "counterSet"), &at.child("counterSet"), errors);
        validate_counters(of, at, errors);
    });
    let shape = SLICE.item_at(&["spec", "devices"]);
    let shape = shape.and_then(|device| crate::declared::item_of(device, "consumesCounters"));
    let set_of = |of: &Value| text(of, "counterSet").to_owned();
    names::unique(device, "consumesCounters", CONSUMED_MAX, shape, at, errors, set_of);
    let ways = ["nodeName", "nodeSelector", "allNodes"];
    if each {
        let used = nodes_of(device, &ways, "must not be empty", at, errors);
        let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
                   true in the ResourceSlice spec";
        one_of(&used, why, "", at, errors);
    } else if ways.iter().any(|field| present(device, field).is_some()) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the \
                      ResourceSlice spec";
        errors.push(Error::invalid(at, Value::Null, detail));
    }
    status::validate_binding(device, at, errors);
}

/// `validateDeviceTaint`
fn validate_taint(taint: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    names::label_key(text(taint, "key"), &at.child("key"), errors);
    let value = text(taint, "value");
    texts(is_label_value(value), value, &at.child("value"), errors);
    let at_effect = at.child("effect");
    match text(taint, "effect") {
        "" => errors.push(Error::required(&at_effect, "")),
        effect if EFFECTS.contains(&effect) => {}
        effect => errors.push(Error::not_supported(&at_effect, effect, &EFFECTS)),
    }
}

/// `validateDeviceAttribute`; the union is checked declaratively.
fn validate_attribute(attribute: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let used: Vec<&str> = VALUES.into_iter().filter(|field| present(attribute, field).is_some()).collect();
    let all: Vec<String> = VALUES.iter().chain(&LISTS).map(|field| format!("`{field}`")).collect();
    match used.as_slice() {
        [_] => {}
        [] => errors.push(Error::invalid(at, "", format!("must specify one of: {}", all.join(", ")))),
        used => {
            let detail = format!("must specify exactly one of: {}", all.join(", "));
            errors.push(Error::invalid(at, format!("{{{}}}", used.join(", ")), detail));
        }
    }
    for field in ["string", "version"] {
        let (Some(value), at) = (present(attribute, field).and_then(Value::as_str), at.child(field)) else {
            continue;
        };
        if field == "version" && !is_semantic_version(value) {
            errors.push(Error::invalid(&at, value, "must be a string compatible with semver.org spec 2.0.0"));
        }
        if value.len() > VALUE_BYTES_MAX {
            errors.push(Error::too_long(&at, VALUE_BYTES_MAX));
        }
    }
}

/// `semverRe`
fn is_semantic_version(version: &str) -> bool {
    let (rest, build) = version.split_once('+').map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, before) = rest.split_once('-').map_or((rest, None), |(core, before)| (core, Some(before)));
    let is_identifier =
        |of: &str| !of.is_empty() && of.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |of: &str| {
        !of.is_empty() && of.bytes().all(|b| b.is_ascii_digit()) && (of == "0" || !of.starts_with('0'))
    };
    let is_before =
        |of: &str| is_identifier(of) && (is_number(of) || of.bytes().any(|b| !b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_before))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for version in
            ["1.2.3", "0.0.0", "1.2.3-a", "1.2.3-0.a-b.x", "1.2.3+001.a", "1.2.3-a+b-c", "1.2.3-0a"]
        {
            assert!(is_semantic_version(version), "{version}");
        }
        for version in [
            "",
            "1.2",
            "1.2.3.4",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "v1.2.3",
            "1.2.3-a..b",
            "1.2.3+a+b",
        ] {
            assert!(!is_semantic_version(version), "{version}");
        }
    }

    #[test]
    fn a_long_key_is_cut_in_its_middle() {
        assert_eq!(names::truncated("abc"), "abc");
        let cut = names::truncated(&"é".repeat(100));
        assert!(cut.contains("...") && cut.chars().count() < 100, "{cut}");
    }
}
