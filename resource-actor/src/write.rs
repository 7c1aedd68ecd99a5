//! Writes: plan in the caller, commit through the actor, plan again after a lost race.

use std::sync::Arc;

use kindom_actor_kit::Deadline;
use kindom_api::{Value, meta};
use kindom_storage::{Compare, KeyRange, KeyValue, Op, RangeRequest, Revision, Txn, TxnOutcome};
use tokio::time::timeout_at;

use crate::error::{ReadError, WriteError};
use crate::handle::Freshness;
use crate::managed::{FieldManager, Managing};
use crate::plan::{self, CreateInput, DeleteInput, DeletePlan, DrainPlan, Planned, UpdateInput, UpdatePlan};
use crate::render::{decode, metadata_mut, refresh, restored, stored};
use crate::spec::{CompiledVersion, Conversion, READ_ONLY_ANNOTATION, VersionSpec};
use crate::{NeedsEmpty, Preconditions, ResourceHandle, RuleContext, StoredObject, TypeSpec};

/// How often a name made from generateName is made again when it is taken (KEP-4420).
const GENERATED_NAME_TRIES: usize = 8;

/// What holds for every write of a request.
#[derive(Clone)]
pub struct WriteOptions {
    /// When the client gives up.
    pub deadline: Deadline,
    /// Do everything but store it.
    pub dry_run: bool,
    /// The largest object, encoded, in bytes.
    pub object_bytes_max: usize,
    /// Where namespaces are looked up; none for a store without them.
    pub namespaces: Option<ResourceHandle>,
    /// Who the fields that the write sets belong to from now on (KEP-555); at most 128 bytes.
    pub manager: String,
    /// What the first plan is made on.
    pub basis: Basis,
}

impl WriteOptions {
    /// How fresh the state has to be, from plan to plan.
    pub(crate) fn plans(&self) -> Plans {
        Plans { basis: self.basis, first: true }
    }
}

/// What a plan is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The state at this revision, which was read from the store after the request came, or later.
    AsOf(Revision),
    /// The state as the store has it now: it is asked.
    Latest,
    /// What is known here, types and namespaces included, however old: a guess. It saves a round trip, as the store
    /// commits what was planned on it only if it holds; whatever else comes of it says nothing
    /// ([`WriteError::Guessed`], but see [`settles`]).
    Guess,
}

/// Whether the outcome of a write that was planned on a guess is one: the store has committed it, or will not say.
#[must_use]
pub fn settles(outcome: &Result<Written, WriteError>) -> bool {
    match outcome {
        Ok(written) => written.committed,
        Err(error) => matches!(error, WriteError::Unknown | WriteError::Busy | WriteError::Unavailable(_)),
    }
}

/// The plans of one write.
pub(crate) struct Plans {
    basis: Basis,
    first: bool,
}

impl Plans {
    /// How fresh the state has to be that the next one is made on.
    ///
    /// # Errors
    /// [`WriteError::Guessed`]
    pub(crate) fn next(&mut self) -> Result<Freshness, WriteError> {
        match (std::mem::replace(&mut self.first, false), self.basis) {
            (true, Basis::AsOf(revision)) => Ok(Freshness::AtLeast(revision)),
            (true, Basis::Guess) => Ok(Freshness::Any),
            (false, Basis::Guess) => Err(WriteError::Guessed),
            (true, Basis::Latest) | (false, _) => Ok(Freshness::Latest),
        }
    }
}

/// What a write came to.
pub struct Written {
    /// The object as stored (a dry run: as it would be). Of a deleted one: its last state.
    pub object: Arc<StoredObject>,
    /// The type it was written under.
    pub spec: Arc<TypeSpec>,
    /// What the client should know.
    pub warnings: Vec<String>,
    /// The object is gone now.
    pub deleted: bool,
    /// It is new.
    pub created: bool,
    /// The store has committed it; else nothing had to be changed, or it was a dry run.
    pub committed: bool,
    /// It was a dry run of a create: the object has no resourceVersion.
    pub unstored: bool,
}

