//! The FlowSchemas and PriorityLevelConfigurations that the server keeps, and the condition of each FlowSchema that says whether its
//! level is there.
//!
//! **Flow.** A key is a level or a schema. One of the server's own is made if it is missing, and gets its spec back if the server
//! chooses that: always for the mandatory ones, for the suggested ones until somebody has changed theirs or an annotation
//! forbids it. After a level, the schemas that name it are due, which an index of the last look at each of them knows.
//!
//! **Bounds.** What somebody else writes as often is written a few times a minute.
//!
//! Sources: `pkg/registry/flowcontrol/{rest,ensurer}` (1.37), apiserver `pkg/util/flowcontrol/apf_controller.go` (0.37). There it
//! happens once a minute; here after every change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{Deadline, Reconciler, StartError};
use kindom_api::{Value, meta, object};
use kindom_objects::kinds::flow_control::{DefaultObject, FlowKind};
use kindom_objects::{PlanError, Removal, RuleContext, Subresource};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Apply, ResourceHandle, Target, WriteError, WriteOptions};
use kindom_storage::StoredValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::attempt::STEP;
use crate::error::ReconcileError;
use crate::follower::{self, Settle};
use crate::provision::{stored, unless_it_is_settled};

/// Says if the server chooses the spec.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The manager of the objects that the server keeps.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
/// The manager of the condition.
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
const DANGLING: &str = "Dangling";

/// The writes of one object within [`WINDOW`] (`shouldDelayUpdate`).
const WRITES_MAX: u32 = 6;
const WINDOW: Duration = Duration::from_secs(60);

/// Starts the loop, as the actor `flow-schemas`.
///
/// # Errors
/// [`StartError`]
pub fn start(
    registry: &RegistryHandle,
    levels: &ResourceHandle,
    schemas: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<Reconciler, StartError> {
    let (levels, schemas) = (levels.clone(), schemas.clone());
    let state = Arc::new(Mutex::new(State {
        levels: LevelsOfSchemas::default(),
        writes: Writes { since: levels.deps().clock.now(), counts: HashMap::new() },
    }));
    follower::start("flow-schemas", registry, FlowSchemas { levels, schemas, state, object_bytes_max })
}

#[derive(Clone)]
struct FlowSchemas {
    levels: ResourceHandle,
    schemas: ResourceHandle,
    state: Arc<Mutex<State>>,
    object_bytes_max: usize,
}

struct State {
    levels: LevelsOfSchemas,
    writes: Writes,
}

/// The level that each schema named when it was last looked at.
#[derive(Default)]
struct LevelsOfSchemas {
    levels: BTreeMap<String, String>,
    /// By the level.
    schemas: BTreeMap<String, BTreeSet<String>>,
}

impl LevelsOfSchemas {
    fn set(&mut self, schema: &str, level: Option<&str>) {
        let before = match level {
            Some(level) => self.levels.insert(schema.to_owned(), level.to_owned()),
            None => self.levels.remove(schema),
        };
        if let Some(before) = before
            && let Some(schemas) = self.schemas.get_mut(&before)
        {
            schemas.remove(schema);
            if schemas.is_empty() {
                self.schemas.remove(&before);
            }
        }
        if let Some(level) = level {
            self.schemas.entry(level.to_owned()).or_default().insert(schema.to_owned());
        }
    }

    fn of(&self, level: &str) -> impl Iterator<Item = &String> {
        self.schemas.get(level).into_iter().flatten()
    }
}

/// The writes of this window, by key.
struct Writes {
    since: Instant,
    counts: HashMap<String, u32>,
}

impl Writes {
    /// Counts a write; `false` if there were enough of this key.
    fn take(&mut self, key: String, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.counts) = (now, HashMap::new());
        }
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count <= WRITES_MAX
    }
}

/// The beginnings of keys.
const LEVEL: &str = "level/";
const SCHEMA: &str = "schema/";

impl Settle for FlowSchemas {
    fn types(&self) -> Vec<ResourceHandle> {
        vec![self.levels.clone(), self.schemas.clone()]
    }

