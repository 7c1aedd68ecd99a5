//! POST

use kindom_actor_kit::dear;
use kindom_api::{Value, meta};
use kindom_codec::{FieldValidation, Format};
use kindom_objects::{RuleContext, Unreadable};
use kindom_resource_actor::Write;

use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::cost;
use crate::decoding::object_of_body;
use crate::negotiate::Accepted;
use crate::query::WriteOptions;
use crate::respond::Reply;
use crate::response::Response;
use crate::status::Failure;
use crate::wait_for;
use crate::writing::{carry_out, failed, finish, options};

/// POST of a question.
async fn ask(
    call: &Call<'_>,
    accepted: Accepted,
    validation: FieldValidation,
    bytes: &[u8],
    format: Format,
) -> Result<Response, Failure> {
    dear(cost::parse(bytes.len())).await?;
    let version = call.version()?;
    let compiled = call.spec.compiled(version).map_err(|e| call.read_failure(Unreadable::Undecodable(e)))?;
    let now = meta::time::format(call.state.now_seconds());
    let cx = RuleContext {
        spec: &call.spec,
        version: &compiled,
        version_name: &version.name,
        subresource: None,
        user: &call.user,
        now: &now,
    };
    let mut warnings = Vec::new();
    let read = object_of_body(&cx, &version.name, bytes, format, validation, &mut warnings);
    let question = match read {
        Ok((question, None)) => question,
        Ok((_, Some(error))) | Err(error) => return Err(failed(call, error)),
    };
    let answer = Reply::tree(201, call.spec.strategy.answer(&cx, &question)).declared(call.declared());
    Ok(answer.with_warnings(warnings).write(call.request, accepted))
}

/// POST
pub(crate) async fn create(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of POST");
    let accepted = call.accept()?;
    let query = WriteOptions::for_create(call.query)?;
    wait_for::check(call, query.wait_for)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    if call.spec.strategy.answers_creates() {
        return ask(call, accepted, query.field_validation, &bytes, format).await;
    }
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| match object_of_body(
        cx,
        version,
        &bytes,
        format,
        query.field_validation,
        &mut warnings,
    )? {
        (object, None) => Ok(object),
        (_, Some(wrong)) => Err(wrong),
    };
    let written = carry_out(call, "", options(call, &query, &bytes), Write::Create(&mut wanted)).await;
    finish(call, accepted, &query, written, warnings).await
}
