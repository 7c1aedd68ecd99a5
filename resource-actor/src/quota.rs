//! The quotas of a namespace in the writes of its objects. A create counts what there is and puts the number into the quota's
//! status, in its own transaction, which requires the quota as it was found. So of two creates that count the same, on any
//! replicas, one plans again: as many objects as the quota allows are created, and no more.

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

/// What one write of a namespace leaves to the next.
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
        let (known, _) = quotas.handle.snapshot(Freshness::AtLeast(turn.last), deadline).await?;
        dear(cost::parse(bytes(&known, &of_namespace))).await?;
        let quotas_spec = quotas.handle.spec().ok_or(WriteError::Gone)?;
        turn.sums.begin();
        for stored in known.range(&of_namespace, "") {
            let mut tree = json::parse_own(stored.json()).map_err(corrupt)?;
            let forbidden = |message| PlanError::Forbidden { name: name.to_owned(), message };
            let Some(requested) = change.requested(spec, &tree).map_err(forbidden)? else { continue };
            // It includes every create since the quota was last charged.
            let (objects, _) = self.snapshot(Freshness::AtLeast(stored.revision()), deadline).await?;
            let mut used: Usage =
                requested.keys().map(|name| (name.clone(), Quantity::of_count(0))).collect();
            let place = Counted { spec, quota: &tree, objects: &objects, prefix: &of_namespace };
            dear(cost::parse(turn.sums.unknown(&place, &used))).await?;
            turn.sums.count(&place, demand.now, &mut used);
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
        turn.sums.end();
        charges.turn = Some(turn);
        Ok(charges)
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
    /// By a type and a quota's spec.
    of: HashMap<(GroupResource, Vec<u8>), Remembered>,
}

#[derive(Default)]
struct Remembered {
    /// It was asked for since [`Sums::begin`].
    is_used: bool,
    /// By the chunk's address, which nobody else gets as long as it is known here.
    chunks: HashMap<usize, SumOfChunk>,
}

/// What a chunk's objects use; it keeps the address, and not the objects.
type SumOfChunk = (Weak<Vec<Arc<StoredObject>>>, Usage);

impl Sums {
    /// Begins a look at all quotas of a namespace.
    pub fn begin(&mut self) {
        self.of.values_mut().for_each(|remembered| remembered.is_used = false);
    }

    /// Ends it: what none of them asked for is forgotten.
    pub fn end(&mut self) {
        self.of.retain(|_, remembered| remembered.is_used);
    }

    fn key(counted: &Counted<'_>) -> (GroupResource, Vec<u8>) {
        let of = GroupResource::new(counted.spec.group.clone(), counted.spec.names.plural.clone());
        (of, counted.quota.get("spec").map(Value::to_vec).unwrap_or_default())
    }

    /// The bytes that have to be read to count these amounts.
    #[must_use]
    pub fn unknown(&self, counted: &Counted<'_>, used: &Usage) -> usize {
        if !quota::needs_objects(counted.spec, counted.quota, used) {
            return 0;
        }
        let remembered = self.of.get(&Self::key(counted));
        let is_unknown = |chunk: &&Chunk| remembered.is_none_or(|known| known.get(chunk).is_none());
        let unknown = counted.objects.chunks_of(counted.prefix).filter(is_unknown);
        unknown.flat_map(|chunk| own(chunk, counted.prefix)).map(|object| object.json().len()).sum()
    }

    /// Counts the objects into these amounts.
    pub fn count(&mut self, counted: &Counted<'_>, now: &str, used: &mut Usage) {
        let Counted { spec, quota, objects, prefix } = *counted;
        if !quota::needs_objects(spec, quota, used) {
            let number = i64::try_from(objects.count(prefix, "")).unwrap_or(i64::MAX);
            used.values_mut().for_each(|amount| *amount = Quantity::of_count(number));
            return;
        }
        let known = self.of.entry(Self::key(counted)).or_default();
        known.is_used = true;
        let mut chunks = HashMap::with_capacity(known.chunks.len());
        let all = || quota::bounded(quota).map(|name| (name.to_owned(), Quantity::of_count(0))).collect();
        for chunk in objects.chunks_of(prefix) {
            let sum = known.get(chunk).cloned().unwrap_or_else(|| {
                let trees = own(chunk, prefix).filter_map(|object| json::parse_own(object.json()).ok());
                let mut sum: Usage = all();
                quota::count(spec, quota, trees, now, &mut sum);
                sum.retain(|_, amount| amount.sign() != 0);
                sum
            });
            quota::add(used, &sum);
            // A deletion is over at some time, without a change.
            if !own(chunk, prefix).any(|object| object.deleting()) {
                chunks.insert(Arc::as_ptr(chunk) as usize, (Arc::downgrade(chunk), sum));
            }
        }
        known.chunks = chunks;
    }
}

impl Remembered {
    fn get(&self, chunk: &Chunk) -> Option<&Usage> {
        self.chunks.get(&(Arc::as_ptr(chunk) as usize)).map(|(_, sum)| sum)
    }
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// What is remembered is what a count from the beginning finds, and a change costs a chunk.
        #[test]
        fn sums_are_those_of_a_fresh_count(
            changes in prop::collection::vec((0..2_usize, 0..400_usize, 0..3000_usize, 0..4_usize), 1..20),
        ) {
            let spec = pods();
            let quotas = [r#"{"hard":{"requests.cpu":"1","pods":"1","count/pods":"1"}}"#,
                r#"{"hard":{"pods":"1"},"scopes":["BestEffort"]}"#];
            let quotas = quotas.map(|spec| json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap());
            let begin = (0..800).map(|n| pod(n / 400, 1000 + n % 400, 1, "", 1));
            let mut objects = Snapshot::from_sorted(begin, Revision(1));
            let mut sums = Sums::default();
            for (revision, (namespace, name, cpu, phase)) in (2..).zip(changes) {
                let phase = ["", "Succeeded", "deleting", "gone"][phase];
                match phase {
                    "gone" => drop(objects.remove(&format!("n{namespace}/p{}", 1000 + name))),
                    phase => drop(objects.put(pod(namespace, 1000 + name, cpu, phase, revision))),
                }
                sums.begin();
                for quota in &quotas {
                    let names = quota::bounded(quota);
                    let zero: Usage = names.map(|name| (name.to_owned(), Quantity::of_count(0))).collect();
                    let counted = Counted { spec: &spec, quota, objects: &objects, prefix: "n1/" };
                    let now = "2026-01-01T00:00:00Z";
                    let shown = |sums: &mut Sums| {
                        let mut used = zero.clone();
                        sums.count(&counted, now, &mut used);
                        used.into_iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>()
                    };
                    prop_assert_eq!(shown(&mut sums), shown(&mut Sums::default()));
                }
                sums.end();
                prop_assert_eq!(sums.of.len(), 2);
            }
            let counted = Counted { spec: &spec, quota: &quotas[0], objects: &objects, prefix: "n1/" };
            let used = Usage::from([("pods".to_owned(), Quantity::of_count(0))]);
            let all = Sums::default().unknown(&counted, &used);
            let mut changed = objects.clone();
            changed.put(pod(1, 1000, 7, "", 1000));
            let after = sums.unknown(&Counted { objects: &changed, ..counted }, &used);
            let of_deleting: usize =
                objects.chunks_of("n1/").filter(|chunk| chunk.iter().any(|object| object.deleting())).count();
            prop_assert!(of_deleting > 0 || after * 2 < all, "{} of {}", after, all);
        }
    }
}
