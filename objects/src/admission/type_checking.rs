//! The warnings about expressions of a policy whose types are wrong for the objects that it is about
//! (`policy/validating/typechecking.go`, 1.37). They change nothing in how the policy judges.

use std::collections::BTreeMap;

use kindom_api::{GroupVersionKind, Value};

use super::environment::{Composition, Subjects};
use super::policy::{has_params, param_kind};
use crate::TypeSpec;

/// The kinds of one rule that are looked at (`maxTypesToCheck`), and those of a policy, which upstream does not bound.
const KINDS_OF_RULE_MAX: usize = 10;
const KINDS_MAX: usize = 100;
/// The bytes of expressions that are checked, of all kinds together: past them, kinds are left out.
const CHECKED_BYTES_MAX: usize = 2 << 20;
/// The bytes of all warnings of a policy, so that they fit beside it: those past them are left out.
const WARNING_BYTES_MAX: usize = 128 << 10;

/// A warning about an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// `spec.validations[0].expression`
    pub field: String,
    /// The issues for each kind of object.
    pub warning: String,
}

/// The types of the objects that a policy is about, and those of its parameters, as far as there are such types.
pub trait KnownTypes {
    /// Something that has the rules of a type.
    type Found: std::ops::Deref<Target = TypeSpec>;

    /// The types whose resource has this name in a served version of a group; an empty group means any, as client-go's RESTMapper
    /// has it.
    fn named(&self, group: &str, version: &str, resource: &str) -> Vec<Self::Found>;

    /// The type of a kind that is served.
    fn of_kind(&self, kind: &GroupVersionKind) -> Option<Self::Found>;
}

/// The warnings about the expressions of a `ValidatingAdmissionPolicy`, in their order.
#[must_use]
pub fn type_warnings(policy: &Value, types: &impl KnownTypes) -> Vec<ExpressionWarning> {
    static NONE: Value = Value::Null;
    let spec = policy.get("spec").unwrap_or(&NONE);
    let expressions = expressions(spec);
    let variables: Vec<(&str, &str)> = items(spec, "variables")
        .iter()
        .map(|of| (of.text_at(&["name"]), of.text_at(&["expression"])))
        .collect();
    let bytes: usize =
        expressions.iter().map(|(_, of)| of.len()).chain(variables.iter().map(|(_, of)| of.len())).sum();
    let has_params = has_params(spec);
    let param_kind = param_kind(spec);
    let params = types.of_kind(&param_kind).filter(|_| has_params);
    let params = params.and_then(|of| of.type_for_expressions(&param_kind.version));
    let params = params.map(|decl| decl.to_type()).unwrap_or_default();
    let mut issues: Vec<Vec<String>> = vec![Vec::new(); expressions.len()];
    let kinds = kinds(spec, types);
    let kinds_max = (CHECKED_BYTES_MAX / bytes.max(1)).max(1);
    for (kind, of_kind) in kinds.into_iter().take(kinds_max) {
        let object = of_kind.type_for_expressions(&kind.version).map(|decl| decl.to_type());
        let subjects = Subjects { object: object.unwrap_or_default(), params: params.clone() };
        let mut composition = Composition::of_types(has_params, subjects);
        for (name, source) in &variables {
            composition.declare(name, source);
        }
        for ((_, source), found) in expressions.iter().zip(&mut issues) {
            if let Some(text) = composition.issues(source) {
                let GroupVersionKind { group, version, kind } = &kind;
                found.push(format!("{group}/{version}, Kind={kind}: {text}\n"));
            }
        }
    }
    let mut left = WARNING_BYTES_MAX;
    let warnings = expressions.into_iter().zip(issues).filter(|(_, issues)| !issues.is_empty());
    let warnings =
        warnings.map(|((field, _), issues)| ExpressionWarning { field, warning: issues.join("\n") });
    let fits = |warning: &ExpressionWarning| {
        let bytes = warning.field.len() + warning.warning.len();
        let fits = bytes <= left;
        left -= if fits { bytes } else { 0 };
        fits
    };
    warnings.filter(fits).collect()
}

/// The expressions that are checked, with their fields.
fn expressions(spec: &Value) -> Vec<(String, &str)> {
    let mut expressions = Vec::new();
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        let at = |field: &str| format!("spec.validations[{index}].{field}");
        expressions.push((at("expression"), validation.text_at(&["expression"])));
        match validation.text_at(&["messageExpression"]) {
            "" => {}
            made => expressions.push((at("messageExpression"), made)),
        }
    }
    expressions
}

