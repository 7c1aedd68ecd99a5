//! The stages of a write as they pass, for whoever explains the write.

use kindom_api::Value;

use crate::RuleContext;

/// A stage of a write, by the names and in the order of [`pipeline`](crate::pipeline).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The stored object is shown in the version of the request.
    Read,
    /// A body has become an object.
    Decode,
    /// A patch or a configuration has changed the stored object.
    Patch,
    /// The object has the version's shape, and its defaults.
    Default,
    /// The fields have their managers.
    Manage,
    /// A plugin, a policy or a webhook may have changed the object.
    Mutate,
    /// The server's own fields are set.
    Prepare,
    /// Nothing is wrong in the object, nor in the change.
    Validate,
    /// The object has its canonical form.
    Canonicalize,
    /// A plugin, a policy, a webhook or a quota has let the object pass.
    Judge,
    /// The object has become bytes.
    Encode,
}

impl Stage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Decode => "decode",
            Self::Patch => "patch",
            Self::Default => "default",
            Self::Manage => "manage",
            Self::Mutate => "admit (mutating)",
            Self::Prepare => "prepare",
            Self::Validate => "validate",
            Self::Canonicalize => "canonicalize",
            Self::Judge => "admit (validating)",
            Self::Encode => "encode",
        }
    }
}

/// The plugins of a kind, as one that admits.
pub const PLUGINS: &str = "plugins";

/// Sees the stages of a write.
pub trait Witness: Send + Sync {
    /// A stage has passed. `by` names one of several that have a part in it, and is empty for the server itself. `object` is what
    /// the stage has left; `None` for a stage that changes none.
    fn passed(&self, stage: Stage, by: &str, object: Option<&Value>);
}

impl RuleContext<'_> {
    /// Tells that a stage has passed.
    pub fn passed(&self, stage: Stage, object: Option<&Value>) {
        self.passed_by(stage, || String::new(), object);
    }

    /// Tells that one of several that have a part in a stage has played it.
    pub fn passed_by(&self, stage: Stage, by: impl FnOnce() -> String, object: Option<&Value>) {
        if let Some(witness) = self.witness {
            witness.passed(stage, &by(), object);
        }
    }
}
