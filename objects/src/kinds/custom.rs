//! The rules of the objects of registered types (apiextensions `pkg/registry/customresource/strategy.go`, 1.37).

use std::collections::{BTreeSet, HashSet};

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::{coerce_metadata, validate_object_meta, validate_object_meta_update};
use kindom_api::names::split_api_version;
use kindom_schema::Others;
use kindom_schema::scale::{ScalePaths, Selectors};
use kindom_schema::whole;

use crate::confinement::{self, is_of_part};
use crate::declared_subresources::as_before;
use crate::kinds::generation;
use crate::metadata::metadata_mut;
use crate::{RuleContext, Strategy, Subresource};

/// The finalizers of the garbage collector and of namespaces (`validator.go`).
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The subresource that alone writes an object's status, where a version has it.
const STATUS: &str = "status";

fn has_status(cx: &RuleContext<'_>) -> bool {
    cx.spec.version(cx.version_name).is_some_and(|version| version.status)
}

fn scale<'a>(cx: &RuleContext<'a>) -> Option<&'a ScalePaths> {
    cx.spec.version(cx.version_name)?.scale.as_ref()
}

/// The objects whose label selectors have to be valid; `old` is the object before.
fn selectors<'a>(cx: &RuleContext<'_>, old: Option<&'a Value>) -> Selectors<'a> {
    let asked = cx.spec.registration.as_ref().is_some_and(|r| r.valid_selectors);
    if asked { Selectors::Valid(old) } else { Selectors::Any }
}

/// Returns true if an object's generation rises: for any change outside metadata, or for one of `spec` if the registration
/// chose the proposal's rule (S-03). Lists that are stored sorted do not change if only their order differs, nor values if they have one
/// canonical form (B-30).
fn is_new_generation(cx: &RuleContext<'_>, object: &Value, old: &Value) -> bool {
    let (forms, lists) = (cx.spec.canonical_forms(), cx.spec.sorted_lists());
    if forms.is_none() && lists.is_none() {
        return is_changed(cx, object, old);
    }
    let canonical = |object: &Value| {
        let mut object = object.clone();
        if let Some(forms) = forms {
            forms.take(&mut object);
        }
        if let Some(lists) = lists {
            lists.sort(&mut object);
        }
        object
    };
    is_changed(cx, &canonical(object), &canonical(old))
}

/// Counts a change anew, after the object was changed further.
pub(super) fn recount_generation(cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
    if is_new_generation(cx, object, old) {
        generation::next(object, old);
    } else {
        generation::keep(object, old);
    }
}

fn is_changed(cx: &RuleContext<'_>, object: &Value, old: &Value) -> bool {
    if cx.spec.registration.as_ref().is_some_and(|r| r.generation_of_spec) {
        return object.get("spec") != old.get("spec");
    }
    let skips_status = has_status(cx);
    let is_skipped = |field: &str| field == "metadata" || field == STATUS && skips_status;
    let fields = |o: &'_ Value| {
        let skipped =
            ["metadata", STATUS].into_iter().filter(|field| is_skipped(field) && o.get(field).is_some());
        o.as_object().map_or(0, |map| map.len() - skipped.count())
    };
    let same = fields(object) == fields(old)
        && object.as_object().is_some_and(|map| {
            map.iter().all(|(field, value)| is_skipped(field) || old.get(field) == Some(value))
        });
    !same
}

/// The errors of an object by its registration's whole schema.
fn whole_errors(cx: &RuleContext<'_>, object: &Value) -> ErrorList {
    match &cx.version.whole {
        None => ErrorList::new(),
        Some(Ok(schema)) => schema.validate(object),
        Some(Err(why)) => {
            let annotation = format!("annotation {} of its registration {why}", whole::ANNOTATION);
            Error::forbidden(&Path::root(), annotation).into()
        }
    }
}

/// The errors that the object did not have before; those that it had are warnings.
fn new_errors(
    object: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
    errors_in: impl Fn(&Value) -> ErrorList,
) -> ErrorList {
    let errors = errors_in(object);
    if errors.is_empty() {
        return errors;
    }
    let had: HashSet<String> = errors_in(old).iter().map(ToString::to_string).collect();
    let (old, new): (Vec<Error>, Vec<Error>) =
        errors.into_iter().partition(|error| had.contains(&error.to_string()));
    warnings.extend(old.iter().map(ToString::to_string));
    new.into_iter().collect()
}

/// A write to `/status` changes nothing else but who manages what (`status_strategy.go`, `PrepareForUpdate`; S-18, S-28).
/// The revision that it is based on has been checked.
fn keep_all_but_status(object: &mut Value, old: &Value) {
    let status = object.as_object_mut().and_then(|map| map.remove(STATUS));
    let kept = as_before(old, metadata_mut(object), &["managedFields", "resourceVersion"], Some(STATUS));
    *object = kept;
    if let (Some(status), Some(map)) = (status, object.as_object_mut()) {
        map.insert(STATUS, status);
    }
}

/// Objects of registered types: validated by their version's schema and by the rules of a Scale; `generation` counts changes
/// outside metadata, and outside status where `/status` alone writes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CustomObjects;

