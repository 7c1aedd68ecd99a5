//! Comparison of policy rules: the part of some rules that other rules do not grant.
//!
//! A rule grants the product of its groups, resources, verbs and names, so a role of 1.5 MB may grant 10^15 single permissions.
//! They are looked at only where the rules of the owner differ on them, and no more than a bounded number of times.
//!
//! Sources: component-helpers `auth/rbac/validation/policy_comparator.go` (0.37);
//! `pkg/registry/rbac/validation/policy_compact.go`, `pkg/apis/rbac/v1/evaluation_helpers.go` (1.37).

use std::collections::{BTreeMap, HashMap};

use kindom_api::field::go_quote;
use kindom_api::{Map, Value};

const ALL: &str = "*";

/// The most steps of one comparison; a step looks at one value of one of the owner's rules, or compares 64 bytes of a path.
pub const STEPS_MAX: usize = 10_000_000;
/// The most permissions that are listed as missing.
pub const MISSING_MAX: usize = 100_000;
/// The most bytes of text in the permissions that are listed as missing.
pub const MISSING_BYTES_MAX: usize = 16 << 20;

/// The rules grant too many permissions that differ for a comparison to list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rules grant too many permissions to compare")]
pub struct TooManyPermissions;

/// A rule of a role. A list that is absent is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyRule {
    /// The verbs; `*` is all.
    pub verbs: Vec<String>,
    /// The API groups; `*` is all.
    pub api_groups: Vec<String>,
    /// The resources, `plural` or `plural/subresource`; `*` is all, and `*/subresource` that of all resources.
    pub resources: Vec<String>,
    /// The names of objects; all objects if there are none.
    pub resource_names: Vec<String>,
    /// The paths that belong to no resource; a `*` at the end stands for any rest.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// The rule that an item of a role's `rules` is. Values that are no text are left out.
    #[must_use]
    pub fn from_tree(rule: &Value) -> Self {
        let list = |field: &str| {
            let values = rule.get(field).and_then(Value::as_array).unwrap_or_default();
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// The rule as an item of `rules`. Only `verbs` may be an empty list; others are left out.
    #[must_use]
    pub fn to_tree(&self) -> Value {
        let mut rule = Map::new();
        for (field, values) in self.lists() {
            if !values.is_empty() || field == "verbs" {
                let values = values.iter().map(|value| Value::from(value.as_str()));
                rule.insert(field, values.collect::<Vec<_>>());
            }
        }
        rule.into()
    }

    /// The rules of a role.
    #[must_use]
    pub fn list(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array).unwrap_or_default();
        rules.iter().map(Self::from_tree).collect()
    }

    fn lists(&self) -> [(&'static str, &[String]); 5] {
        [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ]
    }
}

/// The permissions of `servant` that no rule of `owner` grants, each as a rule of one value a list (`Covers`); in the order of
/// the rules, and of the values in them.
///
/// # Errors
/// [`TooManyPermissions`] past [`STEPS_MAX`], [`MISSING_MAX`] or [`MISSING_BYTES_MAX`]. At worst that takes some
/// 0.2 s, besides the reading of both lists, once.
pub fn missing<'a>(
    owner: impl IntoIterator<Item = &'a PolicyRule>,
    servant: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooManyPermissions> {
    let owners = Owners::new(owner);
    let mut found = Missing { steps: STEPS_MAX, bytes: MISSING_BYTES_MAX, rules: Vec::new() };
    for rule in servant {
        owners.compare_resources(rule, &mut found)?;
        owners.compare_urls(rule, &mut found)?;
    }
    Ok(found.rules)
}

/// The permissions found to be missing, and the rest of the bounds.
struct Missing {
    steps: usize,
    bytes: usize,
    rules: Vec<PolicyRule>,
}

impl Missing {
    fn step(&mut self, count: usize) -> Result<(), TooManyPermissions> {
        self.steps = self.steps.checked_sub(count).ok_or(TooManyPermissions)?;
        Ok(())
    }

    /// Lists a permission, whose texts have so many bytes.
    fn push(&mut self, bytes: usize, rule: impl FnOnce() -> PolicyRule) -> Result<(), TooManyPermissions> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TooManyPermissions)?;
        if self.rules.len() == MISSING_MAX {
            return Err(TooManyPermissions);
        }
        self.rules.push(rule());
        Ok(())
    }
}

/// The number of a text that the owner's rules have; none for any other.
type Number = Option<usize>;

/// The values of a list in one of the owner's rules.
struct Values {
    /// Every value is among them.
    all: bool,
    /// The numbers of their texts, in order.
    numbers: Vec<usize>,
}

impl Values {
    fn has(&self, value: Number) -> bool {
        self.all || value.is_some_and(|value| self.numbers.binary_search(&value).is_ok())
    }

