//! The bytes that a write will store: the generic rules of create, update and delete. Pure; called again when a plan lost a
//! race.
//!
//! Sources: apiserver `pkg/registry/rest/{create,update,delete}.go`, `pkg/registry/generic/registry/store.go` (1.37).

use std::collections::BTreeSet;
use std::num::IntErrorKind;

use kindom_api::field::{self, Path};
use kindom_api::json;
use kindom_api::meta::names::is_path_segment;
use kindom_api::meta::{time, validate_object_meta, validate_object_meta_update};
use kindom_api::{Map, Value};
use kindom_managed_fields::keep_times;
use kindom_storage_model::{Key, Revision};

use crate::confinement::{confine, tell};
use crate::error::PlanError;
use crate::holdings::{Holdings, HoldingsChange};
use crate::metadata::metadata_mut;
use crate::propagation::Propagation;
use crate::render::{Former, encode};
use crate::seal::Sealed;
use crate::stages::{PLUGINS, Stage};
use crate::version::VersionSpec;
use crate::{Deletion, NeedsEmpty, RuleContext, StoredObject, TypeSpec};

/// The text of an optimistic lock that failed.
const CHANGED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The longest base of a generated name, so that the name with its suffix stays a DNS label.
const GENERATED_BASE_MAX: usize = 58;

/// An object as it will be stored.
#[derive(Debug)]
pub struct Planned {
    /// Its key behind the type's prefix.
    pub key: String,
    /// The value to store.
    pub sealed: Sealed,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Keys that must not exist when it is stored.
    pub needs_empty: Option<NeedsEmpty>,
    /// The change of its holdings.
    pub holdings: HoldingsChange,
}

/// The plan of an update.
#[derive(Debug)]
pub enum UpdatePlan {
    /// It is stored.
    Put(Planned),
    /// Stored already, byte for byte: nothing is written and the resourceVersion stays.
    Unchanged(Planned),
    /// Its last finalizer went, and it is being deleted: it goes.
    Delete(Planned),
}

/// The plan of a delete.
#[derive(Debug)]
pub enum DeletePlan {
    /// It goes at once, and its holdings with it.
    Delete(BTreeSet<Key>),
    /// It goes at once, with the mark of its deletion as its last state.
    Finish(Planned),
    /// Finalizers hold it, or its grace period: it is marked, and stays.
    Mark(Planned),
    /// It is marked already.
    Unchanged,
}

/// The wishes of a client that deletes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must be at this resourceVersion.
    pub resource_version: Option<String>,
    /// The treatment of the objects that it owns.
    pub propagation: Propagation,
    /// The seconds that the object may take to end, where its kind ends gracefully.
    pub grace: Option<i64>,
}

/// The finalizer of an object whose dependents lose their reference to it.
pub const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Returns true if an object has this finalizer.
#[must_use]
pub fn has_finalizer(object: &Value, name: &str) -> bool {
    finalizers(object).iter().any(|finalizer| finalizer.as_str() == Some(name))
}

/// Gives an object the garbage collector's finalizers that a delete asks for. Returns true if that changed them.
fn propagate(object: &mut Value, propagation: Propagation) -> bool {
    let wanted = match propagation {
        Propagation::Unsaid => return false,
        Propagation::OrphanUnlessSaid if has_finalizer(object, FOREGROUND) => return false,
        Propagation::Orphan | Propagation::OrphanUnlessSaid => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    if [ORPHAN, FOREGROUND].into_iter().all(|name| has_finalizer(object, name) == (wanted == Some(name))) {
        return false;
    }
    let others = finalizers(object).iter().filter(|of| !matches!(of.as_str(), Some(ORPHAN | FOREGROUND)));
    let new: Vec<Value> = others.cloned().chain(wanted.map(Value::from)).collect();
    let metadata = metadata_mut(object);
    if new.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", new);
    }
    true
}

fn text<'a>(metadata: Option<&'a Value>, field: &str) -> &'a str {
    metadata.and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace that the object says must be the request's; an object that says none gets it
/// (`rest.EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// [`PlanError::BadRequest`]
pub fn set_namespace(metadata: &mut Map, namespace: Option<&str>) -> Result<(), PlanError> {
    let sent = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    match namespace {
        Some(namespace) if sent.is_empty() || sent == namespace => {
            metadata.insert("namespace", namespace);
            Ok(())
        }
        Some(_) => Err(PlanError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        )),
        None => {
            metadata.remove("namespace");
            Ok(())
        }
    }
}