/// What a drain came to for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// It is gone.
    Gone,
    /// These finalizers hold it.
    Held(Vec<String>),
    /// It changed; what it is now has to be read.
    LookAgain,
}

/// What a rewrite in the storage version came to for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewritten {
    /// It is stored in the storage version now.
    Current,
    /// It, or the registration, changed; what it is now has to be read.
    LookAgain,
    /// What is stored is no object of this type, so it is left as it is; with the reason.
    Undecodable(String),
}

/// Where an object is, and in which version the client speaks of it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The version of the request.
    pub version: &'a str,
    /// The subresource; none for the object itself.
    pub subresource: Option<&'a str>,
    /// The namespace; none at cluster scope.
    pub namespace: Option<&'a str>,
    /// The name; empty for a create.
    pub name: &'a str,
}

/// The object that a client wants, made anew for every plan: from the rules in force, and for updates from what is
/// stored. It gets `null` where nothing is; what it makes of that, unless by a create, is only looked at for its errors.
pub type Wanted<'a> = dyn FnMut(&RuleContext<'_>, &Value) -> Result<Value, WriteError> + Send + 'a;

/// What one plan is made under.
pub(crate) struct Rules {
    pub(crate) spec: Arc<TypeSpec>,
    compiled: Arc<CompiledVersion>,
    version_at: usize,
    now: String,
    /// How fresh the state has to be that the plan is made on.
    freshness: Freshness,
}

impl Rules {
    pub(crate) fn version(&self) -> Result<&VersionSpec, WriteError> {
        self.spec.versions.get(self.version_at).ok_or(WriteError::Gone)
    }

    pub(crate) fn context<'a>(&'a self, target: &Target<'a>) -> RuleContext<'a> {
        RuleContext {
            spec: &self.spec,
            version: &self.compiled,
            version_name: target.version,
            subresource: target.subresource,
            now: &self.now,
        }
    }

    /// What a version's object, which replaces `live` (none for a create), is in the form that plans are made on; with its
    /// managedFields.
    fn read(
        &self,
        cx: &RuleContext<'_>,
        mut object: Value,
        live: Option<&Live>,
        managing: Managing<'_>,
    ) -> Result<Value, WriteError> {
        let manager = FieldManager::new(cx);
        let shown = live.map(Live::shown);
        let Conversion::Faces(faces) = &self.spec.conversion else {
            manager.manage(managing, shown, &mut object);
            return Ok(object);
        };
        let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned();
        let read = |object| {
            let old = live.map(|live| &live.old);
            let read = faces.read(cx.version_name, object, old, cx.subresource);
            read.map_err(|errors| WriteError::Invalid { name, errors })
        };
        if matches!(managing, Managing::Applied) || faces.is_stored(cx.version_name) {
            manager.manage(managing, shown, &mut object);
            return read(object);
        }
        // What the face can't say in two ways is managed in the one that it is shown in.
        let mut stored = read(object)?;
        let mut object = faces.show(cx.version_name, stored.clone());
        manager.manage(managing, shown, &mut object);
        let metadata = metadata_mut(&mut stored);
        match metadata_mut(&mut object).remove("managedFields") {
            Some(entries) => drop(metadata.insert("managedFields", entries)),
            None => drop(metadata.remove("managedFields")),
        }
        Ok(stored)
    }

    /// What is stored, in the form that plans are made on; `shown` is what the version shows of it.
    fn stored(&self, current: &StoredObject, shown: Value) -> Result<Live, WriteError> {
        Ok(match self.spec.conversion {
            Conversion::Faces(_) => Live { old: stored(&self.spec.prefix, current)?, shown: Some(shown) },
            Conversion::None | Conversion::Webhook => Live { old: shown, shown: None },
        })
    }

    /// Nothing of a frozen type is written (T-54). The guard sees to what was planned before.
    pub(crate) fn refuse_frozen(&self, name: &str) -> Result<(), WriteError> {
        if !self.spec.read_only() {
            return Ok(());
        }
        let key = self.spec.registration.as_ref().map(|r| r.object.name()).unwrap_or_default();
        let message = format!(
            "objects of this type are read-only (annotation {READ_ONLY_ANNOTATION} of its registration {key})"
        );
        Err(WriteError::Forbidden { name: name.to_owned(), message })
    }

