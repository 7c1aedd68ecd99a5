//! The stages that an object goes through before it is stored (B-22).

use std::sync::Arc;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{User, Value};
use kindom_objects::{
    BuiltInVersion, ConvertError, CustomObjects, Faces, Names, PlanError, RuleContext, Scope, Strategy,
    TypeSpec,
};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{ResourceHandle, Target};
use kindom_schema::columns::Columns;
use kindom_schema::merge::MergeType;
use parking_lot::Mutex;

use crate::world::*;

/// The rules of custom objects, with a hook in each stage: what may change the object leaves its mark, and each may refuse.
#[derive(Default)]
struct Traced {
    stages: Mutex<Vec<&'static str>>,
    refuses: Mutex<&'static str>,
}

impl Traced {
    /// Notes a stage; whether it refuses.
    fn note(&self, stage: &'static str) -> bool {
        self.stages.lock().push(stage);
        *self.refuses.lock() == stage
    }

    fn mark(&self, stage: &'static str, object: &mut Value) {
        self.note(stage);
        let spec = object.get_mut("spec").unwrap().as_object_mut().unwrap();
        let marks = spec.entry_or_insert_with("marks", || "".into());
        *marks = format!("{}{stage} ", marks.as_str().unwrap()).into();
    }

    fn said(&self, stage: &'static str, mut errors: ErrorList) -> ErrorList {
        if self.note(stage) {
            errors.push(Error::forbidden(&Path::new("spec"), "by the hook"));
        }
        errors
    }
}

impl Strategy for Traced {
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let read = CustomObjects.decode(cx, object, unknown)?;
        self.mark("default", object);
        if *self.refuses.lock() == "default" { Err("by the hook".to_owned()) } else { Ok(read) }
    }

    fn prepare_for_create(&self, cx: &RuleContext<'_>, object: &mut Value) {
        CustomObjects.prepare_for_create(cx, object);
        self.mark("prepare", object);
    }

    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList {
        let mut errors = CustomObjects.validate(cx, object);
        if cx.user.name == "mallory" {
            errors.push(Error::forbidden(&Path::new("spec"), "for mallory"));
        }
        self.said("validate", errors)
    }

    fn prepare_for_update(&self, cx: &RuleContext<'_>, object: &mut Value, old: &Value) {
        CustomObjects.prepare_for_update(cx, object, old);
        self.mark("prepare", object);
    }

    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList {
        self.said("validate", CustomObjects.validate_update(cx, object, old, warnings))
    }

    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value) {
        CustomObjects.canonicalize(cx, object);
        self.mark("canonicalize", object);
    }
}

/// A rule may decide by the user who asks.
#[test]
fn a_rule_knows_who_asks() {
    run(|world| async move {
        let registration = registration(&["v1"], &kindom_api::json::parse(SCHEMA.as_bytes()).unwrap());
        let spec = world.registered_with(&registration, Arc::new(Traced::default()), None);
        let widgets = ResourceHandle::new(Arc::clone(&world.deps), spec);
        let by = |name: &str| {
            let user = User { name: name.to_owned(), ..User::default() };
            kindom_resource_actor::WriteOptions { user: Arc::new(user), ..options() }
        };
        let refused = create_with(&widgets, widget("one", 1), &by("mallory")).await.err();
        let Some(WriteError::Plan(PlanError::Invalid { errors, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(errors[0].to_string(), "spec: Forbidden: for mallory");
        create_with(&widgets, widget("one", 1), &by("alice")).await.unwrap();
    });
}

const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "n":{"type":"integer"},"marks":{"type":"string"}}}}}"#;

async fn put(widgets: &ResourceHandle, n: i64) -> Result<(), WriteError> {
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        let mut object = widget("one", n);
        let revision = old.at(&["metadata", "resourceVersion"]).cloned().unwrap();
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("resourceVersion", revision);
        cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
        Ok(object)
    };
    widgets.update(Target { ..at("one") }, false, &mut wanted, &options()).await.map(drop)
}

async fn marks(widgets: &ResourceHandle) -> Option<String> {
    let object = get(widgets, "one").await?;
    Some(tree(&object).at(&["spec", "marks"])?.as_str()?.to_owned())
}

