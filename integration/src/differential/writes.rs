//! The writes of one object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Case;
use super::shape::{put, some};
use super::types::{GROUP, Type};
use crate::random::Random;

/// A placeholder in bodies for the last resourceVersion that an answer gave; `1` if none did.
pub const REVISION: &str = "${rv}";

const APPLIERS: [&str; 4] = ["a", "b", "kubectl", "u"];
const UPDATERS: [&str; 3] = ["u", "v", ""];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// As many writes as asked for, the first one a create.
pub(super) fn sequence(random: &mut Random, of: &Type, number: usize, count: usize) -> Vec<Case> {
    let mut writer = Writer { random, of, number, applied: BTreeMap::new(), cases: Vec::new() };
    writer.create();
    while writer.cases.len() < count {
        writer.write(writer.cases.len() + 1 < count);
    }
    writer.cases
}

struct Writer<'a> {
    random: &'a mut Random,
    of: &'a Type,
    number: usize,
    /// The last configuration of each manager, by manager and subresource.
    applied: BTreeMap<String, Map<String, Value>>,
    cases: Vec<Case>,
}

impl Writer<'_> {
    fn name(&self) -> String {
        format!("object-{}", self.number)
    }

    fn version(&mut self) -> &'static str {
        if self.random.percent(25) { "v2" } else { "v1" }
    }

    fn spec(&mut self) -> Map<String, Value> {
        some(&self.of.spec, 55, self.random)
    }

    fn status(&mut self) -> Map<String, Value> {
        some(&self.of.status, 45, self.random)
    }

    fn push(&mut self, method: &str, path: String, query: &[(&str, &str)], content_type: &str, body: &Value) {
        let mut path = path;
        let mut joint = '?';
        for (key, value) in query {
            path.push(joint);
            path.push_str(key);
            path.push('=');
            path.push_str(value);
            joint = '&';
        }
        let body = if content_type.is_empty() { String::new() } else { body.to_string() };
        self.cases.push(Case {
            sequence: self.number,
            method: method.to_owned(),
            path,
            content_type: content_type.to_owned(),
            body,
        });
    }

    fn object_path(&self, version: &str, subresource: &str) -> String {
        let path = format!("{}/{}", self.of.path(version), self.name());
        if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
    }

    fn object(&mut self, version: &str, members: Map<String, Value>) -> Value {
        let mut metadata = json!({"name": self.name()});
        if self.random.percent(20) {
            put(&mut metadata, &["labels"], self.labels());
        }
        if self.random.percent(8) {
            put(&mut metadata, &["annotations"], self.labels());
        }
        let mut object = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": self.of.kind(),
            "metadata": metadata});
        if let Value::Object(all) = &mut object {
            all.extend(members);
        }
        object
    }

    /// Never none: upstream stores an empty map that an apply gives and drops it at the next write, which so is one though
    /// it changes nothing (docs/conformance.md).
    fn labels(&mut self) -> Value {
        let mut labels = Map::new();
        for _ in 0..=self.random.below(2) {
            labels.insert(
                self.random.text(&["l", "m", "n.o/p"]).to_owned(),
                self.random.text(&["1", "2"]).into(),
            );
        }
        labels.into()
    }

    /// Spec, and sometimes a status that is not for this endpoint.
    fn members(&mut self) -> Map<String, Value> {
        let mut members = Map::new();
        if self.random.percent(95) {
            members.insert("spec".to_owned(), self.spec().into());
        }
        if self.random.percent(20) {
            members.insert("status".to_owned(), self.status().into());
        }
        members
    }

    fn options<'q>(&mut self, manager: &'q str) -> Vec<(&'q str, &'q str)> {
        let mut query = Vec::new();
        if !manager.is_empty() {
            query.push(("fieldManager", manager));
        }
        if self.random.percent(3) {
            query.push(("dryRun", "All"));
        }
        match self.random.below(30) {
            0 => query.push(("fieldValidation", "Strict")),
            1 => query.push(("fieldValidation", "Ignore")),
            _ => {}
        }
        query
    }

    fn create(&mut self) {
        if self.random.percent(50) {
            self.apply("");
            return;
        }
        let version = self.version();
        let members = self.members();
        let mut object = self.object(version, members);
        let mut manager = self.random.text(&UPDATERS);
        if self.random.percent(25) {
            // As client-side apply does it: the annotation holds the applied configuration.
            manager = "kubectl-client-side-apply";
            let mut last = object.clone();
            if self.random.percent(20) {
                put(&mut last, &["spec"], self.spec().into());
            }
            put(&mut object, &["metadata", "annotations"], json!({LAST_APPLIED: format!("{last}\n")}));
        }
        if self.random.percent(5) {
            put(&mut object, &["metadata", "managedFields"], self.managers());
        }
        let options = self.options(manager);
        self.push("POST", self.of.path(version), &options, "application/json", &object);
    }

    fn write(&mut self, may_delete: bool) {
        match self.random.below(100) {
            0..=41 => self.apply(""),
            42..=51 => self.apply("status"),
            52..=53 if self.of.scale => self.apply_scale(),
            54..=62 => self.put(""),
            63..=67 => self.put("status"),
            68..=71 if self.of.scale => self.write_scale(),
            72..=81 => self.merge_patch(""),
            82..=85 => self.merge_patch("status"),
            86..=92 => self.json_patch(),
            93..=95 => self.strip(),
            96.. if may_delete => {
                self.push("DELETE", self.object_path("v1", ""), &[], "", &Value::Null);
                self.create();
            }
            _ => self.apply(""),
        }
    }

    fn apply(&mut self, subresource: &str) {
        let version = self.version();
        let manager = self.random.text(&APPLIERS);
        let mut members = if subresource.is_empty() {
            self.members()
        } else {
            Map::from_iter([("status".to_owned(), self.status().into())])
        };
        let key = format!("{manager}/{subresource}");
        if let Some(before) = self.applied.get(&key).cloned()
            && self.random.percent(65)
        {
            members = blend(self.random, &before, &members);
        }
        self.applied.insert(key, members.clone());
        let object = self.object(version, members);
        let mut options = self.options(manager);
        if self.random.percent(30) {
            options.push(("force", "true"));
        }
        let path = self.object_path(version, subresource);
        self.push("PATCH", path, &options, "application/apply-patch+yaml", &object);
    }

    fn scale(&mut self) -> Value {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": self.name(), "namespace": "default"},
            "spec": {"replicas": self.random.below(4)}})
    }

    fn apply_scale(&mut self) {
        let (scale, manager) = (self.scale(), self.random.text(&APPLIERS));
        let mut options = self.options(manager);
        if self.random.percent(30) {
            options.push(("force", "true"));
        }
        self.push("PATCH", self.object_path("v1", "scale"), &options, "application/apply-patch+yaml", &scale);
    }

    fn write_scale(&mut self) {
        let (mut scale, manager) = (self.scale(), self.random.text(&UPDATERS));
        let version = self.version();
        let path = self.object_path(version, "scale");
        let options = self.options(manager);
        if self.random.percent(50) {
            let patch = json!({"spec": scale.get("spec")});
            self.push("PATCH", path, &options, "application/merge-patch+json", &patch);
            return;
        }
        if self.random.percent(50) {
            put(&mut scale, &["metadata", "resourceVersion"], REVISION.into());
        }
        self.push("PUT", path, &options, "application/json", &scale);
    }

    fn put(&mut self, subresource: &str) {
        let (version, manager) = (self.version(), self.random.text(&UPDATERS));
        let mut members = self.members();
        if !subresource.is_empty() {
            members.insert("status".to_owned(), self.status().into());
        }
        let mut object = self.object(version, members);
        match self.random.below(20) {
            0 => {}
            1 => put(&mut object, &["metadata", "resourceVersion"], "1".into()),
            _ => put(&mut object, &["metadata", "resourceVersion"], REVISION.into()),
        }
        if self.random.percent(10) {
            put(&mut object, &["metadata", "managedFields"], self.managers());
        }
        let options = self.options(manager);
        self.push("PUT", self.object_path(version, subresource), &options, "application/json", &object);
    }

    fn merge_patch(&mut self, subresource: &str) {
        let (version, manager) = (self.version(), self.random.text(&UPDATERS));
        let mut members = if subresource.is_empty() {
            self.members()
        } else {
            Map::from_iter([("status".to_owned(), self.status().into())])
        };
        holes(self.random, &mut members);
        let options = self.options(manager);
        let path = self.object_path(version, subresource);
        self.push("PATCH", path, &options, "application/merge-patch+json", &members.into());
    }

    fn json_patch(&mut self) {
        let (version, manager) = (self.version(), self.random.text(&UPDATERS));
        let mut operations = Vec::new();
        for _ in 0..=self.random.below(2) {
            let value = Value::Object(self.spec());
            let (mut path, mut at) = ("/spec".to_owned(), &value);
            // Down a random path, not always to a leaf.
            while let Value::Object(members) = at {
                let names: Vec<&String> = members.keys().collect();
                let Some(name) = self.random.one(&names) else { break };
                path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                at = members.get(*name).unwrap_or(&Value::Null);
                if self.random.percent(30) {
                    break;
                }
            }
            operations.push(match self.random.below(4) {
                0 => json!({"op": "remove", "path": path}),
                1 => json!({"op": "replace", "path": path, "value": at}),
                _ => json!({"op": "add", "path": path, "value": at}),
            });
        }
        let options = self.options(manager);
        let path = self.object_path(version, "");
        self.push("PATCH", path, &options, "application/json-patch+json", &operations.into());
    }

    fn strip(&mut self) {
        let manager = self.random.text(&UPDATERS);
        let entries = self.managers();
        let options = self.options(manager);
        let patch = json!({"metadata": {"managedFields": entries}});
        self.push("PATCH", self.object_path("v1", ""), &options, "application/merge-patch+json", &patch);
    }

    /// managedFields as a client might send them, most often to be rid of them.
    fn managers(&mut self) -> Value {
        match self.random.below(5) {
            0 | 1 => return json!([]),
            2 => return json!([{}]),
            _ => {}
        }
        let mut entries = Vec::new();
        for manager in ["a", "u", "old"].iter().take(1 + self.random.below(3)) {
            let spec = self.spec();
            entries.push(json!({"manager": manager, "operation": self.random.text(&["Apply", "Update"]),
                "apiVersion": format!("{GROUP}/{}", self.random.text(&["v1", "v1", "v2", "v9"])),
                "time": self.random.text(&["2001-01-01T00:00:00Z", "2002-02-02T00:00:00Z"]),
                "fieldsType": self.random.text(&["FieldsV1", "FieldsV1", "FieldsV1", "FieldsV1", "Odd"]),
                "fieldsV1": {"f:spec": paths(&spec)}}));
        }
        entries.into()
    }
}

