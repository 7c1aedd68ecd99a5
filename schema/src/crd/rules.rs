//! The expressions of `x-kubernetes-validations`: that they compile, and that their cost is within bounds
//! (apiextensions-apiserver `pkg/apis/apiextensions/validation`, the part of `ValidateCustomResourceDefinitionOpenAPISchema`
//! about CEL, and `cel_validation.go`).
//!
//! To upstream's error about a rule that costs too much we add the missing bound, and a value that would fit.

use std::cell::OnceCell;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};

use super::props::{flag, go_rule, has, list, text};
use crate::rules::advice::{Costing, Level};
use crate::rules::compile::{Expression, compile};
use crate::rules::declare::Declared;

/// `StaticEstimatedCostLimit`: the most that one expression may cost, times the number of values in an object that it may
/// run on.
const RULE_COST_MAX: u64 = 10_000_000;
/// `StaticEstimatedCRDCostLimit`: the most that all may cost together.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// The cost from which an expression is listed among the most expensive ones.
const EXPENSIVE_MIN: u64 = SCHEMA_COST_MAX / 100;
/// The most expensive expressions that an error lists.
const EXPENSIVE_MAX: usize = 4;
/// The most expressions that get advice on the bounds that would make them fit: each takes many estimates.
const ADVICE_MAX: usize = 16;

/// The result of checking the expressions of one schema.
#[derive(Default)]
pub(super) struct Found {
    pub(super) errors: ErrorList,
    /// The schema has not changed, so that what its rules cost one by one is let through.
    unchanged: bool,
    total: u64,
    expensive: Vec<Expensive>,
    advised: usize,
}

struct Expensive {
    path: String,
    cost: u64,
    costing: Costing,
}

/// A schema and those around it that values are found by. Junctors are not among them.
pub(super) struct Scope<'a> {
    around: Option<(&'a Scope<'a>, Step<'a>)>,
    schema: &'a Value,
    path: &'a Path<'a>,
    /// `true` if it, or a schema around it, has rules.
    has_rules: bool,
    declared: OnceCell<Option<Declared>>,
}

/// The step from a schema to a schema within it.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Property(&'a str),
    /// The items of a list, or the values of a map.
    Element,
}

impl<'a> Scope<'a> {
    pub(super) fn root(schema: &'a Value, path: &'a Path<'a>) -> Self {
        let has_rules = has(schema, "x-kubernetes-validations");
        Self { around: None, schema, path, has_rules, declared: OnceCell::new() }
    }

    pub(super) fn child(&'a self, step: Step<'a>, schema: &'a Value, path: &'a Path<'a>) -> Self {
        let has_rules = self.has_rules || has(schema, "x-kubernetes-validations");
        Self { around: Some((self, step)), schema, path, has_rules, declared: OnceCell::new() }
    }

    /// The declaration that expressions see here; `None` if they see nothing, here or in a schema around it.
    pub(super) fn declared(&self) -> Option<&Declared> {
        let declare = || match self.around.filter(|(around, _)| around.has_rules) {
            None => {
                let is_root = self.around.is_none() || flag(self.schema, "x-kubernetes-embedded-resource");
                Declared::new(self.schema, is_root)
            }
            Some((around, Step::Property(name))) => around.declared()?.property(name, self.schema),
            Some((around, Step::Element)) => around.declared()?.element(),
        };
        self.declared.get_or_init(declare).as_ref()
    }

    /// The lists and maps around this.
    pub(super) fn levels(&self) -> Vec<Level> {
        let mut levels = Vec::new();
        let mut at = self.around;
        while let Some((scope, _)) = at {
            levels.extend(Level::of(scope.schema, scope.path));
            at = scope.around;
        }
        levels
    }
}

