//! OpenAPI: v3 by group-version and v2 of everything, made when they are asked for (kube-openapi `pkg/handler3` and
//! `pkg/handler`, 1.37).
//!
//! No document is kept. Its ETag is a hash of everything it depends on, so that a client that has it gets a 304 without the
//! document being made. Any other client gets it type by type, and of thousands of types only one schema is in memory at a
//! time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use kindom_api::{Value, json, object};
use kindom_codec::Format as Written;
use kindom_objects::TypeSpec;
use kindom_registry_actor::GroupRoutes;
use kindom_resource_actor::ResourceHandle;
use kindom_schema::openapi::{Document, Format, GroupVersionDoc, RemoteDoc, TypeDoc};
use sha2::{Digest as _, Sha512};

use crate::RequestError;
use crate::app::App;
use crate::audience::Audience;
use crate::cost;
use crate::groups::{Shown, fresh, groups, remote};
use crate::head::{Head, header_of};
use crate::negotiate::{Endpoint, JSON, accept, preferred};
use crate::query::Query;
use crate::respond::{PieceTurns, send_pieces, start};
use crate::response::Response;
use crate::status::Failure;
use crate::tagged::{Document as Tagged, start_tagged, tagged};

/// The media type of v2 in protobuf, as answers say it; requests may still have an `@` for the dot before `v1.0`.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_BEFORE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A type and the versions of it that a document describes.
pub(crate) struct Described {
    pub(crate) spec: Arc<TypeSpec>,
    versions: Vec<String>,
}

impl Described {
    /// One that a v2 document describes: in all versions that are served.
    fn whole(spec: Arc<TypeSpec>) -> Self {
        let versions = spec.versions.iter().filter(|v| v.served).map(|v| v.name.clone()).collect();
        Self { spec, versions }
    }

    /// The type's description in the document, for each version. `registration` is its stored registration, if it has one.
    pub(crate) fn docs<'a>(
        &'a self,
        registration: &'a Value,
    ) -> impl Iterator<Item = (GroupVersionDoc<'a>, TypeDoc<'a>)> {
        self.versions.iter().map(|version| self.spec.published(version, registration))
    }

    /// Hashes everything that the type's description depends on.
    fn hash_into(&self, hasher: &mut Sha512) {
        let (spec, names) = (&*self.spec, &self.spec.names);
        for version in &self.versions {
            let epoch = spec.version(version).map_or(0, |v| v.epoch);
            hasher.update(format!(
                "{} {version} {} {} {} {} {epoch} {} {:?}\n",
                spec.group,
                names.plural,
                names.kind,
                names.list_kind,
                spec.namespaced(),
                env!("CARGO_PKG_VERSION"),
                spec.subresources(version).map(|of| of.name().to_owned()).collect::<Vec<_>>(),
            ));
        }
    }
}

/// A part of a document.
enum Part {
    Type(Described),
    Remote(Arc<RemoteDoc>),
}

/// The pieces of a document: what begins it, the paths of each part, the schemas of each part, what ends it.
struct Pieces {
    document: Option<Document>,
    start: Option<Vec<u8>>,
    paths: VecDeque<Part>,
    schemas: VecDeque<Part>,
}

impl Pieces {
    /// `remote`: the parts of other servers, in a v2 document.
    fn new(
        format: Format,
        title: &str,
        version: &str,
        types: Vec<Described>,
        remote: Vec<Arc<RemoteDoc>>,
    ) -> Self {
        let (document, start) = Document::start(format, title, version);
        let document = if remote.is_empty() { document } else { document.merging() };
        let parts = types.into_iter().map(Part::Type).chain(remote.into_iter().map(Part::Remote));
        let paths = parts.collect();
        Self { document: Some(document), start: Some(start), paths, schemas: VecDeque::new() }
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(start) = self.start.take() {
            return Some(start);
        }
        let document = self.document.as_mut()?;
        let mut piece = Vec::new();
        if let Some(part) = self.paths.pop_front() {
            match &part {
                Part::Type(described) => {
                    described.docs(&Value::Null).for_each(|(gv, doc)| piece.extend(document.paths(&gv, &doc)))
                }
                Part::Remote(doc) => piece = document.remote_paths(doc),
            }
            self.schemas.push_back(part);
            return Some(piece);
        }
        let described = match self.schemas.pop_front() {
            None => return self.document.take().map(Document::end),
            Some(Part::Remote(doc)) => return Some(document.remote_schemas(&doc)),
            Some(Part::Type(described)) => described,
        };
        // A registration that does not decode was never stored by kindom; without it any object is described.
        let registration = described.spec.registration.as_ref();
        let registration =
            registration.and_then(|r| json::parse_own(r.object.json()).ok()).unwrap_or_default();
        for (gv, doc) in described.docs(&registration) {
            piece.extend(document.schemas(&gv, &doc));
        }
        Some(piece)
    }
}

