//! The Scale of an object: the paths of its fields, their valid values, and the effect of a write to it on the object
//! (apiextensions `registry/customresource/{etcd,validator}.go`, 1.37; "Subresources for CustomResources").
//!
//! ```
//! use kindom_api::json::parse;
//! use kindom_schema::scale::ScalePaths;
//! let paths = ScalePaths::new(&parse(br#"{"specReplicasPath":".spec.size","statusReplicasPath":".status.ready"}"#)?);
//! let mut object = parse(br#"{"metadata":{"name":"a"},"spec":{"size":2},"status":{"ready":1}}"#)?;
//! let scale = paths.read(&object)?;
//! assert_eq!((scale.replicas, scale.status_replicas), (Some(2), 1));
//! paths.set_replicas(&mut object, 5)?;
//! assert_eq!(paths.read(&object)?.replicas, Some(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::selector::LabelSelector;
use kindom_api::{Map, Value, object};
use kindom_formats::go;

/// The replicas of a Scale whose object has none, while a write is applied to the Scale: no client sends this number, so
/// that validation refuses it if it is still there (`scaleUpdatedObjectInfo.UpdatedObject`).
pub const NO_REPLICAS: i32 = i32::MIN;

/// The paths of a Scale's fields in the objects of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    spec_replicas: FieldPath,
    status_replicas: Option<FieldPath>,
    selector: Option<FieldPath>,
    /// The selector is a LabelSelector, and not its text.
    selects_by_labels: bool,
    /// The selector is a map of labels, each of which has to be there; only with `selects_by_labels`.
    selects_by_map: bool,
}

/// A path of fields alone, as it is registered, and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldPath {
    text: String,
    fields: Vec<String>,
}

/// The Scale of an object, without the object's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// The desired number; `None` if the object has none.
    pub replicas: Option<i32>,
    /// The observed number.
    pub status_replicas: i32,
    /// The label selector of the counted objects; empty if the object has none.
    pub selector: String,
}

/// A field of the Scale is not of its type in the object, or out of reach; prints upstream's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessError(String);

/// The objects whose label selectors have to be valid.
#[derive(Debug, Clone, Copy)]
pub enum Selectors<'a> {
    /// Nobody's: upstream takes any string.
    Any,
    /// That of every object, unless it is as in the old one (S-24).
    Valid(Option<&'a Value>),
}

impl FieldPath {
    fn new(text: &str) -> Self {
        let fields = text.strip_prefix('.').unwrap_or(text).split('.').map(str::to_owned).collect();
        Self { text: text.to_owned(), fields }
    }

    /// `.spec.replicas` of the first fields, however it was registered.
    fn upto(&self, count: usize) -> String {
        let fields = self.fields.get(..count).unwrap_or(&self.fields);
        format!(".{}", fields.join("."))
    }

    /// `unstructured.NestedFieldNoCopy`
    fn get<'a>(&self, object: &'a Value) -> Result<Option<&'a Value>, AccessError> {
        let mut value = object;
        for (i, field) in self.fields.iter().enumerate() {
            match value {
                Value::Null => return Ok(None),
                Value::Object(map) => match map.get(field) {
                    Some(next) => value = next,
                    None => return Ok(None),
                },
                other => return Err(self.wrong(i + 1, other, "map[string]interface{}")),
            }
        }
        Ok(Some(value))
    }

    fn wrong(&self, fields: usize, found: &Value, expected: &str) -> AccessError {
        AccessError(format!(
            "{} accessor error: {} is of the type {}, expected {expected}",
            self.upto(fields),
            go::value(found),
            go::type_of(found)
        ))
    }

    fn integer(&self, object: &Value) -> Result<Option<i64>, AccessError> {
        match self.get(object)? {
            None => Ok(None),
            Some(Value::Int(n)) => Ok(Some(*n)),
            Some(other) => Err(self.wrong(self.fields.len(), other, "int64")),
        }
    }

    fn string<'a>(&self, object: &'a Value) -> Result<Option<&'a str>, AccessError> {
        match self.get(object)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(self.fields.len(), other, "string")),
        }
    }

    /// `unstructured.SetNestedField`
    fn set(&self, object: &mut Value, new: Value) -> Result<(), AccessError> {
        let Some((last, above)) = self.fields.split_last() else { return Ok(()) };
        let mut value = object;
        for (i, field) in above.iter().enumerate() {
            let Value::Object(map) = value else { return Err(self.no_map(i)) };
            value = map.entry_or_insert_with(field, || Map::new().into());
        }
        let Value::Object(map) = value else { return Err(self.no_map(above.len())) };
        map.insert(last.as_str(), new);
        Ok(())
    }

    fn no_map(&self, fields: usize) -> AccessError {
        let at = self.upto(fields);
        AccessError(format!("value cannot be set because {at} is not a map[string]interface{{}}"))
    }

    /// Checks the number of replicas at this path.
    fn validate_replicas(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::new(&self.text);
        let count = match self.integer(object) {
            Ok(count) => count.unwrap_or(0),
            Err(error) => return errors.push(Error::invalid(&path, 0, error.to_string())),
        };
        if count < 0 {
            errors.push(Error::invalid(&path, count, "should be a non-negative integer"));
        } else if count > i64::from(i32::MAX) {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(Error::invalid(&path, count, detail));
        }
    }
}

