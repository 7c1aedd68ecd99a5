//! Conversion that a registration declares, without a webhook: the annotation [`RULES_ANNOTATION`] has, for each version, the rules
//! that lead from it to one version, the *hub*. Each rule has an inverse, by construction or, of expressions, as an expression of its own,
//! so the way back follows from it; whether the whole loses something depends on the schemas, and is tried when the annotation is set
//! ([`trial`]).
//!
//! Worked example: `{"hub":"v1","versions":{"v1beta1":[{"move":".spec.count","to":".spec.replicas"}]}}` shows
//! `spec.replicas: 3` of v1 as `spec.count: 3` of v1beta1, and the other way round.

mod expression;
mod rule;
mod trial;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_api::crd::{CustomResourceDefinition, condition};
use kindom_api::meta::Condition;
use kindom_api::{Map, Value, json};

use crate::Convert;
use crate::metadata::metadata_mut;
use crate::stored_registration::StoredRegistration;
use expression::{Allowance, EXPRESSION_BYTES};
use rule::Rule;

/// The annotation of a registration with the rules.
pub const RULES_ANNOTATION: &str = "conversion.kindom.dev/rules";

/// The annotation of an object, of a version that lacks them, with the values that rules keep: JSON, by path.
pub const KEPT_ANNOTATION: &str = "conversion.kindom.dev/kept";

/// The most rules of a version.
const RULES_MAX: usize = 256;
/// The most levels of an object between versions. Each rule may deepen it by some; whoever walks it does so on the stack.
const DEPTH_MAX: usize = 1024;
/// The most levels that all rules of a version may add to an object, each way: two ways are within the depth then.
const ADDED_MAX: usize = 256;
/// The most bytes of all expressions of a type.
const SOURCES_BYTES_MAX: usize = 32 << 10;

/// The rules of a type.
#[derive(Debug)]
pub struct DeclaredConversion {
    hub: String,
    versions: BTreeMap<String, Vec<Rule>>,
    evaluates: bool,
}

/// The values that an object has in its annotation, while it is converted.
type Kept = Map;

impl DeclaredConversion {
    /// The rules in an annotation.
    ///
    /// # Errors
    /// The place of a mistake, and what it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tree = json::parse(text.as_bytes()).map_err(|error| format!("must be JSON: {error}"))?;
        let map = tree.as_object().ok_or("must be a map of hub and versions")?;
        if let Some(other) = map.keys().find(|name| !["hub", "versions"].contains(name)) {
            return Err(format!("{other:?} is neither hub nor versions"));
        }
        let hub = tree.get("hub").and_then(Value::as_str).ok_or("hub must name a version")?.to_owned();
        let listed =
            tree.get("versions").and_then(Value::as_object).ok_or("versions must be a map of rules")?;
        let mut versions = BTreeMap::new();
        for (name, rules) in listed.iter() {
            let at = format!("versions.{name}");
            let rules = rules.as_array().ok_or_else(|| format!("{at} must be a list of rules"))?;
            if rules.len() > RULES_MAX {
                return Err(format!("{at} must have at most {RULES_MAX} rules"));
            }
            let rules = rules.iter().enumerate();
            let rules =
                rules.map(|(i, rule)| Rule::parse(name, rule).map_err(|why| format!("{at}[{i}]{why}")));
            versions.insert(name.to_owned(), rules.collect::<Result<_, _>>()?);
        }
        if versions.contains_key(&hub) {
            return Err(format!("versions.{hub} is the hub, which needs no rules"));
        }
        let sources: usize = versions.values().flatten().map(Rule::source_bytes).sum();
        if sources > SOURCES_BYTES_MAX {
            return Err(format!("expressions must have at most {SOURCES_BYTES_MAX} bytes together"));
        }
        let evaluates = sources > 0;
        Ok(Self { hub, versions, evaluates })
    }

    /// Those of a registration; `None` without the annotation. With one that is wrong, as another program or a later version of this
    /// one may have stored it, nothing is converted, so that nothing is lost.
    #[must_use]
    pub fn of(registration: StoredRegistration<'_>) -> Option<Arc<dyn Convert>> {
        let rules: Arc<dyn Convert> = match Self::parse(registration.annotation(RULES_ANNOTATION)?) {
            Ok(rules) => Arc::new(rules),
            Err(why) => Arc::new(Mistaken(why)),
        };
        Some(rules)
    }

    /// The mistake in an annotation's value for a registration; `None` if it is valid: it names versions that there are, and made-up
    /// objects of each come back from each other as they were.
    #[must_use]
    pub fn check(text: &str, registration: StoredRegistration<'_>) -> Option<String> {
        let rules = match Self::parse(text) {
            Ok(rules) => rules,
            Err(why) => return Some(why),
        };
        for (version, listed) in &rules.versions {
            let added = listed.iter().map(Rule::deepens).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            if added.0.max(added.1) > ADDED_MAX {
                return Some(format!(
                    "versions.{version} must not nest objects more than {ADDED_MAX} levels deeper"
                ));
            }
            for (place, rule) in listed.iter().enumerate() {
                if let Err(why) = rule.compile() {
                    return Some(format!("versions.{version}[{place}]{why}"));
                }
            }
        }
        if registration.converts_by_webhook() {
            return Some("needs spec.conversion.strategy None".to_owned());
        }
        let missing = |name: &&String| registration.version(name).is_none();
        if let Some(name) = [&rules.hub].into_iter().chain(rules.versions.keys()).find(missing) {
            return Some(format!("there is no version {name:?}"));
        }
        trial::loss(&rules, registration)
    }

    fn rules(&self, version: &str) -> &[Rule] {
        self.versions.get(version).map_or(&[], Vec::as_slice)
    }
}

