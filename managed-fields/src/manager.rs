//! The field manager: the effect of updates and applies on objects and their managedFields
//! (`managedfields/internal/fieldmanager.go` and the managers that it wraps).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use kindom_api::field::go_quote;
use kindom_api::names::{GroupVersionKind, split_api_version};
use kindom_api::{Map, Value, json, object};

use crate::entries::{self, Entries, Id, Managed, Managers};
use crate::typed::{Duplicates, compare, created, to_set, validate_object};
use crate::unmanaged::strip;
use crate::updater::{Conflict, UpdateError, Updater};
use crate::{PathElement, Set, Versions};

/// The most entries of updates that an object keeps; more are merged, the oldest first (`capmanagers.go`).
const UPDATE_MANAGERS_MAX: usize = 10;
/// The manager of the fields of merged entries.
const ANCIENT: &str = "ancient-changes";
/// The manager of the fields of an object that was not tracked when it is first applied (`skipnonapplied.go`).
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager of `kubectl apply --server-side`, which takes over what `kubectl apply` set (`lastappliedmanager.go`).
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes of annotations that an object may have (`ValidateAnnotationsSize`).
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The settings of a write.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The object's type.
    pub versions: &'a dyn Versions,
    /// The version and kind of the request; objects given and made are in it.
    pub gvk: &'a GroupVersionKind,
    /// The subresource that is written through; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write, as metav1.Time prints it.
    pub now: &'a str,
}

/// The reason why an apply is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400
    #[error("{0}")]
    BadRequest(String),
    /// 409 with a cause for each field that somebody else manages.
    #[error("{message}")]
    Conflict {
        /// As upstream says it.
        message: String,
        /// In the order of the message.
        causes: Vec<Cause>,
    },
    /// 500, which is what upstream makes of a configuration that is not of the type.
    #[error("{0}")]
    Internal(String),
}

/// A conflict about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The text, which names the manager that has the field.
    pub message: String,
    /// Its path: `.spec.items[name="a"].x`.
    pub field: String,
}

/// Sets the managedFields of `new`, which replaces `live` (`None` for a create): the fields that it changes now belong to
/// the manager. If that fails the entries stay as they are, as in upstream's `UpdateNoErrors`; then returns the reason.
pub fn update(scope: &Scope<'_>, live: Option<&Value>, new: &mut Value, manager: &str) -> Option<String> {
    let sent = take_entries(new);
    let api_version = scope.gvk.api_version();
    if live.is_none()
        && sent.is_none()
        && scope.versions.empty().is_none()
        && let Some(entries) = of_created(scope, new, manager, &api_version)
    {
        set_entries(new, entries);
        return None;
    }
    let live_list = live.and_then(entries::of);
    // A write to a subresource does not change entries; mostly it sends the stored ones. A client that does not know them
    // leaves them out.
    let counts = |sent: &&Value| scope.subresource.is_empty() || Some(*sent) == live_list;
    let of_live = || (entries::decode(live_list).unwrap_or_default(), false);
    let (managers, uses_sent) = match sent.as_ref().filter(counts) {
        Some(list) if entries::is_reset(list) => (Managers::new(), true),
        Some(list) => match entries::decode(Some(list)) {
            Ok(managers) if !managers.is_empty() => (managers, true),
            _ => of_live(),
        },
        None => of_live(),
    };
    if managers.is_empty() && live.is_some() {
        // Not tracked so far.
        return None;
    }
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = empty_object(scope);
            &empty
        }
    };
    let tracked = updater(scope, &api_version).and_then(|updater| {
        let id = Id::new(manager, false, &api_version, scope.subresource);
        let read = if uses_sent { sent.as_ref() } else { live_list };
        updated(scope, &updater, live, new, Tracked { managers, read }, id)
    });
    match tracked {
        Ok(entries) => {
            let mut sent_entries = sent.filter(|_| uses_sent);
            let mut sent_entries = sent_entries.as_mut().and_then(Value::as_array_mut);
            let live = live_list.and_then(Value::as_array).unwrap_or_default();
            let entries = entries.write(|at| match &mut sent_entries {
                Some(sent_entries) => sent_entries.get_mut(at).map(std::mem::take).unwrap_or_default(),
                None => live.get(at).cloned().unwrap_or_default(),
            });
            set_entries(new, entries);
            None
        }
        Err(why) => {
            set_entries(new, live_list.cloned());
            Some(why)
        }
    }
}

