//! The writes that a webhook, a policy or a binding is about: its rules and selectors (`predicates/`, `policy/matching`).

use kindom_api::Value;
use kindom_api::selector::LabelSelector;

use super::rule::MatchRule;
use super::{Attributes, Place};
use crate::StoredObject;

/// The labels of a write's namespace, or of an object of it.
#[derive(Clone, Copy)]
pub enum Labels<'a> {
    /// There is no such object.
    None,
    /// Those of a stored object.
    Stored(&'a StoredObject),
    /// Those of an object's tree.
    Own(&'a Value),
}

impl Labels<'_> {
    fn meet(&self, selector: &LabelSelector) -> Option<bool> {
        match self {
            Self::None => None,
            Self::Stored(object) => Some(selector.matches(|key| object.label(key))),
            Self::Own(object) => Some(selector.matches(|key| label(object, key))),
        }
    }
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "labels"])?.get(key)?.as_str()
}

/// Names writes by resource, and selects them by labels.
#[derive(Debug)]
pub struct Matching {
    rules: Vec<MatchRule>,
    excluded: Vec<MatchRule>,
    /// A write whose resource no rule names matches.
    matches_without_rules: bool,
    matches_equivalents: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

fn rules(of: &Value, field: &str) -> Vec<MatchRule> {
    of.get(field).and_then(Value::as_array).unwrap_or_default().iter().map(MatchRule::of).collect()
}

impl Matching {
    fn of(matching: &Value, rules: Vec<MatchRule>, excluded: Vec<MatchRule>) -> Self {
        // A selector that is malformed selects nothing; none was stored.
        let selector = |field| match matching.get(field).filter(|selector| !selector.is_null()) {
            Some(selector) => LabelSelector::of_object(selector).unwrap_or_else(|_| LabelSelector::nothing()),
            None => LabelSelector::default(),
        };
        Self {
            rules,
            excluded,
            matches_without_rules: false,
            matches_equivalents: matching.text_at(&["matchPolicy"]) == "Equivalent",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// That of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        Self::of(webhook, rules(webhook, "rules"), Vec::new())
    }

    /// That of a policy or a binding (`MatchResources`).
    pub(super) fn of_resources(resources: &Value) -> Self {
        let (included, excluded) =
            (rules(resources, "resourceRules"), rules(resources, "excludeResourceRules"));
        let matches_without_rules = included.is_empty();
        Self { matches_without_rules, ..Self::of(resources, included, excluded) }
    }

    /// The resource and kind for which its rules name a write: the write's own, or else the first that is equivalent to it.
    #[must_use]
    pub fn place<'a>(
        &self,
        attributes: &'a Attributes<'_>,
        equivalents: impl FnOnce() -> &'a [Place],
    ) -> Option<&'a Place> {
        let by_own = |rules: &[MatchRule]| {
            rules.iter().any(|rule| rule.matches(attributes, &attributes.place.resource))
        };
        if self.excluded.is_empty() && by_own(&self.rules) {
            return Some(&attributes.place);
        }
        let equivalents = if self.matches_equivalents { equivalents() } else { &[] };
        let by_equivalent = |rules: &[MatchRule]| {
            rules.iter().find_map(|rule| {
                equivalents.iter().find(|equivalent| rule.matches(attributes, &equivalent.resource))
            })
        };
        if by_own(&self.excluded) || by_equivalent(&self.excluded).is_some() {
            return None;
        }
        if self.matches_without_rules || by_own(&self.rules) {
            return Some(&attributes.place);
        }
        by_equivalent(&self.rules)
    }

    /// Returns true if its selectors have the write's namespace, if it is in one, and one of its objects.
    #[must_use]
    pub fn selects(&self, namespace: Labels<'_>, object: Labels<'_>, old: Labels<'_>) -> bool {
        namespace.meet(&self.namespaces).unwrap_or(true)
            && (self.objects.is_empty()
                || [object, old].iter().any(|of| of.meet(&self.objects) == Some(true)))
    }

    /// Returns true if it asks for the labels of namespaces.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        !self.namespaces.is_empty()
    }
}
