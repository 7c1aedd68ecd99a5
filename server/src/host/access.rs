//! SubjectAccessReview: may a user do something? (apiserver `plugin/pkg/authorizer/webhook/webhook.go`, 1.37)

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kindom_api::selector::{FieldRequirement, LabelOperator, LabelRequirement};
use kindom_api::user::User;
use kindom_api::{Value, object};
use kindom_http::ReviewMetrics;
use kindom_http::authn::{AccessQuestion, AccessReviewer, Attributes, Decision, Review, Unreviewed};
use kindom_objects::review::ListedRules;
use tokio::runtime::Handle;

use super::Host;
use super::asking::Asking;
use super::reviews::{Key, KeyHash, Reviews, Ttl, Verdict, lane_of};

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Verdicts on longer attributes, which a client chooses, are not kept (`maxControlledAttrCacheSize`).
const ATTRIBUTES_BYTES_MAX: usize = 10_000;

impl Verdict for Decision {
    fn lasts(&self, ttl: &Ttl) -> Duration {
        if self.lets_in() { ttl.good } else { ttl.bad }
    }

    fn lets_in(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Allowed(reason) => reason.as_ref().map_or(0, |reason| reason.len()),
            Self::Denied(reason) | Self::NoOpinion(reason) => reason.len(),
        }
    }
}

/// Asks the host what users may do.
pub(super) struct Reviewer {
    reviews: Reviews<Decision>,
    asking: Asking,
}

impl Reviewer {
    pub(super) fn new(host: &Host, ttl: Ttl, runtime: Handle, metrics: ReviewMetrics) -> Self {
        let asking = Asking::new(host, PATH, metrics.clone());
        Self { reviews: Reviews::new(ttl, host.clock.clone(), &host.entropy, runtime, metrics), asking }
    }

    /// The name of a question, and the lane of its user.
    fn key(&self, question: &AccessQuestion<'_>) -> (Key, u64) {
        let mut hash = self.reviews.hash();
        let AccessQuestion { user, attributes, version, fields, labels, wants_reason: _ } = question;
        let User { name, uid, groups, extra, by_proxy: _ } = user;
        hash.text(name).text(uid);
        texts(&mut hash, groups);
        hash.count(extra.len());
        for (key, values) in extra {
            texts(hash.text(key), values);
        }
        match *attributes {
            Attributes::Path { verb, path } => hash.count(2).text(verb).text(path),
            Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
                hash.count(7).text(verb).text(group).text(version);
                hash.text(resource).text(subresource).text(namespace).text(name)
            }
        };
        hash.count(fields.requirements().len());
        for FieldRequirement { field, equal, value } in fields.requirements() {
            hash.text(field).count(usize::from(*equal)).text(value);
        }
        hash.count(labels.requirements().len());
        for LabelRequirement { key, operator, values } in labels.requirements() {
            hash.text(key).text(operator_name(*operator).unwrap_or_default());
            texts(&mut hash, values);
        }
        let mut lane = self.reviews.hash();
        lane.text(&question.user.name);
        (hash.key(), lane_of(&lane.key()))
    }
}

fn texts(hash: &mut KeyHash, texts: &[String]) {
    hash.count(texts.len());
    for text in texts {
        hash.text(text);
    }
}

impl AccessReviewer for Reviewer {
    /// A host answers one question at a time.
    fn rules(&self, _: &User, _: &str) -> Option<BoxFuture<'static, Result<ListedRules, Unreviewed>>> {
        None
    }

    fn review(&self, question: &AccessQuestion<'_>) -> Review<Result<Decision, Unreviewed>> {
        let (key, lane) = self.key(question);
        let is_kept = attributes_bytes(question) < ATTRIBUTES_BYTES_MAX;
        self.reviews.review(key, lane, is_kept, || {
            let (asking, review) = (self.asking.clone(), review(question));
            async move {
                let answer = asking.ask(&review).await.and_then(|answer| decision(&answer));
                answer.map_err(|why| {
                    tracing::warn!(why, "the host did not review access");
                    Unreviewed::Failed(why.into())
                })
            }
        })
    }
}

