//! The admission plugins in the path of a write: the objects of other kinds that its kind's plugins look at, and the rates of events.

use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{Deadline, back, dear};
use kindom_api::{Value, json};
use kindom_objects::admission::AdmissionRefusal;
use kindom_objects::metadata::metadata_mut;
use kindom_objects::plan::{set_namespace, unnamed};
use kindom_objects::plugins::{Look, OtherKind, Others};
use kindom_objects::{PlanError, StoredObject, TypeSpec};
use memchr::memmem;
use tokio::time::timeout_at;

use crate::cost;
use crate::driver::{Attempt, Desired, Step};
use crate::error::WriteError;
use crate::event_limits::EventLimits;
use crate::request::{Knowledge, Target, WriteOptions};
use crate::{Freshness, ResourceHandle};

/// The bytes of all objects of a kind that one write reads.
const LOOKED_AT_BYTES_MAX: usize = 256 << 10;
/// The time that a write waits for an object that is expected to come into being.
const EXPECTED_WITHIN: Duration = Duration::from_secs(2);
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
    /// Reads what the rules of a type look at in a write; returns its bytes, too.
    ///
    /// # Errors
    /// [`PlanError::Forbidden`] where that is too much.
    pub(crate) async fn others(
        &self,
        attempt: &Attempt<'_>,
        target: &Target<'_>,
        desired: &mut Desired<'_>,
        options: &WriteOptions,
    ) -> Result<(Others, usize), WriteError> {
        let (cx, rules) = (attempt.cx, attempt.rules);
        let mut others = Others::of(cx.others.plugins);
        let (object, old) = match &*desired {
            Desired::Create(new) => (&new.object, None),
            Desired::Update { object, live, .. } => (object, Some(&live.old)),
            Desired::Delete(_) | Desired::DeleteCorrupt => return Ok((others, 0)),
        };
        let looks = cx.spec.strategy.looks_at(cx, object, old);
        let Some(plugins) = options.plugins.as_ref().filter(|_| !looks.is_empty()) else {
            return Ok((others, 0));
        };
        let mut freshness = rules.freshness;
        let mut name = target.name.to_owned();
        if let Desired::Create(new) = desired {
            set_namespace(metadata_mut(&mut new.object), target.namespace)?;
            let (_, _, namespace) = self.open_for_create(rules, target, new, options).await?;
            if let Some((_, as_of)) = namespace.filter(|_| freshness != Freshness::Any) {
                freshness = Freshness::AtLeast(as_of);
            }
            name = unnamed(&new.object).to_owned();
        }
        target.namespace.unwrap_or_default().clone_into(&mut others.namespace);
        others.name_suffix = self.deps().entropy.name_suffix();
        let mut bytes = 0;
        for look in looks {
            let (Look::All(kind) | Look::Named { kind, .. }) = look;
            let Some(handle) = (plugins.find_kind)(&kind.gvk()) else { continue };
            let namespace = handle.spec().and_then(|spec| target.namespace.filter(|_| spec.namespaced()));
            let freshness = if freshness == Freshness::Any { handle.own_writes()? } else { freshness };
            let found = match &look {
                Look::All(_) => {
                    let all = handle.all_of(kind, namespace, freshness, options.deadline).await?;
                    let refuse = || {
                        let kind = kind.gvk().kind;
                        let message = format!(
                            "the {kind} objects that it looks at have more than {LOOKED_AT_BYTES_MAX} bytes"
                        );
                        PlanError::Forbidden { name: name.clone(), message }
                    };
                    all.ok_or_else(refuse)?
                }
                Look::Named { name, is_expected, .. } => {
                    let key = TypeSpec::object_key(namespace, name);
                    let found = handle.one_of(&key, *is_expected, freshness, options).await;
                    found?.into_iter().collect()
                }
            };
            let of_kind = found.iter().map(|stored| stored.json().len()).sum();
            bytes += of_kind;
            dear(cost::parse(of_kind)).await?;
            for stored in found {
                let tree = json::parse_own(stored.json());
                let tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", stored.key())))?;
                others.found.push((kind, tree));
            }
        }
        Ok((others, bytes))
    }

    /// Counts a planned write of an event; returns true if it was one that counts.
    ///
    /// # Errors
    /// More of them come than may.
    pub(crate) fn count_event(
        &self,
        spec: &TypeSpec,
        planned: &Step,
        target: &Target<'_>,
        options: &WriteOptions,
    ) -> Result<bool, WriteError> {
        let limits = options.plugins.as_ref().and_then(|plugins| plugins.event_limits.as_ref());
        let Some(limits) = limits.filter(|_| EventLimits::concern(spec) && !options.dry_run) else {
            return Ok(false);
        };
        let Some(event) = planned.new_state() else { return Ok(false) };
        // It is counted once.
        if options.knowledge == Knowledge::Guess {
            return Err(WriteError::Guessed);
        }
        let event = match limits.look_at_events() {
            true => json::parse_own(event.json()).unwrap_or_default(),
            false => Value::Null,
        };
        let namespace = target.namespace.unwrap_or_default();
        let counted = limits.count(namespace, &options.user.name, &event, self.deps().clock.now());
        let beyond = |limits| PlanError::Refused(Box::new(AdmissionRefusal::TooManyEvents(limits)));
        Ok(counted.map(|()| true).map_err(beyond)?)
    }

    /// All objects that may be of interest, of a namespace or of the cluster; `None` if they are too large to be read by each
    /// write.
    async fn all_of(
        &self,
        kind: OtherKind,
        namespace: Option<&str>,
        freshness: Freshness,
        deadline: Deadline,
    ) -> Result<Option<Vec<Arc<StoredObject>>>, WriteError> {
        let (snapshot, _) = self.snapshot(freshness, deadline).await?;
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        // A look at each costs much less than its parsing, and no more than this.
        dear(cost::rules(snapshot.count(&prefix, ""), 0)).await?;
        let mark = mark(kind).as_bytes();
        let (mut found, mut bytes) = (Vec::new(), 0_usize);
        for stored in snapshot.range(&prefix, "") {
            if mark.is_empty() || memmem::find(stored.json(), mark).is_some() {
                bytes = bytes.saturating_add(stored.json().len());
                if bytes > LOOKED_AT_BYTES_MAX {
                    return Ok(None);
                }
                found.push(Arc::clone(stored));
            }
        }
        Ok(Some(found))
    }

    /// The object of a key. Another replica may have answered its create, and one that is expected may be about to come.
    ///
    /// # Errors
    /// [`WriteError::Guessed`] where a write that is planned on a guess would have to wait.
    async fn one_of(
        &self,
        key: &str,
        is_expected: bool,
        freshness: Freshness,
        options: &WriteOptions,
    ) -> Result<Option<Arc<StoredObject>>, WriteError> {
        let deadline = options.deadline;
        let found = self.read(key, freshness, deadline).await?;
        if found.is_some() {
            return Ok(found);
        }
        if options.knowledge == Knowledge::Guess {
            return Err(WriteError::Guessed);
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
