//! Scale, `autoscaling/v1`: the object that `/scale` reads and writes.

use crate::Value;
use crate::decode::{DecodeError, Decoded, Field, Shape, Struct};
use crate::meta::OBJECT_META;

/// Its API group.
pub const GROUP: &str = "autoscaling";
/// Its version.
pub const VERSION: &str = "v1";
/// Its `apiVersion`.
pub const API_VERSION: &str = "autoscaling/v1";
/// Its `kind`.
pub const KIND: &str = "Scale";

const STRING: Shape = Shape::String("string");

/// The shape of `Scale`.
pub static SCALE: Struct = Struct::new(
    "v1.Scale",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        // Without `omitempty`'s effect, since they are structs.
        Field::always("metadata", Shape::Struct(&OBJECT_META)),
        Field::always("spec", Shape::Struct(&SPEC)),
        Field::always("status", Shape::Struct(&STATUS)),
    ],
);

static SPEC: Struct = Struct::new("v1.ScaleSpec", &[Field::new("replicas", Shape::Int32)]);

static STATUS: Struct =
    Struct::new("v1.ScaleStatus", &[Field::always("replicas", Shape::Int32), Field::new("selector", STRING)]);

/// Reads a Scale as Go does: `spec.replicas` is left out where it is 0.
///
/// ```
/// let tree = kindom_api::json::parse(br#"{"spec":{"replicas":3,"x":1},"status":{"replicas":0}}"#)?;
/// let scale = kindom_api::scale::decode(&tree)?;
/// assert_eq!(scale.value.to_string(), r#"{"metadata":{},"spec":{"replicas":3},"status":{"replicas":0}}"#);
/// assert_eq!(scale.unknown_fields, ["spec.x"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A value of the wrong type, with Go's text.
pub fn decode(tree: &Value) -> Result<Decoded, DecodeError> {
    SCALE.decode(tree)
}

/// `spec.replicas` of a decoded Scale.
#[must_use]
pub fn replicas(scale: &Value) -> i32 {
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64);
    replicas.and_then(|n| i32::try_from(n).ok()).unwrap_or(0)
}
