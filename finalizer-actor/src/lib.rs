//! Empties what is being deleted: the objects of a registration, the content of a namespace. And brings the objects of a
//! type to its storage version (`storage_version`).
//!
//! **Owns** the condition `Terminating` of registrations and the deletion conditions of namespaces, the rules of
//! namespaces as objects, and the removal of both; and takes versions out of `status.storedVersions`.
//!
//! **Messages:** none; its two loops are woken by the registry, by namespaces, and by what they drain or rewrite.
//!
//! # Invariants
//! - A reconciler: it takes no input, and whatever it was told before a fall does not matter.
//! - A registration goes in one transaction with "it has not changed" and "no key is left under its prefix".
//! - A namespace goes after its content: what is created in it is guarded by its revision, so nothing lands once it is
//!   marked.
//! - A drain holds one page of objects in memory and wakes no type that is asleep; the removal of a finalizer costs no
//!   pass over the rest.
//! - Every deletion of a drain happens only under the registration, and in the namespace, that it was meant for.
//! - Progress is told some tens of times, however many objects there are (`progress.rs`).

mod drain;
mod namespace;
mod progress;
mod reconciler;
mod registration;
mod rules;
pub mod storage_version;
mod works;

pub use reconciler::start;
pub use rules::{STANDARD_NAMESPACES, namespaces, standard_namespace};
