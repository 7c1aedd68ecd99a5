//! The parts that a type keeps of its registration: its key and bytes, and the settings in its annotations.

use std::sync::Arc;

use kindom_storage_model::Key;

use crate::StoredObject;
use crate::canonical_forms::CanonicalForms;
use crate::declared_subresources::DeclaredSubresources;
use crate::sorted_lists::SortedLists;

/// The registration that a type comes from.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Its storage key: every write is guarded by it (design, invariant 6).
    pub key: Key,
    /// The registration's own stored bytes, from which schemas are compiled when they are needed.
    pub object: Arc<StoredObject>,
    /// `true` if it is being deleted: nothing is created any more.
    pub terminating: bool,
    /// `true` if its objects are frozen ([`READ_ONLY_ANNOTATION`]).
    pub read_only: bool,
    /// `true` if the proposal's rules hold for its objects, as it was registered as a ThirdPartyResource (T-47, T-53).
    pub third_party: bool,
    /// `true` if `generation` counts changes of `spec` alone ([`GENERATION_ANNOTATION`]).
    pub generation_of_spec: bool,
    /// `true` if the selector of a Scale has to be one, as it was registered in a way that was only proposed (S-24).
    pub valid_selectors: bool,
    /// The lists of its objects that are stored sorted.
    pub sorted_lists: SortedLists,
    /// The forms that values of its objects are stored in.
    pub canonical_forms: CanonicalForms,
    /// The subresources that it declares.
    pub subresources: Arc<DeclaredSubresources>,
}

/// The annotation of a registration whose value `"true"` freezes its objects: writes to them are refused (T-54).
pub const READ_ONLY_ANNOTATION: &str = "kindom.dev/read-only";

/// The annotation of a registration whose value [`GENERATION_OF_SPEC`] makes `generation` count changes of `spec` alone, as
/// was proposed (S-03, S-27); it holds for types registered in a way that was only proposed without being said.
pub const GENERATION_ANNOTATION: &str = "kindom.dev/generation";
/// Its one value.
pub const GENERATION_OF_SPEC: &str = "spec";

/// The annotation of a registration whose value [`CONVERSION_BY_PROGRAM`] says that a program which is compiled with the type has the
/// rules between its versions: no other program converts its objects.
pub const CONVERSION_ANNOTATION: &str = "kindom.dev/conversion";
/// Its one value.
pub const CONVERSION_BY_PROGRAM: &str = "program";
