//! The call of a type's rules, which may be a program's own (`kindom_objects::kinds::typed`) and have bugs of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kindom_objects::PlanError;

use crate::error::WriteError;

/// The reason of a 500. The place and the text of the panic are in the log.
const PANICKED: &str = "a rule of this type panicked; the server's log says where";

/// Runs a step that calls rules. A panic in it is an error of the write that it is a step of; whatever the step changed goes with
/// the write.
pub(crate) fn caught<T, E>(step: impl FnOnce() -> Result<T, E>) -> Result<T, WriteError>
where
    WriteError: From<E>,
{
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => Ok(done?),
        Err(_) => Err(PlanError::Internal(PANICKED.to_owned()).into()),
    }
}
