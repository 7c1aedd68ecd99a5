//! The rules of roles as authorization reads them.

pub mod coverage;
