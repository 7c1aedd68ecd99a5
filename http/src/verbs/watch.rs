//! Watches: a stream of events from a cursor, in the version, shape and selection that the client asked for.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::dev::Payload;
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _, unfold};
use kindom_actor_kit::{Deadline, Flow, Held, Overloaded, Room, dear, latest};
use kindom_api::{Map, Value, object};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, TypeSpec, Unreadable, VersionSpec, render};
use kindom_resource_actor::{Freshness, ObjectEvent, ResourceHandle, WatchCursor};
use kindom_resource_actor::{ReadError, WatchError};
use kindom_storage::{Revision, StorageError};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use crate::call::Call;
use crate::cost;
use crate::filter::Filter;
use crate::framing::Framing;
use crate::metrics::GaugeGuard;
use crate::negotiate::{MetaVersion, Shape};
use crate::phase::Phase;
use crate::query::ListOptions;
use crate::respond::start;
use crate::route::is_served;
use crate::state::{REQUEST_TIMEOUT, State};
use crate::status::{Answer, Failure, expired, internal};
use crate::table::{self, Column, IncludeObject, ListMeta};
use crate::verbs::get::revision_of;
use crate::{RequestError, websocket};

/// The most events that are taken at once.
const EVENTS_AT_ONCE: usize = 128;
/// A chunk of so many bytes takes no more events.
const CHUNK_BYTES: usize = 64 << 10;
/// The most bytes of events that are read at once to see if they are selected, or an event.
const READ_BYTES: usize = 128 << 10;
/// So many requirements of selectors are compared at a time.
const COMPARED_MAX: usize = 20_000;
/// The objects that a chunk has at most, as none is smaller than 128 bytes.
const OBJECTS_IN_CHUNK: usize = CHUNK_BYTES / 128;
/// The bytes of a chunk from which on it counts in the memory budget until the client's connection has it.
const LONG_BYTES: usize = 2 * CHUNK_BYTES;
/// About as many bytes as a cell of a table has at most.
const CELL_BYTES: usize = 1300;
/// Long chunks leave so large a part of the memory budget to requests: one of two.
const ROOM_PARTS: u64 = 2;
/// The time between two looks whether there is room for a long chunk, at first and at last, and the time after which the watch ends
/// without. If each answer that goes woke all who wait, a thousand of them would keep the threads busy.
const ROOM_SOON: Duration = Duration::from_millis(50);
const ROOM_LATER: Duration = Duration::from_secs(1);
const ROOM_WITHIN: Duration = Duration::from_secs(30);
/// The time between two bookmarks for a client that wants them (cacher `defaultBookmarkFrequency`).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time before its end at which a watch sends a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The time that a watch lasts by default: this, up to twice as long, spread at random (`--min-request-timeout`).
const LASTS_AT_LEAST: Duration = Duration::from_secs(1800);
/// The longest that a watch lasts, in whatever `timeoutSeconds`: the longest duration of Go, 292 years. The end of a longer one
/// would be past the last instant that the clock can tell.
const LASTS_AT_MOST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());
/// The annotation of the bookmark that ends the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

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
    let now = Instant::now();
    let shape = match accepted.shape {
        Shape::Whole => EventForm::Whole,
        Shape::Metadata(meta) | Shape::MetadataList(meta) => EventForm::Metadata(meta),
        Shape::Table(meta) => {
            EventForm::Table { meta, include: IncludeObject::parse(call.query)?, sent_columns: None }
        }
    };
    let resource = &call.info.resource;
    let of_type = [resource.group.as_str(), &resource.version, &resource.resource];
    let (guard, counter) = call.state.metrics.watch(of_type, |of| is_served(call.state, of));
    let stream = WatchStream {
        state: Arc::clone(call.state),
        flow: call.flow,
        room: call.room(),
        held: None,
        handle: call.handle.clone(),
        ahead: None,
        cursor: call.handle.watch(cursor).map_err(read)?,
        specs: call.handle.spec_changes(),
        last_spec: Some(Arc::clone(&call.spec)),
        version: resource.version.clone(),
        filter,
        form: shape,
        initial,
        bookmarks: options.allow_watch_bookmarks,
        explicit_initial_events: options.send_initial_events == Some(true),
        pending: VecDeque::new(),
        last_words: None,
        next_bookmark: now + first_bookmark(jittered(call.state, BOOKMARK_EVERY), lasts),
        ends: now + lasts,
        phase: call.state.phase.subscribe(),
        ends_with_server: false,
        ended: false,
        framing,
        events: counter,
        _guard: guard,
    };
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
            let mut event = Vec::new();
            error_event(framing, &status.to_value(), &mut event);
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