/// The condition of a registration whose rules have expressions, which nothing proves to be each other's inverse. It has no time and no
/// generation yet.
#[must_use]
pub fn tested_condition(crd: &CustomResourceDefinition) -> Option<Condition> {
    let condition = |status: &str, reason: &str, message: String| {
        Some(Condition::new(condition::CONVERSION_TESTED, status, reason, message))
    };
    match DeclaredConversion::parse(crd.metadata.annotations.get(RULES_ANNOTATION)?) {
        Ok(rules) if rules.evaluates => condition("True", "Sampled", SAMPLED.to_owned()),
        Ok(_) => None,
        Err(why) => condition("False", "Unreadable", format!("{RULES_ANNOTATION}: {why}")),
    }
}

const SAMPLED: &str = "the expressions of conversion.kindom.dev/rules are tried when they are set, on objects that are made up from the schemas; that \
                       is a test and no proof, and texts with a meaning, such as durations, are seldom among them";

impl Convert for DeclaredConversion {
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, String> {
        // Each leg has its own: whether one has enough does not depend on the other.
        let allowance =
            |object: &Value| Allowance::for_object(if self.evaluates { object } else { &Value::Null });
        let mut object = object.clone();
        let mut kept = take_kept(&mut object);
        let at = |version: &str, place: usize, why: String| {
            format!("versions.{version}[{place}] of {RULES_ANNOTATION}: {why}")
        };
        if from != self.hub {
            let mut allowance = allowance(&object);
            for (place, rule) in self.rules(from).iter().enumerate() {
                rule.to_hub(&mut object, &mut kept, &mut allowance).map_err(|why| at(from, place, why))?;
            }
            within_depth(&object)?;
        }
        if to != self.hub {
            let mut allowance = allowance(&object);
            for (place, rule) in self.rules(to).iter().enumerate().rev() {
                rule.to_version(&mut object, &mut kept, &mut allowance).map_err(|why| at(to, place, why))?;
            }
            within_depth(&object)?;
        }
        put_kept(&mut object, kept);
        Ok(object)
    }

    fn refuses(&self) -> bool {
        self.evaluates
    }

    fn bytes_of_each(&self) -> usize {
        if self.evaluates { EXPRESSION_BYTES } else { 0 }
    }
}

fn within_depth(object: &Value) -> Result<(), String> {
    match object.nests_within(DEPTH_MAX) {
        true => Ok(()),
        false => Err(format!("{RULES_ANNOTATION} nests it deeper than {DEPTH_MAX} levels")),
    }
}

/// Rules that cannot be read, and why.
struct Mistaken(String);

impl Convert for Mistaken {
    fn convert(&self, _: &Value, _: &str, _: &str) -> Result<Value, String> {
        Err(format!("the annotation {RULES_ANNOTATION} of its registration cannot be read: {}", self.0))
    }
}

/// Takes the kept values out of an object. An annotation that is no map of values is dropped.
fn take_kept(object: &mut Value) -> Kept {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return Kept::new() };
    let Some(Value::String(text)) = annotations.remove(KEPT_ANNOTATION) else { return Kept::new() };
    if annotations.is_empty() {
        metadata_mut(object).remove("annotations");
    }
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(kept)) => kept,
        _ => Kept::new(),
    }
}

fn put_kept(object: &mut Value, kept: Kept) {
    if kept.is_empty() {
        return;
    }
    let annotations = metadata_mut(object).entry_or_insert_with("annotations", || Map::new().into());
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(KEPT_ANNOTATION, Value::Object(kept).to_string());
    }
}