    fn begin(&self) -> Vec<String> {
        // All schemas will be looked at.
        self.state.lock().levels = LevelsOfSchemas::default();
        let of = |kind: FlowKind, start| kind.defaults().keys().map(move |name| format!("{start}{name}"));
        of(FlowKind::PriorityLevel, LEVEL).chain(of(FlowKind::FlowSchema, SCHEMA)).collect()
    }

    fn due(&self, place: usize, of: &str, _: Option<&StoredValue>) -> Option<String> {
        Some(format!("{}{of}", if place == 0 { LEVEL } else { SCHEMA }))
    }

    fn due_after(&self, key: &str) -> Vec<String> {
        let Some(level) = key.strip_prefix(LEVEL) else { return Vec::new() };
        self.state.lock().levels.of(level).map(|schema| format!("{SCHEMA}{schema}")).collect()
    }

    fn settle<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, Result<(), ReconcileError>> {
        match (key.strip_prefix(LEVEL), key.strip_prefix(SCHEMA)) {
            (Some(level), _) => self.settle_level(level).boxed_local(),
            (_, Some(schema)) => self.settle_schema(schema).boxed_local(),
            _ => std::future::ready(Ok(())).boxed_local(),
        }
    }
}

impl FlowSchemas {
    async fn settle_level(&self, name: &str) -> Result<(), ReconcileError> {
        let level = stored(&self.levels, None, name).await?;
        self.keep(FlowKind::PriorityLevel, name, level.as_ref()).await
    }

    async fn settle_schema(&self, name: &str) -> Result<(), ReconcileError> {
        let schema = stored(&self.schemas, None, name).await?;
        let kept = self.keep(FlowKind::FlowSchema, name, schema.as_ref()).await;
        self.state.lock().levels.set(name, schema.as_ref().map(level_of));
        if let Some(schema) = schema.filter(|schema| schema.text_at(&["metadata", "name"]) == name) {
            let has_level = stored(&self.levels, None, level_of(&schema)).await?.is_some();
            self.write_condition(&schema, has_level).await?;
        }
        kept
    }

