//! Discovery documents, plain and aggregated (apiserver `pkg/endpoints/discovery`, 1.37).
//!
//! They are built from a description of the served types, so that discovery may lag behind the routes but never contradicts
//! them.

use std::cmp::Reverse;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use kindom_api::json::{Map, Value};
pub(crate) use kindom_api::names::version_order;
use kindom_api::names::{GroupVersionKind, api_version};

/// A group and its served versions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Group {
    /// Empty for the core group, which is announced under `/api` alone.
    pub(crate) name: String,
    /// Groups with a higher one come first; those of registered types have 1000, as upstream gives them.
    pub(crate) priority: i32,
    /// In any order; the documents put the preferred one first.
    pub(crate) versions: Vec<Version>,
}

/// A version of a group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Version {
    /// `v1`
    pub(crate) name: String,
    /// Of two versions the one with the higher comes first, then the one that Kubernetes prefers by its name.
    pub(crate) priority: i32,
    /// In the order of the documents.
    pub(crate) resources: Vec<Resource>,
    /// Of a version that another server serves: its entry in the aggregated document.
    pub(crate) elsewhere: Option<Value>,
}

/// A resource in a version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resource {
    /// The plural name.
    pub(crate) plural: String,
    /// The singular name.
    pub(crate) singular: String,
    /// `true` if its objects are in namespaces.
    pub(crate) namespaced: bool,
    /// Its objects' kind.
    pub(crate) kind: String,
    /// In the order of the documents.
    pub(crate) verbs: Vec<&'static str>,
    /// May be empty.
    pub(crate) short_names: Vec<String>,
    /// May be empty.
    pub(crate) categories: Vec<String>,
    /// Tells clients whether two servers store the same; see [`storage_version_hash`]. May be empty.
    pub(crate) storage_version_hash: String,
    /// Its subresources.
    pub(crate) subresources: Vec<Subresource>,
    /// `true` if it is a built-in type: the aggregated document then leaves the group and version that it is found under
    /// out of the kinds.
    pub(crate) built_in: bool,
}

/// A subresource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subresource {
    /// `status`
    pub(crate) name: String,
    /// The type that it reads and writes, if it is of another group and version than the resource: `autoscaling/v1 Scale`.
    /// Otherwise group and version are empty.
    pub(crate) kind: GroupVersionKind,
    /// In the order of the documents.
    pub(crate) verbs: Vec<&'static str>,
}

/// The hash that discovery shows for a storage version.
#[must_use]
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(hash.get(..8).unwrap_or_default())
}

impl Group {
    fn sorted(&self) -> Vec<&Version> {
        let mut versions: Vec<&Version> = self.versions.iter().collect();
        versions.sort_by_cached_key(|v| (Reverse(v.priority), version_order(&v.name)));
        versions
    }

    fn to_value(&self) -> Map {
        let version = |version: &&Version| {
            kindom_api::object! {
                "groupVersion": api_version(&self.name, &version.name),
                "version": version.name.as_str(),
            }
        };
        let versions: Vec<Value> = self.sorted().iter().map(version).collect();
        let mut map = Map::new();
        map.insert("name", self.name.as_str());
        map.insert("preferredVersion", versions.first().cloned().unwrap_or_default());
        map.insert("versions", Value::Array(versions.into()));
        map
    }
}

fn sorted(groups: &[Group]) -> Vec<&Group> {
    let mut groups: Vec<&Group> = groups.iter().filter(|g| !g.versions.is_empty()).collect();
    groups.sort_by_key(|g| (Reverse(g.priority), &g.name));
    groups
}

/// `/api`: the versions of the core group. `address` is where clients reach the server: `10.0.0.1:6443`.
#[must_use]
pub(crate) fn api_versions(core: &Group, address: &str) -> Value {
    let names: Vec<&str> = core.sorted().iter().map(|v| v.name.as_str()).collect();
    kindom_api::object! {
        "kind": "APIVersions",
        "versions": names,
        "serverAddressByClientCIDRs": vec![kindom_api::object! {
            "clientCIDR": "0.0.0.0/0",
            "serverAddress": address,
        }],
    }
}

/// `/apis`: all groups but the core group.
#[must_use]
pub(crate) fn api_group_list(groups: &[Group]) -> Value {
    let named = sorted(groups).into_iter().filter(|g| !g.name.is_empty());
    kindom_api::object! {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": Value::Array(named.map(|g| Value::Object(g.to_value())).collect()),
    }
}

/// `/apis/<group>`
#[must_use]
pub(crate) fn api_group(group: &Group) -> Value {
    let mut map = group.to_value();
    map.insert("kind", "APIGroup");
    map.insert("apiVersion", "v1");
    Value::Object(map)
}

