//! The quotas of a namespace in the writes of its objects. A create, or an update that needs more, counts what there is and puts
//! the sum into the quota's status, in its own transaction, which requires the quota as it was found. So of two creates that count
//! the same, on any replicas, one plans again: as many objects as the quota allows are created, and no more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kindom_actor_kit::{Deadline, dear};
use kindom_api::quantity::Quantity;
use kindom_api::{GroupResource, Value, json};
use kindom_objects::kinds::resource_quota::measure::Usage;
use kindom_objects::kinds::resource_quota::usage::{self as quota, QuotaChange};
use kindom_objects::{PlanError, StoredObject, Subresource, TypeSpec};
use kindom_storage::{Compare, Op, Revision};
use tokio::sync::OwnedMutexGuard;
use tokio::task::yield_now;

use crate::ResourceHandle;
use crate::cost;
use crate::error::{WriteError, refuse_loss};
use crate::handle::Freshness;
use crate::snapshot::{Chunk, Snapshot};
use crate::turns::WriteTurns;

/// The ResourceQuotas that bound writes. Cheap to clone.
#[derive(Clone)]
pub struct Quotas {
    handle: ResourceHandle,
    /// The writes that quotas bound, by namespace.
    turns: WriteTurns<Turn>,
}

impl Quotas {
    /// Quotas of this type.
    #[must_use]
    pub fn new(handle: ResourceHandle) -> Self {
        Self { handle, turns: WriteTurns::default() }
    }
}

/// The parts of one write of a namespace that the next begins with.
#[derive(Default)]
struct Turn {
    /// The revision of the last one.
    last: Revision,
    sums: Sums,
}

/// The changes of quotas that go with a write, and their conditions.
#[derive(Default)]
pub(crate) struct Charges {
    pub(crate) compares: Vec<Compare>,
    pub(crate) ops: Vec<Op>,
    turn: Option<OwnedMutexGuard<Turn>>,
}

impl Charges {
    /// Ends the turn of a write that was committed at this revision.
    pub(crate) fn committed(self, at: Revision) {
        if let Some(mut turn) = self.turn {
            turn.last = at.max(turn.last);
        }
    }
}

/// A write that may need more of what quotas bound.
pub(crate) struct Demand<'a> {
    /// The object's type.
    pub(crate) spec: &'a TypeSpec,
    /// The time of the write.
    pub(crate) now: &'a str,
    /// The object's key: its namespace and its name.
    pub(crate) key: &'a str,
    /// The subresource through which it is written.
    pub(crate) subresource: Option<Subresource>,
    /// The object as it will be stored.
    pub(crate) new: &'a [u8],
    /// The object that it replaces.
    pub(crate) old: Option<&'a StoredObject>,
    /// The state of quotas that counts.
    pub(crate) freshness: Freshness,
}

