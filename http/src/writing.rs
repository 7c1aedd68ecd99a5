//! From a request's write to its outcome and its answer, whichever verb it is.

use std::sync::Arc;

use actix_web::http::header;
use kindom_actor_kit::turn;
use kindom_api::Value;
use kindom_objects::{PlanError, Refusal, StoredRegistration};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{
    AccessDecider, AskedAdmission, AuditTrail, Explanation, Knowledge, Outcome, SentOptions, Target, Write,
    WriteOptions as Options, Written, is_conclusive,
};

use crate::call::Call;
use crate::cost;
use crate::negotiate::Accepted;
use crate::query::{DeleteOptions, WriteOptions, sent_options};
use crate::recorded::Trail;
use crate::reply::{deprecation, object_reply, remove_revision};
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;
use crate::{RequestError, explained, wait_for};

/// The room that a registration leaves for its status, but for a quarter of the limit at most: names, conditions, and the explanation of a conflict.
const STATUS_BYTES: usize = 32 << 10;

pub(crate) fn options(call: &Call<'_>, query: &WriteOptions, body: &[u8]) -> Options {
    let user_agent = call.request.headers().get(header::USER_AGENT);
    let user_agent = user_agent.map(header::HeaderValue::as_bytes).unwrap_or_default();
    let manager = query.manager(user_agent);
    let explanation = query.explain.then(|| Arc::new(Explanation::new(call.handle.deps().clock.clone())));
    Options {
        manager,
        explanation,
        bytes: body.len(),
        ..common(call, query.dry_run, sent_options(call.query))
    }
}

/// The options of a delete, which sets no fields for any manager.
pub(crate) fn deletion(call: &Call<'_>, query: &DeleteOptions) -> Options {
    common(call, query.dry_run, query.sent.clone())
}

fn common(call: &Call<'_>, dry_run: bool, sent: SentOptions) -> Options {
    // The server writes a registration's status itself, and has to have room for it.
    let is_registration = call.state.registry.is_registrations(&call.handle) && call.subresource().is_none();
    let reserve = if is_registration { STATUS_BYTES.min(call.state.object_bytes_max / 4) } else { 0 };
    Options {
        deadline: call.deadline,
        dry_run,
        is_trial: false,
        object_bytes_max: call.state.object_bytes_max.saturating_sub(reserve),
        namespaces: Some(call.state.namespaces.clone()),
        quotas: call.state.quotas.clone(),
        plugins: call.state.plugins.clone(),
        admission: call.state.admission.clone().map(|admission| AskedAdmission {
            admission,
            access: Arc::clone(call.state) as Arc<dyn AccessDecider>,
            options: sent,
            is_of_collection: false,
            warnings: Arc::default(),
            trail: call
                .request
                .record()
                .map(|record| Arc::new(Trail(Arc::clone(record))) as Arc<dyn AuditTrail>),
        }),
        manager: String::new(),
        user: Arc::clone(&call.user),
        knowledge: call.knowledge,
        bytes: 0,
        room: Some(call.room()),
        explanation: None,
        fence: None,
    }
}

fn target<'a>(call: &'a Call<'_>, name: &'a str) -> Target<'a> {
    Target {
        version: &call.info.resource.version,
        subresource: call.subresource(),
        namespace: call.namespace(),
        name,
    }
}

/// A refusal from within a plan, carried through it.
pub(crate) fn refused(error: RequestError) -> PlanError {
    PlanError::Caller(Refusal::new(error))
}

pub(crate) fn failed(call: &Call<'_>, error: impl Into<WriteError>) -> Failure {
    Failure::Write(Box::new(error.into()), call.resource(), call.spec.group_kind())
}

/// The outcome of a write, and the record of its stages, if the client asked for that.
pub(crate) struct Ended {
    pub(crate) written: Result<Written, Failure>,
    pub(crate) explanation: Option<Arc<Explanation>>,
}

/// Refuses the options that are kindom's own where they do not apply.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check_extensions(call: &Call<'_>, query: &WriteOptions) -> Result<(), RequestError> {
    wait_for::check(call, query.wait_for)?;
    explained::check(call, query)
}

