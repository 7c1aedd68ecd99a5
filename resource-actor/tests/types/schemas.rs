//! What is read after the schema changed, and through other versions.

use kindom_api::{Value, json, object};
use kindom_objects::{PlanError, StoredObject, render};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{ResourceHandle, Rewritten, Target};
use kindom_storage::{Key, RangeRequest, Storage as _};

use crate::world::*;

fn with_defaults(field: &str, default: &str) -> Value {
    let text = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"{field}":{{"type":"string","default":"{default}"}}}}}}}}}}"#
    );
    json::parse(text.as_bytes()).unwrap()
}

async fn served(handle: &ResourceHandle, version: &str, name: &str) -> String {
    let spec = handle.spec().unwrap();
    let object = get(handle, name).await.unwrap();
    let mut out = Vec::new();
    render::write_served(&spec, spec.version(version).unwrap(), &object, &mut out).unwrap();
    json::parse(&out).unwrap().get("spec").unwrap().to_string()
}

#[test]
fn stored_objects_follow_a_schema_that_changes_in_place() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("old", 1)).await.unwrap();
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"n":1}"#);
        world.change(&widgets, &registration(&["v1"], &with_defaults("s", "x")));
        // Pruned of what is unknown now, with the default of what is new; twice, as the second time may be shorter.
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"s":"x"}"#);
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"s":"x"}"#);
        create(&widgets, widget("new", 1)).await.unwrap();
        assert_eq!(served(&widgets, "v1", "new").await, r#"{"s":"x"}"#);
        world.change(&widgets, &registration(&["v1"], &with_defaults("s", "y")));
        // Stored defaults stay; those made on the way out follow.
        assert_eq!(served(&widgets, "v1", "new").await, r#"{"s":"x"}"#);
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"s":"y"}"#);
        world.change(&widgets, &registration(&["v1"], &schema()));
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"n":1}"#);
    });
}

/// The value that is stored under a name of the namespace.
async fn stored_value(world: &World, name: &str) -> String {
    let key = Key::from(format!("{WIDGETS}ns/{name}"));
    let request = RangeRequest::single(&key);
    let value = world.store.range(request).await.unwrap().kvs.remove(0).value.unwrap();
    String::from_utf8(value.to_vec()).unwrap()
}