fn attributes_bytes(question: &AccessQuestion<'_>) -> usize {
    match question.attributes {
        Attributes::Path { verb, path } => verb.len() + path.len(),
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            [verb, group, question.version, resource, subresource, namespace, name]
                .iter()
                .map(|t| t.len())
                .sum()
        }
    }
}

/// The review to ask for. As Go's types have it, a field that is empty is absent.
fn review(question: &AccessQuestion<'_>) -> Value {
    let AccessQuestion { user, attributes, version, .. } = question;
    let list =
        |texts: &[String]| Value::from(texts.iter().map(|t| Value::from(t.as_str())).collect::<Vec<_>>());
    let mut spec = Fields::default();
    match *attributes {
        Attributes::Path { verb, path } => {
            let mut action = Fields::default();
            action.text("path", path).text("verb", verb);
            spec.add("nonResourceAttributes", action.0);
        }
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let mut action = Fields::default();
            action
                .text("namespace", namespace)
                .text("verb", verb)
                .text("group", group)
                .text("version", version);
            action.text("resource", resource).text("subresource", subresource).text("name", name);
            action
                .requirements("fieldSelector", question.fields.requirements().iter().map(field_requirement));
            let labels = question.labels.requirements().iter().filter_map(label_requirement);
            action.requirements("labelSelector", labels);
            spec.add("resourceAttributes", action.0);
        }
    }
    spec.text("user", &user.name);
    if !user.groups.is_empty() {
        spec.add("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Fields::default();
        for (key, values) in &user.extra {
            extra.add(key, list(values));
        }
        spec.add("extra", extra.0);
    }
    spec.text("uid", &user.uid);
    object! {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": spec.0,
    }
}

/// An object in the making.
struct Fields(Value);

impl Default for Fields {
    fn default() -> Self {
        Self(object! {})
    }
}

impl Fields {
    fn add(&mut self, key: &str, value: Value) -> &mut Self {
        if let Some(map) = self.0.as_object_mut() {
            map.insert(key, value);
        }
        self
    }

    fn text(&mut self, key: &str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.add(key, Value::from(text)) }
    }

    fn requirements(&mut self, key: &str, requirements: impl Iterator<Item = Value>) {
        let requirements: Vec<Value> = requirements.collect();
        if !requirements.is_empty() {
            self.add(key, object! { "requirements": requirements });
        }
    }
}

fn field_requirement(requirement: &FieldRequirement) -> Value {
    let operator = if requirement.equal { "In" } else { "NotIn" };
    object! { "key": requirement.field.as_str(), "operator": operator, "values": vec![Value::from(requirement.value.as_str())] }
}

/// A requirement that a review can name. Leaving another one out asks for more than the request does, never for less.
fn label_requirement(requirement: &LabelRequirement) -> Option<Value> {
    let LabelRequirement { key, operator, values } = requirement;
    let mut named = Fields::default();
    named.text("key", key).text("operator", operator_name(*operator)?);
    if !values.is_empty() {
        named.add("values", Value::from(values.iter().map(|v| Value::from(v.as_str())).collect::<Vec<_>>()));
    }
    Some(named.0)
}

fn operator_name(operator: LabelOperator) -> Option<&'static str> {
    match operator {
        LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::In => Some("In"),
        LabelOperator::NotEquals | LabelOperator::NotIn => Some("NotIn"),
        LabelOperator::Exists => Some("Exists"),
        LabelOperator::DoesNotExist => Some("DoesNotExist"),
        _ => None,
    }
}

/// The decision in an answer.
///
/// # Errors
/// What is wrong with the answer.
fn decision(answer: &Value) -> Result<Decision, String> {
    let flag = |field: &str| match answer.at(&["status", field]) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| {
            format!("the host's SubjectAccessReview has another status.{field} than expected")
        }),
    };
    let (allowed, denied) = (flag("allowed")?, flag("denied")?);
    let reason = || Arc::from(answer.at(&["status", "reason"]).and_then(Value::as_str).unwrap_or_default());
    match (denied, allowed) {
        (true, true) => Err("webhook subject access review returned both allow and deny response".to_owned()),
        (true, false) => Ok(Decision::Denied(reason())),
        (false, true) => Ok(Decision::Allowed(Some(reason()))),
        (false, false) => Ok(Decision::NoOpinion(reason())),
    }
}