/// A mixture of the former and the new fields.
fn blend(random: &mut Random, before: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, old) in before {
        let other = new.get(key);
        if key != "spec" && key != "status" && random.percent(25) {
            continue;
        }
        let value = match (old, other) {
            (Value::Object(old), Some(Value::Object(new))) => blend(random, old, new).into(),
            (Value::Array(items), _) if random.percent(50) => {
                items.iter().filter(|_| random.percent(70)).cloned().collect()
            }
            (_, Some(new)) if random.percent(40) => new.clone(),
            _ => old.clone(),
        };
        members.insert(key.clone(), value);
    }
    for (key, value) in new {
        if !before.contains_key(key) && random.percent(50) {
            members.insert(key.clone(), value.clone());
        }
    }
    members
}

/// Nulls instead of some members, which remove.
fn holes(random: &mut Random, members: &mut Map<String, Value>) {
    for (key, value) in members.iter_mut() {
        if key != "spec" && random.percent(15) {
            *value = Value::Null;
        } else if let Value::Object(inner) = value {
            holes(random, inner);
        }
    }
}

/// The fields of a map, as an entry of managedFields has them; lists are not looked into.
fn paths(members: &Map<String, Value>) -> Value {
    let mut fields = Map::new();
    for (key, value) in members {
        let inner = value.as_object().map_or_else(|| json!({}), paths);
        fields.insert(format!("f:{key}"), inner);
    }
    fields.into()
}
