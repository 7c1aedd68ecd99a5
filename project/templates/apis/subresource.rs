//! The subresource `{{ resource }}/{{ subresource }}`.

use kindom_server::{SubresourceAnswer, SubresourceError, SubresourceRequest};

use crate::{{ group_module }}::{{ hub }}::{{ kind }};

#[cfg(test)]
#[path = "{{ file }}_test.rs"]
mod tests;

/// Answers the subresource's requests, of the verbs that kindom.json lists.
pub async fn {{ function }}(
    request: SubresourceRequest<{{ kind }}>,
) -> Result<SubresourceAnswer, SubresourceError> {
    let object = match request.verb() {
        "get" => request.object().clone(),
        // Change the object here, which goes through its rules; or do something else.
        _ => request.update(|_object| Ok(())).await?,
    };
    SubresourceAnswer::json(&object.spec)
}