/// B-22: defaulting, preparing, validating and canonicalizing, in this order; each sees what the one before left, may
/// refuse, and then nothing later happens and nothing is stored.
#[test]
fn the_stages_come_in_order_before_the_write() {
    run(|world| async move {
        let strategy = Arc::new(Traced::default());
        let registration = registration(&["v1"], &kindom_api::json::parse(SCHEMA.as_bytes()).unwrap());
        let spec = world.registered_with(&registration, Arc::clone(&strategy) as Arc<dyn Strategy>, None);
        let widgets = ResourceHandle::new(Arc::clone(&world.deps), spec);
        let stages = || std::mem::take(&mut *strategy.stages.lock());
        let refuse = |stage| *strategy.refuses.lock() = stage;

        refuse("default");
        assert!(matches!(
            create(&widgets, widget("one", 1)).await,
            Err(WriteError::Plan(PlanError::BadRequest(_)))
        ));
        assert_eq!(stages(), ["default"]);
        refuse("validate");
        assert!(matches!(
            create(&widgets, widget("one", 1)).await,
            Err(WriteError::Plan(PlanError::Invalid { .. }))
        ));
        assert_eq!(stages(), ["default", "prepare", "validate"]);
        assert_eq!(marks(&widgets).await, None);
        refuse("");
        create(&widgets, widget("one", 1)).await.unwrap();
        assert_eq!(stages(), ["default", "prepare", "validate", "canonicalize"]);
        assert_eq!(marks(&widgets).await.unwrap(), "default prepare canonicalize ");

        refuse("validate");
        assert!(matches!(put(&widgets, 2).await, Err(WriteError::Plan(PlanError::Invalid { .. }))));
        assert_eq!(stages(), ["default", "prepare", "validate"]);
        assert_eq!(tree(&get(&widgets, "one").await.unwrap()).at(&["spec", "n"]), Some(&Value::from(1)));
        refuse("");
        put(&widgets, 2).await.unwrap();
        assert_eq!(stages(), ["default", "prepare", "validate", "canonicalize"]);
        assert_eq!(marks(&widgets).await.unwrap(), "default prepare canonicalize ");
        assert_eq!(tree(&get(&widgets, "one").await.unwrap()).at(&["spec", "n"]), Some(&Value::from(2)));
    });
}

/// The `spec` that each stage saw, of a type that keeps its objects by its finalizer from the beginning.
#[derive(Default)]
struct Keeping {
    seen: Mutex<Vec<String>>,
}

impl Keeping {
    fn see(&self, stage: &str, object: &Value) {
        self.seen.lock().push(format!("{stage} {}", object.get("spec").unwrap()));
    }
}

impl Strategy for Keeping {
    fn decode(
        &self,
        _: &RuleContext<'_>,
        object: &mut Value,
        _: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        self.see("default", object);
        Ok(Vec::new())
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, object: &mut Value) {
        self.see("prepare", object);
        let metadata = object.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert("finalizers", vec!["g.io/kept"]);
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        self.see("validate", object);
        ErrorList::new()
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, object: &mut Value, old: &Value) {
        self.see("prepare", object);
        self.see("old", old);
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        _: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        self.see("validate", object);
        ErrorList::new()
    }

    fn canonicalize(&self, _: &RuleContext<'_>, object: &mut Value) {
        self.see("canonicalize", object);
    }
}

/// v2 calls `n` what is stored as `m`.
struct Renamed;

fn rename(object: &mut Value, from: &str, to: &str) {
    let spec = object.get_mut("spec").unwrap().as_object_mut().unwrap();
    if let Some(value) = spec.remove(from) {
        spec.insert(to, value);
    }
}

impl Faces for Renamed {
    fn is_stored(&self, version: &str) -> bool {
        version == "v1"
    }

    fn merge_type(&self, _: &str) -> Option<MergeType<'static>> {
        Some(MergeType::deduced())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let mut object = object.clone();
        match api_version {
            "g.io/v1" => rename(&mut object, "n", "m"),
            "g.io/v2" => rename(&mut object, "m", "n"),
            _ => return Err(ConvertError::NoSuchVersion),
        }
        Ok(object)
    }

    fn shows_as_stored(&self, version: &str, _: &[u8]) -> bool {
        version == "v1"
    }

    fn show(&self, version: &str, mut stored: Value) -> Value {
        if version == "v2" {
            rename(&mut stored, "m", "n");
        }
        stored
    }

    fn read(
        &self,
        version: &str,
        mut object: Value,
        _: Option<&Value>,
        _: Option<kindom_objects::Subresource>,
    ) -> Result<Value, ErrorList> {
        if version == "v2" {
            rename(&mut object, "n", "m");
        }
        Ok(object)
    }
}

