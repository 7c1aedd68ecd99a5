//! The served types: a lock-free table from group and plural to the type's handle.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kindom_actor_kit::latest;
use kindom_api::GroupVersionKind;
use kindom_resource_actor::ResourceHandle;

/// The types of one group, by plural.
pub type GroupRoutes = BTreeMap<String, ResourceHandle>;

/// The served types at one moment. Immutable; groups that do not change are shared with the table before.
#[derive(Clone, Default)]
pub struct RouteTable {
    groups: HashMap<String, Arc<GroupRoutes>>,
}

impl RouteTable {
    /// The type of a group and plural.
    #[must_use]
    pub fn get(&self, group: &str, plural: &str) -> Option<&ResourceHandle> {
        self.groups.get(group)?.get(plural)
    }

    /// The groups and their types.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &GroupRoutes)> {
        self.groups.iter().map(|(group, types)| (group.as_str(), &**types))
    }

    /// The type whose kind this is in a version that is served.
    #[must_use]
    pub fn of_kind(&self, kind: &GroupVersionKind) -> Option<ResourceHandle> {
        let is_of_kind = |handle: &&ResourceHandle| {
            handle.spec().is_some_and(|spec| {
                let version = spec.version(&kind.version);
                spec.names.kind == kind.kind && version.is_some_and(|version| version.served)
            })
        };
        self.groups.get(&kind.group)?.values().find(is_of_kind).cloned()
    }

    /// One group's types.
    #[must_use]
    pub fn group(&self, group: &str) -> Option<&GroupRoutes> {
        self.groups.get(group).map(|g| &**g)
    }

    pub(crate) fn insert(&mut self, group: &str, plural: &str, handle: ResourceHandle) {
        let types = self.groups.entry(group.to_owned()).or_default();
        Arc::make_mut(types).insert(plural.to_owned(), handle);
    }

    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        let Some(types) = self.groups.get_mut(group) else { return };
        if types.contains_key(plural) {
            Arc::make_mut(types).remove(plural);
        }
        if types.is_empty() {
            self.groups.remove(group);
        }
    }
}

/// The current [`RouteTable`], for any thread; only the registry changes it.
pub struct Routes {
    table: ArcSwap<RouteTable>,
    /// Counts changes of anything that discovery or OpenAPI shows.
    generation: latest::Sender<u64>,
}

impl Routes {
    pub(crate) fn new(table: RouteTable) -> Self {
        Self { table: ArcSwap::from_pointee(table), generation: latest::Sender::new(1) }
    }

    /// The table as it is now.
    #[must_use]
    pub fn table(&self) -> Arc<RouteTable> {
        self.table.load_full()
    }

    /// The type of a group and plural.
    #[must_use]
    pub fn get(&self, group: &str, plural: &str) -> Option<ResourceHandle> {
        self.table.load().get(group, plural).cloned()
    }

    /// Raised whenever anything that discovery or OpenAPI shows has changed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.get()
    }

    pub(crate) fn publish(&self, table: RouteTable) {
        self.table.store(Arc::new(table));
        self.generation.send_modify(|g| *g += 1);
    }
}