fn invalid(name: &str, errors: field::ErrorList) -> Result<(), PlanError> {
    if errors.is_empty() { Ok(()) } else { Err(PlanError::Invalid { name: name.to_owned(), errors }) }
}

/// Removes the metadata that only the server sets (`rest.WipeObjectMetaSystemFields`).
pub fn wipe(metadata: &mut Map) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// The inputs of a create besides the object.
pub struct CreateInput<'a> {
    /// The version of the request.
    pub version: &'a VersionSpec,
    /// The namespace of the request; none at cluster scope.
    pub namespace: Option<&'a str>,
    /// The uid that it gets.
    pub uid: &'a str,
    /// The suffix for `generateName`.
    pub name_suffix: &'a str,
    /// It is made by an apply or a PUT, which would have updated an object of the name.
    pub instead_of_update: bool,
}

/// The name that the object will have: its own, or one made from generateName.
pub fn name_for_create(object: &Value, name_suffix: &str) -> (String, bool) {
    let metadata = object.get("metadata");
    let (name, base) = (text(metadata, "name"), text(metadata, "generateName"));
    if !name.is_empty() || base.is_empty() {
        return (name.to_owned(), false);
    }
    let end = base
        .char_indices()
        .map(|(i, c)| i + c.len_utf8())
        .take_while(|end| *end <= GENERATED_BASE_MAX)
        .last();
    (format!("{}{name_suffix}", base.get(..end.unwrap_or(0)).unwrap_or_default()), true)
}

/// The name by which a new object is refused before it has one (`extractResourceName` of apiserver `pkg/admission/errors.go`).
pub fn unnamed(object: &Value) -> &str {
    let metadata = object.get("metadata");
    let names = [text(metadata, "name"), text(metadata, "generateName")];
    names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}

/// Plans a create (`rest.BeforeCreate`).
pub fn create(
    cx: &RuleContext<'_>,
    input: &CreateInput<'_>,
    mut object: Value,
) -> Result<Planned, PlanError> {
    tracing::trace!("plan a create");
    let admitted = cx.spec.strategy.admit(cx, &mut object, None);
    admitted.map_err(|message| PlanError::Forbidden { name: unnamed(&object).to_owned(), message })?;
    cx.passed_by(Stage::Mutate, || PLUGINS.to_owned(), Some(&object));
    confine(cx, &mut object, None)?;
    take_forms(cx, &mut object);
    let Prepared { name, mut object, with_revision } = prepare_create(cx, input, object)?;
    cx.passed(Stage::Prepare, Some(&object));
    let (mut errors, read) = cx.spec.strategy.validate_read(cx, &object);
    say_once(cx, &mut errors);
    invalid(&name, errors)?;
    if with_revision {
        // storage.ErrResourceVersionSetOnCreate, which upstream answers with 500 (T-53).
        return Err(PlanError::Internal("resourceVersion should not be set on objects to be created".into()));
    }
    cx.passed(Stage::Validate, None);
    cx.spec.strategy.canonicalize_read(cx, &mut object, read);
    cx.passed(Stage::Canonicalize, Some(&object));
    let judged = cx.spec.strategy.judge(cx, &object, None);
    judged.map_err(|message| PlanError::Forbidden { name: name.clone(), message })?;
    cx.passed_by(Stage::Judge, || PLUGINS.to_owned(), None);
    let warnings = cx.spec.strategy.warnings(cx, &object, None);
    let key = TypeSpec::object_key(input.namespace, &name);
    let holdings = HoldingsChange::between(Holdings::new(), cx.spec.strategy.holdings(cx, &object));
    let sealed = encode(cx, input.version, object, Former::Nothing)?;
    cx.passed(Stage::Encode, None);
    Ok(Planned { key, sealed, warnings, needs_empty: None, holdings })
}

/// Brings what a webhook may have changed into its canonical form.
fn take_forms(cx: &RuleContext<'_>, object: &mut Value) {
    if let Some(forms) = cx.spec.canonical_forms() {
        forms.take(object);
    }
}

/// A new object with the server's own fields.
struct Prepared {
    name: String,
    object: Value,
    /// The client sent a resourceVersion, which a new object cannot have.
    with_revision: bool,
}

