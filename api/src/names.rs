//! Names of groups, versions, kinds and resources.

use std::cmp::Reverse;
use std::fmt;

/// A resource of a group: `widgets` in `example.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural resource name.
    pub resource: String,
}

impl GroupResource {
    /// The resource of a group.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// `widgets.example.com`, or `namespaces` in the core group.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// A kind of a group: `Widget` in `example.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// `Widget.example.com`, or `Namespace` in the core group.
impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// A kind in a version of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl GroupVersionKind {
    /// The kind in a version of a group.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The text of `apiVersion`: `example.com/v1`, or `v1` in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Without the version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

/// A resource in a version of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
}

impl GroupVersionResource {
    /// The resource in a version of a group.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Without the version.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.resource.clone())
    }
}

/// The text of `apiVersion` for a version of a group: `example.com/v1`, or `v1` in the core group.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The group and version of an `apiVersion`; none if it has more than one slash.
#[must_use]
pub fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((_, version)) if version.contains('/') => None,
        Some((group, version)) => Some((group, version)),
    }
}

/// Orders versions as Kubernetes prefers them (apimachinery `pkg/version`): GA, then beta, then alpha, the higher
/// numbers first in each; then all others by name.
///
/// ```
/// let mut versions = ["v1beta1", "foo1", "v10", "v2", "v11alpha2", "v1", "v3beta1"];
/// versions.sort_by_key(|v| kindom_api::names::version_order(v));
/// assert_eq!(versions, ["v10", "v2", "v1", "v3beta1", "v1beta1", "v11alpha2", "foo1"]);
/// ```
#[must_use]
pub fn version_order(version: &str) -> impl Ord + use<> {
    let parsed = kube_version(version);
    (parsed.is_none(), Reverse(parsed), version.to_owned())
}

/// Returns true if a version has one of the forms `v1`, `v1beta1` and `v1alpha1` (B-13).
#[must_use]
pub fn is_kube_version(version: &str) -> bool {
    kube_version(version).is_some()
}

/// `v1`, `v1beta1`, `v1alpha1`: stability, major, minor.
fn kube_version(version: &str) -> Option<(u8, u64, u64)> {
    fn number(text: &str) -> Option<u64> {
        // No leading zero, no sign.
        if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        text.parse().ok()
    }
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}