/// Another program's value is repaired, pruned and defaulted whenever it is read, whatever its layout, and is newer than the
/// schema without having been through it.
#[test]
fn what_another_program_stored_is_not_taken_for_our_own() {
    run(|world| async move {
        let embedded = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":7},"e":{"type":"object","x-kubernetes-embedded-resource":true}}}}}"#;
        let widgets = world.widgets();
        world.change(&widgets, &registration(&["v1"], &json::parse(embedded.as_bytes()).unwrap()));
        let object = |name: &str, spec: &str| {
            format!(
                r#"{{"apiVersion":"g.io/v1","kind":"Widget","metadata":{{"name":"{name}","namespace":"ns","uid":"u"}},"spec":{spec}}}"#
            )
        };
        let spec =
            r#"{"e":{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":1},"name":"e","odd":1}},"x":1}"#;
        let read = r#"{"e":{"apiVersion":"v1","kind":"A","metadata":{"name":"e"}},"n":7}"#;
        for (name, end) in [("a", ""), ("b", "\n"), ("c", " "), ("d", "\n                                ")] {
            world.put(&format!("{WIDGETS}ns/{name}"), &(object(name, spec) + end));
            for _ in 0..2 {
                assert_eq!(served(&widgets, "v1", name).await, read, "{name}");
            }
        }
        // Nor is our own value that another program has changed.
        create(&widgets, widget("own", 1)).await.unwrap();
        let own = stored_value(&world, "own").await;
        assert!(own.contains(r#""spec":{"n":1}}"#) && own.ends_with(char::is_whitespace), "{own}");
        world.put(&format!("{WIDGETS}ns/own"), &own.replace(r#"{"n":1}"#, r#"{"x":1}"#));
        assert_eq!(served(&widgets, "v1", "own").await, r#"{"n":7}"#);
    });
}

/// A restored value is newer than its registration, and was written by an older schema.
#[test]
fn a_value_that_is_copied_is_served_by_the_schema_in_force() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("old", 1)).await.unwrap();
        let value = stored_value(&world, "old").await;
        world.change(&widgets, &registration(&["v1"], &with_defaults("s", "x")));
        world.put(&format!("{WIDGETS}ns/old"), &value);
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"s":"x"}"#);
        world.change(&widgets, &registration(&["v1"], &schema()));
        assert_eq!(served(&widgets, "v1", "old").await, r#"{"n":1}"#);
    });
}

/// An object that a drain marks is stored again, in the form of the schema in force.
#[test]
fn a_marked_object_is_brought_up_to_its_schema() {
    run(|world| async move {
        let widgets = world.widgets();
        let mut object = widget("a", 1);
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("finalizers", vec!["g.io/x"]);
        create(&widgets, object).await.unwrap();
        world.change(&widgets, &registration(&["v1"], &with_defaults("s", "x")));
        let stored = get(&widgets, "a").await.unwrap();
        widgets.delete_stored(&stored, &[], soon()).await.unwrap();
        assert!(get(&widgets, "a").await.unwrap().deleting());
        assert_eq!(served(&widgets, "v1", "a").await, r#"{"s":"x"}"#);
    });
}

fn two_versions(v1: &Value, v2: &Value, strategy: &str) -> Value {
    let mut tree = registration(&["v1", "v2"], v1);
    let spec = tree.get_mut("spec").unwrap().as_object_mut().unwrap();
    spec.insert("conversion", object! { "strategy": strategy });
    let versions = spec.get_mut("versions").unwrap().as_array_mut().unwrap();
    *versions[1].get_mut("schema").unwrap() = object! { "openAPIV3Schema": v2.clone() };
    tree
}

async fn create_v2(widgets: &ResourceHandle, name: &str) -> Result<(), WriteError> {
    let mut wanted = |cx: &kindom_objects::RuleContext<'_>, _: &Value| {
        let mut object = widget(name, 1);
        object.as_object_mut().unwrap().insert("apiVersion", "g.io/v2");
        cx.spec.strategy.decode(cx, &mut object, None).unwrap();
        Ok(object)
    };
    let target = Target { version: "v2", ..at("") };
    widgets.create(target, &mut wanted, &options()).await.map(drop)
}

/// T-07, T-08, T-11: one object, seen through each version as its schema has it.
#[test]
fn versions_are_views_of_what_is_stored() {
    run(|world| async move {
        let widgets = world.widgets();
        let both = json::parse(br#"{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","default":"stored"}}}}}"#).unwrap();
        let tree = two_versions(&both, &schema(), "None");
        world.change(&widgets, &tree);
        create_v2(&widgets, "a").await.unwrap();
        let object = get(&widgets, "a").await.unwrap();
        assert_eq!(object.api_version(), Some("g.io/v1"));
        // Defaults are those of the version that it is stored in; the other one prunes what it does not know.
        assert_eq!(served(&widgets, "v1", "a").await, r#"{"n":1,"s":"stored"}"#);
        assert_eq!(served(&widgets, "v2", "a").await, r#"{"n":1}"#);
        let spec = widgets.spec().unwrap();
        let v2 = render::decode(&spec, spec.version("v2").unwrap(), &object).unwrap();
        assert_eq!(v2.get("apiVersion").unwrap().as_str(), Some("g.io/v2"));
        // An update through the other version that changes nothing there changes nothing.
        let before = object.revision();
        let mut same = |_: &kindom_objects::RuleContext<'_>, old: &Value| Ok(old.clone());
        let target = Target { version: "v2", ..at("a") };
        let written = widgets.update(target, true, &mut same, &options()).await.unwrap();
        assert_eq!(written.object.revision(), before);
    });
}

/// A rewrite stores what is served through the storage version, without waking the type, and only under the registration
/// in force.
#[test]
fn a_stored_object_is_written_anew_in_the_storage_version() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let old = get(&widgets, "a").await.unwrap();
        let both = with_defaults("s", "stored");
        let mut tree = two_versions(&schema(), &both, "None");
        let versions = tree.get_mut("spec").unwrap().get_mut("versions").unwrap().as_array_mut().unwrap();
        versions[0].as_object_mut().unwrap().insert("storage", false);
        versions[1].as_object_mut().unwrap().insert("storage", true);
        let stale = widgets.spec().unwrap();
        world.change(&widgets, &tree);
        widgets.sleep();
        let behind = ResourceHandle::new(world.deps.clone(), stale);
        assert_eq!(
            behind.rewrite_stored(&old, soon()).await,
            Ok(Rewritten::Current),
            "as it knows no better"
        );
        assert_eq!(widgets.rewrite_stored(&old, soon()).await, Ok(Rewritten::Current));
        assert!(!widgets.is_awake());
        let new = get(&widgets, "a").await.unwrap();
        assert_eq!(new.api_version(), Some("g.io/v2"));
        let tree = json::parse(new.json()).unwrap();
        assert_eq!(tree.get("spec").unwrap().to_string(), r#"{"s":"stored"}"#);
        assert_eq!(tree.at(&["metadata", "generation"]).unwrap().as_i64(), Some(1));
        assert_eq!(widgets.rewrite_stored(&new, soon()).await, Ok(Rewritten::Current));
        assert_eq!(get(&widgets, "a").await.unwrap().revision(), new.revision(), "once is enough");
        // It is not what it was any more; and who is behind can't bring it back.
        assert_eq!(widgets.rewrite_stored(&old, soon()).await, Ok(Rewritten::LookAgain));
        assert_eq!(behind.rewrite_stored(&new, soon()).await, Ok(Rewritten::LookAgain));
        for json in ["garbage", "{}", r#"{"apiVersion":"other.io/v1","metadata":{"uid":"u"}}"#] {
            let odd = StoredObject::new("ns/odd", json.into(), new.revision());
            let rewritten = widgets.rewrite_stored(&odd, soon()).await;
            assert!(matches!(rewritten, Ok(Rewritten::Undecodable(_))), "{rewritten:?}");
        }
    });
}

#[test]
fn a_conversion_by_webhook_stores_nothing() {
    run(|world| async move {
        let widgets = world.widgets();
        world.change(&widgets, &two_versions(&schema(), &schema(), "Webhook"));
        let refused = create_v2(&widgets, "a").await.err();
        assert!(matches!(refused, Some(WriteError::Plan(PlanError::Internal(_)))), "{refused:?}");
        assert!(world.history().await.is_empty());
        create(&widgets, widget("a", 1)).await.unwrap();
    });
}

#[test]
fn a_version_that_is_not_served_takes_no_writes() {
    run(|world| async move {
        let widgets = world.widgets();
        assert_eq!(create_v2(&widgets, "a").await.err(), Some(WriteError::Gone));
    });
}