/// The entries of a new object; none where it is not of its type.
fn of_created(scope: &Scope<'_>, new: &Value, manager: &str, api_version: &str) -> Option<Option<Value>> {
    let ty = scope.versions.merge_type(api_version)?;
    let fields = created(new, ty, scope.versions.reset_fields(api_version))?;
    if fields.as_object().is_some_and(Map::is_empty) {
        return Some(None);
    }
    let id = Id::new(manager, false, api_version, scope.subresource);
    Some(Some(vec![entries::entry(&id, api_version, Some(scope.now), fields)].into()))
}

/// The managers before a write, and the list that they were read from.
struct Tracked<'a> {
    managers: Managers<'a>,
    read: Option<&'a Value>,
}

fn updated(
    scope: &Scope<'_>,
    updater: &Updater<'_>,
    live: &Value,
    new: &Value,
    Tracked { managers, read }: Tracked<'_>,
    id: Id<'_>,
) -> Result<Entries, String> {
    let typed = |what: &str, object: &Value, known| {
        validate_object(object, updater.ty, Duplicates::Allowed, known).map_err(|errors| {
            format!("failed to convert {what} object ({}) to smd typed: {errors}", name_of(object))
        })
    };
    typed("new", new, None)?;
    typed("live", live, Some(new))?;
    let failed = |why: String| format!("failed to update ManagedFields ({}): {why}", name_of(new));
    let live = updater.views(Cow::Borrowed(live), &managers).map_err(failed)?;
    let new_view = |why| failed(format!("failed to convert new object: {why}"));
    let new = updater.views(Cow::Borrowed(new), &managers).map_err(new_view)?;
    let managers = updater.reconcile(&live, managers);
    let (mut managers, set) = updater.update(&live, &new, managers).map_err(failed)?;
    credit(&mut managers, id, strip(set), updater.api_version, scope.now);
    cap(&mut managers);
    Ok(Entries::of(&managers, read))
}

/// Adds fields to a manager's entry, if there are any (`managedfieldsupdater.go`).
fn credit<'v>(managers: &mut Managers<'v>, id: Id<'v>, fields: Set<'v>, api_version: &'v str, now: &'v str) {
    if fields.is_empty() {
        return;
    }
    match managers.get_mut(&id) {
        Some(managed) => {
            managed.add_fields(fields);
            managed.api_version = api_version.into();
            managed.time = Some(now.into());
        }
        None => {
            managers.insert(id, Managed::new(fields, api_version.into(), Some(now.into())));
        }
    }
}

