//! The one path of every write of an object: read, desire, plan, commit, and all again after a lost race.
//!
//! **Flow.** [`ResourceHandle::run`] reads the rules in force and the stored object and asks the write for the desired
//! state ([`attempt`]); a plan turns that into bytes, or into nothing to do ([`step`]); a transaction commits it, under the
//! conditions that the plan was made on ([`committing`]). If another write was faster, everything but the client's request is read
//! again. Only reading, the look at the namespace, the turn at a processor, webhooks and the commit wait; a write's desire and its plan
//! do not.
//!
//! **Errors.** See [`WriteError`]: unless the variant says otherwise, nothing was written.

mod attempt;
mod committing;
mod step;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kindom_actor_kit::{DEAR, Deadline, back, dear};
use kindom_api::meta;
use kindom_storage::{Key, RangeRequest};

use self::committing::{Committed, Guard};
use crate::ResourceHandle;
use crate::admitting::signer_asked;
use crate::cost::{self, Spent};
use crate::error::{ReadError, WriteError};
use crate::explanation::Explanation;
use crate::handle::Freshness;
use crate::panics::caught;
use crate::request::{Knowledge, Target, WriteOptions, Written};
use crate::rules::Rules;
use kindom_objects::plugins::{Others, Plugins};
use kindom_objects::stages::Witness;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Allocation, PlanError, RuleContext, StoredObject, Subresource, TypeSpec};

pub(crate) use self::attempt::{Attempt, Desired, New, Scales};
pub(crate) use self::committing::registration;
pub(crate) use self::step::Step;

/// The most tries of a create with generateName when the generated name is taken (KEP-4420).
const GENERATED_NAME_TRIES: usize = 8;

/// The holdings that a write tries to take before it asks for all that are held.
const GUESSES_AT_HOLDINGS: usize = 8;

/// The times that a write takes longer when each stage is compared with the one before.
const EXPLAINED: u32 = 3;