    fn has_each(&self, values: &[Number], found: &mut Missing) -> Result<bool, TooManyPermissions> {
        if self.all {
            return Ok(true);
        }
        let has = values.iter().take_while(|value| self.has(**value)).count();
        found.step(has.saturating_add(1))?;
        Ok(has == values.len())
    }
}

/// A rule of the owner.
struct OwnerRule<'a> {
    verbs: Values,
    groups: Values,
    resources: Values,
    /// All of them if the rule has none.
    names: Values,
    urls: &'a [String],
}

/// The owner's rules, with numbers instead of texts: a text may be long and is compared often.
struct Owners<'a> {
    numbers: HashMap<&'a str, usize>,
    rules: Vec<OwnerRule<'a>>,
    /// The places of the rules that have a resource, by its number.
    by_resource: HashMap<usize, Vec<usize>>,
    of_all_resources: Vec<usize>,
    /// The rules of paths; a rule of certain names grants nothing that has no name.
    of_urls: Vec<usize>,
}

/// The lists of a rule of the servant, as the owner's numbers.
struct Servant {
    verbs: Vec<Number>,
    /// None if the rule is about all names.
    names: Option<Vec<Number>>,
}

impl<'a> Owners<'a> {
    fn new(rules: impl IntoIterator<Item = &'a PolicyRule>) -> Self {
        let mut owners = Self {
            numbers: HashMap::new(),
            rules: Vec::new(),
            by_resource: HashMap::new(),
            of_all_resources: Vec::new(),
            of_urls: Vec::new(),
        };
        for (place, rule) in rules.into_iter().enumerate() {
            let of_rule = OwnerRule {
                verbs: owners.values(&rule.verbs, true),
                groups: owners.values(&rule.api_groups, true),
                resources: owners.values(&rule.resources, true),
                names: Values {
                    all: rule.resource_names.is_empty(),
                    ..owners.values(&rule.resource_names, false)
                },
                urls: &rule.non_resource_urls,
            };
            if of_rule.resources.all {
                owners.of_all_resources.push(place);
            } else {
                for resource in &of_rule.resources.numbers {
                    owners.by_resource.entry(*resource).or_default().push(place);
                }
            }
            if of_rule.names.all && !of_rule.urls.is_empty() {
                owners.of_urls.push(place);
            }
            owners.rules.push(of_rule);
        }
        owners
    }

    fn values(&mut self, texts: &'a [String], has_wildcard: bool) -> Values {
        let numbers = texts.iter().map(|text| {
            let next = self.numbers.len();
            *self.numbers.entry(text).or_insert(next)
        });
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        Values { all: has_wildcard && texts.iter().any(|text| text == ALL), numbers }
    }

    fn number(&self, text: &str) -> Number {
        self.numbers.get(text).copied()
    }

    fn numbers(&self, texts: &[String]) -> Vec<Number> {
        texts.iter().map(|text| self.number(text)).collect()
    }

    /// The numbers under which the owner's rules may have a resource: its own, and that of its subresource of all resources.
    fn resource(&self, text: &str) -> [Number; 2] {
        let subresource = text.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        [self.number(text), subresource.and_then(|text| self.number(&text))]
    }

