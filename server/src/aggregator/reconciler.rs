//! The loop that follows APIServices: a route for each remote one, its condition, and local ones for what this server serves
//! (kube-aggregator `pkg/controllers/autoregister`, kube-apiserver `pkg/controlplane/controller/crdregistration`, 1.37).
//!
//! It reads the world again whenever an APIService or a registration changes, and learns what the tasks of its routes have
//! found. A leader writes conditions and local APIServices; every replica forwards by its own findings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{AskError, BoxError, Deadline, Policy, Reconciler, StartError, Woken};
use kindom_api::{Value, json, meta, object};
use kindom_http::{Priorities, RemoteVersion, RemoteVersions};
use kindom_objects::kinds::api_service;
use kindom_objects::{PlanError, RuleContext, StoredObject, manage_status};
use kindom_registry_actor::RegistryHandle;
use kindom_registry_actor::claims::Elsewhere;
use kindom_resource_actor::{
    Freshness, ReadError, ResourceHandle, Snapshot, Target as Place, WatchCursor, WriteError, WriteOptions,
};
use kindom_storage::{Compare, Op, Txn};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::backend::{Backend, ClientCertificate};
use super::probe::{Bounds, Description, LastDocument, Probed};
use super::target::{Target, Unreachable};
use super::{Aggregator, Owned, Route, Routes};

/// The longest that one step may take before the world is read again.
const STEP: Duration = Duration::from_secs(10);
/// The wait after a failure before the next try.
const PAUSE: Duration = Duration::from_millis(200);
/// The least time between two probes of a server.
const PROBES_APART: Duration = Duration::from_millis(200);
/// The findings that may wait to be learned.
const FINDINGS: usize = 64;
/// The time between two looks at all APIServices, in times of what the last one took; and at most.
const RESTS: u32 = 9;
const REST_MAX: Duration = Duration::from_secs(1);
/// The APIServices that are parsed before the thread's other actors have a turn.
const PARSED_AT_ONCE: usize = 64;
/// The writes of local APIServices at a time.
const WRITES_AT_ONCE: usize = 16;
/// The most remote APIServices that are followed; those behind are unavailable, as each has tasks and connections.
const REMOTE_MAX: usize = 1000;

/// The reason of an APIService whose group-version this server serves itself.
const HELD: &str = "GroupVersionHeld";

/// The label of APIServices that the server keeps by itself, and its value for those of registrations.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const MANAGED_ALWAYS: &str = "true";
const MANAGED_ON_START: &str = "onstart";

/// The outcome of a probe.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Available(Description),
    Failed(String),
}

/// The finding on the server of an APIService.
struct Finding {
    name: String,
    target: Target,
    found: Found,
}

/// A remote APIService that is followed.
struct Followed {
    target: Target,
    own: ClientCertificate,
    backend: Backend,
    bounds: Bounds,
    doubted: Arc<Notify>,
    priorities: Priorities,
    /// `true` if its condition said so when it was first seen: it counts until the first probe has ended.
    was_available: bool,
    found: Option<Found>,
    _probing: Owned<()>,
}

/// An APIService as it was last read.
struct Known {
    stored: Arc<StoredObject>,
    /// `None` for one of this server's own group-versions.
    remote: Option<Remote>,
    /// `true` if the server keeps it by itself.
    is_managed: bool,
    /// The condition that is stored.
    condition: Option<Condition>,
}

/// An APIService of another server.
struct Remote {
    group: String,
    version: String,
    priorities: Priorities,
    /// The time of its creation, as text.
    created: String,
    target: Result<Target, Unreachable>,
}

/// A condition Available.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    status: String,
    reason: String,
    message: String,
}

impl Condition {
    fn read(stored: &Value) -> Self {
        let text = |field| stored.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { status: text("status"), reason: text("reason"), message: text("message") }
    }

    /// That of an APIService of this server's own group-versions.
    fn local() -> Self {
        Self { status: "True".into(), reason: "Local".into(), message: api_service::ALWAYS_AVAILABLE.into() }
    }
}