/// The time until the first bookmark: the interval, or less if the watch ends sooner.
fn first_bookmark(every: Duration, lasts: Duration) -> Duration {
    match lasts.checked_sub(BOOKMARK_BEFORE_END) {
        None | Some(Duration::ZERO) => every,
        Some(before_end) => every.min(before_end),
    }
}

fn jittered(state: &State, duration: Duration) -> Duration {
    let spread = u64::try_from(duration.as_millis() / 4).unwrap_or(u64::MAX);
    duration + Duration::from_millis(state.entropy.below(spread.max(1)))
}

/// The form of an event's object.
enum EventForm {
    Whole,
    Metadata(MetaVersion),
    /// `sent_columns`: the schema epoch whose columns the client has.
    Table {
        meta: MetaVersion,
        include: IncludeObject,
        sent_columns: Option<u64>,
    },
}

struct WatchStream {
    state: Arc<State>,
    flow: Flow,
    room: Room,
    /// The memory of the chunk that the connection took last.
    held: Option<Held>,
    handle: ResourceHandle,
    /// The answers of the type's webhook, where it has one.
    ahead: Option<Ahead>,
    cursor: WatchCursor,
    specs: latest::Receiver<Option<Arc<TypeSpec>>>,
    /// The type as it was last known.
    last_spec: Option<Arc<TypeSpec>>,
    version: String,
    filter: Filter,
    form: EventForm,
    /// The rest of the initial state; `None` once its end was sent.
    initial: Option<VecDeque<Arc<StoredObject>>>,
    explicit_initial_events: bool,
    /// Events that were taken and are not sent yet.
    pending: VecDeque<Arc<ObjectEvent>>,
    /// The reason why the watch ends, to be told behind the events that happened before.
    last_words: Option<String>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// The phase of the server: when it ends, the stream is closed in order, and the client goes on elsewhere from its last
    /// revision.
    phase: watch::Receiver<Phase>,
    /// `true` once `ends` is the server's end.
    ends_with_server: bool,
    ended: bool,
    framing: Framing,
    events: Counter,
    _guard: GaugeGuard,
}

enum Woken {
    Events(Result<Vec<Arc<ObjectEvent>>, WatchError>),
    Spec,
    Bookmark,
    /// The server ends; its watches have this long.
    Ending(Duration),
    End,
}

impl WatchStream {
    /// The next chunk; none at the end.
    async fn next(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        if self.ended {
            return None;
        }
        self.held = None;
        while self.initial.is_some() {
            let ControlFlow::Continue(spec) = self.convert_ahead().await else { return None };
            let chunk;
            (self, chunk) = self.made(spec, Self::initial_chunk).await?;
            if let Some(chunk) = chunk {
                return Some((chunk, self));
            }
            // None of those that the converter was asked about is selected; others go on.
            yield_now().await;
        }
        loop {
            let ControlFlow::Continue(spec) = self.convert_ahead().await else { return None };
            let chunk;
            (self, chunk) = self.made(spec, Self::pending_chunk).await?;
            if let Some(chunk) = chunk {
                return Some((chunk, self));
            }
            if !self.pending.is_empty() {
                // So many bytes were read for nothing; others go on.
                yield_now().await;
                continue;
            }
            if self.last_words.is_some() {
                if let Some(chunk) = self.last_chunk().await {
                    return Some((chunk, self));
                }
                continue;
            }
            let now = self.specs.see();
            let Some(spec) = now.filter(|s| served(s, &self.version)) else {
                self.last_words = Some("the type or its version is not served any more".to_owned());
                continue;
            };
            if let Some(field) = self.filter.lost_field(&spec, &self.version) {
                self.last_words = Some(format!("field label not supported any more: {field}"));
                continue;
            }
            self.last_spec = Some(Arc::clone(&spec));
            let woken = tokio::select! {
                biased;
                () = sleep_until(self.ends) => Woken::End,
                within = ending(&mut self.phase), if !self.ends_with_server => Woken::Ending(within),
                events = self.cursor.next(EVENTS_AT_ONCE) => Woken::Events(events),
                _ = self.specs.changed() => Woken::Spec,
                () = sleep_until(self.next_bookmark) => Woken::Bookmark,
            };
            match woken {
                Woken::End => return None,
                Woken::Ending(within) if within.is_zero() => return None,
                Woken::Ending(within) => {
                    self.ends_with_server = true;
                    self.ends = self.ends.min(Instant::now() + self.state.turn_to_end(within));
                }
                Woken::Spec => {}
                Woken::Bookmark => {
                    self.next_bookmark = Instant::now() + jittered(&self.state, BOOKMARK_EVERY);
                    // Also where no bookmark is wanted: the cursor of a quiet type stays within the history.
                    if let Some(revision) = self.cursor.advance().filter(|_| self.bookmarks) {
                        return Some((self.bookmark(&spec, revision, false), self));
                    }
                }
                Woken::Events(Ok(events)) => self.pending = events.into(),
                Woken::Events(Err(error)) => return Some((self.failed(&error), self)),
            }
        }
    }

