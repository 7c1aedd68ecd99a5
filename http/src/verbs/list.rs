//! GET of a collection.

use crate::call::Call;
use crate::lists::list_reply;
use crate::query::ListOptions;
use crate::response::Response;
use crate::select::select;
use crate::status::Failure;

/// A list.
pub(crate) async fn list(call: &Call<'_>) -> Result<Response, Failure> {
    let accepted = call.accept()?;
    let options = ListOptions::parse(call.query)?;
    options.validate()?;
    let listed = select(call, &options).await?;
    list_reply(call, listed, accepted, Vec::new()).await
}
