//! GET of one object, and lists.

use std::sync::Arc;

use actix_web::HttpResponse;
use kindom_api::Value;
use kindom_api::status::{Cause, Details, Outcome, Status, cause, reason};
use kindom_resource_actor::{Freshness, ReadError, StoredObject, TypeSpec, VersionSpec, render};
use kindom_storage::{Revision, StorageError};

use crate::RequestError;
use crate::dispatch::Call;
use crate::filter::Filter;
use crate::negotiate::{Accepted, MetaVersion, Shape};
use crate::query::{
    ContinueToken, EXPIRED, EXPIRED_WITH_TOKEN, ListOptions, VersionMatch, parse_resource_version,
};
use crate::respond::Reply;
use crate::status::Failure;
use crate::table::{self, Column, IncludeObject, ListMeta};

/// A version's spec and the type it belongs to, for rendering.
pub(crate) fn version<'a>(call: &'a Call<'_>) -> Result<&'a VersionSpec, Failure> {
    call.spec.version(&call.info.resource.version).ok_or_else(|| RequestError::NotFound.into())
}

/// GET of an object.
pub(crate) async fn get(call: &Call<'_>) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let object = find(call).await?;
    let reply = object_reply(call, &call.spec, &object, accepted, 200)?;
    Ok(deprecation(call, reply)?.write(call.request, accepted))
}

/// The object that a GET names, at the revision that it wants to see.
pub(crate) async fn find(call: &Call<'_>) -> Result<Arc<StoredObject>, Failure> {
    let name = call.info.required_name()?;
    let key = TypeSpec::object_key(call.namespace(), name);
    let wanted = call.query.get("resourceVersion").unwrap_or_default();
    let freshness = match (wanted, revision_of(wanted)?) {
        ("", _) => Freshness::Latest,
        (_, 0) => Freshness::Any,
        (_, revision) => Freshness::AtLeast(Revision(revision)),
    };
    let (snapshot, _) =
        call.handle.snapshot(freshness, call.deadline).await.map_err(|e| call.read_failure(e))?;
    snapshot.get(&key).cloned().ok_or_else(|| Failure::NotFound(call.resource(), name.to_owned()))
}

/// The revision that a GET or a watch is to show; they call a malformed one an error of the server's, unlike lists.
pub(crate) fn revision_of(text: &str) -> Result<u64, RequestError> {
    parse_resource_version(text).map_err(|error| match error {
        RequestError::BadRequest(why) => {
            let why = why.strip_prefix("invalid resource version: ").unwrap_or(&why);
            RequestError::Internal(why.to_owned())
        }
        other => other,
    })
}

/// With the warning of a deprecated version.
pub(crate) fn deprecation(call: &Call<'_>, mut reply: Reply) -> Result<Reply, Failure> {
    reply.warnings.extend(version(call)?.deprecation_warning.clone());
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
            Ok(Reply::json(code, bytes))
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
        Shape::MetadataList(_) => Err(RequestError::Internal("content is not a list".to_owned()).into()),
    }
}

/// What the tables of a request are made with.
pub(crate) struct Tables {
    meta: MetaVersion,
    include: IncludeObject,
    columns: Vec<Column>,
    compiled: Arc<kindom_resource_actor::spec::CompiledVersion>,
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

/// What a list found.
pub(crate) struct Listed {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) meta: ListMeta,
}

/// A list.
pub(crate) async fn list(call: &Call<'_>) -> Result<HttpResponse, Failure> {
    let accepted = call.accept()?;
    let options = ListOptions::parse(call.query)?;
    options.validate()?;
    let listed = select(call, &options).await?;
    list_reply(call, &listed, accepted)
}

/// So many objects that can't be read are named.
const CORRUPT_MAX: usize = 100;

/// What a list meets that can't be read: it fails then, lest somebody takes these objects for deleted (apiserver
/// `pkg/storage/etcd3/corrupt_obj_deleter.go`, 1.37).
struct Corrupt<'a> {
    call: &'a Call<'a>,
    filter: &'a Filter,
    causes: Vec<Cause>,
}

