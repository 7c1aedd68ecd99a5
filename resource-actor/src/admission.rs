//! The admission webhooks that are configured, and what a request says about its writes to them. [`crate::admitting`] asks them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kindom_actor_kit::{Deadline, dear};
use kindom_api::{Value, json};
use kindom_objects::admission::Hook;
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use kindom_storage::Revision;
use parking_lot::Mutex;

use crate::ResourceHandle;
use crate::cost;
use crate::error::WriteError;

/// The webhooks of all configurations. Cheap to clone.
#[derive(Clone)]
pub struct Admission(Arc<Configurations>);

pub(crate) struct Configurations {
    pub(crate) mutating: Configured,
    pub(crate) validating: Configured,
    /// The types that show what another type stores.
    pub(crate) faces: Vec<Arc<TypeSpec>>,
}

/// The configurations of one kind.
pub(crate) struct Configured {
    handle: ResourceHandle,
    compiled: ArcSwapOption<Compiled>,
}

/// The webhooks of all of them, as of a revision.
pub(crate) struct Compiled {
    revision: Revision,
    configurations: Vec<Arc<Configuration>>,
    /// Of their JSON.
    bytes: usize,
}

/// A configuration at a revision of its own.
struct Configuration {
    object: Arc<StoredObject>,
    hooks: Vec<Hook>,
}

impl Compiled {
    /// By the names of their configurations.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = &Hook> {
        self.configurations.iter().flat_map(|configuration| &configuration.hooks)
    }

    /// The cost of looking at their rules and selectors.
    pub(crate) fn cost(&self) -> Duration {
        cost::rules(self.hooks().count(), self.bytes)
    }

    /// A configuration that has not changed since.
    fn same(&self, object: &StoredObject) -> Option<&Arc<Configuration>> {
        let key = object.key();
        let at = self.configurations.binary_search_by(|of| of.object.key().cmp(key)).ok()?;
        self.configurations.get(at).filter(|of| of.object.revision() == object.revision())
    }
}

impl Admission {
    /// Webhooks that are configured by objects of these two types. `faces` are all types that show what another one stores.
    #[must_use]
    pub fn new(mutating: ResourceHandle, validating: ResourceHandle, faces: Vec<Arc<TypeSpec>>) -> Self {
        let configured = |handle| Configured { handle, compiled: ArcSwapOption::empty() };
        let (mutating, validating) = (configured(mutating), configured(validating));
        Self(Arc::new(Configurations { mutating, validating, faces }))
    }

    pub(crate) fn configurations(&self) -> &Configurations {
        &self.0
    }
}

impl Configured {
    /// The webhooks that are configured now, by the names of their configurations; `None` if there are none. Those that another
    /// replica was told of are among them once the store's watch has them.
    pub(crate) async fn hooks(&self, deadline: Deadline) -> Result<Option<Arc<Compiled>>, WriteError> {
        let (snapshot, _) = self.handle.snapshot(self.handle.own_writes()?, deadline).await?;
        if snapshot.is_empty() {
            return Ok(None);
        }
        let revision = snapshot.revision();
        let before = self.compiled.load_full();
        if let Some(compiled) = before.as_ref().filter(|compiled| compiled.revision == revision) {
            return Ok(Some(Arc::clone(compiled)));
        }
        let same = |object: &StoredObject| before.as_ref().and_then(|before| before.same(object));
        let changed = snapshot.from_key("").filter(|object| same(object).is_none());
        dear(cost::compile(changed.map(|object| object.json().len()).sum())).await?;
        let bytes = snapshot.from_key("").map(|object| object.json().len()).sum();
        let mut configurations = Vec::with_capacity(snapshot.len());
        for object in snapshot.from_key("") {
            configurations.push(match same(object) {
                Some(same) => Arc::clone(same),
                None => {
                    let tree = json::parse_own(object.json());
                    let tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", object.key())))?;
                    let hooks = Hook::of_configuration(&tree);
                    Arc::new(Configuration { object: Arc::clone(object), hooks })
                }
            });
        }
        let compiled = Arc::new(Compiled { revision, configurations, bytes });
        self.compiled.store(Some(Arc::clone(&compiled)));
        Ok(Some(compiled))
    }
}

/// The admission of a request's writes.
#[derive(Clone)]
pub struct AskedAdmission {
    /// The webhooks.
    pub admission: Admission,
    /// As the client sent them.
    pub options: SentOptions,
    /// The write is one of many of a request, which names none.
    pub is_of_collection: bool,
    /// Warnings of webhooks for the client, also where the write fails.
    pub warnings: Arc<Mutex<Vec<String>>>,
}

/// The fields of a write's options, by their names.
pub type SentOptions = Vec<(&'static str, Value)>;
