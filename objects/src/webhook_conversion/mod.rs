//! Conversion by a webhook, or by code of the program's, as the code sees it that converts: answers that are there, and questions
//! to be asked ([ADR 37](../../../docs/decisions/0037-conversion-webhooks.md)).
//!
//! Objects are converted in the middle of reads and plans, which wait for nobody. So a piece of work runs with the answers that
//! it has ([`Conversions::during`]). A question without an answer is noted, and the work fails. Its caller then has the webhook
//! asked, and runs the work again.
//!
//! # Sources
//! apiextensions `pkg/apiserver/conversion/webhook_converter.go` (1.37), for what is sent, what an answer may change, and all
//! texts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kindom_api::field::{ErrorList, Path, aggregate, go_quote};
use kindom_api::json::MAX_DEPTH;
use kindom_api::meta::{validate_annotations, validate_labels};
use kindom_api::names::split_api_version;
use kindom_api::{Map, Value, json};
use kindom_codec::SCHEME;
use kindom_formats::go::type_of;

use crate::StoredRegistration;
use crate::convert::{Convert, no_form};
use crate::webhook_client::{WebhookClient, WebhookPurpose, review_version};

/// The webhook that converts a type's objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConversionWebhook {
    /// `widgets.example.com`
    pub registration: String,
    /// The place where it answers, and who vouches for it.
    pub client: Arc<WebhookClient>,
    /// The version of ConversionReview that it is asked in: `v1` or `v1beta1`; `None` if it understands neither.
    pub review_version: Option<&'static str>,
}

impl ConversionWebhook {
    /// That of a registration.
    #[must_use]
    pub fn of(registration: StoredRegistration<'_>) -> Self {
        let tree = registration.tree();
        let webhook = tree.at(&["spec", "conversion", "webhook"]).unwrap_or(&Value::Null);
        Self {
            registration: tree.text_at(&["metadata", "name"]).to_owned(),
            client: Arc::new(WebhookClient::of(
                webhook.get("clientConfig").unwrap_or(&Value::Null),
                WebhookPurpose::OfType,
            )),
            review_version: review_version(webhook.get("conversionReviewVersions")),
        }
    }

    /// The ConversionReview of a version with some questions, which are all for one version.
    #[must_use]
    pub fn review(version: &str, uid: &str, questions: &[Arc<Question>]) -> Vec<u8> {
        let desired = questions.first().map_or("", |question| question.api_version.as_str());
        let mut body = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/{version}","request":{{"uid":{},"desiredAPIVersion":{},"objects":["#,
            Value::from(uid),
            Value::from(desired),
        )
        .into_bytes();
        for (index, question) in questions.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&question.object);
        }
        body.extend_from_slice(b"]}}");
        body
    }

    /// The converted objects in an answer, in the order of the questions.
    ///
    /// # Errors
    /// The answer is none, or is not to this review, or says that the conversion failed.
    pub fn read(&self, uid: &str, answer: &[u8]) -> Result<Vec<Value>, String> {
        let mut review = json::parse_own(answer)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
        let version = self.review_version.unwrap_or_default();
        let found = (review.text_at(&["apiVersion"]).to_owned(), review.text_at(&["kind"]).to_owned());
        if found.1 != "ConversionReview" {
            // As upstream's scheme says it.
            let (version, kind) = found;
            return Err(format!(
                "no kind {} is registered for version {} in scheme {SCHEME}",
                go_quote(&kind),
                go_quote(&version)
            ));
        }
        if version == "v1" && found.0 != "apiextensions.k8s.io/v1" {
            let (group, version) = split_api_version(&found.0).unwrap_or_default();
            let found = format!("{group}/{version}, Kind={}", found.1);
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {found}"
            ));
        }
        let Some(response) = review.get_mut("response").filter(|response| response.as_object().is_some())
        else {
            return Err("no response provided".to_owned());
        };
        let answered = response.text_at(&["uid"]);
        if version == "v1" && answered != uid {
            return Err(format!("expected response.uid={}, got {}", go_quote(uid), go_quote(answered)));
        }
        let status = response.text_at(&["result", "status"]);
        if status != "Success" {
            return Err(match response.text_at(&["result", "message"]) {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        match response.get_mut("convertedObjects").map(std::mem::take) {
            Some(Value::Array(objects)) => Ok(objects.into_iter().collect()),
            _ => Ok(Vec::new()),
        }
    }
}

/// An object that is to be converted.
#[derive(Debug)]
pub struct Question {
    /// Its JSON, as the webhook is sent it.
    pub object: Vec<u8>,
    /// The version that it is wanted in: `example.com/v1`.
    pub api_version: String,
    before: Identity,
}

/// The parts of an object that no conversion changes, and the version that it is in.
#[derive(Debug, Default)]
struct Identity {
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
    uid: String,
}

impl Identity {
    fn of(object: &Value) -> Self {
        let text = |path: &[&str]| object.text_at(path).to_owned();
        Self {
            api_version: text(&["apiVersion"]),
            kind: text(&["kind"]),
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
            uid: text(&["metadata", "uid"]),
        }
    }
}

/// Two questions are the same if the webhook cannot tell them apart.
impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.api_version == other.api_version && self.object == other.object
    }
}

