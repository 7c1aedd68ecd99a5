//! The registrations of a program's kinds, from its start on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use kindom_actor_kit::{Deadline, Woken};
use kindom_api::crd::condition;
use kindom_api::field::aggregate;
use kindom_api::{Map, Value, json};
use kindom_codec::yaml::to_yaml;
use kindom_http::{Handler, Handlers};
use kindom_objects::declared_subresources::{SUBRESOURCES_ANNOTATION, of_program, with_program};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::registration::CONVERSION_ANNOTATION;
use kindom_objects::{PlanError, RuleContext, StoredRegistration, Strategy};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{ResourceHandle, Target, WriteError, WriteOptions};
use kindom_schema::whole;

use super::kind::{Group, Kind};
use super::registration::set;
use crate::BoxError;

/// The kinds that a program is compiled with, by the names of their registrations.
#[derive(Clone, Default)]
pub(crate) struct Kinds(BTreeMap<String, Kind>);

impl Kinds {
    /// The kinds of these groups.
    ///
    /// # Errors
    /// Two of them have the same name, or the versions of one do not belong together.
    pub(crate) fn of(groups: impl IntoIterator<Item = Group>) -> Result<Self, BoxError> {
        let mut kinds = BTreeMap::new();
        for kind in groups.into_iter().flat_map(|group| group.kinds) {
            if let Some(mistake) = &kind.mistake {
                return Err(format!("the kind {} cannot be served: {mistake}", kind.name).into());
            }
            if let Some(other) = kinds.insert(kind.name.clone(), kind) {
                return Err(format!("this program has two kinds {}", other.name).into());
            }
        }
        Ok(Self(kinds))
    }

    /// Writes their registrations, as YAML that `kubectl apply` takes.
    ///
    /// # Errors
    /// There are none, or they cannot be written.
    pub(crate) fn print(&self, out: &mut dyn Write) -> Result<(), BoxError> {
        if self.0.is_empty() {
            return Err("this program is compiled with no kinds of its own".into());
        }
        let all: Vec<String> = self.0.values().map(|kind| to_yaml(&kind.registration)).collect();
        Ok(out.write_all(all.join("---\n").as_bytes())?)
    }

    /// The names of their registrations.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    /// The handlers of their subresources; `None` if they have no such ones.
    pub(crate) fn handlers(&self) -> Option<Arc<dyn Handlers>> {
        let has_one = self.0.values().any(|kind| !kind.handlers.is_empty());
        has_one.then(|| Arc::new(self.clone()) as Arc<dyn Handlers>)
    }

    /// The rules of their objects, by the name of the registration.
    pub(crate) fn strategies(&self) -> BTreeMap<String, Arc<dyn Strategy>> {
        self.0.iter().map(|(name, kind)| (name.clone(), Arc::clone(&kind.strategy))).collect()
    }
}

impl Handlers for Kinds {
    fn find(&self, registration: &str, subresource: &str) -> Option<Handler> {
        self.0.get(registration)?.handlers.get(subresource).cloned()
    }
}

/// Registers a program's kinds, or brings their registrations up to date, and waits until they are served. A registration that
/// somebody made by hand becomes the program's, with its objects.
///
/// # Errors
/// Names the kind, and why it cannot be served: the registration is invalid, or a name of it is taken.
pub(crate) async fn keep(
    kinds: &Kinds,
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    object_bytes_max: usize,
    deadline: Deadline,
) -> Result<(), BoxError> {
    for kind in kinds.0.values() {
        put(kind, registry, registrations, object_bytes_max, deadline).await.map_err(not_served(kind))?;
    }
    for kind in kinds.0.values() {
        served(kind, registry, registrations, deadline).await.map_err(not_served(kind))?;
    }
    Ok(())
}

fn not_served(kind: &Kind) -> impl Fn(BoxError) -> BoxError {
    move |why| format!("the kind {} cannot be served: {why}", kind.name).into()
}

