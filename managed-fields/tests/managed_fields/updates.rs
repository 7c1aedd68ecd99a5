//! The effect of creates and updates on managedFields.

use kindom_managed_fields::{Scope, keep_times, update};

use crate::support::{T1, T2, Things, gvk, managers, parse, scope, thing};

#[test]
fn a_create_owns_all_that_it_says() {
    let (things, gvk) = (Things::new(), gvk());
    let mut new =
        thing(r#"{"replicas":1,"set":["a"],"ports":[{"port":80}],"any":{"x":{"y":1}},"atomic":{"k":"v"}}"#);
    assert_eq!(update(&scope(&things, &gvk, T1), None, &mut new, "me"), None);
    assert_eq!(
        managers(&new),
        [
            r#"me Update @01 {"f:spec":{".":{},"f:any":{".":{},"f:x":{".":{},"f:y":{}}},"f:atomic":{},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:replicas":{},"f:set":{".":{},"v:\"a\"":{}}}}"#
        ]
    );
}

#[test]
fn an_update_takes_what_it_changes() {
    let (things, gvk) = (Things::new(), gvk());
    let mut live = thing(r#"{"replicas":1,"text":"x"}"#);
    update(&scope(&things, &gvk, T1), None, &mut live, "a");
    let mut new = thing(r#"{"replicas":2,"text":"x","set":["q"]}"#);
    update(&scope(&things, &gvk, T2), Some(&live), &mut new, "b");
    assert_eq!(
        managers(&new),
        [
            r#"a Update @01 {"f:spec":{".":{},"f:text":{}}}"#,
            r#"b Update @02 {"f:spec":{"f:replicas":{},"f:set":{".":{},"v:\"q\"":{}}}}"#,
        ]
    );
    // A removed field has no manager.
    let mut less = thing(r#"{"replicas":2}"#);
    update(&scope(&things, &gvk, T2), Some(&new), &mut less, "c");
    assert_eq!(
        managers(&less),
        [r#"a Update @01 {"f:spec":{}}"#, r#"b Update @02 {"f:spec":{"f:replicas":{}}}"#]
    );
}

#[test]
fn what_a_write_may_not_set_is_not_its_own() {
    let (things, gvk) = (Things::resetting(&["status"]), gvk());
    let mut new = thing("{}");
    new.as_object_mut().unwrap().insert("status", parse(r#"{"phase":"x"}"#));
    update(&scope(&things, &gvk, T1), None, &mut new, "me");
    assert_eq!(managers(&new), [r#"me Update @01 {"f:spec":{}}"#]);
}

#[test]
fn entries_can_be_given_forgotten_and_not_lost() {
    let (things, gvk) = (Things::new(), gvk());
    let scope = scope(&things, &gvk, T2);
    let mut live = thing(r#"{"replicas":1}"#);
    update(&scope, None, &mut live, "me");
    let with = |entries: &str| {
        let mut new = thing(r#"{"replicas":1}"#);
        new.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("managedFields", parse(entries));
        update(&scope, Some(&live), &mut new, "other");
        managers(&new)
    };
    assert_eq!(with("[]"), [""; 0]);
    assert_eq!(with("[{}]"), [""; 0]);
    assert_eq!(with(r#"[{"operation":"x"}]"#), managers(&live));
    assert_eq!(
        with(
            r#"[{"manager":"m","operation":"Apply","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#
        ),
        [r#"m Apply @- {"f:spec":{"f:replicas":{}}}"#]
    );
    // Through a subresource nobody changes them.
    let mut new = thing(r#"{"replicas":1}"#);
    new.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("managedFields", parse("[{}]"));
    update(&Scope { subresource: "status", ..scope }, Some(&live), &mut new, "other");
    assert_eq!(managers(&new), managers(&live));
    // An object that was never tracked stays so.
    let mut new = thing(r#"{"replicas":2}"#);
    update(&scope, Some(&thing(r#"{"replicas":1}"#)), &mut new, "other");
    assert_eq!(managers(&new), [""; 0]);
}

#[test]
fn an_object_that_is_not_of_its_type_keeps_its_entries() {
    let (things, gvk) = (Things::new(), gvk());
    let scope = scope(&things, &gvk, T1);
    let mut live = thing(r#"{"replicas":1}"#);
    update(&scope, None, &mut live, "me");
    let mut new = thing(r#"{"replicas":"x","more":1}"#);
    let why = update(&scope, Some(&live), &mut new, "other").unwrap();
    assert_eq!(
        why,
        "failed to convert new object (n/a; example.com/v1, Kind=Thing) to smd typed: .spec.more: field not declared in schema"
    );
    assert_eq!(managers(&new), managers(&live));
}

#[test]
fn no_more_than_ten_updaters_are_kept() {
    let (things, gvk) = (Things::new(), gvk());
    let mut live = thing("{}");
    for i in 0..13 {
        let now = format!("2026-01-{:02}T00:00:00Z", i + 1);
        let mut labels: Vec<String> = (0..=i).map(|i| format!("\"l{i:02}\":\"x\"")).collect();
        labels.sort();
        let mut new = thing(&format!("{{\"labels\":{{{}}}}}", labels.join(",")));
        let before = (i > 0).then_some(&live);
        update(&scope(&things, &gvk, &now), before, &mut new, &format!("m{i:02}"));
        live = new;
    }
    let all = managers(&live);
    assert_eq!(all.len(), 10, "{all:#?}");
    assert_eq!(
        all[0],
        r#"ancient-changes Update @04 {"f:spec":{".":{},"f:labels":{".":{},"f:l00":{},"f:l01":{},"f:l02":{},"f:l03":{}}}}"#
    );
    assert_eq!(all[9], r#"m12 Update @13 {"f:spec":{"f:labels":{"f:l12":{}}}}"#);
}

#[test]
fn times_alone_are_no_change() {
    let (things, gvk) = (Things::new(), gvk());
    let mut live = thing(r#"{"replicas":1}"#);
    update(&scope(&things, &gvk, T1), None, &mut live, "me");
    let list = live.at(&["metadata", "managedFields"]).unwrap().to_string();
    let mut new = live.clone();
    let later = parse(&list.replace(T1, T2));
    new.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("managedFields", later.clone());
    let mut changed = new.clone();
    keep_times(&mut new, &live);
    assert_eq!(new, live);
    changed.get_mut("spec").unwrap().as_object_mut().unwrap().insert("replicas", 2);
    keep_times(&mut changed, &live);
    assert_eq!(changed.at(&["metadata", "managedFields"]), Some(&later));
}