impl ResourceHandle {
    /// The changes of quotas that go with a write.
    ///
    /// # Errors
    /// [`PlanError::Forbidden`] where a quota would be exceeded.
    pub(crate) async fn charges(
        &self,
        quotas: &Quotas,
        demand: Demand<'_>,
        deadline: Deadline,
    ) -> Result<Charges, WriteError> {
        let mut charges = Charges::default();
        let Some((namespace, name)) = demand.key.split_once('/') else { return Ok(charges) };
        let spec = demand.spec;
        if quota::counted_as(spec).is_empty()
            || demand.old.is_some() && spec.strategy.quota_measure().is_none()
        {
            return Ok(charges);
        }
        let of_namespace = format!("{namespace}/");
        let (known, _) = quotas.handle.snapshot(demand.freshness, deadline).await?;
        if known.range(&of_namespace, "").next().is_none() {
            return Ok(charges);
        }
        dear(cost::parse(demand.new.len().saturating_add(demand.old.map_or(0, |old| old.json().len()))))
            .await?;
        let corrupt = |error: json::ParseError| PlanError::Corrupt(error.to_string());
        let new = json::parse_own(demand.new).map_err(corrupt)?;
        // What cannot be read is taken to have used nothing.
        let old = demand.old.map(|old| json::parse_own(old.json()).unwrap_or_default());
        let Some(change) = QuotaChange::of(spec, demand.subresource, new, old, demand.now) else {
            return Ok(charges);
        };
        let mut turn = quotas.turns.wait(namespace, deadline).await?;
        let freshness = no_older(demand.freshness, turn.last);
        let (known, _) = quotas.handle.snapshot(freshness, deadline).await?;
        dear(cost::parse(bytes(&known, &of_namespace))).await?;
        let quotas_spec = quotas.handle.spec().ok_or(WriteError::Gone)?;
        turn.sums.keep(|quota| known.get(&TypeSpec::object_key(Some(namespace), quota)).is_some());
        for stored in known.range(&of_namespace, "") {
            let mut tree = json::parse_own(stored.json()).map_err(corrupt)?;
            let forbidden = |message| PlanError::Forbidden { name: name.to_owned(), message };
            let Some(requested) = change.requested(spec, &tree).map_err(forbidden)? else { continue };
            // It includes every create since the quota was last charged.
            let freshness = no_older(demand.freshness, stored.revision());
            let (objects, _) = self.snapshot(freshness, deadline).await?;
            let mut used: Usage =
                requested.keys().map(|name| (name.clone(), Quantity::of_count(0))).collect();
            let place = Counted { spec, quota: &tree, objects: &objects, prefix: &of_namespace };
            dear(cost::parse(turn.sums.unknown(&place, &used))).await?;
            turn.sums.count(&place, demand.now, &mut used).await;
            if let Some(message) = quota::exceeded(&tree, &requested, &used) {
                return Err(forbidden(message).into());
            }
            for (name, amount) in &mut used {
                *amount =
                    requested.get(name).and_then(|more| amount.add(more)).unwrap_or_else(|| amount.clone());
            }
            let key = quotas_spec.storage_key(stored.key());
            charges.compares.push(Compare::mod_is(&key, stored.revision()));
            // Another server's quota that nobody may write here still counts.
            if refuse_loss(stored).is_ok() {
                quota::charge(&quotas_spec, &mut tree, &used, demand.now);
                charges.ops.push(Op::Put(key, quotas_spec.stored_value(tree.to_vec())));
            }
        }
        // No other write has to wait for one that nothing is charged for.
        charges.turn = Some(turn).filter(|_| !charges.compares.is_empty());
        Ok(charges)
    }
}

/// A freshness, raised to a revision that this process knows of.
fn no_older(than: Freshness, revision: Revision) -> Freshness {
    match than {
        Freshness::Latest => Freshness::Latest,
        Freshness::AtLeast(other) => Freshness::AtLeast(other.max(revision)),
        Freshness::Any => Freshness::AtLeast(revision),
    }
}

/// The bytes of a namespace's objects.
fn bytes(objects: &Snapshot, prefix: &str) -> usize {
    objects.range(prefix, "").map(|object| object.json().len()).sum()
}

/// The objects of a type that a quota counts, by the prefix of their keys.
pub struct Counted<'a> {
    /// The type.
    pub spec: &'a TypeSpec,
    /// The quota.
    pub quota: &'a Value,
    /// All objects of the type.
    pub objects: &'a Snapshot,
    /// The namespace, with a slash.
    pub prefix: &'a str,
}

/// The amounts that the objects of a namespace use, remembered for each chunk of them: the next count reads those alone that
/// have changed.
#[derive(Default)]
pub struct Sums {
    /// By a type and a quota's name.
    by_quota: HashMap<(GroupResource, String), Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// The quota's spec that was counted for.
    spec: Value,
    /// By the chunk's address, which no other chunk has as long as it is known here.
    chunks: HashMap<usize, Known<Vec<Arc<StoredObject>>>>,
    /// Some objects of the chunks that were read last, likewise: the next change is often beside the last one.
    objects: HashMap<usize, Known<StoredObject>>,
}

/// The most objects that are remembered each, of a type for a quota.
const OBJECTS_KEPT: usize = 512;

/// The amounts that objects use; it keeps their address, and not them.
type Known<T> = (Weak<T>, Usage);