    /// Makes an object that the server keeps, gives it its spec back, or removes one that another version of the server has kept
    /// (`EnsureConfiguration`, `RemoveUnwantedObjects`).
    async fn keep(&self, kind: FlowKind, name: &str, found: Option<&Value>) -> Result<(), ReconcileError> {
        let handle = match kind {
            FlowKind::FlowSchema => &self.schemas,
            FlowKind::PriorityLevel => &self.levels,
        };
        let default = kind.defaults().get(name);
        let is_due = match (default, found) {
            (None, None) => false,
            (None, Some(found)) => auto_update(found) == Some(true),
            (Some(_), None) => true,
            (Some(default), Some(found)) => revised(kind, found, default).is_some(),
        };
        if !is_due {
            return Ok(());
        }
        self.take_write(handle, name)?;
        let options = WriteOptions { manager: PRODUCER.to_owned(), ..self.options() };
        let place = Target { version: "v1", subresource: None, namespace: None, name: "" };
        let written = match (default, found) {
            (Some(default), None) => {
                let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, default.object.clone());
                handle.create(place, &mut wanted, &options).await.map(drop)
            }
            (Some(default), Some(_)) => {
                let mut wanted = |cx: &RuleContext<'_>, found: &Value| {
                    decoded(cx, revised(kind, found, default).unwrap_or_else(|| found.clone()))
                };
                handle.update(Target { name, ..place }, true, &mut wanted, &options).await.map(drop)
            }
            (None, _) => {
                let uid = found.map(|found| uid(found).to_owned());
                let removal = Removal { uid, ..Removal::default() };
                handle.delete(Target { name, ..place }, &removal, &options).await.map(drop)
            }
        };
        written.or_else(|error| unless_it_is_final(name, error))
    }

    /// Writes into a schema's status whether its level is there (`presyncFlowSchemaStatus`).
    async fn write_condition(&self, schema: &Value, has_level: bool) -> Result<(), ReconcileError> {
        let level = level_of(schema);
        let (status, reason, end) = match has_level {
            true => ("False", "Found", "and it exists"),
            false => ("True", "NotFound", "but there is no such object"),
        };
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}");
        let conditions = schema.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
        let known = conditions.iter().find(|condition| condition.text_at(&["type"]) == DANGLING);
        let has = |field, text| known.is_some_and(|known| known.text_at(&[field]) == text);
        if has("status", status) && has("reason", reason) && has("message", &message) {
            return Ok(());
        }
        let name = schema.text_at(&["metadata", "name"]);
        self.take_write(&self.schemas, name)?;
        let condition = object! {
            "type": DANGLING,
            "status": status,
            "lastTransitionTime": meta::time::format(self.schemas.deps().clock.unix_seconds()),
            "reason": reason,
            "message": message,
        };
        let patch = object! {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": object! { "name": name },
            "status": object! { "conditions": vec![condition] },
        };
        let gone = || PlanError::NotFound { name: name.to_owned() };
        // A schema that has changed meanwhile is due again.
        let mut still = |object: &mut Value, _| match uid(object) == uid(schema) && level_of(object) == level
        {
            true => Ok(()),
            false => Err(gone().into()),
        };
        let mut apply = Apply { patch: Ok(patch), force: true, check: &mut still };
        let options = WriteOptions { manager: CONSUMER.to_owned(), ..self.options() };
        let place = Target { version: "v1", subresource: Some(Subresource::Status), namespace: None, name };
        let applied = self.schemas.apply(place, &mut apply, &options).await.map(drop);
        applied.or_else(|error| unless_it_is_final(name, error))
    }

    /// Counts a write of an object.
    ///
    /// # Errors
    /// [`ReconcileError::Restless`]: it was written often enough for now.
    fn take_write(&self, handle: &ResourceHandle, name: &str) -> Result<(), ReconcileError> {
        let key = format!("{}{name}", handle.prefix());
        let may_write = self.state.lock().writes.take(key.clone(), handle.deps().clock.now());
        if may_write { Ok(()) } else { Err(ReconcileError::Restless(key)) }
    }

    fn options(&self) -> WriteOptions {
        WriteOptions::by_server(Deadline::after(STEP), self.object_bytes_max)
    }
}

/// Passes on an error that another try may not meet. An object that came too late or has gone is due again; one that leaves no room
/// is logged.
fn unless_it_is_final(name: &str, error: WriteError) -> Result<(), ReconcileError> {
    match error {
        WriteError::Plan(PlanError::TooLarge { .. } | PlanError::Invalid { .. })
        | WriteError::RequestTooLarge(_) => {
            tracing::warn!(name, %error, "an object of flow control is left as it is");
            Ok(())
        }
        error => unless_it_is_settled(error),
    }
}

fn level_of(schema: &Value) -> &str {
    schema.text_at(&["spec", "priorityLevelConfiguration", "name"])
}

fn uid(object: &Value) -> &str {
    object.text_at(&["metadata", "uid"])
}

fn decoded(cx: &RuleContext<'_>, mut object: Value) -> Result<Value, PlanError> {
    cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
    Ok(object)
}

