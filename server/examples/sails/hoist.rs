//! The subresource `sloops/hoist`: a GET says which sails a sloop carries, a POST sets one more.

use kindom_server::{SubresourceAnswer, SubresourceError, SubresourceRequest};
use serde::{Deserialize, Serialize};

use crate::sloop::Sloop;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hoist {
    sail: String,
}

/// The answer.
#[derive(Serialize)]
struct Sails<'a> {
    sails: &'a [String],
}

/// Answers the subresource's requests.
pub(crate) async fn hoist(request: SubresourceRequest<Sloop>) -> Result<SubresourceAnswer, SubresourceError> {
    if request.verb() == "get" {
        return SubresourceAnswer::json(&Sails { sails: &request.object().spec.sails });
    }
    let Hoist { sail } = request.json()?;
    let changed = request.update(|sloop| {
        if sloop.spec.sails.contains(&sail) {
            return Err(SubresourceError::conflict(format!("the {sail} is set already")));
        }
        sloop.spec.sails.push(sail.clone());
        Ok(())
    });
    SubresourceAnswer::json(&Sails { sails: &changed.await?.spec.sails })
}
