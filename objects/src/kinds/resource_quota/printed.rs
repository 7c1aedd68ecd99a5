//! The table of quotas (`printResourceQuota` of `pkg/printers/internalversion/printers.go`, 1.37).

use std::collections::BTreeMap;

use kindom_api::Value;

use crate::kinds::keyed::entries;

/// Used and allowed amounts, by the name of the resource; of limits alone, or of all others.
fn amounts(quota: &Value, of_limits: bool) -> Value {
    let null = Value::Null;
    let status = quota.get("status").unwrap_or(&null);
    let hard: BTreeMap<&str, &str> = entries(status, "hard").collect();
    let used: BTreeMap<&str, &str> = entries(status, "used").collect();
    let listed = hard.into_iter().filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let cells = listed.map(|(name, most)| {
        let used = used.get(name).copied().unwrap_or("0");
        format!("{name}: {used}/{most}")
    });
    cells.collect::<Vec<_>>().join(", ").into()
}

/// The amounts of all resources but limits.
pub(super) fn requests(quota: &Value) -> Value {
    amounts(quota, false)
}

/// The amounts of limits.
pub(super) fn limits(quota: &Value) -> Value {
    amounts(quota, true)
}
