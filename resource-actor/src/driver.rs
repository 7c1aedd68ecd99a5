//! The one path of every write of an object: read, desire, plan, commit, and all again after a lost race.
//!
//! **Flow.** [`ResourceHandle::run`] reads the rules in force and the stored object and asks the write for the desired
//! state; `plan` turns that into bytes, or into nothing to do; a transaction commits it, whose [`Guards`] require the state
//! that the plan was made on. If another write was faster, everything but the client's request is read again. Only reading,
//! the look at the namespace, the turn at a processor, webhooks and the commit wait; a write's desire and its plan do not.
//!
//! **Errors.** See [`WriteError`]: unless the variant says otherwise, nothing was written.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{DEAR, Deadline, back, dear};
use kindom_api::{Value, meta};
use kindom_storage::{Compare, Key, KeyValue, Op, RangeRequest, Revision, Txn, TxnOutcome};
use tokio::time::timeout_at;

use crate::ResourceHandle;
use crate::cost::{self, Spent};
use crate::error::{ReadError, WriteError, refuse_loss};
use crate::explanation::Explanation;
use crate::handle::Freshness;
use crate::panics::caught;
use crate::quota::{Charges, Demand};
use crate::request::{Knowledge, Outcome, Target, WriteOptions, Written};
use crate::rules::Rules;
use kindom_objects::admission::Operation;
use kindom_objects::managed::Managing;
use kindom_objects::pipeline::{Replaced, admit, manage};
use kindom_objects::plan::{self, CreateInput, DeleteInput, DeletePlan, Planned, UpdateInput, UpdatePlan};
use kindom_objects::plugins::{Others, Plugins};
use kindom_objects::render::{decode, stored};
use kindom_objects::stages::{Stage, Witness};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{
    Allocation, Holdings, HoldingsChange, NeedsEmpty, PlanError, Removal, RuleContext, StoredObject,
    Subresource, TypeSpec,
};

/// The most tries of a create with generateName when the generated name is taken (KEP-4420).
const GENERATED_NAME_TRIES: usize = 8;

/// The holdings that a write tries to take before it asks for all that are held.
const GUESSES_AT_HOLDINGS: usize = 8;

/// The times that a write takes longer when each stage is compared with the one before.
const EXPLAINED: u32 = 3;

/// The most holdings that one write changes, so that every engine takes its transaction.
const HOLDINGS_MAX: usize = 100;

/// The state that one attempt at a write starts from.
pub(crate) struct Attempt<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) cx: &'a RuleContext<'a>,
    /// The object stored under the target's name.
    pub(crate) current: Option<&'a Arc<StoredObject>>,
    /// The object turned out to be too large with its managedFields: they go (apiserver `handlers`, `isTooLargeError`).
    pub(crate) strip: bool,
}

impl Attempt<'_> {
    /// The object as the request's version shows it.
    pub(crate) fn shown(&self, current: &StoredObject) -> Result<Value, WriteError> {
        let shown = decode(&self.rules.spec, self.rules.version()?, current)?;
        self.cx.passed(Stage::Read, Some(&shown));
        Ok(shown)
    }

    /// An update of the existing object, which the request's version shows as `shown`, to one of the same version.
    pub(crate) fn update<'d>(
        &self,
        target: &Target<'_>,
        object: Value,
        shown: Value,
        is_patch: bool,
        managing: Managing<'_>,
    ) -> Result<Desired<'d>, WriteError> {
        let live = Replaced::new(&self.rules.spec, self.existing(target)?, shown)?;
        let object = manage(self.cx, object, Some(&live), managing)?;
        Ok(Desired::Update { object, live, is_patch, scales: None })
    }

    /// The stored object, or the 404 of a write that needs one.
    pub(crate) fn existing(&self, target: &Target<'_>) -> Result<&StoredObject, WriteError> {
        self.current
            .map(|found| &**found)
            .ok_or_else(|| PlanError::NotFound { name: target.name.to_owned() }.into())
    }
}

/// The state that a write desires, given the state that an attempt found; objects are in the form that plans are made on,
/// with their managedFields.
pub(crate) enum Desired<'a> {
    /// A new object.
    Create(New<'a>),
    /// Another state of the object.
    Update {
        object: Value,
        /// The state that it replaces.
        live: Replaced,
        /// It was made from `live`.
        is_patch: bool,
        /// The Scales through which it is written, if it is.
        scales: Option<Box<Scales>>,
    },
    /// The object's end, or the mark of its deletion.
    Delete(&'a Removal),
    /// The end of bytes that are no object.
    DeleteCorrupt,
}

/// The Scale that is written, and the one that it replaces.
pub(crate) struct Scales {
    pub(crate) old: Value,
    pub(crate) new: Value,
}

/// A new object.
pub(crate) struct New<'a> {
    pub(crate) object: Value,
    pub(crate) uid: &'a str,
    /// The end of a generated name.
    pub(crate) name_suffix: String,
    /// The write would have updated an object of the name: an apply, or a PUT. If somebody creates the object first, it
    /// updates that one.
    pub(crate) instead_of_update: bool,
}

