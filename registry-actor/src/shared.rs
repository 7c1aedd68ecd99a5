//! The state of the registry that outlives its incarnations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{Wake, latest};
use kindom_objects::Strategy;
use kindom_resource_actor::{Deps, Feed, ResourceHandle};
use kindom_storage::Revision;
use parking_lot::{Mutex, RwLock};

use crate::claims::{Claimant, Elsewhere};
use crate::routes::{RouteTable, Routes};
use crate::short_names::ShortNames;

/// The least time that a type which nobody uses or watches stays awake, by default. It may be up to twice as long.
const IDLE_AFTER: Duration = Duration::from_secs(300);

/// The settings of a registry.
pub struct RegistryOptions {
    /// Types go to sleep that were neither used nor watched for so long, or up to twice as long.
    pub idle_after: Duration,
    /// The rules of the objects of some registrations, by the registration's name; those of all others are
    /// [`CustomObjects`](kindom_objects::CustomObjects).
    pub strategies: BTreeMap<String, Arc<dyn Strategy>>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self { idle_after: IDLE_AFTER, strategies: BTreeMap::new() }
    }
}

/// The state that outlives the registry's incarnations. Only the running one changes it, and a successor checks all of it
/// against the store.
pub(crate) struct Shared {
    pub(crate) deps: Arc<Deps>,
    pub(crate) prefix: String,
    pub(crate) registrations: ResourceHandle,
    pub(crate) built_in: RouteTable,
    pub(crate) routes: Arc<Routes>,
    /// In order: types are put to sleep and ended in the same order whenever a simulation repeats.
    pub(crate) handles: Mutex<BTreeMap<String, ResourceHandle>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) changed: Wake,
    /// The short names that registrations hold. Locked for as long as one registration takes.
    pub(crate) short_names: RwLock<ShortNames>,
    /// The short names of built-in types.
    pub(crate) built_in_short_names: ShortNames,
    /// The group-versions that other servers serve; only the aggregator changes them.
    pub(crate) elsewhere: RwLock<Elsewhere>,
    pub(crate) options: RegistryOptions,
    /// `true` while this process does the work that one replica can do for all.
    pub(crate) leads: latest::Sender<bool>,
}

impl Shared {
    /// Puts types to sleep that nobody has used for a while, for ever.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            self.deps.clock.sleep(self.options.idle_after).await;
            let handles: Vec<_> = self.handles.lock().values().cloned().collect();
            let slept = handles.iter().filter(|handle| handle.doze()).count();
            if slept > 0 {
                tracing::debug!(slept, "idle types went to sleep");
            }
        }
    }

    /// The short names that a registration holds now.
    pub(crate) fn hold_short_names(&self, name: &str, claimant: Option<&Claimant>) {
        let held = claimant.map_or(&[][..], |claimant| &claimant.accepted.short_names);
        // Most have none, and most changes are of something else.
        if self.short_names.read().is_set(name, held) {
            return;
        }
        let group = claimant.map_or("", |claimant| &claimant.group);
        self.short_names.write().set(name, group, held);
    }

    pub(crate) fn publish(&self, table: RouteTable, folded: Revision) {
        self.routes.publish(table);
        self.feed.advance(folded);
        self.changed.wake();
    }
}
