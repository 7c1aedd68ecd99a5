//! `subResources`, as the field was first proposed ("Subresources for CustomResources", S-09 to S-15): another name of
//! v1beta1's `subresources`, whose scale needs no `statusReplicasPath` and names its API version.
//!
//! v1 wants that path, and would refuse its own object without it. So a scale that lacks it is not in the stored
//! registration but in an annotation, by version; on v1beta1 it is shown where it belongs. A version that came in by the
//! older name is noted there even if it has no such scale.

use super::{as_map, map_in};
use crate::field::{Error, ErrorList, Path};
use crate::json;
use crate::{Map, Value};

/// The annotation of a stored registration that notes subresources by the name first proposed; JSON: version → `{}`, or
/// `{"scale": …}`.
pub const SUB_RESOURCES: &str = "face.kindom.dev/sub-resources";

const PROPOSED: &str = "subResources";
const TODAY: &str = "subresources";

/// The versions of a stored registration that came in by the older name, each with what v1 cannot hold of it: `{}`, or
/// `{"scale": …}` without a `statusReplicasPath` (S-12).
#[must_use]
pub fn proposed_subresources(stored: &Value) -> Map {
    let annotation = super::annotations::get(stored, SUB_RESOURCES).and_then(Value::as_str);
    match annotation.and_then(|text| json::parse(text.as_bytes()).ok()) {
        Some(Value::Object(by_version)) => by_version,
        _ => Map::new(),
    }
}

/// Warnings for a client that uses the older name; `spec` is decoded.
pub(super) fn warnings(spec: &Map) -> Vec<String> {
    let warning = |at: &str| format!("{at}.{PROPOSED}: this name was only proposed; use {at}.{TODAY}");
    let mut warnings = Vec::new();
    if spec.contains_key(PROPOSED) {
        warnings.push(warning("spec"));
    }
    for (i, version) in versions(spec).iter().enumerate() {
        if version.get(PROPOSED).is_some() {
            warnings.push(warning(&format!("spec.versions[{i}]")));
        }
    }
    warnings
}

fn versions(spec: &Map) -> &[Value] {
    spec.get("versions").and_then(Value::as_array).unwrap_or_default()
}

fn name(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The content of the annotation [`SUB_RESOURCES`], and where the object at hand uses the older name.
#[derive(Debug, Default)]
pub(super) struct SubResources {
    by_version: Map,
    /// `true` if the object at hand uses the older name for all versions at once; `proposed` lists the versions for which it
    /// uses it singly.
    proposed_for_all: bool,
    proposed: Vec<String>,
}

impl SubResources {
    /// Takes the annotation out of the hidden ones.
    pub(super) fn take(hidden: &mut Map) -> Self {
        let annotation = hidden.remove(SUB_RESOURCES);
        let annotation =
            annotation.as_ref().and_then(Value::as_str).and_then(|text| json::parse(text.as_bytes()).ok());
        match annotation {
            Some(Value::Object(by_version)) => Self { by_version, ..Self::default() },
            _ => Self::default(),
        }
    }

    /// Puts it back, as far as a stored registration still has the versions and no scale of its own in them. `renamed`
    /// is a version's name before and now.
    pub(super) fn put(mut self, stored: &Value, renamed: Option<(&str, &str)>, hidden: &mut Map) {
        if let Some((before, now)) = renamed
            && let Some(value) = self.by_version.remove(before)
        {
            self.by_version.insert(now, value);
        }
        let spec = stored.get("spec").and_then(Value::as_object);
        let versions = spec.map_or(&[][..], versions);
        self.by_version.retain(|version, kept| {
            let Some(version) = versions.iter().find(|v| name(v) == version) else { return false };
            if version.at(&[TODAY, "scale"]).is_some() {
                as_map(kept).remove("scale");
            }
            true
        });
        if !self.by_version.is_empty() {
            hidden.insert(SUB_RESOURCES, Value::Object(self.by_version).to_string());
        }
    }

    /// Puts a kept scale where v1beta1 has it.
    pub(super) fn show(&self, version: &mut Map) {
        let kept = version.get("name").and_then(Value::as_str).and_then(|name| self.by_version.get(name));
        let Some(scale) = kept.and_then(|kept| kept.get("scale")) else { return };
        map_in(version, TODAY).entry_or_insert_with("scale", || scale.clone());
    }

    /// Turns the older name into today's, in v1beta1's shape; `shown` is the spec that the client may have changed.
    pub(super) fn take_from(
        &mut self,
        spec: &mut Map,
        shown: Option<&Value>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        self.proposed_for_all = translate(spec, shown, path, errors);
        let shown = shown.and_then(Value::as_object).map_or(&[][..], versions);
        let at = path.child("versions");
        for (i, version) in
            spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let shown = shown.iter().find(|v| name(v) == name(version));
            if translate(as_map(version), shown, &at.index(i), errors) {
                self.proposed.push(name(version).to_owned());
            }
        }
    }

    /// Takes the scales that v1 cannot hold out of the versions of a spec in v1's shape: those that use the older name
    /// now, or did when they came in.
    pub(super) fn keep_from(
        &mut self,
        spec: &mut Map,
        old: Option<&Value>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let old = old.and_then(|old| old.get("spec")?.as_object()).map_or(&[][..], versions);
        let mut by_version = Map::new();
        let at = path.child("versions");
        for (i, version) in
            spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let name = name(version).to_owned();
            let is_proposed = self.proposed_for_all || self.proposed.contains(&name);
            if !is_proposed && !self.by_version.contains_key(&name) {
                continue;
            }
            let kept = map_in(&mut by_version, &name);
            let version = as_map(version);
            let Some(subresources) = version.get_mut(TODAY).and_then(Value::as_object_mut) else { continue };
            let lacks = |scale: &Value| scale.as_object().is_some_and(lacks_status_path);
            if let Some(mut scale) = subresources.get("scale").filter(|s| lacks(s)).cloned() {
                subresources.remove("scale");
                // A map that is empty without the field is removed, unless it was empty before.
                let was_there = old.iter().any(|v| self::name(v) == name && v.get(TODAY).is_some());
                if subresources.is_empty() && !was_there {
                    version.remove(TODAY);
                }
                let index = at.index(i);
                let parent = if self.proposed_for_all { path } else { &index };
                scale_rules(&scale, &parent.child(TODAY), errors);
                as_map(&mut scale).remove("statusReplicasPath");
                kept.insert("scale", scale);
            }
        }
        self.by_version = by_version;
    }
}