/// Called once an attempt; the result of an earlier attempt no longer counts.
pub(crate) type Desire<'a, 'd> = dyn FnMut(&Attempt<'_>) -> Result<Desired<'d>, WriteError> + Send + 'a;

/// The result of planning.
pub(crate) enum Step {
    /// Everything is as desired.
    Unchanged(Written),
    Commit(Box<Plan>),
    TooLarge(WriteError),
}

impl Step {
    /// The object as it will be stored, and its former revision; `None` if it will not be.
    pub(crate) fn new_state(&self) -> Option<Arc<StoredObject>> {
        let (planned, revision) = match self {
            Self::Unchanged(written) => return Some(Arc::clone(&written.object)),
            Self::TooLarge(_) => return None,
            Self::Commit(plan) => match &plan.effect {
                Effect::Create(planned) => (planned, Revision::ZERO),
                Effect::Put(planned, before)
                | Effect::Finish(planned, before)
                | Effect::End(planned, before) => (planned, *before),
                Effect::Remove(_) => return None,
            },
        };
        Some(Arc::new(StoredObject::written(&planned.key, &planned.sealed, revision)))
    }

    pub(crate) fn is_create(&self) -> bool {
        matches!(self, Self::Commit(plan) if matches!(plan.effect, Effect::Create(_)))
    }
}

/// A write that only has to be committed.
pub(crate) struct Plan {
    op: Op,
    holdings: HoldingsChange,
    guards: Guards,
    effect: Effect,
    /// The created object's name, and `true` if it was made from generateName.
    created_name: Option<(String, bool)>,
    proof: Proof,
}

/// The conditions under which a plan may be committed.
#[derive(Default)]
struct Guards {
    /// The object is as the plan found it.
    object: Option<Compare>,
    /// The registration is the one that the plan was made under (design, invariant 6).
    registration: Option<Compare>,
    /// The namespace exists and is not being deleted.
    namespace: Option<Compare>,
    /// Nothing is stored under a prefix.
    empty: Option<NeedsEmpty>,
    /// Nobody holds these keys.
    holdings: Vec<Key>,
    /// The quotas are as they were found.
    quotas: Vec<Compare>,
    /// The store's revision as of which the namespace was found.
    as_of: Option<Revision>,
}

/// One of the [`Guards`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Object,
    Registration,
    Namespace,
    Empty,
    Fence,
    /// The holding at this index.
    Holding(usize),
    Quota,
}

impl Guards {
    fn new(object: Compare, spec: &TypeSpec) -> Self {
        Self { object: Some(object), registration: registration(spec), ..Self::default() }
    }

    /// The compares of a transaction, and which guard each of them is.
    fn compares(&self, fence: Option<Compare>) -> (Vec<Guard>, Vec<Compare>) {
        let empty = self.empty.as_ref().map(|needed| Compare::empty_prefix(needed.prefix.as_bytes()));
        let all = [
            (Guard::Object, self.object.clone()),
            (Guard::Registration, self.registration.clone()),
            (Guard::Namespace, self.namespace.clone()),
            (Guard::Empty, empty),
            (Guard::Fence, fence),
        ];
        let holdings = self.holdings.iter().enumerate();
        let holdings = holdings.map(|(at, key)| (Guard::Holding(at), Some(Compare::absent(key))));
        let quotas = self.quotas.iter().cloned().map(|compare| (Guard::Quota, Some(compare)));
        all.into_iter()
            .chain(holdings)
            .chain(quotas)
            .filter_map(|(guard, compare)| Some((guard, compare?)))
            .unzip()
    }
}

/// The guard that the type's registration is still the one known here; none for a built-in type.
pub(crate) fn registration(spec: &TypeSpec) -> Option<Compare> {
    let registration = spec.registration.as_ref()?;
    Some(Compare::mod_is(&registration.key, registration.object.revision()))
}

/// The change of the object that a commit makes.
enum Effect {
    Create(Planned),
    /// A new state of an object that was at `before`.
    Put(Planned, Revision),
    /// The object goes with this last state, which was never stored; it was at `before`.
    Finish(Planned, Revision),
    /// The object goes with the mark of its deletion, which was never stored; it was at `before`.
    End(Planned, Revision),
    /// The object goes as it is stored.
    Remove(Arc<StoredObject>),
}

