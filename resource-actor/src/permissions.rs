//! What users may do by roles and their bindings (`--authorization-mode=RBAC`), as the objects are now.
//!
//! Each namespace is compiled by itself: whoever may write bindings in one holds up nobody's requests in another. The first request
//! that meets a change has it compiled, in a flow of the namespace and not of the user; a later one does so only if the chunks of the
//! snapshot are others.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::sync::{Arc, Weak};

use kindom_actor_kit::{Deadline, Flow, Processors, back, dear, turn};
use kindom_api::{User, Value, json};
use kindom_objects::StoredObject;
use kindom_objects::rbac::{
    BindingIndex, Grant, MissingRole, Role, RoleBinding, RoleIndex, RoleRef, RoleScope, Wish,
};
use parking_lot::RwLock;
use tokio::sync::OwnedMutexGuard;

use crate::error::WriteError;
use crate::turns::WriteTurns;
use crate::{ResourceHandle, Snapshot, cost};

/// From so many namespaces on, those that are gone are looked for now and then.
const SWEPT_AT: usize = 64;

/// The most missing roles that a refusal names.
const MISSING_MAX: usize = 16;

/// Nanoseconds for each object that is compiled already.
const KEPT: u64 = 200;
/// Nanoseconds for each binding that is looked up, and for each text of a role that is looked through.
const BOUND: u64 = 200;
const LOOKED_THROUGH: u64 = 10;

/// The types by whose objects permissions are given.
#[derive(Clone)]
pub struct RoleKinds {
    /// ClusterRoles.
    pub cluster_roles: ResourceHandle,
    /// ClusterRoleBindings.
    pub cluster_bindings: ResourceHandle,
    /// Roles.
    pub roles: ResourceHandle,
    /// RoleBindings.
    pub bindings: ResourceHandle,
}

/// The permissions of all users. Cheap to clone.
#[derive(Clone)]
pub struct Permissions(Arc<Indexes>);

struct Indexes {
    kinds: RoleKinds,
    processors: Processors,
    /// By namespace; those of the cluster as a whole under the empty name. A namespace without objects has none.
    roles: RwLock<HashMap<String, Arc<IndexedObjects<Role>>>>,
    bindings: RwLock<HashMap<String, Arc<IndexedObjects<RoleBinding>>>>,
    /// Taken by the one who compiles a namespace for all.
    turns: WriteTurns<()>,
}

/// A form into which objects are compiled one by one, and together.
trait Indexed: Sized + Send + Sync + 'static {
    type Index: FromIterator<Arc<Self>> + Default + Send + Sync;

    fn compile(tree: &Value) -> Self;
}

impl Indexed for Role {
    type Index = RoleIndex;

    fn compile(tree: &Value) -> Self {
        Self::compile(tree)
    }
}

impl Indexed for RoleBinding {
    type Index = BindingIndex;

    fn compile(tree: &Value) -> Self {
        Self::compile(tree)
    }
}

/// The objects of a kind in a namespace.
struct IndexedObjects<T: Indexed> {
    /// The chunks that they were found in, which may have others, too: not kept, but no other one can have their places.
    chunks: Vec<Weak<Vec<Arc<StoredObject>>>>,
    compiled: Arc<IndexedForms<T>>,
}

struct IndexedForms<T: Indexed> {
    all: Vec<(Arc<StoredObject>, Arc<T>)>,
    index: T::Index,
}

impl<T: Indexed> Default for IndexedObjects<T> {
    fn default() -> Self {
        let compiled = IndexedForms { all: Vec::new(), index: T::Index::default() };
        Self { chunks: Vec::new(), compiled: Arc::new(compiled) }
    }
}

impl<T: Indexed> IndexedObjects<T> {
    fn is_of(&self, snapshot: &Snapshot, prefix: &str) -> bool {
        snapshot.chunks_of(prefix).map(Arc::as_ptr).eq(self.chunks.iter().map(Weak::as_ptr))
    }

    /// Compiles what has changed since `before`.
    async fn next(before: Option<&Self>, snapshot: &Snapshot, prefix: &str) -> Result<Self, WriteError> {
        let chunks = snapshot.chunks_of(prefix).map(Arc::downgrade).collect();
        let before = before.map(|before| &before.compiled);
        let objects = || snapshot.range(prefix, "");
        // Those of a neighbour in a chunk come and go, too.
        if let Some(same) = before.filter(|before| objects().map(Arc::as_ptr).eq(before.objects())) {
            return Ok(Self { chunks, compiled: Arc::clone(same) });
        }
        let is_new = |object: &&Arc<StoredObject>| before.is_none_or(|before| before.same(object).is_none());
        let new_bytes = objects().filter(is_new).map(|object| object.json().len()).sum();
        dear(cost::each(KEPT, snapshot.count(prefix, "")) + cost::compile(new_bytes)).await?;
        let mut all = Vec::new();
        for object in objects() {
            let form = match before.and_then(|before| before.same(object)) {
                Some(same) => Arc::clone(same),
                None => {
                    // What cannot be read permits nothing.
                    let tree = json::parse_own(object.json()).unwrap_or_else(|why| {
                        tracing::warn!(key = object.key(), %why, "this role or binding cannot be read");
                        Value::Null
                    });
                    Arc::new(T::compile(&tree))
                }
            };
            all.push((Arc::clone(object), form));
        }
        let bytes = all.iter().map(|(object, _)| object.json().len()).sum();
        dear(cost::parse(bytes)).await?;
        let index = all.iter().map(|(_, form)| Arc::clone(form)).collect();
        Ok(Self { chunks, compiled: Arc::new(IndexedForms { all, index }) })
    }
}

