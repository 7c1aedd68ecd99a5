//! Objects, and the planning of their writes: kinds and their rules, stored values, versions, plans. Pure: it knows no
//! actor, no clock and no store.
//!
//! # Sources
//! apiserver `pkg/registry/rest`, `pkg/registry/generic/registry/store.go`; apiextensions `pkg/registry/customresource`,
//! `pkg/apiserver/customresource_handler.go` (1.37), for behaviour.

pub mod admission;
pub mod canonical_forms;
mod catalogue;
mod confinement;
pub mod conversion;
pub mod conversion_rules;
mod convert;
mod declared;
pub mod declared_subresources;
pub mod error;
mod field_path;
#[cfg(test)]
mod fuzz;
pub mod holdings;
pub mod kind;
pub mod kinds;
mod made;
pub mod managed;
pub mod metadata;
mod names;
mod object;
pub mod owner_references;
pub mod parameters;
pub mod pipeline;
pub mod plan;
pub mod plugins;
mod propagation;
mod published;
pub mod rbac;
pub mod registration;
pub mod render;
pub mod review;
pub mod seal;
pub mod sorted_lists;
pub mod stages;
mod stored_registration;
mod subresource;
pub mod version;
pub mod webhook_client;
pub mod webhook_conversion;

pub use conversion::{Conversion, Converter, Faces};
pub use convert::Convert;
pub use declared::Declared;
pub use error::{FieldConflict, PlanError, Refusal, Unreadable};
pub use holdings::{Allocation, Holdings, HoldingsChange};
pub use kind::{BuiltInVersion, Deletion, NeedsEmpty, ReadValue, RuleContext, Strategy, TypeSpec};
pub use kindom_managed_fields::ConvertError;
pub use kinds::CustomObjects;
pub use managed::{SERVER, manage_status};
pub use metadata::keep_reset;
pub use names::{Names, Scope};
pub use object::{StoredObject, Translated};
pub use plan::{FOREGROUND, ORPHAN, Removal, has_finalizer, held_by, mark_deleted};
pub use propagation::Propagation;
pub use stored_registration::{StoredCondition, StoredRegistration};
pub use subresource::{Subresource, SubresourceName};
pub use version::VersionSpec;