impl Effect {
    /// The write as quotas see it; `None` for one that needs no more of anything.
    fn demand<'a>(
        &'a self,
        current: Option<&'a Arc<StoredObject>>,
        as_of: Option<Revision>,
        subresource: Option<Subresource>,
        rules: &'a Rules,
    ) -> Option<Demand<'a>> {
        let (planned, old) = match self {
            Self::Create(planned) => (planned, None),
            Self::Put(planned, _) => (planned, Some(&**current?)),
            Self::Finish(..) | Self::End(..) | Self::Remove(_) => return None,
        };
        let freshness = as_of.map_or(rules.freshness, Freshness::AtLeast);
        let (spec, now) = (&*rules.spec, rules.now());
        let new = planned.sealed.json_bytes();
        Some(Demand { spec, now, key: &planned.key, subresource, new, old, freshness })
    }

    /// The answer to the write: committed at a revision, or a dry run.
    fn written(self, committed: Option<Revision>, rules: &Rules) -> Written {
        let dry_run = committed.is_none();
        match self {
            Self::Create(planned) => {
                let at = committed.unwrap_or(Revision::ZERO);
                written(planned, at, Outcome::Created { dry_run }, rules)
            }
            Self::Put(planned, before) => {
                written(planned, committed.unwrap_or(before), Outcome::Updated { dry_run }, rules)
            }
            Self::Finish(planned, before) => written(planned, before, Outcome::Deleted { dry_run }, rules),
            Self::End(planned, before) => {
                written(planned, committed.unwrap_or(before), Outcome::Deleted { dry_run }, rules)
            }
            Self::Remove(current) => {
                // An answer that shows the object shows it as of its deletion.
                let shown = committed.filter(|_| rules.spec.strategy.returns_deleted());
                let current = match shown {
                    Some(at) => Arc::new(current.at_revision(at)),
                    None => current,
                };
                as_stored(&current, Outcome::Deleted { dry_run }, rules)
            }
        }
    }
}

/// The evidence by which a later read proves that a commit whose answer was lost has happened (design, invariant 1; ADR 11).
/// Missing evidence proves nothing: the commit may still come.
enum Proof {
    /// It cannot: another client may have stored the same.
    None,
    /// Nobody else has the object's uid. It may have been changed since, but not when it was created.
    Uid(String),
    /// A mark for deletion since this revision, whoever set it, has the same effect.
    Marked(Revision),
}

/// The end of an attempt to commit a plan.
enum Committed {
    Done(Written),
    /// An object of the name, which was to be created, exists.
    Taken {
        name: String,
        generated: bool,
        key: String,
    },
    /// Another write was faster.
    Lost(Guard),
    /// Another object holds this key.
    Held(Key),
    TooLarge(WriteError),
}

/// The freshness of the state that the plans of one write are made on.
struct Plans {
    knowledge: Knowledge,
    first: bool,
}

impl Plans {
    /// # Errors
    /// [`WriteError::Guessed`] for a second plan where the first was a guess.
    fn next(&mut self) -> Result<Freshness, WriteError> {
        match (std::mem::replace(&mut self.first, false), self.knowledge) {
            (true, Knowledge::AsOf(revision)) => Ok(Freshness::AtLeast(revision)),
            (true, Knowledge::Guess) => Ok(Freshness::Any),
            (false, Knowledge::Guess) => Err(WriteError::Guessed),
            (true, Knowledge::Latest) | (false, _) => Ok(Freshness::Latest),
        }
    }
}

/// The object that a plan is made on: a copy if it may be made `again`.
fn planned_on(object: &mut Value, again: bool, options: &WriteOptions) -> Value {
    options.record(|explanation| explanation.plan_began(object));
    if again { object.clone() } else { std::mem::take(object) }
}

/// A registration may have ceased to declare the subresource that a write was let in through.
fn refuse_without_part(cx: &RuleContext<'_>, target: &Target<'_>) -> Result<(), WriteError> {
    match target.subresource {
        Some(through @ Subresource::Declared(_)) if cx.spec.part(cx.version_name, through).is_none() => {
            Err(PlanError::NotFound { name: target.name.to_owned() }.into())
        }
        _ => Ok(()),
    }
}

