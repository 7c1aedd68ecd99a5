//! The registry's actor: folds registrations into claims and routes, and answers which verdicts are due.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    Actor, AsyncContext as _, Context, Handler, Message, MessageResult, StreamHandler, WrapFuture as _,
};
use kindom_actor_kit::{BoxError, Incarnation};
use kindom_api::crd::{condition, decode_crd};
use kindom_api::faces::{Face, registered_through};
use kindom_api::meta::Condition;
use kindom_api::{Value, json};
use kindom_objects::conversion_rules::{RULES_ANNOTATION, tested_condition};
use kindom_objects::{CustomObjects, StoredCondition, StoredObject, StoredRegistration, TypeSpec};
use kindom_resource_actor::{Batch, Batches, Pages, ResourceHandle};
use kindom_storage::{Change, KeyRange, Revision, StoredValue, Watch};

use kindom_schema::crd::{api_approval_condition, has_invalid_ca_bundle, non_structural_schema_condition};

use crate::claims::{ClaimTable, Claimant, Conflict, INVALID_CA_BUNDLE, Settled};
use crate::messages::{
    ClaimElsewhere, Due, Dues, JudgeNames, ListOutdated, ListRegistered, ListTerminating, Registered,
};
use crate::routes::RouteTable;
use crate::shared::Shared;

/// The most commits that one turn folds: each costs the parsing of a registration.
const FOLD_PER_TURN_MAX: usize = 4;
/// A turn that has so many bytes of registrations to parse folds no more.
const FOLD_BYTES_PER_TURN_MAX: usize = 32 << 10;

/// One incarnation: the fold of all registrations up to `folded`.
pub(crate) struct RegistryActor {
    shared: Arc<Shared>,
    claims: ClaimTable,
    registrations: BTreeMap<String, Entry>,
    folded: Revision,
    commits: Option<Batches>,
    incarnation: Incarnation,
}

struct Entry {
    object: Arc<StoredObject>,
    terminating: bool,
    /// Its group and plural are a built-in type's.
    built_in: bool,
    /// Its objects may be stored in other versions than the storage version, and could be in that one.
    outdated: bool,
    /// Its key in the routes: group and plural.
    route: Option<(String, String)>,
}

/// The parts of a registration that the registry needs.
struct Facts {
    claimant: Claimant,
    plural: String,
    served: bool,
}

impl RegistryActor {
    pub(crate) async fn load(shared: Arc<Shared>, incarnation: Incarnation) -> Result<Self, BoxError> {
        let storage = Arc::clone(&shared.deps.storage);
        let mut pages = Pages::as_of_first(&shared.prefix);
        let mut actor = Self {
            claims: ClaimTable::default(),
            registrations: BTreeMap::new(),
            folded: Revision::ZERO,
            commits: None,
            incarnation,
            shared,
        };
        let _ = actor.claims.set_elsewhere(&actor.shared.elsewhere.read());
        let mut table = actor.shared.built_in.clone();
        while let Some(page) = pages.next(&*storage).await? {
            actor.folded = page.revision;
            for kv in page.kvs {
                actor.put(&mut table, kv.key.as_bytes(), kv.value, kv.mod_revision, kv.create_revision);
            }
        }
        actor.retire_missing();
        let range = KeyRange::prefix(actor.shared.prefix.as_bytes());
        let Watch { commits, progress } = storage.watch(range, Some(actor.folded.next())).await?;
        let feed = Arc::clone(&actor.shared.feed);
        actor.commits = Some(Batches::new(feed, commits, FOLD_PER_TURN_MAX, FOLD_BYTES_PER_TURN_MAX));
        actor.shared.routes.publish(table);
        actor.shared.feed.begin(actor.folded, progress);
        actor.shared.changed.wake();
        Ok(actor)
    }

    /// Types that an earlier incarnation knew and whose registration is gone.
    fn retire_missing(&mut self) {
        self.shared.short_names.write().retain(|name| self.registrations.contains_key(name));
        let mut handles = self.shared.handles.lock();
        let gone: Vec<String> =
            handles.keys().filter(|n| !self.registrations.contains_key(*n)).cloned().collect();
        for name in gone {
            if let Some(handle) = handles.remove(&name) {
                handle.retire_at(self.folded);
            }
        }
    }