    /// Makes a chunk; where it is long, on a processor, once there is room for it. `None` if the watch ends without.
    async fn made(
        mut self: Box<Self>,
        spec: Option<Arc<TypeSpec>>,
        make: fn(&mut Self, Option<Arc<TypeSpec>>) -> Option<Bytes>,
    ) -> Option<(Box<Self>, Option<Bytes>)> {
        let Some((bytes, cost)) = spec.as_deref().and_then(|spec| self.long_chunk(spec)) else {
            let chunk = make(&mut self, spec);
            return Some((self, chunk));
        };
        let until = self.ends.min(Instant::now() + ROOM_WITHIN);
        let mut held = tokio::select! {
            biased;
            held = room_for(self.room.clone(), bytes, until) => held?,
            _ = ending(&mut self.phase), if !self.ends_with_server => return None,
        };
        let (processors, flow) = (self.state.bounds.processors.clone(), self.flow);
        let made = processors.compute(flow, cost, move || {
            let chunk = make(&mut self, spec);
            (self, chunk)
        });
        let (mut watch, chunk) = made.await.ok()?;
        let made = chunk.as_ref().map_or(0, Bytes::len);
        held.grow_anyway(made.saturating_sub(bytes));
        watch.held = (made >= LONG_BYTES).then_some(held);
        Some((watch, chunk))
    }

    /// The bytes that the next chunk has at most, and what it costs to make, if a large object may come in it.
    fn long_chunk(&self, spec: &TypeSpec) -> Option<(usize, Duration)> {
        let version = spec.version(&self.version)?;
        let columns = match &self.form {
            EventForm::Whole | EventForm::Metadata(_) => 0,
            EventForm::Table { .. } => {
                spec.compiled(version).map_or(0, |compiled| compiled.columns.definitions().len())
            }
        };
        let size = |object: &StoredObject| {
            let json = object.json().len();
            json + columns * json.min(CELL_BYTES)
        };
        let initial = self.initial.iter().flatten().take(OBJECTS_IN_CHUNK);
        let events = self.pending.iter().filter(|_| self.initial.is_none());
        let states = events.flat_map(|event| [&event.object, &event.previous]).flatten();
        let mut compared = 0;
        let large = initial.chain(states).find(|object| {
            size(object) >= CHUNK_BYTES && {
                // Nobody waits for room for what is not his, if that can be told cheaply.
                compared += self.filter.requirements();
                compared > COMPARED_MAX || self.filter.may_select(object)
            }
        })?;
        let is_copied = matches!(self.form, EventForm::Whole) && render::is_copied(spec, version, large);
        let parsed = if is_copied { 0 } else { large.json().len() };
        Some((size(large) + CHUNK_BYTES, cost::copy(size(large)) + cost::parse(parsed)))
    }

    /// The type as events are shown by it; it may have changed since they were taken, or be forgotten by now.
    fn shown_by(&self) -> Option<Arc<TypeSpec>> {
        let now = self.specs.get().filter(|s| served(s, &self.version));
        now.or_else(|| self.last_spec.clone())
    }