/// Sets the fields of a new object that only the server sets.
fn prepare_create(
    cx: &RuleContext<'_>,
    input: &CreateInput<'_>,
    mut object: Value,
) -> Result<Prepared, PlanError> {
    let (name, generated) = name_for_create(&object, input.name_suffix);
    let metadata = metadata_mut(&mut object);
    set_namespace(metadata, input.namespace)?;
    wipe(metadata);
    if generated {
        metadata.insert("name", name.as_str());
    }
    metadata.insert("creationTimestamp", cx.now);
    metadata.insert("uid", input.uid);
    // The proposal's migration creates exported objects (T-53), and the object of an apply may exist.
    let with_revision = !cx.spec.third_party()
        && !input.instead_of_update
        && metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|v| !v.is_empty() && v != "0");
    drop_empty(metadata);
    cx.spec.strategy.allocate(cx, &mut object, None)?;
    cx.spec.strategy.prepare_for_create(cx, &mut object);
    Ok(Prepared { name, object, with_revision })
}

/// The inputs of an update besides the objects.
pub struct UpdateInput<'a> {
    /// The version of the request.
    pub version: &'a VersionSpec,
    /// The namespace of the request; none at cluster scope.
    pub namespace: Option<&'a str>,
    /// The name in the request.
    pub name: &'a str,
    /// The revision of the stored object.
    pub revision: Revision,
    /// The stored object.
    pub stored: &'a StoredObject,
    /// It is a patch of `old`, which has its uid and resourceVersion unless the patch changes them; a PUT's uid is a
    /// precondition.
    pub is_patch: bool,
}

/// Plans an update of `old` to `object` (`Store.Update`, `rest.BeforeUpdate`).
pub fn update(
    cx: &RuleContext<'_>,
    input: &UpdateInput<'_>,
    mut object: Value,
    old: &Value,
) -> Result<UpdatePlan, PlanError> {
    tracing::trace!("plan an update");
    let (name, strategy) = (input.name, &cx.spec.strategy);
    let admitted = strategy.admit(cx, &mut object, Some(old));
    admitted.map_err(|message| PlanError::Forbidden { name: name.to_owned(), message })?;
    cx.passed_by(Stage::Mutate, || PLUGINS.to_owned(), Some(&object));
    confine(cx, &mut object, Some(old))?;
    take_forms(cx, &mut object);
    let mut object = prepare_update(cx, input, object, old)?;
    cx.passed(Stage::Prepare, Some(&object));
    if cx.spec.terminating() && cx.spec.third_party() && !only_removes_finalizers(&object, old) {
        let message = "update not allowed while custom resource definition is terminating".to_owned();
        return Err(PlanError::Forbidden { name: name.to_owned(), message });
    }
    let (errors, warnings) = validate_update(cx, &object, old);
    let (errors, mut warnings) = tell(cx, errors, warnings);
    // A webhook may have tried to change it.
    invalid(text(object.get("metadata"), "name"), errors)?;
    cx.passed(Stage::Validate, None);
    strategy.canonicalize_update(cx, &mut object, old);
    cx.passed(Stage::Canonicalize, Some(&object));
    let judged = strategy.judge(cx, &object, Some(old));
    judged.map_err(|message| PlanError::Forbidden { name: name.to_owned(), message })?;
    cx.passed_by(Stage::Judge, || PLUGINS.to_owned(), None);
    keep_times(&mut object, old);
    let gone = ready_to_go(cx, &object);
    let needs_empty = strategy.needs_empty(cx, Some(&object), old);
    warnings.extend(strategy.warnings(cx, &object, Some(old)));
    let key = TypeSpec::object_key(input.namespace, name);
    let left = if gone { Holdings::new() } else { strategy.holdings(cx, &object) };
    let holdings = HoldingsChange::between(strategy.holdings(cx, old), left);
    let sealed = encode(cx, input.version, object, Former::Object(old))?;
    cx.passed(Stage::Encode, None);
    let planned = Planned { key, sealed, warnings, needs_empty, holdings };
    if gone {
        Ok(UpdatePlan::Delete(planned))
    } else if input.stored.is_stored_as(&planned.sealed.json()) {
        Ok(UpdatePlan::Unchanged(planned))
    } else {
        Ok(UpdatePlan::Put(planned))
    }
}