impl<T: Indexed> IndexedObjects<T> {
    /// Those of the objects that it was compiled from.
    fn bytes(&self) -> usize {
        self.compiled.all.iter().map(|(object, _)| object.json().len()).sum()
    }
}

impl<T: Indexed> IndexedForms<T> {
    fn objects(&self) -> impl Iterator<Item = *const StoredObject> {
        self.all.iter().map(|(object, _)| Arc::as_ptr(object))
    }

    fn same(&self, object: &Arc<StoredObject>) -> Option<&Arc<T>> {
        let at = self.all.binary_search_by(|(other, _)| other.key().cmp(object.key())).ok()?;
        let (_, form) = self.all.get(at).filter(|(other, _)| Arc::ptr_eq(other, object))?;
        Some(form)
    }
}

/// What counts in a namespace.
struct Counting {
    cluster_roles: Arc<IndexedObjects<Role>>,
    cluster_bindings: Arc<IndexedObjects<RoleBinding>>,
    namespaced: Option<Namespaced>,
}

/// The objects of a namespace.
struct Namespaced {
    roles: Arc<IndexedObjects<Role>>,
    bindings: Arc<IndexedObjects<RoleBinding>>,
}

impl Counting {
    fn scope(&self) -> RoleScope<'_> {
        RoleScope {
            cluster_roles: &self.cluster_roles.compiled.index,
            cluster_bindings: &self.cluster_bindings.compiled.index,
            namespaced: self
                .namespaced
                .as_ref()
                .map(|of| (&of.roles.compiled.index, &of.bindings.compiled.index)),
        }
    }
}

/// The decision on a wish.
#[derive(Debug, Clone)]
pub enum Permission {
    /// A role allows it.
    Granted(Grant),
    /// None does. Some of the roles that are not there, to which bindings of the user refer.
    Withheld(Vec<MissingRole>),
}

impl Permissions {
    /// Those that objects of these kinds give, which are compiled by these processors.
    #[must_use]
    pub fn new(processors: Processors, kinds: RoleKinds) -> Self {
        Self(Arc::new(Indexes {
            kinds,
            processors,
            roles: RwLock::default(),
            bindings: RwLock::default(),
            turns: WriteTurns::default(),
        }))
    }

    /// Decides if a user may act as he wishes, in a namespace or, if that is empty, in the cluster as a whole
    /// (`RBACAuthorizer.Authorize`). Sees every change that this server has answered.
    ///
    /// # Errors
    /// [`WriteError::Unavailable`] and the like: the objects could not be read in time.
    pub async fn decide(
        &self,
        user: &User,
        namespace: &str,
        wish: Wish<'_>,
        deadline: Deadline,
    ) -> Result<Permission, WriteError> {
        let grants = self.grants(user, namespace, deadline).await?;
        let allows = |grant: &Grant| {
            grant.role.as_ref().is_some_and(|role| role.rules.iter().any(|rule| wish.is_allowed_by(rule)))
        };
        Ok(match grants.iter().find(|grant| allows(grant)) {
            Some(grant) => Permission::Granted(grant.clone()),
            None => Permission::Withheld(missing(&grants)),
        })
    }

