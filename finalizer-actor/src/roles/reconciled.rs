//! The state that a role or a binding gets from the one that it should have at least. Pure.
//!
//! Sources: component-helpers `auth/rbac/reconciliation/{reconcile_role,reconcile_rolebindings}.go` (0.37), of what is confirmed
//! and removes nothing that is there besides.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::{Map, Value};
use kindom_objects::rbac::coverage::{PolicyRule, TooManyPermissions, missing};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The change that an object needs.
#[derive(Debug, PartialEq)]
pub(super) enum Reconciled {
    /// None.
    Same,
    /// It becomes this.
    Changed(Value),
    /// It goes, and the expected one comes: a binding stays with its role.
    Replaced,
}

/// Returns true if an annotation keeps an object as it is.
pub(super) fn is_protected(existing: &Value) -> bool {
    existing.text_at(&["metadata", "annotations", AUTO_UPDATE]) == "false"
}

/// The change of a role or a binding towards the expected one, were it not protected.
///
/// # Errors
/// [`TooManyPermissions`] for a role with rules beyond any sense.
pub(super) fn reconciled(existing: &Value, expected: &Value) -> Result<Reconciled, TooManyPermissions> {
    if expected.get("roleRef").is_some() {
        return Ok(binding(existing, expected));
    }
    let mut role = existing.clone();
    merge_metadata(&mut role, expected);
    let lacks = missing(&PolicyRule::list(existing), &PolicyRule::list(expected))?;
    if !lacks.is_empty() {
        append(&mut role, "rules", lacks.iter().map(PolicyRule::to_tree));
    }
    let selectors =
        |role: &'_ Value| aggregation(role).map(|rule| items(rule, "clusterRoleSelectors").to_vec());
    match (selectors(existing), selectors(expected)) {
        (None, None) => {}
        (Some(_), None) => {
            if let Some(role) = role.as_object_mut() {
                role.remove("aggregationRule");
            }
        }
        (own, Some(expected)) => {
            let own = own.unwrap_or_default();
            let is_own = |selector: &Value| own.iter().any(|own| Selector::of(own) == Selector::of(selector));
            let lacks: Vec<Value> = expected.into_iter().filter(|selector| !is_own(selector)).collect();
            if !lacks.is_empty()
                && let Some(role) = role.as_object_mut()
            {
                let selectors = own.into_iter().chain(lacks).collect::<Vec<_>>();
                let mut rule = Map::new();
                rule.insert("clusterRoleSelectors", selectors);
                role.insert("aggregationRule", rule);
            }
        }
    }
    Ok(changed(existing, role))
}

fn binding(existing: &Value, expected: &Value) -> Reconciled {
    let role = |binding: &'_ Value| {
        ["apiGroup", "kind", "name"].map(|field| binding.text_at(&["roleRef", field]).to_owned())
    };
    if role(existing) != role(expected) {
        return Reconciled::Replaced;
    }
    let mut binding = existing.clone();
    merge_metadata(&mut binding, expected);
    let mut known: BTreeSet<_> = items(existing, "subjects").iter().map(subject).collect();
    let lacks: Vec<&Value> =
        items(expected, "subjects").iter().filter(|one| known.insert(subject(one))).collect();
    if !lacks.is_empty() {
        append(&mut binding, "subjects", lacks.into_iter().cloned());
    }
    changed(existing, binding)
}

fn changed(existing: &Value, object: Value) -> Reconciled {
    if object == *existing { Reconciled::Same } else { Reconciled::Changed(object) }
}

fn subject(subject: &Value) -> [&str; 4] {
    ["kind", "apiGroup", "name", "namespace"].map(|field| subject.text_at(&[field]))
}

/// The aggregation rule of a role that has one.
pub(super) fn aggregation(role: &Value) -> Option<&Value> {
    role.get("aggregationRule").filter(|rule| !rule.is_null())
}

pub(super) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).unwrap_or_default()
}

/// Adds expected labels and annotations; those that the object has keep their values.
fn merge_metadata(object: &mut Value, expected: &Value) {
    for field in ["annotations", "labels"] {
        let Some(wanted) = expected.at(&["metadata", field]).and_then(Value::as_object) else { continue };
        let metadata = object
            .as_object_mut()
            .map(|object| object.entry_or_insert_with("metadata", || Map::new().into()));
        let Some(metadata) = metadata.and_then(Value::as_object_mut) else { continue };
        let own = metadata.entry_or_insert_with(field, || Map::new().into());
        if own.is_null() {
            *own = Map::new().into();
        }
        let Some(own) = own.as_object_mut() else { continue };
        for (key, value) in wanted.iter().filter(|(key, _)| !own.contains_key(key)).collect::<Vec<_>>() {
            own.insert(key, value.clone());
        }
    }
}

