//! managedFields and FieldsV1 as clients send them, and what applies and updates make of them.

use kindom_api::names::GroupVersionKind;
use kindom_api::{Value, json};
use kindom_fuzz::{JsonMutants, Target};
use kindom_managed_fields::scale::{ReplicasPath, from_parent, to_parent};
use kindom_managed_fields::{ConvertError, Scope, Versions, apply, update};
use kindom_schema::Schema;
use kindom_schema::merge::MergeType;

use crate::seeds;

/// `example.com/v1`, by the schema of the seeds' registration.
struct Widgets(Schema);

impl Versions for Widgets {
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>> {
        (api_version == "example.com/v1").then(|| self.0.merge_type())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if api_version == "example.com/v1" { Ok(object.clone()) } else { Err(ConvertError::NoSuchVersion) }
    }

    fn reset_fields(&self, _: &str) -> &[&str] {
        &["status"]
    }
}

fn widgets() -> Widgets {
    let crd = json::parse(seeds::CRD.as_bytes()).unwrap();
    let versions = crd.at(&["spec", "versions"]).and_then(Value::as_array).unwrap();
    Widgets(Schema::compile(versions[0].at(&["schema", "openAPIV3Schema"]), false).unwrap())
}

fn scope<'a>(versions: &'a Widgets, gvk: &'a GroupVersionKind) -> Scope<'a> {
    Scope { versions, gvk, subresource: "", now: "2026-01-02T00:00:00Z" }
}

/// Elements of paths, as FieldsV1 writes them.
const WORDS: [&str; 20] = [
    ".",
    "f:spec",
    "f:ports",
    "f:set",
    "f:",
    "v:\"a\"",
    "v:1",
    "v:[1]",
    "v:{",
    "i:0",
    "i:-1",
    "i:99999999999",
    "k:{\"port\":80}",
    "k:{}",
    "k:[",
    "x:y",
    "FieldsV1",
    "Apply",
    "Update",
    "2026-01-01T00:00:00Z",
];

/// The entries of an object that was written with them are read again, and hold no more than the object has.
fn entries_are_sound(object: &Value) {
    let (versions, gvk) = (widgets_once(), GroupVersionKind::new("example.com", "v1", "Widget"));
    let mut same = object.clone();
    let why = update(&scope(versions, &gvk), Some(object), &mut same, "again");
    assert_eq!(why, None, "what was written is not read: {object}");
    assert_eq!(&same, object, "an update that changes nothing changes entries");
}

fn widgets_once() -> &'static Widgets {
    static WIDGETS: std::sync::LazyLock<Widgets> = std::sync::LazyLock::new(widgets);
    &WIDGETS
}

#[test]
fn updates() {
    widgets_once();
    let inputs =
        (JsonMutants::of([seeds::WIDGET]).words(&WORDS), JsonMutants::of([seeds::WIDGET]).words(&WORDS));
    Target::new("field-updates", 1500).rounds(300).run(inputs, |(live, new)| {
        let (Ok(live), Ok(mut new)) = (json::parse(live), json::parse(new)) else { return };
        if live.as_object().is_none() || new.as_object().is_none() {
            return;
        }
        let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
        let scope = scope(widgets_once(), &gvk);
        let mut created = new.clone();
        let created = update(&scope, None, &mut created, "one").is_none().then_some(created);
        if update(&scope, Some(&live), &mut new, "two").is_none()
            && new.at(&["metadata", "managedFields"]).is_some()
        {
            entries_are_sound(&new);
        }
        if let Some(created) = created.filter(|created| created.at(&["metadata", "managedFields"]).is_some())
        {
            entries_are_sound(&created);
        }
    });
}

#[test]
fn applies() {
    widgets_once();
    let patches = [
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"big","labels":{"x":"y"}},"spec":{"colour":"blue","set":["b","c"],"ports":[{"port":80,"protocol":"UDP","name":"n"}],"list":[1],"labels":{"z":"1"},"any":{"a":{}}}}"#,
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"big"},"spec":{}}"#,
    ];
    // Warm-up: memory that the first apply keeps for all is not charged to an input.
    let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
    for patch in patches {
        let patch = json::parse(patch.as_bytes()).unwrap();
        let applied = apply(&scope(widgets_once(), &gvk), None, &patch, "kubectl", true).unwrap();
        apply(&scope(widgets_once(), &gvk), Some(&applied), &patch, "other", true).unwrap();
    }
    let inputs = (JsonMutants::of([seeds::WIDGET]).words(&WORDS), JsonMutants::of(patches));
    Target::new("applies", 1500).rounds(300).run(inputs, |(live, patch)| {
        let (Ok(live), Ok(patch)) = (json::parse(live), json::parse(patch)) else { return };
        if live.as_object().is_none() || patch.as_object().is_none() {
            return;
        }
        let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
        let scope = scope(widgets_once(), &gvk);
        for live in [None, Some(&live)] {
            for (manager, force) in [("kubectl", true), ("other", false)] {
                let Ok(applied) = apply(&scope, live, &patch, manager, force) else { continue };
                // Where nobody manages anything, an apply first gives what is there to `before-first-apply`.
                if applied.at(&["metadata", "managedFields"]).is_none() {
                    continue;
                }
                let again = apply(&scope, Some(&applied), &patch, manager, force);
                assert_eq!(again.as_ref(), Ok(&applied), "applying again changes something");
            }
        }
    });
}

#[test]
fn fields_of_scales() {
    let inputs =
        JsonMutants::of([seeds::WIDGET]).words(&WORDS).words(&["f:replicas", "autoscaling/v1", "scale"]);
    Target::new("scale-fields", 1000).rounds(1000).run(inputs, |bytes| {
        let Ok(object) = json::parse(bytes) else { return };
        let list = object.at(&["metadata", "managedFields"]);
        let paths = [ReplicasPath { api_version: "example.com/v1", path: Some(&["spec", "size"]) }];
        let Ok(of_scale) = from_parent(list, &paths) else { return };
        let _ = to_parent(list, of_scale.as_ref(), "example.com/v1", &paths);
        let _ = to_parent(list, list, "example.com/v1", &paths);
    });
}
