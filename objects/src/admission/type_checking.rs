//! The warnings about expressions of a policy whose types are wrong for the objects that it is about
//! (`policy/validating/typechecking.go`, 1.37). They change nothing in how the policy judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::ops::Deref;

use kindom_api::{GroupVersionKind, Value};
use kindom_cel::parse::Issues;

use super::environment::{Composition, Subjects};
use super::policy::{has_params, param_kind};
use crate::TypeSpec;
use crate::kinds::fields::{items, part, text};

/// The kinds of one rule that are looked for (`maxTypesToCheck`), and those of a policy, which upstream does not bound.
const KINDS_OF_RULE_MAX: usize = 10;
const KINDS_MAX: usize = 50;
/// The bytes of expressions that are checked, of all kinds together: past them, kinds are left out.
const CHECKED_BYTES_MAX: usize = 2 << 20;
/// The bytes of all issues, and of those of one expression and kind. Each issue shows its line, which may be long.
const ISSUES_BYTES_MAX: usize = 64 << 10;
const ISSUE_BYTES_MAX: usize = 8 << 10;
/// The end of issues that are not all there.
const CUT: &str = "… (cut)";
/// The end of the last warning, if there are more.
const LEFT_OUT: &str = "further warnings are left out\n";

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
    type Found: Deref<Target = TypeSpec> + Clone;

    /// The types of this plural or singular name, of any group, in the order of their groups.
    fn named(&self, resource: &str) -> Vec<Self::Found>;

    /// The type of a kind that is served.
    fn of_kind(&self, kind: &GroupVersionKind) -> Option<Self::Found>;

    /// False once the check has taken too long: then kinds are left out.
    fn has_time(&self) -> bool {
        true
    }
}

/// The warnings about the expressions of a `ValidatingAdmissionPolicy`, in their order.
#[must_use]
pub fn type_warnings(policy: &Value, types: &impl KnownTypes) -> Vec<ExpressionWarning> {
    let spec = part(policy, "spec");
    let expressions = expressions(spec);
    let variables = items(spec, "variables").iter();
    let variables: Vec<(&str, &str)> =
        variables.map(|of| (text(of, "name"), text(of, "expression"))).collect();
    let sources = expressions.iter().map(|(_, source)| source.len());
    let bytes: usize = sources.chain(variables.iter().map(|(_, source)| source.len())).sum();
    let has_params = has_params(spec);
    let param_kind = param_kind(spec);
    let params = types.of_kind(&param_kind).filter(|_| has_params);
    // Objects of one kind have two types, as upstream's have, whose names it tells apart by a number.
    let name = format!("params.{}", param_kind.kind);
    let params = params.and_then(|of| of.type_for_expressions(&param_kind.version, &name));
    let params = params.map(|decl| decl.to_type()).unwrap_or_default();
    let mut issues = FoundIssues {
        of_expressions: vec![Vec::new(); expressions.len()],
        left: ISSUES_BYTES_MAX,
        is_over: false,
    };
    let kinds_max = (CHECKED_BYTES_MAX / bytes.max(1)).max(1);
    for (kind, found) in kinds(spec, types).into_iter().take(kinds_max) {
        if !types.has_time() {
            break;
        }
        // Upstream leaves out kinds without a schema.
        let Some(object) = found.type_for_expressions(&kind.version, &kind.kind) else { continue };
        let subjects = Subjects { object: object.to_type(), params: params.clone() };
        let mut composition = Composition::of_types(has_params, subjects);
        for (name, source) in &variables {
            composition.declare(name, source);
        }
        for (place, (_, source)) in expressions.iter().enumerate() {
            if types.has_time()
                && let Some(of_kind) = composition.issues(source)
            {
                issues.add(place, &kind, &of_kind);
            }
        }
    }
    let warning = |((field, _), issues): ((String, &str), Vec<String>)| {
        (!issues.is_empty()).then(|| ExpressionWarning { field, warning: issues.join("\n") })
    };
    let is_over = issues.is_over;
    let mut warnings: Vec<_> =
        expressions.into_iter().zip(issues.of_expressions).filter_map(warning).collect();
    if let Some(last) = warnings.last_mut().filter(|_| is_over) {
        last.warning.push_str(LEFT_OUT);
    }
    warnings
}

/// The issues of expressions, in bounds.
struct FoundIssues {
    /// By the places of the expressions.
    of_expressions: Vec<Vec<String>>,
    /// The bytes that more of them may take.
    left: usize,
    /// There are more than had room.
    is_over: bool,
}

