//! The answer of a webhook: read, and held to what it may say (`request/admissionreview.go`, `VerifyAdmissionResponse`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::decode::{Field, Shape, Struct};
use kindom_api::field::go_quote;
use kindom_api::{GroupVersionKind, Value, json};
use kindom_codec::json_patch::{self, Operation};
use kindom_codec::{Format, SCHEME, any, type_of};

const TEXT: Shape = Shape::String("string");
static CAUSE: Struct = Struct::new(
    "v1.StatusCause",
    &[
        Field::new("reason", Shape::String("v1.CauseType")),
        Field::new("message", TEXT),
        Field::new("field", TEXT),
    ],
);
static DETAILS: Struct = Struct::new(
    "v1.StatusDetails",
    &[
        Field::new("name", TEXT),
        Field::new("group", TEXT),
        Field::new("kind", TEXT),
        Field::new("uid", Shape::String("types.UID")),
        Field::new("causes", Shape::List(&Shape::Struct(&CAUSE))),
        Field::new("retryAfterSeconds", Shape::Int32),
    ],
);
static STATUS: Struct = Struct::new(
    "v1.Status",
    &[
        Field::new("status", TEXT),
        Field::new("message", TEXT),
        Field::new("reason", Shape::String("v1.StatusReason")),
        Field::new("details", Shape::Pointer(&Shape::Struct(&DETAILS))),
        Field::new("code", Shape::Int32),
    ],
);
static RESPONSE: Struct = Struct::new(
    "v1.AdmissionResponse",
    &[
        Field::new("uid", Shape::String("types.UID")),
        Field::new("allowed", Shape::Bool),
        Field::new("status", Shape::Pointer(&Shape::Struct(&STATUS))),
        Field::new("patch", Shape::Bytes),
        Field::new("patchType", Shape::Pointer(&Shape::String("v1.PatchType"))),
        Field::new("auditAnnotations", Shape::Map(&TEXT)),
        Field::new("warnings", Shape::List(&TEXT)),
    ],
);
static REVIEW: Struct = Struct::new(
    "v1.AdmissionReview",
    &[
        Field::new("kind", TEXT),
        Field::new("apiVersion", TEXT),
        Field::new("response", Shape::Pointer(&Shape::Struct(&RESPONSE))),
    ],
);

/// The verdict of a webhook.
#[derive(Debug, Default)]
pub struct Answer {
    /// The write may go on.
    pub allowed: bool,
    patch: Vec<Operation>,
    /// The Status of a refusal, if it has one.
    pub result: Option<Value>,
    /// For the client.
    pub warnings: Vec<String>,
    /// For the audit log: keys without the webhook's name, and values.
    pub annotations: Vec<(String, String)>,
    sent_patch: Vec<u8>,
}

impl Answer {
    /// Returns true if the webhook wants to change the object.
    #[must_use]
    pub fn has_patch(&self) -> bool {
        !self.patch.is_empty()
    }

    /// The patch as it was sent: JSON.
    #[must_use]
    pub fn sent_patch(&self) -> &[u8] {
        &self.sent_patch
    }

    /// An object, changed as the webhook wants it.
    ///
    /// # Errors
    /// The reason why it cannot be.
    pub fn patched(&self, object: Value) -> Result<Value, String> {
        json_patch::apply(&self.patch, object).map_err(|why| why.to_string())
    }
}

/// The answer in a body, to a review of this version with this uid; only a webhook that is `mutating` may change the object.
///
/// # Errors
/// The body is no answer to it, in upstream's words.
pub fn read(version: &str, uid: &str, mutating: bool, body: &[u8]) -> Result<Answer, String> {
    let (review, found) = decode(version, body).map_err(|why| format!("failed to call webhook: {why}"))?;
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    let text = |field| response.get(field).and_then(Value::as_str);
    // The bytes and their encoding were read once already.
    let patch = STANDARD.decode(text("patch").unwrap_or_default()).map_err(|why| why.to_string())?;
    let patch_type = text("patchType");
    if version == "v1" {
        let answered = text("uid").unwrap_or_default();
        if answered != uid {
            let (wanted, found) = (go_quote(uid), go_quote(answered));
            return Err(invalid(format!("expected response.uid={wanted}, got {found}")));
        }
        if found != review_kind(version) {
            let GroupVersionKind { group, version, kind } = found;
            return Err(invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
            )));
        }
        check_patch(mutating, patch.is_empty(), patch_type).map_err(invalid)?;
    }
    let allowed = response.get("allowed") == Some(&Value::Bool(true));
    let warnings = response.get("warnings").and_then(Value::as_array).unwrap_or_default();
    let annotations = response.get("auditAnnotations").and_then(Value::as_object);
    let annotations = annotations.into_iter().flat_map(kindom_api::Map::iter);
    Ok(Answer {
        allowed,
        // v1beta1 has but one type.
        patch: match mutating && allowed && !patch.is_empty() {
            true => operations(&patch, patch_type.filter(|_| version == "v1"))?,
            false => Vec::new(),
        },
        result: response.get("status").cloned(),
        warnings: warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        annotations: annotations
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
            .collect(),
        sent_patch: patch,
    })
}

fn review_kind(version: &str) -> GroupVersionKind {
    GroupVersionKind::new("admission.k8s.io", version, "AdmissionReview")
}

/// The review in a body, and the type that it says to be; what it does not say is that of the version asked in.
fn decode(version: &str, body: &[u8]) -> Result<(Value, GroupVersionKind), String> {
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let tree = match any(body, if is_json { Format::Json } else { Format::Yaml }) {
        Ok(tree) => tree,
        Err(why) => return Err(why.to_string()),
    };
    let found = type_of(&tree)?;
    let (mut kind, wanted) = (found.clone(), review_kind(version));
    if kind.kind.is_empty() {
        kind.kind.clone_from(&wanted.kind);
    }
    if kind.group.is_empty() && kind.version.is_empty() {
        (kind.group, kind.version) = (wanted.group.clone(), wanted.version.clone());
    }
    let converting =
        |found: &str| format!("converting ({found}) to ({version}.AdmissionReview): unknown conversion");
    match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
        _ if kind == wanted => {}
        ("admission.k8s.io", other @ ("v1" | "v1beta1"), "AdmissionReview") => {
            return Err(converting(&format!("{other}.AdmissionReview")));
        }
        ("", "v1", "Status") => return Err(converting("v1.Status")),
        _ => {
            let (kind, version) = (go_quote(&kind.kind), go_quote(&kind.api_version()));
            return Err(format!("no kind {kind} is registered for version {version} in scheme {SCHEME}"));
        }
    }
    Ok((REVIEW.decode(&tree).map_err(|why| why.to_string())?.value, found))
}

fn check_patch(mutating: bool, is_empty: bool, patch_type: Option<&str>) -> Result<(), String> {
    let why = match (mutating, is_empty, patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, _, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

fn operations(patch: &[u8], patch_type: Option<&str>) -> Result<Vec<Operation>, String> {
    let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
    let patch = json::parse(patch).map_err(|why| undecodable(why.to_string()))?;
    let operations = json_patch::operations(patch).map_err(|why| undecodable(why.to_string()))?;
    match patch_type {
        Some(other) if other != "JSONPatch" && !operations.is_empty() => {
            Err(format!("unsupported patch type {}", go_quote(other)))
        }
        _ => Ok(operations),
    }
}
