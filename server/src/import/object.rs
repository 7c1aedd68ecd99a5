//! An exported object as a new one, and the order in which objects are created. Pure.

use std::collections::{HashMap, HashSet};

use kindom_api::Value;

/// The fields that a server sets; an export holds those of its own server.
const SET_BY_SERVERS: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The most differing fields that are named.
const DIFFERENCES_MAX: usize = 3;

/// The object without the fields that a server sets, and without its status if that is written elsewhere.
pub(super) fn clean(mut object: Value, has_status_subresource: bool) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SET_BY_SERVERS.contains(&field));
    }
    if let Some(fields) = object.as_object_mut().filter(|_| has_status_subresource) {
        fields.remove("status");
    }
    object
}

/// The uid that an object has, or had where it came from.
pub(super) fn uid(object: &Value) -> &str {
    object.text_at(&["metadata", "uid"])
}

/// The references to its owners.
pub(super) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).unwrap_or_default().iter()
}

/// Replaces the uids in references to owners by the owners' new ones. References to owners that are neither imported nor on the
/// server are left out, as the garbage collector would delete the object.
pub(super) fn follow_owners(object: &mut Value, now: &HashMap<String, String>, there: &HashSet<String>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(references) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    references.retain(|reference| {
        let uid = reference.text_at(&["uid"]);
        now.contains_key(uid) && !uid.is_empty() || there.contains(uid)
    });
    if references.is_empty() {
        metadata.remove("ownerReferences");
        return;
    }
    for reference in references.iter_mut().filter_map(Value::as_object_mut) {
        let uid_before = reference.get("uid").and_then(Value::as_str).unwrap_or_default();
        // A reference without a uid must not match an object that had none in the file.
        if let Some(uid) = now.get(uid_before).filter(|_| !uid_before.is_empty()) {
            reference.insert("uid", uid.as_str());
        }
    }
}

/// The objects in waves, each in their order: an object that another one owns comes in a later wave. Owners that own each
/// other, and the objects that they own, come in the last one, in no useful order.
///
/// ```text
/// herd, ox of herd, calf of ox, dog  →  [herd, dog], [ox], [calf]
/// ```
pub(super) fn waves(objects: &[&Value]) -> Vec<Vec<usize>> {
    let by_uid: HashMap<&str, usize> = objects
        .iter()
        .enumerate()
        .map(|(i, object)| (uid(object), i))
        .filter(|(uid, _)| !uid.is_empty())
        .collect();
    let mut owned: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut waits_for: Vec<usize> = Vec::new();
    for (i, object) in objects.iter().enumerate() {
        let mut count = 0;
        for owner in owners(object).filter_map(|reference| by_uid.get(reference.text_at(&["uid"]))) {
            owned.entry(*owner).or_default().push(i);
            count += 1;
        }
        waits_for.push(count);
    }
    let mut wave: Vec<usize> =
        (0..).zip(&waits_for).filter(|(_, count)| **count == 0).map(|(i, _)| i).collect();
    let mut waves = Vec::new();
    let mut left = objects.len();
    while !wave.is_empty() {
        left -= wave.len();
        let mut next = Vec::new();
        for i in wave.iter().flat_map(|owner| owned.remove(owner).unwrap_or_default()) {
            if let Some(count) = waits_for.get_mut(i) {
                *count -= 1;
                if *count == 0 {
                    next.push(i);
                }
            }
        }
        next.sort_unstable();
        waves.push(std::mem::replace(&mut wave, next));
    }
    if left > 0 {
        waves.push((0..).zip(&waits_for).filter(|(_, count)| **count > 0).map(|(i, _)| i).collect());
    }
    waves
}

/// The first fields in which two objects differ: `spec.size, metadata.labels`.
pub(super) fn differences(one: &Value, other: &Value) -> String {
    let mut found = Vec::new();
    differing(one, other, "", &mut found);
    let more = found.len() > DIFFERENCES_MAX;
    found.truncate(DIFFERENCES_MAX);
    found.join(", ") + if more { ", …" } else { "" }
}