/// Called once an attempt; the result of an earlier attempt no longer counts.
pub(crate) type Desire<'a, 'd> = dyn FnMut(&Attempt<'_>) -> Result<Desired<'d>, WriteError> + Send + 'a;

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

/// The attempts of one write so far.
struct Tries {
    /// Its object may be stored without managedFields, if it is too large with them.
    may_strip: bool,
    /// It was too large.
    strip: bool,
    /// The generated names that were taken.
    names: usize,
    allocation: Allocation,
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
    /// Boxed: otherwise the compiler repeats the code of this future, 100 KB, in that of each caller.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) fn run<'a>(
        &'a self,
        target: &'a Target<'_>,
        options: &'a WriteOptions,
        may_strip: bool,
        desire: &'a mut Desire<'_, '_>,
    ) -> BoxFuture<'a, Result<Written, WriteError>> {
        Box::pin(self.attempts(target, options, may_strip, desire))
    }

    async fn attempts(
        &self,
        target: &Target<'_>,
        options: &WriteOptions,
        may_strip: bool,
        desire: &mut Desire<'_, '_>,
    ) -> Result<Written, WriteError> {
        let key = (!target.name.is_empty()).then(|| TypeSpec::object_key(target.namespace, target.name));
        let mut plans = Plans { knowledge: options.knowledge, first: true };
        let (mut admitted, mut is_counted) = (None, false);
        let allocation = Allocation { dry_run: options.dry_run, ..Allocation::default() };
        let mut tries = Tries { may_strip, strip: false, names: 0, allocation };
        let none = Others::of(options.plugins.as_ref().map_or(Plugins::NONE, |plugins| plugins.on));
        loop {
            tracing::trace!("read the rules and the object, and plan");
            options.record(Explanation::attempt_began);
            // Of the object as it is now: what was converted before has lost a race.
            let mut conversions = Conversions::default();
            let freshness = plans.next()?;
            self.turn_to_compile(target.version).await?;
            let rules = self.rules(target.version, freshness)?;
            if rules.spec.strategy.has_holdings() && tries.allocation.seed.is_empty() {
                tries.allocation.seed = self.deps().entropy.uuid_v4();
            }
            let witness = options.explanation.as_deref().map(|explanation| explanation as &dyn Witness);
            let cx = rules.context(target, &options.user, &tries.allocation, &none, witness);
            refuse_without_part(&cx, target)?;
            let current = match &key {
                Some(key) => self.found(key, &rules, options.deadline).await?,
                None => None,
            };
            let attempt = Attempt { rules: &rules, cx: &cx, current: current.as_ref(), strip: tries.strip };
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
            let run = (options.deadline, estimate);
            let desired = self.planning(&rules.spec, &mut conversions, run, || {
                options.record(Explanation::desire_began);
                spent.on(|| caught(&rules.spec, || desire(&attempt)))
            });
            let mut desired = desired.await?;
            let (others, bytes_of_others) = self.others(&attempt, target, &mut desired, options).await?;
            if bytes_of_others > 0 {
                // A wait for some of them has left the processors.
                spent.grow(bytes_of_others);
                dear(of_rules(spent.estimate())).await?;
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
                }
            }
            let cx = RuleContext { others: others_of_changed.as_ref().unwrap_or(&others), ..cx };
            let attempt = Attempt { cx: &cx, ..attempt };
            options.record(Explanation::plans_follow);
            let may_exist = matches!(&desired, Desired::Create(new) if new.instead_of_update);
            let deletes = matches!(desired, Desired::Delete(_) | Desired::DeleteCorrupt);
            // No webhook could be shown what is no object.
            let is_judged = !matches!(desired, Desired::DeleteCorrupt) && !options.is_trial;
            // Upstream's storage asks before it validates.
            if let Some(asked) = self.escalation_asked(&attempt, target, &desired, options) {
                asked.await?;
                dear(of_rules(spent.estimate())).await?;
            }
            let step = self.plan(&attempt, target, desired, options, &mut conversions, &mut spent).await?;
            if !deletes {
                spent.finished();
            }
            drop(spent);
            let asks = !deletes && !options.is_trial;
            if asks && let Some(asked) = self.parameters_asked(&attempt, &step, target, options) {
                asked.await?;
            }
            if asks && let Some(asked) = self.owners_asked(&attempt, &step, target, options) {
                asked.await?;
            }
            if asks && let Some(asked) = signer_asked(&attempt, &step, target, options) {
                asked.await?;
            }
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
                    let (through, allocation) = (target.subresource, &tries.allocation);
                    self.carry_out(*plan, &rules, through, options, allocation, current.as_ref()).await?
                }
            };
            let ended = self.after(committed, &mut tries, may_exist, &rules.spec, options).await?;
            if let Some(written) = ended {
                return Ok(written);
            }
        }
    }

    /// The end of a write, by that of an attempt; else the write is tried again.
    async fn after(
        &self,
        committed: Committed,
        tries: &mut Tries,
        may_exist: bool,
        spec: &Arc<TypeSpec>,
        options: &WriteOptions,
    ) -> Result<Option<Written>, WriteError> {
        match committed {
            Committed::Done(written) => return Ok(Some(written)),
            Committed::TooLarge(error) if tries.strip || !tries.may_strip => return Err(error),
            Committed::TooLarge(_) => tries.strip = true,
            Committed::Taken { .. } | Committed::Lost(_) | Committed::Held(_)
                if options.knowledge == Knowledge::Guess =>
            {
                return Err(WriteError::Guessed);
            }
            Committed::Taken { name, generated, key } if !may_exist => {
                tries.names += 1;
                // A dry run has not tried to write: the name is taken.
                if !generated || tries.names == GENERATED_NAME_TRIES || options.dry_run {
                    let there = self.get(&key, options.deadline).await?;
                    let deleting = there.is_some_and(|there| there.deleting());
                    return Err(PlanError::AlreadyExists { name, generated, deleting }.into());
                }
            }
            Committed::Taken { .. } => options.refuse_if_late()?,
            Committed::Held(key) => {
                options.refuse_if_late()?;
                self.note_taken(&mut tries.allocation, key).await?;
            }
            Committed::Lost(guard) => {
                options.refuse_if_late()?;
                if guard == Guard::Registration {
                    // It reaches a handle through the registry.
                    self.spec_after(spec, options.deadline).await?;
                }
            }
        }
        Ok(None)
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
    pub(crate) async fn turn_to_compile(&self, version: &str) -> Result<(), WriteError> {
        let bytes = self.spec().map_or(0, |spec| spec.uncompiled_bytes(version));
        Ok(dear(cost::compile(bytes)).await?)
    }

    pub(crate) fn rules(&self, version: &str, freshness: Freshness) -> Result<Rules, WriteError> {
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let seconds = self.deps().clock.unix_seconds();
        Rules::new(spec, version, meta::time::format(seconds), freshness)
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
}
