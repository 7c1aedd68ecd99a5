//! An event, as one client sees it: whether it is for him, and what is sent of it.

use std::sync::Arc;

use bytes::Bytes;
use kindom_api::{Map, Value, object};
use kindom_objects::{StoredObject, TypeSpec, Unreadable, VersionSpec, render};
use kindom_resource_actor::ObjectEvent;
use kindom_storage::Revision;
use prometheus_client::metrics::counter::Counter;

use crate::filter::Filter;
use crate::framing::Framing;
use crate::metrics::GaugeGuard;
use crate::negotiate::{MetaVersion, Shape};
use crate::state::State;
use crate::status::internal;
use crate::table::{self, Column, IncludeObject, ListMeta};

/// The annotation of the bookmark that ends the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// About as many bytes as an event has around its object's stored form, with what that form has not.
const EVENT_BYTES: usize = 256;

/// The form of an event's object.
pub(super) enum EventForm {
    Whole,
    Metadata(MetaVersion),
    /// `sent_columns`: the schema epoch whose columns the client has.
    Table {
        meta: MetaVersion,
        include: IncludeObject,
        sent_columns: Option<u64>,
    },
}

impl EventForm {
    /// The form that the client asked for; `include` is what its rows have with them.
    pub(super) fn new(shape: &Shape, include: IncludeObject) -> Self {
        match *shape {
            Shape::Whole => Self::Whole,
            Shape::Metadata(meta) | Shape::MetadataList(meta) => Self::Metadata(meta),
            Shape::Table(meta) => Self::Table { meta, include, sent_columns: None },
        }
    }
}

/// Writes the events of a watch in its version and form.
pub(super) struct EventWriter {
    pub(super) state: Arc<State>,
    pub(super) version: String,
    pub(super) form: EventForm,
    pub(super) framing: Framing,
    /// The events that watches of the type have sent.
    pub(super) events: Counter,
    /// The watch is counted as open.
    pub(super) _open: GaugeGuard,
}

/// The store has lost the object's state before or after a change, or the former state was never readable. So the event
/// for this client, who may have seen the object, is unknown, and it has to list again. Upstream sends a 500 if it can't
/// read the former state (apiserver `pkg/storage/etcd3/watcher.go`, `prepareObjs`), after which client-go would ask for
/// the same event again, for as long as the history holds it.
pub(super) fn is_lost(filter: &Filter, event: &ObjectEvent) -> bool {
    let may_match = |object: &Arc<StoredObject>| filter.may_match(object);
    let mut states = [&event.object, &event.previous].into_iter().flatten();
    // The former state matters if the object is gone, or if the selector may have matched before or now.
    let asks = event.object.is_none() || !filter.is_everything();
    let unreadable =
        event.previous.iter().any(|object| asks && object.corrupt().is_some() && may_match(object));
    unreadable || states.any(|object| object.is_damaged() && may_match(object))
}

/// The type and object of an event for this client; `None` if neither the object before nor the one after is selected.
///
/// # Errors
/// One of them has no form to select by.
pub(super) fn selected(
    filter: &Filter,
    spec: &TypeSpec,
    event: &ObjectEvent,
) -> Result<Option<(&'static str, Arc<StoredObject>)>, Unreadable> {
    let matching = |object: &Option<Arc<StoredObject>>| match object {
        Some(found) => Ok(filter.matches(spec, found)?.then(|| Arc::clone(found))),
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

impl EventWriter {
    /// Gives back `false`, and an ERROR instead of the event, if nobody can read the object.
    pub(super) fn write(
        &mut self,
        spec: &TypeSpec,
        kind: &str,
        object: &StoredObject,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(version) = spec.version(&self.version) else { return true };
        let start = out.len();
        // What is not filled would be held until the client has read.
        out.reserve(
            EVENT_BYTES + if matches!(self.form, EventForm::Whole) { object.json().len() } else { 0 },
        );
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.render(spec, version, object, out) {
            Ok(()) => {
                out.extend_from_slice(b"}\n");
                self.framing.frame(out, start);
                self.events.inc();
                true
            }
            Err(error) => {
                out.truncate(start);
                out.extend_from_slice(&self.error(&internal(error).to_value()));
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

    /// A bookmark at a revision, which may be the one that ends the initial events.
    pub(super) fn bookmark(&self, spec: &TypeSpec, revision: Revision, ends_initial: bool) -> Bytes {
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

    /// The last event of a watch that fails.
    pub(super) fn error(&self, status: &Value) -> Vec<u8> {
        error_event(self.framing, status)
    }
}

/// An event that says why a watch fails.
pub(super) fn error_event(framing: Framing, status: &Value) -> Vec<u8> {
    let mut event = object! { "type": "ERROR", "object": status.clone() }.to_vec();
    event.push(b'\n');
    framing.frame(&mut event, 0);
    event
}