impl Sums {
    /// Forgets the quotas that are no more, by their names.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.by_quota.retain(|(_, quota), _| is_there(quota));
    }

    fn key(counted: &Counted<'_>) -> (GroupResource, String) {
        let of = GroupResource::new(counted.spec.group.clone(), counted.spec.names.plural.clone());
        (of, counted.quota.text_at(&["metadata", "name"]).to_owned())
    }

    /// The bytes that have to be read to count these amounts.
    #[must_use]
    pub fn unknown(&self, counted: &Counted<'_>, used: &Usage) -> usize {
        if !quota::needs_objects(counted.spec, counted.quota, used) {
            return 0;
        }
        let remembered = self.by_quota.get(&Self::key(counted));
        let remembered = remembered.filter(|known| Some(&known.spec) == counted.quota.get("spec"));
        let is_unknown =
            |chunk: &&Chunk| remembered.is_none_or(|of| !of.chunks.contains_key(&address(chunk)));
        let is_unread = |object: &&Arc<StoredObject>| {
            remembered.is_none_or(|of| !of.objects.contains_key(&address(object)))
        };
        let unknown = counted.objects.chunks_of(counted.prefix).filter(is_unknown);
        let unread = unknown.flat_map(|chunk| own(chunk, counted.prefix)).filter(is_unread);
        unread.map(|object| object.json().len()).sum()
    }

    /// Counts the objects into these amounts. Yields after each chunk that it has to read.
    pub async fn count(&mut self, counted: &Counted<'_>, now: &str, used: &mut Usage) {
        let Counted { spec, quota, objects, prefix } = *counted;
        if !quota::needs_objects(spec, quota, used) {
            let number = i64::try_from(objects.count(prefix, "")).unwrap_or(i64::MAX);
            used.values_mut().for_each(|amount| *amount = Quantity::of_count(number));
            return;
        }
        let remembered = self.by_quota.entry(Self::key(counted)).or_default();
        if Some(&remembered.spec) != quota.get("spec") {
            let spec = quota.get("spec").cloned().unwrap_or_default();
            *remembered = Remembered { spec, ..Remembered::default() };
        }
        let mut known = std::mem::take(&mut remembered.chunks);
        let mut read = HashMap::new();
        for chunk in objects.chunks_of(prefix) {
            let at = address(chunk);
            if let Some(sum) = known.remove(&at) {
                quota::add(used, &sum.1);
                remembered.chunks.insert(at, sum);
                continue;
            }
            let (mut sum, mut is_lasting) = (Usage::new(), true);
            for object in own(chunk, prefix) {
                let at = address(object);
                let usage = match remembered.objects.remove(&at) {
                    Some((_, usage)) => usage,
                    None => json::parse_own(object.json())
                        .map_or_else(|_| Usage::new(), |tree| quota::used_by(spec, quota, &tree, now)),
                };
                quota::add_all(&mut sum, &usage);
                // A deletion is over at some time, without a change.
                is_lasting &= !object.deleting();
                if read.len() < OBJECTS_KEPT && !object.deleting() {
                    read.insert(at, (Arc::downgrade(object), usage));
                }
            }
            quota::add(used, &sum);
            if is_lasting {
                remembered.chunks.insert(at, (Arc::downgrade(chunk), sum));
            }
            yield_now().await;
        }
        if !read.is_empty() {
            remembered.objects = read;
        }
    }
}

fn address<T>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of) as usize
}

