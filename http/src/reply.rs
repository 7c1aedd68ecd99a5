//! An object or a list in the shape that the client takes.

use std::sync::Arc;

use actix_web::HttpResponse;
use kindom_api::Value;
use kindom_objects::{ReadError, StoredObject, TypeSpec, VersionSpec, render};

use crate::RequestError;
use crate::call::Call;
use crate::negotiate::{Accepted, MetaVersion, Shape};
use crate::respond::Reply;
use crate::select::Listed;
use crate::status::{Failure, unreadable_object};
use crate::table::{self, Column, IncludeObject, ListMeta};

/// With the warning of a deprecated version.
pub(crate) fn deprecation(call: &Call<'_>, mut reply: Reply) -> Result<Reply, Failure> {
    reply.warnings.extend(call.version()?.deprecation_warning.clone());
    Ok(reply)
}

/// One object in the shape that the client takes.
pub(crate) fn object_reply(
    call: &Call<'_>,
    spec: &TypeSpec,
    object: &StoredObject,
    accepted: Accepted,
    code: u16,
) -> Result<Reply, Failure> {
    let version = spec.version(&call.info.resource.version).ok_or(RequestError::NotFound)?;
    let read = |e| call.read_failure(e);
    match accepted.shape {
        Shape::Whole => {
            let mut bytes = Vec::with_capacity(object.json().len() + 64);
            render::write_served(spec, version, object, &mut bytes).map_err(read)?;
            Ok(Reply::json(code, bytes).declared(call.declared()))
        }
        Shape::Metadata(meta) => {
            let tree = render::decode(spec, version, object).map_err(read)?;
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
        let compiled = spec.compiled(version).map_err(|e| call.read_failure(ReadError::Undecodable(e)))?;
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
    ) -> Result<Value, ReadError> {
        let tree = render::decode(spec, version, object)?;
        Ok(table::row(self.compiled.columns.cells(&tree, self.now), &tree, self.include, self.meta))
    }

    pub(crate) fn table(&self, list: &ListMeta, rows: Vec<Value>, with_columns: bool) -> Value {
        let columns = if with_columns { self.columns.as_slice() } else { &[] };
        table::table(self.meta, list, columns, rows)
    }
}

/// A list in the shape that the client takes.
pub(crate) fn list_reply(
    call: &Call<'_>,
    listed: &Listed,
    accepted: Accepted,
) -> Result<HttpResponse, Failure> {
    let (spec, version) = (&call.spec, call.version()?);
    let read = |e| unreadable_object(call.resource(), e);
    let reply = match accepted.shape {
        Shape::Whole => {
            let api_version = spec.api_version(&version.name);
            let size: usize = listed.objects.iter().map(|o| o.json().len() + 48).sum();
            let typed = spec.is_typed();
            let own = format!(r#"{{"apiVersion":"{api_version}","kind":"{}","#, spec.names.kind);
            let write = |object: &Arc<StoredObject>, out: &mut Vec<u8>| {
                let start = out.len();
                render::write_served(spec, version, object, out)?;
                // The items of a typed list have no type of their own, as Go writes it.
                if typed && out.get(start..).is_some_and(|item| item.starts_with(own.as_bytes())) {
                    out.drain(start + 1..start + own.len());
                }
                Ok(())
            };
            let bytes = table::list(
                &api_version,
                &spec.names.list_kind,
                &listed.meta,
                typed,
                size,
                &listed.objects,
                write,
            );
            Reply::json(200, bytes.map_err(read)?).declared(call.declared())
        }
        Shape::Table(meta) => {
            let tables = Tables::new(call, spec, meta)?;
            let rows = listed.objects.iter().map(|object| tables.row(spec, version, object).map_err(read));
            Reply::tree(200, tables.table(&listed.meta, rows.collect::<Result<_, _>>()?, true))
        }
        Shape::Metadata(_) => {
            let list = match spec.is_typed() {
                true => go_type(spec, &spec.names.list_kind),
                false => "*unstructured.UnstructuredList".to_owned(),
            };
            return Err(RequestError::ListNotAcceptable(list).into());
        }
        Shape::MetadataList(meta) => {
            let items = listed.objects.iter().map(|object| {
                let tree = render::decode(spec, version, object).map_err(read)?;
                Ok(table::metadata_only(&tree, meta))
            });
            Reply::tree(200, table::metadata_list(meta, &listed.meta, items.collect::<Result<_, Failure>>()?))
        }
    };
    Ok(deprecation(call, reply)?.write(call.request, accepted))
}