impl Eq for Question {}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.object.hash(state);
    }
}

impl Question {
    /// The conversion of an object to a version. As upstream, the webhook is not told of the revision that an object is stored
    /// at.
    #[must_use]
    pub fn new(object: &mut Value, api_version: String) -> Self {
        let revision = metadata_of(object).and_then(|metadata| metadata.remove("resourceVersion"));
        let bytes = object.to_vec();
        if let Some((metadata, revision)) = metadata_of(object).zip(revision) {
            metadata.insert("resourceVersion", revision);
        }
        Self { object: bytes, api_version, before: Identity::of(object) }
    }

    /// `example.com/v1beta1, Kind=Widget`: the version and kind that the object has.
    fn gvk(&self) -> String {
        format!("{}, Kind={}", self.before.api_version, self.before.kind)
    }

    /// The error of having no answer.
    #[must_use]
    pub fn failed(&self, why: &str) -> String {
        format!("conversion webhook for {} failed: {why}", self.gvk())
    }

    /// The object as code of the program's converts it, or the reason why it has no form in the version.
    ///
    /// # Errors
    /// Names the object.
    pub fn converted_by(&self, rules: &dyn Convert) -> Result<Vec<u8>, String> {
        let object = json::parse_own(&self.object).map_err(|why| self.has_no_form(&why.to_string()))?;
        let converted = rules.convert(&object, self.from_version(), self.to_version());
        converted.map(|converted| converted.to_vec()).map_err(|why| self.has_no_form(&why))
    }

    /// The error of a program that gives the object no form in the version.
    #[must_use]
    pub fn has_no_form(&self, why: &str) -> String {
        let Identity { kind, name, .. } = &self.before;
        no_form(kind, name, (self.from_version(), self.to_version()), why)
    }

    /// The error of an answer with too few objects, or too many.
    #[must_use]
    pub fn miscounted(&self, found: &str, expected: usize) -> String {
        format!("conversion webhook for {} returned {found} objects, expected {expected}", self.gvk())
    }

    /// Checks what an answer has changed (`validateConvertedObject`, `restoreObjectMeta`); returns the JSON of the object.
    ///
    /// # Errors
    /// It is another object, or none.
    pub fn judge(&self, converted: &Value) -> Result<Vec<u8>, String> {
        judge(self, converted).map(|()| converted.to_vec())
    }

    /// The version that the object has: `v1beta1`.
    #[must_use]
    pub fn from_version(&self) -> &str {
        split_api_version(&self.before.api_version).map_or("", |(_, version)| version)
    }

    /// The version that it is wanted in: `v1`.
    #[must_use]
    pub fn to_version(&self) -> &str {
        split_api_version(&self.api_version).map_or("", |(_, version)| version)
    }
}

