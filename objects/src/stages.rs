//! The stages of a write, and the witness that is told of each.

use kindom_api::Value;

/// A stage of a write: those of [`pipeline`](crate::pipeline) by their names, and before them what the object comes from.
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
    /// A plugin, a policy, a webhook or a quota was asked about the object.
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

/// The name by which the plugins of a kind take part in a stage.
pub const PLUGINS: &str = "plugins";

/// Sees the stages of a write.
pub trait Witness: Send + Sync {
    /// A stage has passed, or failed at `by`. `by` names the plugin, policy or webhook that was asked, and is empty for the server
    /// itself. `object` is the object after the stage; `None` where it is as before.
    fn passed(&self, stage: Stage, by: &str, object: Option<&Value>);

    /// From here on the object has another form.
    fn reshaped(&self, object: &Value);
}
