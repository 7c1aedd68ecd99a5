//! CSINode (`pkg/registry/storage/csinode/strategy.go`, 1.37): the drivers of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{is_qualified_name, name_is_dns_subdomain};
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, age, name_column};

use super::{API_VERSION, of};
use crate::declared::Declared;
use crate::kinds::fields::{items, not_negative, part, same, text, texts};
use crate::kinds::pod_spec::sources;
use crate::kinds::status::{is_of_status, keep, keep_metadata, keep_other_part, reset};
use crate::kinds::{metadata_update, table_column};
use crate::{Names, RuleContext, Scope, Strategy, Subresource, TypeSpec};

static NODE: Declared = Declared::catalogued(API_VERSION, "CSINode");
const NODE_ID_MAX: usize = 256;

pub(super) fn nodes() -> TypeSpec {
    let columns = vec![
        name_column(),
        table_column(
            "Drivers",
            "integer",
            0,
            "Drivers indicates the number of CSI drivers registered on the node",
        ),
        table_column("Age", "string", 0, ""),
    ];
    of(
        Names::of_kind("csinodes", "CSINode"),
        Scope::Cluster,
        Columns::rows(columns, cells),
        Arc::new(CsiNodes),
    )
}

fn drivers(node: &Value) -> &[Value] {
    items(part(node, "spec"), "drivers")
}

/// `printCSINode`
fn cells(node: &Value, now: i64) -> Vec<Value> {
    let metadata = part(node, "metadata");
    vec![
        text(metadata, "name").into(),
        Value::Int(i64::try_from(drivers(node).len()).unwrap_or(i64::MAX)),
        age(text(metadata, "creationTimestamp"), now).into(),
    ]
}

/// The rules of CSINodes.
struct CsiNodes;

impl Strategy for CsiNodes {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&NODE)
    }

    fn known_versions(&self) -> &'static [&'static str] {
        &["storage.k8s.io/v1beta1"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource::Status]
    }

    fn reset_fields(&self, cx: &RuleContext<'_>, _: &str) -> &'static [&'static str] {
        if is_of_status(cx) { &["metadata", "spec"] } else { &["status"] }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, node: &mut Value) {
        reset(cx, node);
    }

    fn validate(&self, _: &RuleContext<'_>, node: &Value) -> ErrorList {
        validate(node)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, node: &mut Value, old: &Value) {
        keep_other_part(cx, node, old);
        if !is_of_status(cx) {
            return;
        }
        keep_metadata(node, old);
        // CSIVolumeHealth is off: the health of storage is kept only where there was some.
        let health = "storageHealth";
        if items(part(old, "status"), health).is_empty()
            && let Some(status) = node.get_mut("status")
        {
            keep(status, &Value::Null, health);
        }
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        node: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        if is_of_status(cx) {
            return metadata_update(node, old);
        }
        let mut errors = validate(node);
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in drivers(node) {
            by_name.entry(text(driver, "name")).or_default().push(driver);
        }
        for before in drivers(old) {
            for driver in by_name.get(text(before, "name")).into_iter().flatten() {
                let stays = |field: &str| same(driver.get(field), before.get(field));
                if !["nodeID", "topologyKeys"].into_iter().all(stays) {
                    // The count of volumes may change, and is not compared.
                    let mut shown = (*driver).clone();
                    keep(&mut shown, &Value::Null, "allocatable");
                    let shown = NODE.internal_item(&["spec", "drivers"], &shown);
                    let at = Path::new("spec");
                    errors.push(Error::invalid_raw(&at.child("drivers"), shown, "field is immutable"));
                }
            }
        }
        errors
    }
}

/// `ValidateCSINode`
fn validate(node: &Value) -> ErrorList {
    let at = Path::new("metadata");
    let mut errors = validate_object_meta(part(node, "metadata"), false, &name_is_dns_subdomain, &at);
    let path = Path::new("spec");
    let at = path.child("drivers");
    let mut names = BTreeSet::new();
    for (index, driver) in drivers(node).iter().enumerate() {
        let (at, name) = (at.index(index), text(driver, "name"));
        sources::validate_driver(name, &at.child("name"), &mut errors);
        let (id, at_id) = (text(driver, "nodeID"), at.child("nodeID"));
        if id.is_empty() {
            errors.push(Error::required(&at_id, ""));
        }
        if id.len() > NODE_ID_MAX {
            let detail = format!("must be {NODE_ID_MAX} characters or less");
            errors.push(Error::invalid(&at_id, id, detail));
        }
        not_negative(part(driver, "allocatable"), "count", &at.child("allocatable"), &mut errors);
        if !names.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        let mut keys = BTreeSet::new();
        for key in items(driver, "topologyKeys").iter().filter_map(Value::as_str) {
            if key.is_empty() {
                errors.push(Error::required(&at, ""));
            }
            if !keys.insert(key) {
                errors.push(Error::duplicate(&at, key));
            }
            texts(is_qualified_name(key), key, &at, &mut errors);
        }
    }
    errors
}