/// Checks that the object is the one that the client means, and keeps the fields that a client may not change.
fn prepare_update(
    cx: &RuleContext<'_>,
    input: &UpdateInput<'_>,
    mut object: Value,
    old: &Value,
) -> Result<Value, PlanError> {
    let old_metadata = old.get("metadata");
    let metadata = metadata_mut(&mut object);
    set_namespace(metadata, input.namespace)?;
    let (uid, old_uid) = (text_of(metadata, "uid"), text(old_metadata, "uid"));
    if !uid.is_empty() && !input.is_patch {
        check_uid(cx, input.namespace, input.name, uid, old_uid)?;
    }
    check_revision(cx, input, metadata)?;
    metadata
        .insert("generation", old_metadata.and_then(|m| m.get("generation")).cloned().unwrap_or(Value::Null));
    metadata.remove("selfLink");
    drop_empty(metadata);
    cx.spec.strategy.allocate(cx, &mut object, Some(old))?;
    cx.spec.strategy.prepare_for_update(cx, &mut object, old);
    let metadata = metadata_mut(&mut object);
    if text_of(metadata, "uid").is_empty() && !old_uid.is_empty() {
        metadata.insert("uid", old_uid);
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old_metadata.and_then(|m| m.get(field)) {
            metadata.insert(field, value.clone());
        }
    }
    if let Some(grace) = old_metadata.and_then(|m| m.get("deletionGracePeriodSeconds"))
        && !metadata.contains_key("deletionGracePeriodSeconds")
    {
        metadata.insert("deletionGracePeriodSeconds", grace.clone());
    }
    Ok(object)
}

/// Every error in the changed object and in the change; errors that are let through are warnings.
fn validate_update(cx: &RuleContext<'_>, object: &Value, old: &Value) -> (field::ErrorList, Vec<String>) {
    let (path, null) = (Path::new("metadata"), Value::Null);
    let (metadata, old_metadata) = (object.get("metadata").unwrap_or(&null), old.get("metadata"));
    // Both look at labels, annotations and more, as upstream's do: an error there is reported twice.
    let mut errors = validate_object_meta(metadata, cx.spec.namespaced(), &is_path_segment, &path);
    errors.extend(validate_object_meta_update(metadata, old_metadata.unwrap_or(&null), &path));
    let mut warnings = Vec::new();
    errors.extend(cx.spec.strategy.validate_update(cx, object, old, &mut warnings));
    say_once(cx, &mut errors);
    (errors, warnings)
}

/// Drops repeated errors of a kind that upstream validates declaratively too: `FilterCoveredHandwrittenErrors` of apimachinery
/// drops them in passing, as its filter aggregates the errors.
fn say_once(cx: &RuleContext<'_>, errors: &mut field::ErrorList) {
    if cx.declared().is_some() {
        errors.forget_repeated();
    }
}

/// The object must be the one that the client means.
pub fn check_uid(
    cx: &RuleContext<'_>,
    namespace: Option<&str>,
    name: &str,
    expected: &str,
    uid: &str,
) -> Result<(), PlanError> {
    if expected == uid {
        return Ok(());
    }
    let key = TypeSpec::object_key(namespace, name);
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {}{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {expected}, UID in object meta: {uid}",
        cx.spec.prefix
    );
    Err(PlanError::Conflict { name: name.to_owned(), message })
}

fn text_of<'a>(metadata: &'a Map, field: &str) -> &'a str {
    metadata.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The object must be at the revision that the client means. Where it may mean "whatever is there", it gets the current
/// one, as validation wants to see one.
fn check_revision(
    cx: &RuleContext<'_>,
    input: &UpdateInput<'_>,
    metadata: &mut Map,
) -> Result<(), PlanError> {
    let sent = text_of(metadata, "resourceVersion");
    let name = input.name.to_owned();
    match sent.parse::<u64>() {
        Ok(sent) if sent == input.revision.0 => Ok(()),
        _ if sent.is_empty() || sent == "0" => {
            if cx.spec.strategy.allows_unconditional_update() {
                metadata.insert("resourceVersion", input.revision.to_string());
                return Ok(());
            }
            Err(PlanError::NoRevision { name })
        }
        Ok(_) => Err(PlanError::Conflict { name, message: CHANGED.to_owned() }),
        Err(error) => {
            let reason = match error.kind() {
                IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let sent = field::go_quote(sent);
            Err(PlanError::Internal(format!("strconv.ParseUint: parsing {sent}: {reason}")))
        }
    }
}

/// Empty maps and lists of metadata are not stored (Go's `omitempty`).
fn drop_empty(metadata: &mut Map) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::String(s) => !s.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Int(0) => false,
        _ => true,
    });
}

