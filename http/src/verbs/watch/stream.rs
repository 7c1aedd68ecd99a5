//! The stream of a watch: its chunks, and what it waits for between them.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_actor_kit::{Deadline, Flow, Held, Room, latest};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, TypeSpec, render};
use kindom_resource_actor::{ObjectEvent, ResourceHandle, WatchCursor, WatchError};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::event::{EventForm, EventWriter, is_lost, selected};
use crate::call::Call;
use crate::cost;
use crate::filter::Filter;
use crate::phase::Phase;
use crate::query::ListOptions;
use crate::state::{REQUEST_TIMEOUT, State};
use crate::status::{expired, internal};

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
/// The time between two bookmarks for a client that wants them (cacher `defaultBookmarkFrequency`).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A long chunk waits so long for room, then the watch ends without it.
const ROOM_WITHIN: Duration = Duration::from_secs(30);
/// The time before its end at which a watch sends a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub(super) struct WatchStream {
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
    filter: Filter,
    writer: EventWriter,
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
    /// What the call asked for: the initial state, where it did, and all events from the cursor on, for so long.
    pub(super) fn new(
        call: &Call<'_>,
        options: &ListOptions,
        filter: Filter,
        writer: EventWriter,
        initial: Option<VecDeque<Arc<StoredObject>>>,
        cursor: WatchCursor,
        lasts: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            state: Arc::clone(call.state),
            flow: call.flow,
            room: call.room(),
            held: None,
            handle: call.handle.clone(),
            ahead: None,
            cursor,
            specs: call.handle.spec_changes(),
            last_spec: Some(Arc::clone(&call.spec)),
            filter,
            writer,
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
        }
    }

    /// The next chunk; none at the end.
    pub(super) async fn next(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
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
            let Some(spec) = now.filter(|s| served(s, &self.writer.version)) else {
                self.last_words = Some("the type or its version is not served any more".to_owned());
                continue;
            };
            if let Some(field) = self.filter.lost_field(&spec, &self.writer.version) {
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
                        return Some((self.writer.bookmark(&spec, revision, false), self));
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
        let mut held = self.room.begin();
        tokio::select! {
            biased;
            waited = timeout_at(until, held.grow_in_turn(bytes, ROOM_PARTS)) => if waited.is_err() {
                tracing::info!(bytes, "a watch ends: there is no room for its next event in the memory budget");
                return None;
            },
            _ = ending(&mut self.phase), if !self.ends_with_server => return None,
        }
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
        let version = spec.version(&self.writer.version)?;
        let columns = match &self.writer.form {
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
        let is_copied =
            matches!(self.writer.form, EventForm::Whole) && render::is_copied(spec, version, large);
        let parsed = if is_copied { 0 } else { large.json().len() };
        Some((size(large) + CHUNK_BYTES, cost::copy(size(large)) + cost::parse(parsed)))
    }

    /// The type as events are shown by it; it may have changed since they were taken, or be forgotten by now.
    fn shown_by(&self) -> Option<Arc<TypeSpec>> {
        let now = self.specs.get().filter(|s| served(s, &self.writer.version));
        now.or_else(|| self.last_spec.clone())
    }

    /// Has the type's converter asked about what is sent next, and returns the type that it is sent by. Breaks if the watch ends
    /// meanwhile.
    async fn convert_ahead(&mut self) -> ControlFlow<(), Option<Arc<TypeSpec>>> {
        let spec = self.shown_by();
        let asked = spec.as_ref().filter(|spec| spec.converter().is_some());
        let found = asked.and_then(|spec| Some((spec, spec.version(&self.writer.version)?)));
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
        [selected(&self.filter, spec, event).ok().flatten().map(|(_, object)| object), None]
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
            if !self.with_answers(|watch| watch.writer.write(&spec, "ADDED", &object, &mut chunk)) {
                // The end of the initial events would say that what cannot be read is not there.
                self.ended = true;
                return Some(chunk.into());
            }
        }
        if !objects.is_empty() {
            self.initial = Some(objects);
        } else if self.bookmarks && self.explicit_initial_events {
            chunk.extend_from_slice(&self.writer.bookmark(&spec, self.cursor.cursor(), true));
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
            if is_lost(&self.filter, &event) {
                self.ended = true;
                let message = self.last_words.take().unwrap_or_else(|| {
                    format!(
                        "what happened at revision {} can't be told: the object before or after it can't be read",
                        event.revision
                    )
                });
                chunk.extend_from_slice(&self.writer.error(&expired(message).to_value()));
                break;
            }
            let is_sent = match self.with_answers(|watch| selected(&watch.filter, &spec, &event)) {
                Ok(Some((kind, object))) => {
                    self.with_answers(|watch| watch.writer.write(&spec, kind, &object, &mut chunk))
                }
                Ok(None) => true,
                Err(why) => {
                    chunk.extend_from_slice(&self.writer.error(&internal(why).to_value()));
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
        let why = self.last_words.take().unwrap_or_default();
        Some(self.writer.error(&expired(why).to_value()).into())
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
        self.writer.error(&status).into()
    }

    /// Does some work with the answers of the type's webhook.
    fn with_answers<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(mut ahead) = self.ahead.take() else { return work(self) };
        let done = ahead.answers.during(|| work(self));
        self.ahead = Some(ahead);
        done
    }
}

/// The answers of a type's webhook to the next that a watch sends.
struct Ahead {
    /// The type that it was asked for.
    spec: Arc<TypeSpec>,
    /// The initial objects, or the events, that these answers are enough for.
    left: usize,
    answers: Conversions,
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
