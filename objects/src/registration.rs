//! The parts that a type takes from its registration: names, scope, and the settings in its annotations.

use std::sync::Arc;

use kindom_api::Value;
use kindom_storage_model::Key;

use crate::StoredObject;
use crate::sorted_lists::SortedLists;

/// The names of a type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// As in the path: `widgets`.
    pub plural: String,
    /// For command lines: `widget`.
    pub singular: String,
    /// As in `kind`: `Widget`.
    pub kind: String,
    /// As in a list's `kind`: `WidgetList`.
    pub list_kind: String,
    /// Abbreviations: `wd`.
    pub short_names: Vec<String>,
    /// Groups such as `all`.
    pub categories: Vec<String>,
}

impl Names {
    /// The usual names of a built-in kind: `leases`, `lease`, `Lease`, `LeaseList`.
    #[must_use]
    pub fn of_kind(plural: &str, kind: &str) -> Self {
        Self {
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            ..Self::default()
        }
    }

    /// Reads `spec.names` or `status.acceptedNames` of a registration. An absent name is empty.
    #[must_use]
    pub fn from_value(names: Option<&Value>) -> Self {
        let text =
            |field| names.and_then(|n| n.get(field)).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |field| {
            let items = names.and_then(|n| n.get(field)).and_then(Value::as_array).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }
}

/// The scope of a type's objects: in namespaces, or in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// At cluster scope.
    Cluster,
}

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
}

/// The annotation of a registration whose value `"true"` freezes its objects: writes to them are refused (T-54).
pub const READ_ONLY_ANNOTATION: &str = "kindom.dev/read-only";

/// The annotation of a registration whose value [`GENERATION_OF_SPEC`] makes `generation` count changes of `spec` alone, as
/// was proposed (S-03, S-27); it holds for types registered in a way that was only proposed without being said.
pub const GENERATION_ANNOTATION: &str = "kindom.dev/generation";
/// Its one value.
pub const GENERATION_OF_SPEC: &str = "spec";