/// The state of the loop, which begins anew with each incarnation.
struct Follower {
    aggregator: Arc<Aggregator>,
    registry: RegistryHandle,
    services: ResourceHandle,
    object_bytes_max: usize,
    known: BTreeMap<String, Known>,
    followed: BTreeMap<String, Followed>,
    /// Group-versions of other servers that are not known to be anywhere: they are unavailable.
    lost: BTreeMap<(String, String), Priorities>,
    /// The claims that the registry has.
    claimed: Option<Elsewhere>,
    /// `true` if the routes in force are not those of `followed`.
    is_stale: bool,
    findings: (mpsc::Sender<Finding>, mpsc::Receiver<Finding>),
}

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("APIServices cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("the registry does not answer: {0}")]
    Ask(#[from] AskError),
    #[error("an APIService cannot be written: {0}")]
    Write(#[from] WriteError),
}

/// Starts the loop, as the actor `aggregator`.
///
/// # Errors
/// [`StartError`]
pub(crate) fn start(
    aggregator: &Arc<Aggregator>,
    registry: &RegistryHandle,
    services: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let (aggregator, of, services) = (Arc::clone(aggregator), registry.clone(), services.clone());
    deps.supervisor.reconcile(
        "aggregator",
        &deps.arbiters.place("aggregator"),
        Policy::default(),
        registry.changes(),
        move |changes| {
            let follower = Follower {
                aggregator: Arc::clone(&aggregator),
                registry: of.clone(),
                services: services.clone(),
                object_bytes_max,
                known: BTreeMap::new(),
                followed: BTreeMap::new(),
                lost: BTreeMap::new(),
                claimed: None,
                is_stale: true,
                findings: mpsc::channel(FINDINGS),
            };
            follower.run(changes)
        },
    )
}

impl Follower {
    async fn run(mut self, mut changes: Woken) -> BoxError {
        let mut cursor: Option<WatchCursor> = None;
        loop {
            let began = Instant::now();
            match self.look(&mut cursor).await {
                Ok(()) => {
                    // The thread has other actors: whoever changes many APIServices takes a small part of it.
                    let rest = began.elapsed().saturating_mul(RESTS).min(REST_MAX);
                    self.registry.deps().clock.sleep(rest).await;
                    self.wait(&mut changes, &mut cursor).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "APIServices could not be followed; trying again");
                    cursor = None;
                    self.registry.deps().clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits until something has changed or was found, or the probes of the certificate's files are due.
    async fn wait(&mut self, changes: &mut Woken, cursor: &mut Option<WatchCursor>) {
        let clock = self.registry.deps().clock.clone();
        let service = async {
            match cursor {
                Some(cursor) => cursor.next(usize::MAX).await.is_err(),
                None => std::future::pending().await,
            }
        };
        let is_over = tokio::select! {
            biased;
            () = changes.woken() => false,
            is_over = service => is_over,
            finding = self.findings.1.recv() => {
                if let Some(finding) = finding {
                    self.learn(finding);
                }
                false
            }
            () = clock.sleep(self.aggregator.probe_every.max(PAUSE)) => false,
        };
        while let Ok(finding) = self.findings.1.try_recv() {
            self.learn(finding);
        }
        if is_over {
            *cursor = None;
        }
    }

    fn learn(&mut self, Finding { name, target, found }: Finding) {
        // A finding on a server that an APIService does not name any more is of no use.
        let found = Some(found);
        if let Some(followed) = self.followed.get_mut(&name).filter(|followed| followed.target == target)
            && followed.found != found
        {
            followed.found = found;
            self.is_stale = true;
        }
    }

    async fn look(&mut self, cursor: &mut Option<WatchCursor>) -> Result<(), FollowError> {
        let deadline = Deadline::after(STEP);
        let (snapshot, revision) = self.services.snapshot(Freshness::Latest, deadline).await?;
        match cursor {
            // Before the look, so that no change after it is missed.
            None => *cursor = Some(self.services.watch(revision)?),
            // Changes that the snapshot already shows need no wake-up.
            Some(cursor) => drop(cursor.advance()),
        }
        self.read(&snapshot).await;
        let local = self.served_here();
        let own = self.client_certificate().await;
        self.aggregator.programs.identify_by(&own);
        let known = std::mem::take(&mut self.known);
        let (mut remote, mut due, mut claims) = (BTreeSet::new(), Vec::new(), Elsewhere::new());
        let mut lost = BTreeMap::new();
        for local in known.values().filter(|known| known.remote.is_none() && !known.stored.deleting()) {
            // One that was another server's has that one's condition.
            if local.condition.as_ref().is_some_and(|condition| condition.reason != "Local") {
                due.push((Arc::clone(&local.stored), Condition::local()));
            }
        }
        let all = known.iter().filter(|(_, known)| !known.stored.deleting());
        let mut all: Vec<_> =
            all.filter_map(|(name, known)| Some((name, known, known.remote.as_ref()?))).collect();
        // Where there are too many, those that came first stay.
        all.sort_by_key(|(name, _, of)| (of.created.as_str(), name.as_str()));
        for (name, known, of) in all {
            let verdict = match resolve(of, &local, remote.len()) {
                Ok(target) => {
                    remote.insert(name.as_str());
                    let was_available = known.condition.as_ref().is_some_and(|of| of.status == "True");
                    self.follow(name, target, of, &own, was_available).await
                }
                Err(why) => Some(("False", why.reason, why.message)),
            };
            if !matches!(verdict, Some((_, HELD, _))) {
                let is_followed = self.followed.contains_key(name) && remote.contains(name.as_str());
                // Every client is told of each.
                if !is_followed && remote.len() + lost.len() < REMOTE_MAX {
                    lost.insert((of.group.clone(), of.version.clone()), of.priorities);
                }
                claims.entry(of.group.clone()).or_default().insert(of.version.clone(), name.clone());
            }
            if let Some((status, reason, message)) = verdict {
                let condition = Condition { status: status.into(), reason: reason.into(), message };
                if known.condition.as_ref() != Some(&condition) {
                    due.push((Arc::clone(&known.stored), condition));
                }
            }
        }
        let before = self.followed.len();
        self.followed.retain(|name, _| remote.contains(name.as_str()));
        self.is_stale |= self.followed.len() != before || self.lost != lost;
        self.lost = lost;
        drop(remote);
        self.known = known;
        if self.claimed.as_ref() != Some(&claims) {
            self.registry.claim_elsewhere(claims.clone(), deadline).await?;
            self.claimed = Some(claims);
        }
        if std::mem::take(&mut self.is_stale) {
            self.publish();
        }
        self.aggregator.has_looked.send_replace(true);
        if self.registry.is_leader() {
            for (stored, condition) in due {
                self.report(&stored, &condition).await?;
            }
            self.keep_local(&local).await?;
        }
        Ok(())
    }

    /// Reads the APIServices that have changed.
    async fn read(&mut self, snapshot: &Snapshot) {
        let mut parsed = 0;
        for stored in snapshot.from_key("") {
            let known = self.known.get(stored.name());
            if known.is_some_and(|known| known.stored.revision() == stored.revision()) {
                continue;
            }
            parsed += 1;
            if parsed % PARSED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            let Ok(object) = json::parse_own(stored.json()) else { continue };
            let remote = api_service::is_remote(&object).then(|| self.remote(&object));
            let is_managed = remote.is_none()
                && object.at(&["metadata", "labels", MANAGED]).is_some_and(|label| label.as_str().is_some());
            let condition = api_service::condition(&object).map(Condition::read);
            let known = Known { stored: Arc::clone(stored), remote, is_managed, condition };
            self.known.insert(stored.name().to_owned(), known);
        }
        if self.known.len() != snapshot.len() {
            self.known.retain(|name, _| snapshot.get(name).is_some());
        }
    }

    fn remote(&self, object: &Value) -> Remote {
        let (group, version) = group_version(object);
        let priority = |field| {
            let value = object.at(&["spec", field]).and_then(Value::as_i64);
            i32::try_from(value.unwrap_or_default()).unwrap_or_default()
        };
        Remote {
            group: group.to_owned(),
            version: version.to_owned(),
            priorities: Priorities {
                group: priority("groupPriorityMinimum"),
                version: priority("versionPriority"),
            },
            created: object
                .at(&["metadata", "creationTimestamp"])
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            target: self.aggregator.resolver.target(object),
        }
    }

    /// The group-versions that this server serves itself, and whether a registration brought them.
    fn served_here(&self) -> BTreeMap<(String, String), bool> {
        let table = self.registry.routes().table();
        let mut served = BTreeMap::new();
        for (group, types) in table.groups() {
            for spec in types.values().filter_map(ResourceHandle::spec) {
                for version in spec.versions.iter().filter(|version| version.served) {
                    let is_registered =
                        served.entry((group.to_owned(), version.name.clone())).or_insert(true);
                    *is_registered &= !spec.is_typed();
                }
            }
        }
        served
    }

    /// This proxy's certificate as it is now; none if it cannot be read.
    async fn client_certificate(&self) -> ClientCertificate {
        let Some((certificate, key)) = &self.aggregator.client_certificate else {
            return ClientCertificate::default();
        };
        let (from, key) = (certificate.clone(), key.clone());
        let read = self.apart(move || {
            let certificate = std::fs::read(from)?;
            let pair = ClientCertificate { certificate, key: std::fs::read(key)? };
            // One file may have been replaced, and the other not yet.
            pair.check()?;
            Ok(pair)
        });
        read.await.unwrap_or_else(|error| {
            tracing::error!(%error, file = %certificate.display(), "the proxy's certificate cannot be used");
            // The one that could be read stays.
            self.aggregator.programs.own()
        })
    }

    /// Does what may take long, or waits for a disk, apart from the thread of the actors.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
    ) -> Result<T, BoxError> {
        self.aggregator.runtime.spawn_blocking(work).await?
    }

    /// Follows an APIService to its server; returns the condition that is due, if a probe of it has ended.
    async fn follow(
        &mut self,
        name: &str,
        target: Target,
        remote: &Remote,
        own: &ClientCertificate,
        was_available: bool,
    ) -> Option<(&'static str, &'static str, String)> {
        let priorities = remote.priorities;
        let is_known =
            self.followed.get(name).is_some_and(|followed| followed.target == target && followed.own == *own);
        if !is_known {
            self.is_stale = true;
            let (to, by, runtime) = (target.clone(), own.clone(), self.aggregator.runtime.clone());
            let backend = match self.apart(move || Backend::new(&to, &by, &runtime)).await {
                Ok(backend) => backend,
                Err(error) => {
                    self.followed.remove(name);
                    return Some(("False", "FailedDiscoveryCheck", error.to_string()));
                }
            };
            let doubted = Arc::new(Notify::new());
            let bounds = self.bounds(&target.address);
            let probed = Probed {
                backend: backend.clone(),
                target: target.clone(),
                own_name: self.aggregator.own_name.clone(),
                bounds: bounds.clone(),
            };
            let probing = probe(
                name.to_owned(),
                probed,
                self.findings.0.clone(),
                Arc::clone(&doubted),
                self.aggregator.probe_every,
            );
            let followed = Followed {
                target,
                own: own.clone(),
                backend,
                bounds,
                doubted,
                priorities,
                was_available,
                found: None,
                _probing: Owned(self.aggregator.runtime.spawn(probing)),
            };
            self.followed.insert(name.to_owned(), followed);
        }
        let followed = self.followed.get_mut(name)?;
        self.is_stale |= std::mem::replace(&mut followed.priorities, priorities) != priorities;
        Some(match followed.found.as_ref()? {
            Found::Available(_) => ("True", "Passed", "all checks passed".to_owned()),
            Found::Failed(why) => ("False", "FailedDiscoveryCheck", why.clone()),
        })
    }

    /// The bounds that the probes of a server share.
    fn bounds(&self, address: &str) -> Bounds {
        let of_server = self.followed.values().find(|followed| followed.target.address == address);
        of_server.map_or_else(|| Bounds::of_server(&self.aggregator.parsing), |of| of.bounds.clone())
    }

    /// Puts the routes in force.
    fn publish(&self) {
        let before = self.aggregator.routes.load();
        let mut routes = Routes::default();
        let mut shown = RemoteVersions::default();
        // A version that is away stays in discovery, as upstream shows it: stale.
        let last = |group: &str, version: &str| {
            let known = before.shown.groups.get(group).and_then(|versions| versions.get(version));
            let none = || object! { "version": version, "resources": Value::Array(Vec::new().into()) };
            stale(known.map_or_else(none, |known| known.discovery.clone()))
        };
        for ((group, version), priorities) in &self.lost {
            let (discovery, priorities) = (last(group, version), *priorities);
            let remote = RemoteVersion { priorities, discovery, openapi_hash: None, openapi_v2: None };
            shown.groups.entry(group.clone()).or_default().insert(version.clone(), remote);
            let route = Route { backend: None, doubted: Arc::default(), is_available: false };
            routes.by_version.insert((group.clone(), version.clone()), Arc::new(route));
        }
        for followed in self.followed.values() {
            let (group, version) = (followed.target.group.clone(), followed.target.version.clone());
            let description = match &followed.found {
                Some(Found::Available(description)) => Some(description),
                Some(Found::Failed(_)) | None => None,
            };
            let discovery = description.map(|of| of.discovery.clone());
            let remote = RemoteVersion {
                priorities: followed.priorities,
                discovery: discovery.unwrap_or_else(|| last(&group, &version)),
                openapi_hash: description.and_then(|of| of.openapi_hash.clone()),
                openapi_v2: description.and_then(|of| of.openapi_v2.clone()),
            };
            shown.groups.entry(group.clone()).or_default().insert(version.clone(), remote);
            let route = Route {
                backend: Some(followed.backend.clone()),
                doubted: Arc::clone(&followed.doubted),
                is_available: description.is_some() || followed.found.is_none() && followed.was_available,
            };
            routes.by_version.insert((group, version), Arc::new(route));
        }
        let is_same = shown.groups == before.shown.groups;
        shown.generation = before.shown.generation + u64::from(!is_same);
        routes.shown = if is_same { Arc::clone(&before.shown) } else { Arc::new(shown) };
        self.aggregator.routes.store(Arc::new(routes));
    }

    /// Writes a condition.
    async fn report(&self, stored: &StoredObject, condition: &Condition) -> Result<(), FollowError> {
        let Some(spec) = self.services.spec() else { return Ok(()) };
        let Ok(mut object) = json::parse_own(stored.json()) else { return Ok(()) };
        let now = meta::time::format(self.registry.deps().clock.unix_seconds());
        let before = object.get("status").cloned();
        let Condition { status, reason, message } = condition;
        if !api_service::set_condition(&mut object, status, reason, message, &now) {
            return Ok(());
        }
        manage_status(&spec, before, &mut object, &now);
        let key = spec.storage_key(stored.name());
        let compares = vec![Compare::mod_is(&key, stored.revision())];
        let ops = vec![Op::Put(key, spec.stored_value(object.to_vec()))];
        // Another writer may be faster; its change wakes this loop.
        self.services.commit(Txn { compares, ops }, Deadline::after(STEP)).await?;
        Ok(())
    }

    /// Keeps an APIService for each group-version that this server serves; deletes those of its own that it does not any more.
    async fn keep_local(&self, served: &BTreeMap<(String, String), bool>) -> Result<(), FollowError> {
        let missing: Vec<_> = served
            .iter()
            .filter(|((group, version), _)| !self.known.contains_key(&format!("{version}.{group}")))
            .collect();
        for chunk in missing.chunks(WRITES_AT_ONCE) {
            let written = chunk
                .iter()
                .map(|((group, version), is_registered)| self.create_local(group, version, **is_registered));
            for outcome in futures::future::join_all(written).await {
                outcome?;
            }
        }
        let Some(spec) = self.services.spec() else { return Ok(()) };
        for (name, Known { stored, is_managed, .. }) in &self.known {
            let Some((version, group)) = name.split_once('.').filter(|_| *is_managed) else { continue };
            if stored.deleting() || served.contains_key(&(group.to_owned(), version.to_owned())) {
                continue;
            }
            let key = spec.storage_key(name);
            let compares = vec![Compare::mod_is(&key, stored.revision())];
            self.services.commit(Txn { compares, ops: vec![Op::Delete(key)] }, Deadline::after(STEP)).await?;
        }
        Ok(())
    }

    async fn create_local(&self, group: &str, version: &str, is_registered: bool) -> Result<(), FollowError> {
        let options = WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max);
        let priorities = match (group, is_registered) {
            (_, true) => Priorities::REGISTERED,
            ("", false) => Priorities::CORE,
            (_, false) => Priorities::BUILT_IN,
        };
        let managed = if is_registered { MANAGED_ALWAYS } else { MANAGED_ON_START };
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let mut spec = kindom_api::Map::new();
            if !group.is_empty() {
                spec.insert("group", group);
            }
            spec.insert("version", version);
            spec.insert("groupPriorityMinimum", Value::Int(priorities.group.into()));
            spec.insert("versionPriority", Value::Int(priorities.version.into()));
            let mut object = object! {
                "apiVersion": format!("{}/v1", api_service::GROUP),
                "kind": "APIService",
                "metadata": object! {
                    "name": format!("{version}.{group}"),
                    "labels": object! { "kube-aggregator.kubernetes.io/automanaged": managed },
                },
                "spec": Value::Object(spec),
            };
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let place = Place { version: "v1", subresource: None, namespace: None, name: "" };
        match self.services.create(place, &mut wanted, &options).await {
            Ok(_) | Err(WriteError::Plan(PlanError::AlreadyExists { .. })) => Ok(()),
            // A name that no APIService may have stays without one.
            Err(WriteError::Plan(PlanError::Invalid { name, errors })) => {
                let why: Vec<String> = errors.iter().map(ToString::to_string).collect();
                tracing::warn!(name, why = why.join("; "), "a group-version has no APIService");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The server of an APIService, unless its group-version is this server's own.
fn resolve(
    remote: &Remote,
    local: &BTreeMap<(String, String), bool>,
    followed: usize,
) -> Result<Target, Unreachable> {
    let Remote { group, version, target, .. } = remote;
    if group.is_empty() || local.contains_key(&(group.clone(), version.clone())) {
        let message = format!(
            "{group}/{version} is served by this server itself; the first to claim a group-version keeps it"
        );
        return Err(Unreachable { reason: HELD, message });
    }
    let target = target.clone()?;
    if followed >= REMOTE_MAX {
        let message = format!("there are more than {REMOTE_MAX} APIServices of other servers");
        return Err(Unreachable { reason: "TooManyAPIServices", message });
    }
    Ok(target)
}

fn group_version(object: &Value) -> (&str, &str) {
    let text = |field| object.at(&["spec", field]).and_then(Value::as_str).unwrap_or_default();
    (text("group"), text("version"))
}

/// Notes that an APIService claims its group-version.
fn claim(claims: &mut Elsewhere, object: &Value, name: &str) {
    let (group, version) = group_version(object);
    claims.entry(group.to_owned()).or_default().insert(version.to_owned(), name.to_owned());
}

/// Claims the group-versions that stored APIServices have, before a registration can be judged: who came first keeps it over
/// a restart.
///
/// # Errors
/// The store.
pub(crate) async fn claim_stored(
    registry: &RegistryHandle,
    services: &ResourceHandle,
) -> Result<(), BoxError> {
    let deadline = Deadline::after(STEP);
    let (snapshot, _) = services.snapshot(Freshness::Latest, deadline).await?;
    let mut claims = Elsewhere::new();
    for stored in snapshot.from_key("") {
        let Ok(object) = json::parse_own(stored.json()) else { continue };
        let reason = api_service::condition(&object).and_then(|condition| condition.get("reason")?.as_str());
        if api_service::is_remote(&object) && reason != Some(HELD) {
            claim(&mut claims, &object, stored.name());
        }
    }
    Ok(registry.claim_elsewhere(claims, deadline).await?)
}

/// A version's entry in discovery while its server is away.
fn stale(mut entry: Value) -> Value {
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("freshness", "Stale");
    }
    entry
}

/// Probes a server again and again, and reports each finding.
async fn probe(
    name: String,
    probed: Probed,
    to: mpsc::Sender<Finding>,
    doubted: Arc<Notify>,
    every: Duration,
) {
    let mut soon = every / 5;
    let mut last = LastDocument::default();
    loop {
        let found = match probed.check().await {
            Ok(()) => Found::Available(probed.describe(&mut last).await),
            Err(why) => Found::Failed(why),
        };
        // One that is away is asked again sooner, but not for long.
        let pause = if matches!(found, Found::Failed(_)) { soon } else { every };
        soon = if matches!(found, Found::Failed(_)) { (soon * 2).min(every) } else { every / 5 };
        let finding = Finding { name: name.clone(), target: probed.target.clone(), found };
        if to.send(finding).await.is_err() {
            return;
        }
        tokio::time::sleep(PROBES_APART).await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = doubted.notified() => {}
        }
    }
}
