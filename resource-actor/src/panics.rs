//! The call of a type's rules, which may be a program's own (`kindom_objects::kinds::typed`) and have bugs of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kindom_actor_kit::foreign;
use kindom_objects::{PlanError, TypeSpec};

use crate::error::WriteError;

/// The reason of a 500. The place and the text of the panic are in the log.
const PANICKED: &str = "a rule of this type panicked; the server's log says where";

/// Runs a step that calls a type's rules. A panic in it is an error of the write that it is a step of; whatever the step changed goes
/// with the write. Rules of a program's own may take for ever, too.
pub(crate) fn caught<T, E>(spec: &TypeSpec, step: impl FnOnce() -> Result<T, E>) -> Result<T, WriteError>
where
    WriteError: From<E>,
{
    let step = || if spec.strategy.is_of_program() { foreign(&spec.prefix, step) } else { Ok(step()) };
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => Ok(done??),
        Err(_) => Err(PlanError::Internal(PANICKED.to_owned()).into()),
    }
}
