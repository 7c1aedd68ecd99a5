//! The one place where a failure becomes a Status.

use actix_web::http::Uri;
use kindom_actor_kit::Overloaded;
use kindom_api::names::{GroupKind, GroupResource};
use kindom_api::status::{Cause, Details, Outcome, Status, cause, reason};
use kindom_api::{Value, field};
use kindom_objects::admission::AdmissionRefusal;
use kindom_objects::kinds::disruption_budget::BudgetRefusal;
use kindom_objects::{FieldConflict, PlanError, Unreadable};
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::StorageError;

use crate::RequestError;
use crate::authn::{Denial, Refused, Unreviewed, sanitized};
use crate::handlers::HandlerRefusal;

/// The reason why a request fails, with the details that its Status needs.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Refused before any type was asked.
    Request(RequestError),
    /// No credentials hold.
    Unauthorized,
    /// The user may not.
    Denied(Denial),
    /// A type could not be read.
    Read(ReadError, GroupResource),
    /// There is no object of that name.
    NotFound(GroupResource, String),
    /// A write was refused or failed.
    Write(Box<WriteError>, GroupResource, GroupKind),
    /// The host could not say if the user may, or the audit log does not take the request: the text of the answer.
    Internal(String),
    /// Too many requests are in flight.
    InFlight,
    /// The processors have too much to do for the user and the type.
    Overloaded(Overloaded),
    /// A Status made elsewhere: by a patch.
    Status(Box<Status>),
    /// A failure with warnings for the client.
    Warned(Box<Failure>, Vec<String>),
}

/// The answer to a failed request.
pub(crate) enum Answer {
    /// `404 page not found`, as text: nothing is served under this path.
    PageNotFound,
    /// 429 as text: too many requests are in flight.
    TooManyInFlight,
    /// 500 as text.
    Internal(String),
    /// A Status, and its code.
    Status(Status),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<Overloaded> for Failure {
    fn from(overloaded: Overloaded) -> Self {
        Self::Overloaded(overloaded)
    }
}

impl Failure {
    /// With a warning before those that it has.
    pub(crate) fn warned(self, mut warnings: Vec<String>) -> Self {
        match self {
            failure if warnings.is_empty() => failure,
            Self::Warned(failure, more) => {
                warnings.extend(more);
                Self::Warned(failure, warnings)
            }
            failure => Self::Warned(Box::new(failure), warnings),
        }
    }

    /// Of a request for this URI that authorization has not let through (`responsewriters.InternalError`).
    pub(crate) fn refused(refused: Refused, uri: &Uri) -> Self {
        match refused {
            Refused::Denied(denial) => Self::Denied(denial),
            Refused::Unreviewed(Unreviewed::Busy) => Self::InFlight,
            Refused::Unreviewed(Unreviewed::Failed(why)) => Self::internal(uri, &why),
        }
    }

    /// Of a request for this URI, about which the server does not know enough to answer it.
    pub(crate) fn internal(uri: &Uri, why: &str) -> Self {
        let asked = uri.path_and_query().map_or_else(|| uri.path(), |asked| asked.as_str());
        Self::Internal(sanitized(&format!("Internal Server Error: {}: {why}", field::go_quote(asked))))
    }

    /// Of a request that turned out to create, which authorization has not let through (`withAuthorization`).
    pub(crate) fn create_refused(refused: Refused) -> Self {
        match refused {
            Refused::Denied(denial) => Self::Denied(denial),
            Refused::Unreviewed(Unreviewed::Busy) => Self::InFlight,
            Refused::Unreviewed(Unreviewed::Failed(why)) => {
                Self::Status(Box::new(Status::internal_error(why)))
            }
        }
    }

