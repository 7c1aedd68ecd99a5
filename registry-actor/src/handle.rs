//! The public face of the registry.

use std::collections::HashMap;
use std::sync::Arc;

use kindom_actor_kit::{AskError, Deadline, Policy, StartError, Supervised, Wake, Woken};
use kindom_resource_actor::{Deps, Feed, ReadError, ResourceHandle};
use kindom_storage::Revision;
use parking_lot::Mutex;

use crate::actor::RegistryActor;
use crate::messages::{JudgeNames, Judgement, ListRegistered, ListTerminating, Registered};
use crate::routes::{RouteTable, Routes};

/// What outlives the registry's incarnations. Only the running one changes it, and a successor checks all of it against
/// the store.
pub(crate) struct Shared {
    pub(crate) deps: Arc<Deps>,
    pub(crate) prefix: String,
    pub(crate) built_in: RouteTable,
    pub(crate) routes: Arc<Routes>,
    pub(crate) handles: Mutex<HashMap<String, ResourceHandle>>,
    pub(crate) feed: Feed,
    pub(crate) changed: Wake,
}

impl Shared {
    pub(crate) fn publish(&self, table: RouteTable, folded: Revision) {
        self.routes.publish(table);
        self.feed.advance(folded);
        self.changed.wake();
    }
}

/// The registry: routes for anyone, verdicts and lists for the reconcilers. Cheap to clone.
#[derive(Clone)]
pub struct RegistryHandle {
    shared: Arc<Shared>,
    actor: Supervised<RegistryActor>,
}

impl RegistryHandle {
    /// Starts the registry. `registrations` is the type of registrations themselves; it and the other built-in types are
    /// always routed.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start(
        deps: Arc<Deps>,
        registrations: &ResourceHandle,
        built_in: impl IntoIterator<Item = ResourceHandle>,
    ) -> Result<Self, StartError> {
        let mut table = RouteTable::default();
        let mut prefix = String::new();
        for handle in built_in.into_iter().chain([registrations.clone()]) {
            if let Some(spec) = handle.spec() {
                table.insert(&spec.group, &spec.names.plural, handle);
                prefix = spec.prefix.to_string();
            }
        }
        let shared = Arc::new(Shared {
            prefix,
            routes: Arc::new(Routes::new(table.clone())),
            built_in: table,
            handles: Mutex::default(),
            feed: Feed::new(Arc::clone(&deps.storage)),
            changed: Wake::new(),
            deps: Arc::clone(&deps),
        });
        let factory = {
            let shared = Arc::clone(&shared);
            move |_| RegistryActor::load(Arc::clone(&shared))
        };
        let arbiter = deps.arbiters.place("registry");
        let actor = deps.supervisor.start("registry", &arbiter, Policy::default(), factory)?;
        Ok(Self { shared, actor })
    }

    /// The routes, which need no mailbox.
    #[must_use]
    pub fn routes(&self) -> &Arc<Routes> {
        &self.shared.routes
    }

    /// What the registry's types are made with.
    #[must_use]
    pub fn deps(&self) -> &Arc<Deps> {
        &self.shared.deps
    }

    /// Woken whenever registrations changed, and when the registry came back.
    #[must_use]
    pub fn changes(&self) -> Woken {
        self.shared.changed.listen()
    }

    /// Waits until everything up to `revision`, which touched a registration, was folded.
    ///
    /// # Errors
    /// [`ReadError::Timeout`]
    pub async fn folded(&self, revision: Revision, deadline: Deadline) -> Result<(), ReadError> {
        self.shared.feed.reaches(revision, deadline).await
    }

    /// Waits until the routes show every registration answered anywhere before the call.
    ///
    /// # Errors
    /// [`ReadError::Timeout`], or what the store says.
    pub async fn fresh(&self, deadline: Deadline) -> Result<Revision, ReadError> {
        self.shared.feed.fresh(deadline).await
    }

    /// The verdicts on names that change what is stored: at most `max`, at most one a group, oldest registration first.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn due(&self, max: usize, deadline: Deadline) -> Result<Vec<Judgement>, AskError> {
        self.actor.handle().ask_retrying(|| JudgeNames { max }, deadline).await
    }

    /// The registrations that are being deleted.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn terminating(&self, deadline: Deadline) -> Result<Vec<Registered>, AskError> {
        self.actor.handle().ask_retrying(|| ListTerminating, deadline).await
    }

    /// Every registration, served or not.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn registered(&self, deadline: Deadline) -> Result<Vec<Registered>, AskError> {
        self.actor.handle().ask_retrying(|| ListRegistered, deadline).await
    }
}
