//! `?dryRun=All&explain=stages`: the answer to a write is the record of its stages.

use kindom_actor_kit::turn;
use kindom_api::{Value, object};
use kindom_codec::Format;
use kindom_objects::{Subresource, render};
use kindom_resource_actor::{Explanation, Outcome, Written};

use crate::RequestError;
use crate::call::Call;
use crate::cost;
use crate::layout::LAID_OUT_BYTES;
use crate::negotiate::{Accepted, Shape};
use crate::query::WriteOptions;
use crate::reply::{deprecation, remove_revision};
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;

/// The type of the answer; no such object is served.
const API_VERSION: &str = "kindom.dev/v1alpha1";
const KIND: &str = "WriteExplanation";

/// Refuses to explain writes whose body is another object (a Scale, say), or a part of one: a part is for users who may not read
/// the rest.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check(call: &Call<'_>, query: &WriteOptions) -> Result<(), RequestError> {
    let writes_object = call
        .subresource()
        .is_none_or(|through| through.kind().is_none() && !matches!(through, Subresource::Declared(_)));
    if !query.explain || writes_object && !call.spec.strategy.answers_creates() {
        return Ok(());
    }
    Err(unexplained())
}

/// The refusal of a request that asks for an explanation and has none.
pub(crate) fn unexplained() -> RequestError {
    RequestError::BadRequest("explain is only for writes of objects and of their status".to_owned())
}

/// The stages of a write, with the code and the result that it would have had.
///
/// # Errors
/// The server could not carry the write out.
pub(crate) async fn respond(
    call: &Call<'_>,
    accepted: Accepted,
    explanation: &Explanation,
    written: Result<Written, Failure>,
    mut warnings: Vec<String>,
) -> Result<Response, Failure> {
    let (code, result) = match written {
        Ok(written) => {
            turn(cost::parse(written.object.json().len() + explanation.bytes())).await;
            let result = call.converting(&written.spec, || result(call, &written)).await?;
            warnings.extend(written.warnings);
            (if matches!(written.outcome, Outcome::Created { .. }) { 201 } else { 200 }, result)
        }
        Err(failure) => {
            turn(cost::refusal(failure.bytes()) + cost::parse(explanation.bytes())).await;
            let (status, more) = failure.refusal().map_err(|failure| failure.warned(warnings.clone()))?;
            warnings.extend(more);
            (status.code, status.to_value())
        }
    };
    let answer = object! {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "attempts": explanation.attempts(),
        "stages": explanation.stages(),
        "code": i64::from(code),
        "result": result,
    };
    let accepted = Accepted { format: Format::Json, shape: Shape::Whole, ..accepted };
    let reply = Reply::tree(200, answer).with_warnings(warnings);
    let reply = deprecation(call, reply.paced(|| call.piece_turns(cost::parse(LAID_OUT_BYTES))))?;
    Ok(reply.write(call.request, accepted))
}

/// The object that the write would have left.
fn result(call: &Call<'_>, written: &Written) -> Result<Value, Failure> {
    let Written { spec, object, outcome, .. } = written;
    let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
    let mut tree = render::decode(spec, version, object).map_err(|error| call.read_failure(error))?;
    if matches!(outcome, Outcome::Created { .. }) {
        remove_revision(&mut tree);
    }
    Ok(tree)
}