    fn put(
        &mut self,
        table: &mut RouteTable,
        key: &[u8],
        value: StoredValue,
        revision: Revision,
        created: Revision,
    ) {
        let Some(name) =
            key.strip_prefix(self.shared.prefix.as_bytes()).and_then(|n| std::str::from_utf8(n).ok())
        else {
            return;
        };
        let object = Arc::new(self.shared.registrations.stored_object(name, value, revision));
        if let Some(why) = object.corrupt() {
            tracing::error!(registration = name, why, "a stored registration can't be read");
        }
        let readable = object.corrupt().is_none().then(|| json::parse_own(object.json()).ok()).flatten();
        let tree = readable.unwrap_or_default();
        let facts = facts(StoredRegistration::new(&tree), created);
        let handle = facts.as_ref().and_then(|facts| self.type_of(name, facts, &object, &tree));
        match &facts {
            Some(facts) => self.claims.put(name, facts.claimant.clone()),
            None => self.claims.remove(name),
        }
        self.shared.hold_short_names(name, facts.as_ref().map(|facts| &facts.claimant));
        let route = match (&facts, &handle) {
            (Some(facts), Some(_)) if facts.served => {
                Some((facts.claimant.group.clone(), facts.claimant.accepted.plural.clone()))
            }
            _ => None,
        };
        let terminating = object.deleting();
        let built_in = facts.as_ref().is_some_and(|facts| self.is_built_in(facts));
        let outdated = !terminating && !built_in && is_outdated(StoredRegistration::new(&tree));
        let entry = Entry { object, terminating, built_in, outdated, route: route.clone() };
        let before = self.registrations.insert(name.to_owned(), entry);
        if let Some((group, plural)) = before.and_then(|b| b.route).filter(|r| Some(r) != route.as_ref()) {
            table.remove(&group, &plural);
        }
        if let (Some((group, plural)), Some(handle)) = (route, handle) {
            table.insert(&group, &plural, handle);
        }
    }

    fn is_built_in(&self, facts: &Facts) -> bool {
        self.shared.built_in.get(&facts.claimant.group, &facts.plural).is_some()
    }

    /// The type's handle with its spec as of this registration. It outlives incarnations, so that watches do.
    fn type_of(
        &self,
        name: &str,
        facts: &Facts,
        object: &Arc<StoredObject>,
        tree: &Value,
    ) -> Option<ResourceHandle> {
        // A registration whose group and plural are built in never serves (OverlappingBuiltInResource).
        if self.is_built_in(facts) {
            return None;
        }
        let mut handles = self.shared.handles.lock();
        let mut known = handles.get(name).cloned();
        if let Some(other) = known.take_if(|known| is_another(known, object)) {
            // The registration was deleted and created again unobserved.
            other.retire_at(facts.claimant.created);
            handles.remove(name);
        }
        let before = known.as_ref().and_then(ResourceHandle::spec);
        let seen = |spec: &TypeSpec| spec.registration.as_ref().map(|r| r.object.revision());
        if before.as_deref().and_then(seen) == Some(object.revision()) {
            return known;
        }
        let key = kindom_storage::Key::from(format!("{}{name}", self.shared.prefix));
        let strategy = self.shared.options.strategies.get(name).cloned();
        let strategy = strategy.unwrap_or_else(|| Arc::new(CustomObjects));
        let spec = TypeSpec::from_registration(key, object, tree, strategy, before.as_deref());
        let spec = match spec {
            Ok(spec) => Arc::new(spec),
            Err(error) => {
                tracing::error!(registration = name, error, "a stored registration can't be served");
                return None;
            }
        };
        let handle = match known {
            Some(known) => {
                known.set_spec(spec);
                known
            }
            None => ResourceHandle::new(Arc::clone(&self.shared.deps), spec),
        };
        handles.insert(name.to_owned(), handle.clone());
        Some(handle)
    }