impl Strategy for CustomObjects {
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        mut unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let in_metadata = coerce_metadata(object).map_err(|e| e.to_string())?;
        // In upstream's order: first the object's metadata, then pruned fields, then embedded metadata.
        if let Some(unknown) = unknown.as_deref_mut() {
            unknown.extend(in_metadata);
        }
        let Some(schema) = &cx.version.schema else { return Ok(Vec::new()) };
        schema.reshape(object, unknown).map_err(|e| e.to_string())?;
        if !is_of_part(cx) {
            schema.fill_defaults(object).map_err(|e| e.to_string())?;
        }
        Ok(Vec::new())
    }

    fn complete_applied(&self, cx: &RuleContext<'_>, object: &mut Value) -> Result<(), String> {
        match &cx.version.schema {
            Some(schema) => {
                // Upstream stores what nobody knows and drops it whenever it is read.
                schema.prune(object, None);
                schema.fill_defaults(object).map_err(|e| e.to_string())
            }
            None => Ok(()),
        }
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, api_version: &str) -> &'static [&'static str] {
        let named = split_api_version(api_version).map(|(_, version)| version);
        let Some(version) = named.and_then(|name| cx.spec.version(name)).filter(|version| version.status)
        else {
            return &[];
        };
        match cx.subresource {
            // `getStatusResetFields` collects those of all versions, the main endpoint has only its own.
            Some(Subresource::Status) => &["metadata", "spec"],
            None if version.name == cx.version_name => &["status"],
            _ => &[],
        }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        if let Some(map) = object.as_object_mut().filter(|_| has_status(cx)) {
            map.remove("status");
        }
        generation::first(object);
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        let path = Path::new("metadata");
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let mut others = Others {
            metadata: validate_object_meta(metadata, cx.spec.namespaced(), &name_is_dns_subdomain, &path),
            scale: ErrorList::new(),
        };
        if let Some(scale) = scale(cx) {
            others.scale.extend(scale.validate_spec(object));
            others.scale.extend(scale.validate_status(object, selectors(cx, None)));
        }
        let errors = match &cx.version.schema {
            Some(schema) => schema.validate_with(object, others),
            None => others.without_schema(),
        };
        if errors.is_empty() { whole_errors(cx, object) } else { errors }
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        if cx.subresource == Some(Subresource::Status) {
            return keep_all_but_status(object, old);
        }
        let is_part = is_of_part(cx);
        if let Some(map) = object.as_object_mut().filter(|_| has_status(cx) && !is_part) {
            match old.get("status") {
                Some(status) => drop(map.insert("status", status.clone())),
                None => drop(map.remove("status")),
            }
        }
        if is_new_generation(cx, object, old) {
            generation::next(object, old);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList {
        let path = Path::new("metadata");
        let null = Value::Null;
        // Upstream's validator looks at the metadata too, after the generic rules did.
        let metadata = validate_object_meta_update(
            object.get("metadata").unwrap_or(&null),
            old.get("metadata").unwrap_or(&null),
            &path,
        );
        let mut others = Others { metadata, scale: ErrorList::new() };
        if let Some(scale) = scale(cx) {
            if cx.subresource != Some(Subresource::Status) {
                others.scale.extend(scale.validate_spec(object));
            }
            others.scale.extend(scale.validate_status(object, selectors(cx, Some(old))));
        }
        let Some(schema) = &cx.version.schema else { return others.without_schema() };
        let (errors, let_through) = match cx.subresource {
            Some(Subresource::Status) => schema.validate_status_update_telling(object, old, others),
            _ => schema.validate_update_telling(object, old, others),
        };
        warnings.extend(let_through.iter().map(ToString::to_string));
        if !errors.is_empty() {
            return errors;
        }
        let errors = new_errors(object, old, warnings, |object| whole_errors(cx, object));
        match errors.is_empty() {
            true => new_errors(object, old, warnings, |object| confinement::errors(cx, object)),
            false => errors,
        }
    }

    /// Upstream stores an apply's object as it was merged, and reads it as any other stored object. A status that was
    /// dropped may have a default, which it fills in when it reads the object again. Lists whose order has no meaning may
    /// have a stored order all the same (B-30).
    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value) {
        if let Some(schema) = &cx.version.schema {
            schema.repair(object);
        }
        if let Some(schema) = &cx.version.schema
            && has_status(cx)
            && object.get(STATUS).is_none()
        {
            // An object without room for its defaults is refused when it is read.
            if schema.default(object).is_err()
                && let Some(map) = object.as_object_mut()
            {
                map.remove(STATUS);
            }
        }
        if let Some(lists) = cx.spec.sorted_lists() {
            lists.sort(object);
        }
    }

    /// `generateWarningsFromObj`; new finalizers are listed once each, sorted. Those that are not qualified names are
    /// errors.
    fn warnings(&self, cx: &RuleContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if cx.subresource.is_some() {
            return Vec::new();
        }
        let finalizers = |object: &'_ Value| -> BTreeSet<String> {
            let listed = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
            listed.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let had = old.map(finalizers).unwrap_or_default();
        let added = finalizers(object).into_iter().filter(|finalizer| !had.contains(finalizer));
        added
            .filter(|finalizer| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()))
            .map(|finalizer| {
                let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
                format!(
                    "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers",
                    go_quote(&finalizer)
                )
            })
            .collect()
    }
}
