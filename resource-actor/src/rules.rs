//! The rules that one plan is made under: a type at one revision of its registration, and one of its versions.

use std::sync::Arc;

use crate::error::WriteError;
use kindom_api::User;
use kindom_objects::plugins::Others;
use kindom_objects::stages::Witness;
use kindom_objects::version::{CompiledVersion, VersionSpec};
use kindom_objects::{Allocation, PlanError, RuleContext, TypeSpec};

use crate::handle::Freshness;
use crate::request::Target;

pub(crate) struct Rules {
    pub(crate) spec: Arc<TypeSpec>,
    compiled: Arc<CompiledVersion>,
    version_at: usize,
    now: String,
    /// The freshness that the state has to have that the plan is made on.
    pub(crate) freshness: Freshness,
}

impl Rules {
    /// # Errors
    /// [`WriteError::Gone`] for a version that is not served.
    pub(crate) fn new(
        spec: Arc<TypeSpec>,
        version: &str,
        now: String,
        freshness: Freshness,
    ) -> Result<Self, WriteError> {
        let at = spec.versions.iter().position(|v| v.name == version && v.served).ok_or(WriteError::Gone)?;
        let version = spec.versions.get(at).ok_or(WriteError::Gone)?;
        let compiled = spec.compiled(version).map_err(PlanError::Internal)?;
        Ok(Self { compiled, version_at: at, now, spec, freshness })
    }

    /// The time of the write.
    pub(crate) fn now(&self) -> &str {
        &self.now
    }

    pub(crate) fn version(&self) -> Result<&VersionSpec, WriteError> {
        self.spec.versions.get(self.version_at).ok_or(WriteError::Gone)
    }

    pub(crate) fn context<'a>(
        &'a self,
        target: &Target<'a>,
        user: &'a User,
        allocation: &'a Allocation,
        others: &'a Others,
        witness: Option<&'a dyn Witness>,
    ) -> RuleContext<'a> {
        RuleContext {
            spec: &self.spec,
            version: &self.compiled,
            version_name: target.version,
            subresource: target.subresource,
            user,
            now: &self.now,
            allocation,
            others,
            witness,
        }
    }
}
