//! Empties types and namespaces that are being deleted, and brings the objects of a type to its storage version
//! (`storage_version`). Makes what every namespace has (`provision`), keeps the endpoints of the Service `kubernetes` (`endpoints`)
//! and the ServiceCIDR of that name (`service_cidr`), and fills in the token secrets of service accounts (`account_secrets`).
//! Deletes events some time after their last write (`expiry`). Keeps the statuses of quotas (`quotas`) and of
//! policies (`policy_status`). Makes the default roles, and gives cluster roles the rules of those that they select (`roles`). Keeps
//! the FlowSchemas and levels of flow control (`flow_schemas`), and the PriorityClasses of the system (`priority_classes`).
//!
//! **Owns** the condition `Terminating` of registrations and the deletion conditions of namespaces, and the removal
//! of both; and takes versions out of `status.storedVersions`.
//!
//! **Messages:** none; its loops are woken by the registry, by namespaces, and by the objects that they drain,
//! rewrite or delete.
//!
//! # Invariants
//! - A reconciler: it takes no input, so it loses nothing when it falls.
//! - A registration is removed in one transaction with "it has not changed" and "no key is left under its prefix".
//! - A namespace is removed after its content: every create in it is guarded by its revision, so none succeeds once it
//!   is marked.
//! - A drain holds one page of objects in memory and wakes no type that is asleep; the removal of a finalizer costs no
//!   pass over the rest.
//! - Every deletion of a drain happens only under the registration, and in the namespace, that it was meant for.
//! - Progress is written some tens of times, however many objects there are (`progress.rs`).

pub mod account_secrets;
mod attempt;
mod drain;
pub mod endpoints;
mod error;
pub mod expiry;
pub mod flow_schemas;
mod follower;
pub mod garbage;
pub mod holdings;
mod namespace;
pub mod policy_status;
pub mod priority_classes;
mod progress;
pub mod provision;
pub mod quotas;
mod reconciler;
mod registration;
mod roles;
pub mod service_cidr;
pub mod storage_version;
mod tasks;

pub use reconciler::start;
pub use roles::{DefaultRoles, RoleTypes, cluster_role_aggregation, default_roles};
