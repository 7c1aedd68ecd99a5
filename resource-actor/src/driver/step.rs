//! The plan of a write: what is to be committed, from the state that it desires and the one that was found.

use std::sync::Arc;

use kindom_api::Value;
use kindom_objects::admission::Operation;
use kindom_objects::pipeline::{Replaced, admit};
use kindom_objects::plan::{self, CreateInput, DeleteInput, DeletePlan, Planned, UpdateInput, UpdatePlan};
use kindom_objects::render::{decode, stored};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Holdings, HoldingsChange, PlanError, Removal, StoredObject};
use kindom_storage::{Compare, Op, Revision};

use super::attempt::{Attempt, Desired, New};
use super::committing::{Effect, Guards, Plan, Proof, as_stored, written};
use crate::ResourceHandle;
use crate::conversion::may_run_again;
use crate::cost::Spent;
use crate::error::{WriteError, refuse_loss};
use crate::panics::caught;
use crate::request::{Outcome, Target, WriteOptions, Written};
use crate::rules::Rules;

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

impl ResourceHandle {
    /// Plans what a write desires.
    pub(super) async fn plan(
        &self,
        attempt: &Attempt<'_>,
        target: &Target<'_>,
        desired: Desired<'_>,
        options: &WriteOptions,
        conversions: &mut Conversions,
        spent: &mut Spent<'_>,
    ) -> Result<Step, WriteError> {
        let (spec, run) = (&attempt.rules.spec, (options.deadline, spent.estimate()));
        match desired {
            Desired::Create(new) => self.plan_create(attempt, target, new, options, conversions, spent).await,
            Desired::Update { mut object, live, is_patch, .. } => {
                let again = may_run_again(spec);
                let step = self.planning(spec, conversions, run, || {
                    let object = planned_on(&mut object, again, options);
                    let plan = || plan_update(attempt, target, object, &live, is_patch, options);
                    spent.on(|| caught(spec, plan))
                });
                step.await
            }
            Desired::Delete(removal) => {
                let step = self.planning(spec, conversions, run, || {
                    spent.on(|| caught(spec, || plan_delete(attempt, target, removal)))
                });
                step.await
            }
            Desired::DeleteCorrupt => spent.on(|| caught(spec, || plan_delete_corrupt(attempt, target))),
        }
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
        let (mut object, again) = (new.object, may_run_again(&rules.spec));
        let run = (options.deadline, spent.estimate());
        let planned = self.planning(&rules.spec, conversions, run, || {
            let object = planned_on(&mut object, again, options);
            spent.on(|| caught(attempt.cx.spec, || plan::create(attempt.cx, &input, object)))
        });
        let mut planned = planned.await?;
        if let Err(error) = check_size(&planned, options) {
            return Ok(Step::TooLarge(error.into()));
        }
        let key = rules.spec.storage_key(&planned.key);
        let mut guards = Guards::new(Compare::absent(&key), &rules.spec);
        if let Some((guard, as_of)) = namespace {
            (guards.namespace, guards.as_of) = (Some(guard), Some(as_of));
        }
        Ok(Step::Commit(Box::new(Plan {
            op: Op::Put(key, planned.sealed.value()),
            holdings: std::mem::take(&mut planned.holdings),
            guards,
            effect: Effect::Create(planned),
            created_name: Some((name, generated)),
            proof: Proof::Uid(new.uid.to_owned()),
        })))
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

/// The object that a plan is made on: a copy if it may be made `again`.
fn planned_on(object: &mut Value, again: bool, options: &WriteOptions) -> Value {
    options.record(|explanation| explanation.plan_began(object));
    if again { object.clone() } else { std::mem::take(object) }
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
    let mut guards = Guards::new(Compare::mod_is(&key, before), &rules.spec);
    guards.empty = planned.needs_empty.take();
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