/// `true` if finalizers go and nothing else changes but who manages what (T-47).
fn only_removes_finalizers(object: &Value, old: &Value) -> bool {
    let (left, before) = (finalizers(object), finalizers(old));
    let mut rest = before.iter();
    let mut same = old.clone();
    let metadata = metadata_mut(&mut same);
    let kept = |field| object.at(&["metadata", field]).cloned();
    for field in ["finalizers", "managedFields"] {
        match kept(field) {
            Some(value) => drop(metadata.insert(field, value)),
            None => drop(metadata.remove(field)),
        }
    }
    left.len() < before.len() && left.iter().all(|f| rest.any(|b| b == f)) && same == *object
}

fn finalizers(object: &Value) -> &[Value] {
    object.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default()
}

/// `true` if an object is being deleted and nothing holds it any more.
fn ready_to_go(cx: &RuleContext<'_>, object: &Value) -> bool {
    let grace = object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    object.at(&["metadata", "deletionTimestamp"]).is_some()
        && grace.is_none_or(|seconds| seconds == 0)
        && finalizers(object).is_empty()
        && !cx.spec.strategy.holds_deletion(object)
}

/// The inputs of a delete besides the object.
pub struct DeleteInput<'a> {
    /// The version of the request.
    pub version: &'a VersionSpec,
    /// The namespace of the request; none at cluster scope.
    pub namespace: Option<&'a str>,
    /// The name in the request.
    pub name: &'a str,
    /// The revision of the stored object.
    pub revision: Revision,
    /// The client's conditions on the object, and what becomes of what it owns.
    pub removal: &'a Removal,
}

/// Plans a delete (`rest.BeforeDelete`, `Store.Delete`).
pub fn delete(
    cx: &RuleContext<'_>,
    input: &DeleteInput<'_>,
    mut object: Value,
) -> Result<DeletePlan, PlanError> {
    tracing::trace!("plan a delete");
    let conflict = |message| Err(PlanError::Precondition { name: input.name.to_owned(), message });
    let uid = text(object.get("metadata"), "uid").to_owned();
    let own = cx.spec.strategy.judges_preconditions();
    if let Some(wanted) = input.removal.uid.as_ref().filter(|wanted| **wanted != uid) {
        if own {
            let message =
                format!("precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
            return Err(PlanError::Conflict { name: input.name.to_owned(), message });
        }
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        ));
    }
    let revision = input.revision.to_string();
    if let Some(wanted) = input.removal.resource_version.as_ref().filter(|wanted| **wanted != revision) {
        if own {
            let message = format!(
                "precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"
            );
            return Err(PlanError::Conflict { name: input.name.to_owned(), message });
        }
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        ));
    }
    if let Some(message) = cx.spec.strategy.refuse_delete(input.name) {
        return Err(PlanError::Forbidden { name: input.name.to_owned(), message });
    }
    let key = TypeSpec::object_key(input.namespace, input.name);
    let needs_empty = match object.at(&["metadata", "deletionTimestamp"]) {
        None => cx.spec.strategy.needs_empty(cx, None, &object),
        Some(_) => None,
    };
    let mark = |cx: &RuleContext<'_>, object: Value| -> Result<DeletePlan, PlanError> {
        let sealed = encode(cx, input.version, object, Former::Itself)?;
        let holdings = HoldingsChange::default();
        Ok(DeletePlan::Mark(Planned { key, sealed, warnings: Vec::new(), needs_empty, holdings }))
    };
    let is_marked = object.at(&["metadata", "deletionTimestamp"]).is_some();
    let propagation = cx.spec.strategy.propagation(&object, input.removal.propagation);
    let changed = propagate(&mut object, propagation);
    if !is_marked && let Deletion::Changed = cx.spec.strategy.begin_delete(cx, &mut object) {
        return mark(cx, object);
    }
    match graceful(cx, &mut object, input.removal.grace) {
        Graceful::No => {}
        Graceful::Pending => return Ok(DeletePlan::Unchanged),
        Graceful::Marked { is_over } => {
            let is_held = !finalizers(&object).is_empty() || cx.spec.strategy.holds_deletion(&object);
            let held = cx.spec.strategy.holdings(cx, &object);
            return match (mark(cx, object)?, is_over && !is_held) {
                (DeletePlan::Mark(planned), true) => {
                    let holdings = HoldingsChange::between(held, Holdings::new());
                    Ok(DeletePlan::Finish(Planned { holdings, ..planned }))
                }
                (plan, _) => Ok(plan),
            };
        }
    }
    if finalizers(&object).is_empty() && !cx.spec.strategy.holds_deletion(&object) {
        return Ok(DeletePlan::Delete(cx.spec.strategy.holdings(cx, &object).into_keys().collect()));
    }
    if is_marked && !changed {
        return Ok(DeletePlan::Unchanged);
    }
    if !is_marked {
        mark_deleted(&mut object, cx.now);
    }
    mark(cx, object)
}

