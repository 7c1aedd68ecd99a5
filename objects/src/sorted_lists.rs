//! Lists whose order means nothing, stored in an order that anybody can predict (B-30): a registration names them in
//! [`SORTED_LISTS_ANNOTATION`], and its objects' writes sort them.

use std::cmp::Ordering;

use kindom_api::Value;

use crate::stored_registration::StoredRegistration;

/// The annotation of a registration that names the lists that are stored sorted: `.spec.hosts,.spec.ports`.
pub const SORTED_LISTS_ANNOTATION: &str = "kindom.dev/sorted-lists";

/// The most lists of a type that are stored sorted.
const LISTS_MAX: usize = 64;

/// The lists of a type's objects that are stored sorted.
///
/// A set is sorted by its items, a list by keys by the values of these keys: null before booleans, numbers, strings (by
/// their bytes), lists and maps (by their JSON). A value that is no longer a list stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SortedLists(Vec<SortedList>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct SortedList {
    /// The fields that lead to it.
    path: Vec<String>,
    /// The keys of a list by keys; empty for a set.
    keys: Vec<String>,
}

/// The schema's description of the field that a path leads to.
enum Field {
    Absent,
    Unordered { keys: Vec<String> },
    Ordered,
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn field(version: &Value, path: &[String]) -> Field {
    let root = version.at(&["schema", "openAPIV3Schema"]);
    let schema = path.iter().try_fold(root, |schema, field| Some(schema?.get("properties")?.get(field)));
    let Some(Some(schema)) = schema else { return Field::Absent };
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Field::Unordered { keys: Vec::new() },
        Some("map") => Field::Unordered { keys: texts(schema.get("x-kubernetes-list-map-keys")) },
        _ => Field::Ordered,
    }
}

/// The fields of `.spec.hosts`; none if it is no path.
fn path(listed: &str) -> Option<Vec<String>> {
    let path: Vec<String> = listed.strip_prefix('.')?.split('.').map(str::to_owned).collect();
    let is_name = |name: &String| !name.is_empty() && !name.contains(['[', ']', '*', '\'', '"', '\\', ' ']);
    path.iter().all(is_name).then_some(path)
}

fn storage_version(registration: StoredRegistration<'_>) -> Option<&Value> {
    registration.versions().get(registration.storage_version()?)
}

impl SortedLists {
    /// The lists that a registration's annotation names. Paths that the storage version's schema does not know as lists
    /// without an order, although it did when they were set, are left out.
    #[must_use]
    pub fn of(registration: StoredRegistration<'_>) -> Self {
        let annotation = registration.annotation(SORTED_LISTS_ANNOTATION);
        let (Some(annotation), Some(version)) = (annotation, storage_version(registration)) else {
            return Self::default();
        };
        let list = |path: Vec<String>| match field(version, &path) {
            Field::Unordered { keys } => Some(SortedList { path, keys }),
            Field::Absent | Field::Ordered => None,
        };
        Self(annotation.split(',').filter_map(|text| path(text.trim())).filter_map(list).collect())
    }

    /// The error in an annotation's value for a registration; `None` if it is valid.
    #[must_use]
    pub fn check(listed: &str, registration: StoredRegistration<'_>) -> Option<String> {
        let Some(storage) = storage_version(registration) else {
            // The validation of spec.versions reports that.
            return None;
        };
        let name =
            |version: &Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut known: Vec<Vec<String>> = Vec::new();
        if listed.split(',').count() > LISTS_MAX {
            return Some(format!("must be at most {LISTS_MAX} paths"));
        }
        for listed in listed.split(',').map(str::trim) {
            let Some(path) = path(listed) else {
                return Some(format!(
                    "must be paths of fields, such as .spec.hosts,.spec.ports; {listed:?} is not one"
                ));
            };
            if known.contains(&path) {
                return Some(format!("{listed} stands twice"));
            }
            let no_order = "of x-kubernetes-list-type set or map";
            if !matches!(field(storage, &path), Field::Unordered { .. }) {
                return Some(format!(
                    "{listed} is no list {no_order} in the storage version {}",
                    name(storage)
                ));
            }
            let ordered = |version: &&Value| matches!(field(version, &path), Field::Ordered);
            if let Some(version) = registration.versions().iter().find(ordered) {
                return Some(format!("{listed} is not {no_order} in version {}", name(version)));
            }
            known.push(path);
        }
        None
    }

    /// Returns true if no list is stored sorted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sorts them in an object of any version.
    pub fn sort(&self, object: &mut Value) {
        for list in &self.0 {
            let mut at = Some(&mut *object);
            for field in &list.path {
                at = at.and_then(|value| value.get_mut(field));
            }
            let Some(items) = at.and_then(Value::as_array_mut) else { continue };
            match list.keys.as_slice() {
                [] => items.sort_by(order),
                keys => items.sort_by(|a, b| {
                    let each = keys
                        .iter()
                        .map(|key| order(a.get(key).unwrap_or(&NULL), b.get(key).unwrap_or(&NULL)));
                    each.fold(Ordering::Equal, Ordering::then)
                }),
            }
        }
    }
}

const NULL: Value = Value::Null;

