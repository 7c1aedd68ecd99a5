//! Registrations that break one rule each, and what is said about them.

mod corpus;
#[path = "../../../tests/schema/corpus_folder.rs"]
mod corpus_folder;
mod random;
mod recorded;
mod recorded_v1beta1;
mod rules;