    /// About as many bytes as its errors take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Warned(failure, _) => failure.bytes(),
            Self::Request(RequestError::Invalid { errors, .. }) => errors.bytes(),
            Self::Write(error, ..) => match &**error {
                WriteError::Plan(PlanError::Invalid { errors, .. }) => errors.bytes(),
                _ => 0,
            },
            Self::Status(status) => status.message.len(),
            _ => 0,
        }
    }

    /// The Status that refuses a write for what it is, with the warnings.
    ///
    /// # Errors
    /// Any other failure: the server could not carry the write out.
    pub(crate) fn refusal(self) -> Result<(Status, Vec<String>), Self> {
        match self {
            Self::Warned(failure, mut warnings) => match failure.refusal() {
                Ok((status, more)) => {
                    warnings.extend(more);
                    Ok((status, warnings))
                }
                Err(failure) => Err(failure.warned(warnings)),
            },
            Self::Write(error, resource, kind)
                if matches!(*error, WriteError::Plan(_) | WriteError::RequestTooLarge(_)) =>
            {
                // A webhook that is down is what somebody may want to find.
                let is_of_webhook = matches!(
                    &*error,
                    WriteError::Plan(PlanError::Refused(refusal))
                        if !matches!(**refusal, AdmissionRefusal::Late | AdmissionRefusal::TooManyEvents(_))
                );
                let status = write(*error, &resource, &kind);
                match is_of_webhook || (400..500).contains(&status.code) && status.code != 429 {
                    true => Ok((status, Vec::new())),
                    false => Err(Self::Status(Box::new(status))),
                }
            }
            failure => Err(failure),
        }
    }

    /// `true` if a read found that its type has gone.
    pub(crate) fn is_of_a_type_gone(&self) -> bool {
        match self {
            Self::Warned(failure, _) => failure.is_of_a_type_gone(),
            failure => matches!(failure, Self::Read(ReadError::Gone, _)),
        }
    }

    pub(crate) fn answer(self) -> Answer {
        Answer::Status(match self {
            Self::Warned(failure, _) => return failure.answer(),
            Self::Request(RequestError::NotFound) | Self::Read(ReadError::Gone, _) => {
                return Answer::PageNotFound;
            }
            Self::Write(error, ..) if *error == WriteError::Gone => return Answer::PageNotFound,
            Self::InFlight => return Answer::TooManyInFlight,
            Self::Internal(text) => return Answer::Internal(text),
            Self::Request(error) => request(error),
            Self::Unauthorized => Status::unauthorized("Unauthorized"),
            Self::Denied(denial) => Status::forbidden(&denial.resource, &denial.name, denial.message),
            Self::Read(error, resource) => read(error, &resource),
            Self::NotFound(resource, name) => Status::not_found(&resource, &name),
            Self::Write(error, resource, kind) => write(*error, &resource, &kind),
            Self::Overloaded(overloaded) => busy_for(seconds(overloaded)),
            Self::Status(status) => *status,
        })
    }
}

fn request(error: RequestError) -> Status {
    let nothing = GroupResource::default();
    match error {
        RequestError::BadRequest(message) => Status::bad_request(message),
        RequestError::Internal(message) => plain_internal(message),
        RequestError::Late => Status::timeout(error, 0),
        RequestError::Unavailable(why) => Status::service_unavailable(why),
        RequestError::NoSuchResource => Status::generic(404, "", &nothing, "", ""),
        RequestError::MethodNotAllowed => Status::generic(405, "", &nothing, "", ""),
        error @ (RequestError::ListNotAcceptable(_) | RequestError::ObjectNotAcceptable(_)) => {
            Status { message: error.to_string(), ..Status::not_acceptable(&[]) }
        }
        RequestError::NotFound => Status::generic(404, "", &nothing, "", ""),
        RequestError::MethodNotSupported { resource, verb } => Status::method_not_supported(&resource, verb),
        RequestError::NotAcceptable(accepted) => Status::not_acceptable(accepted),
        RequestError::TooLarge(what) => Status::request_entity_too_large(what),
        RequestError::UnsupportedMediaType(accepted) => Status::unsupported_media_type(&accepted),
        RequestError::Invalid { kind, name, errors } => Status::invalid(&kind, &name, &errors),
        RequestError::PatchDoesNotApply(why) => {
            tracing::debug!(why, "a patch does not apply");
            Status::generic(422, "", &nothing, "", "")
        }
    }
}