impl<'a> Corrupt<'a> {
    fn new(call: &'a Call<'_>, filter: &'a Filter) -> Self {
        Self { call, filter, causes: Vec::new() }
    }

    /// `true` if an object can be read and is selected.
    fn selects(&mut self, object: &StoredObject) -> bool {
        let Err(error) = render::readable(&self.call.spec, object) else {
            return self.filter.matches(object);
        };
        if !self.filter.may_match(object) {
            return false;
        }
        if self.causes.len() == CORRUPT_MAX {
            return false;
        }
        let message = error.to_string();
        let field = format!("{}{}", self.call.spec.prefix, object.key());
        self.causes.push(Cause { reason: cause::UNEXPECTED_SERVER_RESPONSE.into(), message, field });
        false
    }

    fn refuse(self) -> Result<(), Failure> {
        match self.causes.first() {
            None => Ok(()),
            Some(_) => Err(store_read_error(self.call, self.causes)),
        }
    }
}

/// The answer to a list of which these can't be read.
fn store_read_error(call: &Call<'_>, mut causes: Vec<Cause>) -> Failure {
    let resource = call.resource();
    let first = causes.first().map_or("", |cause| cause.message.as_str());
    let mut message = format!("failed to read one or more {resource} from the storage: {first}");
    if causes.len() > 1 {
        message = format!("{message} (and {} more)", causes.len() - 1);
    }
    // Who has found that many looks no further.
    if causes.len() == CORRUPT_MAX {
        let message = "too many errors, the list is truncated".to_owned();
        causes.push(Cause { reason: cause::TOO_MANY.into(), message, field: String::new() });
    }
    let details = Details {
        name: "list".into(),
        group: resource.group,
        kind: resource.resource,
        causes,
        ..Details::default()
    };
    Failure::Status(Box::new(Status {
        status: Outcome::Failure,
        message,
        reason: reason::STORE_READ_ERROR.into(),
        details: Some(Box::new(details)),
        code: 500,
        continue_token: None,
    }))
}

/// An object of a list that turns out to be unreadable only when it is rendered is named as those found before.
fn unreadable(call: &Call<'_>, error: ReadError) -> Failure {
    let ReadError::Corrupt { key, .. } = &error else { return call.read_failure(error) };
    let cause = Cause {
        reason: cause::UNEXPECTED_SERVER_RESPONSE.into(),
        message: error.to_string(),
        field: key.clone(),
    };
    store_read_error(call, vec![cause])
}

/// Which state a list shows.
enum At {
    Now(Freshness),
    Revision(Revision),
}