    fn remove(&mut self, table: &mut RouteTable, key: &[u8], revision: Revision) {
        let Some(name) =
            key.strip_prefix(self.shared.prefix.as_bytes()).and_then(|n| std::str::from_utf8(n).ok())
        else {
            return;
        };
        self.claims.remove(name);
        self.shared.hold_short_names(name, None);
        if let Some((group, plural)) = self.registrations.remove(name).and_then(|e| e.route) {
            table.remove(&group, &plural);
        }
        if let Some(handle) = self.shared.handles.lock().remove(name) {
            handle.retire_at(revision);
        }
    }

    fn registered(&self, only: impl Fn(&Entry) -> bool) -> Vec<Registered> {
        let handles = self.shared.handles.lock();
        let chosen = self.registrations.iter().filter(|(_, entry)| only(entry));
        chosen
            .map(|(name, entry)| Registered {
                name: name.clone(),
                handle: handles.get(name).cloned(),
                built_in: entry.built_in,
                object: Arc::clone(&entry.object),
            })
            .collect()
    }
}

/// `true` if a handle belongs to an earlier registration of the same name.
fn is_another(handle: &ResourceHandle, object: &StoredObject) -> bool {
    let spec = handle.spec();
    let known = spec.as_ref().and_then(|spec| spec.registration.as_ref());
    known.is_none_or(|known| known.object.uid() != object.uid())
}

/// `true` if an established registration has stored versions besides the storage version, and no webhook is needed to
/// bring objects from one to the other.
fn is_outdated(registration: StoredRegistration<'_>) -> bool {
    registration.has_outdated_objects()
        && registration.is_condition_true(condition::ESTABLISHED)
        && !registration.converts_by_webhook()
}

/// Reads the parts that the registry needs; `None` if it is no registration.
fn facts(registration: StoredRegistration<'_>, created: Revision) -> Option<Facts> {
    let (group, plural) = (registration.group()?.to_owned(), registration.plural()?.to_owned());
    let (wanted, accepted) = (registration.names(), registration.accepted_names());
    let names = registration.condition(condition::NAMES_ACCEPTED);
    let established = registration.condition(condition::ESTABLISHED);
    let is = |condition: Option<StoredCondition<'_>>, status: &str| {
        condition.is_some_and(|c| c.status() == status)
    };
    let names_accepted = ["False", "True"].into_iter().position(|status| is(names, status)).map(|at| at == 1);
    // The condition that shows best since when it holds its names: it is True only from then on.
    let telling = [names, established].into_iter().find(|c| is(*c, "True")).unwrap_or(names);
    let since = match telling.map(StoredCondition::last_transition_time).unwrap_or_default() {
        "" => registration.created_at().unwrap_or_default(),
        time => time,
    };
    let conflict = names.filter(|names| names.status() == "False").map(|names| Conflict {
        reason: names.reason().to_owned().into(),
        message: names.message().to_owned(),
    });
    let established = is(established, "True");
    let deleting = registration.is_deleted();
    Some(Facts {
        plural,
        // ServeHTTP (T-43): accepted or established, under the plural that it holds.
        served: (names_accepted == Some(true) || established) && accepted.plural == wanted.plural,
        claimant: Claimant {
            group,
            created,
            since: since.to_owned(),
            versions: registration.served_versions().map(str::to_owned).collect(),
            wanted,
            accepted,
            settled: Settled { names_accepted, conflict, established, deleting, ..policy(registration) },
        },
    })
}