fn differing(one: &Value, other: &Value, path: &str, found: &mut Vec<String>) {
    let (Some(one_map), Some(other_map)) = (one.as_object(), other.as_object()) else {
        if one != other {
            found.push(path.to_owned());
        }
        return;
    };
    let mut keys: Vec<&str> = one_map.keys().chain(other_map.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys.into_iter().take_while(|_| found.len() <= DIFFERENCES_MAX).collect::<Vec<_>>() {
        let below = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let null = Value::Null;
        differing(one_map.get(key).unwrap_or(&null), other_map.get(key).unwrap_or(&null), &below, found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Value {
        kindom_api::json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_servers_set_is_left_out() {
        let object = json(
            r#"{"apiVersion":"g/v1","kind":"Ox","metadata":{"name":"bo","namespace":"a","labels":{"a":"b"},
                "uid":"u","resourceVersion":"7","creationTimestamp":null,"selfLink":"/x","generation":3,
                "managedFields":[{}],"deletionTimestamp":"t","deletionGracePeriodSeconds":0,"finalizers":["g/f"],
                "ownerReferences":[{"uid":"o"}]},"spec":{"uid":"kept"},"status":{"a":1}}"#,
        );
        let want = r#"{"apiVersion":"g/v1","kind":"Ox","metadata":{"finalizers":["g/f"],"labels":{"a":"b"},"name":"bo","namespace":"a","ownerReferences":[{"uid":"o"}]},"spec":{"uid":"kept"},"status":{"a":1}}"#;
        assert_eq!(clean(object.clone(), false).to_string(), want);
        assert_eq!(clean(object, true).to_string(), want.replace(r#","status":{"a":1}"#, ""));
    }

    fn owned(uid: &str, owners: &[&str]) -> Value {
        let owners: Vec<String> = owners.iter().map(|o| format!(r#"{{"uid":"{o}"}}"#)).collect();
        json(&format!(r#"{{"metadata":{{"uid":"{uid}","ownerReferences":[{}]}}}}"#, owners.join(",")))
    }

    #[test]
    fn owners_come_first() {
        let check = |objects: &[Value], want: &[&[usize]]| {
            assert_eq!(waves(&objects.iter().collect::<Vec<_>>()), want);
        };
        let calf = owned("calf", &["ox", "ox", "elsewhere"]);
        check(&[calf, owned("ox", &["herd"]), owned("herd", &[]), owned("dog", &[])], &[&[2, 3], &[1], &[0]]);
        check(
            &[owned("a", &["b"]), owned("b", &["a"]), owned("c", &["b"]), owned("d", &[])],
            &[&[3], &[0, 1, 2]],
        );
        check(&[owned("a", &["a"])], &[&[0]]);
        check(&[owned("", &[]), owned("", &[""])], &[&[0, 1]]);
        check(&[], &[]);
    }

    proptest! {
        #[test]
        fn everyone_comes_once_and_after_its_owners(
            owners in prop::collection::vec(prop::collection::vec(0_usize..12, 0..3), 0..12)
        ) {
            // Only earlier ones own, so that there is an order.
            let objects: Vec<Value> = owners
                .iter()
                .enumerate()
                .map(|(i, owners)| {
                    let owners: Vec<String> = owners.iter().filter(|o| **o < i).map(ToString::to_string).collect();
                    owned(&i.to_string(), &owners.iter().map(String::as_str).collect::<Vec<_>>())
                })
                .rev()
                .collect();
            let waves = waves(&objects.iter().collect::<Vec<_>>());
            let mut seen = Vec::new();
            for wave in waves {
                for &i in &wave {
                    for reference in super::owners(&objects[i]) {
                        prop_assert!(seen.contains(&reference.text_at(&["uid"]).to_owned()));
                    }
                }
                seen.extend(wave.iter().map(|&i| uid(&objects[i]).to_owned()));
            }
            prop_assert_eq!(seen.len(), objects.len());
        }
    }

    #[test]
    fn references_follow_their_owners() {
        let mut object = owned("calf", &["ox", "there", "elsewhere"]);
        let there = HashSet::from(["there".to_owned()]);
        follow_owners(&mut object, &HashMap::from([("ox".to_owned(), "new".to_owned())]), &there);
        assert_eq!(object, owned("calf", &["new", "there"]));
        let mut object = owned("calf", &[""]);
        follow_owners(&mut object, &HashMap::from([(String::new(), "new".to_owned())]), &there);
        assert_eq!(object, json(r#"{"metadata":{"uid":"calf"}}"#));
    }

    #[test]
    fn differences_are_named() {
        let check =
            |one: &str, other: &str, want: &str| assert_eq!(differences(&json(one), &json(other)), want);
        check(r#"{"a":{"b":1,"c":[1]}}"#, r#"{"a":{"b":2,"c":[1]},"d":{}}"#, "a.b, d");
        check(r#"{"a":1,"b":1,"c":1,"d":1,"e":1}"#, "{}", "a, b, c, …");
        check(r#"{"a":1}"#, r#"{"a":1}"#, "");
    }
}
