//! The endpoints of the Service `kubernetes`: the addresses at which clients reach the replicas.
//!
//! **Flow.** Where several processes share a store, each renews a key of its own address every [`EVERY`]. A replica that has
//! seen an address at the same revision for [`EXPIRES`], by its own clock, deletes that key. All write the same Endpoints and
//! EndpointSlice: those of the keys that are there. A replica that ends in order takes its address away. One that only its own
//! host can reach has none, and looks after those of others.
//!
//! Sources: `pkg/controlplane/reconcilers/{lease,endpointsadapter}.go`,
//! `pkg/controlplane/controller/kubernetesservice/controller.go` (1.37).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kindom_actor_kit::{BoxError, Deadline, Policy, Reconciler, StartError, Wake};
use kindom_api::{Value, object};
use kindom_objects::Removal;
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::Target;
use kindom_storage::{Compare, Key, Op, RangeRequest, Revision, Storage, Txn};
use tokio::time::{Instant, timeout};

use crate::attempt::STEP;
use crate::error::{DrainError, ReconcileError};
use crate::provision::{DEFAULT, Made, SERVICE, Types, options, stored, unless_it_is_settled};

/// The time between two looks (`DefaultEndpointReconcilerInterval`).
const EVERY: Duration = Duration::from_secs(10);
/// The address of a replica that has not renewed it for so long is taken away.
const EXPIRES: Duration = Duration::from_secs(25);
/// The longest that a replica's end waits until its address is taken away.
const LEAVE: Duration = Duration::from_secs(2);

/// The way in which clients reach this process.
#[derive(Clone)]
pub struct Advertised {
    /// No loopback address, nor any other that means something else to each machine. `None` if only its host reaches it.
    pub address: Option<IpAddr>,
    /// The port at every replica.
    pub port: u16,
    /// The prefix of the keys of the replicas' addresses.
    pub keys: &'static str,
}

/// The actor `kubernetes-endpoints`.
pub struct EndpointsHandle {
    endpoints: Endpoints,
    keeper: Reconciler,
}

/// Starts the loop: from now on clients find this process among the endpoints.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    types: &Types,
    advertised: Advertised,
) -> Result<EndpointsHandle, StartError> {
    let deps = registry.deps();
    let endpoints = Endpoints { registry: registry.clone(), types: types.clone(), advertised };
    let arbiter = deps.arbiters.place("kubernetes-endpoints");
    let kept = endpoints.clone();
    // Only its own clock wakes it.
    let never = Wake::new().listen();
    let keeper =
        deps.supervisor.reconcile("kubernetes-endpoints", &arbiter, Policy::default(), never, move |_| {
            EndpointsKeeper { endpoints: kept.clone(), seen: Seen::default() }.run()
        })?;
    Ok(EndpointsHandle { endpoints, keeper })
}

impl EndpointsHandle {
    /// Takes this process's address away; gives up after a while.
    pub async fn leave(self) {
        self.keeper.stop().await;
        match timeout(LEAVE, self.endpoints.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the endpoints of the Service kubernetes still have this server's address")
            }
            Err(_) => tracing::warn!(
                "the endpoints of the Service kubernetes still have this server's address: the store is slow"
            ),
        }
    }
}

#[derive(Clone)]
struct Endpoints {
    registry: RegistryHandle,
    types: Types,
    advertised: Advertised,
}

/// One incarnation of the loop.
struct EndpointsKeeper {
    endpoints: Endpoints,
    seen: Seen,
}

/// The revision of each address's key that was found last, and since when.
#[derive(Default)]
struct Seen(BTreeMap<IpAddr, (Revision, Instant)>);

impl Seen {
    /// Those of the addresses that have not been renewed for too long.
    fn expired(&mut self, found: &BTreeMap<IpAddr, Revision>, now: Instant) -> BTreeSet<IpAddr> {
        self.0.retain(|address, _| found.contains_key(address));
        for (address, revision) in found {
            let seen = self.0.entry(*address).or_insert((*revision, now));
            if seen.0 != *revision {
                *seen = (*revision, now);
            }
        }
        let is_expired = |since: Instant| now.saturating_duration_since(since) >= EXPIRES;
        self.0.iter().filter(|(_, seen)| is_expired(seen.1)).map(|(address, _)| *address).collect()
    }
}