impl FoundIssues {
    fn add(&mut self, place: usize, kind: &GroupVersionKind, issues: &Issues) {
        let Some(known) = self.of_expressions.get_mut(place) else { return };
        if self.left == 0 {
            self.is_over = true;
            return;
        }
        let GroupVersionKind { group, version, kind } = kind;
        let mut bounded = BoundedText { text: String::new(), left: self.left.min(ISSUE_BYTES_MAX) };
        let is_whole = write!(bounded, "{group}/{version}, Kind={kind}: {issues}").is_ok();
        let mut text = bounded.text;
        self.left = if is_whole {
            self.left.saturating_sub(text.len())
        } else {
            self.left.saturating_sub(ISSUE_BYTES_MAX)
        };
        text.push_str(if is_whole { "\n" } else { CUT });
        known.push(text);
    }
}

/// A text that takes no more than some bytes.
struct BoundedText {
    text: String,
    left: usize,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = more.floor_char_boundary(self.left);
        self.text.push_str(more.get(..end).unwrap_or_default());
        self.left -= end;
        if end == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The expressions that are checked, with their fields.
fn expressions(spec: &Value) -> Vec<(String, &str)> {
    let mut expressions = Vec::new();
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        let at = |field: &str| format!("spec.validations[{index}].{field}");
        expressions.push((at("expression"), text(validation, "expression")));
        match text(validation, "messageExpression") {
            "" => {}
            made => expressions.push((at("messageExpression"), made)),
        }
    }
    expressions
}

/// The kinds that the rules of a policy name, without wildcards, and their types (`typesToCheck`). Rules behind one that names too
/// many are left out.
fn kinds<T: KnownTypes>(spec: &Value, types: &T) -> BTreeMap<GroupVersionKind, T::Found> {
    let mut kinds = BTreeMap::new();
    for rule in items(part(spec, "matchConstraints"), "resourceRules") {
        if !types.has_time() {
            break;
        }
        let mut of_rule = 0;
        for (kind, found) in kinds_of_rule(rule, types) {
            kinds.insert(kind, found);
            of_rule += 1;
            if of_rule == KINDS_OF_RULE_MAX || kinds.len() == KINDS_MAX {
                return kinds;
            }
        }
    }
    kinds
}

/// The kinds that one rule names, by their groups, versions and resources as the rule has them. Each resource is looked for once, as
/// rules may have a great many of all three.
fn kinds_of_rule<T: KnownTypes>(rule: &Value, types: &T) -> Vec<(GroupVersionKind, T::Found)> {
    let (groups, versions) = (names(rule, "apiGroups"), names(rule, "apiVersions"));
    if groups.iter().chain(&versions).any(|name| name.contains('*')) {
        return Vec::new();
    }
    let mut named = Vec::new();
    for resource in names(rule, "resources").into_iter().filter(|name| !name.contains(['*', '/'])) {
        for found in types.named(resource) {
            let served = found.versions.iter().filter(|version| version.served);
            for version in served.filter(|version| versions.contains(version.name.as_str())) {
                // client-go's RESTMapper takes the empty group for any.
                let of_groups = ["", found.group.as_str()].into_iter().filter(|group| groups.contains(group));
                for group in of_groups.collect::<BTreeSet<_>>() {
                    named.push((group.to_owned(), version.name.clone(), resource, found.clone()));
                }
            }
        }
    }
    named.sort_by(|a, b| (&a.0, &a.1, a.2, &a.3.group).cmp(&(&b.0, &b.1, b.2, &b.3.group)));
    let kind = |(_, version, _, found): (String, String, &str, T::Found)| {
        (GroupVersionKind::new(&found.group, version, &found.names.kind), found)
    };
    named.into_iter().map(kind).collect()
}

