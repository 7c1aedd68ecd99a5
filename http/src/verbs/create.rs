//! POST

use kindom_api::Value;
use kindom_objects::RuleContext;
use kindom_resource_actor::Write;

use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::decoding::object_of_body;
use crate::query::WriteOptions;
use crate::response::Response;
use crate::status::Failure;
use crate::verbs::ask;
use crate::writing::{carry_out, check_extensions, finish, options};

/// POST
pub(crate) async fn create(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of POST");
    let accepted = call.accept()?;
    let query = WriteOptions::for_create(call.query)?;
    check_extensions(call, &query)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    if call.spec.strategy.answers_creates() {
        return ask::ask(call, accepted, &query, bytes, format).await;
    }
    let mut warnings = Vec::new();
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
        let (object, wrong) =
            object_of_body(cx, version, &bytes, format, query.field_validation, &mut warnings)?;
        call.record_object(&object);
        match wrong {
            None => Ok(object),
            Some(wrong) => Err(wrong),
        }
    };
    let ended = carry_out(call, "", options(call, &query, &bytes), Write::Create(&mut wanted)).await;
    finish(call, accepted, &query, ended, warnings).await
}
