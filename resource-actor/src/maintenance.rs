//! Writes of objects as they are stored, whatever version they are in: drains, and rewrites in the storage version.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::Deadline;
use kindom_api::{User, meta};
use kindom_storage::{Compare, Op, RangeRequest, Txn, TxnOutcome};

use crate::ResourceHandle;
use crate::driver::registration;
use crate::error::{WriteError, refuse_loss};
use crate::handle::Freshness;
use crate::request::Target;
use crate::rules::Rules;
use kindom_objects::holdings::{Allocation, Holdings, NOTHING};
use kindom_objects::plan::{self, DrainPlan};
use kindom_objects::plugins::Others;
use kindom_objects::render::{refresh, restored, stored};
use kindom_objects::seal::{NO_SHAPE, Sealed};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Converter, StoredObject, TypeSpec};

/// The state of an object after one step of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// It is gone.
    Gone,
    /// These finalizers hold it.
    Held(Vec<String>),
    /// The object changed; its present state has to be read.
    LookAgain,
}

/// The state of an object after it was to be rewritten in the storage version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewritten {
    /// It is stored in the storage version now.
    Current,
    /// The object, or the registration, changed; the present state has to be read.
    LookAgain,
    /// The stored bytes are no object of this type, so they stay as they are; with the reason.
    Undecodable(String),
}

impl ResourceHandle {
    /// Deletes an object that was read from the store, whatever version it is in, or marks it as being deleted where
    /// finalizers hold it; for drains. Bytes that are no object are deleted. It happens only while the registration is the
    /// one that is known here, and if `guards` hold too: a drain that lags behind must not empty a later type or namespace
    /// of the same name. A type that is asleep stays asleep.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete_stored(
        &self,
        object: &StoredObject,
        guards: &[Compare],
        deadline: Deadline,
    ) -> Result<Drained, WriteError> {
        let seconds = self.deps().clock.unix_seconds();
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let key = self.storage_key(object.key());
        let mut compares = vec![Compare::mod_is(&key, object.revision())];
        compares.extend(registration(&spec));
        compares.extend_from_slice(guards);
        let mut ops = Vec::new();
        let op = match plan::drain(object, &meta::time::format(seconds)) {
            DrainPlan::Held(finalizers) => return Ok(Drained::Held(finalizers)),
            DrainPlan::Delete => {
                let released = holdings(&spec, object, String::new(), &NOTHING);
                ops = released.into_keys().map(Op::Delete).collect();
                Op::Delete(key)
            }
            DrainPlan::Mark(mut tree) => {
                refuse_loss(object)?;
                let shape = match refresh(&spec, object, &mut tree) {
                    Ok(()) => spec.version_of(object).map_or(NO_SHAPE, |version| version.shape),
                    Err(error) => {
                        tracing::warn!(error, key = object.key(), "an object is marked as it is stored");
                        NO_SHAPE
                    }
                };
                Op::Put(key, Sealed::new(tree.to_vec(), shape).value())
            }
        };
        let gone = matches!(op, Op::Delete(_));
        ops.push(op);
        match self.commit_quietly(Txn { compares, ops }, deadline).await? {
            TxnOutcome::Committed { .. } if gone => Ok(Drained::Gone),
            TxnOutcome::Committed { .. } | TxnOutcome::Failed { .. } => Ok(Drained::LookAgain),
        }
    }

    /// Gives an object that was read from the store those of its holdings that nobody holds.
    ///
    /// # Errors
    /// See [`WriteError`]; holdings that were taken before it stay.
    pub async fn hold(&self, object: &StoredObject, deadline: Deadline) -> Result<(), WriteError> {
        let spec = self.spec().ok_or(WriteError::Gone)?;
        let now = meta::time::format(self.deps().clock.unix_seconds());
        let allocation = Allocation { seed: self.deps().entropy.uuid_v4(), ..Allocation::default() };
        let key = self.storage_key(object.key());
        for (holding, value) in holdings(&spec, object, now, &allocation) {
            let held = RangeRequest { keys_only: true, ..RangeRequest::single(&holding) };
            if !self.deps().storage.range(held).await?.kvs.is_empty() {
                continue;
            }
            let compares = vec![Compare::mod_is(&key, object.revision()), Compare::absent(&holding)];
            let txn = Txn { compares, ops: vec![Op::Put(holding.clone(), value)] };
            if let TxnOutcome::Committed { .. } = self.commit_quietly(txn, deadline).await? {
                tracing::info!(%holding, object = object.key(), "an object got a holding that it lacked");
            }
        }
        Ok(())
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
        let restored = match spec.converter() {
            Some(Converter::Program(_)) => {
                let (conversions, run) = (&mut Conversions::default(), (deadline, Duration::ZERO));
                let restored = self.converting(&spec, conversions, run, || restored(&spec, object)).await;
                if let (Err(why), true) = (&restored, deadline.passed()) {
                    return Err(WriteError::Unavailable(why.clone()));
                }
                restored
            }
            _ => restored(&spec, object),
        };
        let sealed = match restored {
            Ok(Some(sealed)) => sealed,
            Ok(None) => return Ok(Rewritten::Current),
            Err(why) => return Ok(Rewritten::Undecodable(why)),
        };
        let key = self.storage_key(object.key());
        let mut compares = vec![Compare::mod_is(&key, object.revision())];
        compares.extend(registration(&spec));
        match self.commit_quietly(Txn { compares, ops: vec![Op::Put(key, sealed.value())] }, deadline).await?
        {
            TxnOutcome::Committed { .. } => Ok(Rewritten::Current),
            TxnOutcome::Failed { .. } => Ok(Rewritten::LookAgain),
        }
    }
}

/// The holdings of an object; none of one that cannot be read.
fn holdings(spec: &Arc<TypeSpec>, object: &StoredObject, now: String, allocation: &Allocation) -> Holdings {
    if !spec.strategy.has_holdings() {
        return Holdings::new();
    }
    let holdings = || -> Option<Holdings> {
        let tree = stored(&spec.prefix, object).ok()?;
        let version = spec.storage()?.name.clone();
        let rules = Rules::new(Arc::clone(spec), &version, now, Freshness::Any).ok()?;
        let target = Target { version: &version, subresource: None, namespace: None, name: object.name() };
        let user = User::api_server();
        Some(spec.strategy.holdings(&rules.context(&target, &user, allocation, Others::NONE, None), &tree))
    };
    holdings().unwrap_or_default()
}
