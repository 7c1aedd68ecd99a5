//! The part of a kind in quotas (`Evaluator` of apiserver `pkg/quota/v1/interfaces.go`, 1.37).

use std::collections::BTreeMap;

use kindom_api::Value;
use kindom_api::quantity::Quantity;

use crate::kinds::fields::{items, part, text};
use crate::subresource::Subresource;

/// Amounts of resources, by their names.
pub type Usage = BTreeMap<String, Quantity>;

/// The measure by which a kind's objects count toward quotas.
pub trait QuotaMeasure {
    /// The amounts that an object uses at a time (RFC 3339), besides that it is one more of its type. An absent
    /// amount is 0.
    fn usage(&self, object: &Value, now: &str) -> Usage;

    /// True for a write that may need more than there was.
    fn concerns(&self, subresource: Option<Subresource>, _new: &Value, _old: Option<&Value>) -> bool {
        subresource.is_none()
    }

    /// True if an object belongs to a scope; quotas with scopes count no other.
    fn is_in(&self, _object: &Value, _scope: &QuotaScope<'_>) -> bool {
        false
    }

    /// The reason why an object is refused that lacks the amounts of some of these.
    fn missing(&self, _object: &Value, _is_bounded: &dyn Fn(&str) -> bool) -> Option<String> {
        None
    }

    /// True if an update may have come to this object that made it use less.
    fn gives_back(&self, _object: &Value) -> bool {
        false
    }
}

/// Some of a namespace's objects.
#[derive(Debug, Clone, Copy)]
pub struct QuotaScope<'a> {
    /// Such as `BestEffort`.
    pub name: &'a str,
    operator: &'a str,
    values: &'a [Value],
}

impl QuotaScope<'_> {
    /// True if the operator accepts a value, which may be absent (`labels.Requirement.Matches`).
    #[must_use]
    pub fn takes(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.iter().any(|v| v.as_str() == Some(value)));
        match self.operator {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => is_listed,
            _ => !is_listed,
        }
    }
}

/// The scopes of a quota; an object that it counts belongs to all of them.
pub fn scopes(quota: &Value) -> impl Iterator<Item = QuotaScope<'_>> {
    let spec = part(quota, "spec");
    let named = items(spec, "scopes").iter().filter_map(Value::as_str);
    let named = named.map(|name| QuotaScope { name, operator: "Exists", values: &[] });
    let selected = items(part(spec, "scopeSelector"), "matchExpressions").iter().map(|selector| QuotaScope {
        name: text(selector, "scopeName"),
        operator: text(selector, "operator"),
        values: items(selector, "values"),
    });
    named.chain(selected)
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    #[test]
    fn an_operator_takes_values_and_their_absence() {
        let quota = json::parse(
            br#"{"spec":{"scopes":["BestEffort"],"scopeSelector":{"matchExpressions":[
                {"scopeName":"PriorityClass","operator":"In","values":["high","low"]},
                {"scopeName":"PriorityClass","operator":"NotIn","values":["high"]},
                {"scopeName":"PriorityClass","operator":"Exists"},
                {"scopeName":"PriorityClass","operator":"DoesNotExist"}]}}}"#,
        )
        .unwrap();
        let scopes: Vec<QuotaScope<'_>> = scopes(&quota).collect();
        assert_eq!(scopes[0].name, "BestEffort");
        let takes = |value| scopes[1..].iter().map(|scope| scope.takes(value)).collect::<Vec<_>>();
        assert_eq!(takes(Some("high")), [true, false, true, false]);
        assert_eq!(takes(Some("other")), [false, true, true, false]);
        assert_eq!(takes(None), [false, true, false, true]);
    }
}
