//! SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview, `authorization.k8s.io/v1`: the question whether
//! a user may do something. They are answered and never stored.
//!
//! Sources: `pkg/registry/authorization/{subjectaccessreview,localsubjectaccessreview,selfsubjectaccessreview}/rest.go`,
//! `pkg/registry/authorization/util/helpers.go` (1.37).

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::{Map, User, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::review::{Access, Action, Inquiry, Verdict};
use crate::{BuiltInVersion, Names, PlanError, RuleContext, Scope, Strategy, TypeSpec};

mod rules;

const API_VERSION: &str = "authorization.k8s.io/v1";

static SUBJECT: Declared = Declared::catalogued(API_VERSION, "SubjectAccessReview");
static LOCAL: Declared = Declared::catalogued(API_VERSION, "LocalSubjectAccessReview");
static SELF: Declared = Declared::catalogued(API_VERSION, "SelfSubjectAccessReview");

/// The user whom a review asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Any user, anywhere.
    Anybody,
    /// Any user, in the review's namespace.
    AnybodyHere,
    /// The user who asks.
    Oneself,
}

/// Reviews of access as built-in types: local ones, those of oneself, and those of anybody.
pub(super) fn access_reviews() -> [TypeSpec; 3] {
    let spec = |plural, kind, scope, subject| {
        let versions =
            vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
        let names = Names::of_kind(plural, kind);
        TypeSpec::built_in("authorization.k8s.io", names, scope, versions, Arc::new(AccessReviews(subject)))
    };
    [
        spec(
            "localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            Scope::Namespaced,
            Subject::AnybodyHere,
        ),
        spec("selfsubjectaccessreviews", "SelfSubjectAccessReview", Scope::Cluster, Subject::Oneself),
        spec("subjectaccessreviews", "SubjectAccessReview", Scope::Cluster, Subject::Anybody),
    ]
}

/// The rules of reviews of access.
struct AccessReviews(Subject);

/// The user that a spec describes (`AuthorizationAttributesFrom`). No group is implied.
fn user(spec: Option<&Value>) -> User {
    let text = |field| spec.and_then(|spec| spec.get(field)?.as_str()).unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.and_then(|spec| spec.get("extra")?.as_object()).into_iter().flat_map(Map::iter);
    User {
        name: text("user"),
        uid: text("uid"),
        groups: spec.and_then(|spec| spec.get("groups")).map(texts).unwrap_or_default(),
        extra: extra.map(|(key, values)| (key.to_owned(), texts(values))).collect::<BTreeMap<_, _>>(),
        by_proxy: false,
    }
}

/// A selector as a query has it. Requirements that no query can express, and those whose words a query would read otherwise, are
/// left out: what is asked about is then more.
fn selector(of: Option<&Value>) -> String {
    let Some(of) = of else { return String::new() };
    let text = |of: &Value, field| of.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let raw = text(of, "rawSelector");
    if !raw.is_empty() {
        return raw;
    }
    let requirements = of.get("requirements").and_then(Value::as_array).unwrap_or_default();
    requirements.iter().filter_map(term).collect::<Vec<_>>().join(",")
}

/// A requirement as a query has it, if it can.
fn term(of: &Value) -> Option<String> {
    let values = of.get("values").and_then(Value::as_array).unwrap_or_default();
    let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    let key = of.text_at(&["key"]);
    let is_plain = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:[]".contains(&b));
    if !is_plain(key) || !values.iter().all(|value| is_plain(value)) {
        return None;
    }
    Some(match (of.text_at(&["operator"]), values.as_slice()) {
        ("In", [value]) => format!("{key}={value}"),
        ("NotIn", [value]) => format!("{key}!={value}"),
        ("In", values) => format!("{key} in ({})", values.join(",")),
        ("NotIn", values) => format!("{key} notin ({})", values.join(",")),
        ("Exists", _) => key.to_owned(),
        ("DoesNotExist", _) => format!("!{key}"),
        _ => return None,
    })
}

/// The selectors of a spec of which not everything counts (`BuildEvaluationError`).
fn ignored(spec: Option<&Value>) -> Vec<String> {
    let on = spec.and_then(|spec| spec.get("resourceAttributes")).unwrap_or(&Value::Null);
    let is_label = |text: &str| LabelSelector::parse(text).is_ok();
    let one_of_labels = |of: &Value| term(of).is_some_and(|term| is_label(&term));
    let is_field = |text: &str| FieldSelector::parse(text).is_ok();
    let one_of_fields = |of: &Value| {
        let values = of.get("values").and_then(Value::as_array).unwrap_or_default();
        matches!(of.text_at(&["operator"]), "In" | "NotIn") && values.len() == 1
    };
    let fields = wrong(on.get("fieldSelector"), is_field, one_of_fields);
    let labels = wrong(on.get("labelSelector"), is_label, one_of_labels);
    let line =
        |(field, how): (&str, &str)| format!("spec.resourceAttributes.{field} {how} due to parse error");
    let found = [("fieldSelector", fields), ("labelSelector", labels)];
    found.into_iter().filter_map(|(field, how)| Some(line((field, how?)))).collect()
}

