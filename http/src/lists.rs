//! Lists in the shape that the client takes. They come in pieces, and no list is ever there as a whole.

use std::sync::Arc;
use std::{mem, vec};

use kindom_actor_kit::{Held, dear, turn};
use kindom_api::{GroupResource, Value, json};
use kindom_codec::{Format, protobuf};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, TypeSpec, Unreadable, VersionSpec, render};
use kindom_resource_actor::ReadError;

use crate::RequestError;
use crate::ahead::convert_ahead;
use crate::call::Call;
use crate::cost::{self, WHOLE_BYTES_MAX};
use crate::negotiate::{Accepted, MetaVersion, Shape};
use crate::reply::{Tables, deprecation, go_type};
use crate::respond::Reply;
use crate::response::Response;
use crate::select::Listed;
use crate::status::{Failure, unreadable_object};
use crate::table::{self, ListFrame};
use crate::untyped::Untyped;

/// The bytes of a list that are made at a time, behind those that are sent first.
const PIECE_BYTES: usize = 128 << 10;

/// A list in the shape that the client takes, in pieces.
pub(crate) async fn list_reply(
    call: &Call<'_>,
    mut listed: Listed,
    mut accepted: Accepted,
    warnings: Vec<String>,
) -> Result<Response, Failure> {
    let (spec, version) = (&call.spec, call.version()?);
    let api_version = spec.api_version(&version.name);
    let (form, frame) = match accepted.shape {
        Shape::Whole => {
            let typed = spec.is_typed();
            let form = ItemForm::Whole(typed.then(|| Untyped::new(&api_version, &spec.names.kind)));
            (form, table::list(&api_version, &spec.names.list_kind, &listed.meta, typed))
        }
        Shape::Table(meta) => {
            dear(cost::compile(spec.uncompiled_bytes(&version.name))).await?;
            let tables = Tables::new(call, spec, meta)?;
            let frame = tables.frame(&listed.meta);
            (ItemForm::Table(Box::new(tables)), frame)
        }
        Shape::Metadata(_) => {
            let list = match spec.is_typed() {
                true => go_type(spec, &spec.names.list_kind),
                false => "*unstructured.UnstructuredList".to_owned(),
            };
            return Err(RequestError::ListNotAcceptable(list).into());
        }
        Shape::MetadataList(meta) => (ItemForm::Metadata(meta), table::metadata_list(meta, &listed.meta)),
    };
    // One walk, as a list may have very many objects.
    let (mut bytes, mut converted) = (0, 0);
    for object in &listed.objects {
        bytes += object.json().len();
        if !render::is_copied(spec, version, object) {
            converted += spec.bytes_to_convert(object);
        }
    }
    let protobuf = protobuf_list(call, &frame, accepted);
    if accepted.format == Format::Protobuf && protobuf.is_none() {
        // An answer without protobuf is JSON, whatever the client accepts (`WriteRawJSON`).
        accepted.format = Format::Json;
    }
    // The record of a request has JSON, of which the list is made as a whole.
    let is_recorded = call.request.record().is_some_and(|record| record.wants_response());
    if protobuf.is_some() && is_recorded {
        dear(cost::parse(bytes)).await?;
    }
    let protobuf = protobuf.filter(|_| !is_recorded);
    let is_protobuf = protobuf.is_some();
    let each = cost::write(PIECE_BYTES, accepted) + cost::parse(converted.min(PIECE_BYTES));
    let turns = call.piece_turns(each);
    let convert = cost::parse(converted.min(cost::WHOLE_BYTES_MAX));
    dear(cost::answer(call.request, bytes, accepted) + convert).await?;
    if spec.converter().is_some() {
        convert_ahead(call, listed.objects.iter(), &mut listed.conversions, &mut listed.held).await?;
        turn(cost::parse(listed.conversions.bytes().min(cost::WHOLE_BYTES_MAX))).await;
    }
    let mut pieces = ListPieces {
        conversions: listed.conversions,
        spec: Arc::clone(spec),
        version: version.name.clone(),
        resource: call.resource(),
        form,
        encoding: protobuf
            .map_or(Encoding::Json { is_first: true }, |list| Encoding::Protobuf { list, left: usize::MAX }),
        start: Some(frame.start),
        left: bytes,
        objects: listed.objects.into_iter(),
        end: Some(frame.end),
        _held: listed.held,
    };
    let reply = if is_protobuf {
        pieces.measure().await?;
        Reply::protobuf_pieces(200, Box::new(pieces), turns)
    } else {
        Reply::pieces(200, Box::new(pieces), turns).declared(call.declared())
    };
    Ok(deprecation(call, reply.with_warnings(warnings))?.write(call.request, accepted))
}

/// The list as protobuf, if the client takes that and the list has it.
fn protobuf_list(call: &Call<'_>, frame: &ListFrame, accepted: Accepted) -> Option<protobuf::List> {
    if accepted.format != Format::Protobuf {
        return None;
    }
    let empty = json::parse_own(&[frame.start.as_slice(), &frame.end].concat()).ok()?;
    let declared = call.declared().and_then(|declared| declared.message_of(&empty));
    protobuf::List::new(&empty, declared.or_else(|| protobuf::message_of(&empty))?)
}

/// The form of a list's items.
enum ItemForm {
    /// Without their types, if the list is typed.
    Whole(Option<Untyped>),
    Metadata(MetaVersion),
    Table(Box<Tables>),
}