fn read(error: ReadError, resource: &GroupResource) -> Status {
    match error {
        ReadError::Timeout => Status::timeout("timed out waiting for a fresh state", 1),
        ReadError::Gone => Status::generic(404, "get", resource, "", ""),
        ReadError::Overloaded(overloaded) => busy_for(seconds(overloaded)),
        ReadError::Storage(StorageError::Future { requested, current }) => {
            Status::too_large_resource_version(requested.0, current.0, 1)
        }
        ReadError::Storage(StorageError::Compacted { requested, compacted }) => {
            Status::expired(format!("too old resource version: {requested} ({compacted})"))
        }
        ReadError::Storage(StorageError::Busy) => busy(),
        ReadError::Storage(
            StorageError::Unavailable { reason, .. } | StorageError::ReadOnly { reason, .. },
        ) => unavailable(reason),
        ReadError::Storage(
            error @ (StorageError::TooLarge { .. }
            | StorageError::RequestTooLarge { .. }
            | StorageError::Corrupt(_)),
        ) => Status::internal_error(error),
        ReadError::Unreadable(error @ Unreadable::Corrupt { .. }) => Status::internal_error(error.of_one()),
        ReadError::Unreadable(Unreadable::Undecodable(why)) => plain_internal(why),
    }
}

fn plan(error: PlanError, resource: &GroupResource, kind: &GroupKind) -> Status {
    match error {
        PlanError::NotFound { name } => Status::not_found(resource, &name),
        PlanError::NamespaceNotFound { name } => {
            Status::not_found(&GroupResource::new("", "namespaces"), &name)
        }
        PlanError::NamespaceTerminating { namespace, name } => {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            Status::forbidden(resource, &name, why).with_cause(Cause {
                reason: cause::NAMESPACE_TERMINATING.into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            })
        }
        PlanError::AlreadyExists { name, generated: false, deleting } => {
            let mut status = Status::already_exists(resource, &name);
            if deleting {
                status.message.insert_str(0, "object is being deleted: ");
            }
            status
        }
        PlanError::AlreadyExists { name, generated: true, .. } => {
            Status::generate_name_conflict(resource, &name, 1)
        }
        PlanError::Conflict { name, message } => Status::conflict(resource, &name, message),
        PlanError::ApplyConflict { message, causes } => {
            let cause = |conflict: FieldConflict| Cause {
                reason: cause::FIELD_MANAGER_CONFLICT.into(),
                message: conflict.message,
                field: conflict.field,
            };
            Status::apply_conflict(causes.into_iter().map(cause).collect(), message)
        }
        // `rest.BeforeDelete` names the kind where others name the resource.
        PlanError::Precondition { name, message } => {
            let kind = GroupResource::new(kind.group.clone(), kind.kind.clone());
            Status::conflict(&kind, &name, message)
        }
        PlanError::NoRevision { name } => {
            // `Store.Update` names the resource where others name the kind.
            let kind = GroupKind { group: resource.group.clone(), kind: resource.resource.clone() };
            let path = field::Path::new("metadata");
            let path = path.child("resourceVersion");
            let error = field::Error::invalid_raw(&path, "0", "must be specified for an update");
            Status::invalid(&kind, &name, &[error])
        }
        PlanError::Invalid { name, errors } => Status::invalid(kind, &name, &errors),
        PlanError::BadRequest(message) => Status::bad_request(message),
        PlanError::Forbidden { name, message } => Status::forbidden(resource, &name, message),
        PlanError::TooLarge { bytes, limit } => {
            Status::request_entity_too_large(format!("the object has {bytes} bytes, the limit is {limit}"))
        }
        PlanError::Caller(refusal) => match (refusal.get::<RequestError>(), refusal.get::<BudgetRefusal>()) {
            (Some(error), _) => request(error.clone()),
            (None, Some(budget)) => over_budget(budget),
            (None, None) => Status::internal_error(refusal),
        },
        PlanError::Refused(refusal) => admission(*refusal, resource),
        PlanError::Corrupt(message) | PlanError::Unallocated(message) => Status::internal_error(message),
        error @ PlanError::WouldLose { .. } => Status::internal_error(error),
        PlanError::Internal(message) => plain_internal(message),
    }
}