impl EndpointsKeeper {
    async fn run(mut self) -> BoxError {
        // An unreachable store is logged once.
        let mut is_logged = false;
        loop {
            let trouble = match timeout(STEP, self.step()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("it takes too long".to_owned()),
            };
            if let Some(why) = trouble.as_ref().filter(|_| !is_logged) {
                tracing::warn!(why, "the endpoints of the Service kubernetes cannot be kept");
            }
            is_logged = trouble.is_some();
            if is_logged {
                // Meanwhile others could not renew theirs either.
                self.seen = Seen::default();
            }
            self.endpoints.registry.deps().clock.sleep(EVERY).await;
        }
    }

    async fn step(&mut self) -> Result<(), ReconcileError> {
        let endpoints = self.endpoints.clone();
        let mut alive: BTreeSet<IpAddr> = endpoints.advertised.address.into_iter().collect();
        if endpoints.storage().is_local() {
            return endpoints.publish(&alive).await;
        }
        if let Some(own) = endpoints.advertised.address {
            endpoints.renew(own).await?;
        }
        let found = endpoints.renewed().await?;
        let expired = self.seen.expired(&found, Instant::now());
        for (address, revision) in found {
            if expired.contains(&address) && !alive.contains(&address) {
                endpoints.forget(address, Some(revision)).await?;
            } else {
                alive.insert(address);
            }
        }
        endpoints.publish(&alive).await
    }
}

impl Endpoints {
    fn storage(&self) -> &Arc<dyn Storage> {
        &self.registry.deps().storage
    }

    fn key(&self, address: IpAddr) -> Key {
        Key::from(format!("{}{address}", self.advertised.keys))
    }

    async fn renew(&self, own: IpAddr) -> Result<(), ReconcileError> {
        let ops = vec![Op::Put(self.key(own), Bytes::new())];
        let renewed = self.storage().txn(Txn { compares: Vec::new(), ops }).await;
        renewed.map(drop).map_err(|error| DrainError::Check(error).into())
    }

    /// The addresses that have keys, with their revisions.
    async fn renewed(&self) -> Result<BTreeMap<IpAddr, Revision>, ReconcileError> {
        let request =
            RangeRequest { keys_only: true, ..RangeRequest::prefix(self.advertised.keys.as_bytes()) };
        let found = self.storage().range(request).await.map_err(DrainError::Check)?;
        let address = |key: &Key| {
            std::str::from_utf8(key.as_bytes()).ok()?.strip_prefix(self.advertised.keys)?.parse().ok()
        };
        Ok(found.kvs.iter().filter_map(|kv| Some((address(&kv.key)?, kv.mod_revision))).collect())
    }

    /// Deletes the key of an address, if it is at a revision.
    async fn forget(&self, address: IpAddr, at: Option<Revision>) -> Result<(), ReconcileError> {
        let key = self.key(address);
        let compares = at.map(|at| Compare::mod_is(&key, at)).into_iter().collect();
        let forgotten = self.storage().txn(Txn { compares, ops: vec![Op::Delete(key)] }).await;
        forgotten.map(drop).map_err(|error| DrainError::Check(error).into())
    }

    async fn leave(&self) -> Result<(), ReconcileError> {
        let Some(own) = self.advertised.address else { return Ok(()) };
        if self.storage().is_local() {
            return self.publish(&BTreeSet::new()).await;
        }
        self.forget(own, None).await?;
        self.publish(&self.renewed().await?.into_keys().collect()).await
    }

