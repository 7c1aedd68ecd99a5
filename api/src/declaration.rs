//! A built-in kind as clients see it, declared once: its JSON and what strategic merge patches make of it, its protobuf, and
//! its published schema, by which server-side apply merges too.

use crate::decode::Struct;

/// A built-in kind in one of its versions.
#[derive(Debug)]
pub struct Declaration {
    /// `coordination.k8s.io/v1`
    pub api_version: &'static str,
    /// `Lease`
    pub kind: &'static str,
    /// The package of its Go type, by which upstream names its published schemas: `k8s.io/api/coordination/v1`.
    pub go_package: &'static str,
    /// Its Go type, with the numbers of its fields in protobuf and their descriptions.
    pub shape: &'static Struct,
}

impl Declaration {
    /// The prefix of the names of its schemas: `io.k8s.api.coordination.v1.` (kube-openapi `pkg/util`,
    /// `ToRESTFriendlyName`).
    ///
    /// ```
    /// use kindom_api::declaration::Declaration;
    /// use kindom_api::decode::Struct;
    /// static SHAPE: Struct = Struct::new("v1.Lease", &[]);
    /// let lease = Declaration {
    ///     api_version: "coordination.k8s.io/v1",
    ///     kind: "Lease",
    ///     go_package: "k8s.io/api/coordination/v1",
    ///     shape: &SHAPE,
    /// };
    /// assert_eq!(lease.schema_prefix(), "io.k8s.api.coordination.v1.");
    /// ```
    #[must_use]
    pub fn schema_prefix(&self) -> String {
        prefix(self.go_package)
    }

    /// The name of the published schema of a struct in it.
    #[must_use]
    pub fn schema_name(&self, of: &Struct) -> String {
        let package = if of.go_package.is_empty() { self.go_package } else { of.go_package };
        format!("{}{}", prefix(package), of.name())
    }
}

fn prefix(go_package: &str) -> String {
    let (host, path) = go_package.split_once('/').unwrap_or((go_package, ""));
    let host: Vec<&str> = host.rsplit('.').collect();
    format!("{}.{}.", host.join("."), path.replace('/', "."))
}
