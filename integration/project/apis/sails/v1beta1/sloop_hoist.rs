//! The subresource `sloops/hoist`.

use kindom_server::{SubresourceAnswer, SubresourceError, SubresourceRequest};

use crate::sails::v1beta1::Sloop;

#[cfg(test)]
#[path = "sloop_hoist_test.rs"]
mod tests;

/// Answers the subresource's requests, of the verbs that kindom.json lists.
pub async fn hoist(
    request: SubresourceRequest<Sloop>,
) -> Result<SubresourceAnswer, SubresourceError> {
    let object = match request.verb() {
        "get" => request.object().clone(),
        // Change the object here, which goes through its rules; or do something else.
        _ => request.update(|_object| Ok(())).await?,
    };
    SubresourceAnswer::json(&object.spec)
}
