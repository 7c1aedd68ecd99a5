//! The groups that are served, as discovery and OpenAPI describe them.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::Deadline;
use kindom_api::GroupVersionKind;
use kindom_objects::TypeSpec;
use kindom_registry_actor::GroupRoutes;

use crate::aggregate::{Priorities, RemoteVersions};
use crate::app::App;
use crate::audience::Audience;
use crate::discovery::{self, Group, Resource, Subresource, Version};
use crate::state::REQUEST_TIMEOUT;
use crate::status::Failure;

/// The time for which a front proxy's request for a document waits for a store that does not answer. The proxy's own limit is
/// 5 s, and then all of the server's groups are away for everybody.
const PROXY_WAITS: Duration = Duration::from_secs(1);

/// Waits until the routes are as of every registration answered before the call. A host is told of what was known last if the
/// store is away.
pub(crate) async fn fresh(app: &App, audience: Audience) -> Result<(), Failure> {
    let registry = &app.state.registry;
    match audience {
        Audience::Client => {
            let fresh = registry.fresh(Deadline::after(REQUEST_TIMEOUT)).await;
            fresh.map_err(|e| Failure::Read(e, kindom_api::GroupResource::default()))?;
        }
        Audience::Host => {
            if let Err(error) = registry.fresh(Deadline::after(PROXY_WAITS)).await {
                tracing::debug!(%error, "a proxy is told of the groups that were known last");
            }
        }
    }
    Ok(())
}

/// The groups that an audience is shown at one moment.
pub(crate) struct Shown {
    pub(crate) groups: Arc<Vec<Group>>,
    pub(crate) remote: Arc<RemoteVersions>,
    /// The state that they show. What is made of them is kept under it: asked for again, it may be a later one.
    pub(crate) generation: (u64, u64),
}

/// The served groups, as [`fresh`] leaves them; made again when the routes have changed.
pub(crate) async fn groups(app: &App, audience: Audience) -> Result<Shown, Failure> {
    fresh(app, audience).await?;
    let routes = app.state.registry.routes();
    let remote = remote(app, audience);
    // Before the table, which may be a later one for a moment, but not an earlier one.
    let generation = (routes.generation(), remote.generation);
    if let Some(groups) = app.documents.with(generation, |cache| cache.groups.get(&audience).cloned()) {
        return Ok(Shown { groups, remote, generation });
    }
    let table = routes.table();
    let mut groups: Vec<Group> =
        table.groups().filter_map(|(name, types)| describe(name, types, audience)).collect();
    add_remote(&mut groups, &remote);
    let groups = Arc::new(groups);
    app.documents.with(generation, |cache| cache.groups.insert(audience, Arc::clone(&groups)));
    Ok(Shown { groups, remote, generation })
}

/// The group-versions of other servers that an audience is shown. A host forwards to them itself, or does not want them.
pub(crate) fn remote(app: &App, audience: Audience) -> Arc<RemoteVersions> {
    match &app.state.aggregator {
        Some(aggregator) if audience == Audience::Client => aggregator.versions(),
        _ => Arc::default(),
    }
}

/// Adds the versions of other servers. Of a group that is here too, the higher priority counts.
fn add_remote(groups: &mut Vec<Group>, remote: &RemoteVersions) {
    for (name, versions) in &remote.groups {
        let at = groups.iter().position(|group| group.name == *name).unwrap_or_else(|| {
            groups.push(Group { name: name.clone(), priority: 0, versions: Vec::new() });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else { continue };
        for (version, of) in versions {
            group.priority = group.priority.max(of.priorities.group);
            group.versions.retain(|own| own.name != *version);
            let elsewhere = Some(of.discovery.clone());
            let priority = of.priorities.version;
            group.versions.push(Version {
                name: version.clone(),
                priority,
                resources: Vec::new(),
                elsewhere,
            });
        }
    }
}

/// A group with its served types that the audience sees; `None` if there are none.
fn describe(name: &str, types: &GroupRoutes, audience: Audience) -> Option<Group> {
    let specs = types.values().filter_map(kindom_resource_actor::ResourceHandle::spec);
    let specs: Vec<Arc<TypeSpec>> = specs.filter(|spec| audience.sees(spec)).collect();
    let built_in = specs.iter().any(|spec| spec.is_typed());
    let priorities = if built_in { Priorities::BUILT_IN } else { Priorities::REGISTERED };
    let mut versions: Vec<Version> = Vec::new();
    for spec in &specs {
        for version in spec.versions.iter().filter(|v| v.served) {
            let at = versions.iter().position(|v| v.name == version.name).unwrap_or_else(|| {
                versions.push(Version {
                    name: version.name.clone(),
                    priority: priorities.version,
                    ..Version::default()
                });
                versions.len() - 1
            });
            if let Some(version) = versions.get_mut(at) {
                let resource = resource(spec, &version.name);
                version.resources.push(resource);
            }
        }
    }
    (!versions.is_empty()).then(|| Group { name: name.to_owned(), priority: priorities.group, versions })
}

fn resource(spec: &TypeSpec, version: &str) -> Resource {
    let declared = spec.version(version).and_then(|version| version.declared);
    let storage = spec.storage().map_or("", |v| v.name.as_str());
    // The group-version is left out where it is that of the resource.
    let own_kind = |kind: &str| GroupVersionKind { kind: kind.to_owned(), ..GroupVersionKind::default() };
    let kind_of = |of: kindom_objects::Subresource| match of.kind() {
        Some(kind) if kind.group != spec.group || kind.version != version => kind,
        Some(kind) => own_kind(&kind.kind),
        None => own_kind(&spec.names.kind),
    };
    let subresources = spec.subresources(version).map(|of| Subresource {
        name: of.name().to_owned(),
        kind: kind_of(of),
        verbs: spec.verbs_of(version, of).to_vec(),
    });
    Resource {
        plural: spec.names.plural.clone(),
        singular: spec.names.singular.clone(),
        namespaced: spec.namespaced(),
        kind: spec.gvk(version).kind,
        verbs: verbs(spec),
        short_names: spec.names.short_names.clone(),
        categories: spec.names.categories.clone(),
        // apiextensions-apiserver has none for the type of registrations, and what is not stored has none.
        storage_version_hash: match spec.is_typed() && declared.is_none() || spec.strategy.answers_creates() {
            true => String::new(),
            false => discovery::storage_version_hash(&spec.group_kind().group, storage, &spec.names.kind),
        },
        subresources: subresources.collect(),
        built_in: spec.is_typed(),
    }
}

/// The verbs of a type, in upstream's order.
fn verbs(spec: &TypeSpec) -> Vec<&'static str> {
    match &spec.registration {
        Some(r) if r.terminating => vec!["delete", "deletecollection", "get", "list", "watch"],
        Some(_) => vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        None if spec.strategy.answers_creates() => vec!["create"],
        None if !spec.strategy.allows_delete_collection() => {
            vec!["create", "delete", "get", "list", "patch", "update", "watch"]
        }
        None => vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
}