/// The answers to the questions of one piece of work, and the questions that have none.
#[derive(Default)]
pub struct Conversions {
    /// `None` for what has not been asked yet. Answers are kept as bytes, which are smaller than trees.
    answers: HashMap<Arc<Question>, Option<Answer>>,
    missing: Vec<Arc<Question>>,
    bytes: usize,
    has_failed: bool,
    /// The answer to every question that has none, if nobody is to be asked.
    refused: Option<Arc<str>>,
}

/// A converted object's JSON, or the error of its conversion.
type Answer = Result<Arc<[u8]>, Arc<str>>;

thread_local! {
    /// The conversions of the work that this thread is at.
    static CURRENT: RefCell<Option<Conversions>> = const { RefCell::new(None) };
}

impl Conversions {
    /// Does some work with the answers that there are.
    pub fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        /// Gives back what was there before, also where the work panics.
        struct Restore<'a>(&'a mut Conversions, Option<Conversions>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                let own = CURRENT.with(|current| current.replace(self.1.take()));
                *self.0 = own.unwrap_or_default();
            }
        }
        let before = CURRENT.with(|current| current.replace(Some(std::mem::take(self))));
        let _restore = Restore(self, before);
        work()
    }

    /// Nobody is to be asked from now on, for this reason.
    pub fn refuse(&mut self, why: &str) {
        self.refused = Some(why.into());
    }

    /// Takes the questions that the work had no answer to, each once. Work that comes to one again notes it again.
    pub fn take_missing(&mut self) -> Vec<Arc<Question>> {
        let missing = std::mem::take(&mut self.missing);
        for question in &missing {
            self.answers.remove(question);
        }
        missing
    }

    /// The bytes that questions and answers hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if a question got an error for an answer.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Takes an answer that is [judged](Question::judge), or the reason why there is none.
    pub fn answer(&mut self, question: Arc<Question>, answer: Result<Vec<u8>, String>) {
        self.has_failed |= answer.is_err();
        let answer: Answer = answer.map(Into::into).map_err(Into::into);
        self.bytes +=
            question.object.len() + answer.as_ref().map_or_else(|why| why.len(), |bytes| bytes.len());
        self.answers.insert(question, Some(answer));
    }

    /// The answer to a question; notes one that has none.
    fn find(&mut self, question: &Arc<Question>) -> Option<Answer> {
        match self.answers.get(question) {
            Some(Some(found)) => return Some(found.clone()),
            Some(None) if self.refused.is_none() => return None,
            _ => {}
        }
        if let Some(why) = &self.refused {
            return Some(Err(Arc::clone(why)));
        }
        self.answers.insert(Arc::clone(question), None);
        self.missing.push(Arc::clone(question));
        None
    }
}

fn metadata_of(object: &mut Value) -> Option<&mut Map> {
    object.get_mut("metadata")?.as_object_mut()
}

/// An object in another version, as the answers of the work that this is part of have it; `None` if there is nothing to ask, and it
/// is of that version already.
pub(crate) fn converted(object: &mut Value, api_version: &str) -> Result<Option<Value>, String> {
    if object.text_at(&["apiVersion"]) == api_version {
        return Ok(None);
    }
    // As upstream, one that has only its type is that type in any version.
    if object.as_object().is_some_and(|map| map.len() == 2) && object.get("kind").is_some() {
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion", api_version);
        }
        return Ok(None);
    }
    let question = Arc::new(Question::new(object, api_version.to_owned()));
    let answer = CURRENT.with(|current| match current.borrow_mut().as_mut() {
        Some(conversions) => conversions.find(&question).ok_or("it has not been asked yet"),
        None => Err("nobody asks it here"),
    });
    let converted = answer.map_err(|why| question.failed(why))?.map_err(|why| why.to_string())?;
    json::parse_own(&converted).map(Some).map_err(|why| question.failed(&why.to_string()))
}