impl ScalePaths {
    /// The paths of a registered `scale`; validation has seen to its having the first. `statusReplicasPath` is absent
    /// only where the registration came in by the proposal's name (S-12).
    #[must_use]
    pub fn new(scale: &Value) -> Self {
        let path = |field: &str| {
            let text = scale.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(FieldPath::new)
        };
        Self {
            spec_replicas: path("specReplicasPath").unwrap_or_else(|| FieldPath::new(".spec.replicas")),
            status_replicas: path("statusReplicasPath"),
            selector: path("labelSelectorPath"),
            selects_by_labels: false,
            selects_by_map: false,
        }
    }

    /// Those of Kubernetes' own workloads.
    #[must_use]
    pub fn of_workload() -> Self {
        let path = |text| Some(FieldPath::new(text));
        Self {
            spec_replicas: FieldPath::new(".spec.replicas"),
            status_replicas: path(".status.replicas"),
            selector: path(".spec.selector"),
            selects_by_labels: true,
            selects_by_map: false,
        }
    }

    /// Those of a ReplicationController.
    #[must_use]
    pub fn of_controller() -> Self {
        Self { selects_by_map: true, ..Self::of_workload() }
    }

    /// The path of the one field that a Scale writes, as it is registered: `.spec.replicas`.
    #[must_use]
    pub fn spec_replicas_path(&self) -> &str {
        &self.spec_replicas.text
    }

    /// The fields of that path: `spec`, `replicas`.
    #[must_use]
    pub fn spec_replicas_fields(&self) -> &[String] {
        &self.spec_replicas.fields
    }

    /// `true` if the type says how many there are.
    #[must_use]
    pub fn has_status_replicas(&self) -> bool {
        self.status_replicas.is_some()
    }

    /// The Scale of an object. Numbers beyond 32 bits are cut, as Go does.
    ///
    /// # Errors
    /// A field that is not of its type.
    pub fn read(&self, object: &Value) -> Result<Scale, AccessError> {
        let replicas = self.spec_replicas.integer(object)?.map(low_bits);
        let status_replicas = match &self.status_replicas {
            Some(path) => path.integer(object)?.map_or(0, low_bits),
            None => 0,
        };
        let selector = match &self.selector {
            Some(path) if self.selects_by_labels => {
                let labels = |of: &Value| object! { "matchLabels": of.clone() };
                let selector = path.get(object)?.filter(|selector| !selector.is_null());
                let selector = selector.and_then(|selector| match self.selects_by_map {
                    true => LabelSelector::of_object(&labels(selector)).ok(),
                    false => LabelSelector::of_object(selector).ok(),
                });
                selector.map(|selector| selector.to_string()).unwrap_or_default()
            }
            Some(path) => path.string(object)?.unwrap_or_default().to_owned(),
            None => String::new(),
        };
        Ok(Scale { replicas, status_replicas, selector })
    }

    /// Writes a number of replicas where the object has it.
    ///
    /// # Errors
    /// Where something else than a map is on the way.
    pub fn set_replicas(&self, object: &mut Value, replicas: i32) -> Result<(), AccessError> {
        self.spec_replicas.set(object, replicas.into())
    }

    /// The errors in an object's number of replicas (`ValidateScaleSpec`, S-22). A missing number is an error only when the
    /// Scale is read.
    #[must_use]
    pub fn validate_spec(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        self.spec_replicas.validate_replicas(object, &mut errors);
        errors
    }