impl ResourceHandle {
    /// Carries out a write of one object, however often it loses a race, until the deadline. With `may_strip`, an object
    /// that is too large is tried once more without its managedFields.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn run(
        &self,
        target: &Target<'_>,
        options: &WriteOptions,
        may_strip: bool,
        desire: &mut Desire<'_, '_>,
    ) -> Result<Written, WriteError> {
        let key = (!target.name.is_empty()).then(|| TypeSpec::object_key(target.namespace, target.name));
        let mut plans = Plans { knowledge: options.knowledge, first: true };
        let (mut strip, mut names_tried, mut is_counted) = (false, 0, false);
        let mut admitted = None;
        let mut allocation = Allocation { dry_run: options.dry_run, ..Allocation::default() };
        let none = Others::of(options.plugins.as_ref().map_or(Plugins::NONE, |plugins| plugins.on));
        loop {
            tracing::trace!("read the rules and the object, and plan");
            options.record(Explanation::attempt_began);
            // Of the object as it is now: what was converted before has lost a race.
            let mut conversions = Conversions::default();
            let freshness = plans.next()?;
            self.turn_to_compile(target.version).await?;
            let rules = self.rules(target.version, freshness)?;
            if rules.spec.strategy.has_holdings() && allocation.seed.is_empty() {
                allocation.seed = self.deps().entropy.uuid_v4();
            }
            let witness = options.explanation.as_deref().map(|explanation| explanation as &dyn Witness);
            let cx = rules.context(target, &options.user, &allocation, &none, witness);
            refuse_without_part(&cx, target)?;
            let current = match &key {
                Some(key) => self.found(key, &rules, options.deadline).await?,
                None => None,
            };
            let attempt = Attempt { rules: &rules, cx: &cx, current: current.as_ref(), strip };
            let bytes = options.bytes + current.as_ref().map_or(0, |current| current.json().len());
            let estimate = self.cost().estimate(bytes);
            // A good guess spares a look at the store, which costs less than the second plan after a bad one.
            if options.knowledge == Knowledge::Guess && estimate >= DEAR {
                return Err(WriteError::Guessed);
            }
            // A rule of the program's may take any time: nothing but this write may wait for it.
            let is_of_program = rules.spec.strategy.is_of_program();
            let of_rules = |estimate: Duration| match witness {
                Some(_) => (estimate * EXPLAINED).max(DEAR),
                None if is_of_program => estimate.max(DEAR),
                None => estimate,
            };
            dear(of_rules(estimate)).await?;
            let mut spent = Spent::new(self.cost(), bytes);
            if witness.is_some() {
                spent = spent.unlearned();
            }
            let again = rules.spec.webhook().is_some();
            let mut run = (options.deadline, estimate);
            let desired = self.converting(&rules.spec, &mut conversions, run, || {
                options.record(Explanation::desire_began);
                spent.on(|| caught(&rules.spec, || desire(&attempt)))
            });
            let mut desired = desired.await?;
            let (others, bytes_of_others) = self.others(&attempt, target, &mut desired, options).await?;
            if bytes_of_others > 0 {
                // A wait for some of them has left the processors.
                spent.grow(bytes_of_others);
                dear(of_rules(spent.estimate())).await?;
                run = (options.deadline, spent.estimate());
            }
            let cx = RuleContext { others: &others, ..cx };
            let attempt = Attempt { cx: &cx, ..attempt };
            let mut others_of_changed = None;
            let admitting = self.admitting(&attempt, target, options, bytes).await?;
            if let Some(admitting) = &admitting {
                desired = Box::pin(admitting.admit(desired, &mut admitted, &mut conversions)).await?;
                if admitting.has_waited() || admitting.made() > 0 {
                    let (others, bytes) = self.others(&attempt, target, &mut desired, options).await?;
                    spent.grow(bytes);
                    others_of_changed = Some(others);
                    // It has left the processors, perhaps with another object than the client's.
                    spent.grow(admitting.made());
                    dear(of_rules(spent.estimate())).await?;
                    run = (options.deadline, spent.estimate());
                }
            }
            let cx = RuleContext { others: others_of_changed.as_ref().unwrap_or(&others), ..cx };
            let attempt = Attempt { cx: &cx, ..attempt };
            options.record(Explanation::plans_follow);
            let may_exist = matches!(&desired, Desired::Create(new) if new.instead_of_update);
            let deletes = matches!(desired, Desired::Delete(_) | Desired::DeleteCorrupt);
            // No webhook could be shown what is no object.
            let is_judged = !matches!(desired, Desired::DeleteCorrupt);
            let step = match desired {
                Desired::Create(new) => {
                    self.plan_create(&attempt, target, new, options, &mut conversions, &mut spent).await?
                }
                Desired::Update { mut object, live, is_patch, .. } => {
                    let step = self.converting(&rules.spec, &mut conversions, run, || {
                        let object = planned_on(&mut object, again, options);
                        spent.on(|| {
                            caught(&rules.spec, || {
                                plan_update(&attempt, target, object, &live, is_patch, options)
                            })
                        })
                    });
                    step.await?
                }
                Desired::Delete(removal) => {
                    let step = self.converting(&rules.spec, &mut conversions, run, || {
                        spent.on(|| caught(&rules.spec, || plan_delete(&attempt, target, removal)))
                    });
                    step.await?
                }
                Desired::DeleteCorrupt => {
                    spent.on(|| caught(&rules.spec, || plan_delete_corrupt(&attempt, target)))?
                }
            };
            if !deletes {
                spent.finished();
            }
            drop(spent);
            is_counted = is_counted || deletes || self.count_event(&rules.spec, &step, target, options)?;
            if let Some(admitting) = admitting.as_ref().filter(|_| is_judged) {
                Box::pin(admitting.judge(deletes, &step, &mut conversions)).await?;
            }
            let committed = match step {
                Step::Unchanged(written) => return Ok(written),
                Step::TooLarge(error) => Committed::TooLarge(error),
                Step::Commit(plan) => {
                    // Most of the rest is a wait for the store.
                    back().await;
                    self.carry_out(*plan, &rules, target.subresource, options, &allocation, current.as_ref())
                        .await?
                }
            };
            match committed {
                Committed::Done(written) => return Ok(written),
                Committed::TooLarge(error) if strip || !may_strip => return Err(error),
                Committed::TooLarge(_) => strip = true,
                Committed::Taken { .. } | Committed::Lost(_) | Committed::Held(_)
                    if options.knowledge == Knowledge::Guess =>
                {
                    return Err(WriteError::Guessed);
                }
                Committed::Taken { name, generated, key } if !may_exist => {
                    names_tried += 1;
                    // A dry run has not tried to write: the name is taken.
                    if !generated || names_tried == GENERATED_NAME_TRIES || options.dry_run {
                        let there = self.get(&key, options.deadline).await?;
                        let deleting = there.is_some_and(|there| there.deleting());
                        return Err(PlanError::AlreadyExists { name, generated, deleting }.into());
                    }
                }
                Committed::Taken { .. } => options.refuse_if_late()?,
                Committed::Held(key) => {
                    options.refuse_if_late()?;
                    self.note_taken(&mut allocation, key).await?;
                }
                Committed::Lost(guard) => {
                    options.refuse_if_late()?;
                    if guard == Guard::Registration {
                        // It reaches a handle through the registry.
                        self.spec_after(&rules.spec, options.deadline).await?;
                    }
                }
            }
        }
    }

    /// Notes that another object holds a key. After some of these, most keys are held: notes all of its prefix.
    async fn note_taken(&self, allocation: &mut Allocation, key: Key) -> Result<(), WriteError> {
        let prefix =
            key.as_bytes().iter().rposition(|byte| *byte == b'/').map_or(0, |at| at.saturating_add(1));
        let prefix = key.as_bytes().get(..prefix).unwrap_or_default().to_vec();
        if !allocation.taken.insert(key.clone()) {
            return Err(PlanError::Internal(format!("{key} is held by another object")).into());
        }
        if allocation.taken.len() == GUESSES_AT_HOLDINGS {
            let request = RangeRequest { keys_only: true, ..RangeRequest::prefix(&prefix) };
            let held = self.deps().storage.range(request).await?;
            allocation.taken.extend(held.kvs.into_iter().map(|kv| kv.key));
        }
        Ok(())
    }

    /// Waits for a processor where the version's schema has to be compiled first.
    async fn turn_to_compile(&self, version: &str) -> Result<(), WriteError> {
        let bytes = self.spec().map_or(0, |spec| spec.uncompiled_bytes(version));
        Ok(dear(cost::compile(bytes)).await?)
    }

    pub(crate) fn rules(&self, version: &str, freshness: Freshness) -> Result<Rules, WriteError> {
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let seconds = self.deps().clock.unix_seconds();
        Rules::new(spec, version, meta::time::format(seconds), freshness)
    }

    /// Plans a create (apiserver `Store.Create`).
    async fn plan_create(
        &self,
        attempt: &Attempt<'_>,
        target: &Target<'_>,
        new: New<'_>,
        options: &WriteOptions,
        conversions: &mut Conversions,
        spent: &mut Spent<'_>,
    ) -> Result<Step, WriteError> {
        let rules = attempt.rules;
        let (name, generated, namespace) = self.open_for_create(rules, target, &new, options).await?;
        let input = CreateInput {
            version: rules.version()?,
            namespace: target.namespace,
            uid: new.uid,
            name_suffix: &new.name_suffix,
            instead_of_update: new.instead_of_update,
        };
        let (mut object, again) = (new.object, rules.spec.webhook().is_some());
        let run = (options.deadline, spent.estimate());
        let planned = self.converting(&rules.spec, conversions, run, || {
            let object = planned_on(&mut object, again, options);
            spent.on(|| caught(attempt.cx.spec, || plan::create(attempt.cx, &input, object)))
        });
        let mut planned = planned.await?;
        if let Err(error) = check_size(&planned, options) {
            return Ok(Step::TooLarge(error.into()));
        }
        let key = rules.spec.storage_key(&planned.key);
        let guards = Guards {
            as_of: namespace.as_ref().map(|(_, as_of)| *as_of),
            namespace: namespace.map(|(guard, _)| guard),
            ..Guards::new(Compare::absent(&key), &rules.spec)
        };
        Ok(Step::Commit(Box::new(Plan {
            op: Op::Put(key, planned.sealed.value()),
            holdings: std::mem::take(&mut planned.holdings),
            guards,
            effect: Effect::Create(planned),
            created_name: Some((name, generated)),
            proof: Proof::Uid(new.uid.to_owned()),
        })))
    }

    /// Commits a plan; of a dry run only looks whether it could be.
    async fn carry_out(
        &self,
        plan: Plan,
        rules: &Rules,
        subresource: Option<Subresource>,
        options: &WriteOptions,
        allocation: &Allocation,
        current: Option<&Arc<StoredObject>>,
    ) -> Result<Committed, WriteError> {
        let Plan { op, holdings, mut guards, effect, created_name, proof } = plan;
        let mut charges = match (&options.quotas, effect.demand(current, guards.as_of, subresource, rules)) {
            (Some(quotas), Some(demand)) => self.charges(quotas, demand, options.deadline).await?,
            _ => Charges::default(),
        };
        if !charges.compares.is_empty() {
            options.record(|explanation| explanation.passed(Stage::Judge, "ResourceQuota", None));
        }
        let taken = |effect: &Effect| match (&created_name, effect) {
            (Some((name, generated)), Effect::Create(planned)) => {
                Committed::Taken { name: name.clone(), generated: *generated, key: planned.key.clone() }
            }
            _ => Committed::Lost(Guard::Object),
        };
        if options.dry_run {
            if let Effect::Create(planned) = &effect
                && self.found(&planned.key, rules, options.deadline).await?.is_some()
            {
                return Ok(taken(&effect));
            }
            self.check_empty(guards.empty).await?;
            for key in holdings.taken.into_keys().filter(|key| !allocation.taken.contains(key)) {
                let request = RangeRequest { keys_only: true, ..RangeRequest::single(&key) };
                if !self.deps().storage.range(request).await?.kvs.is_empty() {
                    return Ok(Committed::Held(key));
                }
            }
            return Ok(Committed::Done(effect.written(None, rules)));
        }
        let changed =
            holdings.taken.len().saturating_add(holdings.released.len()).saturating_add(charges.ops.len());
        if changed > HOLDINGS_MAX {
            let message = format!(
                "{changed} addresses, ports and quotas change with the object, at most {HOLDINGS_MAX} may"
            );
            return Err(WriteError::RequestTooLarge(message));
        }
        guards.holdings = holdings.taken.keys().cloned().collect();
        guards.quotas = std::mem::take(&mut charges.compares);
        let (order, compares) = guards.compares(options.fence.clone());
        let mut ops = vec![op];
        ops.extend(holdings.taken.into_iter().map(|(key, value)| Op::Put(key, value)));
        ops.extend(holdings.released.into_iter().map(Op::Delete));
        ops.append(&mut charges.ops);
        match self.commit(Txn { compares, ops }, options.deadline).await {
            Ok(TxnOutcome::Committed { revision }) => {
                charges.committed(revision);
                Ok(Committed::Done(effect.written(Some(revision), rules)))
            }
            Ok(TxnOutcome::Failed { compare, .. }) => {
                let failed = compare.and_then(|at| order.get(at)).copied().unwrap_or(Guard::Object);
                match failed {
                    Guard::Object => Ok(taken(&effect)),
                    Guard::Registration | Guard::Namespace | Guard::Quota => Ok(Committed::Lost(failed)),
                    Guard::Holding(at) => Ok(match guards.holdings.into_iter().nth(at) {
                        Some(key) => Committed::Held(key),
                        None => Committed::Lost(failed),
                    }),
                    Guard::Fence => {
                        let name = created_name.map(|(name, _)| name).unwrap_or_default();
                        let message = "the state that the write rests on has changed".to_owned();
                        Err(PlanError::Conflict { name, message }.into())
                    }
                    Guard::Empty => {
                        Err(guards.empty.map_or(WriteError::Busy, |needed| needed.refusal.into()))
                    }
                }
            }
            Err(error @ (WriteError::Plan(PlanError::TooLarge { .. }) | WriteError::RequestTooLarge(_))) => {
                Ok(Committed::TooLarge(error))
            }
            Err(WriteError::Unknown) => {
                let at = self.proof(&effect, &proof, options.deadline).await?;
                Ok(Committed::Done(effect.written(Some(at), rules)))
            }
            Err(error) => Err(error),
        }
    }

    /// The revision of a commit whose outcome is unknown, if the stored state proves that it happened.
    ///
    /// # Errors
    /// [`WriteError::Unknown`]
    async fn proof(
        &self,
        effect: &Effect,
        proof: &Proof,
        deadline: Deadline,
    ) -> Result<Revision, WriteError> {
        let (Effect::Create(planned) | Effect::Put(planned, _)) = effect else {
            return Err(WriteError::Unknown);
        };
        let object_of = |kv: &KeyValue| StoredObject::of(&planned.key, kv.value.clone(), kv.mod_revision);
        let proves = |kv: &KeyValue| match proof {
            Proof::None => None,
            Proof::Uid(uid) => (object_of(kv).uid() == uid).then_some(kv.create_revision),
            Proof::Marked(since) => {
                let is_ours = kv.mod_revision > *since && object_of(kv).is_stored_as(&planned.sealed.json());
                is_ours.then_some(kv.mod_revision)
            }
        };
        if matches!(proof, Proof::None) {
            return Err(WriteError::Unknown);
        }
        let request = RangeRequest::single(&self.storage_key(&planned.key));
        let read = timeout_at(deadline.instant(), self.deps().storage.range(request)).await;
        let found = read.ok().and_then(Result::ok).and_then(|found| found.kvs.into_iter().next());
        found.as_ref().and_then(proves).ok_or(WriteError::Unknown)
    }

    /// Refuses a dry run that needs an empty prefix, if the prefix is not empty.
    async fn check_empty(&self, needed: Option<NeedsEmpty>) -> Result<(), WriteError> {
        let Some(NeedsEmpty { prefix, refusal }) = needed else { return Ok(()) };
        let request =
            RangeRequest { limit: Some(1), keys_only: true, ..RangeRequest::prefix(prefix.as_bytes()) };
        let found = self.deps().storage.range(request).await?;
        if found.kvs.is_empty() { Ok(()) } else { Err(refusal.into()) }
    }

    /// The stored object of a key, as fresh as the plan needs it.
    async fn found(
        &self,
        key: &str,
        rules: &Rules,
        deadline: Deadline,
    ) -> Result<Option<Arc<StoredObject>>, ReadError> {
        let (snapshot, _) = self.snapshot(rules.freshness, deadline).await?;
        Ok(snapshot.get(key).cloned())
    }

    /// The name of a new object, whether it was made from generateName, and the guard of its namespace.
    ///
    /// # Errors
    /// The type or the namespace takes no new objects.
    pub(crate) async fn open_for_create(
        &self,
        rules: &Rules,
        target: &Target<'_>,
        new: &New<'_>,
        options: &WriteOptions,
    ) -> Result<(String, bool, Option<(Compare, Revision)>), WriteError> {
        let (name, generated) = plan::name_for_create(&new.object, &new.name_suffix);
        admit(&rules.spec, Operation::Create, &name)?;
        let namespace = self.namespace_for_create(rules, target, &name, options).await?;
        Ok((name, generated, namespace))
    }

    /// The guard that the namespace of a new object is as it is now, and the store's revision as of which that is known: it has
    /// to exist and may not be being deleted (admission plugin `NamespaceLifecycle`).
    async fn namespace_for_create(
        &self,
        rules: &Rules,
        target: &Target<'_>,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Option<(Compare, Revision)>, WriteError> {
        let (Some(namespace), Some(namespaces)) = (target.namespace, &options.namespaces) else {
            return Ok(None);
        };
        let (snapshot, as_of) = namespaces.snapshot(rules.freshness, options.deadline).await?;
        let Some(found) = snapshot.get(namespace) else {
            return Err(PlanError::NamespaceNotFound { name: namespace.to_owned() }.into());
        };
        if found.deleting() {
            return Err(PlanError::NamespaceTerminating {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }
            .into());
        }
        let spec = namespaces.spec().ok_or(WriteError::Gone)?;
        Ok(Some((Compare::mod_is(&spec.storage_key(namespace), found.revision()), as_of)))
    }
}