/// Adds items to a list, which may be absent.
fn append(object: &mut Value, field: &str, new: impl Iterator<Item = Value>) {
    let all: Vec<Value> = items(object, field).iter().cloned().chain(new).collect();
    if let Some(object) = object.as_object_mut() {
        object.insert(field, all);
    }
}

/// A selector of labels, in which an absent field is an empty one (`equality.Semantic`).
#[derive(PartialEq)]
struct Selector<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    expressions: Vec<(&'a str, &'a str, Vec<&'a str>)>,
}

impl<'a> Selector<'a> {
    fn of(selector: &'a Value) -> Self {
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let labels = labels.into_iter().flat_map(Map::iter);
        let expressions = items(selector, "matchExpressions").iter().map(|one| {
            let values = items(one, "values").iter().map(|value| value.as_str().unwrap_or_default());
            (one.text_at(&["key"]), one.text_at(&["operator"]), values.collect())
        });
        Self {
            labels: labels.map(|(key, value)| (key, value.as_str().unwrap_or_default())).collect(),
            expressions: expressions.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.replace('\'', "\"").as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(existing: &str, expected: &str, want: &str) {
        let found = reconciled(&parse(existing), &parse(expected)).unwrap();
        let want = match want {
            "same" => Reconciled::Same,
            "replaced" => Reconciled::Replaced,
            object => Reconciled::Changed(parse(object)),
        };
        assert_eq!(found, want);
    }

    const GET: &str = "{'rules':[{'verbs':['get'],'apiGroups':['g'],'resources':['r']}]}";

    #[test]
    fn a_role_keeps_what_it_has_and_gets_what_it_lacks() {
        check(GET, GET, "same");
        check("{'rules':[{'verbs':['*'],'apiGroups':['*'],'resources':['*']}]}", GET, "same");
        check("{'rules':null}", GET, GET);
        let list = "{'rules':[{'verbs':['list'],'apiGroups':['g'],'resources':['r']}]}";
        let both = "{'rules':[{'verbs':['list'],'apiGroups':['g'],'resources':['r']},\
                    {'verbs':['get'],'apiGroups':['g'],'resources':['r']}]}";
        check(list, GET, both);
        check(both, GET, "same");
        check("{'rules':[]}", "{}", "same");
    }

    #[test]
    fn labels_and_annotations_are_added_and_never_replaced() {
        let expected = "{'metadata':{'labels':{'a':'1','b':'1'},'annotations':{'c':'1'}}}";
        check(
            "{'metadata':{'labels':{'a':'2'}}}",
            expected,
            "{'metadata':{'labels':{'a':'2','b':'1'},'annotations':{'c':'1'}}}",
        );
        check("{'metadata':{'labels':{'a':'2','b':''},'annotations':{'c':'1','d':'1'}}}", expected, "same");
        assert!(is_protected(&parse(&format!(
            "{{'metadata':{{'annotations':{{'{AUTO_UPDATE}':'false'}}}}}}"
        ))));
        assert!(!is_protected(&parse(&format!(
            "{{'metadata':{{'annotations':{{'{AUTO_UPDATE}':'true'}}}}}}"
        ))));
    }

    #[test]
    fn selectors_are_added_unless_they_are_there() {
        let one = "{'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{'a':'1'}}]}}";
        check(one, one, "same");
        check(
            "{'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{'a':'1'},'matchExpressions':[]}]}}",
            one,
            "same",
        );
        check("{}", one, one);
        check("{'aggregationRule':null}", one, one);
        check(one, "{}", "{}");
        let other = "{'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{'b':'1'}}]}}";
        check(
            other,
            one,
            "{'aggregationRule':{'clusterRoleSelectors':[{'matchLabels':{'b':'1'}},{'matchLabels':{'a':'1'}}]}}",
        );
    }

    #[test]
    fn a_binding_gets_the_subjects_that_it_lacks_or_is_made_again() {
        let own = "{'roleRef':{'apiGroup':'g','kind':'ClusterRole','name':'r'},'subjects':[{'kind':'User','name':'a'}]}";
        check(own, own, "same");
        let expected = "{'roleRef':{'apiGroup':'g','kind':'ClusterRole','name':'r'},\
                        'subjects':[{'kind':'Group','name':'a'},{'kind':'User','name':'a'},{'kind':'Group','name':'a'}]}";
        let both = "{'roleRef':{'apiGroup':'g','kind':'ClusterRole','name':'r'},\
                    'subjects':[{'kind':'User','name':'a'},{'kind':'Group','name':'a'}]}";
        check(own, expected, both);
        check("{'roleRef':{'apiGroup':'g','kind':'ClusterRole','name':'other'}}", expected, "replaced");
        check("{'roleRef':{'apiGroup':'g','kind':'Role','name':'r'}}", expected, "replaced");
    }
}