/// The value of the annotation, as Go reads one (`strconv.ParseBool`).
fn auto_update(object: &Value) -> Option<bool> {
    match object.text_at(&["metadata", "annotations", AUTO_UPDATE]) {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The object with the spec and the annotation that the server gives it; `None` if it has both (`ReviseIfNeeded`).
fn revised(kind: FlowKind, found: &Value, default: &DefaultObject) -> Option<Value> {
    let annotated = auto_update(found);
    // Without the annotation, a spec that nobody has changed yet is the server's.
    let is_first = || found.at(&["metadata", "generation"]) == Some(&Value::Int(1));
    let is_ours = default.is_mandatory || annotated.unwrap_or_else(is_first);
    let differs = is_ours && !kind.is_same(found, default);
    if annotated == Some(is_ours) && !differs {
        return None;
    }
    let mut revised = found.clone();
    if differs && let Some(object) = revised.as_object_mut() {
        object.insert("spec", default.object.get("spec").cloned().unwrap_or_default());
    }
    if annotated != Some(is_ours) {
        let metadata = revised.get_mut("metadata").and_then(Value::as_object_mut)?;
        let annotations = metadata.entry_or_insert_with("annotations", || object! {});
        annotations.as_object_mut()?.insert(AUTO_UPDATE, is_ours.to_string());
    }
    Some(revised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(annotation: Option<&str>, generation: i64, precedence: i64) -> Value {
        let mut schema = FlowKind::FlowSchema.defaults()["probes"].object.clone();
        let metadata = match annotation {
            Some(text) => object! {
                "name": "probes",
                "generation": generation,
                "annotations": object! { "apf.kubernetes.io/autoupdate-spec": text },
            },
            None => object! { "name": "probes", "generation": generation },
        };
        schema.as_object_mut().unwrap().insert("metadata", metadata);
        schema.get_mut("spec").unwrap().as_object_mut().unwrap().insert("matchingPrecedence", precedence);
        schema
    }

    /// The annotation and the precedence afterwards.
    fn after(name: &str, annotation: Option<&str>, generation: i64, precedence: i64) -> Option<(Value, i64)> {
        let default = &FlowKind::FlowSchema.defaults()[name];
        let revised = revised(FlowKind::FlowSchema, &found(annotation, generation, precedence), default)?;
        let annotation = revised.at(&["metadata", "annotations", AUTO_UPDATE]).cloned().unwrap();
        Some((annotation, revised.at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64).unwrap()))
    }

    #[test]
    fn a_suggested_spec_is_the_servers_until_somebody_changes_it() {
        let own = |precedence| Some(("true".into(), precedence));
        assert_eq!(after("probes", Some("true"), 1, 2), None);
        assert_eq!(after("probes", Some("true"), 5, 3), own(2));
        assert_eq!(after("probes", Some("T"), 1, 2), None);
        assert_eq!(after("probes", Some("T"), 1, 3), Some(("T".into(), 2)));
        assert_eq!(after("probes", Some("false"), 1, 3), None);
        assert_eq!(after("probes", None, 1, 3), own(2));
        assert_eq!(after("probes", None, 1, 2), own(2));
        assert_eq!(after("probes", None, 2, 3), Some(("false".into(), 3)));
        assert_eq!(after("probes", Some("maybe"), 2, 3), Some(("false".into(), 3)));
    }

    #[test]
    fn a_mandatory_spec_is_the_servers() {
        for (annotation, generation) in [(Some("false"), 1), (None, 7), (Some("true"), 7)] {
            let (annotation, precedence) = after("exempt", annotation, generation, 3).unwrap();
            assert_eq!((annotation, precedence), ("true".into(), 1));
        }
    }

    #[test]
    fn the_schemas_of_a_level_are_those_that_name_it() {
        let mut index = LevelsOfSchemas::default();
        let of = |index: &LevelsOfSchemas, level| index.of(level).cloned().collect::<Vec<_>>();
        index.set("a", Some("x"));
        index.set("b", Some("x"));
        assert_eq!(of(&index, "x"), ["a", "b"]);
        index.set("a", Some("y"));
        index.set("b", Some("x"));
        assert_eq!((of(&index, "x"), of(&index, "y")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        index.set("b", None);
        index.set("a", None);
        assert!(index.levels.is_empty() && index.schemas.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_written_a_few_times_a_minute() {
        let mut writes = Writes { since: Instant::now(), counts: HashMap::new() };
        let mut taken = |key: &str| (0..20).filter(|_| writes.take(key.to_owned(), Instant::now())).count();
        assert_eq!((taken("a"), taken("b"), taken("a")), (6, 6, 0));
        tokio::time::advance(WINDOW).await;
        assert_eq!(taken("a"), 6);
    }
}