/// Checks the rules of one schema. `uncorrelatable` is the path of what keeps old values from being known here.
pub(super) fn check(scope: &Scope<'_>, uncorrelatable: Option<&str>, found: &mut Found) {
    let at = scope.path.child("x-kubernetes-validations");
    let Some(declared) = scope.declared() else {
        let detail = concat!(
            "internal error: failed to construct type information for x-kubernetes-validations rules: ",
            "unable to convert structural schema to CEL declarations"
        );
        found.errors.push(Error::internal(&at, detail));
        return;
    };
    let levels = scope.levels();
    for (i, rule) in list(scope.schema, "x-kubernetes-validations").iter().enumerate() {
        let at = at.index(i);
        let compiled = compile(rule, declared);
        let uses_old_self = compiled.uses_old_self();
        let rule_at = at.child("rule");
        match compiled.rule {
            Ok(None) => {}
            Ok(Some(Expression { checked, .. })) => {
                let costing = Costing::new(checked, &declared.decl, &levels);
                found.cost("estimated rule cost", costing, scope, &rule_at);
            }
            Err(text) => found.errors.push(Error::invalid_raw(&rule_at, go_rule(rule), text)),
        }
        let message_at = at.child("messageExpression");
        match compiled.message {
            None => {}
            Some(Ok(Expression { checked, .. })) => {
                // It runs for one failure only.
                let costing = Costing::new(checked, &declared.decl, &[]);
                found.cost("estimated messageExpression cost", costing, scope, &message_at);
            }
            Some(Err(text)) => found.errors.push(Error::invalid_raw(&message_at, go_rule(rule), text)),
        }
        if uses_old_self {
            if let Some(within) = uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                found.errors.push(Error::invalid(&rule_at, text(rule, "rule"), detail));
            }
        } else if let Some(optional) = rule.get("optionalOldSelf").and_then(Value::as_bool) {
            let detail = "may not be set if oldSelf is not used in rule";
            found.errors.push(Error::invalid(&at.child("optionalOldSelf"), optional, detail));
        }
    }
}

impl Found {
    pub(super) fn new(unchanged: bool) -> Self {
        Self { unchanged, ..Self::default() }
    }

    fn cost(&mut self, name: &str, mut costing: Costing, scope: &Scope<'_>, at: &Path<'_>) {
        let cost = costing.cost();
        self.total = self.total.saturating_add(cost);
        if cost < EXPENSIVE_MIN {
            return;
        }
        costing.find_missing(scope.schema, scope.path);
        if !self.unchanged && cost > RULE_COST_MAX {
            let advice = self.advice(&costing, RULE_COST_MAX);
            let detail = format!("{}{advice}", too_expensive(name, cost, RULE_COST_MAX));
            self.errors.push(Error::forbidden(at, detail));
        }
        self.expensive.push(Expensive { path: at.to_string(), cost, costing });
        self.expensive.sort_by_key(|rule| std::cmp::Reverse(rule.cost));
        self.expensive.truncate(EXPENSIVE_MAX);
    }

    fn advice(&mut self, costing: &Costing, cost_max: u64) -> String {
        self.advised += 1;
        if self.advised > ADVICE_MAX { String::new() } else { costing.advice(cost_max) }
    }

    /// Adds the errors about all expressions of a schema together.
    pub(super) fn total(&mut self, at: &Path<'_>, errors: &mut ErrorList) {
        if self.total <= SCHEMA_COST_MAX {
            return;
        }
        for rule in &self.expensive {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(Error { field: rule.path.clone(), ..Error::forbidden(&Path::root(), detail) });
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let mut detail = too_expensive(name, self.total, SCHEMA_COST_MAX);
        // The budget for the most expensive one if all others keep their cost.
        if let Some(rule) = self.expensive.first()
            && let Some(left) = SCHEMA_COST_MAX.checked_sub(self.total - rule.cost)
        {
            detail.push_str(&rule.costing.advice(left));
        }
        errors.push(Error::forbidden(at, detail));
    }
}

/// `getCostErrorMessage`
#[allow(clippy::cast_precision_loss, reason = "it is for reading")]
fn too_expensive(name: &str, cost: u64, max: u64) -> String {
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // Not to say 1.0.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
