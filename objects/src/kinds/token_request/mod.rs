//! TokenRequest, `authentication.k8s.io/v1`: the body of `serviceaccounts/NAME/token`. It is answered and never stored.
//!
//! Sources: `pkg/registry/core/serviceaccount/storage/token.go`, `pkg/apis/authentication/validation/validation.go`,
//! `pkg/apis/authentication/v1/defaults.go` (1.37).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::names::split_api_version;
use kindom_api::{Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::{BuiltInVersion, Names, PlanError, RuleContext, Scope, Strategy, TypeSpec};

/// Its group.
pub const GROUP: &str = "authentication.k8s.io";
/// Its kind.
pub const KIND: &str = "TokenRequest";

/// The life of a token for which nobody asks, in seconds.
const LIFE: i64 = 60 * 60;
/// The shortest life that a token may be asked for, in seconds.
const LIFE_MIN: i64 = 10 * 60;
/// The longest, likewise.
const LIFE_MAX: i64 = 1 << 32;

static TOKEN_REQUEST: Declared = Declared::catalogued("authentication.k8s.io/v1", KIND);

/// Requests for tokens as a built-in type, which is served by no path of its own.
#[must_use]
pub fn token_requests() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    TypeSpec::built_in(
        GROUP,
        Names::of_kind("tokenrequests", KIND),
        Scope::Namespaced,
        versions,
        Arc::new(TokenRequests),
    )
}

/// The kind of object that a token ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundKind {
    /// `v1` Pod
    Pod,
    /// `v1` Secret
    Secret,
    /// `v1` Node, which is in no namespace.
    Node,
}

impl BoundKind {
    /// The plural of its kind.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }
}

/// The object that a token is to end with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Its kind.
    pub kind: BoundKind,
    /// Its name.
    pub name: String,
    /// Its uid; empty if the client names none.
    pub uid: String,
}

/// The object that a request binds its token to; `None` if it binds it to nothing.
///
/// # Errors
/// [`PlanError::BadRequest`]: tokens are bound to no such kind.
pub fn bound(request: &Value) -> Result<Option<Bound>, PlanError> {
    let reference = request.at(&["spec", "boundObjectRef"]).filter(|reference| !reference.is_null());
    let Some(reference) = reference else { return Ok(None) };
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = split_api_version(api_version).unwrap_or_default();
    let known = match kind {
        "Pod" => Some(BoundKind::Pod),
        "Secret" => Some(BoundKind::Secret),
        "Node" => Some(BoundKind::Node),
        _ => None,
    };
    let Some(kind) = known.filter(|_| group.is_empty()) else {
        let of = format!("{group}/{version}, Kind={kind}");
        return Err(PlanError::BadRequest(format!("cannot bind token to object of type {of}")));
    };
    Ok(Some(Bound { kind, name: text("name").to_owned(), uid: text("uid").to_owned() }))
}

/// The audiences that a request asks for.
#[must_use]
pub fn audiences(request: &Value) -> Vec<String> {
    let all = request.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
    all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The life that a request asks for, in seconds.
#[must_use]
pub fn life(request: &Value) -> i64 {
    request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(LIFE)
}

/// The errors of a request (`ValidateTokenRequest`).
#[must_use]
pub fn validate(request: &Value) -> ErrorList {
    let spec = Path::new("spec");
    let seconds = spec.child("expirationSeconds");
    let asked = life(request);
    let mut errors = ErrorList::new();
    if asked < LIFE_MIN {
        errors.push(Error::invalid(&seconds, asked, "may not specify a duration less than 10 minutes"));
    }
    if asked > LIFE_MAX {
        errors.push(Error::invalid(&seconds, asked, "may not specify a duration larger than 2^32 seconds"));
    }
    let attestations = request.at(&["spec", "attestations"]);
    match attestations.filter(|all| all.as_object().is_some_and(|all| !all.is_empty())) {
        None => errors,
        Some(all) => {
            let why = "attestations may only be specified with a webhook bound object reference";
            ErrorList::from(Error::invalid(&spec.child("attestations"), all.clone(), why))
        }
    }
}

/// The errors of a request whose metadata names another account than its path.
#[must_use]
pub fn misnamed(request: &Value, namespace: &str, account: &str) -> ErrorList {
    for (field, wanted) in [("name", account), ("namespace", namespace)] {
        let given = request.text_at(&["metadata", field]);
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {field} if specified");
            return ErrorList::from(Error::invalid(&Path::new("metadata").child(field), given, why));
        }
    }
    ErrorList::new()
}

/// Fills in what the client left out, so with an empty status: the metadata of the account, and the audiences of the server.
pub fn fill_in(request: &mut Value, metadata: [(&'static str, String); 4], audiences_of_server: &[String]) {
    let Some(request) = request.as_object_mut() else { return };
    request.insert("status", object! { "expirationTimestamp": Value::Null, "token": "" });
    if let Some(own) = request.entry_or_insert_with("metadata", || object! {}).as_object_mut() {
        for (field, value) in metadata {
            own.insert(field, value);
        }
    }
    if let Some(spec) = request.entry_or_insert_with("spec", || object! {}).as_object_mut()
        && spec.get("audiences").and_then(Value::as_array).is_none_or(<[Value]>::is_empty)
    {
        let all: Vec<Value> = audiences_of_server.iter().map(|one| one.as_str().into()).collect();
        spec.insert("audiences", Value::Array(all.into()));
    }
}

/// Shortens the life that a request asks for.
pub fn shorten(request: &mut Value, seconds: i64) {
    if let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("expirationSeconds", seconds);
    }
}

/// Gives a request its token and the end of it.
pub fn grant(request: &mut Value, token: &str, expires: &str) {
    if let Some(request) = request.as_object_mut() {
        request.insert("status", object! { "expirationTimestamp": expires, "token": token });
    }
}

/// The rules of requests for tokens.
struct TokenRequests;

impl Strategy for TokenRequests {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&TOKEN_REQUEST)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    /// `SetDefaults_TokenRequestSpec`
    fn fill_defaults(&self, request: &mut Value) {
        let spec = request.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec.filter(|spec| spec.get("expirationSeconds").is_none_or(Value::is_null)) {
            spec.insert("expirationSeconds", LIFE);
        }
    }

    fn validate(&self, _: &RuleContext<'_>, request: &Value) -> ErrorList {
        validate(request)
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}
