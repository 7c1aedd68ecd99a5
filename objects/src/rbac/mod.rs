//! What roles and their bindings permit (`--authorization-mode=RBAC`). Pure; the objects themselves are declared in
//! `kinds/rbac`, and `resource-actor` keeps what is compiled of them.

pub mod coverage;
mod grants;
mod matching;

pub use grants::{
    BindingIndex, Grant, MissingRole, Role, RoleBinding, RoleIndex, RoleRef, RoleScope, aggregate,
};
pub use matching::Wish;