/// Merges the oldest entries of updates, version by version, until there are no more than may be (`capmanagers.go`).
fn cap(managers: &mut Managers<'_>) {
    let is_update = |(id, _): &(&Id<'_>, &Managed<'_>)| !id.applied;
    let mut left = managers.iter().filter(is_update).count();
    if left <= UPDATE_MANAGERS_MAX {
        return;
    }
    let updates = managers.iter().filter(is_update);
    let mut updates: Vec<(i64, String, Id<'_>)> =
        updates.map(|(id, managed)| (entries::seconds(managed), id.text(), id.clone())).collect();
    updates.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    // By version, the first entry that was seen, until it has become the bucket.
    let mut first: BTreeMap<String, Id<'_>> = BTreeMap::new();
    for (_, _, id) in updates {
        if left <= UPDATE_MANAGERS_MAX {
            break;
        }
        let Some(version) = managers.get(&id).map(|managed| managed.api_version.to_string()) else {
            continue;
        };
        let Some(of_version) = first.get(&version).cloned() else {
            first.insert(version, id);
            continue;
        };
        let bucket_id = Id {
            manager: ANCIENT.into(),
            applied: false,
            api_version: version.into(),
            subresource: Cow::Borrowed(""),
        };
        if !managers.contains_key(&bucket_id)
            && let Some(managed) = managers.remove(&of_version)
        {
            managers.insert(bucket_id.clone(), managed);
        }
        let Some(merged) = managers.get(&id).cloned() else { continue };
        if let Some(bucket) = managers.get_mut(&bucket_id) {
            bucket.set_fields(merged.fields().union(bucket.fields()));
            bucket.time = merged.time;
        }
        managers.remove(&id);
        left -= 1;
    }
}

/// Applies a configuration to `live`, or creates the object if there is none; returns it with its managedFields. `patch` is
/// the configuration as it was sent.
///
/// # Errors
/// [`ApplyError`]
pub fn apply(
    scope: &Scope<'_>,
    live: Option<&Value>,
    patch: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, ApplyError> {
    let internal = ApplyError::Internal;
    let list = live.and_then(entries::of);
    let read =
        || entries::decode(list).map_err(|why| internal(format!("failed to decode managed fields: {why}")));
    let managers = read()?;
    let sent = gvk_of(patch);
    if sent.as_ref() != Some(scope.gvk) {
        let sent = sent.as_ref().map_or_else(|| "/, Kind=".to_owned(), gvk_text);
        return Err(ApplyError::BadRequest(format!("invalid object type: {sent}")));
    }
    if entries::of(patch).is_some() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let api_version = scope.gvk.api_version();
    let updater = updater(scope, &api_version).map_err(internal)?;
    let empty = empty_object(scope);
    let live = live.map_or_else(|| empty.clone(), without_entries);
    let tracked = |managers| {
        tracked(scope, &updater, (&empty, &live), managers)
            .map_err(|why| internal(format!("failed to create manager for existing fields: {why}")))
    };
    let config =
        Config { live: &live, patch, applier: Id::new(manager, true, &api_version, scope.subresource) };

    let applied = match applied(scope, &updater, &config, tracked(managers)?, force) {
        // Nothing but what `kubectl apply` set is in the way.
        Err(Refusal::Conflicts(conflicts)) if conflicts.is_empty() => {
            applied(scope, &updater, &config, tracked(read()?)?, true)
        }
        other => other,
    };
    let (merged, entries) = applied.map_err(|why| match why {
        Refusal::Conflicts(conflicts) => conflict(&conflicts),
        Refusal::Failed(why) => internal(why),
    })?;
    let mut object = merged.unwrap_or(live);
    if manager == KUBECTL {
        renew_last_applied(&mut object, patch);
    }
    set_entries(&mut object, entries);
    Ok(object)
}

/// The managers of a live object; if there are none, an entry for the fields that it has before the first apply.
fn tracked<'v>(
    scope: &Scope<'v>,
    updater: &Updater<'v>,
    (empty, live): (&'v Value, &'v Value),
    managers: Managers<'v>,
) -> Result<Managers<'v>, String> {
    if !managers.is_empty() {
        return Ok(managers);
    }
    validate_object(live, updater.ty, Duplicates::Allowed, None).map_err(|errors| {
        format!("failed to convert new object ({}) to smd typed: {errors}", name_of(live))
    })?;
    let difference = compare(empty, live, updater.ty).map_err(|errors| {
        format!("failed to update ManagedFields ({}): failed to compare objects: {errors}", name_of(live))
    })?;
    let reset = updater.versions.reset_fields(updater.api_version);
    let mut managers = Managers::new();
    let through = if updater.versions.is_of_part() { "" } else { scope.subresource };
    let id = Id::new(BEFORE_FIRST_APPLY, false, updater.api_version, through);
    credit(
        &mut managers,
        id,
        strip(difference.added.union(&difference.modified).without_fields(reset)),
        updater.api_version,
        scope.now,
    );
    Ok(managers)
}

/// The inputs of an apply: the live object, the patch, and the applier.
struct Config<'v> {
    live: &'v Value,
    patch: &'v Value,
    applier: Id<'v>,
}