impl ItemForm {
    fn write(
        &self,
        spec: &TypeSpec,
        version: &VersionSpec,
        object: &StoredObject,
        out: &mut Vec<u8>,
    ) -> Result<(), Unreadable> {
        match self {
            ItemForm::Whole(untyped) => {
                let start = out.len();
                render::write_served(spec, version, object, out)?;
                if let Some(untyped) = untyped {
                    untyped.strip(out, start);
                }
            }
            ItemForm::Metadata(meta) => {
                let tree = render::internal(spec, version, object)?;
                table::metadata_only(&tree, *meta).write_to(out);
            }
            ItemForm::Table(tables) => tables.row(spec, version, object)?.write_to(out),
        }
        Ok(())
    }
}

/// The encoding of a list's items.
enum Encoding {
    /// With commas between them.
    Json { is_first: bool },
    /// With the bytes that the start of the list says are still to come.
    Protobuf { list: protobuf::List, left: usize },
}

/// The pieces of a list: its start with the first items, more items, its end.
struct ListPieces {
    /// The answers of the type's converter.
    conversions: Conversions,
    spec: Arc<TypeSpec>,
    version: String,
    resource: GroupResource,
    form: ItemForm,
    encoding: Encoding,
    start: Option<Vec<u8>>,
    /// The bytes of the objects that are left.
    left: usize,
    objects: vec::IntoIter<Arc<StoredObject>>,
    end: Option<Vec<u8>>,
    _held: Held,
}

impl Iterator for ListPieces {
    type Item = Result<Vec<u8>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut conversions = mem::take(&mut self.conversions);
        let piece = conversions.during(|| self.piece());
        self.conversions = conversions;
        piece
    }
}

impl ListPieces {
    /// Appends an item.
    fn write(
        &mut self,
        spec: &TypeSpec,
        version: &VersionSpec,
        object: &StoredObject,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let unreadable = |why: Unreadable| unreadable_object(self.resource.clone(), why.into());
        match &mut self.encoding {
            Encoding::Json { is_first } => {
                if !mem::take(is_first) {
                    out.push(b',');
                }
                self.form.write(spec, version, object, out).map_err(unreadable)
            }
            Encoding::Protobuf { list, left } => {
                let mut item = Vec::with_capacity(object.json().len() + 64);
                self.form.write(spec, version, object, &mut item).map_err(unreadable)?;
                let item = list.item(&parsed(&item)?);
                *left = left.checked_sub(item.len()).ok_or_else(other_length)?;
                out.extend(item);
                Ok(())
            }
        }
    }

    /// Makes a list in protobuf once, as its start has the length of all items. A short one is kept, as the only piece.
    async fn measure(&mut self) -> Result<(), Failure> {
        let (spec, mut bytes, mut made) = (Arc::clone(&self.spec), 0, Some(Vec::new()));
        let version = spec.version(&self.version).ok_or(RequestError::NotFound)?;
        let mut objects = self.objects.clone();
        while objects.len() > 0 {
            let mut some = Vec::new();
            let mut conversions = mem::take(&mut self.conversions);
            let written = conversions.during(|| {
                let mut source = 0;
                while source < WHOLE_BYTES_MAX
                    && let Some(object) = objects.next()
                {
                    source += spec.bytes_to_convert(&object);
                    self.write(&spec, version, &object, &mut some)?;
                }
                Ok::<_, Failure>(source)
            });
            self.conversions = conversions;
            let source = written?;
            bytes += some.len();
            made = made.filter(|_| bytes <= WHOLE_BYTES_MAX).map(|made: Vec<u8>| [made, some].concat());
            if objects.len() > 0 {
                turn(cost::parse(source)).await;
            }
        }
        let Encoding::Protobuf { list, left } = &mut self.encoding else { return Ok(()) };
        let mut start = list.start(bytes);
        (self.end, *left) = (Some(list.end()), bytes);
        if let Some(made) = made {
            start.extend(made);
            (self.objects, *left) = (Vec::new().into_iter(), 0);
        }
        self.start = Some(start);
        Ok(())
    }

    fn piece(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        // Nothing follows the end.
        self.end.as_ref()?;
        let spec = Arc::clone(&self.spec);
        let Some(version) = spec.version(&self.version) else {
            return Some(Err(unreadable_object(self.resource.clone(), ReadError::Gone)));
        };
        // What is sent first is one piece.
        let (mut piece, most) = match self.start.take() {
            Some(start) => (start, WHOLE_BYTES_MAX),
            None => (Vec::new(), PIECE_BYTES),
        };
        // The last object may be large, and each gets a resourceVersion.
        let room = most.min(self.left) + self.left.min(most) / 8 + 512;
        piece.reserve(room);
        let mut converting = 0;
        while piece.len() + converting < most {
            let Some(object) = self.objects.next() else {
                piece.extend(self.end.take()?);
                if matches!(self.encoding, Encoding::Protobuf { left: 1.., .. }) {
                    return Some(Err(other_length()));
                }
                break;
            };
            self.left = self.left.saturating_sub(object.json().len());
            converting += spec.bytes_to_convert(&object) - object.json().len();
            if let Err(why) = self.write(&spec, version, &object, &mut piece) {
                return Some(Err(why));
            }
        }
        Some(Ok(piece))
    }
}

/// The items of a list have become others since it was measured. Nobody should take the answer for whole.
fn other_length() -> Failure {
    RequestError::Internal("the items of a list have changed their length".to_owned()).into()
}

/// The tree of what was written just now.
fn parsed(json: &[u8]) -> Result<Value, Failure> {
    let parsed = json::parse_own(json);
    Ok(parsed.map_err(|why| RequestError::Internal(format!("the answer can't be rendered: {why}")))?)
}