/// Plans an update (apiserver `Store.Update`).
fn plan_update(
    attempt: &Attempt<'_>,
    target: &Target<'_>,
    object: Value,
    live: &Replaced,
    is_patch: bool,
    options: &WriteOptions,
) -> Result<Step, WriteError> {
    let (rules, current) = (attempt.rules, attempt.existing(target)?);
    let before = current.revision();
    let input = UpdateInput {
        version: rules.version()?,
        namespace: target.namespace,
        name: target.name,
        revision: before,
        stored: current,
        is_patch,
    };
    let key = rules.spec.storage_key(current.key());
    let (mut planned, goes) = match plan::update(attempt.cx, &input, object, &live.old)? {
        UpdatePlan::Unchanged(planned) => {
            return Ok(Step::Unchanged(written(planned, before, Outcome::Unchanged, rules)));
        }
        UpdatePlan::Put(planned) => {
            refuse_loss(current)?;
            if let Err(error) = check_size(&planned, options) {
                return Ok(Step::TooLarge(error.into()));
            }
            (planned, false)
        }
        UpdatePlan::Delete(planned) => (planned, true),
    };
    let guards = Guards {
        empty: planned.needs_empty.take(),
        ..Guards::new(Compare::mod_is(&key, before), &rules.spec)
    };
    let holdings = std::mem::take(&mut planned.holdings);
    let (op, effect) = match goes {
        true => (Op::Delete(key), Effect::Finish(planned, before)),
        false => (Op::Put(key, planned.sealed.value()), Effect::Put(planned, before)),
    };
    // The same bytes may be somebody else's, whose update this one would have been refused for.
    Ok(Step::Commit(Box::new(Plan { op, holdings, guards, effect, created_name: None, proof: Proof::None })))
}