    async fn publish(&self, addresses: &BTreeSet<IpAddr>) -> Result<(), ReconcileError> {
        let found = self.types.namespaces.get(DEFAULT, Deadline::after(STEP)).await?;
        if found.is_none_or(|namespace| namespace.deleting()) {
            return Ok(());
        }
        if addresses.is_empty() && stored(&self.types.endpoints, Some(DEFAULT), SERVICE).await?.is_none() {
            return Ok(());
        }
        let ports = match addresses.first() {
            Some(_) => self.ports(addresses).await?,
            None => Vec::<Value>::new().into(),
        };
        let ip = |address: &IpAddr| Value::from(address.to_string());
        let subset = || {
            object! {
                "addresses": addresses.iter().map(|address| object! { "ip": ip(address) }).collect::<Vec<_>>(),
                "ports": ports.clone(),
            }
        };
        let made = Made {
            handle: self.types.endpoints.clone(),
            name: SERVICE,
            object: object! {
                "apiVersion": "v1",
                "kind": "Endpoints",
                // Its EndpointSlice is kept here, and not by a controller that mirrors others.
                "metadata": object! { "labels": object! { "endpointslice.kubernetes.io/skip-mirror": "true" } },
                "subsets": addresses.first().map_or_else(Vec::new, |_| vec![subset()]),
            },
            kept: &[&["subsets"], &["metadata", "labels", "endpointslice.kubernetes.io/skip-mirror"]],
        };
        made.put(&self.types, DEFAULT).await?;
        let is_v6 = !addresses.is_empty() && addresses.iter().all(IpAddr::is_ipv6);
        let of_family = addresses.iter().filter(|address| address.is_ipv6() == is_v6);
        let endpoint = |address| {
            object! { "addresses": vec![ip(address)], "conditions": object! { "ready": true } }
        };
        let endpoints: Vec<Value> = of_family.map(endpoint).collect();
        let address_type = if is_v6 { "IPv6" } else { "IPv4" };
        self.drop_slice_unless(address_type).await?;
        let made = Made {
            handle: self.types.endpoint_slices.clone(),
            name: SERVICE,
            object: object! {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": object! { "labels": object! { "kubernetes.io/service-name": SERVICE } },
                "addressType": address_type,
                "ports": ports,
                "endpoints": endpoints,
            },
            kept: &[&["ports"], &["endpoints"], &["metadata", "labels", "kubernetes.io/service-name"]],
        };
        made.put(&self.types, DEFAULT).await
    }

    /// The ports: this process's own if it is alone. Replicas whose ports differ keep those of the first, as upstream does,
    /// rather than write their own in turn.
    async fn ports(&self, addresses: &BTreeSet<IpAddr>) -> Result<Value, ReconcileError> {
        let own = object! { "name": "https", "port": i64::from(self.advertised.port), "protocol": "TCP" };
        let is_alone = addresses.len() == 1 && addresses.first() == self.advertised.address.as_ref();
        if !is_alone
            && let Some(stored) = stored(&self.types.endpoints, Some(DEFAULT), SERVICE).await?
            && let Some([subset]) = stored.get("subsets").and_then(Value::as_array)
            && let Some(ports) = subset.get("ports")
        {
            return Ok(ports.clone());
        }
        Ok(vec![own].into())
    }

    /// Deletes the slice if its addresses are of another type, which no update changes.
    async fn drop_slice_unless(&self, address_type: &str) -> Result<(), ReconcileError> {
        let slices = &self.types.endpoint_slices;
        let Some(slice) = stored(slices, Some(DEFAULT), SERVICE).await? else { return Ok(()) };
        if slice.text_at(&["addressType"]) == address_type {
            return Ok(());
        }
        let place = Target { version: "v1", subresource: None, namespace: Some(DEFAULT), name: SERVICE };
        let deleted = slices.delete(place, &Removal::default(), &options(&self.types)).await;
        deleted.map(drop).or_else(unless_it_is_settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_expires_unless_it_is_renewed() {
        let [a, b] = ["198.51.100.1", "198.51.100.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let found =
            |of: &[(IpAddr, u64)]| of.iter().map(|(ip, at)| (*ip, Revision(*at))).collect::<BTreeMap<_, _>>();
        let (start, mut seen) = (Instant::now(), Seen::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(seen.expired(&found(&[(a, 1), (b, 1)]), at(0)), BTreeSet::new());
        assert_eq!(seen.expired(&found(&[(a, 2), (b, 1)]), at(20)), BTreeSet::new());
        assert_eq!(seen.expired(&found(&[(a, 2), (b, 1)]), at(25)), BTreeSet::from([b]));
        assert_eq!(seen.expired(&found(&[(a, 3)]), at(44)), BTreeSet::new());
        // One that comes back has its time.
        assert_eq!(seen.expired(&found(&[(a, 3), (b, 1)]), at(50)), BTreeSet::new());
        assert_eq!(seen.expired(&found(&[(a, 3), (b, 1)]), at(70)), BTreeSet::from([a]));
    }
}
