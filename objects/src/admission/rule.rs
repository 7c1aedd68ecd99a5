//! The rules by which webhooks and policies name what they are about (`predicates/rules/rules.go`).

use kindom_api::{GroupVersionResource, Value};

use super::Attributes;

/// A rule of a webhook or a policy.
#[derive(Debug)]
pub(super) struct MatchRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// With their subresources.
    resources: Vec<(String, String)>,
    scope: String,
    /// The names of objects; empty for all.
    names: Vec<String>,
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    let items = rule.get(field).and_then(Value::as_array).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(wanted: &[String], found: &str) -> bool {
    wanted.iter().any(|wanted| is(wanted, found))
}

fn is(wanted: &str, found: &str) -> bool {
    wanted == "*" || wanted == found
}

impl MatchRule {
    /// That of a configuration, which was validated when it was written.
    pub(super) fn of(rule: &Value) -> Self {
        let split = |resource: String| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource, String::new()),
        };
        Self {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources").into_iter().map(split).collect(),
            scope: rule.text_at(&["scope"]).to_owned(),
            names: texts(rule, "resourceNames"),
        }
    }

    /// Returns true if it names the operation of a write on this resource, which the write's is, or is equivalent to.
    pub(super) fn matches(&self, attributes: &Attributes<'_>, resource: &GroupVersionResource) -> bool {
        self.is_in_scope(attributes, resource)
            && has(&self.operations, attributes.operation.as_str())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(wanted, subresource)| {
                is(wanted, &resource.resource) && is(subresource, attributes.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }

    fn is_in_scope(&self, attributes: &Attributes<'_>, resource: &GroupVersionResource) -> bool {
        let is_namespace =
            resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces";
        let is_namespaced = !is_namespace && !attributes.namespace.is_empty();
        match self.scope.as_str() {
            "" | "*" => true,
            "Namespaced" => is_namespaced,
            "Cluster" => !is_namespaced,
            _ => false,
        }
    }
}