fn names<'v>(rule: &'v Value, field: &str) -> BTreeSet<&'v str> {
    items(rule, field).iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use kindom_api::object;

    use super::*;
    use crate::kinds::{Profile, built_in};

    /// Has ConfigMaps in some groups under every name but those that begin with `x`.
    struct Everywhere {
        types: Vec<Arc<TypeSpec>>,
        asked: Cell<usize>,
        /// The number of questions for which there is time.
        time: usize,
    }

    impl Everywhere {
        fn new(groups: usize) -> Self {
            let of_group = |group: usize| {
                let built_in =
                    built_in(Profile::ControlPlane, &crate::kinds::service::ServiceNetwork::default());
                let spec = built_in.into_iter().find(|spec| spec.names.kind == "ConfigMap").unwrap();
                Arc::new(TypeSpec { group: format!("g{group:03}"), ..spec })
            };
            Self { types: (0..groups).map(of_group).collect(), asked: Cell::default(), time: usize::MAX }
        }

        fn warnings(&self, rules: Vec<Value>, expressions: &[String]) -> Vec<ExpressionWarning> {
            let validations: Vec<Value> =
                expressions.iter().map(|of| object! { "expression": of.as_str() }).collect();
            let constraints = object! { "resourceRules": rules };
            let spec = object! { "matchConstraints": constraints, "validations": validations };
            type_warnings(&object! { "spec": spec }, self)
        }
    }

    impl KnownTypes for Everywhere {
        type Found = Arc<TypeSpec>;

        fn named(&self, resource: &str) -> Vec<Arc<TypeSpec>> {
            if resource.starts_with('x') { Vec::new() } else { self.types.clone() }
        }

        fn of_kind(&self, _: &GroupVersionKind) -> Option<Arc<TypeSpec>> {
            None
        }

        fn has_time(&self) -> bool {
            self.asked.set(self.asked.get() + 1);
            self.asked.get() <= self.time
        }
    }

    /// A rule about these groups.
    fn rule(groups: std::ops::Range<usize>) -> Value {
        let groups: Vec<Value> = groups.map(|group| format!("g{group:03}").into()).collect();
        object! { "apiGroups": groups, "apiVersions": vec!["v1"], "resources": vec!["things"] }
    }

    fn kinds_in(warnings: &[ExpressionWarning]) -> usize {
        warnings.iter().map(|of| of.warning.matches(", Kind=").count()).sum()
    }

    #[test]
    fn kinds_are_bounded() {
        let (all, wrong) = (Everywhere::new(200), ["object.data > 'x'".to_owned()]);
        let found = all.warnings(vec![rule(0..9)], &wrong);
        assert_eq!((found.len(), kinds_in(&found)), (1, 9));
        assert!(found.first().unwrap().warning.starts_with("g000/v1, Kind=ConfigMap: ERROR: "), "{found:?}");
        // A rule with more ends the search.
        assert_eq!(kinds_in(&all.warnings(vec![rule(0..11), rule(20..21)], &wrong)), KINDS_OF_RULE_MAX);
        let rules = (0..20).map(|index| rule(9 * index..9 * index + 9)).collect();
        assert_eq!(kinds_in(&all.warnings(rules, &wrong)), KINDS_MAX);
    }

    #[test]
    fn names_of_no_type_cost_their_bytes() {
        let many =
            |letter: &str| (0..20_000).map(|index| format!("{letter}{index}").into()).collect::<Vec<Value>>();
        let rule = object! { "apiGroups": many("g"), "apiVersions": many("v"), "resources": many("x") };
        assert_eq!(Everywhere::new(200).warnings(vec![rule], &["1 == 'x'".to_owned()]), []);
    }

    #[test]
    fn expressions_and_warnings_are_bounded() {
        let all = Everywhere::new(9);
        let mut expressions = vec![format!("'{}' == ''", "a".repeat(90_000)); 10];
        expressions.push("1 == 'x'".to_owned());
        let found = all.warnings(vec![rule(0..9)], &expressions);
        assert_eq!(kinds_in(&found), 2, "of 900 KB, twice is less than the bound");
        // Each line is in its warning twice, for each kind.
        let long = format!("1 == '{}'", "ä".repeat(7_000));
        let found = all.warnings(vec![rule(0..9)], &[long, "1 == 'x'".to_owned()]);
        let [long, short] = found.as_slice() else { panic!("{found:?}") };
        assert!(long.warning.len() < ISSUES_BYTES_MAX + 1_000 && long.warning.contains(CUT));
        assert!(!long.warning.contains(LEFT_OUT) && short.warning.ends_with(LEFT_OUT), "{short:?}");
        // However many there are.
        let found = all.warnings(vec![rule(0..9)], &vec!["1 == 'x'".to_owned(); 5_000]);
        let bytes: usize = found.iter().map(|of| of.field.len() + of.warning.len()).sum();
        assert!(bytes < 2 * ISSUES_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn kinds_are_left_out_when_there_is_no_time() {
        let late = |time: usize| Everywhere { time, ..Everywhere::new(9) };
        let wrong = ["1 == 'x'".to_owned()];
        assert_eq!(kinds_in(&late(usize::MAX).warnings(vec![rule(0..9)], &wrong)), 9);
        assert_eq!(kinds_in(&late(7).warnings(vec![rule(0..9)], &wrong)), 3);
        assert_eq!(late(0).warnings(vec![rule(0..9)], &wrong), []);
    }
}