    /// Has the type's converter asked about what is sent next, and returns the type that it is sent by. Breaks if the watch ends
    /// meanwhile.
    async fn convert_ahead(&mut self) -> ControlFlow<(), Option<Arc<TypeSpec>>> {
        let spec = self.shown_by();
        let asked = spec.as_ref().filter(|spec| spec.converter().is_some());
        let found = asked.and_then(|spec| Some((spec, spec.version(&self.version)?)));
        let Some((shown, version)) = found else {
            self.ahead = None;
            return ControlFlow::Continue(spec);
        };
        if self.ahead.as_ref().is_some_and(|ahead| ahead.left > 0 && Arc::ptr_eq(&ahead.spec, shown)) {
            return ControlFlow::Continue(spec);
        }
        let (mut next, mut bytes, mut left) = (Vec::new(), 0, 0);
        let there = self.initial.as_ref().map_or(self.pending.len(), VecDeque::len).min(EVENTS_AT_ONCE);
        while left < there && bytes < READ_BYTES {
            let objects = match &self.initial {
                Some(objects) => [objects.get(left).cloned(), None],
                None => {
                    self.pending.get(left).map(|event| self.converted_of(shown, event)).unwrap_or_default()
                }
            };
            left += 1;
            for object in objects.into_iter().flatten() {
                if !render::is_copied(shown, version, &object) {
                    bytes += object.json().len();
                    next.push(object);
                }
            }
        }
        let (mut answers, deadline) = (Conversions::default(), Deadline::after(REQUEST_TIMEOUT));
        let see = || next.iter().for_each(|object| drop(render::internal(shown, version, object)));
        let asking = self.handle.convert_ahead(shown, &mut answers, deadline, see);
        tokio::select! {
            biased;
            () = asking => {}
            () = sleep_until(self.ends) => return ControlFlow::Break(()),
            // It goes on elsewhere, from the last event that it has.
            _ = ending(&mut self.phase), if !self.ends_with_server => return ControlFlow::Break(()),
        }
        self.ahead = Some(Ahead { spec: Arc::clone(shown), left, answers });
        ControlFlow::Continue(spec)
    }

    /// The states of an event's object that are converted to send it.
    fn converted_of(&self, spec: &TypeSpec, event: &ObjectEvent) -> [Option<Arc<StoredObject>>; 2] {
        if self.filter.needs_answers(spec) {
            // Until both are converted, nobody knows what the event is.
            let of_key = |object: &Arc<StoredObject>| self.filter.may_match(object);
            return [event.object.clone().filter(of_key), event.previous.clone().filter(of_key)];
        }
        [self.selected(spec, event).ok().flatten().map(|(_, object)| object), None]
    }

    /// Takes the next initial object, or event, if it may be sent now; where somebody else converts, there is an answer for it.
    fn may_send(&mut self) -> bool {
        let Some(ahead) = &mut self.ahead else { return true };
        let is_answered = ahead.left > 0;
        ahead.left -= usize::from(is_answered);
        is_answered
    }

