//! The objects that a list or a deletecollection is about.

use std::sync::Arc;

use kindom_actor_kit::{Held, dear, turn};
use kindom_api::status::{Cause, cause};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, render};
use kindom_resource_actor::Freshness;
use kindom_resource_actor::ReadError;
use kindom_storage::{Revision, StorageError};

use crate::ahead::convert_ahead;
use crate::call::Call;
use crate::cost;
use crate::filter::Filter;
use crate::query::{
    ContinueToken, EXPIRED, EXPIRED_WITH_TOKEN, ListOptions, VersionMatch, parse_resource_version,
};
use crate::status::{Failure, expired_list, store_read_error};
use crate::table::ListMeta;

/// The number of objects that can't be read that an error names.
const CORRUPT_MAX: usize = 100;

/// The result of a list.
pub(crate) struct Listed {
    pub(crate) objects: Vec<Arc<StoredObject>>,
    pub(crate) meta: ListMeta,
    /// The answers of the type's webhook that selecting has needed.
    pub(crate) conversions: Conversions,
    /// The memory of these answers, and of those objects that nobody else has.
    pub(crate) held: Held,
}

/// Collects the objects that a list cannot read. The list then fails, so that no client takes these objects for deleted
/// (apiserver `pkg/storage/etcd3/corrupt_obj_deleter.go`, 1.37).
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
        let readable = render::readable(&self.call.spec, object).map_err(|error| error.to_string());
        let selected = readable.and_then(|()| {
            self.filter.matches(&self.call.spec, object).map_err(|why| why.of_one().to_string())
        });
        let error = match selected {
            Ok(selected) => return selected,
            Err(error) => error,
        };
        if !self.filter.may_match(object) {
            return false;
        }
        if self.causes.len() == CORRUPT_MAX {
            return false;
        }
        let message = error;
        let field = format!("{}{}", self.call.spec.prefix, object.key());
        self.causes.push(Cause { reason: cause::UNEXPECTED_SERVER_RESPONSE.into(), message, field });
        false
    }

    fn refuse(self) -> Result<(), Failure> {
        match self.causes.first() {
            None => Ok(()),
            Some(_) => Err(store_read_error(self.call.resource(), self.causes, CORRUPT_MAX)),
        }
    }
}

/// The state that a list shows.
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
    // A page of a type that is not in memory is read from the store.
    let at = match at {
        At::Now(freshness)
            if limit.is_some()
                && filter.is_everything()
                && !call.handle.is_loaded().map_err(|e| call.read_failure(e))? =>
        {
            let stored = call.handle.stored_revision(freshness, call.deadline).await;
            At::Revision(stored.map_err(|e| call.read_failure(e))?)
        }
        at => at,
    };
    let start = token.as_ref().map_or("", |token| token.start.as_str());
    let mut corrupt = Corrupt::new(call, &filter);
    let mut held = call.room().begin();
    let mut conversions = Conversions::default();
    // A page ends with the last object that fits. There is another page if any object is stored behind it, selected or not,
    // as in upstream's store.
    let (objects, rest, revision) = match at {
        At::Now(freshness) => {
            let (snapshot, revision) =
                call.handle.snapshot(freshness, call.deadline).await.map_err(|e| call.read_failure(e))?;
            let take = limit.unwrap_or(usize::MAX);
            dear(cost::list(snapshot.count(filter.prefix(), start), take, filter.requirements())).await?;
            // Of many objects this alone is dear: it comes behind the step that has moved them to the processors.
            dear(cost::parse(filter.bytes_read(&call.spec, snapshot.range(filter.prefix(), start)))).await?;
            if filter.needs_answers(&call.spec) {
                let all = snapshot.range(filter.prefix(), start);
                convert_ahead(call, all, &mut conversions, &mut held).await?;
                turn(cost::parse(conversions.bytes())).await;
            }
            let mut objects = snapshot.range(filter.prefix(), start);
            let found: Vec<_> = conversions
                .during(|| objects.by_ref().filter(|o| corrupt.selects(o)).take(take).cloned().collect());
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
            let mut hold = |bytes| held.grow(bytes);
            let listed =
                call.handle.list_at(revision, filter.prefix(), start, page, call.deadline, &mut hold).await;
            let (read, total) = listed.map_err(|error| too_old(call, error, token.as_ref()))?;
            let take = limit.unwrap_or(usize::MAX);
            dear(cost::list(read.len(), take, filter.requirements())).await?;
            dear(cost::parse(filter.bytes_read(&call.spec, read.iter()))).await?;
            if filter.needs_answers(&call.spec) {
                convert_ahead(call, read.iter(), &mut conversions, &mut held).await?;
                turn(cost::parse(conversions.bytes())).await;
            }
            let mut seen = 0;
            let mut found = Vec::new();
            for object in read {
                if found.len() == take {
                    break;
                }
                seen += 1;
                if conversions.during(|| corrupt.selects(&object)) {
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
    Ok(Listed { objects, meta, conversions, held })
}

/// A list of a state that has left the history. A continued one may go on with the state of now, at the client's choice.
fn too_old(call: &Call<'_>, error: ReadError, token: Option<&ContinueToken>) -> Failure {
    if !matches!(error, ReadError::Storage(StorageError::Compacted { .. })) {
        return call.read_failure(error);
    }
    let start = token.map(|token| token.start.clone());
    let message = if start.is_some() { EXPIRED_WITH_TOKEN } else { EXPIRED };
    expired_list(message, start.map(|start| ContinueToken { revision: None, start }.encode()))
}
