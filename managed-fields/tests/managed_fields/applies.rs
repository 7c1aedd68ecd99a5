//! The effect of applies on objects and their managedFields.

use kindom_api::Value;
use kindom_managed_fields::{ApplyError, apply, update};

use crate::support::{T1, T2, Things, gvk, managers, parse, scope, thing};

fn applied(live: Option<&Value>, spec: &str, manager: &str, force: bool) -> Result<Value, ApplyError> {
    let (things, gvk) = (Things::new(), gvk());
    apply(&scope(&things, &gvk, T1), live, &thing(spec), manager, force)
}

fn spec(object: &Value) -> String {
    object.get("spec").unwrap().to_string()
}

#[test]
fn what_is_not_said_again_goes_unless_others_have_it() {
    let one = applied(None, r#"{"replicas":1,"set":["a","b"],"labels":{"x":"1"}}"#, "one", false).unwrap();
    assert_eq!(
        managers(&one),
        [
            r#"one Apply @01 {"f:spec":{"f:labels":{"f:x":{}},"f:replicas":{},"f:set":{"v:\"a\"":{},"v:\"b\"":{}}}}"#
        ]
    );
    let two = applied(Some(&one), r#"{"set":["b","c"],"labels":{"y":"2"}}"#, "two", false).unwrap();
    assert_eq!(spec(&two), r#"{"labels":{"x":"1","y":"2"},"replicas":1,"set":["a","b","c"]}"#);
    let three = applied(Some(&two), r#"{"set":["d"]}"#, "one", false).unwrap();
    assert_eq!(spec(&three), r#"{"labels":{"y":"2"},"set":["b","c","d"]}"#);
    assert_eq!(
        managers(&three),
        [
            r#"one Apply @01 {"f:spec":{"f:set":{"v:\"d\"":{}}}}"#,
            r#"two Apply @01 {"f:spec":{"f:labels":{"f:y":{}},"f:set":{"v:\"b\"":{},"v:\"c\"":{}}}}"#,
        ]
    );
}

#[test]
fn conflicts_are_told_by_manager_and_field() {
    let (things, gvk) = (Things::new(), gvk());
    let one = applied(None, r#"{"replicas":1,"text":"x","ports":[{"port":80,"name":"a"}]}"#, "one", false);
    let one = one.unwrap();
    let mut two = one.clone();
    two.get_mut("spec").unwrap().as_object_mut().unwrap().insert("text", "y");
    update(&scope(&things, &gvk, T2), Some(&one), &mut two, "two");
    let refused =
        applied(Some(&two), r#"{"replicas":2,"text":"z","ports":[{"port":80,"name":"b"}]}"#, "three", false);
    let Err(ApplyError::Conflict { message, causes }) = refused else { panic!("{refused:?}") };
    assert_eq!(
        message,
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.replicas\n- .spec.ports[port=80,protocol=\"TCP\"].name\nconflicts with \"two\" using example.com/v1:\n- .spec.text"
    );
    assert_eq!(causes[2].message, "conflict with \"two\" using example.com/v1");
    assert_eq!(causes[2].field, ".spec.text");
    let refused = applied(Some(&two), r#"{"replicas":2}"#, "three", false).unwrap_err();
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    let forced = applied(Some(&two), r#"{"replicas":2,"text":"z"}"#, "three", true).unwrap();
    assert_eq!(managers(&forced)[1], r#"three Apply @01 {"f:spec":{"f:replicas":{},"f:text":{}}}"#);
    assert!(!managers(&forced).iter().any(|m| m.starts_with("two")), "{:?}", managers(&forced));
}

#[test]
fn a_configuration_must_be_of_the_type() {
    let refused = |patch: Value| {
        let (things, gvk) = (Things::new(), gvk());
        apply(&scope(&things, &gvk, T1), None, &patch, "m", false).unwrap_err()
    };
    let spec = |spec: &str| refused(thing(spec)).to_string();
    let typed = "failed to create typed patch object (n/a; example.com/v1, Kind=Thing): ";
    assert_eq!(spec(r#"{"more":1}"#), format!("{typed}.spec.more: field not declared in schema"));
    assert_eq!(
        spec(r#"{"replicas":"x","text":1}"#),
        format!(
            "{typed}errors:\n  .spec.replicas: expected numeric (int or float), got string\n  .spec.text: expected string, got &value.valueUnstructured{{Value:1}}"
        )
    );
    assert_eq!(spec(r#"{"set":["a","a"]}"#), format!("{typed}.spec.set: duplicate entries for key [=\"a\"]"));
    assert_eq!(
        spec(r#"{"ports":[{"name":"x"},{"port":1},5]}"#),
        format!("{typed}.spec.ports: element 2: associative list with keys may not have non-map elements")
    );
    assert_eq!(
        refused(parse(r#"{"apiVersion":"example.com/v2","kind":"Thing"}"#)),
        ApplyError::BadRequest("invalid object type: example.com/v2, Kind=Thing".into())
    );
    let mut managed = thing("{}");
    managed.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("managedFields", parse("[]"));
    assert_eq!(refused(managed), ApplyError::BadRequest("metadata.managedFields must be nil".into()));
}

#[test]
fn what_was_there_untracked_is_before_first_apply() {
    let live = thing(r#"{"replicas":1,"text":"x"}"#);
    let refused = applied(Some(&live), r#"{"replicas":2}"#, "m", false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using example.com/v1: .spec.replicas"
    );
    let same = applied(Some(&live), r#"{"replicas":1}"#, "m", false).unwrap();
    assert_eq!(
        managers(&same),
        [
            r#"m Apply @- {"f:spec":{"f:replicas":{}}}"#,
            r#"before-first-apply Update @01 {"f:spec":{".":{},"f:replicas":{},"f:text":{}}}"#,
        ]
    );
}

#[test]
fn kubectl_takes_over_what_kubectl_applied() {
    let (things, gvk) = (Things::new(), gvk());
    let last = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{},"name":"a"},"spec":{"replicas":1,"text":"x"}}"#;
    let mut live = thing(r#"{"replicas":1,"text":"changed"}"#);
    let annotations = kindom_api::object! { "kubectl.kubernetes.io/last-applied-configuration": last };
    live.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("annotations", annotations);
    update(&scope(&things, &gvk, T1), None, &mut live, "kubectl-client-side-apply");
    let taken = applied(Some(&live), r#"{"replicas":2}"#, "kubectl", false).unwrap();
    assert_eq!(
        taken.at(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]),
        Some(&Value::from(format!("{}\n", thing(r#"{"replicas":2}"#))))
    );
    let refused = applied(Some(&live), r#"{"replicas":2,"text":"y"}"#, "kubectl", false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using example.com/v1: .spec.text"
    );
    assert!(applied(Some(&live), r#"{"replicas":2}"#, "else", false).is_err());
}