/// The measure in which a selector is ignored; `None` if nothing of it is.
fn wrong(
    selector: Option<&Value>,
    whole: impl Fn(&str) -> bool,
    one: impl Fn(&Value) -> bool,
) -> Option<&'static str> {
    let raw = selector?.text_at(&["rawSelector"]);
    let requirements = selector?.get("requirements").and_then(Value::as_array).unwrap_or_default();
    if requirements.is_empty() {
        return (!raw.is_empty() && !whole(raw)).then_some("ignored");
    }
    match requirements.iter().filter(|of| one(of)).count() {
        right if right == requirements.len() => None,
        0 => Some("ignored"),
        _ => Some("partially ignored"),
    }
}

/// The action that a spec describes.
fn action(spec: Option<&Value>) -> Action {
    let attributes = |of: &str| spec.and_then(|spec| spec.get(of)).filter(|found| !found.is_null());
    let text = |attributes: &Value, field: &str| {
        attributes.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if let Some(on) = attributes("resourceAttributes") {
        let text = |field| text(on, field);
        return Action::Resource {
            verb: text("verb"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            version: text("version"),
            selectors: [selector(on.get("fieldSelector")), selector(on.get("labelSelector"))],
        };
    }
    let on = attributes("nonResourceAttributes").unwrap_or(&Value::Null);
    Action::Path { verb: text(on, "verb"), path: text(on, "path") }
}

impl Strategy for AccessReviews {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(match self.0 {
            Subject::Anybody => &SUBJECT,
            Subject::AnybodyHere => &LOCAL,
            Subject::Oneself => &SELF,
        })
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn inquire(&self, cx: &RuleContext<'_>, question: &Value) -> Result<Inquiry, PlanError> {
        let errors = rules::validate(self.0, question);
        if !errors.is_empty() {
            return Err(PlanError::Invalid { name: String::new(), errors });
        }
        let spec = question.get("spec");
        let user = if self.0 == Subject::Oneself { cx.user.clone() } else { user(spec) };
        Ok(Inquiry::Access(Box::new(user), action(spec)))
    }

    fn answer(&self, _: &RuleContext<'_>, question: &Value, verdict: Verdict) -> Value {
        let Verdict::Access(Access { allowed, denied, reason, error }) = verdict else {
            return question.clone();
        };
        let errors =
            Some(error).filter(|error| !error.is_empty()).into_iter().chain(ignored(question.get("spec")));
        let error = errors.collect::<Vec<_>>().join("; ");
        let mut status = Map::new();
        status.insert("allowed", allowed);
        if denied {
            status.insert("denied", true);
        }
        for (field, text) in [("reason", reason), ("evaluationError", error)] {
            if !text.is_empty() {
                status.insert(field, text);
            }
        }
        let mut answer = question.clone();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("status", Value::Object(status));
        }
        answer
    }

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    #[test]
    fn a_selector_is_as_in_a_query() {
        let requirement = |operator, values: Vec<&'static str>| {
            object! { "key": "a", "operator": operator, "values": values }
        };
        let requirements = vec![
            requirement("In", vec!["b"]),
            requirement("NotIn", vec!["b", "c"]),
            requirement("Exists", vec![]),
            requirement("DoesNotExist", vec![]),
            requirement("Else", vec![]),
            requirement("In", vec!["b),c in (d"]),
            requirement("In", vec!["b,c=d"]),
        ];
        let of = object! { "requirements": requirements };
        assert_eq!(selector(Some(&of)), "a=b,a notin (b,c),a,!a");
        assert_eq!(selector(Some(&object! { "rawSelector": "a=b,c" })), "a=b,c");
        assert_eq!(selector(None), "");
    }

    #[test]
    fn a_spec_describes_a_user_and_an_action() {
        let spec = object! {
            "user": "jane",
            "groups": vec!["dev"],
            "extra": object! { "scopes": vec!["a", "b"] },
            "resourceAttributes": object! { "verb": "get", "group": "g", "resource": "widgets", "name": "a" },
        };
        let jane = user(Some(&spec));
        assert_eq!((jane.name.as_str(), jane.groups.as_slice()), ("jane", &["dev".to_owned()][..]));
        assert_eq!(jane.extra["scopes"], ["a", "b"]);
        let text = |text: &str| text.to_owned();
        let (verb, group, resource, name) = (text("get"), text("g"), text("widgets"), text("a"));
        let (subresource, namespace) = (String::new(), String::new());
        let (version, selectors) = (String::new(), [String::new(), String::new()]);
        let wanted =
            Action::Resource { verb, group, resource, subresource, namespace, name, version, selectors };
        assert_eq!(action(Some(&spec)), wanted);
        let spec = object! { "nonResourceAttributes": object! { "verb": "get", "path": "/x" } };
        assert_eq!(action(Some(&spec)), Action::Path { verb: text("get"), path: text("/x") });
    }
}
