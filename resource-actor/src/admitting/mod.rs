//! Has a write admitted: policies and webhooks may change the object before its plan, and judge it before its commit.
//!
//! Sources: apiserver `pkg/admission/chain.go`, `pkg/admission/reinvocation.go` (1.37).

mod authors;
mod bodies;
mod changes;
mod escalation;
mod forms;
mod hooks;
mod owners;
mod params;
mod policies;
mod signers;
mod states;
mod trail;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kindom_actor_kit::{Held, dear};
use kindom_api::{GroupVersionResource, Value, field, object};
use kindom_managed_fields::validate;
use kindom_objects::admission::{AdmissionRefusal, Attributes, Hook, Labels, Matching, Operation, Place};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::owner_references::{self, Origin};
use kindom_objects::plan::{check_uid, set_namespace, unnamed};
use kindom_objects::stages::{PLUGINS, Stage};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, StoredObject, Subresource, TypeSpec};
use parking_lot::Mutex;

use crate::ResourceHandle;
use crate::access::AskedChecks;
use crate::admission::{AskedAdmission, BoundPolicies, Compiled, FindKind, SentOptions};
use crate::driver::{Attempt, Desired, Scales, Step};
use crate::error::WriteError;
use crate::panics::caught;
use crate::request::{Knowledge, Target, WriteOptions};
use crate::scale::scale_to;
use hooks::Hooks;
pub(crate) use signers::signer_asked;
use states::States;

/// The warnings of a request that are kept, and the bytes of each: more than headers can carry.
const WARNINGS_MAX: usize = 64;
const WARNING_BYTES_MAX: usize = 4096;
/// The bytes of an object that an error shows.
const SHOWN_BYTES_MAX: usize = 4096;

fn refused(refusal: AdmissionRefusal) -> WriteError {
    PlanError::Refused(Box::new(refusal)).into()
}

fn internal(why: String) -> WriteError {
    refused(AdmissionRefusal::Internal(why))
}

/// One attempt at a write, as far as webhooks and policies are asked about it.
pub(crate) struct Admitting<'a> {
    handle: &'a ResourceHandle,
    attempt: &'a Attempt<'a>,
    target: &'a Target<'a>,
    options: &'a WriteOptions,
    asked: &'a AskedAdmission,
    /// Those of the client's object and of the one that it replaces.
    bytes: usize,
    mutating: Option<Arc<Compiled<Vec<Hook>>>>,
    validating: Option<Arc<Compiled<Vec<Hook>>>>,
    judging: Option<BoundPolicies>,
    changing: Option<BoundPolicies>,
    find_kind: &'a FindKind,
    checks: Arc<AskedChecks>,
    /// The type in its other versions, and the places by which rules name those.
    others: (Vec<(Arc<TypeSpec>, String)>, Vec<Place>),
    /// About as many bytes as the object has that policies and webhooks made; 0 if they changed nothing.
    made: AtomicUsize,
    has_waited: AtomicBool,
    /// The memory of the objects that wait with it; `None` for a write of the server itself.
    held: Option<Mutex<Held>>,
}

/// The objects of a write.
enum Subject<'a> {
    /// Objects of the type, in the form that plans are made on; the old one is `None` for a create.
    Object(&'a mut Value, Option<&'a Value>),
    /// The Scales of two states of an object.
    Scale(&'a mut Value, &'a Value),
    /// The end of an object, which the version of the request shows.
    End(&'a Value),
    /// There is none.
    Nothing,
}

/// An object to be created as policies and webhooks have changed it, and the type that it is of. If a later attempt creates it under
/// another name, they are not asked again, as upstream's are not.
pub(crate) struct ChangedBefore {
    spec: Arc<TypeSpec>,
    object: Value,
    made: usize,
}

impl Subject<'_> {
    fn object(&self) -> Option<&Value> {
        match self {
            Self::Object(object, _) | Self::Scale(object, _) => Some(object),
            Self::End(_) | Self::Nothing => None,
        }
    }

    fn old(&self) -> Option<&Value> {
        match self {
            Self::Object(_, old) => *old,
            Self::Scale(_, old) | Self::End(old) => Some(old),
            Self::Nothing => None,
        }
    }
}

/// The kinds of admission itself, of which no webhook is asked about any (`IsExemptAdmissionConfigurationResource`).
fn is_of_admission(spec: &TypeSpec) -> bool {
    spec.is_typed() && spec.group == "admissionregistration.k8s.io"
}

/// Those of them that no policy judges (`admissionResources` of `policy/generic/plugin.go`).
fn is_of_policies(spec: &TypeSpec) -> bool {
    is_of_admission(spec) && spec.names.plural.contains("admissionpolic")
}