/// Plans a delete (apiserver `Store.Delete`).
fn plan_delete(attempt: &Attempt<'_>, target: &Target<'_>, removal: &Removal) -> Result<Step, WriteError> {
    let rules = attempt.rules;
    let current = attempt.current.ok_or_else(|| PlanError::NotFound { name: target.name.to_owned() })?;
    admit(&rules.spec, Operation::Delete, target.name)?;
    let shown = decode(&rules.spec, rules.version()?, current);
    let shown = shown.map_err(|unreadable| PlanError::Corrupt(unreadable.of_one()))?;
    let old = Replaced::new(&rules.spec, current, shown)?.old;
    let before = current.revision();
    let input = DeleteInput {
        version: rules.version()?,
        namespace: target.namespace,
        name: target.name,
        revision: before,
        removal,
    };
    let key = rules.spec.storage_key(current.key());
    // A marked object has to be stored in the right version, and a frozen type loses none.
    let mut guards = Guards::new(Compare::mod_is(&key, before), &rules.spec);
    let plan = match plan::delete(attempt.cx, &input, old)? {
        DeletePlan::Unchanged => return Ok(Step::Unchanged(as_stored(current, Outcome::Unchanged, rules))),
        DeletePlan::Delete(released) => Plan {
            op: Op::Delete(key),
            holdings: HoldingsChange { taken: Holdings::new(), released },
            guards,
            effect: Effect::Remove(Arc::clone(current)),
            created_name: None,
            proof: Proof::None,
        },
        DeletePlan::Finish(mut planned) => Plan {
            op: Op::Delete(key),
            holdings: std::mem::take(&mut planned.holdings),
            guards,
            effect: Effect::End(planned, before),
            created_name: None,
            proof: Proof::None,
        },
        DeletePlan::Mark(mut planned) => {
            refuse_loss(current)?;
            guards.empty = planned.needs_empty.take();
            let proof = match removal.resource_version {
                None => Proof::Marked(before),
                Some(_) => Proof::None,
            };
            let op = Op::Put(key, planned.sealed.value());
            let holdings = HoldingsChange::default();
            Plan { op, holdings, guards, effect: Effect::Put(planned, before), created_name: None, proof }
        }
    };
    Ok(Step::Commit(Box::new(plan)))
}