/// The kinds that the rules of a policy name, without wildcards, and their types (`typesToCheck`).
fn kinds<T: KnownTypes>(spec: &Value, types: &T) -> BTreeMap<GroupVersionKind, T::Found> {
    let mut kinds = BTreeMap::new();
    for rule in spec.get("matchConstraints").map(|of| items(of, "resourceRules")).unwrap_or_default() {
        let (groups, versions) = (names(rule, "apiGroups"), names(rule, "apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let mut resources = names(rule, "resources");
        resources.retain(|name| !name.contains(['*', '/']));
        let mut of_rule = 0;
        for group in groups {
            for version in &versions {
                for resource in &resources {
                    for found in types.named(group, version, resource) {
                        let kind = GroupVersionKind::new(&found.group, *version, &found.names.kind);
                        kinds.insert(kind, found);
                        of_rule += 1;
                        if of_rule == KINDS_OF_RULE_MAX || kinds.len() == KINDS_MAX {
                            return kinds;
                        }
                    }
                }
            }
        }
    }
    kinds
}

fn names<'v>(rule: &'v Value, field: &str) -> Vec<&'v str> {
    let mut names: Vec<&str> = items(rule, field).iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}

fn items<'v>(of: &'v Value, field: &str) -> &'v [Value] {
    of.get(field).and_then(Value::as_array).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kindom_api::object;

    use super::*;
    use crate::kinds::CustomObjects;
    use crate::{Names, Scope};

    /// Has a type of whatever name is asked for.
    struct Everything;

    impl KnownTypes for Everything {
        type Found = Arc<TypeSpec>;

        fn named(&self, group: &str, _: &str, resource: &str) -> Vec<Arc<TypeSpec>> {
            let names = Names::of_kind(resource, resource);
            let strategy = Arc::new(CustomObjects);
            vec![Arc::new(TypeSpec::built_in(group, names, Scope::Cluster, Vec::new(), strategy))]
        }

        fn of_kind(&self, _: &GroupVersionKind) -> Option<Arc<TypeSpec>> {
            None
        }
    }

    fn warnings(rules: Vec<Value>, expressions: &[String]) -> Vec<ExpressionWarning> {
        let validations: Vec<Value> =
            expressions.iter().map(|of| object! { "expression": of.as_str() }).collect();
        let spec =
            object! { "matchConstraints": object! { "resourceRules": rules }, "validations": validations };
        type_warnings(&object! { "spec": spec }, &Everything)
    }

    fn rule(group: String, kinds: usize) -> Value {
        let resources: Vec<Value> = (0..kinds).map(|index| format!("kind{index:03}").into()).collect();
        object! { "apiGroups": vec![group], "apiVersions": vec!["v1"], "resources": resources }
    }

    fn kinds_in(warning: &ExpressionWarning) -> usize {
        warning.warning.matches(", Kind=").count()
    }

    #[test]
    fn kinds_are_bounded() {
        let wrong = ["1 == 'x'".to_owned()];
        let found = warnings(vec![rule("a".into(), 9)], &wrong);
        assert_eq!((found.len(), kinds_in(found.first().unwrap())), (1, 9));
        // A rule with more ends the search.
        let found = warnings(vec![rule("a".into(), 11), rule("b".into(), 1)], &wrong);
        assert_eq!(kinds_in(found.first().unwrap()), KINDS_OF_RULE_MAX);
        let many = (0..200).map(|index| rule(format!("g{index}"), 9)).collect();
        assert_eq!(kinds_in(warnings(many, &wrong).first().unwrap()), KINDS_MAX);
    }

    #[test]
    fn expressions_and_warnings_are_bounded() {
        let mut expressions = vec![format!("'{}' == ''", "a".repeat(90_000)); 10];
        expressions.push("1 == 'x'".to_owned());
        let found = warnings(vec![rule("a".into(), 9)], &expressions);
        assert_eq!(kinds_in(found.first().unwrap()), 2, "of 900 KB, twice is less than the bound");
        // Each line is in its warning twice, for each kind.
        let long = format!("1 == '{}'", "a".repeat(15_000));
        let found = warnings(vec![rule("a".into(), 9)], &[long, "1 == 'x'".to_owned()]);
        let fields: Vec<&str> = found.iter().map(|of| of.field.as_str()).collect();
        assert_eq!(fields, ["spec.validations[1].expression"]);
    }
}
