//! StorageClass (`pkg/registry/storage/storageclass/strategy.go`, 1.37).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, age, name_column};

use super::{API_VERSION, of, validate_parameters, validate_provisioner};
use crate::declared::Declared;
use crate::kinds::fields::{default_nil, items, part, present, same, text, texts};
use crate::kinds::{metadata_update, node_labels, table_column};
use crate::{Names, RuleContext, Scope, Strategy, TypeSpec};

static STORAGE_CLASS: Declared = Declared::catalogued(API_VERSION, "StorageClass");
const POLICIES: [&str; 2] = ["Delete", "Retain"];
const MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

pub(super) fn classes() -> TypeSpec {
    let column = |name: &str, field: &str| table_column(name, "string", 0, STORAGE_CLASS.text_of(&[field]));
    let columns = vec![
        name_column(),
        column("Provisioner", "provisioner"),
        column("ReclaimPolicy", "reclaimPolicy"),
        column("VolumeBindingMode", "volumeBindingMode"),
        column("AllowVolumeExpansion", "allowVolumeExpansion"),
        table_column("Age", "string", 0, ""),
    ];
    let names = Names { short_names: vec!["sc".into()], ..Names::of_kind("storageclasses", "StorageClass") };
    of(names, Scope::Cluster, Columns::rows(columns, cells), Arc::new(Classes))
}

/// `printStorageClass`
fn cells(class: &Value, now: i64) -> Vec<Value> {
    let metadata = part(class, "metadata");
    let or = |field: &str, otherwise: &'static str| {
        Value::from(present(class, field).and_then(Value::as_str).unwrap_or(otherwise))
    };
    vec![
        text(metadata, "name").into(),
        text(class, "provisioner").into(),
        or("reclaimPolicy", "Delete"),
        or("volumeBindingMode", "Immediate"),
        Value::Bool(part(class, "allowVolumeExpansion") == &Value::Bool(true)),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// The rules of StorageClasses.
struct Classes;

impl Strategy for Classes {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&STORAGE_CLASS)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1beta1"]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn fill_defaults(&self, class: &mut Value) {
        default_nil(class, "reclaimPolicy", "Delete");
        default_nil(class, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, _: &RuleContext<'_>, class: &Value) -> ErrorList {
        validate(class)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        class: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = validate(class);
        errors.append(&mut metadata_update(class, old));
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            if !same(class.get(field), old.get(field)) {
                errors.push(Error::invalid(&Path::new(field), Value::Null, "field is immutable"));
            }
        }
        errors
    }

    fn warnings(&self, _: &RuleContext<'_>, class: &Value, _: Option<&Value>) -> Vec<String> {
        let (all, mut warnings) = (Path::new("allowedTopologies"), Vec::new());
        for (index, term) in items(class, "allowedTopologies").iter().enumerate() {
            let at = all.index(index);
            let at = at.child("matchLabelExpressions");
            for (index, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
                let at = at.index(index);
                let advice = node_labels::advice(text(expression, "key"));
                warnings.extend(advice.map(|advice| format!("{}: {advice}", at.child("key"))));
            }
        }
        warnings
    }
}

/// `ValidateStorageClass`
fn validate(class: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(class, "metadata"), false, &name_is_dns_subdomain, &at);
    validate_provisioner(text(class, "provisioner"), &Path::new("provisioner"), &mut errors);
    validate_parameters(class, false, &mut errors);
    let policy = text(class, "reclaimPolicy");
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        errors.push(Error::not_supported(&Path::new("reclaimPolicy"), policy, &POLICIES));
    }
    let mode = text(class, "volumeBindingMode");
    if !MODES.contains(&mode) {
        errors.push(Error::not_supported(&Path::new("volumeBindingMode"), mode, &MODES));
    }
    validate_topologies(items(class, "allowedTopologies"), &mut errors);
    errors
}

/// `validateAllowedTopologies`
fn validate_topologies(terms: &[Value], errors: &mut ErrorList) {
    let all = Path::new("allowedTopologies");
    // Upstream's list of terms begins with as many empty ones: an empty term is there already, once for each.
    let empty = BTreeMap::new();
    let (mut seen, mut empties) = (HashSet::new(), terms.len());
    for (index, term) in terms.iter().enumerate() {
        let at = all.index(index);
        let at = at.child("matchLabelExpressions");
        let mut values_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (index, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
            let at = at.index(index);
            let (values, key) = (items(expression, "values"), text(expression, "key"));
            let at_values = at.child("values");
            if values.is_empty() {
                errors.push(Error::required(&at_values, ""));
            }
            let mut known = BTreeSet::new();
            for (index, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                if !known.insert(value) {
                    errors.push(Error::duplicate(&at_values.index(index), value));
                }
            }
            texts(is_qualified_name(key), key, &at.child("key"), errors);
            if values_of.insert(key, known).is_some() {
                errors.push(Error::duplicate(&at.child("key"), key));
            }
        }
        let is_empty = values_of == empty;
        if is_empty && empties > 0 || !is_empty && !seen.insert(values_of) {
            errors.push(Error::duplicate(&at, ""));
        }
        empties = empties.saturating_add(usize::from(is_empty));
    }
}
