//! Properties of any applies and updates by any managers.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::Value;
use kindom_managed_fields::{ApplyError, Scope, apply, update};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::support::{T1, T2, Things, gvk, parse, scope, thing};

/// The path of a field, from the root: `f:spec`, `f:set`, `v:"a"`.
type Path = Vec<String>;

/// One write of an object.
#[derive(Debug, Clone)]
enum Write {
    Apply { manager: &'static str, spec: String, force: bool },
    Update { manager: &'static str, spec: String },
}

/// A JSON object of those members that are there.
fn members(parts: Vec<(&str, Option<String>)>) -> String {
    let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name:?}:{}", value?)));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["x", "y"]).prop_map(|text| format!("{text:?}"))
}

fn dict(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    (subsequence(keys.to_vec(), 0..=keys.len()), prop::collection::vec(text(), keys.len()))
        .prop_map(|(keys, values)| members(keys.into_iter().zip(values.into_iter().map(Some)).collect()))
}

/// An empty set or list by keys has no owner in an apply (as upstream has it), so none is generated.
fn list(least: usize) -> impl Strategy<Value = String> {
    subsequence(vec![r#""a""#, r#""b""#, r#""c""#], least..=3)
        .prop_shuffle()
        .prop_map(|items| format!("[{}]", items.join(",")))
}

fn ports() -> impl Strategy<Value = String> {
    let keys = vec![(80, "TCP"), (80, "UDP"), (81, "TCP")];
    let rest = prop::collection::vec((prop::option::of(text()), any::<bool>()), 3);
    (subsequence(keys, 1..=3).prop_shuffle(), rest).prop_map(|(keys, rest)| {
        let items = keys.into_iter().zip(rest).map(|((port, protocol), (name, said))| {
            // The default may be omitted.
            let protocol = (said || protocol != "TCP").then(|| format!("{protocol:?}"));
            members(vec![("port", Some(port.to_string())), ("protocol", protocol), ("name", name)])
        });
        format!("[{}]", items.collect::<Vec<_>>().join(","))
    })
}

fn spec() -> impl Strategy<Value = String> {
    use prop::option::of;
    (
        of((0..3_u8).prop_map(|count| count.to_string())),
        of(text()),
        of(dict(&["p", "q"])),
        of(dict(&["k", "l"])),
        of(dict(&["m", "n", "o/p"])),
        of(list(0)),
        of(list(1)),
        of(ports()),
    )
        .prop_map(|(replicas, text, any, atomic, labels, list, set, ports)| {
            members(vec![
                ("replicas", replicas),
                ("text", text),
                ("any", any),
                ("atomic", atomic),
                ("labels", labels),
                ("list", list),
                ("set", set),
                ("ports", ports),
            ])
        })
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (select(vec!["a", "b", "c"]), spec(), any::<bool>())
            .prop_map(|(manager, spec, force)| Write::Apply { manager, spec, force }),
        1 => (select(vec!["a", "u"]), spec()).prop_map(|(manager, spec)| Write::Update { manager, spec }),
    ]
}

fn array(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).unwrap_or_default()
}

/// The fields of an object, and all that is in them, by what the type `Things` says of them. Not by the crate's own walk.
fn fields(object: &Value) -> BTreeMap<Path, String> {
    let mut all = BTreeMap::new();
    let spec = object.get("spec").and_then(Value::as_object);
    for (name, value) in spec.into_iter().flat_map(|spec| spec.iter()) {
        let path = |rest: &[String]| {
            let mut path = vec!["f:spec".to_owned(), format!("f:{name}")];
            path.extend_from_slice(rest);
            path
        };
        match (name, value.as_object()) {
            ("any" | "labels", Some(entries)) => {
                all.insert(path(&[]), "{}".to_owned());
                for (key, value) in entries.iter() {
                    all.insert(path(&[format!("f:{key}")]), value.to_string());
                }
            }
            ("set", _) => {
                all.insert(path(&[]), "[]".to_owned());
                for item in array(Some(value)) {
                    all.insert(path(&[format!("v:{item}")]), item.to_string());
                }
            }
            ("ports", _) => {
                all.insert(path(&[]), "[]".to_owned());
                for item in array(Some(value)) {
                    let protocol =
                        item.get("protocol").map_or_else(|| r#""TCP""#.to_owned(), Value::to_string);
                    let key = format!(r#"k:{{"port":{},"protocol":{protocol}}}"#, item.get("port").unwrap());
                    all.insert(path(std::slice::from_ref(&key)), "{}".to_owned());
                    for (field, value) in item.as_object().unwrap().iter() {
                        all.insert(path(&[key.clone(), format!("f:{field}")]), value.to_string());
                    }
                }
            }
            _ => {
                all.insert(path(&[]), value.to_string());
            }
        }
    }
    all
}

/// The fields that end a branch: those that have none below them.
fn leaves(of: &BTreeMap<Path, String>) -> BTreeMap<Path, String> {
    let has_child = |path: &Path| of.keys().any(|other| other.len() > path.len() && other.starts_with(path));
    of.iter()
        .filter(|(path, _)| !has_child(path))
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect()
}

/// The owned fields, by manager and operation.
fn owners(object: &Value) -> BTreeMap<(String, String), BTreeSet<Path>> {
    let text = |entry: &Value, field| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut owners = BTreeMap::new();
    for entry in array(object.at(&["metadata", "managedFields"])) {
        let mut owned = BTreeSet::new();
        descend(&mut Vec::new(), entry.get("fieldsV1").unwrap(), &mut owned);
        let twice = owners.insert((text(entry, "manager"), text(entry, "operation")), owned);
        assert_eq!(twice, None, "two entries of one manager");
    }
    owners
}

fn descend(path: &mut Path, fields: &Value, owned: &mut BTreeSet<Path>) {
    let members = fields.as_object().unwrap();
    if members.is_empty() || members.contains_key(".") {
        owned.insert(path.clone());
    }
    for (key, inner) in members.iter().filter(|(key, _)| *key != ".") {
        path.push(key.to_owned());
        descend(path, inner, owned);
        path.pop();
    }
}

fn applier(manager: &str) -> (String, String) {
    (manager.to_owned(), "Apply".to_owned())
}

/// All but the names and places that every object has.
fn managed(paths: &BTreeSet<Path>) -> impl Iterator<Item = &Path> {
    paths.iter().filter(|path| path.len() > 1)
}

/// Does the writes and checks what holds after each.
fn judge(writes: &[Write]) {
    let (things, gvk) = (Things::new(), gvk());
    let at = |now: &'static str| -> Scope<'_> { scope(&things, &gvk, now) };
    let mut live: Option<Value> = None;
    for write in writes {
        let before = live.as_ref().map(fields).unwrap_or_default();
        let owned_before = live.as_ref().map(owners).unwrap_or_default();
        let after = match write {
            Write::Update { manager, spec } => {
                let mut new = thing(spec);
                if live.is_some() {
                    // As a client without knowledge of managedFields sends it.
                    let metadata = new.get_mut("metadata").unwrap().as_object_mut().unwrap();
                    metadata.insert("uid", "u");
                }
                assert_eq!(update(&at(T1), live.as_ref(), &mut new, manager), None);
                new
            }
            Write::Apply { manager, spec, force } => {
                let patch = thing(spec);
                let applied = apply(&at(T1), live.as_ref(), &patch, manager, *force);
                let after = match applied {
                    Ok(after) => after,
                    Err(ApplyError::Conflict { causes, .. }) => {
                        assert!(!force, "force knows no conflict");
                        assert!(!causes.is_empty());
                        continue;
                    }
                    Err(other) => panic!("{other}"),
                };
                // A map or list that loses its last member is null then, as upstream has it; validation refuses it.
                let spec = after.get("spec").and_then(Value::as_object);
                if spec.is_none_or(|spec| spec.values().any(Value::is_null)) {
                    continue;
                }
                // Again, later: nothing moves, not even a time.
                let again = apply(&at(T2), Some(&after), &patch, manager, *force);
                assert_eq!(again.as_ref().map(Value::to_string), Ok(after.to_string()), "applied twice");
                let (wanted, is) = (fields(&patch), fields(&after));
                let owned = owners(&after);
                let mine = owned.get(&applier(manager)).cloned().unwrap_or_default();
                for (path, value) in leaves(&wanted) {
                    let there = is.get(&path);
                    let is_empty = ["{}", "[]"].contains(&value.as_str());
                    assert!(
                        there == Some(&value) || (is_empty && there.is_some()),
                        "{path:?} is {there:?}, not {value}"
                    );
                    assert!(mine.contains(&path), "{manager} does not own {path:?}: {after}");
                }
                for (other, had) in owned_before.iter().filter(|(other, _)| **other != applier(manager)) {
                    let has = owned.get(other).cloned().unwrap_or_default();
                    for path in managed(had) {
                        let changed = wanted.contains_key(path) && wanted.get(path) != before.get(path);
                        if other.1 == "Apply" {
                            assert_eq!(
                                has.contains(path),
                                !(*force && changed),
                                "{other:?} and {path:?}: {after}"
                            );
                            let kept = is.get(path) == before.get(path);
                            assert!(
                                kept || changed || !leaves(&before).contains_key(path),
                                "{path:?} of {other:?}"
                            );
                        } else if !has.contains(path) {
                            // Fields that an update set inside an item are removed with the item.
                            assert!(changed || !is.contains_key(path), "{other:?} lost {path:?}: {after}");
                        }
                    }
                    assert!(has.is_subset(had), "{other:?} gained something");
                }
                after
            }
        };
        let is = fields(&after);
        for (owner, owned) in owners(&after) {
            assert!(!owned.is_empty());
            for path in managed(&owned) {
                assert!(is.contains_key(path), "{owner:?} owns {path:?}, which is not there: {after}");
            }
        }
        live = Some(after);
    }
}

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("KINDOM_TEST_FULL").is_some() { 10_000 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn applies_are_idempotent_and_ownership_adds_up(writes in prop::collection::vec(write(), 1..8)) {
        judge(&writes);
    }

    /// Entries that are written and read back are the same.
    #[test]
    fn entries_survive_their_text(writes in prop::collection::vec(write(), 1..4)) {
        let (things, gvk) = (Things::new(), gvk());
        let mut live: Option<Value> = None;
        for write in &writes {
            if let Write::Apply { manager, spec, .. } = write {
                live = Some(apply(&scope(&things, &gvk, T1), live.as_ref(), &thing(spec), manager, true).unwrap());
            }
        }
        if let Some(live) = live {
            let mut same = parse(&live.to_string());
            update(&scope(&things, &gvk, T2), Some(&live), &mut same, "nobody");
            prop_assert_eq!(same.to_string(), live.to_string());
        }
    }
}
