//! An object or a list in the shape that the client takes.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{DEAR, Held, dear, turn};
use kindom_api::{GroupResource, Value};
use kindom_objects::declared_subresources::Part;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Converter, StoredObject, Subresource, TypeSpec, Unreadable, VersionSpec, render};
use kindom_resource_actor::ReadError;

use crate::RequestError;
use crate::ahead::convert_ahead;
use crate::call::Call;
use crate::cost::{self, WHOLE_BYTES_MAX};
use crate::layout::LAID_OUT_BYTES;
use crate::negotiate::{Accepted, MetaVersion, Shape};
use crate::respond::Reply;
use crate::response::Response;
use crate::select::Listed;
use crate::status::{Failure, unreadable_object};
use crate::table::{self, Column, IncludeObject, ListMeta};
use crate::untyped::Untyped;

/// Adds the deprecation warning of the request's version to a reply, before its other warnings.
pub(crate) fn deprecation(call: &Call<'_>, mut reply: Reply) -> Result<Reply, Failure> {
    let deprecated = call.version()?.deprecation_warning.clone();
    reply.warnings.splice(0..0, deprecated);
    Ok(reply)
}

/// Removes the resourceVersion of an object that was not stored.
pub(crate) fn remove_revision(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
}

/// An object of so many bytes is written in no time, in whatever form.
const SMALL_BYTES: usize = 16 << 10;

/// Waits for a processor where one object takes long to write.
pub(crate) async fn turn_to_write(
    call: &Call<'_>,
    spec: &TypeSpec,
    object: &StoredObject,
    accepted: Accepted,
) -> Result<(), Failure> {
    let bytes = object.json().len();
    if matches!(spec.converter(), Some(Converter::Program(_)))
        && !render::is_copied(spec, call.version()?, object)
    {
        // What the program does with it may take any time, whatever its size.
        dear(DEAR).await?;
    }
    // Most are small, and cost nothing to judge either.
    if bytes < SMALL_BYTES && accepted.shape == Shape::Whole {
        return Ok(());
    }
    let convert = match part(call, spec).is_none() && render::is_copied(spec, call.version()?, object) {
        true => Duration::ZERO,
        false => cost::parse(bytes),
    };
    let compile = match accepted.shape {
        Shape::Table(_) => cost::compile(spec.uncompiled_bytes(&call.info.resource.version)),
        Shape::Whole | Shape::Metadata(_) | Shape::MetadataList(_) => Duration::ZERO,
    };
    Ok(dear(compile + convert + cost::answer(call.request, bytes, accepted)).await?)
}

/// One object in the shape that the client takes.
pub(crate) fn object_reply(
    call: &Call<'_>,
    spec: &TypeSpec,
    object: &StoredObject,
    accepted: Accepted,
    code: u16,
) -> Result<Reply, Failure> {
    let reply = shaped(call, spec, object, accepted, code)?;
    Ok(reply.paced(|| call.piece_turns(cost::parse(LAID_OUT_BYTES))))
}

fn shaped(
    call: &Call<'_>,
    spec: &TypeSpec,
    object: &StoredObject,
    accepted: Accepted,
    code: u16,
) -> Result<Reply, Failure> {
    let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
    let read = |e: Unreadable| call.read_failure(e);
    if let Some(Subresource::Declared(_)) = call.subresource() {
        let part = part(call, spec).ok_or(RequestError::NotFound)?;
        let tree = part.of(&render::decode(spec, version, object).map_err(read)?);
        return Ok(Reply::tree(code, part_shaped(call, spec, tree, object, accepted)?));
    }
    match accepted.shape {
        Shape::Whole => {
            let mut bytes = Vec::with_capacity(object.json().len() + 64);
            render::write_served(spec, version, object, &mut bytes).map_err(read)?;
            Ok(Reply::json(code, bytes).declared(call.declared()))
        }
        Shape::Metadata(meta) => {
            let tree = render::internal(spec, version, object).map_err(read)?;
            Ok(Reply::tree(code, table::metadata_only(&tree, meta)))
        }
        Shape::Table(meta) => {
            let list = ListMeta { resource_version: object.revision().to_string(), ..ListMeta::default() };
            let tables = Tables::new(call, spec, meta)?;
            let row = tables.row(spec, version, object).map_err(read)?;
            Ok(Reply::tree(code, tables.table(&list, vec![row], true)))
        }
        // To Go, an unstructured object is a list until its items are read.
        Shape::MetadataList(_) if !spec.is_typed() => {
            Err(RequestError::Internal("content is not a list".to_owned()).into())
        }
        Shape::MetadataList(_) => {
            Err(RequestError::ObjectNotAcceptable(go_type(spec, &spec.names.kind)).into())
        }
    }
}

/// The part of an object that the request is for, if it is for one that a registration declares.
fn part<'s>(call: &Call<'_>, spec: &'s TypeSpec) -> Option<&'s Part> {
    spec.part(&call.info.resource.version, call.subresource()?)
}

/// A part of an object in the shape that the client takes.
fn part_shaped(
    call: &Call<'_>,
    spec: &TypeSpec,
    part: Value,
    object: &StoredObject,
    accepted: Accepted,
) -> Result<Value, Failure> {
    match accepted.shape {
        Shape::Metadata(meta) => Ok(table::metadata_only(&part, meta)),
        Shape::Table(meta) => {
            let list = ListMeta { resource_version: object.revision().to_string(), ..ListMeta::default() };
            let tables = Tables::new(call, spec, meta)?;
            let cells = tables.compiled.columns.cells(&part, tables.now);
            let row = table::row(cells, &part, tables.include, meta);
            Ok(tables.table(&list, vec![row], true))
        }
        Shape::MetadataList(_) => Err(RequestError::Internal("content is not a list".to_owned()).into()),
        Shape::Whole => Ok(part),
    }
}