    /// The roles of a user, likewise, each once; and some of those that are not there (`RulesFor`).
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub async fn roles(
        &self,
        user: &User,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<(Vec<Arc<Role>>, Vec<MissingRole>), WriteError> {
        let grants = self.grants(user, namespace, deadline).await?;
        let missing = missing(&grants);
        // Of a role that is bound many times, once is enough.
        let mut seen = HashSet::new();
        let roles = grants.into_iter().filter_map(|grant| grant.role);
        let roles = roles.filter(|role| seen.insert(Arc::as_ptr(role).addr())).collect();
        Ok((roles, missing))
    }

    /// The role that a binding in a namespace, or in none, refers to.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); within, the role is not there.
    pub(crate) async fn role(
        &self,
        reference: &RoleRef,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<Result<Arc<Role>, MissingRole>, WriteError> {
        Ok(self.counting(namespace, deadline).await?.scope().role(reference))
    }

    /// The roles of a user, once it is the request's turn to look them through.
    async fn grants(
        &self,
        user: &User,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<Vec<Grant>, WriteError> {
        let counting = self.counting(namespace, deadline).await?;
        let scope = counting.scope();
        dear(cost::each(BOUND, scope.count(user))).await?;
        let grants = scope.grants(user);
        let texts = grants.iter().filter_map(|grant| grant.role.as_ref()).map(|role| role.texts).sum();
        dear(cost::each(LOOKED_THROUGH, texts)).await?;
        Ok(grants)
    }

    async fn counting(&self, namespace: &str, deadline: Deadline) -> Result<Counting, WriteError> {
        let namespaced = match namespace {
            "" => None,
            namespace => Some(Namespaced {
                roles: self.part(|of| (&of.kinds.roles, &of.roles), namespace, deadline).await?,
                bindings: self.part(|of| (&of.kinds.bindings, &of.bindings), namespace, deadline).await?,
            }),
        };
        Ok(Counting {
            cluster_roles: self.part(|of| (&of.kinds.cluster_roles, &of.roles), "", deadline).await?,
            cluster_bindings: self
                .part(|of| (&of.kinds.cluster_bindings, &of.bindings), "", deadline)
                .await?,
            namespaced,
        })
    }

    /// The objects of a kind in a namespace, compiled as they are now.
    async fn part<T: Indexed>(
        &self,
        table: fn(&Indexes) -> Table<'_, T>,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<Arc<IndexedObjects<T>>, WriteError> {
        let (kind, known) = table(&self.0);
        let (snapshot, _) = kind.snapshot(kind.own_writes()?, deadline).await?;
        let prefix = prefix_of(namespace);
        let part = known.read().get(namespace).cloned();
        if let Some(part) = part.as_ref().filter(|part| part.is_of(&snapshot, &prefix)) {
            return Ok(Arc::clone(part));
        }
        // A great many requests may be about namespaces that have none, or do not exist.
        if snapshot.count(&prefix, "") == 0 {
            if part.is_some() {
                // Freed without the lock.
                let gone = known.write().remove(namespace);
                drop((gone, part));
            }
            return Ok(Arc::default());
        }
        back().await;
        let late = |_| WriteError::Unavailable("timed out while roles and bindings were compiled".into());
        let turn = self.0.turns.wait(namespace, deadline).await.map_err(late)?;
        // Its client may leave; the others that wait need the result.
        let compiling = tokio::spawn(self.clone().compiled(turn, table, namespace.to_owned(), deadline));
        compiling.await.map_err(|lost| WriteError::Unavailable(lost.to_string()))?
    }

    /// Compiles the objects of a kind in a namespace, unless another one just has.
    async fn compiled<T: Indexed>(
        self,
        _turn: OwnedMutexGuard<()>,
        table: fn(&Indexes) -> Table<'_, T>,
        namespace: String,
        deadline: Deadline,
    ) -> Result<Arc<IndexedObjects<T>>, WriteError> {
        let (kind, known) = table(&self.0);
        // Another request may have compiled a later state meanwhile.
        let (snapshot, _) = kind.snapshot(kind.own_writes()?, deadline).await?;
        let prefix = prefix_of(&namespace);
        let before = known.read().get(&namespace).cloned();
        if let Some(part) = before.as_ref().filter(|part| part.is_of(&snapshot, &prefix)) {
            return Ok(Arc::clone(part));
        }
        let flow = {
            // Seeded: nobody can choose a name that shares another's flow.
            let known = known.read();
            Flow { user: known.hasher().hash_one(&namespace), kind: known.hasher().hash_one("roles") }
        };
        let compiling = {
            let (snapshot, before) = (Arc::clone(&snapshot), before.clone());
            async move { IndexedObjects::next(before.as_deref(), &snapshot, &prefix).await }
        };
        let part = self.0.processors.run(flow, compiling).await;
        let part = Arc::new(part.map_err(|lost| WriteError::Unavailable(lost.to_string()))??);
        let is_new = known.write().insert(namespace, Arc::clone(&part)).is_none();
        // Nobody may ever ask again about a namespace that is gone.
        if is_new {
            sweep(known, &snapshot);
        }
        // To free a large index takes long, too.
        if let Some(before) = before {
            let cost = cost::parse(before.bytes());
            let freed = async move {
                turn(cost).await;
                drop(before);
            };
            if self.0.processors.run(flow, freed).await.is_err() {
                tracing::warn!("an index of roles was not freed in order");
            }
        }
        Ok(part)
    }
}

/// The roles that are not there; no more of them than a refusal should name.
fn missing(grants: &[Grant]) -> Vec<MissingRole> {
    grants.iter().filter(|grant| grant.role.is_none()).take(MISSING_MAX).map(Grant::missing).collect()
}

/// A kind, and its objects by namespace.
type Table<'a, T> = (&'a ResourceHandle, &'a RwLock<HashMap<String, Arc<IndexedObjects<T>>>>);

/// Forgets the namespaces without objects, where many are known.
fn sweep<T: Indexed>(known: &RwLock<HashMap<String, Arc<IndexedObjects<T>>>>, snapshot: &Snapshot) {
    let gone: Vec<String> = {
        let known = known.read();
        if known.len() < SWEPT_AT || !known.len().is_power_of_two() {
            return;
        }
        let is_gone = |namespace: &&String| snapshot.count(&prefix_of(namespace), "") == 0;
        known.keys().filter(is_gone).cloned().collect()
    };
    for namespace in gone {
        let left = known.write().remove(&namespace);
        drop(left);
    }
}

/// The keys of a type of the cluster have no namespace.
fn prefix_of(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}
