//! Watches: a stream of events from a cursor, in the version, shape and selection that the client asked for.

mod event;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::dev::Payload;
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _, unfold};
use kindom_actor_kit::{Overloaded, dear};
use kindom_resource_actor::{Freshness, ReadError};
use kindom_storage::{Revision, StorageError};

use self::event::{EventForm, EventWriter, error_event};
use self::stream::WatchStream;
use crate::call::Call;
use crate::cost;
use crate::filter::Filter;
use crate::framing::Framing;
use crate::negotiate::Shape;
use crate::query::ListOptions;
use crate::respond::start;
use crate::route::is_served;
use crate::status::{Answer, Failure};
use crate::table::IncludeObject;
use crate::verbs::get::revision_of;
use crate::{RequestError, websocket};

/// The time that a watch lasts by default: this, up to twice as long, spread at random (`--min-request-timeout`).
const LASTS_AT_LEAST: Duration = Duration::from_secs(1800);
/// The longest that a watch lasts, in whatever `timeoutSeconds`: the longest duration of Go, 292 years. The end of a longer one
/// would be past the last instant that the clock can tell.
const LASTS_AT_MOST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// GET with `watch=true`. A WebSocket reads its frames from `payload`; it is taken if the connection becomes one.
pub(crate) async fn watch(call: &Call<'_>, payload: &mut Option<Payload>) -> Result<HttpResponse, Failure> {
    let accepted = call.accept_watch()?;
    let framing = Framing::new(accepted.format, websocket::is_wanted(call.request), call.declared());
    let mut options = ListOptions::parse(call.query)?;
    options.validate()?;
    options.select_name(&call.info.name)?;
    let mut filter = Filter::new(call, &options)?;
    let wanted = Revision(revision_of(&options.resource_version)?);
    let read = |e: ReadError| call.read_failure(e);

    let mut initial = None;
    let cursor = if options.send_initial_events == Some(true) {
        let freshness = match (options.resource_version.as_str(), wanted) {
            ("0", _) => Freshness::Any,
            (_, Revision::ZERO) => Freshness::Latest,
            (_, revision) => Freshness::AtLeast(revision),
        };
        let (snapshot, revision) = match call.handle.snapshot(freshness, call.deadline).await {
            Ok(found) => found,
            // The initial events come from upstream's cache, which finds this out when the stream has begun.
            Err(error @ ReadError::Storage(StorageError::Future { .. })) => {
                return failed_stream(call, framing, read(error), payload);
            }
            Err(error) => return Err(read(error)),
        };
        let objects = snapshot.count(filter.prefix(), "");
        let cost = cost::list(objects, usize::MAX, filter.requirements())
            + cost::parse(filter.bytes_read(&call.spec, snapshot.range(filter.prefix(), "")));
        let spec = Arc::clone(&call.spec);
        let select = async move {
            dear(cost).await?;
            let shown = snapshot.range(filter.prefix(), "").filter(|object| filter.shows(&spec, object));
            let objects = shown.cloned().collect();
            Ok::<_, Overloaded>((objects, filter))
        };
        let selected = call.state.bounds.processors.run(call.flow, select).await;
        let (objects, used) = selected.map_err(|lost| RequestError::Internal(lost.to_string()))??;
        (initial, filter) = (Some(objects), used);
        // Changes between the snapshot's own revision and the one it is complete at are not the type's.
        revision
    } else if wanted == Revision::ZERO {
        // The type may load meanwhile: its watch reads the store's history until it has.
        call.handle.stored_revision(Freshness::Latest, call.deadline).await.map_err(read)?
    } else {
        // The revision of an event that was just seen on another watch has happened. One from the future is waited for
        // by the stream, as by upstream's cache (`watch_cache.go`, `getAllEventsSinceLocked`, 1.37).
        match call.handle.happened(wanted, call.deadline).await {
            Ok(()) | Err(ReadError::Storage(StorageError::Future { .. })) => wanted,
            Err(error) => return Err(read(error)),
        }
    };

    let seconds = options.timeout_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
    let lasts = seconds.map_or_else(
        || {
            let spread = u64::try_from(LASTS_AT_LEAST.as_millis()).unwrap_or(u64::MAX);
            LASTS_AT_LEAST + Duration::from_millis(call.state.entropy.below(spread))
        },
        |seconds| Duration::from_secs(seconds).min(LASTS_AT_MOST),
    );
    let include = match accepted.shape {
        Shape::Table(_) => IncludeObject::parse(call.query)?,
        Shape::Whole | Shape::Metadata(_) | Shape::MetadataList(_) => IncludeObject::None,
    };
    let cursor = call.handle.watch(cursor).map_err(read)?;
    let resource = &call.info.resource;
    let of_type = [resource.group.as_str(), &resource.version, &resource.resource];
    let (guard, events) = call.state.metrics.watch(of_type, |of| is_served(call.state, of));
    let writer = EventWriter {
        state: Arc::clone(call.state),
        version: resource.version.clone(),
        form: EventForm::new(&accepted.shape, include),
        framing,
        events,
        _open: guard,
    };
    let stream = WatchStream::new(call, &options, filter, writer, initial, cursor, lasts);
    let events = unfold(Box::new(stream), WatchStream::next);
    if websocket::is_wanted(call.request) {
        return Ok(upgrade(call, events, payload));
    }
    let mut builder = start(200);
    builder.content_type(framing.content_type());
    if let Some(warning) = &call.version()?.deprecation_warning {
        builder.insert_header((header::WARNING, crate::warning::warning_header(warning)));
    }
    Ok(builder.streaming(events.map(Ok)).into_http())
}

/// The connection becomes a WebSocket, if the handshake is one.
fn upgrade(
    call: &Call<'_>,
    events: impl Stream<Item = Bytes> + 'static,
    payload: &mut Option<Payload>,
) -> HttpResponse {
    let headers = match websocket::accept(call.request, call.token_in_protocol) {
        Ok(headers) => headers,
        Err(refusal) => return *refusal,
    };
    let Some(payload) = payload.take() else {
        return HttpResponse::InternalServerError().finish();
    };
    let mut builder = HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS);
    builder.upgrade("websocket");
    for (name, value) in headers {
        builder.insert_header((name, value));
    }
    let mut response = builder.streaming(Box::pin(websocket::stream(events, payload)));
    // The upgraded connection has no content type.
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// A stream of nothing but an error.
fn failed_stream(
    call: &Call<'_>,
    framing: Framing,
    failure: Failure,
    payload: &mut Option<Payload>,
) -> Result<HttpResponse, Failure> {
    match failure.answer() {
        Answer::Status(status) => {
            let event = error_event(framing, &status.to_value());
            if websocket::is_wanted(call.request) {
                return Ok(upgrade(call, futures::stream::iter([Bytes::from(event)]), payload));
            }
            Ok(start(200).content_type(framing.content_type()).body(event).into_http())
        }
        Answer::TooManyInFlight => Err(Failure::InFlight),
        Answer::Internal(text) => Err(Failure::Internal(text)),
        Answer::PageNotFound => Err(crate::RequestError::NotFound.into()),
    }
}