/// The internal type of a typed kind, as Go names it: its package is the first label of the group, `core` if that is empty.
fn go_type(spec: &TypeSpec, kind: &str) -> String {
    let package = spec.group.split('.').next().filter(|label| !label.is_empty());
    format!("*{}.{kind}", package.unwrap_or("core"))
}

/// The inputs of a request's tables.
pub(crate) struct Tables {
    meta: MetaVersion,
    include: IncludeObject,
    columns: Vec<Column>,
    compiled: Arc<kindom_objects::version::CompiledVersion>,
    now: i64,
}

impl Tables {
    pub(crate) fn new(call: &Call<'_>, spec: &TypeSpec, meta: MetaVersion) -> Result<Self, Failure> {
        let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
        let compiled = spec.compiled(version).map_err(|e| call.read_failure(Unreadable::Undecodable(e)))?;
        Ok(Self {
            meta,
            include: IncludeObject::parse(call.query)?,
            columns: compiled.columns.definitions().iter().map(Column::from).collect(),
            compiled,
            now: call.state.now_seconds(),
        })
    }

    pub(crate) fn row(
        &self,
        spec: &TypeSpec,
        version: &VersionSpec,
        object: &StoredObject,
    ) -> Result<Value, Unreadable> {
        let internal = render::internal(spec, version, object)?;
        let cells = self.compiled.columns.cells(&internal, self.now);
        let shown = match self.include {
            IncludeObject::Object if render::has_internal_form(spec) => {
                render::decode(spec, version, object)?
            }
            _ => internal,
        };
        Ok(table::row(cells, &shown, self.include, self.meta))
    }

    pub(crate) fn table(&self, list: &ListMeta, rows: Vec<Value>, with_columns: bool) -> Value {
        let columns = if with_columns { self.columns.as_slice() } else { &[] };
        table::table(self.meta, list, columns, rows)
    }
}

/// The bytes of a list that are made at a time, behind those that are sent first.
const PIECE_BYTES: usize = 128 << 10;

/// A list in the shape that the client takes, in pieces.
pub(crate) async fn list_reply(
    call: &Call<'_>,
    mut listed: Listed,
    accepted: Accepted,
    warnings: Vec<String>,
) -> Result<Response, Failure> {
    let (spec, version) = (&call.spec, call.version()?);
    let api_version = spec.api_version(&version.name);
    let (form, list) = match accepted.shape {
        Shape::Whole => {
            let typed = spec.is_typed();
            let form = ItemForm::Whole(typed.then(|| Untyped::new(&api_version, &spec.names.kind)));
            (form, table::list(&api_version, &spec.names.list_kind, &listed.meta, typed))
        }
        Shape::Table(meta) => {
            dear(cost::compile(spec.uncompiled_bytes(&version.name))).await?;
            let tables = Tables::new(call, spec, meta)?;
            let list = table::rows(meta, &listed.meta, &tables.columns);
            (ItemForm::Table(Box::new(tables)), list)
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
    let each = cost::write(PIECE_BYTES, accepted) + cost::parse(converted.min(PIECE_BYTES));
    let turns = call.piece_turns(each);
    let convert = cost::parse(converted.min(cost::WHOLE_BYTES_MAX));
    dear(cost::answer(call.request, bytes, accepted) + convert).await?;
    if spec.converter().is_some() {
        convert_ahead(call, listed.objects.iter(), &mut listed.conversions, &mut listed.held).await?;
        turn(cost::parse(listed.conversions.bytes().min(cost::WHOLE_BYTES_MAX))).await;
    }
    let pieces = ListPieces {
        conversions: listed.conversions,
        spec: Arc::clone(spec),
        version: version.name.clone(),
        resource: call.resource(),
        form,
        start: Some(list.start),
        left: bytes,
        is_first: true,
        objects: listed.objects.into_iter(),
        end: Some(list.end),
        _held: listed.held,
    };
    let reply = Reply::pieces(200, Box::new(pieces), turns).declared(call.declared());
    Ok(deprecation(call, reply.with_warnings(warnings))?.write(call.request, accepted))
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

/// The pieces of a list: its start with the first items, more items, its end.
struct ListPieces {
    /// The answers of the type's webhook.
    conversions: Conversions,
    spec: Arc<TypeSpec>,
    version: String,
    resource: GroupResource,
    form: ItemForm,
    start: Option<Vec<u8>>,
    /// The bytes of the objects that are left.
    left: usize,
    is_first: bool,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    end: Option<Vec<u8>>,
    _held: Held,
}

impl Iterator for ListPieces {
    type Item = Result<Vec<u8>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut conversions = std::mem::take(&mut self.conversions);
        let piece = conversions.during(|| self.piece());
        self.conversions = conversions;
        piece
    }
}

impl ListPieces {
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
                break;
            };
            self.left = self.left.saturating_sub(object.json().len());
            converting += spec.bytes_to_convert(&object) - object.json().len();
            if !std::mem::take(&mut self.is_first) {
                piece.push(b',');
            }
            if let Err(why) = self.form.write(&spec, version, &object, &mut piece) {
                return Some(Err(unreadable_object(self.resource.clone(), why.into())));
            }
        }
        Some(Ok(piece))
    }
}