/// The reason why nothing was applied.
enum Refusal {
    /// Fields of others. None: only such as `kubectl apply` set.
    Conflicts(Vec<Conflicts>),
    Failed(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// The fields of a manager that are in the way.
struct Conflicts {
    /// As upstream sorts it.
    id: String,
    /// As upstream prints it.
    manager: String,
    paths: Vec<String>,
}

impl Conflicts {
    fn new(id: &Id<'_>, fields: &Set<'_>) -> Self {
        let text = |path: Vec<PathElement<'_>>| path.iter().map(ToString::to_string).collect();
        Self { id: id.text(), manager: printed(id), paths: fields.paths().into_iter().map(text).collect() }
    }
}

/// The object that comes of an apply, none where it is as it was, and its entries.
fn applied<'v>(
    scope: &Scope<'v>,
    updater: &Updater<'v>,
    config: &Config<'v>,
    managers: Managers<'v>,
    force: bool,
) -> Result<(Option<Value>, Option<Value>), Refusal> {
    let Config { live, patch, applier } = config;
    let typed = |what: &str, object: &Value, duplicates| {
        validate_object(object, updater.ty, duplicates, None)
            .map_err(|errors| format!("failed to create typed {what} object ({}): {errors}", name_of(object)))
    };
    typed("patch", patch, Duplicates::Refused)?;
    typed("live", live, Duplicates::Allowed)?;
    let live_views = updater.views(Cow::Borrowed(*live), &managers)?;
    let mut managers = updater.reconcile(&live_views, managers);
    let last = managers.remove(applier);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let fields = updater.configured(patch);
    managers.insert(applier.clone(), Managed::new(fields, updater.api_version.into(), time));
    let merged = updater.merged(live, patch, &managers, applier, last.as_ref())?;
    let merged_views = updater
        .views(Cow::Owned(merged), &managers)
        .map_err(|why| format!("failed to convert new object: {why}"))?;

    let taken = updater.applied(&live_views, &merged_views, managers, applier, force);
    let (mut managers, changed) = taken.map_err(|why| match why {
        UpdateError::Failed(why) => Refusal::Failed(why),
        UpdateError::Conflicts(conflicts) if applier.manager == KUBECTL => {
            Refusal::Conflicts(but_last_applied(updater, live, &conflicts))
        }
        UpdateError::Conflicts(conflicts) => Refusal::Conflicts(
            conflicts.iter().map(|conflict| Conflicts::new(&conflict.manager, &conflict.fields)).collect(),
        ),
    })?;
    if let Some(managed) = managers.remove(applier) {
        let time = if changed { Some(scope.now.into()) } else { managed.time.clone() };
        let api_version = managed.api_version.clone();
        let fields = strip(managed.into_fields());
        if !fields.is_empty() {
            managers.insert(applier.clone(), Managed::new(fields, api_version, time));
        }
    }
    let entries = entries::encode(&managers);
    drop(managers);
    Ok((changed.then(|| merged_views.into_object()), entries))
}

/// The conflicts that are about more than what `kubectl apply` set and nobody has changed since, which the first
/// server-side apply takes over (`lastAppliedManager`).
fn but_last_applied(updater: &Updater<'_>, live: &Value, conflicts: &[Conflict<'_>]) -> Vec<Conflicts> {
    let text = live.at(&["metadata", "annotations", LAST_APPLIED]).and_then(Value::as_str);
    let last = text.filter(|text| !text.is_empty()).and_then(|text| json::parse(text.as_bytes()).ok());
    let allowed = last.as_ref().and_then(|last| last_applied_fields(updater, live, last));
    let nothing = Set::new();
    let allowed = allowed.as_ref().unwrap_or(&nothing);
    let left = conflicts.iter().map(|conflict| (&conflict.manager, conflict.fields.difference(allowed)));
    left.filter(|(_, fields)| !fields.is_empty()).map(|(id, fields)| Conflicts::new(id, &fields)).collect()
}

/// The fields of the client's last applied configuration that still have its values.
fn last_applied_fields<'v>(updater: &Updater<'v>, live: &'v Value, last: &'v Value) -> Option<Set<'v>> {
    let has_kind = last.get("kind").and_then(Value::as_str).is_some_and(|kind| !kind.is_empty());
    let api_version = last.get("apiVersion").and_then(Value::as_str);
    if !has_kind || api_version != Some(updater.api_version) {
        return None;
    }
    validate_object(live, updater.ty, Duplicates::Refused, None).ok()?;
    validate_object(last, updater.ty, Duplicates::Refused, None).ok()?;
    let difference = compare(last, live, updater.ty).ok()?;
    let fields = to_set(last, updater.ty);
    Some(
        fields.difference(&difference.modified).difference(&difference.added).difference(&difference.removed),
    )
}

/// Keeps the annotation of client-side apply up to date where there is one (`lastAppliedUpdater`).
fn renew_last_applied(object: &mut Value, patch: &Value) {
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = patch.clone();
    if let Some(own) = config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
        && let Some(own) = own.as_object_mut()
    {
        own.remove(LAST_APPLIED);
    }
    annotations.insert(LAST_APPLIED, format!("{config}\n"));
    let bytes: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().unwrap_or_default().len()).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

