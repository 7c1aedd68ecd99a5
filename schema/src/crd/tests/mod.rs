//! Registrations that break one rule each, and the errors.

mod corpus;
#[path = "../../../tests/schema/corpus_folder.rs"]
mod corpus_folder;
mod random;
mod recorded;
mod recorded_v1beta1;
mod rules;