/// A write stops at admission (apiserver `pkg/admission/plugin/webhook/errors`, `ToStatusErr`, 1.37).
fn admission(refusal: AdmissionRefusal, resource: &GroupResource) -> Status {
    let code = refusal.code();
    match refusal {
        AdmissionRefusal::Denied { hook, result } => {
            let mut fields = result.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
            fields.insert("kind", "Status");
            fields.insert("apiVersion", "v1");
            fields.insert("status", "Failure");
            let given = Status::from_value(&Value::Object(fields));
            let mut status = given.unwrap_or_else(|| plain_internal(String::new()));
            let by = format!("admission webhook {} denied the request", field::go_quote(&hook));
            status.message = match (status.message.as_str(), &*status.reason) {
                ("", "") => format!("{by} without explanation"),
                ("", why) | (why, _) => format!("{by}: {why}"),
            };
            Status { code, continue_token: None, ..status }
        }
        AdmissionRefusal::NoDryRun { hook } => {
            let hook = field::go_quote(&hook);
            Status::bad_request(format!("admission webhook {hook} does not support dry run"))
        }
        AdmissionRefusal::ByPolicy { name, message, reason } => {
            let status = Status::forbidden(resource, &name, message.clone());
            let cause = Cause { reason: "".into(), message, field: String::new() };
            Status { code, reason: reason.to_string().into(), ..status.with_cause(cause) }
        }
        AdmissionRefusal::ByChanges { name, reasons, reason } => {
            let message = reasons.first().cloned().unwrap_or_default();
            let status = Status { message, ..Status::forbidden(resource, &name, "") };
            let cause = |message| Cause { reason: "".into(), message, field: String::new() };
            let status = reasons.into_iter().map(cause).fold(status, Status::with_cause);
            Status { reason: reason.into(), ..status }
        }
        AdmissionRefusal::OtherKind { kind, name, error } => Status::invalid(&kind, &name, &[error]),
        // Upstream suggests no time to come again.
        AdmissionRefusal::TooManyEvents(limits) => {
            let status = Status::too_many_requests(format!("Too many requests: {limits}"), 0);
            Status { details: None, ..status }
        }
        AdmissionRefusal::Late => Status::timeout("request did not complete within requested timeout", 0),
        AdmissionRefusal::Internal(why) => Status::internal_error(why),
    }
}

/// A PodDisruptionBudget refuses an eviction (`createTooManyRequestsError`, `checkAndDecrement` of
/// `pkg/registry/core/pod/storage/eviction.go`, 1.37).
fn over_budget(refusal: &BudgetRefusal) -> Status {
    const UNSETTLED_SECONDS: u32 = 10;
    let too_many = |seconds| {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Status::too_many_requests(message, seconds)
    };
    // Upstream names the resource in the singular here.
    let forbidden =
        |budget, why| Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), budget, why);
    let status = match refusal {
        BudgetRefusal::Unsettled { .. } => too_many(UNSETTLED_SECONDS),
        BudgetRefusal::Exhausted { .. } => too_many(0),
        BudgetRefusal::Negative { budget } => forbidden(budget, "pdb disruptions allowed is negative"),
        BudgetRefusal::Full { budget } => forbidden(
            budget,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    };
    status.with_cause(Cause {
        reason: cause::DISRUPTION_BUDGET.into(),
        message: refusal.to_string(),
        field: String::new(),
    })
}

fn write(error: WriteError, resource: &GroupResource, kind: &GroupKind) -> Status {
    match error {
        WriteError::Plan(error) => plan(error, resource, kind),
        WriteError::RequestTooLarge(what) => Status::request_entity_too_large(what),
        WriteError::Overloaded { retry_after_seconds } => busy_for(retry_after_seconds),
        WriteError::Busy | WriteError::Guessed => busy(),
        WriteError::Unknown => Status::timeout("the write was not confirmed in time; it may still happen", 1),
        WriteError::Unavailable(message) => unavailable(message),
        WriteError::Gone => Status::generic(404, "", resource, "", ""),
    }
}

fn busy() -> Status {
    busy_for(1)
}

