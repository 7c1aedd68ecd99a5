//! The Common Expression Language as Kubernetes speaks it.
//!
//! **Owns** expressions: their syntax ([`parse`]), their types ([`check`]), the estimate of their cost ([`cost`]), their
//! values ([`eval`]) and the functions that they may call ([`library`]). Values are the server's own tree, seen through the
//! [`shape`] that a schema gives them; nothing is converted beforehand. **Deliberately absent:** schemas, registrations, and
//! the places at which expressions stand.
//!
//! Sources: `github.com/google/cel-go` 0.29 and `k8s.io/apiserver/pkg/cel`, 1.37, with the environment of 1.37
//! (`environment/base.go`) for every expression.

pub mod ast;
pub mod check;
pub mod cost;
pub mod decl;
pub mod eval;
pub mod library;
pub mod parse;
pub mod shape;
pub mod types;
pub mod value;