    /// The owner's rules that have a resource.
    fn with(&self, resource: [Number; 2]) -> impl Iterator<Item = &OwnerRule<'a>> {
        let named = resource.into_iter().flatten().filter_map(|number| self.by_resource.get(&number));
        let places = self.of_all_resources.iter().chain(named.flatten());
        places.filter_map(|place| self.rules.get(*place))
    }

    fn compare_resources(&self, rule: &PolicyRule, found: &mut Missing) -> Result<(), TooManyPermissions> {
        let servant = Servant {
            verbs: self.numbers(&rule.verbs),
            names: (!rule.resource_names.is_empty()).then(|| self.numbers(&rule.resource_names)),
        };
        let groups = self.numbers(&rule.api_groups);
        let resources: Vec<_> = rule.resources.iter().map(|resource| self.resource(resource)).collect();
        let Some(first) = resources.first() else { return Ok(()) };
        // Most often one rule grants all of it.
        for owner in self.with(*first) {
            found.step(1)?;
            if owner.groups.has_each(&groups, found)?
                && owner.has_resources(&resources, found)?
                && owner.grants_all(&servant, found)?
            {
                return Ok(());
            }
        }
        for (group, number) in rule.api_groups.iter().zip(&groups) {
            for (resource, numbers) in rule.resources.iter().zip(&resources) {
                let mut granting = Vec::new();
                let mut grants_all = false;
                found.step(1)?;
                for owner in self.with(*numbers) {
                    found.step(1)?;
                    if owner.groups.has(*number) {
                        grants_all = owner.grants_all(&servant, found)?;
                        if grants_all {
                            break;
                        }
                        granting.push(owner);
                    }
                }
                if !grants_all {
                    compare_verbs(rule, &servant, (group, resource), &granting, found)?;
                }
            }
        }
        Ok(())
    }

    fn compare_urls(&self, rule: &PolicyRule, found: &mut Missing) -> Result<(), TooManyPermissions> {
        let verbs = self.numbers(&rule.verbs);
        for url in &rule.non_resource_urls {
            let mut granting = Vec::new();
            for owner in self.of_urls.iter().filter_map(|place| self.rules.get(*place)) {
                if owner.has_url(url, found)? {
                    granting.push(owner);
                }
            }
            for (verb, number) in rule.verbs.iter().zip(&verbs) {
                found.step(granting.len().saturating_add(1))?;
                if !granting.iter().any(|owner| owner.verbs.has(*number)) {
                    found.push(url.len().saturating_add(verb.len()), || PolicyRule {
                        verbs: vec![verb.clone()],
                        non_resource_urls: vec![url.clone()],
                        ..PolicyRule::default()
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Compares the verbs, and then the names, of a group and a resource, for which these of the owner's rules are.
fn compare_verbs(
    rule: &PolicyRule,
    servant: &Servant,
    (group, resource): (&str, &str),
    granting: &[&OwnerRule<'_>],
    found: &mut Missing,
) -> Result<(), TooManyPermissions> {
    let atom = |verb: &str, name: Option<&String>| PolicyRule {
        verbs: vec![verb.to_owned()],
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        resource_names: name.into_iter().cloned().collect(),
        non_resource_urls: Vec::new(),
    };
    for (verb, number) in rule.verbs.iter().zip(&servant.verbs) {
        found.step(granting.len().saturating_add(1))?;
        let of_verb = granting.iter().filter(|owner| owner.verbs.has(*number));
        let bytes = [group, resource, verb].into_iter().map(str::len).fold(0, usize::saturating_add);
        let Some(names) = &servant.names else {
            if !of_verb.into_iter().any(|owner| owner.names.all) {
                found.push(bytes, || atom(verb, None))?;
            }
            continue;
        };
        let of_verb: Vec<_> = of_verb.collect();
        if of_verb.iter().any(|owner| owner.names.all) {
            continue;
        }
        for (name, number) in rule.resource_names.iter().zip(names) {
            found.step(of_verb.len().saturating_add(1))?;
            if !of_verb.iter().any(|owner| owner.names.has(*number)) {
                found.push(bytes.saturating_add(name.len()), || atom(verb, Some(name)))?;
            }
        }
    }
    Ok(())
}

impl OwnerRule<'_> {
    fn has_resources(
        &self,
        resources: &[[Number; 2]],
        found: &mut Missing,
    ) -> Result<bool, TooManyPermissions> {
        if self.resources.all {
            return Ok(true);
        }
        let has = |resource: &[Number; 2]| resource.iter().any(|number| self.resources.has(*number));
        let count = resources.iter().take_while(|resource| has(resource)).count();
        found.step(count.saturating_add(1))?;
        Ok(count == resources.len())
    }

    /// True if it has all verbs and all names, so that no pair of them has to be looked at.
    fn grants_all(&self, servant: &Servant, found: &mut Missing) -> Result<bool, TooManyPermissions> {
        let has_names = match &servant.names {
            None => self.names.all,
            Some(names) => self.names.has_each(names, found)?,
        };
        Ok(has_names && self.verbs.has_each(&servant.verbs, found)?)
    }

    /// `nonResourceURLsCoversAll`, of one.
    fn has_url(&self, url: &str, found: &mut Missing) -> Result<bool, TooManyPermissions> {
        for own in self.urls {
            found.step(1 + own.len().min(url.len()) / 64)?;
            let is_below = || own.ends_with('*') && url.starts_with(own.trim_end_matches('*'));
            if own == url || is_below() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Joins rules of one group, one resource and at most one name that differ in their verbs only (`CompactRules`). They come after
/// all others, by group, resource and name; upstream leaves their order to chance.
#[must_use]
pub fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted = Vec::new();
    let mut simple = BTreeMap::<(Vec<String>, Vec<String>, Vec<String>), Vec<String>>::new();
    for rule in rules {
        let is_simple = rule.api_groups.len() == 1
            && rule.resources.len() == 1
            && rule.resource_names.len() <= 1
            && rule.non_resource_urls.is_empty();
        if is_simple {
            let key = (rule.api_groups, rule.resources, rule.resource_names);
            simple.entry(key).or_default().extend(rule.verbs);
        } else {
            compacted.push(rule);
        }
    }
    let joined = |((api_groups, resources, resource_names), verbs)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls: Vec::new(),
    };
    compacted.extend(simple.into_iter().map(joined));
    compacted
}

/// A rule as errors show it: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}` (`CompactString`).
#[must_use]
pub fn compact_string(rule: &PolicyRule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let shown = lists.into_iter().filter(|(_, values)| !values.is_empty()).map(|(name, values)| {
        let values: Vec<String> = values.iter().map(|value| go_quote(value)).collect();
        format!("{name}:[{}]", values.join(" "))
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
