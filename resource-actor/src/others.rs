//! The objects of other kinds that a write looks at: those that the admission plugins of its kind name.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{Deadline, back, dear};
use kindom_api::json;
use kindom_objects::admission::AdmissionRefusal;
use kindom_objects::plugins::{Look, OtherKind, Others};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use memchr::memmem;
use tokio::time::timeout_at;

use crate::cost;
use crate::driver::{Attempt, Desired, Step};
use crate::error::{ReadError, WriteError};
use crate::event_limits::EventLimits;
use crate::request::{Knowledge, Target, WriteOptions};
use crate::{Freshness, ResourceHandle};

/// The bytes of all objects of a kind that one write reads.
const LOOKED_AT_BYTES_MAX: usize = 256 << 10;
/// The time that a write waits for an object that is expected to come into being.
const EXPECTED_WITHIN: Duration = Duration::from_secs(1);
/// The most changes read in one go.
const EVENTS_AT_ONCE: usize = 256;

/// A text that is in every object of a kind that may be of interest, where others need not be read.
fn mark(kind: OtherKind) -> &'static str {
    match kind {
        OtherKind::IngressClass | OtherKind::StorageClass => "is-default-class",
        OtherKind::PriorityClass => "globalDefault",
        OtherKind::LimitRange | OtherKind::RuntimeClass | OtherKind::ServiceAccount => "",
    }
}

impl ResourceHandle {
    /// Reads what the rules of a type look at in a write.
    ///
    /// # Errors
    /// [`PlanError::Forbidden`] where that is too much.
    pub(crate) async fn others(
        &self,
        attempt: &Attempt<'_>,
        target: &Target<'_>,
        desired: &Desired<'_>,
        options: &WriteOptions,
    ) -> Result<Others, WriteError> {
        let cx = attempt.cx;
        let mut others = Others::of(cx.others.plugins);
        let (object, old) = match desired {
            Desired::Create(new) => (&new.object, None),
            Desired::Update { object, live, .. } => (object, Some(&live.old)),
            Desired::Delete(_) | Desired::DeleteCorrupt => return Ok(others),
        };
        let looks = cx.spec.strategy.looks_at(cx, object, old);
        let Some(plugins) = options.plugins.as_ref().filter(|_| !looks.is_empty()) else { return Ok(others) };
        if let Desired::Create(new) = desired {
            self.open_for_create(attempt.rules, target, new, options).await?;
        }
        target.namespace.unwrap_or_default().clone_into(&mut others.namespace);
        others.name_suffix = self.deps().entropy.name_suffix();
        for look in looks {
            let (Look::All(kind) | Look::Named { kind, .. }) = look;
            let Some(handle) = (plugins.find_kind)(&kind.gvk()) else { continue };
            let namespace = handle.spec().and_then(|spec| target.namespace.filter(|_| spec.namespaced()));
            let found = match &look {
                Look::All(_) => {
                    let all = handle.all_of(kind, namespace, options.deadline).await?;
                    let refuse = || {
                        let message = format!(
                            "the {} objects that it looks at have more than {LOOKED_AT_BYTES_MAX} bytes",
                            kind.gvk().kind
                        );
                        PlanError::Forbidden {
                            name: object.text_at(&["metadata", "name"]).to_owned(),
                            message,
                        }
                    };
                    all.ok_or_else(refuse)?
                }
                Look::Named { name, is_expected, .. } => {
                    let key = TypeSpec::object_key(namespace, name);
                    let found = handle.one_of(&key, *is_expected, options.deadline).await;
                    found?.into_iter().collect()
                }
            };
            for stored in found {
                dear(cost::parse(stored.json().len())).await?;
                let tree = json::parse_own(stored.json());
                let tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", stored.key())))?;
                others.found.push((kind, Arc::new(tree)));
            }
        }
        Ok(others)
    }

    /// Counts a planned write of an event.
    ///
    /// # Errors
    /// More of them come than may.
    pub(crate) fn count_event(
        &self,
        spec: &TypeSpec,
        planned: &Step,
        target: &Target<'_>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let limits = options.plugins.as_ref().and_then(|plugins| plugins.event_limits.as_ref());
        let Some(limits) = limits.filter(|_| EventLimits::concern(spec) && !options.dry_run) else {
            return Ok(());
        };
        // It is counted once.
        if options.knowledge == Knowledge::Guess {
            return Err(WriteError::Guessed);
        }
        let Some(event) = planned.new_state() else { return Ok(()) };
        let event = json::parse_own(event.json()).unwrap_or_default();
        let namespace = target.namespace.unwrap_or_default();
        let counted = limits.count(namespace, &options.user.name, &event, self.deps().clock.now());
        counted.map_err(|beyond| PlanError::Refused(Box::new(AdmissionRefusal::TooManyEvents(beyond))).into())
    }

    /// All objects that may be of interest, of a namespace or of the cluster; `None` if they are too large to be read by each
    /// write.
    async fn all_of(
        &self,
        kind: OtherKind,
        namespace: Option<&str>,
        deadline: Deadline,
    ) -> Result<Option<Vec<Arc<StoredObject>>>, WriteError> {
        let (snapshot, _) = self.snapshot(self.own_writes()?, deadline).await?;
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        dear(cost::rules(snapshot.count(&prefix, ""), 0)).await?;
        let mark = mark(kind).as_bytes();
        let is_of_interest =
            |stored: &&Arc<StoredObject>| mark.is_empty() || memmem::find(stored.json(), mark).is_some();
        let found: Vec<_> = snapshot.range(&prefix, "").filter(is_of_interest).cloned().collect();
        let bytes: usize = found.iter().map(|stored| stored.json().len()).sum();
        Ok(Some(found).filter(|_| bytes <= LOOKED_AT_BYTES_MAX))
    }

    /// The object of a key. Another replica may have answered its create, and one that is expected may be about to come.
    async fn one_of(
        &self,
        key: &str,
        is_expected: bool,
        deadline: Deadline,
    ) -> Result<Option<Arc<StoredObject>>, ReadError> {
        let found = self.read(key, self.own_writes()?, deadline).await?;
        if found.is_some() {
            return Ok(found);
        }
        let (snapshot, at) = self.snapshot(Freshness::Latest, deadline).await?;
        let found = snapshot.get(key).cloned();
        if found.is_some() || !is_expected {
            return Ok(found);
        }
        // It takes no part of a processor meanwhile.
        back().await;
        let mut changes = self.watch(at)?;
        let came = async {
            loop {
                let events = changes.next(EVENTS_AT_ONCE).await.ok()?;
                let mut objects = events.iter().filter_map(|event| event.object.as_ref());
                if let Some(found) = objects.find(|object| object.key() == key) {
                    return Some(Arc::clone(found));
                }
            }
        };
        let until = deadline.instant().min(Deadline::after(EXPECTED_WITHIN).instant());
        Ok(timeout_at(until, came).await.ok().flatten())
    }
}
