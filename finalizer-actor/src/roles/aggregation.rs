//! The loop that gives each cluster role with an aggregation rule the rules of the cluster roles that its selectors select.
//!
//! **Flow.** Woken by a change that may matter, it looks at all cluster roles at once and applies the rules of those that have
//! others than they should. Changes that come during a look, and during the rest after it, are one look: a look may cost as much
//! as there are roles, and the loop still takes but a part of a processor.
//!
//! **Guarantees.** A look depends on no outcome of its own ([`Selected::sources`]), so the second one finds nothing to do.
//!
//! **Caveats.** Upstream's controller takes the rules of a selected role that aggregates from where they are stored. Roles that
//! select each other in a circle then keep rules that nobody else has, or hand them round for ever; here they lose them.
//!
//! Source: `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go` (1.37).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError};
use kindom_api::selector::LabelSelector;
use kindom_api::{Value, json, object};
use kindom_objects::rbac::coverage::PolicyRule;
use kindom_objects::{PlanError, StoredObject};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Apply, Freshness, ObjectEvent, Snapshot, WriteError, WriteOptions};
use memchr::memmem;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::aggregated::{Selected, Union};
use super::reconciled::{aggregation, items};
use super::types::{RoleTypes, place};
use crate::attempt::{STEP, pause};
use crate::error::ReconcileError;
use crate::provision::unless_it_is_settled;

/// The manager of the rules that the loop sets.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// The rules of so many roles are gathered and written at once, which bounds the memory that they take meanwhile.
const AT_ONCE: usize = 8;

/// The loop rests after a look for so many times as long as that took, at most [`REST_MAX`].
const REST: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(2);

/// Others run after so many bytes of roles were read.
const BYTES_PER_TURN: usize = 64 << 10;
/// Others run after so many labels of roles were looked at.
const ROLES_PER_TURN: usize = 1024;

/// Starts the loop, as the actor `cluster-role-aggregation`.
///
/// # Errors
/// [`StartError`]
pub fn start(registry: &RegistryHandle, types: &RoleTypes) -> Result<Reconciler, StartError> {
    let deps = registry.deps();
    let aggregation = Aggregation { registry: registry.clone(), types: types.clone() };
    let name = "cluster-role-aggregation";
    let arbiter = deps.arbiters.place(name);
    let run = move |_| aggregation.clone().run();
    deps.supervisor.reconcile(name, &arbiter, Policy::default(), registry.changes(), run)
}

#[derive(Clone)]
struct Aggregation {
    registry: RegistryHandle,
    types: RoleTypes,
}

/// The roles with an aggregation rule, by their place among all.
type Aggregating = BTreeMap<usize, Vec<LabelSelector>>;

impl Aggregation {
    async fn run(self) -> BoxError {
        let (mut failures, mut logged) = (0, BTreeSet::new());
        loop {
            self.registry.leading().await;
            if let Err(error) = self.follow(&mut failures, &mut logged).await {
                failures += 1;
                tracing::warn!(%error, failures, "cluster roles could not be aggregated; trying again");
                pause(&self.registry, failures).await;
            }
        }
    }

    /// Looks again after each change that may matter, for as long as this is the leader. `logged` are the names of the roles that
    /// cannot be given their rules.
    async fn follow(&self, failures: &mut u32, logged: &mut BTreeSet<String>) -> Result<(), ReconcileError> {
        let handle = &self.types.kinds.cluster_roles;
        let mut watch = None;
        while self.registry.is_leader() {
            let began = Instant::now();
            let (snapshot, revision) = handle.snapshot(Freshness::Latest, Deadline::after(STEP)).await?;
            let cursor = match &mut watch {
                Some(cursor) => cursor,
                None => watch.insert(handle.watch(revision)?),
            };
            let selectors = self.look(&snapshot, logged).await?;
            drop(snapshot);
            *failures = 0;
            // So that a burst of changes is one look.
            let rest = began.elapsed().saturating_mul(REST).min(REST_MAX);
            self.registry.deps().clock.sleep(rest).await;
            let matters =
                |event: &Arc<ObjectEvent>| event.revision > revision && may_matter(event, &selectors);
            while !cursor.next(usize::MAX).await?.iter().any(matters) {}
        }
        Ok(())
    }