/// Turns `subResources` into `subresources`; returns true if there was one. If both are there, `subResources` wins: a patch
/// by the older name leaves the newer one as the client was shown it.
fn translate(parent: &mut Map, shown: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let Some(mut proposed) = parent.remove(PROPOSED) else { return false };
    let at = path.child(PROPOSED);
    if let Some(scale) = as_map(&mut proposed).get_mut("scale") {
        array_notation(scale, &at.child("scale"), errors);
        let group_version = as_map(scale).remove("groupVersion").unwrap_or_default();
        if !is_autoscaling_v1(&group_version) {
            let at = at.child("scale");
            errors.push(Error::not_supported(&at.child("groupVersion"), group_version, &["autoscaling/v1"]));
        }
    }
    let today = parent.get(TODAY).map(plain);
    let is_shown = |today: &Value| shown.and_then(|s| s.get(TODAY)).is_some_and(|s| plain(s) == *today);
    if today.is_some_and(|today| today != plain(&proposed) && !is_shown(&today)) {
        errors.push(Error::forbidden(&at, "subresources is set as well, and says something else"));
    } else {
        parent.insert(TODAY, proposed);
    }
    true
}

/// Subresources without an empty `statusReplicasPath`, which decoding puts in.
fn plain(subresources: &Value) -> Value {
    let mut plain = subresources.clone();
    if let Some(scale) = plain.get_mut("scale").and_then(Value::as_object_mut)
        && lacks_status_path(scale)
    {
        scale.remove("statusReplicasPath");
    }
    plain
}

fn lacks_status_path(scale: &Map) -> bool {
    scale.get("statusReplicasPath").is_none_or(|path| path.as_str() == Some(""))
}

/// The proposal's `schema.GroupVersion` has no JSON names; it may also be left out.
fn is_autoscaling_v1(group_version: &Value) -> bool {
    let is = |group: &str, version: &str| {
        let text = |field: &str| group_version.get(field).and_then(Value::as_str);
        text(group) == Some("autoscaling") && text(version) == Some("v1")
    };
    match group_version {
        Value::Null => true,
        Value::String(text) => text == "autoscaling/v1",
        _ => is("group", "version") || is("Group", "Version"),
    }
}

/// "Only JSON paths without the array notation are allowed" (S-14); v1 takes such a path for the name of a field.
fn array_notation(scale: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
        let json_path = scale.get(field).and_then(Value::as_str).unwrap_or_default();
        if json_path.contains(['[', ']']) {
            let detail = "must be a simple json path without array notation";
            errors.push(Error::invalid(&path.child(field), json_path, detail));
        }
    }
}

/// As v1's validation holds a scale that it sees, except that `statusReplicasPath` may be absent.
fn scale_rules(scale: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("scale");
    let mut rule = |field: &str, below: &[&str], detail: &str| {
        let at = path.child(field);
        let json_path = scale.get(field).and_then(Value::as_str).unwrap_or_default();
        let error = if json_path.is_empty() {
            (field == "specReplicasPath").then(|| Error::required(&at, ""))
        } else if !json_path.starts_with('.') {
            Some(Error::invalid(&at, json_path, "must be a simple json path starting with ."))
        } else {
            let is_below = below.iter().any(|prefix| json_path.starts_with(prefix));
            (!is_below).then(|| Error::invalid(&at, json_path, detail))
        };
        errors.extend(error.filter(|error| !errors.contains(error)));
    };
    rule("specReplicasPath", &[".spec."], "should be a json path under .spec");
    rule("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status");
}