fn busy_for(retry_after_seconds: u32) -> Status {
    let message = "The server has too many requests in flight, please try again later.";
    Status::too_many_requests(message, retry_after_seconds)
}

fn seconds(overloaded: Overloaded) -> u32 {
    u32::try_from(overloaded.retry_after.as_secs()).unwrap_or(u32::MAX)
}

fn unavailable(message: String) -> Status {
    let mut status = Status::service_unavailable(message);
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}

/// The Status that upstream's `ErrorToAPIStatus` makes of an unknown error: its text alone.
fn plain_internal(message: String) -> Status {
    Status {
        status: Outcome::Failure,
        message,
        reason: "".into(),
        details: None,
        code: 500,
        continue_token: None,
    }
}

/// 410 for a list of a state that has left the history; `continue_token` goes on with the present one.
pub(crate) fn expired_list(message: &str, continue_token: Option<String>) -> Failure {
    Failure::Status(Box::new(Status { continue_token, ..Status::expired(message) }))
}

/// 500 for a list of which these objects can't be read; there may be more once there are `causes_max`.
pub(crate) fn store_read_error(
    resource: GroupResource,
    mut causes: Vec<Cause>,
    causes_max: usize,
) -> Failure {
    let first = causes.first().map_or("", |cause| cause.message.as_str());
    let mut message = format!("failed to read one or more {resource} from the storage: {first}");
    if causes.len() > 1 {
        message = format!("{message} (and {} more)", causes.len() - 1);
    }
    if causes.len() == causes_max {
        let message = "too many errors, the list is truncated".to_owned();
        causes.push(Cause { reason: cause::TOO_MANY.into(), message, field: String::new() });
    }
    let details = Details {
        name: "list".into(),
        group: resource.group,
        kind: resource.resource,
        causes,
        ..Details::default()
    };
    Failure::Status(Box::new(Status {
        status: Outcome::Failure,
        message,
        reason: reason::STORE_READ_ERROR.into(),
        details: Some(Box::new(details)),
        code: 500,
        continue_token: None,
    }))
}

/// An object of a list that turns out to be unreadable only when it is rendered is named as those found before.
pub(crate) fn unreadable_object(resource: GroupResource, error: ReadError) -> Failure {
    let ReadError::Unreadable(Unreadable::Corrupt { key, .. }) = &error else {
        return Failure::Read(error, resource);
    };
    let cause = Cause {
        reason: cause::UNEXPECTED_SERVER_RESPONSE.into(),
        message: error.to_string(),
        field: key.clone(),
    };
    store_read_error(resource, vec![cause], usize::MAX)
}

/// 403 for a change of a namespace that a host alone changes.
pub(crate) fn namespaces_are_the_hosts(resource: GroupResource, name: &str) -> Failure {
    let why = "namespaces are those of the host: change it there";
    Failure::Status(Box::new(Status::forbidden(&resource, name, why)))
}

/// The refusal of a program that serves a subresource.
pub(crate) fn refused_by_program(resource: &GroupResource, name: &str, refusal: HandlerRefusal) -> Failure {
    let HandlerRefusal { code, reason, message } = refusal;
    let details = Details {
        name: name.into(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    };
    Failure::Status(Box::new(Status {
        status: Outcome::Failure,
        message,
        reason: reason.into(),
        details: Some(Box::new(details)),
        code,
        continue_token: None,
    }))
}

/// 500 for a Scale of an object that has no number of replicas, which a reader wants to know.
pub(crate) fn no_replicas(path: &str) -> Failure {
    let path = field::go_quote(path);
    Failure::Status(Box::new(Status::internal_error(format!(
        "the spec replicas field {path} does not exist"
    ))))
}

/// A failure of the server's own: of a program's handler, or in the event that ends a watch whose store failed or that meets an
/// unreadable object.
pub(crate) fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal_error(error)
}

/// The object of the event that ends a watch whose revision has left the history.
pub(crate) fn expired(message: impl Into<String>) -> Status {
    let status = Status::expired(message);
    debug_assert_eq!(status.reason, reason::EXPIRED, "clients list again on this reason");
    status
}
