//! The roles and bindings that every server has, and the cluster roles whose rules are those of others.

mod aggregated;
mod aggregation;
mod bootstrap;
mod reconciled;
mod types;

pub use aggregation::start as cluster_role_aggregation;
pub use bootstrap::{DefaultRoles, start as default_roles};
pub use types::RoleTypes;