    /// Gives all roles their rules. Returns all selectors.
    async fn look(
        &self,
        snapshot: &Snapshot,
        logged: &mut BTreeSet<String>,
    ) -> Result<Vec<LabelSelector>, ReconcileError> {
        let objects: Vec<&Arc<StoredObject>> = snapshot.from_key("").collect();
        let aggregating = aggregating(&objects, logged).await;
        let selected = selected(&objects, &aggregating).await;
        let settled = aggregating.keys().filter_map(|place| Some((*place, *objects.get(*place)?)));
        let settled = settled.map(async |(place, role)| {
            let sources = selected
                .sources(place)
                .into_iter()
                .filter_map(|source| objects.get(source).map(|source| &***source));
            (role.name(), self.settle(role, sources).await)
        });
        let mut failure = None;
        let settled: Vec<_> = stream::iter(settled).buffer_unordered(AT_ONCE).collect().await;
        for (name, settled) in settled {
            match settled {
                Ok(None) => drop(logged.remove(name)),
                Ok(Some(why)) => log(logged, name, &why),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(aggregating.into_values().flatten().collect()),
        }
    }

    /// Gives a role the rules of others. Returns the reason why it cannot have them, if there is one.
    async fn settle<'a>(
        &self,
        object: &StoredObject,
        sources: impl Iterator<Item = &'a StoredObject>,
    ) -> Result<Option<String>, ReconcileError> {
        // Never in the same turn as the one before.
        yield_now().await;
        let (mut union, mut bytes) = (Union::new(self.types.object_bytes_max), 0);
        for source in sources {
            take_turn(&mut bytes, source).await;
            let role = json::parse_own(source.json()).unwrap_or_default();
            union = match union.and(PolicyRule::list(&role)) {
                Some(union) => union,
                None => return Ok(Some("the rules are larger than an object may be".to_owned())),
            };
        }
        let rules = union.into_rules();
        let role = json::parse_own(object.json()).unwrap_or_default();
        if PolicyRule::list(&role) == rules {
            return Ok(None);
        }
        match self.apply(object, &rules).await {
            Err(
                error @ (WriteError::Plan(PlanError::TooLarge { .. } | PlanError::Invalid { .. })
                | WriteError::RequestTooLarge(_)),
            ) => Ok(Some(error.to_string())),
            applied => applied.or_else(unless_it_is_settled).map(|()| None),
        }
    }

    async fn apply(&self, object: &StoredObject, rules: &[PolicyRule]) -> Result<(), WriteError> {
        let mut patch = object! {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": object! { "name": object.name() },
        };
        if let Some(patch) = patch.as_object_mut().filter(|_| !rules.is_empty()) {
            patch.insert("rules", rules.iter().map(PolicyRule::to_tree).collect::<Vec<_>>());
        }
        // Another role of the name, or one that no longer aggregates, is due by its own change. An apply would make one that has
        // gone.
        let mut still = |role: &mut Value, is_new: bool| {
            let is_it = !is_new && role.text_at(&["metadata", "uid"]) == object.uid();
            match is_it && aggregation(role).is_some() {
                true => Ok(()),
                false => Err(PlanError::NotFound { name: object.name().to_owned() }.into()),
            }
        };
        let mut apply = Apply { patch: Ok(patch), force: true, check: &mut still };
        let options = WriteOptions { manager: MANAGER.to_owned(), ..self.types.options() };
        let applied =
            self.types.kinds.cluster_roles.apply(place(None, object.name()), &mut apply, &options).await;
        applied.map(drop)
    }
}

/// The roles that have an aggregation rule. A role with a selector that is none keeps its rules, as upstream leaves it.
async fn aggregating(objects: &[&Arc<StoredObject>], logged: &mut BTreeSet<String>) -> Aggregating {
    let mut found = Aggregating::new();
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    for (place, object) in objects.iter().enumerate() {
        if !may_aggregate(object) {
            continue;
        }
        take_turn(&mut bytes, object).await;
        let role = json::parse_own(object.json()).unwrap_or_default();
        let Some(rule) = aggregation(&role) else { continue };
        names.insert(object.name());
        let selectors = items(rule, "clusterRoleSelectors").iter().map(LabelSelector::of_object);
        match selectors.collect() {
            Ok(selectors) => drop(found.insert(place, selectors)),
            Err(why) => log(logged, object.name(), &why),
        }
    }
    logged.retain(|name| names.contains(name.as_str()));
    found
}

/// Reads which roles select which.
async fn selected(objects: &[&Arc<StoredObject>], aggregating: &Aggregating) -> Selected {
    let (mut all, mut looked) = (Selected::default(), 0);
    for (place, selectors) in aggregating {
        let mut places = Vec::new();
        for selector in selectors {
            for (other, object) in objects.iter().enumerate() {
                looked += 1;
                if looked == ROLES_PER_TURN {
                    looked = 0;
                    yield_now().await;
                }
                if other != *place && selector.matches(|key| object.label(key)) {
                    places.push(other);
                }
            }
        }
        all.0.insert(*place, places);
    }
    all
}

/// Lets others run before an object is read, if enough was read since.
async fn take_turn(bytes: &mut usize, object: &StoredObject) {
    *bytes += object.json().len();
    if *bytes >= BYTES_PER_TURN {
        *bytes = 0;
        yield_now().await;
    }
}

/// Logs once why a role cannot be given its rules.
fn log(logged: &mut BTreeSet<String>, name: &str, why: &str) {
    if logged.insert(name.to_owned()) {
        tracing::warn!(name, why, "a cluster role keeps its rules, which should be those of others");
    }
}

/// False if the role surely has no aggregation rule.
fn may_aggregate(object: &StoredObject) -> bool {
    memmem::find(object.json(), b"\"aggregationRule\"").is_some()
}

/// False if a change surely leaves all other roles with the rules that they have.
fn may_matter(event: &ObjectEvent, selectors: &[LabelSelector]) -> bool {
    let is_selected =
        |object: &StoredObject| selectors.iter().any(|selector| selector.matches(|key| object.label(key)));
    [&event.object, &event.previous]
        .into_iter()
        .flatten()
        .any(|role| may_aggregate(role) || is_selected(role))
}
