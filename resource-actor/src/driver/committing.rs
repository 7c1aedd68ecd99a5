//! The commit of a plan: one transaction, under the conditions that the plan was made on.

use std::sync::Arc;

use kindom_actor_kit::Deadline;
use kindom_objects::plan::Planned;
use kindom_objects::stages::{Stage, Witness};
use kindom_objects::{
    Allocation, HoldingsChange, NeedsEmpty, PlanError, StoredObject, Subresource, TypeSpec,
};
use kindom_storage::{Compare, Key, KeyValue, Op, RangeRequest, Revision, Txn, TxnOutcome};
use tokio::time::timeout_at;

use crate::ResourceHandle;
use crate::error::WriteError;
use crate::handle::Freshness;
use crate::quota::{Charges, Demand};
use crate::request::{Outcome, WriteOptions, Written};
use crate::rules::Rules;

/// The most holdings that one write changes, so that every engine takes its transaction.
const HOLDINGS_MAX: usize = 100;

/// A write that only has to be committed.
pub(crate) struct Plan {
    pub(super) op: Op,
    pub(super) holdings: HoldingsChange,
    pub(super) guards: Guards,
    pub(super) effect: Effect,
    /// The created object's name, and `true` if it was made from generateName.
    pub(super) created_name: Option<(String, bool)>,
    pub(super) proof: Proof,
}

/// The conditions under which a plan may be committed.
#[derive(Default)]
pub(super) struct Guards {
    /// The object is as the plan found it.
    object: Option<Compare>,
    /// The registration is the one that the plan was made under (design, invariant 6).
    registration: Option<Compare>,
    /// The namespace exists and is not being deleted.
    pub(super) namespace: Option<Compare>,
    /// Nothing is stored under a prefix.
    pub(super) empty: Option<NeedsEmpty>,
    /// Nobody holds these keys.
    holdings: Vec<Key>,
    /// The quotas are as they were found.
    quotas: Vec<Compare>,
    /// The store's revision as of which the namespace was found.
    pub(super) as_of: Option<Revision>,
}

/// One of the [`Guards`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
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
    pub(super) fn new(object: Compare, spec: &TypeSpec) -> Self {
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
pub(super) enum Effect {
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

    /// The answer to the write: committed at a revision, or a dry run. `known` is memory's object of this commit, if it has it.
    fn written(
        self,
        committed: Option<Revision>,
        known: Option<Arc<StoredObject>>,
        rules: &Rules,
    ) -> Written {
        let dry_run = committed.is_none();
        match self {
            Self::Create(planned) => {
                let at = committed.unwrap_or(Revision::ZERO);
                answered(planned, known, at, Outcome::Created { dry_run }, rules)
            }
            Self::Put(planned, before) => {
                let at = committed.unwrap_or(before);
                answered(planned, known, at, Outcome::Updated { dry_run }, rules)
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
pub(super) enum Proof {
    /// It cannot: another client may have stored the same.
    None,
    /// Nobody else has the object's uid. It may have been changed since, but not when it was created.
    Uid(String),
    /// A mark for deletion since this revision, whoever set it, has the same effect.
    Marked(Revision),
}

/// The end of an attempt to commit a plan.
pub(super) enum Committed {
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

impl ResourceHandle {
    /// Commits a plan; of a dry run only looks whether it could be.
    pub(super) async fn carry_out(
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
            return Ok(Committed::Done(effect.written(None, None, rules)));
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
                Ok(Committed::Done(self.committed(effect, revision, rules)))
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
                Ok(Committed::Done(self.committed(effect, at, rules)))
            }
            Err(error) => Err(error),
        }
    }

    /// The answer to a write that was committed. By now memory has its object, nearly always, with all that was read out of it.
    fn committed(&self, effect: Effect, at: Revision, rules: &Rules) -> Written {
        let known = match &effect {
            Effect::Create(planned) | Effect::Put(planned, _) => self.known(&planned.key, at),
            Effect::Finish(..) | Effect::End(..) | Effect::Remove(_) => None,
        };
        effect.written(Some(at), known, rules)
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
}

pub(super) fn written(planned: Planned, revision: Revision, outcome: Outcome, rules: &Rules) -> Written {
    answered(planned, None, revision, outcome, rules)
}

fn answered(
    planned: Planned,
    known: Option<Arc<StoredObject>>,
    revision: Revision,
    outcome: Outcome,
    rules: &Rules,
) -> Written {
    let made = || Arc::new(StoredObject::written(&planned.key, &planned.sealed, revision));
    Written {
        object: known.unwrap_or_else(made),
        spec: Arc::clone(&rules.spec),
        warnings: planned.warnings,
        outcome,
    }
}

pub(super) fn as_stored(current: &Arc<StoredObject>, outcome: Outcome, rules: &Rules) -> Written {
    Written { object: Arc::clone(current), spec: Arc::clone(&rules.spec), warnings: Vec::new(), outcome }
}