/// `/apis/<group>/<version>` and `/api/v1`
#[must_use]
pub(crate) fn api_resource_list(group: &str, version: &Version) -> Value {
    let mut resources = Vec::new();
    for resource in &version.resources {
        resources.push(plain(resource));
        for subresource in &resource.subresources {
            resources.push(plain_subresource(resource, subresource));
        }
    }
    kindom_api::object! {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, &version.name),
        "resources": Value::Array(resources.into()),
    }
}

fn plain(resource: &Resource) -> Value {
    let mut map = Map::new();
    map.insert("name", resource.plural.as_str());
    map.insert("singularName", resource.singular.as_str());
    map.insert("namespaced", resource.namespaced);
    map.insert("kind", resource.kind.as_str());
    map.insert("verbs", resource.verbs.clone());
    put_names(&mut map, "shortNames", &resource.short_names);
    put_names(&mut map, "categories", &resource.categories);
    if !resource.storage_version_hash.is_empty() {
        map.insert("storageVersionHash", resource.storage_version_hash.as_str());
    }
    Value::Object(map)
}

fn plain_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut map = Map::new();
    map.insert("name", format!("{}/{}", resource.plural, subresource.name));
    map.insert("singularName", "");
    map.insert("namespaced", resource.namespaced);
    if !subresource.kind.version.is_empty() {
        map.insert("group", subresource.kind.group.as_str());
        map.insert("version", subresource.kind.version.as_str());
    }
    map.insert("kind", subresource.kind.kind.as_str());
    map.insert("verbs", subresource.verbs.clone());
    Value::Object(map)
}