fn order(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Float(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let by_value = a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default());
            // A whole number that a float cannot hold is as large as its neighbours.
            by_value.then_with(|| a.as_i64().cmp(&b.as_i64()))
        }
        (a, b) if rank(a) == rank(b) => a.to_vec().cmp(&b.to_vec()),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::Value;
    use kindom_api::json::parse;
    use proptest::prelude::*;

    use super::SortedLists;
    use crate::StoredRegistration;

    const LISTS: &str = r#""set":{"type":"array","x-kubernetes-list-type":"set"},
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"]},
        "atomic":{"type":"array","x-kubernetes-list-type":"atomic"},"plain":{"type":"array"}"#;

    fn registration(listed: &str, v2: &str) -> Value {
        let version = |name: &str, storage: bool, lists: &str| {
            format!(
                r#"{{"name":"{name}","storage":{storage},"schema":{{"openAPIV3Schema":{{"properties":{{"spec":{{"properties":{{{lists}}}}}}}}}}}}}"#
            )
        };
        let text = format!(
            r#"{{"metadata":{{"annotations":{{"kindom.dev/sorted-lists":"{listed}"}}}},"spec":{{"versions":[{},{}]}}}}"#,
            version("v1", true, LISTS),
            version("v2", false, v2)
        );
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn sets_are_sorted_by_items_and_lists_by_their_keys() {
        let lists = SortedLists::of(StoredRegistration::new(&registration(
            ".spec.set, .spec.map,.spec.plain,.spec.none,x",
            "",
        )));
        let mut object = parse(
            br#"{"spec":{"set":["b","\u00e4","a",10,9.5,true,null,{"x":1},[2],[1]],
                "map":[{"b":1,"c":0},{"a":"x","b":2},{"a":"x","b":1}],"plain":[2,1]}}"#,
        )
        .unwrap();
        lists.sort(&mut object);
        assert_eq!(
            object.to_string(),
            "{\"spec\":{\"map\":[{\"b\":1,\"c\":0},{\"a\":\"x\",\"b\":1},{\"a\":\"x\",\"b\":2}],\"plain\":[2,1],\
             \"set\":[null,true,9.5,10,\"a\",\"b\",\"\u{e4}\",[1],[2],{\"x\":1}]}}"
        );
        let mut other = parse(br#"{"spec":{"set":"b,a"}}"#).unwrap();
        lists.sort(&mut other);
        assert_eq!(other.to_string(), r#"{"spec":{"set":"b,a"}}"#);
    }

    #[test]
    fn an_annotation_that_does_not_fit_says_why() {
        let check = |listed: &str, want: Option<&str>| {
            assert_eq!(
                SortedLists::check(listed, StoredRegistration::new(&registration("", ""))).as_deref(),
                want,
                "{listed}"
            );
        };
        check(".spec.set", None);
        check(".spec.set, .spec.map", None);
        check(&[".spec.set"; 65].join(","), Some("must be at most 64 paths"));
        check("", Some("must be paths of fields, such as .spec.hosts,.spec.ports; \"\" is not one"));
        check(
            "spec.set",
            Some("must be paths of fields, such as .spec.hosts,.spec.ports; \"spec.set\" is not one"),
        );
        check(
            ".spec.set[0]",
            Some("must be paths of fields, such as .spec.hosts,.spec.ports; \".spec.set[0]\" is not one"),
        );
        check(".spec.set,.spec.set", Some(".spec.set stands twice"));
        for (listed, path) in
            [(".spec.plain", ".spec.plain"), (".spec.set,.spec.none", ".spec.none"), (".spec", ".spec")]
        {
            let why =
                format!("{path} is no list of x-kubernetes-list-type set or map in the storage version v1");
            check(listed, Some(&why));
        }
        let elsewhere = registration("", r#""set":{"type":"array"}"#);
        assert_eq!(
            SortedLists::check(".spec.set", StoredRegistration::new(&elsewhere)).as_deref(),
            Some(".spec.set is not of x-kubernetes-list-type set or map in version v2")
        );
    }

    proptest! {
        /// Whatever order a list comes in, one form is stored.
        #[test]
        fn one_form_comes_of_every_order(
            (items, shuffled) in proptest::collection::vec(prop_oneof![
                any::<i64>().prop_map(Value::Int),
                (-1e9..1e9).prop_map(Value::Float),
                "[ab]{0,3}".prop_map(Value::String),
                any::<bool>().prop_map(Value::Bool),
                (0..3_i64, 0..3_i64).prop_map(|(a, b)| kindom_api::object! { "a": a, "b": b }),
            ], 0..12)
            .prop_flat_map(|items| (Just(items.clone()), Just(items).prop_shuffle())),
        ) {
            let lists = SortedLists::of(StoredRegistration::new(&registration(".spec.set", "")));
            let sorted = |items: Vec<Value>| {
                let mut object = kindom_api::object! { "spec": kindom_api::object! { "set": items } };
                lists.sort(&mut object);
                object
            };
            let one = sorted(items);
            prop_assert_eq!(&sorted(shuffled), &one);
            let mut again = one.clone();
            lists.sort(&mut again);
            prop_assert_eq!(again, one);
        }
    }
}