/// The part of a kind's graceful end that a delete brings about.
enum Graceful {
    /// None: the kind has no such end, or nothing is left of it.
    No,
    /// None: the object ends within a grace period that is no longer than the one asked for.
    Pending,
    /// The object is marked; `is_over` without a grace period.
    Marked { is_over: bool },
}

/// Marks an object whose kind ends gracefully, or shortens the grace period of a marked one (`rest.BeforeDelete`).
fn graceful(cx: &RuleContext<'_>, object: &mut Value, asked: Option<i64>) -> Graceful {
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(period) = cx.spec.strategy.grace_period(object, asked) else { return Graceful::No };
    let now = time::parse(cx.now).unwrap_or_default();
    let metadata = metadata_mut(object);
    let Some(marked) = metadata.get("deletionTimestamp").and_then(Value::as_str) else {
        metadata.insert("deletionTimestamp", time::format(now.saturating_add(period)));
        metadata.insert("deletionGracePeriodSeconds", period);
        raise_generation(metadata);
        return Graceful::Marked { is_over: period == 0 };
    };
    let left = match metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64) {
        None | Some(0) => return Graceful::No,
        Some(seconds) => seconds.max(1),
    };
    let Some(mut period) = asked.filter(|asked| *asked < left) else { return Graceful::Pending };
    let began = time::parse(marked).unwrap_or(now).saturating_sub(left);
    let mut end = began.saturating_add(period);
    if end < now {
        end = now;
        // Somebody else still removes what was to end gracefully.
        period = period.min(1);
    }
    metadata.insert("deletionTimestamp", time::format(end));
    metadata.insert("deletionGracePeriodSeconds", period);
    Graceful::Marked { is_over: period == 0 }
}

fn raise_generation(metadata: &mut Map) {
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        metadata.insert("generation", generation.saturating_add(1));
    }
}

/// Marks an object as being deleted; its generation rises (`markAsDeleting`).
pub fn mark_deleted(object: &mut Value, now: &str) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp", now);
    metadata.insert("deletionGracePeriodSeconds", 0);
    raise_generation(metadata);
}

/// The plan of draining a stored object.
#[derive(Debug, PartialEq)]
pub enum DrainPlan {
    /// It goes at once.
    Delete,
    /// Finalizers hold it: it is marked, and still as it was stored otherwise.
    Mark(Value),
    /// It is marked already, and held by these.
    Held(Vec<String>),
}

/// Plans the end of an object as it is stored. Bytes that are no object are deleted (T-48).
pub fn drain(object: &StoredObject, now: &str) -> DrainPlan {
    let Ok(mut tree) = json::parse_own(object.json()) else { return DrainPlan::Delete };
    let held: Vec<String> = finalizers(&tree).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if held.is_empty() {
        DrainPlan::Delete
    } else if tree.at(&["metadata", "deletionTimestamp"]).is_some_and(|at| *at != Value::Null) {
        // The finalizers in the tree: the other metadata may be so wrong that `object` could not read them.
        DrainPlan::Held(held)
    } else {
        mark_deleted(&mut tree, now);
        DrainPlan::Mark(tree)
    }
}

/// The finalizers that hold an object where it is marked as being deleted; none where a drain still has to mark or delete
/// it.
#[must_use]
pub fn held_by(object: &StoredObject) -> Option<Vec<String>> {
    match drain(object, "") {
        DrainPlan::Held(finalizers) => Some(finalizers),
        DrainPlan::Delete | DrainPlan::Mark(_) => None,
    }
}