    fn guard(&self, compares: &mut Vec<Compare>) {
        guard(&self.spec, compares);
    }
}

/// What is stored now.
struct Live {
    /// In the form that plans are made on.
    old: Value,
    /// As the request's version shows it, where that is another.
    shown: Option<Value>,
}

impl Live {
    fn shown(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.old)
    }
}

/// What one try of a write came to.
pub(crate) enum Tried {
    /// It is done.
    Done(Written),
    /// There is an object of that name already.
    Taken {
        /// The name, and whether it was made from generateName.
        name: String,
        generated: bool,
        /// The object's key.
        key: String,
    },
    /// Something else changed meanwhile.
    Lost,
    /// It is larger than the store takes.
    TooLarge(WriteError),
}

impl Tried {
    /// What could not be stored for its size is tried without managedFields, which may be large (apiserver `handlers`,
    /// `isTooLargeError`); if it was not already.
    fn or_strip(self, managing: &mut Managing<'_>) -> Result<Self, WriteError> {
        match (self, &*managing) {
            (Self::TooLarge(_), Managing::Update(_)) => {
                *managing = Managing::Strip;
                Ok(Self::Lost)
            }
            (Self::TooLarge(error), Managing::Strip | Managing::Applied) => Err(error),
            (tried, _) => Ok(tried),
        }
    }
}

/// What an object is to become.
pub(crate) struct Change<'a> {
    /// The object, in the request's version.
    pub(crate) object: Value,
    /// Made of what is stored.
    pub(crate) is_patch: bool,
    pub(crate) managing: Managing<'a>,
}

/// What is new of a new object.
pub(crate) struct New<'a> {
    pub(crate) uid: &'a str,
    /// The end of a generated name.
    pub(crate) name_suffix: &'a str,
}

/// The registration is still the one that this was planned under (design, invariant 6).
fn guard(spec: &TypeSpec, compares: &mut Vec<Compare>) {
    if let Some(registration) = &spec.registration {
        compares.push(Compare::mod_is(&registration.key, registration.object.revision()));
    }
}

impl ResourceHandle {
    pub(crate) fn rules(&self, version: &str, freshness: Freshness) -> Result<Rules, WriteError> {
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let at = spec.versions.iter().position(|v| v.name == version && v.served).ok_or(WriteError::Gone)?;
        let version = spec.versions.get(at).ok_or(WriteError::Gone)?;
        let compiled = spec.compiled(version).map_err(WriteError::Internal)?;
        let seconds = i64::try_from(self.deps().clock.wall_ms() / 1000).unwrap_or(i64::MAX);
        Ok(Rules { compiled, version_at: at, now: meta::time::format(seconds), spec, freshness })
    }