/// Stores the registration of a kind, unless it is stored as it should be. One that is being deleted goes first.
async fn put(
    kind: &Kind,
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    object_bytes_max: usize,
    deadline: Deadline,
) -> Result<(), BoxError> {
    let options = WriteOptions::by_server(deadline, object_bytes_max);
    let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
        let mut object = if stored.is_null() { kind.registration.clone() } else { stored.clone() };
        if let Some(spec) = kind.registration.get("spec") {
            set(&mut object, "spec", spec.clone());
        }
        let ours =
            |name: &str| kind.registration.at(&["metadata", "annotations", name]).and_then(Value::as_str);
        for name in [CONVERSION_ANNOTATION, whole::ANNOTATION] {
            set_annotation(&mut object, name, ours(name).map(str::to_owned));
        }
        let before = stored.at(&["metadata", "annotations", SUBRESOURCES_ANNOTATION]).and_then(Value::as_str);
        let subresources = with_program(before, &of_program(ours(SUBRESOURCES_ANNOTATION)));
        set_annotation(&mut object, SUBRESOURCES_ANNOTATION, subresources);
        cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
        Ok(object)
    };
    let place = Target { version: "v1", subresource: None, namespace: None, name: "" };
    let mut changes = registry.changes();
    loop {
        match registrations.get(&kind.name, deadline).await? {
            None => match registrations.create(place, &mut wanted, &options).await {
                // Another replica was first.
                Err(WriteError::Plan(PlanError::AlreadyExists { .. })) => {}
                written => return written.map(drop).map_err(why),
            },
            Some(stored) if stored.deleting() => {
                woken(
                    &mut changes,
                    deadline,
                    "its registration is being deleted, and objects of it are left",
                )
                .await?;
            }
            Some(_) => {
                let place = Target { name: &kind.name, ..place };
                match registrations.update(place, true, &mut wanted, &options).await {
                    // It went meanwhile.
                    Err(WriteError::Plan(PlanError::NotFound { .. })) => {}
                    written => return written.map(drop).map_err(why),
                }
            }
        }
    }
}

/// What is wrong with a registration, by its fields.
fn why(error: WriteError) -> BoxError {
    match error {
        WriteError::Plan(PlanError::Invalid { errors, .. }) => {
            format!("its registration is invalid: {}", aggregate(&errors)).into()
        }
        error => error.into(),
    }
}

/// Gives an object an annotation, or takes it away.
fn set_annotation(object: &mut Value, name: &str, text: Option<String>) {
    let metadata = metadata_mut(object);
    let mut annotations = metadata.remove("annotations").unwrap_or_else(|| Map::new().into());
    if let Some(map) = annotations.as_object_mut() {
        match text {
            Some(text) => drop(map.insert(name, text)),
            None => drop(map.remove(name)),
        }
        if !map.is_empty() {
            metadata.insert("annotations", annotations);
        }
    }
}

/// Waits until registrations changed.
///
/// # Errors
/// `late` at the deadline.
async fn woken(changes: &mut Woken, deadline: Deadline, late: &str) -> Result<(), BoxError> {
    tokio::time::timeout(deadline.remaining(), changes.woken()).await.map_err(|_| late.into())
}

/// Waits until a kind is served.
async fn served(
    kind: &Kind,
    registry: &RegistryHandle,
    registrations: &ResourceHandle,
    deadline: Deadline,
) -> Result<(), BoxError> {
    let spec = StoredRegistration::new(&kind.registration);
    let (group, plural) = (spec.group().unwrap_or_default(), spec.plural().unwrap_or_default());
    let mut changes = registry.changes();
    loop {
        if registry.routes().get(group, plural).is_some() {
            return Ok(());
        }
        let stored = registrations.get(&kind.name, deadline).await?;
        let stored = stored.and_then(|stored| json::parse_own(stored.json()).ok()).unwrap_or_default();
        let names = StoredRegistration::new(&stored).condition(condition::NAMES_ACCEPTED);
        if let Some(refused) = names.filter(|names| names.status() == "False") {
            return Err(refused.message().into());
        }
        woken(&mut changes, deadline, "the names of its registration are not judged").await?;
    }
}
