//! Metadata of objects and lists: its types, its decoding and its validation (apimachinery `pkg/apis/meta/v1`, 1.37).

pub mod names;
pub mod time;
mod types;
mod validate;

pub use types::{
    Condition, ListMeta, MANAGED_FIELDS_ENTRY, OBJECT_META, OWNER_REFERENCE, ObjectMeta, OwnerReference,
    coerce_metadata, decode_metadata, drop_malformed, find_condition, is_condition_true, repair_metadata,
    set_condition,
};
pub use validate::{
    NameValidator, validate_annotations, validate_labels, validate_object_meta, validate_object_meta_update,
};