fn keeping(world: &World) -> (ResourceHandle, Arc<Keeping>) {
    let strategy = Arc::new(Keeping::default());
    let names = Names { plural: "widgets".into(), kind: "Widget".into(), ..Names::default() };
    let version = |name| BuiltInVersion { name, columns: Columns::compile(&[]), deprecation_warning: None };
    let versions = vec![version("v1"), version("v2")];
    let rules = Arc::clone(&strategy) as Arc<dyn Strategy>;
    let spec = TypeSpec::built_in("g.io", names, Scope::Namespaced, versions, rules);
    let spec = Arc::new(spec.with_faces(Arc::new(Renamed)));
    (ResourceHandle::new(Arc::clone(&world.deps), spec), strategy)
}

/// B-26: what prepares a create may set finalizers; the object then stays until they are gone.
#[test]
fn preparing_a_create_may_set_finalizers() {
    run(|world| async move {
        let (widgets, _) = keeping(&world);
        create(&widgets, widget("one", 1)).await.unwrap();
        let held = delete(&widgets, "one").await.unwrap();
        assert!(!held.outcome.is_deleted());
        let object = tree(&get(&widgets, "one").await.unwrap());
        assert_eq!(object.at(&["metadata", "finalizers"]).unwrap().to_string(), r#"["g.io/kept"]"#);
        assert!(object.at(&["metadata", "deletionTimestamp"]).is_some());
        let release = |object: &mut Value| {
            object.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("finalizers");
        };
        assert!(patch(&widgets, "one", release).await.unwrap().outcome.is_deleted());
        assert!(get(&widgets, "one").await.is_none());
    });
}

/// A manager that writes through a face owns the face's fields, not the stored ones; in another version they are compared as
/// that version shows them.
#[test]
fn fields_are_managed_in_the_version_that_they_were_written_in() {
    run(|world| async move {
        let (widgets, _) = keeping(&world);
        let v2 = |name: &'static str| Target { version: "v2", ..at(name) };
        let by = |manager: &str| kindom_resource_actor::WriteOptions { manager: manager.into(), ..options() };
        let mut wanted = |_: &RuleContext<'_>, _: &Value| Ok(widget("one", 1));
        let created = widgets.create(v2(""), &mut wanted, &by("newer")).await.unwrap();
        assert_eq!(managers(&created.object), [r#"newer Update g.io/v2 {"f:spec":{".":{},"f:n":{}}}"#]);

        let mut other = |_: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            let spec = object.get_mut("spec").unwrap().as_object_mut().unwrap();
            spec.insert("m", 2);
            Ok(object)
        };
        let updated = widgets.update(at("one"), true, &mut other, &by("older")).await.unwrap();
        let want = [r#"newer Update g.io/v2 {"f:spec":{}}"#, r#"older Update g.io/v1 {"f:spec":{"f:m":{}}}"#];
        assert_eq!(managers(&updated.object), want);
    });
}

fn managers(object: &kindom_objects::StoredObject) -> Vec<String> {
    let object = tree(object);
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).unwrap_or_default();
    let show = |entry: &Value| {
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let fields = entry.get("fieldsV1").unwrap();
        format!("{} {} {} {fields}", text("manager"), text("operation"), text("apiVersion"))
    };
    entries.iter().map(show).collect()
}

/// B-31: defaulting sees what the client sent in its version, all later stages see the form that is stored.
#[test]
fn the_stages_see_the_stored_form_of_a_face() {
    run(|world| async move {
        let (widgets, strategy) = keeping(&world);
        let seen = || std::mem::take(&mut *strategy.seen.lock());
        let v2 = |name: &'static str| Target { version: "v2", ..at(name) };
        let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
            let mut object = if old.is_null() { widget("one", 1) } else { old.clone() };
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::BadRequest)?;
            Ok(object)
        };
        widgets.create(v2(""), &mut wanted, &options()).await.unwrap();
        let want =
            [r#"default {"n":1}"#, r#"prepare {"m":1}"#, r#"validate {"m":1}"#, r#"canonicalize {"m":1}"#];
        assert_eq!(seen(), want);
        assert_eq!(tree(&get(&widgets, "one").await.unwrap()).at(&["spec", "m"]), Some(&Value::from(1)));
        widgets.update(v2("one"), true, &mut wanted, &options()).await.unwrap();
        let want = [
            r#"default {"n":1}"#,
            r#"prepare {"m":1}"#,
            r#"old {"m":1}"#,
            r#"validate {"m":1}"#,
            r#"canonicalize {"m":1}"#,
        ];
        assert_eq!(seen(), want);
    });
}