    /// The errors in the other fields (`ValidateScaleStatus`, S-23, S-24).
    #[must_use]
    pub fn validate_status(&self, object: &Value, selectors: Selectors<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(path) = &self.status_replicas {
            path.validate_replicas(object, &mut errors);
        }
        let Some(path) = self.selector.as_ref().filter(|_| !self.selects_by_labels) else { return errors };
        let at = Path::new(&path.text);
        match (path.string(object), selectors) {
            (Err(error), _) => errors.push(Error::invalid(&at, "", error.to_string())),
            (Ok(Some(text)), Selectors::Valid(old)) => {
                let unchanged = old.is_some_and(|old| path.string(old) == Ok(Some(text)));
                if let Err(why) = LabelSelector::parse(text)
                    && !unchanged
                {
                    errors.push(Error::invalid(&at, text, why));
                }
            }
            (Ok(_), _) => {}
        }
        errors
    }
}

impl Scale {
    /// `autoscaling/v1` Scale of an object with this metadata.
    #[must_use]
    pub fn to_value(&self, metadata: Option<&Value>) -> Value {
        let mut of_scale = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = metadata.and_then(|m| m.get(field)) {
                of_scale.insert(field, value.clone());
            }
        }
        let (mut spec, mut status) = (Map::new(), Map::new());
        if let Some(replicas) = self.replicas.filter(|n| *n != 0) {
            spec.insert("replicas", replicas);
        }
        status.insert("replicas", self.status_replicas);
        if !self.selector.is_empty() {
            status.insert("selector", self.selector.as_str());
        }
        object! {
            "apiVersion": kindom_api::scale::API_VERSION,
            "kind": kindom_api::scale::KIND,
            "metadata": of_scale,
            "spec": spec,
            "status": status,
        }
    }
}