/// As [`converted`], by code of the program's. Where nobody asks, which is where it may take any time, it is called at once.
pub(crate) fn converted_by_program(
    rules: &dyn Convert,
    object: &mut Value,
    api_version: &str,
) -> Result<Option<Value>, String> {
    if object.text_at(&["apiVersion"]) == api_version {
        return Ok(None);
    }
    let is_asked = CURRENT.with(|current| current.borrow().is_some());
    if !is_asked {
        let version_of = |api_version: &str| {
            split_api_version(api_version).map_or_else(String::new, |(_, version)| version.to_owned())
        };
        let (from, to) = (version_of(object.text_at(&["apiVersion"])), version_of(api_version));
        // As in a question.
        let revision = metadata_of(object).and_then(|metadata| metadata.remove("resourceVersion"));
        let converted = rules.convert(object, &from, &to);
        if let Some((metadata, revision)) = metadata_of(object).zip(revision) {
            metadata.insert("resourceVersion", revision);
        }
        return converted.map(Some).map_err(|why| {
            let name = object.text_at(&["metadata", "name"]);
            no_form(object.text_at(&["kind"]), name, (&from, &to), &why)
        });
    }
    let question = Arc::new(Question::new(object, api_version.to_owned()));
    let answer = CURRENT.with(|current| current.borrow_mut().as_mut()?.find(&question));
    let answer = answer.ok_or_else(|| question.has_no_form("it has not been asked for yet"))?;
    let converted = answer.map_err(|why| why.to_string())?;
    json::parse_own(&converted).map(Some).map_err(|why| question.has_no_form(&why.to_string()))
}

fn judge(question: &Question, converted: &Value) -> Result<(), String> {
    let before = &question.before;
    let invalid = |why: String| format!("conversion webhook for {} returned invalid {why}", question.gvk());
    if converted.as_object().is_none() {
        return Err(no_object(converted));
    }
    let found = Identity::of(converted);
    if found.api_version != question.api_version {
        let (expected, found) = (&question.api_version, &found.api_version);
        let why = format!("object at index 0: invalid groupVersion (expected {expected}, received {found})");
        return Err(invalid(why));
    }
    if found.kind != before.kind {
        let (expected, found) = (&before.kind, &found.kind);
        let why = format!("object at index 0: invalid kind (expected {expected}, received {found})");
        return Err(invalid(why));
    }
    let same = [
        ("name", &before.name, &found.name),
        ("namespace", &before.namespace, &found.namespace),
        ("UID", &before.uid, &found.uid),
    ];
    if let Some((field, expected, found)) = same.into_iter().find(|(_, expected, found)| expected != found) {
        return Err(invalid(format!("object: must have the same {field}: {expected} != {found}")));
    }
    check_metadata(question, converted).map_err(|why| invalid(format!("metadata: {why}")))?;
    if !converted.nests_within(MAX_DEPTH) {
        return Err(invalid(format!("object: it nests more than {MAX_DEPTH} levels deep")));
    }
    Ok(())
}

/// The words that Go has for anything that it cannot read as an object.
fn no_object(value: &Value) -> String {
    let found = match value {
        // Its decoder is given nothing at all.
        Value::Null => return "unexpected end of JSON input".to_owned(),
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Object(_) => "number",
    };
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

fn check_metadata(question: &Question, converted: &Value) -> Result<(), String> {
    let Some(metadata) = converted.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    if metadata.as_object().is_none() {
        return Err(format!("invalid metadata of type {} in converted object", type_of(metadata)));
    }
    for field in ["labels", "annotations"] {
        let Some(found) = metadata.get(field).filter(|found| !found.is_null()) else { continue };
        let Some(map) = found.as_object() else {
            return Err(format!("invalid metadata.{field} of type {} in converted object", type_of(found)));
        };
        if let Some((key, value)) = map.iter().find(|(_, value)| value.as_str().is_none()) {
            let found = type_of(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        let mut errors = ErrorList::new();
        let path = Path::new("metadata");
        match field {
            "labels" => validate_labels(metadata, field, &path, &mut errors),
            _ => validate_annotations(metadata, &path, &mut errors),
        }
        if errors.is_empty() {
            continue;
        }
        // What the webhook did not change is not its mistake.
        let original = json::parse_own(&question.object).unwrap_or_default();
        if original.at(&["metadata", field]) != Some(found) {
            // Upstream's path lacks the last letter.
            return Err(aggregate(&errors).replace("metadata.annotations: ", "metadata.annotation: "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