/// The objects that a list asks for (apiserver `pkg/storage/cacher`, `pkg/storage/etcd3` `GetList`).
pub(crate) async fn select(call: &Call<'_>, options: &ListOptions) -> Result<Listed, Failure> {
    let filter = Filter::new(call, options)?;
    let token = options.continue_from()?;
    // Upstream's cache answers with any state it has, and whole (cacher `computeListLimit`, 1.37): a page's token would
    // name a revision that may have left the history.
    let paged = options.resource_version != "0";
    let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && paged);
    let wanted = Revision(parse_resource_version(&options.resource_version)?);
    let at = match (&token, options.version_match()) {
        (Some(ContinueToken { revision: Some(revision), .. }), _) => At::Revision(Revision(*revision)),
        (Some(ContinueToken { revision: None, .. }), _) => At::Now(Freshness::Latest),
        (None, Some(VersionMatch::Exact)) => At::Revision(wanted),
        (None, _) if options.resource_version.is_empty() => At::Now(Freshness::Latest),
        (None, _) if wanted == Revision::ZERO => At::Now(Freshness::Any),
        // Without a match, a limit asks for exactly that revision.
        (None, None) if limit.is_some() => At::Revision(wanted),
        (None, _) => At::Now(Freshness::AtLeast(wanted)),
    };
    let start = token.as_ref().map_or("", |token| token.start.as_str());
    let mut corrupt = Corrupt::new(call, &filter);
    // A page ends with the last object that fits. Whether there is another says what is stored behind it, selected or
    // not, as upstream's store does.
    let (objects, rest, revision) = match at {
        At::Now(freshness) => {
            let (snapshot, revision) =
                call.handle.snapshot(freshness, call.deadline).await.map_err(|e| call.read_failure(e))?;
            let take = limit.unwrap_or(usize::MAX);
            let mut objects = snapshot.range(filter.prefix(), start);
            let found: Vec<_> = objects.by_ref().filter(|o| corrupt.selects(o)).take(take).cloned().collect();
            let rest = match found.len() < take {
                true => 0,
                false if filter.is_everything() => {
                    let behind = found.last().map(|last| format!("{}\0", last.key()));
                    snapshot.count(filter.prefix(), behind.as_deref().unwrap_or(start))
                }
                false => usize::from(objects.next().is_some()),
            };
            (found, rest, revision)
        }
        At::Revision(revision) => {
            let page = limit.filter(|_| filter.is_everything());
            let listed = call.handle.list_at(revision, filter.prefix(), start, page).await;
            let (read, total) = listed.map_err(|error| too_old(call, error, token.as_ref()))?;
            let take = limit.unwrap_or(usize::MAX);
            let mut seen = 0;
            let mut found = Vec::new();
            for object in read {
                if found.len() == take {
                    break;
                }
                seen += 1;
                if corrupt.selects(&object) {
                    found.push(object);
                }
            }
            (found, total.saturating_sub(seen), revision)
        }
    };
    corrupt.refuse()?;
    let mut meta = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    if rest > 0 && limit.is_some() {
        let last = objects.last().map_or("", |object| object.key());
        let next = ContinueToken { revision: Some(revision.0), start: format!("{last}\0") };
        meta.continue_token = next.encode();
        meta.remaining_item_count = filter.is_everything().then_some(rest as u64);
    }
    Ok(Listed { objects, meta })
}

/// A list of a state that has left the history. A continued one may go on with the state of now, at the client's choice.
fn too_old(call: &Call<'_>, error: ReadError, token: Option<&ContinueToken>) -> Failure {
    if !matches!(error, ReadError::Storage(StorageError::Compacted { .. })) {
        return call.read_failure(error);
    }
    let mut status = Status::expired(if token.is_some() { EXPIRED_WITH_TOKEN } else { EXPIRED });
    status.continue_token =
        token.map(|token| ContinueToken { revision: None, start: token.start.clone() }.encode());
    Failure::Status(Box::new(status))
}

/// A list in the shape that the client takes.
pub(crate) fn list_reply(
    call: &Call<'_>,
    listed: &Listed,
    accepted: Accepted,
) -> Result<HttpResponse, Failure> {
    let (spec, version) = (&call.spec, version(call)?);
    let read = |e| unreadable(call, e);
    let reply = match accepted.shape {
        Shape::Whole => {
            let api_version = spec.api_version(&version.name);
            let size: usize = listed.objects.iter().map(|o| o.json().len() + 48).sum();
            let write = |object: &Arc<StoredObject>, out: &mut Vec<u8>| {
                render::write_served(spec, version, object, out)
            };
            let bytes = table::list(
                &api_version,
                &spec.names.list_kind,
                &listed.meta,
                spec.registration.is_none(),
                size,
                &listed.objects,
                write,
            );
            Reply::json(200, bytes.map_err(read)?)
        }
        Shape::Table(meta) => {
            let tables = Tables::new(call, spec, meta)?;
            let rows = listed.objects.iter().map(|object| tables.row(spec, version, object).map_err(read));
            Reply::tree(200, tables.table(&listed.meta, rows.collect::<Result<_, _>>()?, true))
        }
        Shape::Metadata(_) => {
            return Err(RequestError::ListNotAcceptable("PartialObjectMetadata").into());
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
