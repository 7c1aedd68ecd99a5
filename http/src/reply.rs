//! An object in the shape that the client takes.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{DEAR, dear};
use kindom_api::Value;
use kindom_objects::declared_subresources::Part;
use kindom_objects::{Converter, StoredObject, Subresource, TypeSpec, Unreadable, VersionSpec, render};

use crate::RequestError;
use crate::call::Call;
use crate::cost;
use crate::layout::LAID_OUT_BYTES;
use crate::negotiate::{Accepted, MetaVersion, Shape};
use crate::respond::Reply;
use crate::status::Failure;
use crate::table::{self, Column, IncludeObject, ListFrame, ListMeta};

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
pub(crate) fn go_type(spec: &TypeSpec, kind: &str) -> String {
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

    /// The frame of a list of rows.
    pub(crate) fn frame(&self, list: &ListMeta) -> ListFrame {
        table::rows(self.meta, list, &self.columns)
    }

    pub(crate) fn table(&self, list: &ListMeta, rows: Vec<Value>, with_columns: bool) -> Value {
        let columns = if with_columns { self.columns.as_slice() } else { &[] };
        table::table(self.meta, list, columns, rows)
    }
}
