//! The names and the scope of a type.

use kindom_api::Value;

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