    /// Forgets the answers that have all been used: the client may take its time to read what was made of them.
    fn forget_used(&mut self) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.left == 0) {
            self.ahead = None;
        }
    }

    /// The next chunk of the initial state, or its end.
    fn initial_chunk(&mut self, spec: Option<Arc<TypeSpec>>) -> Option<Bytes> {
        let mut objects = self.initial.take()?;
        let spec = spec?;
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES
            && !objects.is_empty()
            && self.may_send()
            && let Some(object) = objects.pop_front()
        {
            // Until there was an answer, nobody knew.
            if self.filter.needs_answers(&spec)
                && !self.with_answers(|watch| watch.filter.shows(&spec, &object))
            {
                continue;
            }
            if !self.write(&spec, "ADDED", &object, &mut chunk) {
                // The end of the initial events would say that what cannot be read is not there.
                self.ended = true;
                return Some(chunk.into());
            }
        }
        if !objects.is_empty() {
            self.initial = Some(objects);
        } else if self.bookmarks && self.explicit_initial_events {
            chunk.extend_from_slice(&self.bookmark(&spec, self.cursor.cursor(), true));
        }
        self.forget_used();
        (!chunk.is_empty()).then(|| chunk.into())
    }

    /// The next chunk of what was taken; none if there is nothing to be sent of it.
    fn pending_chunk(&mut self, spec: Option<Arc<TypeSpec>>) -> Option<Bytes> {
        let spec = spec?;
        let (mut chunk, mut read, mut compared) = (Vec::new(), 0, 0);
        while chunk.len() < CHUNK_BYTES
            && read < READ_BYTES
            && compared < COMPARED_MAX
            && !self.pending.is_empty()
            && self.may_send()
            && let Some(event) = self.pending.pop_front()
        {
            read += self.filter.bytes_read(&spec, event.object.iter().chain(&event.previous));
            // The object before and after.
            compared += 2 * self.filter.requirements();
            if self.is_lost(&event) {
                self.ended = true;
                let message = self.last_words.take().unwrap_or_else(|| {
                    format!(
                        "what happened at revision {} can't be told: the object before or after it can't be read",
                        event.revision
                    )
                });
                error_event(self.framing, &expired(message).to_value(), &mut chunk);
                break;
            }
            let is_sent = match self.with_answers(|watch| watch.selected(&spec, &event)) {
                Ok(Some((kind, object))) => self.write(&spec, kind, &object, &mut chunk),
                Ok(None) => true,
                Err(why) => {
                    error_event(self.framing, &internal(why).to_value(), &mut chunk);
                    false
                }
            };
            if !is_sent {
                // Who watched on would never learn of this change.
                self.ended = true;
                break;
            }
        }
        self.forget_used();
        (!chunk.is_empty()).then(|| chunk.into())
    }

    /// The type is gone, or this version of it, or a selected field: the watch still sends the earlier events, then the
    /// client has to list again. `None` if there are such events.
    async fn last_chunk(&mut self) -> Option<Bytes> {
        if self.last_spec.is_some()
            && let Ok(events) = self.cursor.finish(EVENTS_AT_ONCE).await
            && !events.is_empty()
        {
            self.pending = events.into();
            return None;
        }
        self.ended = true;
        let mut chunk = Vec::new();
        let why = self.last_words.take().unwrap_or_default();
        error_event(self.framing, &expired(why).to_value(), &mut chunk);
        Some(chunk.into())
    }

    fn failed(&mut self, error: &WatchError) -> Bytes {
        self.ended = true;
        let status = match error {
            WatchError::Expired { requested, oldest } => {
                expired(format!("too old resource version: {} ({oldest})", requested.0.saturating_sub(1)))
                    .to_value()
            }
            WatchError::Gone => expired("the type is not served any more").to_value(),
            WatchError::Storage(error) => internal(error).to_value(),
        };
        let mut event = Vec::new();
        error_event(self.framing, &status, &mut event);
        event.into()
    }

    /// The store has lost the object's state before or after a change, or the former state was never readable. So the event
    /// for this client, who may have seen the object, is unknown, and it has to list again. Upstream sends a 500 if it can't
    /// read the former state (apiserver `pkg/storage/etcd3/watcher.go`, `prepareObjs`), after which client-go would ask for
    /// the same event again, for as long as the history holds it.
    fn is_lost(&self, event: &ObjectEvent) -> bool {
        let may_match = |object: &Arc<StoredObject>| self.filter.may_match(object);
        let mut states = [&event.object, &event.previous].into_iter().flatten();
        // The former state matters if the object is gone, or if the selector may have matched before or now.
        let asks = event.object.is_none() || !self.filter.is_everything();
        let unreadable =
            event.previous.iter().any(|object| asks && object.corrupt().is_some() && may_match(object));
        unreadable || states.any(|object| object.is_damaged() && may_match(object))
    }

    /// The type and object of an event for this client; `None` if neither the object before nor the one after is selected.
    ///
    /// # Errors
    /// One of them has no form to select by.
    fn selected(
        &self,
        spec: &TypeSpec,
        event: &ObjectEvent,
    ) -> Result<Option<(&'static str, Arc<StoredObject>)>, Unreadable> {
        let matching = |object: &Option<Arc<StoredObject>>| match object {
            Some(found) => Ok(self.filter.matches(spec, found)?.then(|| Arc::clone(found))),
            None => Ok(None),
        };
        Ok(match (matching(&event.object)?, matching(&event.previous)?) {
            (Some(now), Some(_)) => Some(("MODIFIED", now)),
            (Some(now), None) => Some(("ADDED", now)),
            // It left the selection, or is gone: its last selected state, at the revision of the change.
            (None, Some(before)) => Some(("DELETED", Arc::new(before.at_revision(event.revision)))),
            (None, None) => None,
        })
    }

    /// Does some work with the answers of the type's webhook.
    fn with_answers<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(mut ahead) = self.ahead.take() else { return work(self) };
        let done = ahead.answers.during(|| work(self));
        self.ahead = Some(ahead);
        done
    }

    /// Gives back `false`, and an ERROR instead of the event, if nobody can read the object.
    fn write(&mut self, spec: &TypeSpec, kind: &str, object: &StoredObject, out: &mut Vec<u8>) -> bool {
        let Some(version) = spec.version(&self.version) else { return true };
        let start = out.len();
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        let rendered = self.with_answers(|watch| watch.render(spec, version, object, out));
        match rendered {
            Ok(()) => {
                out.extend_from_slice(b"}\n");
                self.framing.frame(out, start);
                self.events.inc();
                true
            }
            Err(error) => {
                out.truncate(start);
                let status = internal(error).to_value();
                error_event(self.framing, &status, out);
                false
            }
        }
    }

    fn render(
        &mut self,
        spec: &TypeSpec,
        version: &VersionSpec,
        object: &StoredObject,
        out: &mut Vec<u8>,
    ) -> Result<(), Unreadable> {
        match &mut self.form {
            EventForm::Whole => render::write_served(spec, version, object, out),
            EventForm::Metadata(meta) => {
                let tree = render::internal(spec, version, object)?;
                table::metadata_only(&tree, *meta).write_to(out);
                Ok(())
            }
            EventForm::Table { meta, include, sent_columns } => {
                let compiled = spec.compiled(version).map_err(Unreadable::Undecodable)?;
                let internal = render::internal(spec, version, object)?;
                let cells = compiled.columns.cells(&internal, self.state.now_seconds());
                let shown = match include {
                    IncludeObject::Object => render::decode(spec, version, object)?,
                    IncludeObject::None | IncludeObject::Metadata => internal,
                };
                let row = table::row(cells, &shown, *include, *meta);
                // The columns go with the first row, and again when they changed.
                let columns: Vec<Column> = if *sent_columns == Some(version.epoch) {
                    Vec::new()
                } else {
                    compiled.columns.definitions().iter().map(Column::from).collect()
                };
                *sent_columns = Some(version.epoch);
                let list =
                    ListMeta { resource_version: object.revision().to_string(), ..ListMeta::default() };
                table::table(*meta, &list, &columns, vec![row]).write_to(out);
                Ok(())
            }
        }
    }

    fn bookmark(&self, spec: &TypeSpec, revision: Revision, ends_initial: bool) -> Bytes {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string());
        if ends_initial {
            metadata.insert("annotations", Value::Object(Map::from_iter([(INITIAL_EVENTS_END, "true")])));
        }
        let metadata = Value::Object(metadata);
        let object = match &self.form {
            EventForm::Whole => object! {
                "apiVersion": spec.api_version(&self.version), "kind": spec.names.kind.as_str(), "metadata": metadata
            },
            EventForm::Metadata(meta) => table::metadata_only(&object! { "metadata": metadata }, *meta),
            EventForm::Table { meta, .. } => {
                let list = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
                let object = object! { "metadata": metadata };
                let compiled = spec.version(&self.version).and_then(|version| spec.compiled(version).ok());
                let cells = compiled.map(|c| c.columns.cells(&object, self.state.now_seconds()));
                let row = table::row(cells.unwrap_or_default(), &object, IncludeObject::Metadata, *meta);
                table::table(*meta, &list, &[], vec![row])
            }
        };
        let mut line = object! { "type": "BOOKMARK", "object": object }.to_vec();
        line.push(b'\n');
        self.framing.frame(&mut line, 0);
        line.into()
    }
}