    /// Creates an object. `wanted` gets `null` for what is stored.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create(
        &self,
        target: Target<'_>,
        wanted: &mut Wanted<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let deps = Arc::clone(self.deps());
        let uid = deps.entropy.uuid_v4();
        let mut name_tries = 0;
        let mut managing = Managing::Update(&options.manager);
        let mut plans = options.plans();
        loop {
            let rules = self.rules(target.version, plans.next()?)?;
            let cx = rules.context(&target);
            let mut object = wanted(&cx, &Value::Null)?;
            plan::wipe(metadata_mut(&mut object));
            let suffix = deps.entropy.name_suffix();
            let new = New { uid: &uid, name_suffix: &suffix };
            match self
                .try_create(&rules, &target, object, &new, managing, options)
                .await?
                .or_strip(&mut managing)?
            {
                Tried::Done(written) => return Ok(written),
                Tried::Taken { name, generated, key } => {
                    if options.basis == Basis::Guess {
                        return Err(WriteError::Guessed);
                    }
                    name_tries += 1;
                    // A dry run has not tried to write: the name is taken.
                    if !generated || name_tries == GENERATED_NAME_TRIES || options.dry_run {
                        let there = self.get(&key, options.deadline).await?;
                        let deleting = there.is_some_and(|there| there.deleting());
                        return Err(WriteError::AlreadyExists { name, generated, deleting });
                    }
                }
                Tried::Lost | Tried::TooLarge(_) => {}
            }
        }
    }

    /// Creates an object of the request's version, if there is none of its name.
    pub(crate) async fn try_create(
        &self,
        rules: &Rules,
        target: &Target<'_>,
        object: Value,
        new: &New<'_>,
        managing: Managing<'_>,
        options: &WriteOptions,
    ) -> Result<Tried, WriteError> {
        let cx = rules.context(target);
        let object = rules.read(&cx, object, None, managing)?;
        let (name, generated) = plan::name_for_create(&object, new.name_suffix);
        if rules.spec.terminating() {
            let message = "create not allowed while custom resource definition is terminating".to_owned();
            return Err(WriteError::Forbidden { name, message });
        }
        rules.refuse_frozen(&name)?;
        let namespace = self.namespace_for_create(rules, target, &name, options).await?;
        let input = CreateInput {
            version: rules.version()?,
            namespace: target.namespace,
            uid: new.uid,
            name_suffix: new.name_suffix,
            applied: matches!(managing, Managing::Applied),
        };
        let planned = plan::create(&cx, &input, object)?;
        if let Err(error) = check_size(&planned, options) {
            return Ok(Tried::TooLarge(error));
        }
        let storage_key = rules.spec.storage_key(&planned.key);
        if options.dry_run {
            if self.found(&planned.key, rules, options.deadline).await?.is_some() {
                return Ok(Tried::Taken { name, generated, key: planned.key });
            }
            let made = written(planned, Revision::ZERO, rules);
            return Ok(Tried::Done(Written { created: true, unstored: true, ..made }));
        }
        let done = |planned, revision| Written {
            created: true,
            committed: true,
            ..written(planned, revision, rules)
        };
        let mut compares = vec![Compare::absent(&storage_key)];
        rules.guard(&mut compares);
        if let Some((key, revision)) = &namespace {
            compares.push(Compare::mod_is(key, *revision));
        }
        let txn = Txn { compares, ops: vec![Op::Put(storage_key, planned.json.clone())] };
        match self.commit(txn, options.deadline).await {
            Ok(TxnOutcome::Committed { revision }) => Ok(Tried::Done(done(planned, revision))),
            Ok(TxnOutcome::Failed { compare: Some(0), .. }) => {
                Ok(Tried::Taken { name, generated, key: planned.key })
            }
            Ok(TxnOutcome::Failed { compare, .. }) => {
                self.after_lost_race(rules, compare, options).await?;
                Ok(Tried::Lost)
            }
            Err(error @ (WriteError::TooLarge { .. } | WriteError::RequestTooLarge(_))) => {
                Ok(Tried::TooLarge(error))
            }
            Err(WriteError::Unknown) => {
                // Nobody else has the uid. Somebody may have changed the object since, but not when it began.
                let ours = |found: &StoredObject| found.uid() == new.uid;
                let created = self.proof(&planned.key, ours, options.deadline).await?.create_revision;
                Ok(Tried::Done(done(planned, created)))
            }
            Err(error) => Err(error),
        }
    }

    /// After an unknown outcome: what is stored now, if it proves that the write happened (design, invariant 1). That
    /// it is not there proves nothing: it may still come.
    ///
    /// # Errors
    /// [`WriteError::Unknown`]
    async fn proof(
        &self,
        key: &str,
        proves: impl Fn(&StoredObject) -> bool,
        deadline: Deadline,
    ) -> Result<KeyValue, WriteError> {
        let range = KeyRange::single(&self.storage_key(key));
        let request = RangeRequest { range, limit: None, revision: None, keys_only: false };
        let read = timeout_at(deadline.instant(), self.deps().storage.range(request)).await;
        let found = read.ok().and_then(Result::ok).and_then(|found| found.kvs.into_iter().next());
        let is_proof = |kv: &KeyValue| proves(&StoredObject::of(key, kv.value.clone(), kv.mod_revision));
        found.filter(is_proof).ok_or(WriteError::Unknown)
    }

    /// Updates an object to what `wanted` makes of it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn update(
        &self,
        target: Target<'_>,
        is_patch: bool,
        wanted: &mut Wanted<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let key = TypeSpec::object_key(target.namespace, target.name);
        let mut managing = Managing::Update(&options.manager);
        let mut plans = options.plans();
        loop {
            let rules = self.rules(target.version, plans.next()?)?;
            let cx = rules.context(&target);
            let current = match self.current(&key, &rules, &target, options.deadline).await {
                // What is wrong with the client's object is said before that there is none.
                Err(missing @ WriteError::NotFound { .. }) if !is_patch => {
                    wanted(&cx, &Value::Null)?;
                    return Err(missing);
                }
                found => found?,
            };
            let shown = decode(&rules.spec, rules.version()?, &current)?;
            let object = wanted(&cx, &shown)?;
            rules.refuse_frozen(target.name)?;
            let change = Change { object, is_patch, managing };
            let tried = self.try_update(&rules, &target, &current, shown, change, options).await?;
            if let Tried::Done(written) = tried.or_strip(&mut managing)? {
                return Ok(written);
            }
        }
    }

    /// Updates an object, of which the request's version shows `shown`, if it is still the one that is stored.
    pub(crate) async fn try_update(
        &self,
        rules: &Rules,
        target: &Target<'_>,
        current: &StoredObject,
        shown: Value,
        change: Change<'_>,
        options: &WriteOptions,
    ) -> Result<Tried, WriteError> {
        let cx = rules.context(target);
        let live = rules.stored(current, shown)?;
        let object = rules.read(&cx, change.object, Some(&live), change.managing)?;
        let input = UpdateInput {
            version: rules.version()?,
            namespace: target.namespace,
            name: target.name,
            revision: current.revision(),
            stored: current,
            is_patch: change.is_patch,
        };
        let storage_key = rules.spec.storage_key(current.key());
        let (mut planned, op) = match plan::update(&cx, &input, object, &live.old)? {
            UpdatePlan::Unchanged(planned) => {
                return Ok(Tried::Done(written(planned, current.revision(), rules)));
            }
            UpdatePlan::Put(planned) => {
                refuse_loss(current)?;
                if let Err(error) = check_size(&planned, options) {
                    return Ok(Tried::TooLarge(error));
                }
                let op = Op::Put(storage_key, planned.json.clone());
                (planned, op)
            }
            UpdatePlan::Delete(planned) => (planned, Op::Delete(storage_key)),
        };
        let deleted = matches!(op, Op::Delete(_));
        let needs_empty = planned.needs_empty.take();
        let done = |planned, revision, committed| {
            Tried::Done(Written { deleted, committed, ..written(planned, revision, rules) })
        };
        if options.dry_run {
            self.check_empty(needs_empty).await?;
            return Ok(done(planned, current.revision(), false));
        }
        let mut compares = vec![Compare::mod_is(op.key(), current.revision())];
        rules.guard(&mut compares);
        let emptiness = compares.len();
        compares.extend(needs_empty.iter().map(|n| Compare::empty_prefix(n.prefix.as_bytes())));
        match self.commit(Txn { compares, ops: vec![op] }, options.deadline).await {
            // What is deleted was last stored before.
            Ok(TxnOutcome::Committed { .. }) if deleted => Ok(done(planned, current.revision(), true)),
            Ok(TxnOutcome::Committed { revision }) => Ok(done(planned, revision, true)),
            Ok(TxnOutcome::Failed { compare: Some(failed), .. }) if failed == emptiness => {
                Err(needs_empty.map_or(WriteError::Busy, |n| n.refusal))
            }
            Ok(TxnOutcome::Failed { compare, .. }) => {
                self.after_lost_race(rules, compare, options).await?;
                Ok(Tried::Lost)
            }
            Err(error @ (WriteError::TooLarge { .. } | WriteError::RequestTooLarge(_))) => {
                Ok(Tried::TooLarge(error))
            }
            // Also of an unknown outcome: the same bytes may be somebody else's, whose update this one would have
            // been refused for.
            Err(error) => Err(error),
        }
    }

    /// Deletes an object, or marks it as being deleted where finalizers hold it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        target: Target<'_>,
        preconditions: &Preconditions,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let key = TypeSpec::object_key(target.namespace, target.name);
        let mut plans = options.plans();
        loop {
            let rules = self.rules(target.version, plans.next()?)?;
            let cx = rules.context(&target);
            let current = self.current(&key, &rules, &target, options.deadline).await?;
            rules.refuse_frozen(target.name)?;
            let shown = decode(&rules.spec, rules.version()?, &current)?;
            let old = rules.stored(&current, shown)?.old;
            let input = DeleteInput {
                version: rules.version()?,
                namespace: target.namespace,
                name: target.name,
                revision: current.revision(),
                preconditions,
            };
            let storage_key = rules.spec.storage_key(&key);
            let (mut planned, op) = match plan::delete(&cx, &input, old)? {
                DeletePlan::Unchanged => return Ok(as_stored(&current, &rules)),
                DeletePlan::Delete => (None, Op::Delete(storage_key)),
                DeletePlan::Mark(planned) => {
                    refuse_loss(&current)?;
                    let op = Op::Put(storage_key, planned.json.clone());
                    (Some(planned), op)
                }
            };
            let done = |planned: Option<Planned>, revision, committed| match planned {
                Some(planned) => Written { committed, ..written(planned, revision, &rules) },
                None => Written { deleted: true, committed, ..as_stored(&current, &rules) },
            };
            let needs_empty = planned.as_mut().and_then(|planned| planned.needs_empty.take());
            if options.dry_run {
                self.check_empty(needs_empty).await?;
                return Ok(done(planned, current.revision(), false));
            }
            let mut compares = vec![Compare::mod_is(op.key(), current.revision())];
            // What is stored again must be so in the right version, and what goes must not go from a frozen type.
            rules.guard(&mut compares);
            let emptiness = compares.len();
            compares.extend(needs_empty.iter().map(|n| Compare::empty_prefix(n.prefix.as_bytes())));
            match (self.commit(Txn { compares, ops: vec![op] }, options.deadline).await, &planned) {
                (Ok(TxnOutcome::Committed { revision }), _) => return Ok(done(planned, revision, true)),
                (Ok(TxnOutcome::Failed { compare: Some(failed), .. }), _) if failed == emptiness => {
                    return Err(needs_empty.map_or(WriteError::Busy, |n| n.refusal));
                }
                (Ok(TxnOutcome::Failed { compare, .. }), _) => {
                    self.after_lost_race(&rules, compare, options).await?
                }
                (Err(WriteError::Unknown), Some(marked)) => {
                    // Who else has marked it has done the same.
                    let proves = |found: &StoredObject| {
                        preconditions.resource_version.is_none()
                            && found.revision() > current.revision()
                            && found.json() == &marked.json
                    };
                    let found = self.proof(&key, proves, options.deadline).await?;
                    return Ok(done(planned, found.mod_revision, true));
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Deletes an object whose stored bytes are none, without a look at finalizers, preconditions or anything else; only
    /// that (apiserver `pkg/registry/generic/registry/corrupt_obj_deleter.go`, 1.37).
    ///
    /// # Errors
    /// [`WriteError::Conflict`] for an object that can be read. See [`WriteError`].
    pub async fn delete_corrupt(
        &self,
        target: Target<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let key = TypeSpec::object_key(target.namespace, target.name);
        let mut plans = options.plans();
        loop {
            let rules = self.rules(target.version, plans.next()?)?;
            let current = self.current(&key, &rules, &target, options.deadline).await?;
            rules.refuse_frozen(target.name)?;
            if let Some(message) = rules.spec.strategy.refuse_delete(target.name) {
                return Err(WriteError::Forbidden { name: target.name.to_owned(), message });
            }
            // Also what only turns out to be unreadable when it is read.
            if stored(&rules.spec.prefix, &current).is_ok() {
                let message = format!(
                    "StorageError: invalid object, Code: 4, Key: {}{key}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage",
                    rules.spec.prefix
                );
                return Err(WriteError::Conflict { name: target.name.to_owned(), message });
            }
            let gone = |committed| Written { deleted: true, committed, ..as_stored(&current, &rules) };
            if options.dry_run {
                return Ok(gone(false));
            }
            let storage_key = rules.spec.storage_key(&key);
            let mut compares = vec![Compare::mod_is(&storage_key, current.revision())];
            rules.guard(&mut compares);
            let txn = Txn { compares, ops: vec![Op::Delete(storage_key)] };
            match self.commit(txn, options.deadline).await? {
                TxnOutcome::Committed { .. } => return Ok(gone(true)),
                TxnOutcome::Failed { compare, .. } => {
                    self.after_lost_race(&rules, compare, options).await?;
                }
            }
        }
    }

    /// Deletes an object that was read from the store, whatever version it is in, or marks it as being deleted where
    /// finalizers hold it; for drains. Bytes that are no object are deleted. It happens only while the registration is
    /// the one that is known here, and if `guards` hold too: a drain that was left behind must not empty what came
    /// after. A type that is asleep stays asleep.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete_stored(
        &self,
        object: &StoredObject,
        guards: &[Compare],
        deadline: Deadline,
    ) -> Result<Drained, WriteError> {
        let seconds = i64::try_from(self.deps().clock.wall_ms() / 1000).unwrap_or(i64::MAX);
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let key = self.storage_key(object.key());
        let mut compares = vec![Compare::mod_is(&key, object.revision())];
        guard(&spec, &mut compares);
        compares.extend_from_slice(guards);
        let op = match plan::drain(object, &meta::time::format(seconds)) {
            DrainPlan::Held(finalizers) => return Ok(Drained::Held(finalizers)),
            DrainPlan::Delete => Op::Delete(key),
            DrainPlan::Mark(mut tree) => {
                // What is written now counts as written by the schema in force, so it has to be.
                if let Err(error) = refresh(&spec, object, &mut tree) {
                    tracing::warn!(error, key = object.key(), "an object is marked as it is stored");
                }
                Op::Put(key, tree.to_vec().into())
            }
        };
        let gone = matches!(op, Op::Delete(_));
        match self.commit_quietly(Txn { compares, ops: vec![op] }, deadline).await? {
            TxnOutcome::Committed { .. } if gone => Ok(Drained::Gone),
            TxnOutcome::Committed { .. } | TxnOutcome::Failed { .. } => Ok(Drained::LookAgain),
        }
    }

    /// Writes an object that was read from the store as the storage version has it now: converted, pruned and defaulted
    /// by that version's schema. Everything else stays, its generation too; watchers see a MODIFIED. It happens only
    /// while the registration is the one that is known here and the type is not frozen. A type that is asleep stays
    /// asleep.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn rewrite_stored(
        &self,
        object: &StoredObject,
        deadline: Deadline,
    ) -> Result<Rewritten, WriteError> {
        let spec = self.spec().ok_or(WriteError::Gone)?;
        if spec.read_only() {
            return Ok(Rewritten::LookAgain);
        }
        let json = match restored(&spec, object) {
            Ok(Some(json)) => json,
            Ok(None) => return Ok(Rewritten::Current),
            Err(why) => return Ok(Rewritten::Undecodable(why)),
        };
        let key = self.storage_key(object.key());
        let mut compares = vec![Compare::mod_is(&key, object.revision())];
        guard(&spec, &mut compares);
        match self.commit_quietly(Txn { compares, ops: vec![Op::Put(key, json.into())] }, deadline).await? {
            TxnOutcome::Committed { .. } => Ok(Rewritten::Current),
            TxnOutcome::Failed { .. } => Ok(Rewritten::LookAgain),
        }
    }

    /// What a dry run says of a prefix that has to be empty.
    async fn check_empty(&self, needed: Option<NeedsEmpty>) -> Result<(), WriteError> {
        let Some(NeedsEmpty { prefix, refusal }) = needed else { return Ok(()) };
        let request =
            RangeRequest { limit: Some(1), keys_only: true, ..RangeRequest::prefix(prefix.as_bytes()) };
        let found = self.deps().storage.range(request).await?;
        if found.kvs.is_empty() { Ok(()) } else { Err(refusal) }
    }

    /// What a plan finds stored.
    pub(crate) async fn found(
        &self,
        key: &str,
        rules: &Rules,
        deadline: Deadline,
    ) -> Result<Option<Arc<StoredObject>>, ReadError> {
        let (snapshot, _) = self.snapshot(rules.freshness, deadline).await?;
        Ok(snapshot.get(key).cloned())
    }

    async fn current(
        &self,
        key: &str,
        rules: &Rules,
        target: &Target<'_>,
        deadline: Deadline,
    ) -> Result<Arc<StoredObject>, WriteError> {
        let found = self.found(key, rules, deadline).await?;
        found.ok_or_else(|| WriteError::NotFound { name: target.name.to_owned() })
    }

    /// The namespace must exist and not be going when an object is created in it (admission plugin
    /// `NamespaceLifecycle`); its key and revision guard the create.
    async fn namespace_for_create(
        &self,
        rules: &Rules,
        target: &Target<'_>,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Option<(kindom_storage::Key, Revision)>, WriteError> {
        let (Some(namespace), Some(namespaces)) = (target.namespace, &options.namespaces) else {
            return Ok(None);
        };
        let (snapshot, _) = namespaces.snapshot(rules.freshness, options.deadline).await?;
        let Some(found) = snapshot.get(namespace) else {
            return Err(WriteError::NamespaceNotFound { name: namespace.to_owned() });
        };
        if found.deleting() {
            return Err(WriteError::NamespaceTerminating {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        let spec = namespaces.spec().ok_or(WriteError::Gone)?;
        Ok(Some((spec.storage_key(namespace), found.revision())))
    }

    /// A compare failed: whatever it was about is read again. The registration reaches a handle through the registry, so
    /// that one is waited for.
    async fn after_lost_race(
        &self,
        rules: &Rules,
        compare: Option<usize>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        const REGISTRATION: usize = 1;
        if options.basis == Basis::Guess {
            return Err(WriteError::Guessed);
        }
        if options.deadline.passed() {
            return Err(WriteError::Unavailable("timed out: the object kept changing".into()));
        }
        if compare == Some(REGISTRATION) && rules.spec.registration.is_some() {
            self.spec_after(&rules.spec, options.deadline).await?;
        }
        Ok(())
    }
}

/// What another server stored is not written without fields that it has.
fn refuse_loss(current: &StoredObject) -> Result<(), WriteError> {
    let Some(fields) = current.would_lose() else { return Ok(()) };
    Err(WriteError::WouldLose { name: current.name().to_owned(), fields: fields.to_owned() })
}

fn check_size(planned: &Planned, options: &WriteOptions) -> Result<(), WriteError> {
    let (bytes, limit) = (planned.json.len(), options.object_bytes_max);
    if bytes > limit { Err(WriteError::TooLarge { bytes, limit }) } else { Ok(()) }
}

fn written(planned: Planned, revision: Revision, rules: &Rules) -> Written {
    Written {
        object: Arc::new(StoredObject::new(&planned.key, planned.json, revision)),
        spec: Arc::clone(&rules.spec),
        warnings: planned.warnings,
        deleted: false,
        created: false,
        committed: false,
        unstored: false,
    }
}

fn as_stored(current: &Arc<StoredObject>, rules: &Rules) -> Written {
    Written {
        object: Arc::clone(current),
        spec: Arc::clone(&rules.spec),
        warnings: Vec::new(),
        deleted: false,
        created: false,
        committed: false,
        unstored: false,
    }
}