/// `NewConflictError`
fn conflict(conflicts: &[Conflicts]) -> ApplyError {
    let mut sorted: Vec<&Conflicts> = conflicts.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let pairs = sorted.iter().flat_map(|of| of.paths.iter().map(|path| (&of.manager, path)));
    let causes: Vec<Cause> = pairs
        .map(|(manager, path)| Cause { message: format!("conflict with {manager}"), field: path.clone() })
        .collect();
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        all => {
            let mut lines = Vec::new();
            for of in sorted {
                lines.push(format!("conflicts with {}:", of.manager));
                lines.extend(of.paths.iter().map(|path| format!("- {path}")));
            }
            format!("Apply failed with {} conflicts: {}", all.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes }
}

/// A manager as conflicts name it (`printManager`).
fn printed(id: &Id<'_>) -> String {
    let mut out = go_quote(&id.manager);
    // Writing to a String cannot fail.
    if !id.subresource.is_empty() {
        let _ = write!(out, " with subresource {}", go_quote(&id.subresource));
    }
    if !id.applied {
        let _ = write!(out, " using {}", id.api_version);
    }
    out
}

/// Puts the entries of `old` into `new` if they differ in nothing but their times, so that a write without a change changes
/// nothing (apiserver `handlers/fieldmanager/equality.go`).
pub fn keep_times(new: &mut Value, old: &Value) {
    let (Some(new_list), Some(old_list)) = (entries::of(new), entries::of(old)) else { return };
    let (Some(entries), Some(old_entries)) = (new_list.as_array(), old_list.as_array()) else { return };
    if entries.len() != old_entries.len() || entries.is_empty() {
        return;
    }
    let timeless = |entry: &Value, old: &Value| match (entry, old) {
        (Value::Object(entry), Value::Object(old)) => same_but("time", entry, old),
        (entry, old) => entry == old,
    };
    let same_times = entries.iter().zip(old_entries).all(|(entry, old)| entry.get("time") == old.get("time"));
    if same_times || !entries.iter().zip(old_entries).all(|(entry, old)| timeless(entry, old)) {
        return;
    }
    let (Value::Object(new_fields), Value::Object(old_fields)) = (&*new, old) else { return };
    let (Some(new_metadata), Some(old_metadata)) = (new_fields.get("metadata"), old_fields.get("metadata"))
    else {
        return;
    };
    let (Value::Object(new_metadata), Value::Object(old_metadata)) = (new_metadata, old_metadata) else {
        return;
    };
    if same_but("metadata", new_fields, old_fields) && same_but("managedFields", new_metadata, old_metadata) {
        let kept = old_list.clone();
        set_entries(new, Some(kept));
    }
}

/// Returns true if two maps are equal except for one field.
fn same_but(field: &str, a: &Map, b: &Map) -> bool {
    let rest = |map: &'_ Map| map.len() - usize::from(map.contains_key(field));
    rest(a) == rest(b) && a.iter().all(|(name, value)| name == field || b.get(name) == Some(value))
}

fn updater<'a>(scope: &Scope<'a>, api_version: &'a str) -> Result<Updater<'a>, String> {
    let ty = scope.versions.merge_type(api_version);
    let ty = ty.ok_or_else(|| format!("no corresponding type for {}", gvk_text(scope.gvk)))?;
    Ok(Updater { versions: scope.versions, api_version, ty })
}

/// A new object of a kind, with nothing but the fields that are never omitted.
fn empty_object(scope: &Scope<'_>) -> Value {
    let nothing = || object! { "apiVersion": scope.gvk.api_version(), "kind": scope.gvk.kind.as_str() };
    scope.versions.empty().unwrap_or_else(nothing)
}

fn take_entries(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut)?;
    metadata.remove("managedFields").filter(|list| list.as_array().is_some())
}

fn set_entries(object: &mut Value, entries: Option<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    match entries {
        Some(entries) => {
            let metadata = root.entry_or_insert_with("metadata", || Map::new().into());
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields", entries);
            }
        }
        None => {
            if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}

/// A copy of an object, but for its entries.
fn without_entries(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copied = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name, Value::Object(kept.map(|(name, value)| (name, value.clone())).collect()))
        }
        value => (name, value.clone()),
    });
    Value::Object(copied.collect())
}

/// The type that an object itself has; `None` if its apiVersion is no such thing.
fn gvk_of(object: &Value) -> Option<GroupVersionKind> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"))?;
    Some(GroupVersionKind::new(group, version, text("kind")))
}

fn gvk_text(gvk: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind)
}

/// An object as errors name it (`objectGVKNN`).
fn name_of(object: &Value) -> String {
    let text = |field| object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default();
    let gvk = gvk_of(object).as_ref().map_or_else(|| "/, Kind=".to_owned(), gvk_text);
    format!("{}/{}; {gvk}", text("namespace"), text("name"))
}