/// Room for a chunk of so many bytes, as soon as there is some; `None` if there is none until then. The client goes on with a new
/// watch, from the last event that it has.
async fn room_for(room: Room, bytes: usize, until: Instant) -> Option<Held> {
    let (mut held, mut pause) = (room.begin(), ROOM_SOON);
    while held.grow_within(bytes, ROOM_PARTS).is_err() {
        if Instant::now() >= until {
            tracing::info!(bytes, "a watch ends: there is no room for its next event in the memory budget");
            return None;
        }
        sleep(pause).await;
        pause = (2 * pause).min(ROOM_LATER);
    }
    Some(held)
}

/// The answers of a type's webhook to the next that a watch sends.
struct Ahead {
    /// The type that it was asked for.
    spec: Arc<TypeSpec>,
    /// The initial objects, or the events, that these answers are enough for.
    left: usize,
    answers: Conversions,
}

/// Waits until the server ends, and gives the time that its watches have. Cancel-safe.
async fn ending(phase: &mut watch::Receiver<Phase>) -> Duration {
    match phase.wait_for(Phase::is_ending).await.as_deref() {
        Ok(Phase::Ending { watches }) => *watches,
        _ => Duration::ZERO,
    }
}

fn served(spec: &TypeSpec, version: &str) -> bool {
    spec.version(version).is_some_and(|v| v.served)
}

fn error_event(framing: Framing, status: &Value, out: &mut Vec<u8>) {
    let start = out.len();
    object! { "type": "ERROR", "object": status.clone() }.write_to(out);
    out.push(b'\n');
    framing.frame(out, start);
}