impl ResourceHandle {
    /// The admission of an attempt; `None` if nothing is configured that may be asked about the type.
    pub(crate) async fn admitting<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        target: &'a Target<'a>,
        options: &'a WriteOptions,
        bytes: usize,
    ) -> Result<Option<Admitting<'a>>, WriteError> {
        let spec = &attempt.rules.spec;
        // Nobody is asked about questions that a server asks itself (`pkg/kubeapiserver/admission/exclusion`).
        let is_exempt = is_of_policies(spec) || spec.is_typed() && spec.strategy.answers_creates();
        if is_exempt {
            return Ok(None);
        }
        let in_force = in_force(spec, options).await?;
        Ok(in_force.map(|in_force| self.admitting_by(in_force, attempt, target, options, bytes)))
    }

    /// The admission of an attempt by what is in force.
    fn admitting_by<'a>(
        &'a self,
        in_force: InForce<'a>,
        attempt: &'a Attempt<'a>,
        target: &'a Target<'a>,
        options: &'a WriteOptions,
        bytes: usize,
    ) -> Admitting<'a> {
        let InForce { asked, mutating, validating, judging, changing } = in_force;
        let configurations = asked.admission.configurations();
        Admitting {
            handle: self,
            attempt,
            target,
            options,
            asked,
            bytes,
            mutating,
            validating,
            judging,
            changing,
            find_kind: &*configurations.find_kind,
            checks: Arc::default(),
            others: others(&attempt.rules.spec, target, &configurations.faces),
            made: AtomicUsize::new(0),
            has_waited: AtomicBool::new(false),
            held: options.room.as_ref().map(|room| Mutex::new(room.begin())),
        }
    }
}

/// The webhooks and policies that may be asked about a type.
struct InForce<'a> {
    asked: &'a AskedAdmission,
    mutating: Option<Arc<Compiled<Vec<Hook>>>>,
    validating: Option<Arc<Compiled<Vec<Hook>>>>,
    judging: Option<BoundPolicies>,
    changing: Option<BoundPolicies>,
}

/// The webhooks and policies that may be asked about a type; `None` if there are none.
async fn in_force<'a>(spec: &TypeSpec, options: &'a WriteOptions) -> Result<Option<InForce<'a>>, WriteError> {
    let Some(asked) = options.admission.as_ref() else { return Ok(None) };
    let configurations = asked.admission.configurations();
    let (mutating, validating) = match is_of_admission(spec) {
        true => (None, None),
        false => (
            configurations.mutating.current(options.deadline).await?,
            configurations.validating.current(options.deadline).await?,
        ),
    };
    let judging = configurations.judging.bound(options.deadline).await?;
    let changing = configurations.changing.bound(options.deadline).await?;
    if mutating.is_none() && validating.is_none() && judging.is_none() && changing.is_none() {
        return Ok(None);
    }
    let of_policies = [&judging, &changing].into_iter().flatten().map(BoundPolicies::cost);
    let of_webhooks = [&mutating, &validating].into_iter().flatten().map(|compiled| compiled.cost());
    dear(of_policies.chain(of_webhooks).sum()).await?;
    Ok(Some(InForce { asked, mutating, validating, judging, changing }))
}

/// A type in all its served versions but one, and under its other names.
fn others(
    spec: &Arc<TypeSpec>,
    target: &Target<'_>,
    faces: &[Arc<TypeSpec>],
) -> (Vec<(Arc<TypeSpec>, String)>, Vec<Place>) {
    let is_face = |face: &&Arc<TypeSpec>| face.prefix == spec.prefix && face.group != spec.group;
    let types = [spec].into_iter().chain(faces.iter().filter(is_face));
    let versions = types.flat_map(|of| {
        let served = of.versions.iter().filter(|version| version.served);
        served.map(|version| (Arc::clone(of), version.name.clone()))
    });
    let others: Vec<_> = versions
        .filter(|(of, version)| of.group != spec.group || version.as_str() != target.version)
        .collect();
    let places = others.iter().map(|(of, version)| place(of, version, target.subresource)).collect();
    (others, places)
}

/// Whatever it was sent as, a patch has the options of its effect (`patchToUpdateOptions`, `patchToCreateOptions`).
fn options(operation: Operation, sent: &SentOptions) -> Value {
    let kind = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = object! { "kind": kind, "apiVersion": "meta.k8s.io/v1" };
    if let Some(options) = options.as_object_mut() {
        for (field, value) in sent {
            options.insert(*field, value.clone());
        }
    }
    options
}

