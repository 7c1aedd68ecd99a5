//! The kinds that there are: registered ones, registrations themselves, and namespaces.

mod custom;
pub mod namespace;
pub mod registration;

pub use custom::CustomObjects;