/// Reads any answer, for the fuzzer: only one that says so, and nothing else, allows.
#[cfg(test)]
pub(super) fn read(answer: &Value) {
    if matches!(decision(answer), Ok(Decision::Allowed(_))) {
        assert_eq!(answer.at(&["status", "allowed"]).and_then(Value::as_bool), Some(true));
        assert_ne!(answer.at(&["status", "denied"]).and_then(Value::as_bool), Some(true));
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;
    use kindom_api::selector::{FieldSelector, LabelSelector};

    use super::*;

    fn jane() -> User {
        User {
            name: "jane".to_owned(),
            groups: vec!["dev".to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        }
    }

    fn asked(user: &User, attributes: Attributes<'_>, version: &str, fields: &str, labels: &str) -> String {
        let fields = FieldSelector::parse(fields).unwrap();
        let labels = LabelSelector::parse(labels).unwrap();
        let review =
            review(&AccessQuestion { user, attributes, version, fields, labels, wants_reason: false });
        String::from_utf8(review.get("spec").unwrap().to_vec()).unwrap()
    }

    const LIST: Attributes<'static> = Attributes::Resource {
        verb: "list",
        group: "example.com",
        resource: "widgets",
        subresource: "",
        namespace: "default",
        name: "",
    };

    #[test]
    fn a_question_is_what_upstream_asks() {
        let same = |got: String, want: &str| {
            assert_eq!(parse(got.as_bytes()).unwrap(), parse(want.as_bytes()).unwrap(), "{got}");
        };
        same(
            asked(&jane(), LIST, "v1", "", ""),
            r#"{"resourceAttributes":{"namespace":"default","verb":"list","group":"example.com","version":"v1",
                "resource":"widgets"},"user":"jane","groups":["dev","system:authenticated"]}"#,
        );
        let mut user = User { uid: "7".to_owned(), groups: Vec::new(), ..jane() };
        user.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        same(
            asked(&user, Attributes::Path { verb: "get", path: "/metrics" }, "", "", ""),
            r#"{"nonResourceAttributes":{"path":"/metrics","verb":"get"},"user":"jane","uid":"7",
                "extra":{"scopes":["a"]}}"#,
        );
        let selected =
            asked(&jane(), LIST, "v1", "spec.color!=red,metadata.name=a", "a=b,c notin (d,e),f,!g,h>1");
        same(
            selected,
            r#"{"resourceAttributes":{"namespace":"default","verb":"list","group":"example.com","version":"v1",
                "resource":"widgets","fieldSelector":{"requirements":[
                    {"key":"metadata.name","operator":"In","values":["a"]},
                    {"key":"spec.color","operator":"NotIn","values":["red"]}]},
                "labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},
                    {"key":"c","operator":"NotIn","values":["d","e"]},{"key":"f","operator":"Exists"},
                    {"key":"g","operator":"DoesNotExist"}]}},
                "user":"jane","groups":["dev","system:authenticated"]}"#,
        );
    }

    #[test]
    fn only_a_clear_answer_allows() {
        let read = |status: &str| decision(&parse(format!(r#"{{"status":{status}}}"#).as_bytes()).unwrap());
        assert_eq!(read(r#"{"allowed":true,"reason":"RBAC"}"#), Ok(Decision::Allowed(Some("RBAC".into()))));
        assert_eq!(read(r#"{"allowed":false,"reason":"no"}"#), Ok(Decision::NoOpinion("no".into())));
        assert_eq!(read("{}"), Ok(Decision::NoOpinion("".into())));
        assert_eq!(read(r#"{"denied":true,"reason":"no"}"#), Ok(Decision::Denied("no".into())));
        let both = "webhook subject access review returned both allow and deny response";
        assert_eq!(read(r#"{"allowed":true,"denied":true}"#), Err(both.to_owned()));
        for broken in [r#"{"allowed":"true"}"#, r#"{"allowed":true,"denied":0}"#] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