/// The objects of a chunk whose key starts with `prefix`.
fn own<'a>(chunk: &'a Chunk, prefix: &'a str) -> impl Iterator<Item = &'a Arc<StoredObject>> {
    chunk.iter().filter(move |object| object.key().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use kindom_objects::kinds::service::{AddressRange, ServiceNetwork};
    use kindom_objects::kinds::{Profile, built_in};
    use kindom_storage::StoredValue;
    use proptest::prelude::*;

    use super::*;

    fn pods() -> TypeSpec {
        let ranges: Vec<AddressRange> = vec!["10.0.0.0/24".parse().unwrap()];
        let network = ServiceNetwork::new(&ranges, "30000-30001".parse().unwrap()).unwrap();
        let all = built_in(Profile::Kubernetes, &network);
        all.into_iter().find(|spec| spec.names.plural == "pods").unwrap()
    }

    fn pod(namespace: usize, name: usize, cpu: usize, phase: &str, revision: u64) -> Arc<StoredObject> {
        let deletion =
            if phase == "deleting" { r#","deletionTimestamp":"2026-01-01T00:00:00Z""# } else { "" };
        let json = format!(
            r#"{{"metadata":{{"name":"p{name}","namespace":"n{namespace}"{deletion}}},"status":{{"phase":"{phase}"}},
            "spec":{{"containers":[{{"name":"a","resources":{{"requests":{{"cpu":"{cpu}m"}}}}}}]}}}}"#
        );
        let value: StoredValue = Ok(json.into_bytes().into());
        Arc::new(StoredObject::of(&format!("n{namespace}/p{name}"), value, Revision(revision)))
    }

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn shown(sums: &mut Sums, counted: &Counted<'_>) -> Vec<String> {
        let names = quota::bounded(counted.quota);
        let mut used: Usage = names.map(|name| (name.to_owned(), Quantity::of_count(0))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(sums.count(counted, NOW, &mut used));
        used.into_iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    fn quotas() -> [Value; 3] {
        [
            r#"{"metadata":{"name":"a"},"spec":{"hard":{"requests.cpu":"1","pods":"1","count/pods":"1"}}}"#,
            r#"{"metadata":{"name":"b"},"spec":{"hard":{"pods":"1"},"scopes":["BestEffort"]}}"#,
            r#"{"metadata":{"name":"a"},"spec":{"hard":{"pods":"2"},"scopes":["NotBestEffort"]}}"#,
        ]
        .map(|quota| json::parse(quota.as_bytes()).unwrap())
    }

    fn many() -> Snapshot {
        Snapshot::from_sorted((0..800).map(|n| pod(n / 400, 1000 + n % 400, 1, "", 1)), Revision(1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// A count that remembers finds what one from the beginning finds, whichever quotas are asked about in between.
        #[test]
        fn sums_are_those_of_a_fresh_count(
            changes in prop::collection::vec((0..2_usize, 0..400_usize, 0..3000_usize, 0..4_usize, 0..3_usize), 1..20),
        ) {
            let (spec, quotas) = (pods(), quotas());
            let (mut objects, mut sums) = (many(), Sums::default());
            for (revision, (namespace, name, cpu, phase, quota)) in (2..).zip(changes) {
                match ["", "Succeeded", "deleting", "gone"][phase] {
                    "gone" => drop(objects.remove(&format!("n{namespace}/p{}", 1000 + name))),
                    phase => drop(objects.put(pod(namespace, 1000 + name, cpu, phase, revision))),
                }
                let counted = Counted { spec: &spec, quota: &quotas[quota], objects: &objects, prefix: "n1/" };
                prop_assert_eq!(shown(&mut sums, &counted), shown(&mut Sums::default(), &counted));
                prop_assert!(sums.by_quota.len() <= 2);
            }
            sums.keep(|name| name == "b");
            prop_assert!(sums.by_quota.len() <= 1);
        }
    }

    #[test]
    fn a_change_costs_the_count_of_a_chunk() {
        let (spec, [first, scoped, _], objects) = (pods(), quotas(), many());
        let used = Usage::from([("pods".to_owned(), Quantity::of_count(0))]);
        let mut sums = Sums::default();
        let of = |quota, objects| Counted { spec: &spec, quota, objects, prefix: "n1/" };
        let all = sums.unknown(&of(&first, &objects), &used);
        for quota in [&first, &scoped, &first] {
            shown(&mut sums, &of(quota, &objects));
        }
        let mut changed = objects.clone();
        changed.put(pod(1, 1000, 7, "", 1000));
        for quota in [&first, &scoped] {
            assert_eq!(sums.unknown(&of(quota, &objects), &used), 0);
            let after = sums.unknown(&of(quota, &changed), &used);
            assert!(after > 0 && after * 20 < all, "{after} of {all}");
        }
    }
}
