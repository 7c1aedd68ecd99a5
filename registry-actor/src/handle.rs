//! The public face of the registry.

use std::sync::Arc;

use kindom_actor_kit::{AskError, Deadline, Policy, StartError, Supervised, Wake, Woken, latest};
use kindom_api::crd::decode_crd;
use kindom_api::json;
use kindom_objects::StoredRegistration;
use kindom_resource_actor::ReadError;
use kindom_resource_actor::{Deps, Feed, ResourceHandle};
use kindom_storage::Revision;
use parking_lot::{Mutex, RwLock};

use crate::actor::RegistryActor;
use crate::claims::Elsewhere;
use crate::messages::{
    ClaimElsewhere, Due, Dues, JudgeNames, Judgement, ListOutdated, ListRegistered, ListTerminating,
    Registered,
};
use crate::routes::{RouteTable, Routes};
use crate::shared::{RegistryOptions, Shared};
use crate::short_names::{ShortNames, warning};

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
        Self::start_with(deps, registrations, built_in, RegistryOptions::default())
    }

    /// As [`RegistryHandle::start`], with options.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn start_with(
        deps: Arc<Deps>,
        registrations: &ResourceHandle,
        built_in: impl IntoIterator<Item = ResourceHandle>,
        options: RegistryOptions,
    ) -> Result<Self, StartError> {
        let mut table = RouteTable::default();
        let mut prefix = String::new();
        let mut built_in_short_names = ShortNames::default();
        for handle in built_in.into_iter().chain([registrations.clone()]) {
            if let Some(spec) = handle.spec() {
                let holder = spec.group_resource().to_string();
                built_in_short_names.set(&holder, &spec.group, &spec.names.short_names);
                table.insert(&spec.group, &spec.names.plural, handle);
                prefix = spec.prefix.to_string();
            }
        }
        let shared = Arc::new(Shared {
            prefix,
            registrations: registrations.clone(),
            routes: Arc::new(Routes::new(table.clone())),
            built_in: table,
            handles: Mutex::default(),
            feed: Arc::new(Feed::new(Arc::clone(&deps.storage))),
            changed: Wake::new(),
            short_names: RwLock::default(),
            built_in_short_names,
            elsewhere: RwLock::default(),
            options,
            leads: latest::Sender::new(true),
            deps: Arc::clone(&deps),
        });
        let factory = {
            let shared = Arc::clone(&shared);
            move |incarnation| RegistryActor::load(Arc::clone(&shared), incarnation)
        };
        let arbiter = deps.arbiters.place("registry");
        let actor = deps.supervisor.start("registry", &arbiter, Policy::default(), factory)?;
        Ok(Self { shared, actor })
    }

    /// The built-in types.
    pub fn built_in(&self) -> impl Iterator<Item = &ResourceHandle> {
        self.shared.built_in.groups().flat_map(|(_, types)| types.values())
    }

    /// The routes, which need no mailbox.
    #[must_use]
    pub fn routes(&self) -> &Arc<Routes> {
        &self.shared.routes
    }

    /// The dependencies that every type gets.
    #[must_use]
    pub fn deps(&self) -> &Arc<Deps> {
        &self.shared.deps
    }

    /// Woken whenever registrations changed, and when the registry came back.
    #[must_use]
    pub fn changes(&self) -> Woken {
        self.shared.changed.listen()
    }

    /// Returns true if this replica does the work that one can do for all: every process does, unless a
    /// [`LeaderHandle`](crate::LeaderHandle) was started. It saves work and promises nothing: there may be two at once.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.shared.leads.get()
    }

    /// Waits until [`RegistryHandle::is_leader`].
    pub async fn leading(&self) {
        // The sender is in `self`, so it is not closed.
        let _ = self.shared.leads.subscribe().wait_for(|leads| *leads).await;
    }

    pub(crate) fn lead(&self, leads: bool) {
        if self.shared.leads.send_replace(leads) != leads {
            tracing::info!(leads, "which replica leads has changed");
        }
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
    /// [`ReadError::Timeout`], or the store's error.
    pub async fn fresh(&self, deadline: Deadline) -> Result<Revision, ReadError> {
        self.shared.feed.fresh(deadline).await
    }

    /// `true` if a type is that of registrations themselves, on whichever face.
    #[must_use]
    pub fn is_registrations(&self, handle: &ResourceHandle) -> bool {
        handle.prefix() == self.shared.prefix
    }

    /// Warnings for the author of a registration, given in its stored form: types of other groups hold some of its short
    /// names. Enters no mailbox; costs what its own names cost.
    #[must_use]
    pub fn short_names_elsewhere(&self, registration: StoredRegistration<'_>) -> Vec<String> {
        let group = registration.group().unwrap_or_default();
        let wanted = registration.names().short_names;
        if wanted.is_empty() {
            return Vec::new();
        }
        let held = self.shared.short_names.read();
        let warnings = wanted.iter().enumerate().filter_map(|(index, name)| {
            let built_in = self.shared.built_in_short_names.elsewhere(group, name);
            let holders: Vec<&str> = built_in.chain(held.elsewhere(group, name)).collect();
            warning(index, name, &holders)
        });
        warnings.collect()
    }

    /// The verdicts on names that change the stored status: at most `max`. A group gives one verdict, its oldest
    /// registration's, or several that only change a condition's message.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn due(&self, max: usize, deadline: Deadline) -> Result<Vec<Judgement>, AskError> {
        let due = loop {
            let Dues { due, more } =
                self.actor.handle().ask_retrying(|| JudgeNames { max }, deadline).await?;
            if !due.is_empty() || !more {
                break due;
            }
        };
        let judgements = due.into_iter().filter_map(|due| {
            let crd = decode_crd(&json::parse_own(due.object.json()).ok()?).ok()?.0;
            let Due { name, object, verdict, folded } = due;
            Some(Judgement { name, object, crd: Box::new(crd), verdict, folded })
        });
        Ok(judgements.collect())
    }

    /// The registrations that are being deleted.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn terminating(&self, deadline: Deadline) -> Result<Vec<Registered>, AskError> {
        self.actor.handle().ask_retrying(|| ListTerminating, deadline).await
    }

    /// The established registrations whose `status.storedVersions` holds more than the storage version and that need no
    /// webhook to convert: their objects can be rewritten in the storage version.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn outdated(&self, deadline: Deadline) -> Result<Vec<Registered>, AskError> {
        self.actor.handle().ask_retrying(|| ListOutdated, deadline).await
    }

    /// Claims these group-versions for other servers, instead of those that were claimed before. A registration that is
    /// established already keeps its own.
    ///
    /// # Errors
    /// [`AskError`]; the claims are made all the same, once the registry is back.
    pub async fn claim_elsewhere(&self, elsewhere: Elsewhere, deadline: Deadline) -> Result<(), AskError> {
        *self.shared.elsewhere.write() = elsewhere;
        self.actor.handle().ask_retrying(|| ClaimElsewhere, deadline).await
    }

    /// Every registration, served or not.
    ///
    /// # Errors
    /// [`AskError`]
    pub async fn registered(&self, deadline: Deadline) -> Result<Vec<Registered>, AskError> {
        self.actor.handle().ask_retrying(|| ListRegistered, deadline).await
    }
}