/// Writes an object. A plan that was made on a guess counts only if the store has committed it; otherwise the type is looked
/// up and the write planned again.
pub(crate) async fn carry_out(call: &Call<'_>, name: &str, options: Options, write: Write<'_>) -> Ended {
    tracing::trace!("carry the write out");
    let explanation = options.explanation.clone();
    let warnings = options.admission.as_ref().map(|asked| Arc::clone(&asked.warnings));
    let written = guess_and_write(call, name, options, write).await;
    let warnings = warnings.map(|warnings| std::mem::take(&mut *warnings.lock())).unwrap_or_default();
    let written = match written {
        Ok(written) if warnings.is_empty() => Ok(written),
        Ok(written) => Ok(Written { warnings: [warnings, written.warnings].concat(), ..written }),
        Err(failure) => Err(failure.warned(warnings)),
    };
    Ended { written, explanation }
}

async fn guess_and_write(
    call: &Call<'_>,
    name: &str,
    mut options: Options,
    mut write: Write<'_>,
) -> Result<Written, Failure> {
    let target = target(call, name);
    let mut present = None;
    if options.knowledge == Knowledge::Guess {
        // Nothing is committed by a dry run.
        let guessed = match options.dry_run {
            true => Err(WriteError::Guessed),
            false => call.handle.write(target, &mut write, &options).await,
        };
        if is_conclusive(&guessed) {
            return guessed.map_err(|error| failed(call, error));
        }
        let ((handle, _), knowledge) = call.look_up_again().await?;
        options.knowledge = knowledge;
        present = Some(handle);
    }
    let handle = present.as_ref().unwrap_or(&call.handle);
    handle.write(target, &mut write, &options).await.map_err(|error| failed(call, error))
}

/// The end of every write of one object: its warnings, the condition that it waits for, and the answer; 201 for a new
/// object.
pub(crate) async fn finish(
    call: &Call<'_>,
    accepted: Accepted,
    query: &WriteOptions,
    ended: Ended,
    mut warnings: Vec<String>,
) -> Result<Response, Failure> {
    if let Ok(written) = &ended.written {
        warnings.extend(short_names_elsewhere(call, written).await);
    }
    if let Some(explanation) = ended.explanation {
        return explained::respond(call, accepted, &explanation, ended.written, warnings).await;
    }
    let written = match ended.written {
        Ok(written) => written,
        Err(why) => return Err(why.warned(warnings)),
    };
    let written = wait_for::wait(call, query.waits_for(), written).await;
    // A dry run creates nothing, and is answered as if it had.
    let code = if matches!(written.outcome, Outcome::Created { .. }) { 201 } else { 200 };
    respond(call, accepted, code, &written, warnings).await
}

/// The answer to a write of one object.
pub(crate) async fn respond(
    call: &Call<'_>,
    accepted: Accepted,
    code: u16,
    written: &Written,
    mut warnings: Vec<String>,
) -> Result<Response, Failure> {
    turn(cost::answer(call.request, written.object.json().len(), accepted)).await;
    let reply = || object_reply(call, &written.spec, &written.object, accepted, code);
    let reply = call.converting(&written.spec, reply).await?;
    warnings.extend(written.warnings.iter().cloned());
    let reply = deprecation(call, reply.with_warnings(warnings))?;
    let unstored = written.outcome == Outcome::Created { dry_run: true };
    let reply = if unstored { without_revision(reply)? } else { reply };
    Ok(reply.write(call.request, accepted))
}

/// Warnings for the author of a registration about short names that other types hold.
async fn short_names_elsewhere(call: &Call<'_>, written: &Written) -> Vec<String> {
    if !call.state.registry.is_registrations(&call.handle) || call.subresource().is_some() {
        return Vec::new();
    }
    turn(cost::parse(written.object.json().len())).await;
    let tree = kindom_api::json::parse_own(written.object.json()).unwrap_or_default();
    call.state.registry.short_names_elsewhere(StoredRegistration::new(&tree))
}

/// The answer to a dry run of a create has no resourceVersion, and neither has the row of its table.
fn without_revision(reply: Reply) -> Result<Reply, Failure> {
    reply.map_tree(|tree| {
        remove_revision(tree);
        if let Some(Value::Array(rows)) = tree.get_mut("rows") {
            rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(remove_revision);
        }
    })
}
