//! The stages that an object goes through before it is stored (B-22).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_resource_actor::{CustomObjects, ResourceHandle, RuleContext, Strategy, Target, WriteError};
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
        self.said("validate", CustomObjects.validate(cx, object))
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

const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "n":{"type":"integer"},"marks":{"type":"string"}}}}}"#;

async fn put(widgets: &ResourceHandle, n: i64) -> Result<(), WriteError> {
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        let mut object = widget("one", n);
        let revision = old.at(&["metadata", "resourceVersion"]).cloned().unwrap();
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("resourceVersion", revision);
        cx.spec.strategy.decode(cx, &mut object, None).map_err(WriteError::BadRequest)?;
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
        assert!(matches!(create(&widgets, widget("one", 1)).await, Err(WriteError::BadRequest(_))));
        assert_eq!(stages(), ["default"]);
        refuse("validate");
        assert!(matches!(create(&widgets, widget("one", 1)).await, Err(WriteError::Invalid { .. })));
        assert_eq!(stages(), ["default", "prepare", "validate"]);
        assert_eq!(marks(&widgets).await, None);
        refuse("");
        create(&widgets, widget("one", 1)).await.unwrap();
        assert_eq!(stages(), ["default", "prepare", "validate", "canonicalize"]);
        assert_eq!(marks(&widgets).await.unwrap(), "default prepare canonicalize ");

        refuse("validate");
        assert!(matches!(put(&widgets, 2).await, Err(WriteError::Invalid { .. })));
        assert_eq!(stages(), ["default", "prepare", "validate"]);
        assert_eq!(tree(&get(&widgets, "one").await.unwrap()).at(&["spec", "n"]), Some(&Value::from(1)));
        refuse("");
        put(&widgets, 2).await.unwrap();
        assert_eq!(stages(), ["default", "prepare", "validate", "canonicalize"]);
        assert_eq!(marks(&widgets).await.unwrap(), "default prepare canonicalize ");
        assert_eq!(tree(&get(&widgets, "one").await.unwrap()).at(&["spec", "n"]), Some(&Value::from(2)));
    });
}