/// Returns true if one of the webhooks selects by the labels of namespaces.
fn by_namespaces(hooks: &[(&Hook, &Place)]) -> bool {
    hooks.iter().any(|(hook, _)| hook.matching.selects_namespaces())
}

fn own_labels(object: Option<&Value>) -> Labels<'_> {
    object.map_or(Labels::None, Labels::Own)
}

fn place(spec: &TypeSpec, version: &str, subresource: Option<Subresource>) -> Place {
    let own = || spec.gvk(version);
    Place {
        resource: GroupVersionResource::new(spec.group.clone(), version, spec.names.plural.clone()),
        kind: subresource.and_then(Subresource::kind).unwrap_or_else(own),
    }
}

impl<'a> Admitting<'a> {
    fn spec(&self) -> &'a Arc<TypeSpec> {
        &self.attempt.rules.spec
    }

    fn attributes<'n>(&'n self, operation: Operation, name: &'n str) -> Attributes<'n> {
        Attributes {
            operation,
            place: place(self.spec(), self.target.version, self.target.subresource),
            subresource: self.target.subresource.as_ref().map_or("", Subresource::name),
            namespace: if self.is_of_namespaces() { name } else { self.target.namespace.unwrap_or_default() },
            name,
            user: &self.options.user,
            dry_run: self.options.dry_run,
            options: options(operation, &self.asked.options),
        }
    }

    /// The place by which rules name a write.
    fn place_of<'h>(&'h self, matching: &Matching, attributes: &'h Attributes<'h>) -> Option<&'h Place> {
        matching.place(attributes, || self.others.1.as_slice())
    }

    /// The webhooks whose rules name a write, each with the place by which it does.
    fn named<'h>(
        &'h self,
        hooks: &'h Option<Arc<Compiled<Vec<Hook>>>>,
        attributes: &'h Attributes<'h>,
    ) -> Vec<(&'h Hook, &'h Place)> {
        let hooks = hooks.iter().flat_map(|compiled| compiled.hooks());
        let place = |hook: &'h Hook| Some((hook, self.place_of(&hook.matching, attributes)?));
        hooks.filter_map(place).collect()
    }

    /// The name in the request; empty for a DELETE of a collection.
    fn named_by_request(&self) -> &str {
        if self.asked.is_of_collection { "" } else { self.target.name }
    }

    /// Has policies and webhooks change what a write desires. A delete is asked about once it is planned.
    ///
    /// # Errors
    /// [`WriteError::Guessed`] for a write that is planned on a guess: they are asked once. A webhook refuses it, or its
    /// answer is missing or wrong.
    pub(crate) async fn admit<'d>(
        &self,
        mut desired: Desired<'d>,
        admitted: &mut Option<ChangedBefore>,
        conversions: &mut Conversions,
    ) -> Result<Desired<'d>, WriteError> {
        let (operation, name) = match &desired {
            Desired::Create(new) => (Operation::Create, new.object.text_at(&["metadata", "name"]).to_owned()),
            Desired::Update { .. } => (Operation::Update, self.target.name.to_owned()),
            Desired::Delete(_) => (Operation::Delete, self.named_by_request().to_owned()),
            Desired::DeleteCorrupt => return Ok(desired),
        };
        let attributes = self.attributes(operation, &name);
        let is_named =
            |bound: &Option<BoundPolicies>| !self.named_policies(bound.as_ref(), &attributes).is_empty();
        let changes = !self.named(&self.mutating, &attributes).is_empty()
            || operation != Operation::Delete && is_named(&self.changing);
        let is_judged = || !self.named(&self.validating, &attributes).is_empty() || is_named(&self.judging);
        if !changes && !is_judged() {
            return Ok(desired);
        }
        if self.options.knowledge == Knowledge::Guess {
            return Err(WriteError::Guessed);
        }
        if !changes {
            return Ok(desired);
        }
        let (spec, cx) = (self.spec(), self.attempt.cx);
        let own = |object: &mut Value, old: Option<&Value>| {
            caught(spec, || {
                let admitted = spec.strategy.admit(cx, object, old);
                let name = if old.is_some() { &name } else { unnamed(object) };
                admitted.map_err(|message| PlanError::Forbidden { name: name.to_owned(), message })?;
                cx.passed_by(Stage::Mutate, || PLUGINS.to_owned(), Some(object));
                Ok::<_, PlanError>(())
            })
        };
        match &mut desired {
            Desired::Create(new) => {
                // The namespace is looked at before anybody is asked, and the plan does it again.
                self.handle.open_for_create(self.attempt.rules, self.target, new, self.options).await?;
                if let Some(before) = admitted.as_ref().filter(|before| Arc::ptr_eq(&before.spec, spec)) {
                    self.hold([&before.object, &before.object])?;
                    new.object = before.object.clone();
                    cx.passed_by(Stage::Mutate, || "as in the attempt before".to_owned(), Some(&new.object));
                    self.made.store(before.made, Ordering::Relaxed);
                    self.has_waited.store(true, Ordering::Relaxed);
                    if self.attempt.strip {
                        metadata_mut(&mut new.object).remove("managedFields");
                    }
                    return Ok(desired);
                }
                self.place(&mut new.object)?;
                cx.passed(Stage::Mutate, Some(&new.object));
                own(&mut new.object, None)?;
                self.hold([&new.object])?;
                self.change(&attributes, &mut Subject::Object(&mut new.object, None), conversions).await?;
                if !new.instead_of_update {
                    self.hold([&new.object])?;
                    *admitted = Some(ChangedBefore {
                        spec: Arc::clone(spec),
                        object: new.object.clone(),
                        made: self.made(),
                    });
                }
            }
            Desired::Update { object, scales: Some(scales), .. } => {
                let Scales { old, new } = &mut **scales;
                self.change(&attributes, &mut Subject::Scale(new, old), conversions).await?;
                scale_to(cx, object, new)?;
            }
            Desired::Update { object, live, is_patch, .. } => {
                self.place(object)?;
                // The uid that the client named is a precondition; one that a webhook names is none.
                let uid = object.text_at(&["metadata", "uid"]);
                if !uid.is_empty() && !*is_patch {
                    let stored = live.old.text_at(&["metadata", "uid"]);
                    check_uid(cx, self.target.namespace, self.target.name, uid, stored)?;
                }
                *is_patch = true;
                cx.passed(Stage::Mutate, Some(object));
                own(object, Some(&live.old))?;
                self.hold([&*object, &live.old])?;
                self.change(&attributes, &mut Subject::Object(object, Some(&live.old)), conversions).await?;
            }
            Desired::Delete(_) | Desired::DeleteCorrupt => {}
        }
        Ok(desired)
    }

    /// About as many bytes as the object has that policies and webhooks made; 0 if they changed nothing.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Counts objects that are kept while others are asked.
    ///
    /// # Errors
    /// [`WriteError::Overloaded`] if there is no room for them.
    fn hold<'o>(&self, objects: impl IntoIterator<Item = &'o Value>) -> Result<(), WriteError> {
        let Some(held) = &self.held else { return Ok(()) };
        Ok(held.lock().grow(objects.into_iter().map(field::bytes).sum())?)
    }

    /// Takes note of an object that policies or webhooks made in the place of the one before.
    fn note_made(&self, bytes: usize) -> Result<(), WriteError> {
        let before = self.made.swap(bytes, Ordering::Relaxed);
        let Some(held) = &self.held else { return Ok(()) };
        Ok(held.lock().grow(bytes.saturating_sub(before))?)
    }

    /// The cost of planning the object as policies and webhooks have left it.
    fn estimate(&self) -> Duration {
        self.handle.cost().estimate(self.bytes.saturating_add(self.made()))
    }

    /// Returns true if a webhook was waited for, now or before.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited.load(Ordering::Relaxed)
    }

    /// Gives an object the namespace of the request, which it must not contradict.
    fn place(&self, object: &mut Value) -> Result<(), WriteError> {
        Ok(set_namespace(metadata_mut(object), self.target.namespace)?)
    }

    /// Has policies and webhooks judge a planned write.
    ///
    /// # Errors
    /// One of them refuses it, or its answer is missing or wrong.
    pub(crate) async fn judge(
        &self,
        deletes: bool,
        step: &Step,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        let current = self.attempt.current;
        let (operation, new, old) = match (deletes, step) {
            (_, Step::TooLarge(_)) => return Ok(()),
            (true, _) => (Operation::Delete, None, current),
            (false, step) if step.is_create() => (Operation::Create, step.new_state(), None),
            (false, step) => (Operation::Update, step.new_state(), current),
        };
        let name = match &new {
            Some(object) => object.name(),
            None => self.named_by_request(),
        };
        let attributes = self.attributes(operation, name);
        if deletes
            && let Some(current) = current
            && !self.named(&self.mutating, &attributes).is_empty()
        {
            let old = self.stored_as(Some(current), &attributes.place, conversions).await?;
            self.change(&attributes, &mut Subject::End(&old.unwrap_or_default()), conversions).await?;
        }
        let is_scale = self.target.subresource == Some(Subresource::Scale);
        let states = States::new(operation, is_scale, new.as_ref(), old);
        self.judge_states(&attributes, states, conversions).await
    }

    /// The namespace of a write, if it is needed.
    async fn namespace(
        &self,
        is_needed: bool,
        attributes: &Attributes<'_>,
    ) -> Result<Option<Arc<StoredObject>>, WriteError> {
        let namespace = attributes.namespace;
        let Some(namespaces) =
            self.options.namespaces.as_ref().filter(|_| is_needed && !namespace.is_empty())
        else {
            return Ok(None);
        };
        if self.is_in_its_object(attributes.operation) {
            return Ok(None);
        }
        let (snapshot, _) = namespaces.snapshot(self.attempt.rules.freshness, self.options.deadline).await?;
        match snapshot.get(namespace) {
            Some(found) => Ok(Some(Arc::clone(found))),
            None => Err(PlanError::NamespaceNotFound { name: namespace.to_owned() }.into()),
        }
    }

    fn is_of_namespaces(&self) -> bool {
        let spec = self.spec();
        spec.is_typed() && spec.group.is_empty() && spec.names.plural == "namespaces"
    }

    /// Returns true if the namespace of a write is the object that it writes.
    fn is_in_its_object(&self, operation: Operation) -> bool {
        self.is_of_namespaces() && self.target.subresource.is_none() && operation != Operation::Delete
    }

    /// The labels of a write's namespace.
    fn labels<'l>(&self, namespace: Option<&'l StoredObject>, new: Labels<'l>) -> Labels<'l> {
        match namespace {
            Some(namespace) => Labels::Stored(namespace),
            None if self.is_in_its_object(Operation::Update) => new,
            None => Labels::None,
        }
    }

    /// Has policies and then webhooks change the object of a write, and again those that want that once another has changed it.
    async fn change(
        &self,
        attributes: &Attributes<'_>,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        let hooks = self.named(&self.mutating, attributes);
        let namespace = self.namespace(by_namespaces(&hooks), attributes).await?;
        let managed = subject.object().and_then(|object| object.at(&["metadata", "managedFields"])).cloned();
        let (mut of_policies, mut of_hooks) = (Reinvocation::default(), Reinvocation::default());
        let (mut has_changed, mut changed_after_policies) = (false, false);
        for is_again in [false, true] {
            if changed_after_policies {
                of_policies.due.extend(of_policies.asked.drain());
            }
            if !matches!(subject, Subject::End(_))
                && self
                    .change_by_policies(attributes, subject, conversions, is_again, &mut of_policies)
                    .await?
            {
                has_changed = true;
                if is_again {
                    of_hooks.due.extend(of_hooks.asked.drain());
                }
            }
            let namespace = namespace.as_deref();
            let hooks = Hooks { all: &hooks, namespace, is_again };
            changed_after_policies =
                self.change_by_hooks(&hooks, attributes, subject, conversions, &mut of_hooks).await?;
            has_changed |= changed_after_policies;
            if !has_changed {
                break;
            }
        }
        if let Subject::Object(object, _) = subject
            && has_changed
        {
            self.mend(object, managed);
        }
        Ok(())
    }

    /// Drops what nobody may have added: managers that cannot be read, and owners that are named twice.
    fn mend(&self, object: &mut Value, managed: Option<Value>) {
        if let Err(why) = validate(object.at(&["metadata", "managedFields"])) {
            let metadata = metadata_mut(object);
            match managed {
                Some(managed) => drop(metadata.insert("managedFields", managed)),
                None => drop(metadata.remove("managedFields")),
            }
            self.warn([format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
            )]);
        }
        self.warn(owner_references::dedup(object, Origin::Patched));
    }

    fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        let mut all = self.asked.warnings.lock();
        for mut warning in warnings {
            if all.len() >= WARNINGS_MAX {
                return;
            }
            warning.truncate(warning.floor_char_boundary(WARNING_BYTES_MAX));
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }

    /// Has policies, then webhooks, judge a write.
    async fn judge_states(
        &self,
        attributes: &Attributes<'_>,
        mut states: States<'_>,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        self.judge_by_policies(attributes, &mut states, conversions).await?;
        self.judge_by_hooks(attributes, &mut states, conversions).await
    }

    fn refuse_if_late(&self) -> Result<(), WriteError> {
        match self.options.deadline.passed() {
            true => Err(refused(AdmissionRefusal::Late)),
            false => Ok(()),
        }
    }
}

/// The webhooks or policies that are asked again (`mutating/reinvocationcontext.go`).
struct Reinvocation<K> {
    /// Those that were asked since the object last changed.
    asked: HashSet<K>,
    /// Those that are due.
    due: HashSet<K>,
}

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        Self { asked: HashSet::new(), due: HashSet::new() }
    }
}
