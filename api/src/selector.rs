//! Selectors: which objects of a list or a watch a client wants.

mod field;
mod label;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelOperator, LabelRequirement, LabelSelector, label_key_errors, label_value_errors};
