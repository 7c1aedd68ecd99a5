//! Objects that a type's webhook, or the program, converts before they are selected or written, as neither can wait.

use std::sync::Arc;

use kindom_actor_kit::{Held, turn};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, render};

use crate::call::Call;
use crate::cost;
use crate::status::{Failure, unreadable_object};

/// The bytes of the objects that the converter is asked about before the processor and the budget are.
const AT_ONCE: usize = 512 << 10;

/// Adds the answers of the type's converter to all that these objects ask of it, in the version of a request.
///
/// # Errors
/// That of the first object that cannot be converted; no further ones are asked about.
pub(crate) async fn convert_ahead<'o>(
    call: &Call<'_>,
    objects: impl Iterator<Item = &'o Arc<StoredObject>>,
    conversions: &mut Conversions,
    held: &mut Held,
) -> Result<(), Failure> {
    let (spec, version) = (&*call.spec, call.version()?);
    let others = objects.filter(|object| !render::is_copied(spec, version, object));
    let others: Vec<&Arc<StoredObject>> = others.collect();
    let mut left = others.as_slice();
    while !left.is_empty() {
        let (mut bytes, before) = (0, conversions.bytes());
        let fitting = left.iter().take_while(|object| {
            bytes += object.json().len();
            bytes <= AT_ONCE
        });
        let (some, behind) = left.split_at(fitting.count().max(1));
        left = behind;
        turn(cost::parse(bytes)).await;
        let see = || some.iter().for_each(|object| drop(render::internal(spec, version, object)));
        call.handle.convert_ahead(spec, conversions, call.deadline, see).await;
        if conversions.has_failed() {
            turn(cost::parse(bytes)).await;
            let shown = |object: &&Arc<StoredObject>| render::internal(spec, version, object).map(drop);
            let failed = conversions.during(|| some.iter().try_for_each(shown));
            failed.map_err(|why| unreadable_object(call.resource(), why.into()))?;
        }
        held.grow(conversions.bytes() - before)?;
    }
    Ok(())
}
