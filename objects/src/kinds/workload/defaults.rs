//! The defaults of workloads (`pkg/apis/apps/v1/defaults.go`, 1.37).

use kindom_api::{Map, Value, object};

use super::Kind;
use crate::kinds::pod_spec::defaults::{claim, fill as fill_pod};

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

fn set(of: &mut Map, field: &str, value: impl Into<Value>) {
    if is_empty(of.get(field)) {
        of.insert(field, value);
    }
}

fn map<'a>(of: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    if is_empty(of.get(field)) {
        of.insert(field, object! {});
    }
    of.get_mut(field).and_then(Value::as_object_mut)
}

pub(super) fn fill(kind: Kind, object: &mut Value) {
    let Some(spec) = object.as_object_mut().and_then(|object| map(object, "spec")) else { return };
    match kind {
        Kind::Deployment => deployment(spec),
        Kind::ReplicaSet => set(spec, "replicas", 1),
        Kind::StatefulSet => stateful_set(spec),
        Kind::DaemonSet => daemon_set(spec),
    }
    if let Some(template) = map(spec, "template") {
        let _ = map(template, "spec");
        template.get_mut("spec").into_iter().for_each(fill_pod);
    }
}

/// A rolling update with these values, where that is the strategy.
fn rolling(spec: &mut Map, field: &str, values: &[(&str, Value)]) {
    let Some(strategy) = map(spec, field) else { return };
    set(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(update) = map(strategy, "rollingUpdate")
    {
        values.iter().for_each(|(field, value)| set(update, field, value.clone()));
    }
}

fn deployment(spec: &mut Map) {
    set(spec, "replicas", 1);
    rolling(spec, "strategy", &[("maxUnavailable", "25%".into()), ("maxSurge", "25%".into())]);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
}

fn daemon_set(spec: &mut Map) {
    rolling(spec, "updateStrategy", &[("maxUnavailable", 1.into()), ("maxSurge", 0.into())]);
    set(spec, "revisionHistoryLimit", 10);
}

fn stateful_set(spec: &mut Map) {
    set(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = map(spec, "updateStrategy") {
        if is_empty(strategy.get("type")) {
            strategy.insert("type", "RollingUpdate");
            let _ = map(strategy, "rollingUpdate");
        }
        let rolls = strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate");
        // A client that names the type alone keeps it alone.
        if let Some(update) =
            strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut).filter(|_| rolls)
        {
            set(update, "partition", 0);
            set(update, "maxUnavailable", 1);
        }
    }
    if let Some(retention) = map(spec, "persistentVolumeClaimRetentionPolicy") {
        set(retention, "whenDeleted", "Retain");
        set(retention, "whenScaled", "Retain");
    }
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
    for template in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
        // They are written as objects of their own.
        set(template, "apiVersion", "v1");
        set(template, "kind", "PersistentVolumeClaim");
        if let Some(status) = map(template, "status") {
            set(status, "phase", "Pending");
        }
        let _ = map(template, "spec");
        template.get_mut("spec").into_iter().for_each(claim);
    }
}