/// Go's conversion of an `int64` to an `int32`.
fn low_bits(n: i64) -> i32 {
    let [a, b, c, d, ..] = n.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;
    use proptest::prelude::*;

    use super::*;

    fn paths(json: &str) -> ScalePaths {
        ScalePaths::new(&parse(json.as_bytes()).unwrap())
    }

    fn usual() -> ScalePaths {
        paths(
            r#"{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}"#,
        )
    }

    fn read(object: &str) -> String {
        match usual().read(&parse(object.as_bytes()).unwrap()) {
            Ok(Scale { replicas, status_replicas, selector }) => {
                format!("{replicas:?} {status_replicas} {selector}")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn fields_are_read_where_the_paths_say() {
        assert_eq!(read("{}"), "None 0 ");
        assert_eq!(
            read(r#"{"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}}"#),
            "Some(3) 2 a=b"
        );
        assert_eq!(read(r#"{"spec":null,"status":null}"#), "None 0 ");
        assert_eq!(
            read(r#"{"spec":{"replicas":4294967299},"status":{"replicas":2147483648}}"#),
            "Some(3) -2147483648 "
        );
        assert_eq!(
            read(r#"{"spec":{"replicas":"3"}}"#),
            ".spec.replicas accessor error: 3 is of the type string, expected int64"
        );
        assert_eq!(
            read(r#"{"spec":{"replicas":null}}"#),
            ".spec.replicas accessor error: <nil> is of the type <nil>, expected int64"
        );
        assert_eq!(
            read(r#"{"spec":["a",{"b":1}]}"#),
            ".spec.replicas accessor error: [a map[b:1]] is of the type []interface {}, expected map[string]interface{}"
        );
        assert_eq!(
            read(r#"{"spec":{},"status":{"selector":{"matchLabels":{"a":"b"}}}}"#),
            ".status.selector accessor error: map[matchLabels:map[a:b]] is of the type map[string]interface {}, expected string"
        );
    }

    #[test]
    fn optional_paths_are_not_looked_at() {
        let paths = paths(r#"{"specReplicasPath":".spec.a.b"}"#);
        let object = parse(br#"{"spec":{"a":{"b":1}},"status":{"replicas":"x","selector":5}}"#).unwrap();
        assert_eq!(
            paths.read(&object),
            Ok(Scale { replicas: Some(1), status_replicas: 0, selector: String::new() })
        );
        assert!(paths.validate_status(&object, Selectors::Valid(None)).is_empty());
        assert!(!paths.has_status_replicas());
    }

    #[test]
    fn a_write_makes_the_maps_on_its_way() {
        let paths = paths(r#"{"specReplicasPath":".spec.a.b"}"#);
        let set = |object: &str| {
            let mut object = parse(object.as_bytes()).unwrap();
            paths.set_replicas(&mut object, 7).map(|()| object.to_string()).unwrap_or_else(|e| e.to_string())
        };
        assert_eq!(set("{}"), r#"{"spec":{"a":{"b":7}}}"#);
        assert_eq!(set(r#"{"spec":{"a":{"b":"x","c":1}}}"#), r#"{"spec":{"a":{"b":7,"c":1}}}"#);
        assert_eq!(
            set(r#"{"spec":null}"#),
            "value cannot be set because .spec is not a map[string]interface{}"
        );
        assert_eq!(
            set(r#"{"spec":{"a":3}}"#),
            "value cannot be set because .spec.a is not a map[string]interface{}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_by_path() {
        let check = |object: &str, want: &[&str]| {
            let object = parse(object.as_bytes()).unwrap();
            let mut errors = usual().validate_spec(&object);
            errors.extend(usual().validate_status(&object, Selectors::Any));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        };
        check("{}", &[]);
        check(r#"{"spec":{"replicas":0},"status":{"replicas":2147483647,"selector":"not (one"}}"#, &[]);
        check(
            r#"{"spec":{"replicas":-1},"status":{"replicas":2147483648,"selector":3}}"#,
            &[
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 3 is of the type int64, expected string",
            ],
        );
        check(
            r#"{"spec":{"replicas":1.5}}"#,
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64",
            ],
        );
    }

    #[test]
    fn a_selector_has_to_be_one_where_that_is_asked_unless_it_was_none_before() {
        let object = |selector: &str| object! { "status": object! { "selector": selector } };
        let check = |new: &Value, old: Option<&Value>| {
            usual()
                .validate_status(new, Selectors::Valid(old))
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let (good, bad) = (object("a=b,c in (d)"), object("a in b"));
        assert!(check(&good, None).is_empty());
        assert!(check(&object(""), None).is_empty());
        let wrong = check(&bad, None);
        assert!(
            wrong.iter().all(|e| e.starts_with(".status.selector: Invalid value: \"a in b\": ")),
            "{wrong:?}"
        );
        assert_eq!(wrong.len(), 1);
        assert_eq!(check(&bad, Some(&good)), wrong);
        assert!(check(&bad, Some(&bad)).is_empty());
    }

    #[test]
    fn a_scale_leaves_zero_out_as_go_does() {
        let scale = Scale { replicas: Some(0), status_replicas: 0, selector: String::new() };
        let metadata = parse(br#"{"name":"a","uid":"u","labels":{"x":"y"},"generation":3}"#).unwrap();
        assert_eq!(
            scale.to_value(Some(&metadata)).to_string(),
            r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","uid":"u"},"spec":{},"status":{"replicas":0}}"#
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            "[a-c ]{0,3}".prop_map(Value::String),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("(spec|status|replicas|selector|x)", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever the object is: a write changes the value at its path and nothing else, and is read again.
        #[test]
        fn a_write_changes_its_path_and_nothing_else(mut object in any_value(), replicas in any::<i32>()) {
            let paths = paths(r#"{"specReplicasPath":".spec.x.replicas","labelSelectorPath":".spec.selector"}"#);
            let before = object.clone();
            let _ = (paths.read(&object), paths.validate_spec(&object), paths.validate_status(&object, Selectors::Valid(None)));
            if paths.set_replicas(&mut object, replicas).is_ok() {
                prop_assert_eq!(paths.spec_replicas.integer(&object), Ok(Some(i64::from(replicas))));
                // Removing it again, with the maps that it made, gives the former object.
                match paths.spec_replicas.get(&before).unwrap() {
                    Some(old) => paths.spec_replicas.set(&mut object, old.clone()).unwrap(),
                    None => {
                        let mut path = vec!["spec", "x", "replicas"];
                        while let Some(field) = path.pop() {
                            let parent = path.iter().try_fold(&mut object, |v, f| v.get_mut(f)).unwrap();
                            parent.as_object_mut().unwrap().remove(field);
                            if before.at(&path).is_some() {
                                break;
                            }
                        }
                    }
                }
                prop_assert_eq!(object, before);
            }
        }
    }
}
