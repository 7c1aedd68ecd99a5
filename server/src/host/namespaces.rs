//! Namespaces are the host's (`--namespaces-from-host`): each namespace there has its like here, which begins and ends with
//! it.
//!
//! # Guarantees
//! - Once this server has seen a namespace of the host end, nothing is created in it here, and its objects here are drained.
//!   Its like stays, Terminating, until the host's is gone.
//! - A view of the host that is out of date makes no namespace that has ended: each end moves a key, the fence, before it
//!   counts, and a namespace is made only if the fence is where it was before the host was listed.
//! - While the host is away, what was known holds.
//! - A namespace here that never was the host's stays as it is; so does everything if the host turns out to be another
//!   cluster than before, by the uid of its namespace `kube-system`.
//!
//! One replica does it, the leader; two do no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kindom_actor_kit::{Clock, Deadline};
use kindom_api::{Value, object};
use kindom_objects::kinds::namespace::STANDARD_NAMESPACES;
use kindom_objects::{PlanError, Removal, RuleContext, StoredObject};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::{Compare, Key, Op, RangeRequest, Revision, Storage, Txn, TxnOutcome};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;

use super::{Host, asking};
use crate::BoxError;

/// The label of a namespace that is the host's, with the uid that it has there.
const HOST_UID: &str = "kindom.dev/host-uid";
/// Holds a namespace that is being deleted until the host's is gone.
const FINALIZER: &str = "kindom.dev/host-namespace";
/// The key that moves with each end of a namespace. It holds the uid of the host's `kube-system`.
const FENCE: &str = "/kindom/registry/host/namespaces";
const KUBE_SYSTEM: &str = "kube-system";
/// The longest that one step of the store may take.
const STEP: Duration = Duration::from_secs(10);
/// The time between two attempts at what is not as on the host yet.
const RETRY: Duration = Duration::from_millis(500);
/// The longest that a watch of the host lasts: one whose connection has gone unnoticed ends by then.
const WATCH_SECONDS: u32 = 60;

/// Keeps the namespaces here as they are on the host.
pub(crate) struct Mirror {
    pub(crate) host: Arc<Host>,
    pub(crate) registry: RegistryHandle,
    pub(crate) namespaces: ResourceHandle,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Clock,
    pub(crate) object_bytes_max: usize,
}

/// A namespace of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OfHost {
    uid: String,
    deleting: bool,
}

type View = BTreeMap<String, OfHost>;

struct Fence {
    revision: Revision,
    /// The uid of the cluster; none if no host was ever listed.
    cluster: Option<String>,
}

/// The step towards the state of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is as there, as far as it can be.
    Nothing,
    /// Make it.
    Create,
    /// Mark it as the host's.
    Adopt,
    /// Begin its end.
    End,
    /// Let it go once it is empty, and look again.
    Release,
}

/// Compares a namespace on the host with the one here: its uid on the host, if it is the host's, and whether it ends.
fn next(name: &str, there: Option<&OfHost>, here: Option<(Option<&str>, bool)>) -> Next {
    match (there, here) {
        (None, None) => Next::Nothing,
        // Its end was seen.
        (Some(there), None) if there.deleting => Next::Nothing,
        (Some(_), None) => Next::Create,
        // Never the host's, or one that cannot be deleted.
        (None, Some((None, _))) => Next::Nothing,
        (None, Some(_)) if STANDARD_NAMESPACES.contains(&name) => Next::Nothing,
        (None, Some((Some(_), false))) => Next::End,
        (None, Some((Some(_), true))) => Next::Release,
        (Some(_), Some((None, false))) => Next::Adopt,
        // It is being deleted for a reason of this server's own, and comes again afterwards.
        (Some(_), Some((None, true))) => Next::Release,
        (Some(there), Some((Some(uid), ends))) => match (there.uid == uid, there.deleting, ends) {
            (true, false, false) | (true, true, true) => Next::Nothing,
            (_, _, false) => Next::End,
            (_, _, true) => Next::Release,
        },
    }
}

impl Mirror {
    /// Keeps them for ever; reports `true` once everything was looked at.
    pub(crate) async fn keep(self, synced: watch::Sender<bool>) {
        let mut complaint = String::new();
        loop {
            self.registry.leading().await;
            if let Err(error) = self.lead(&synced, &mut complaint).await {
                let why = error.to_string();
                if complaint != why {
                    tracing::error!("namespaces of the host: {why}; what was known holds");
                    complaint = why;
                }
            }
            self.clock.sleep(RETRY * 2).await;
        }
    }

