//! The objects that the server keeps for itself, as `integration/kube-apiserver/flowcontrol` prints them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kindom_api::{Value, json, object};

use super::FlowKind;
use crate::kinds::fields::items;

/// The name of the level without limits, and the field with its shares.
const EXEMPT: &str = "exempt";

/// An object that the server keeps.
#[derive(Debug)]
pub struct DefaultObject {
    /// As it is made.
    pub object: Value,
    /// Its spec is the server's, and nobody else's (`internalbootstrap`).
    pub is_mandatory: bool,
}

static DEFAULTS: LazyLock<[BTreeMap<String, DefaultObject>; 2]> = LazyLock::new(|| {
    let all = match json::parse_own(include_bytes!("defaults.json")) {
        Ok(all) => all,
        Err(error) => unreachable!("invariant: the file is JSON: {error}"),
    };
    let of = |fields: [(&str, bool); 2]| {
        let objects = fields.into_iter().flat_map(|(field, is_mandatory)| {
            items(&all, field)
                .iter()
                .map(move |object| DefaultObject { object: object.clone(), is_mandatory })
        });
        objects.map(|default| (default.object.text_at(&["metadata", "name"]).to_owned(), default)).collect()
    };
    [
        of([("suggestedSchemas", false), ("mandatorySchemas", true)]),
        of([("suggestedLevels", false), ("mandatoryLevels", true)]),
    ]
});

impl FlowKind {
    /// The objects of the kind that the server keeps, by name (`flowcontrolbootstrap`).
    #[must_use]
    pub fn defaults(self) -> &'static BTreeMap<String, DefaultObject> {
        let [schemas, levels] = &*DEFAULTS;
        match self {
            Self::FlowSchema => schemas,
            Self::PriorityLevel => levels,
        }
    }

    /// Returns true if a stored object has the spec of this one; the shares of the level `exempt` may differ
    /// (`flowSchemaSpecEqual`, `plcSpecEqualish`).
    #[must_use]
    pub fn is_same(self, stored: &Value, default: &DefaultObject) -> bool {
        let has_shares = stored.at(&["spec", EXEMPT]).is_some_and(|shares| !shares.is_null());
        let needs_shares = default.object.at(&["spec", EXEMPT]).is_some();
        (has_shares || !needs_shares) && self.is_fixed(stored, default)
    }

    /// Returns true if an object has all of this one's spec that nobody may change: of the level `exempt`, all but its shares
    /// (`ValidateIfMandatoryPriorityLevelConfigurationObject`).
    pub(super) fn is_fixed(self, object: &Value, default: &DefaultObject) -> bool {
        if default.object.at(&["spec", EXEMPT]).is_none() {
            return self.declared().is_same(object, &default.object, "spec");
        }
        let [object, fixed] = [object, &default.object].map(|level| {
            let mut spec = level.get("spec").cloned().unwrap_or_default();
            spec.as_object_mut().map(|spec| spec.remove(EXEMPT));
            object! { "spec": spec }
        });
        self.declared().is_same(&object, &fixed, "spec")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_upstream() {
        let [schemas, levels] = [FlowKind::FlowSchema, FlowKind::PriorityLevel].map(|kind| {
            let all = kind.defaults();
            assert!(all.values().all(|default| kind.is_same(&default.object, default)));
            (all.len(), all.values().filter(|default| default.is_mandatory).count())
        });
        assert_eq!((schemas, levels), ((11, 2), (8, 2)));
        for default in FlowKind::FlowSchema.defaults().values() {
            let level = default.object.text_at(&["spec", "priorityLevelConfiguration", "name"]);
            assert!(FlowKind::PriorityLevel.defaults().contains_key(level), "{level}");
        }
    }

    #[test]
    fn the_shares_of_exempt_are_anybodys() {
        let exempt = &FlowKind::PriorityLevel.defaults()[EXEMPT];
        let with = |spec: &str| {
            let mut level = exempt.object.clone();
            level.as_object_mut().unwrap().insert("spec", json::parse(spec.as_bytes()).unwrap());
            let kind = FlowKind::PriorityLevel;
            (kind.is_same(&level, exempt), kind.is_fixed(&level, exempt))
        };
        assert_eq!(with(r#"{"type":"Exempt","exempt":{"nominalConcurrencyShares":7}}"#), (true, true));
        assert_eq!(with(r#"{"type":"Exempt"}"#), (false, true));
        assert_eq!(with(r#"{"type":"Limited","exempt":{"nominalConcurrencyShares":7}}"#), (false, false));
    }
}