fn put_names(map: &mut Map, field: &str, names: &[String]) {
    if !names.is_empty() {
        map.insert(field, names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// `/api` and `/apis`, aggregated: everything about these groups in one document (`apidiscovery.k8s.io/v2`). The
/// caller passes the core group alone for `/api` and the others for `/apis`.
#[must_use]
pub(crate) fn aggregated(groups: &[Group]) -> Value {
    let item = |group: &Group| {
        let mut metadata = Map::new();
        if !group.name.is_empty() {
            metadata.insert("name", group.name.as_str());
        }
        let version = |version: &&Version| {
            if let Some(entry) = &version.elsewhere {
                return entry.clone();
            }
            let resources =
                version.resources.iter().map(|r| aggregated_resource(&group.name, &version.name, r));
            kindom_api::object! {
                "version": version.name.as_str(),
                "freshness": "Current",
                "resources": Value::Array(resources.collect()),
            }
        };
        kindom_api::object! {
            "metadata": metadata,
            "versions": Value::Array(group.sorted().iter().map(version).collect()),
        }
    };
    kindom_api::object! {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": Map::new(),
        "items": Value::Array(sorted(groups).into_iter().map(item).collect()),
    }
}

fn aggregated_resource(group: &str, version: &str, resource: &Resource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| {
        kindom_api::object! { "group": group, "version": version, "kind": kind }
    };
    let mut map = Map::new();
    let (group, version) = if resource.built_in { ("", "") } else { (group, version) };
    map.insert("resource", resource.plural.as_str());
    map.insert("responseKind", kind(group, version, &resource.kind));
    map.insert("scope", if resource.namespaced { "Namespaced" } else { "Cluster" });
    map.insert("singularResource", resource.singular.as_str());
    map.insert("verbs", resource.verbs.clone());
    put_names(&mut map, "shortNames", &resource.short_names);
    put_names(&mut map, "categories", &resource.categories);
    if !resource.subresources.is_empty() {
        let subresource = |s: &Subresource| {
            let own = &s.kind;
            let (group, version) = if own.version.is_empty() {
                (group, version)
            } else {
                (own.group.as_str(), own.version.as_str())
            };
            kindom_api::object! {
                "subresource": s.name.as_str(),
                "responseKind": kind(group, version, &own.kind),
                "verbs": s.verbs.clone(),
            }
        };
        map.insert("subresources", Value::Array(resource.subresources.iter().map(subresource).collect()));
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::{
        Group, Resource, Subresource, Version, aggregated, api_group, api_group_list, api_resource_list,
        api_versions, storage_version_hash, version_order,
    };
    use kindom_api::names::GroupVersionKind;

    fn widgets() -> Group {
        let resource = Resource {
            plural: "widgets".into(),
            singular: "widget".into(),
            namespaced: true,
            kind: "Widget".into(),
            verbs: vec!["get", "list"],
            short_names: vec!["w".into()],
            categories: vec!["all".into()],
            storage_version_hash: "h".into(),
            built_in: false,
            subresources: vec![
                Subresource {
                    name: "status".into(),
                    kind: GroupVersionKind::new("", "", "Widget"),
                    verbs: vec!["get"],
                },
                Subresource {
                    name: "scale".into(),
                    kind: GroupVersionKind::new("autoscaling", "v1", "Scale"),
                    verbs: vec!["get"],
                },
            ],
        };
        Group {
            name: "example.com".into(),
            priority: 1000,
            versions: vec![
                Version { name: "v1beta1".into(), ..Version::default() },
                Version { name: "v1".into(), resources: vec![resource], ..Version::default() },
            ],
        }
    }

    fn core() -> Group {
        Group {
            name: String::new(),
            priority: 18_000,
            versions: vec![Version { name: "v1".into(), ..Version::default() }],
        }
    }

    #[test]
    fn versions_are_ordered_as_kubernetes_prefers_them() {
        let mut versions =
            vec!["v1", "v1beta1", "v11", "v2beta2", "v2beta10", "v3alpha1", "zoo", "v01", "v1gamma1", "v"];
        versions.sort_by_key(|v| version_order(v));
        assert_eq!(
            versions,
            ["v11", "v1", "v2beta10", "v2beta2", "v1beta1", "v3alpha1", "v", "v01", "v1gamma1", "zoo"]
        );
    }

    #[test]
    fn hashes() {
        // As every Kubernetes server announces pods.
        assert_eq!(storage_version_hash("", "v1", "Pod"), "xPOwRZ+Yhw8=");
    }

    #[test]
    fn plain_documents() {
        assert_eq!(
            api_versions(&core(), "10.0.0.1:6443").to_string(),
            r#"{"kind":"APIVersions","serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}],"versions":["v1"]}"#
        );
        let own = r#""name":"example.com","preferredVersion":{"groupVersion":"example.com/v1","version":"v1"},"versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}]"#;
        assert_eq!(
            api_group_list(&[core(), widgets()]).to_string(),
            format!(r#"{{"apiVersion":"v1","groups":[{{{own}}}],"kind":"APIGroupList"}}"#)
        );
        assert_eq!(
            api_group(&widgets()).to_string(),
            format!(r#"{{"apiVersion":"v1","kind":"APIGroup",{own}}}"#)
        );
        assert_eq!(
            api_resource_list("example.com", &widgets().versions[1]).to_string(),
            concat!(
                r#"{"apiVersion":"v1","groupVersion":"example.com/v1","kind":"APIResourceList","resources":["#,
                r#"{"categories":["all"],"kind":"Widget","name":"widgets","namespaced":true,"shortNames":["w"],"#,
                r#""singularName":"widget","storageVersionHash":"h","verbs":["get","list"]},"#,
                r#"{"kind":"Widget","name":"widgets/status","namespaced":true,"singularName":"","verbs":["get"]},"#,
                r#"{"group":"autoscaling","kind":"Scale","name":"widgets/scale","namespaced":true,"singularName":"","#,
                r#""verbs":["get"],"version":"v1"}]}"#
            )
        );
    }

    #[test]
    fn the_aggregated_document() {
        assert_eq!(
            aggregated(&[widgets()]).to_string(),
            concat!(
                r#"{"apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"example.com"},"versions":["#,
                r#"{"freshness":"Current","resources":[{"categories":["all"],"resource":"widgets","#,
                r#""responseKind":{"group":"example.com","kind":"Widget","version":"v1"},"scope":"Namespaced","#,
                r#""shortNames":["w"],"singularResource":"widget","subresources":["#,
                r#"{"responseKind":{"group":"example.com","kind":"Widget","version":"v1"},"subresource":"status","#,
                r#""verbs":["get"]},"#,
                r#"{"responseKind":{"group":"autoscaling","kind":"Scale","version":"v1"},"subresource":"scale","#,
                r#""verbs":["get"]}],"verbs":["get","list"]}],"version":"v1"},"#,
                r#"{"freshness":"Current","resources":[],"version":"v1beta1"}]}],"#,
                r#""kind":"APIGroupDiscoveryList","metadata":{}}"#
            )
        );
        let core = aggregated(&[core()]);
        assert_eq!(
            core.get("items").unwrap().as_array().unwrap()[0].get("metadata").unwrap().to_string(),
            "{}"
        );
    }

    #[test]
    fn groups_are_ordered_by_priority_and_name() {
        let group = |name: &str, priority| Group { name: name.into(), priority, ..widgets() };
        let list = api_group_list(&[group("b", 1), group("a", 1), group("z", 9), Group::default()]);
        let names: Vec<&str> = list
            .get("groups")
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g.get("name").unwrap().as_str().unwrap())
            .collect();
        assert_eq!(names, ["z", "a", "b"]);
    }

    /// kube-aggregator's order (`ByVersionPriority`, kube-aggregator v0.37 pkg/apis/apiregistration/v1/helper).
    #[test]
    fn versions_are_ordered_by_priority_and_name() {
        let version = |name: &str, priority| Version { name: name.into(), priority, ..Version::default() };
        let versions = vec![version("v1", 1), version("v1alpha1", 2), version("v1beta1", 1)];
        let group = Group { versions, ..widgets() };
        let names: Vec<&str> = group.sorted().iter().map(|version| version.name.as_str()).collect();
        assert_eq!(names, ["v1alpha1", "v1", "v1beta1"]);
    }
}
