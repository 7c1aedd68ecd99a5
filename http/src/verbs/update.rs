//! PUT

use std::ops::ControlFlow;

use kindom_api::Value;
use kindom_objects::RuleContext;
use kindom_resource_actor::Write;

use crate::body::{Received, plain_body};
use crate::call::Call;
use crate::create_permission::CreatePermission;
use crate::decoding::{check_name, is_based_on, object_of_body};
use crate::query::WriteOptions;
use crate::response::Response;
use crate::status::Failure;
use crate::writing::{carry_out, check_extensions, finish, options};

/// PUT
pub(crate) async fn update(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    tracing::trace!("decode the body of PUT");
    let accepted = call.accept()?;
    let name = call.info.required_name()?.to_owned();
    let query = WriteOptions::for_update(call.query)?;
    check_extensions(call, &query)?;
    let (bytes, format) = (plain_body(call, payload).await?, call.body_format()?);
    let version = &call.info.resource.version;
    // Before the object is read: a body that is no object is 400, even if the object does not exist.
    let mut warnings = Vec::new();
    let mut permission = CreatePermission::of(call);
    let ended = loop {
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let (object, wrong) =
                object_of_body(cx, version, &bytes, format, query.field_validation, &mut warnings)?;
            call.record_object(&object);
            check_name(&object, &name)?;
            if let Some(wrong) = wrong.filter(|_| is_based_on(&object, old)) {
                return Err(wrong);
            }
            if *old == Value::Null && cx.spec.strategy.allows_create_on_update() {
                permission.check()?;
            }
            Ok(object)
        };
        let options = permission.options(options(call, &query, &bytes));
        let ended = carry_out(call, &name, options, Write::Update(&mut wanted)).await;
        if let ControlFlow::Break(ended) = permission.after(call, ended).await {
            break ended;
        }
    };
    finish(call, accepted, &query, ended, warnings).await
}