/// Plans the end of bytes that are no object, without a look at finalizers or preconditions; only of such (apiserver
/// `pkg/registry/generic/registry/corrupt_obj_deleter.go`, 1.37).
fn plan_delete_corrupt(attempt: &Attempt<'_>, target: &Target<'_>) -> Result<Step, WriteError> {
    let rules = attempt.rules;
    let current = attempt.current.ok_or_else(|| PlanError::NotFound { name: target.name.to_owned() })?;
    admit(&rules.spec, Operation::Delete, target.name)?;
    if let Some(message) = rules.spec.strategy.refuse_delete(target.name) {
        return Err(PlanError::Forbidden { name: target.name.to_owned(), message }.into());
    }
    // Also what only turns out to be unreadable when it is read.
    if stored(&rules.spec.prefix, current).is_ok() {
        let message = format!(
            "StorageError: invalid object, Code: 4, Key: {}{}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage",
            rules.spec.prefix,
            current.key()
        );
        return Err(PlanError::Conflict { name: target.name.to_owned(), message }.into());
    }
    let key = rules.spec.storage_key(current.key());
    Ok(Step::Commit(Box::new(Plan {
        guards: Guards::new(Compare::mod_is(&key, current.revision()), &rules.spec),
        op: Op::Delete(key),
        holdings: HoldingsChange::default(),
        effect: Effect::Remove(Arc::clone(current)),
        created_name: None,
        proof: Proof::None,
    })))
}

fn check_size(planned: &Planned, options: &WriteOptions) -> Result<(), PlanError> {
    let (bytes, limit) = (planned.sealed.json().len(), options.object_bytes_max);
    if bytes > limit { Err(PlanError::TooLarge { bytes, limit }) } else { Ok(()) }
}

fn written(planned: Planned, revision: Revision, outcome: Outcome, rules: &Rules) -> Written {
    Written {
        object: Arc::new(StoredObject::written(&planned.key, &planned.sealed, revision)),
        spec: Arc::clone(&rules.spec),
        warnings: planned.warnings,
        outcome,
    }
}

fn as_stored(current: &Arc<StoredObject>, outcome: Outcome, rules: &Rules) -> Written {
    Written { object: Arc::clone(current), spec: Arc::clone(&rules.spec), warnings: Vec::new(), outcome }
}