    async fn lead(&self, synced: &watch::Sender<bool>, complaint: &mut String) -> Result<(), BoxError> {
        // Before the list: an end that somebody else records from now on stops what is made by this view.
        let mut fence = self.fence().await?;
        let api: Api<Namespace> = Api::all(self.host.client.clone());
        let mut events = pin!(watcher(api, Config::default().timeout(WATCH_SECONDS)));
        let (mut view, mut listed) = (View::new(), View::new());
        let mut unsettled = BTreeSet::new();
        while self.registry.is_leader() {
            let event = tokio::select! {
                event = events.next() => Some(event),
                () = self.clock.sleep(RETRY), if !unsettled.is_empty() => None,
            };
            let names = match event {
                None => std::mem::take(&mut unsettled),
                Some(None) => return Ok(()),
                Some(Some(event)) => match event.map_err(|error| asking::causes(&error))? {
                    Event::Init => {
                        listed.clear();
                        continue;
                    }
                    Event::InitApply(namespace) => {
                        insert(&mut listed, &namespace);
                        continue;
                    }
                    Event::InitDone => {
                        view = std::mem::take(&mut listed);
                        self.identify(&view, &mut fence).await?;
                        let here = self.names().await?;
                        view.keys().cloned().chain(here).collect()
                    }
                    Event::Apply(namespace) => BTreeSet::from([insert(&mut view, &namespace)]),
                    Event::Delete(namespace) => {
                        view.remove(&namespace.name_any());
                        BTreeSet::from([namespace.name_any()])
                    }
                },
            };
            // One that cannot be settled holds up no other.
            let mut failed = None;
            for name in names {
                match self.settle(&name, view.get(&name), &mut fence).await {
                    Ok(true) => {}
                    Ok(false) => drop(unsettled.insert(name)),
                    Err(error) => failed = failed.or(Some(format!("{name}: {error}"))),
                }
            }
            if let Some(failed) = failed {
                return Err(failed.into());
            }
            complaint.clear();
            synced.send_replace(true);
        }
        Ok(())
    }

    async fn fence(&self) -> Result<Fence, BoxError> {
        let found = self.storage.range(RangeRequest::single(&Key::from(FENCE))).await?.kvs;
        Ok(match found.first() {
            Some(kv) => {
                let value = kv.value.as_ref().map_err(|damaged| format!("{FENCE}: {damaged:?}"))?;
                let cluster = Some(String::from_utf8_lossy(value).into_owned());
                Fence { revision: kv.mod_revision, cluster }
            }
            None => Fence { revision: Revision::ZERO, cluster: None },
        })
    }

    /// # Errors
    /// This is no whole list of a cluster's namespaces, or another cluster's.
    async fn identify(&self, view: &View, fence: &mut Fence) -> Result<(), BoxError> {
        let system = view.get(KUBE_SYSTEM).ok_or("the host has no namespace kube-system")?;
        match &fence.cluster {
            Some(known) if *known == system.uid => Ok(()),
            Some(known) => Err(format!(
                "the host is another cluster than before: its namespace kube-system has the uid {}, not {known}",
                system.uid
            )
            .into()),
            None => {
                fence.cluster = Some(system.uid.clone());
                self.move_fence(fence).await
            }
        }
    }

    /// Moves the fence: namespaces that somebody else makes by a view of before are not made.
    async fn move_fence(&self, fence: &mut Fence) -> Result<(), BoxError> {
        let key = Key::from(FENCE);
        let compares = vec![Compare::mod_is(&key, fence.revision)];
        let value = Bytes::from(fence.cluster.clone().unwrap_or_default());
        match self.storage.txn(Txn { compares, ops: vec![Op::Put(key, value)] }).await? {
            TxnOutcome::Committed { revision } => {
                fence.revision = revision;
                Ok(())
            }
            TxnOutcome::Failed { .. } => Err("another replica follows the host, too".into()),
        }
    }

    async fn names(&self) -> Result<Vec<String>, BoxError> {
        let (snapshot, _) = self.namespaces.snapshot(Freshness::Latest, Deadline::after(STEP)).await?;
        Ok(snapshot.range("", "").map(|object| object.name().to_owned()).collect())
    }

    /// Does what is next; returns `false` if more is to be done later.
    async fn settle(&self, name: &str, there: Option<&OfHost>, fence: &mut Fence) -> Result<bool, BoxError> {
        loop {
            let here = self.namespaces.get(name, Deadline::after(STEP)).await?;
            let next = next(name, there, here.as_ref().map(|here| (here.label(HOST_UID), here.deleting())));
            match (next, here, there) {
                (Next::Create, None, Some(there)) => self.create(name, there, fence).await?,
                (Next::Adopt, Some(_), Some(there)) => self.adopt(name, there, fence).await?,
                (Next::End, Some(here), _) => self.end(&here, fence).await?,
                (Next::Release, Some(_), _) => {
                    self.release(name).await?;
                    return Ok(false);
                }
                _ => return Ok(true),
            }
        }
    }

