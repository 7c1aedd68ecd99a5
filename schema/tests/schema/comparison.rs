//! Our merge types held against those that upstream makes for apply.

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType, Scalar};

/// Holds our types against upstream's, and collects where they differ.
pub(crate) struct Comparison<'e> {
    /// Upstream's named types.
    types: &'e Value,
    /// The types that have been compared: they are the same wherever they stand.
    pub(crate) seen: BTreeSet<&'e str>,
    pub(crate) differences: Vec<String>,
}

impl<'e> Comparison<'e> {
    pub(crate) fn new(types: &'e Value) -> Self {
        Self { types, seen: BTreeSet::new(), differences: Vec::new() }
    }

    fn equal(&mut self, at: &str, what: &str, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        if ours != theirs {
            self.differences.push(format!("{at}: {what} is {ours}, not {theirs}"));
        }
    }

    pub(crate) fn compare(&mut self, at: &str, ours: MergeType<'_>, theirs: &'e Value) {
        let named = theirs.get("named").and_then(Value::as_str);
        // A field may say otherwise of its map than the type that it names, whose fields are compared where nothing is said.
        if let Some(relation) = theirs.get("relation").and_then(Value::as_str).filter(|_| named.is_some()) {
            let is_atomic = ours.map().is_some_and(MapType::is_atomic);
            return self.equal(at, "atomic", is_atomic, relation == "atomic");
        }
        let theirs = match named {
            Some(name) if !self.seen.insert(name) => return,
            Some(name) => self.types.get(name).unwrap(),
            None => theirs,
        };
        let scalar = match ours.scalar() {
            Some(Scalar::Numeric) => "numeric",
            Some(Scalar::String) => "string",
            Some(Scalar::Boolean) => "boolean",
            Some(Scalar::Untyped) => "untyped",
            None => "",
        };
        self.equal(at, "scalar", scalar, theirs.get("scalar").and_then(Value::as_str).unwrap_or_default());
        match (ours.list(), theirs.get("list")) {
            (Some(ours), Some(theirs)) => self.list(at, ours, theirs),
            (ours, theirs) => self.equal(at, "list", ours.is_some(), theirs.is_some()),
        }
        match (ours.map(), theirs.get("map")) {
            (Some(ours), Some(theirs)) => self.map(at, ours, theirs),
            (ours, theirs) => self.equal(at, "map", ours.is_some(), theirs.is_some()),
        }
    }

    fn list(&mut self, at: &str, ours: ListType<'_>, theirs: &'e Value) {
        let keys = theirs.get("keys").and_then(Value::as_array).unwrap_or_default();
        let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        let theirs_are = (theirs.get("relation").and_then(Value::as_str), &keys[..]);
        let ours_are: (_, Vec<&str>) = match ours.relation() {
            ListRelation::Atomic => (Some("atomic"), Vec::new()),
            ListRelation::Set => (Some("associative"), Vec::new()),
            ListRelation::Keys(keys) => (Some("associative"), keys.iter().map(|key| &**key).collect()),
        };
        self.equal(at, "relation", format!("{ours_are:?}"), format!("{theirs_are:?}"));
        let element = theirs.get("element").unwrap();
        let named = element.get("named").and_then(Value::as_str).and_then(|name| self.types.get(name));
        for key in keys {
            let default =
                named.unwrap_or(element).at(&["map", "fields", key]).and_then(|field| field.get("default"));
            self.equal(at, key, format!("{:?}", ours.key_default(key)), format!("{default:?}"));
        }
        self.compare(&format!("{at}[]"), ours.element(), element);
    }

    fn map(&mut self, at: &str, ours: MapType<'_>, theirs: &'e Value) {
        let is = |field| theirs.get(field) == Some(&Value::Bool(true));
        self.equal(at, "atomic", ours.is_atomic(), is("atomic"));
        self.equal(at, "deduced", ours.is_deduced(), is("deduced"));
        let fields = theirs.get("fields").and_then(Value::as_object);
        let their_names: Vec<&str> = fields.iter().flat_map(|fields| fields.keys()).collect();
        let our_names: BTreeSet<&str> = ours.fields().map(|(name, _)| name).collect();
        self.equal(
            at,
            "fields",
            format!("{our_names:?}"),
            format!("{:?}", BTreeSet::from_iter(&their_names)),
        );
        assert_eq!(ours.fields().count(), our_names.len(), "{at}: each field is there once");
        for name in their_names {
            let theirs = fields.unwrap().get(name).unwrap().get("type").unwrap();
            match ours.field(name) {
                Some(ours) => self.compare(&format!("{at}.{name}"), ours, theirs),
                None => self.equal(at, name, "none", "a field"),
            }
        }
        assert!(ours.field("no such field").is_none());
        match (ours.element(), theirs.get("element")) {
            (Some(ours), Some(theirs)) => self.compare(&format!("{at}.*"), ours, theirs),
            (ours, theirs) => self.equal(at, "element", ours.is_some(), theirs.is_some()),
        }
    }
}
