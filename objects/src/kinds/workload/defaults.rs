//! The defaults of workloads (`pkg/apis/apps/v1/defaults.go`, 1.37).

use kindom_api::{Map, Value};

use super::Kind;
use crate::kinds::fields::{default_nil, default_zero, items_mut, present_mut, text};
use crate::kinds::pod_spec::defaults::{claim, fill as fill_pod};

const ROLLING_UPDATE: &str = "RollingUpdate";

/// A part that Go always has, made if it is absent.
fn part<'a>(of: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    default_nil(of, field, Map::new());
    of.get_mut(field)
}

pub(super) fn fill(kind: Kind, object: &mut Value) {
    let Some(spec) = part(object, "spec") else { return };
    match kind {
        Kind::Deployment => deployment(spec),
        Kind::ReplicaSet => default_nil(spec, "replicas", 1),
        Kind::StatefulSet => stateful_set(spec),
        Kind::DaemonSet => daemon_set(spec),
    }
    part(spec, "template").and_then(|template| part(template, "spec")).into_iter().for_each(fill_pod);
}

/// A rolling update with these values, where that is the strategy.
fn rolling(spec: &mut Value, field: &str, values: [(&str, Value); 2]) {
    let Some(strategy) = part(spec, field) else { return };
    default_zero(strategy, "type", ROLLING_UPDATE);
    if text(strategy, "type") == ROLLING_UPDATE
        && let Some(update) = part(strategy, "rollingUpdate")
    {
        values.into_iter().for_each(|(field, value)| default_nil(update, field, value));
    }
}

fn deployment(spec: &mut Value) {
    default_nil(spec, "replicas", 1);
    rolling(spec, "strategy", [("maxUnavailable", "25%".into()), ("maxSurge", "25%".into())]);
    default_nil(spec, "revisionHistoryLimit", 10);
    default_nil(spec, "progressDeadlineSeconds", 600);
}

fn daemon_set(spec: &mut Value) {
    rolling(spec, "updateStrategy", [("maxUnavailable", 1.into()), ("maxSurge", 0.into())]);
    default_nil(spec, "revisionHistoryLimit", 10);
}

fn stateful_set(spec: &mut Value) {
    default_zero(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = part(spec, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            default_zero(strategy, "type", ROLLING_UPDATE);
            default_nil(strategy, "rollingUpdate", Map::new());
        }
        let rolls = text(strategy, "type") == ROLLING_UPDATE;
        // A client that names the type alone keeps it alone.
        if let Some(update) = present_mut(strategy, "rollingUpdate").filter(|_| rolls) {
            default_nil(update, "partition", 0);
            default_nil(update, "maxUnavailable", 1);
        }
    }
    if let Some(retention) = part(spec, "persistentVolumeClaimRetentionPolicy") {
        default_zero(retention, "whenDeleted", "Retain");
        default_zero(retention, "whenScaled", "Retain");
    }
    default_nil(spec, "replicas", 1);
    default_nil(spec, "revisionHistoryLimit", 10);
    for template in items_mut(spec, "volumeClaimTemplates") {
        // They are written as objects of their own.
        default_zero(template, "apiVersion", "v1");
        default_zero(template, "kind", "PersistentVolumeClaim");
        if let Some(status) = part(template, "status") {
            default_zero(status, "phase", "Pending");
        }
        part(template, "spec").into_iter().for_each(claim);
    }
}
