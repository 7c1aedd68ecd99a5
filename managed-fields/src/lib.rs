//! The managers of an object's fields: `metadata.managedFields`, and server-side apply (KEP-555).
//!
//! **Owns** [`Set`]s of fields and their wire form (`FieldsV1`), the structured merge of objects by their types, and the
//! field manager: the effect of a write on an object's managedFields ([`update`]) and of an apply on an object ([`apply`]).
//! **Deliberately absent:** I/O, async, the storage of objects, and everything else that a write does to one.
//!
//! Sources: `sigs.k8s.io/structured-merge-diff` v6.4.2 and `k8s.io/apimachinery/pkg/util/managedfields`, 0.37.

mod element;
mod entries;
mod fields_v1;
mod manager;
pub mod scale;
mod set;
mod typed;
mod unmanaged;
mod untracked;
mod updater;

pub use element::PathElement;
pub use entries::validate;
pub use manager::{ApplyError, Cause, Scope, apply, keep_times, update};
pub use set::Set;
pub use untracked::merge_untracked;
pub use updater::{ConvertError, Versions};