    async fn create(&self, name: &str, there: &OfHost, fence: &Fence) -> Result<(), BoxError> {
        let mut wanted = |cx: &RuleContext<'_>, _: &Value| {
            let metadata = object! { "name": name };
            let mut object = object! { "apiVersion": "v1", "kind": "Namespace", "metadata": metadata };
            mark(&mut object, there);
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        let created = self.namespaces.create(target(""), &mut wanted, &self.options(fence)).await;
        match created {
            Ok(_) | Err(WriteError::Plan(PlanError::AlreadyExists { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a namespace that was here before as the host's.
    async fn adopt(&self, name: &str, there: &OfHost, fence: &Fence) -> Result<(), BoxError> {
        let mut wanted = |_: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            mark(&mut object, there);
            Ok(object)
        };
        self.namespaces.update(target(name), true, &mut wanted, &self.options(fence)).await?;
        Ok(())
    }

    async fn end(&self, here: &StoredObject, fence: &mut Fence) -> Result<(), BoxError> {
        self.move_fence(fence).await?;
        let only = Removal { uid: Some(here.uid().to_owned()), ..Removal::default() };
        match self.namespaces.delete(target(here.name()), &only, &self.options(fence)).await {
            Ok(_) => {
                tracing::info!(namespace = here.name(), "ends, as on the host");
                Ok(())
            }
            Err(WriteError::Plan(PlanError::NotFound { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a namespace that is being deleted go once it is empty.
    async fn release(&self, name: &str) -> Result<(), BoxError> {
        let mut wanted = |_: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            let finalizers = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("finalizers"));
            if let Some(finalizers) = finalizers.and_then(Value::as_array_mut) {
                finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
            }
            Ok(object)
        };
        let options =
            WriteOptions { fence: None, ..self.options(&Fence { revision: Revision::ZERO, cluster: None }) };
        match self.namespaces.update(target(name), true, &mut wanted, &options).await {
            Ok(_) | Err(WriteError::Plan(PlanError::NotFound { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn options(&self, fence: &Fence) -> WriteOptions {
        WriteOptions {
            fence: Some(Compare::mod_is(&Key::from(FENCE), fence.revision)),
            ..WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
        }
    }
}

fn target(name: &str) -> Target<'_> {
    Target { version: "v1", subresource: None, namespace: None, name }
}

/// Marks a namespace as the host's, which it then is held by.
fn mark(object: &mut Value, there: &OfHost) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry_or_insert_with("labels", || object! {});
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(HOST_UID, there.uid.as_str());
    }
    let finalizers = metadata.entry_or_insert_with("finalizers", || Value::Array(Vec::new().into()));
    if let Some(finalizers) = finalizers.as_array_mut() {
        finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
        finalizers.push(FINALIZER.into());
    }
}

fn insert(view: &mut View, namespace: &Namespace) -> String {
    let name = namespace.name_any();
    let of_host = OfHost {
        uid: namespace.uid().unwrap_or_default(),
        deleting: namespace.metadata.deletion_timestamp.is_some(),
    };
    view.insert(name.clone(), of_host);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_becomes_as_on_the_host() {
        let there = |uid: &str, deleting| Some(OfHost { uid: uid.to_owned(), deleting });
        let check =
            |there: Option<OfHost>, here: Option<(Option<&str>, bool)>| next("a", there.as_ref(), here);
        for (there, here, expected) in [
            (None, None, Next::Nothing),
            (there("1", false), None, Next::Create),
            (there("1", true), None, Next::Nothing),
            (there("1", false), Some((Some("1"), false)), Next::Nothing),
            (there("1", true), Some((Some("1"), false)), Next::End),
            (there("1", true), Some((Some("1"), true)), Next::Nothing),
            (there("1", false), Some((Some("1"), true)), Next::Release),
            // Deleted and made again meanwhile.
            (there("2", false), Some((Some("1"), false)), Next::End),
            (there("2", false), Some((Some("1"), true)), Next::Release),
            (there("2", true), Some((Some("1"), false)), Next::End),
            (there("2", true), Some((Some("1"), true)), Next::Release),
            (None, Some((Some("1"), false)), Next::End),
            (None, Some((Some("1"), true)), Next::Release),
            // Of before the flag.
            (there("1", false), Some((None, false)), Next::Adopt),
            (there("1", true), Some((None, false)), Next::Adopt),
            (there("1", false), Some((None, true)), Next::Release),
            (None, Some((None, false)), Next::Nothing),
            (None, Some((None, true)), Next::Nothing),
        ] {
            assert_eq!(check(there.clone(), here), expected, "{there:?} {here:?}");
        }
        assert_eq!(next("default", None, Some((Some("1"), false))), Next::Nothing);
    }
}
