//! `?dryRun=All&explain=stages`: the answer to a write is what each of its stages did.

use kindom_actor_kit::turn;
use kindom_api::{Value, object};
use kindom_codec::Format;
use kindom_objects::render;
use kindom_resource_actor::{Explanation, Outcome, Written};

use crate::RequestError;
use crate::call::Call;
use crate::cost;
use crate::negotiate::{Accepted, Shape};
use crate::query::WriteOptions;
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;
use crate::writing::remove_revision;

/// Of the answer, which is no object that anybody could write.
const API_VERSION: &str = "kindom.dev/v1alpha1";
const KIND: &str = "WriteExplanation";

/// Refuses to explain what is no write of an object, or is one through another object.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check(call: &Call<'_>, query: &WriteOptions) -> Result<(), RequestError> {
    let writes_object = call.subresource().is_none_or(|through| through.kind().is_none());
    if !query.explain || writes_object && !call.spec.strategy.answers_creates() {
        return Ok(());
    }
    Err(RequestError::BadRequest("explain is only for writes of objects, and of their parts".to_owned()))
}

/// The stages of a write, with the code and the result that it would have had. A server that could not carry the write out has
/// none to show, and fails.
pub(crate) async fn respond(
    call: &Call<'_>,
    explanation: &Explanation,
    written: Result<Written, Failure>,
    mut warnings: Vec<String>,
) -> Result<Response, Failure> {
    let accepted = Accepted { format: Format::Json, shape: Shape::Whole, ..call.accept()? };
    let (code, result) = match written {
        Ok(written) => {
            turn(cost::answer(call.request, written.object.json().len(), accepted)).await;
            let result = call.converting(&written.spec, || result(call, &written)).await?;
            warnings.extend(written.warnings);
            (if matches!(written.outcome, Outcome::Created { .. }) { 201 } else { 200 }, result)
        }
        Err(failure) => {
            turn(cost::parse(failure.bytes())).await;
            let (status, more) = failure.refusal().map_err(|failure| failure.warned(warnings.clone()))?;
            warnings.extend(more);
            (status.code, status.to_value())
        }
    };
    let mut answer =
        object! { "apiVersion": API_VERSION, "kind": KIND, "code": i64::from(code), "result": result };
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("attempts", explanation.attempts());
        answer.insert("stages", explanation.stages());
    }
    Ok(Reply::tree(200, answer).with_warnings(warnings).write(call.request, accepted))
}

/// The object that the write would have left.
fn result(call: &Call<'_>, written: &Written) -> Result<Value, Failure> {
    let Written { spec, object, outcome, .. } = written;
    let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
    let mut tree = render::decode(spec, version, object).map_err(|error| call.read_failure(error))?;
    if matches!(outcome, Outcome::Created { .. }) {
        remove_revision(&mut tree);
    }
    let part = call.subresource().and_then(|through| spec.part(&version.name, through));
    Ok(match part {
        Some(part) => part.of(&tree),
        None => tree,
    })
}
