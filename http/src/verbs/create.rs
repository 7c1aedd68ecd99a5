//! POST

use actix_web::{HttpResponse, web};
use kindom_api::Value;
use kindom_objects::RuleContext;

use crate::body::plain_body;
use crate::call::Call;
use crate::decoding::object_of_body;
use crate::query::WriteOptions;
use crate::settle::{finish, options, settled, target};
use crate::status::Failure;
use crate::wait_for;

/// POST
pub(crate) async fn create(call: &Call<'_>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    tracing::trace!("read the body of POST");
    let accepted = call.accept()?;
    let query = WriteOptions::for_create(call.query)?;
    wait_for::check(call, query.wait_for)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
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
    let written = settled(call, options(call, &query), async |handle, options| {
        handle.create(target(call, ""), &mut wanted, options).await
    });
    let written = written.await;
    finish(call, accepted, &query, written, warnings).await
}