/// `/openapi/v3`: where each group-version's document is, by its hash.
pub(crate) async fn index(app: &App, request: &Head, audience: Audience) -> Result<Response, Failure> {
    let Shown { groups, remote, generation } = groups(app, audience).await?;
    if let Some(known) = app.documents.with(generation, |cache| cache.indexes.get(&audience).cloned()) {
        return Ok(tagged(request, &known, JSON));
    }
    let table = app.state.registry.routes().table();
    let mut paths = kindom_api::Map::new();
    for group in groups.iter() {
        for version in &group.versions {
            let elsewhere = remote.groups.get(&group.name).and_then(|versions| versions.get(&version.name));
            let hash = match elsewhere.map(|of| &of.openapi_hash) {
                Some(Some(hash)) => hash.clone(),
                // Its server describes it to nobody.
                Some(None) => continue,
                None => hash(&served(table.group(&group.name), &version.name, audience), &[]),
            };
            let path = path(&group.name, &version.name);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, object! { "serverRelativeURL": url });
        }
    }
    let document = Tagged::new(&object! { "paths": Value::Object(paths) });
    app.documents.with(generation, |cache| cache.indexes.insert(audience, document.clone()));
    Ok(tagged(request, &document, JSON))
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The types of a group that serve a version, and that the audience sees.
pub(crate) fn served(types: Option<&GroupRoutes>, version: &str, audience: Audience) -> Vec<Described> {
    let specs = types.into_iter().flatten().filter_map(|(_, handle)| handle.spec());
    let specs = specs.filter(|spec| audience.sees(spec) && spec.version(version).is_some_and(|v| v.served));
    // Built-in types come first, as no registered type may define their schemas again.
    let (own, registered): (Vec<_>, Vec<_>) = specs.partition(|spec| spec.is_typed());
    let types = own.into_iter().chain(registered);
    types.map(|spec| Described { spec, versions: vec![version.to_owned()] }).collect()
}

pub(crate) fn hash(types: &[Described], remote: &[Arc<RemoteDoc>]) -> String {
    let mut hasher = Sha512::new();
    types.iter().for_each(|described| described.hash_into(&mut hasher));
    remote.iter().for_each(|doc| hasher.update(doc.hash()));
    hasher.finalize().iter().map(|b| format!("{b:02X}")).collect()
}

/// The document of a group-version.
pub(crate) async fn v3(
    app: &App,
    request: &Head,
    audience: Audience,
    query: &Query,
    (group, version): (&str, &str),
    turns: PieceTurns,
) -> Result<Response, Failure> {
    // Another form than JSON is refused without a word, as kube-openapi's handler does.
    let accepted = accept(header_of(request, header::ACCEPT), Endpoint::Plain);
    if !accepted.is_ok_and(|accepted| accepted.format == Written::Json) {
        return Ok(start(406).finish());
    }
    fresh(app, audience).await?;
    let types = served(app.state.registry.routes().table().group(group), version, audience);
    if types.is_empty() {
        return Err(RequestError::NotFound.into());
    }
    let hash = hash(&types, &[]);
    let wanted = query.get("hash");
    if wanted.is_some_and(|wanted| wanted != hash) {
        // kube-openapi `handler3`: the client is sent to the document of now, with the headers of that document.
        let now = format!("/openapi/v3/{}?hash={hash}", path(group, version));
        let mut moved = start(301);
        moved.insert_header((header::ETAG, format!("\"{hash}\"")));
        moved.insert_header((header::VARY, "Accept"));
        return Ok(moved.insert_header((header::LOCATION, now)).content_type(JSON).finish());
    }
    let (is_known, mut builder) = start_tagged(request, &hash, JSON);
    if is_known {
        return Ok(builder.finish());
    }
    if wanted.is_some() {
        // A document is known by its hash, so it never changes.
        builder.insert_header((header::CACHE_CONTROL, "public, immutable"));
        let in_a_year = i64::from(365 * 24 * 3600) + app.state.now_seconds();
        builder.insert_header((header::EXPIRES, http_date(in_a_year)));
    }
    let pieces = Pieces::new(Format::V3, "Kubernetes CRD Swagger", "v0.1.0", types, Vec::new());
    send_pieces(request, builder, Box::new(pieces.map(Ok)), turns)
}

fn http_date(unix_seconds: i64) -> String {
    let seconds = u64::try_from(unix_seconds).unwrap_or(0);
    header::HttpDate::from(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// `/openapi/v2`: everything that is served, here or through this server by others, as JSON or protobuf. kubectl asks for
/// protobuf alone.
pub(crate) async fn v2(
    app: &App,
    request: &Head,
    audience: Audience,
    turns: PieceTurns,
) -> Result<Response, Failure> {
    let offers =
        [(JSON, Format::V2Json), (V2_PROTOBUF_BEFORE, Format::V2Protobuf), (V2_PROTOBUF, Format::V2Protobuf)];
    let Some(format) = preferred(header_of(request, header::ACCEPT), &offers) else {
        return Ok(start(406).finish());
    };
    fresh(app, audience).await?;
    let table = app.state.registry.routes().table();
    let handles = table.groups().flat_map(|(_, types)| types.values());
    let specs = handles.filter_map(ResourceHandle::spec).filter(|spec| audience.sees(spec));
    let mut specs: Vec<Arc<TypeSpec>> = specs.collect();
    // Built-in types come first, as no registered type may define their schemas again.
    specs.sort_by(|a, b| {
        let key = |spec: &TypeSpec| !spec.is_typed();
        (key(a), &a.group, &a.names.plural).cmp(&(key(b), &b.group, &b.names.plural))
    });
    let types: Vec<Described> = specs.into_iter().map(Described::whole).collect();
    let content_type = if format == Format::V2Json { JSON } else { V2_PROTOBUF };
    let remote = remote(app, audience);
    let remote = remote.groups.values().flat_map(BTreeMap::values);
    let remote: Vec<Arc<RemoteDoc>> = remote.filter_map(|version| version.openapi_v2.clone()).collect();
    let (is_known, mut builder) = start_tagged(request, &hash(&types, &remote), content_type);
    if is_known {
        return Ok(builder.finish());
    }
    // Another server's part is one piece, however large it is.
    let largest = remote.iter().map(|doc| doc.bytes()).max().unwrap_or_default();
    let turns = PieceTurns { each: turns.each.max(cost::parse(largest)), ..turns };
    let pieces = Pieces::new(format, "kindom", env!("CARGO_PKG_VERSION"), types, remote);
    send_pieces(request, builder, Box::new(pieces.map(Ok)), turns)
}
