//! The form of an answer beside its media type: whether it is indented, and whether it is compressed.

use actix_web::http::header;
use kindom_codec::Format;

use crate::head::{Head, header_of};
use crate::negotiate::Accepted;
use crate::query::Query;

/// Answers at least this large are compressed for clients that take gzip.
pub(crate) const GZIP_BYTES_MIN: usize = 128 << 10;

/// Returns true if the answer is indented.
pub(crate) fn is_pretty(request: &Head, accepted: Accepted) -> bool {
    accepted.pretty || (accepted.format == Format::Json && wants_pretty(request))
}

/// `true` if a person reads the answer (apiserver `handlers/responsewriters/writers.go` and `negotiation.isPrettyPrint`).
fn wants_pretty(request: &Head) -> bool {
    let query = request.query_string();
    if query.contains("pretty")
        && let Some(value) = Query::parse(query).get("pretty").filter(|value| !value.is_empty())
    {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = header_of(request, header::USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}

/// Returns true if the client takes compressed answers.
pub(crate) fn takes_gzip(request: &Head) -> bool {
    let accepted =
        request.headers().get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|part| {
        let mut pieces = part.split(';');
        pieces.next().is_some_and(|name| name.trim() == "gzip") && !pieces.any(|p| p.trim() == "q=0")
    })
}
