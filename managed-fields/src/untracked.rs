//! Merging without managers, as policies change objects (apiserver `pkg/admission/plugin/policy/mutating/patch/smd.go`, 1.37).

use kindom_api::Value;
use kindom_schema::merge::{ListRelation, MergeType};

use crate::PathElement;
use crate::typed::{Duplicates, merge, validate, validate_object};

/// An object with what a configuration of its type says. Nobody manages the fields; managedFields stay as they are.
///
/// # Errors
/// Either is not of the type, or the configuration has a list, map or struct that can only be replaced as a whole.
pub fn merge_untracked(object: &Value, configuration: &Value, ty: MergeType<'_>) -> Result<Value, String> {
    validate(configuration, ty, Duplicates::Refused)
        .map_err(|errors| format!("failed to convert patch object to typed object: {errors}"))?;
    let mut found = Atomics::default();
    found.walk(configuration, ty);
    if !found.paths.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            found.paths.join(", ")
        ));
    }
    validate_object(object, ty, Duplicates::Allowed, None)
        .map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    merge(object, configuration, ty).map_err(|errors| format!("failed to merge patch: {errors}"))
}

/// The most bytes of the places that an error names.
const PATHS_BYTES_MAX: usize = 16 << 10;

/// The places of a value that are atomic (`findAtomics`).
#[derive(Default)]
struct Atomics {
    /// From the root to the present place.
    path: String,
    paths: Vec<String>,
    /// Of the paths.
    bytes: usize,
}

impl Atomics {
    fn found(&mut self) {
        let bytes = self.bytes.saturating_add(self.path.len() + 1);
        if self.paths.is_empty() || bytes <= PATHS_BYTES_MAX {
            self.bytes = bytes;
            self.paths.push(self.path.clone());
        }
    }

    fn below(&mut self, step: &PathElement<'_>, value: &Value, ty: MergeType<'_>) {
        let before = self.path.len();
        self.path.push_str(&step.to_string());
        self.walk(value, ty);
        self.path.truncate(before);
    }

    /// It is as deep as the value.
    fn walk(&mut self, value: &Value, ty: MergeType<'_>) {
        match (value, ty.map(), ty.list()) {
            (Value::Object(map), Some(ty), _) => {
                if ty.is_atomic() {
                    self.found();
                }
                for (name, value) in map.iter() {
                    // Only fields that the type names are looked into.
                    if let Some(ty) = ty.field(name) {
                        self.below(&PathElement::Field(name), value, ty);
                    }
                }
            }
            (Value::Array(items), _, Some(ty)) => {
                if matches!(ty.relation(), ListRelation::Atomic) {
                    self.found();
                }
                for (index, item) in items.iter().enumerate() {
                    let index = PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX));
                    self.below(&index, item, ty.element());
                }
            }
            _ => {}
        }
    }
}