/// The state of a registration's conditions, apart from its names. Only those of the Kubernetes project's groups, those that convert, and
/// those whose schemas may be without structure need a look.
fn policy(registration: StoredRegistration<'_>) -> Settled {
    let ok = Settled {
        names_accepted: None,
        conflict: None,
        established: false,
        deleting: false,
        blocked: false,
        up_to_date: true,
    };
    let group = registration.group().unwrap_or_default();
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|of| group == *of || group.ends_with(&format!(".{of}")));
    let lax = registered_through(registration.tree()) == Face::V1beta1
        || registration.preserves_unknown_fields()
        || registration.condition(condition::NON_STRUCTURAL_SCHEMA).is_some();
    let converts = registration.converts_by_webhook()
        || registration.annotation(RULES_ANNOTATION).is_some()
        || registration.condition(condition::CONVERSION_TESTED).is_some();
    if !protected && !converts && !lax {
        return ok;
    }
    let Ok((crd, _)) = decode_crd(registration.tree()) else { return ok };
    let says = |wanted: &Condition| {
        crd.condition(&wanted.kind).is_some_and(|c| {
            (&c.status, &c.reason, &c.message) == (&wanted.status, &wanted.reason, &wanted.message)
        })
    };
    let is_as_due = |kind: &str, due: Option<Condition>| match due {
        Some(wanted) => says(&wanted),
        None => crd.condition(kind).is_none(),
    };
    let blocked = has_invalid_ca_bundle(&crd) && !crd.is_condition_true(condition::ESTABLISHED);
    let is_reported = crd.condition(condition::ESTABLISHED).is_some_and(|c| c.reason == INVALID_CA_BUNDLE);
    Settled {
        blocked: blocked && is_reported,
        up_to_date: api_approval_condition(&crd).as_ref().is_none_or(says)
            && is_as_due(condition::NON_STRUCTURAL_SCHEMA, non_structural_schema_condition(&crd))
            && is_as_due(condition::CONVERSION_TESTED, tested_condition(&crd)),
        ..ok
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(commits) = self.commits.take() {
            ctx.add_stream(commits);
        }
        ctx.spawn(Arc::clone(&self.shared).sweep().into_actor(self));
    }
}

impl StreamHandler<Batch> for RegistryActor {
    fn handle(&mut self, commits: Batch, _: &mut Self::Context) {
        let mut table = RouteTable::clone(&self.shared.routes.table());
        for commit in commits {
            let commit = match commit {
                Ok(commit) => commit,
                Err(error) => {
                    self.incarnation.reload(format!("the commit stream of registrations ended: {error}"));
                    break;
                }
            };
            for event in &commit.events {
                match &event.change {
                    Change::Put { value, create_revision } => {
                        self.put(
                            &mut table,
                            event.key.as_bytes(),
                            value.clone(),
                            commit.revision,
                            *create_revision,
                        );
                    }
                    Change::Delete => self.remove(&mut table, event.key.as_bytes(), commit.revision),
                }
            }
            self.folded = commit.revision;
        }
        self.shared.publish(table, self.folded);
    }

    fn finished(&mut self, _: &mut Self::Context) {
        self.incarnation.reload("the commit stream of registrations ended");
    }
}

impl Message for JudgeNames {
    type Result = Dues;
}

impl Handler<JudgeNames> for RegistryActor {
    type Result = MessageResult<JudgeNames>;

    fn handle(&mut self, JudgeNames { max }: JudgeNames, _: &mut Self::Context) -> Self::Result {
        let (verdicts, more) = self.claims.due(max);
        let due = verdicts.into_iter().filter_map(|(name, verdict)| {
            let object = Arc::clone(&self.registrations.get(&name)?.object);
            Some(Due { name, object, verdict, folded: self.folded })
        });
        MessageResult(Dues { due: due.collect(), more })
    }
}

impl Message for ListTerminating {
    type Result = Vec<Registered>;
}

impl Handler<ListTerminating> for RegistryActor {
    type Result = MessageResult<ListTerminating>;

    fn handle(&mut self, _: ListTerminating, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.registered(|entry| entry.terminating))
    }
}

impl Message for ClaimElsewhere {
    type Result = ();
}

impl Handler<ClaimElsewhere> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: ClaimElsewhere, _: &mut Self::Context) {
        let is_changed = self.claims.set_elsewhere(&self.shared.elsewhere.read());
        if is_changed {
            self.shared.changed.wake();
        }
    }
}

impl Message for ListOutdated {
    type Result = Vec<Registered>;
}

impl Handler<ListOutdated> for RegistryActor {
    type Result = MessageResult<ListOutdated>;

    fn handle(&mut self, _: ListOutdated, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.registered(|entry| entry.outdated))
    }
}

impl Message for ListRegistered {
    type Result = Vec<Registered>;
}

impl Handler<ListRegistered> for RegistryActor {
    type Result = MessageResult<ListRegistered>;

    fn handle(&mut self, _: ListRegistered, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.registered(|_| true))
    }
}
