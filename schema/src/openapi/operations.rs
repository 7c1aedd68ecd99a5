//! Paths and operations.

use kindom_api::{Map, Value, object};

use super::{GroupVersionDoc, META, Names, SCALE, TypeDoc, gvk, reference};

const BODY_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// What lists, and deletions of collections, take.
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// Adds the paths of a type.
pub(super) fn add(
    gv: &GroupVersionDoc<'_>,
    doc: &TypeDoc<'_>,
    names: &Names,
    parameters: &Value,
    paths: &mut Map,
) {
    let root = if gv.group.is_empty() {
        format!("/api/{}", gv.version)
    } else {
        format!("/apis/{}/{}", gv.group, gv.version)
    };
    let builder = Builder { gv, doc, parameters };
    let own = names.schema.as_str();
    let collection = if doc.namespaced {
        // The one operation there has its parameters on the path.
        let list = builder.operation("list", "list", "ForAllNamespaces", "", &names.list_schema);
        let shared: Vec<&str> = LIST.iter().copied().chain(["pretty"]).collect();
        paths.insert(format!("{root}/{}", doc.plural), builder.path([("get", list)], &shared));
        format!("{root}/namespaces/{{namespace}}/{}", doc.plural)
    } else {
        format!("{root}/{}", doc.plural)
    };
    let status = format!("{META}.Status");
    let list = builder.with(LIST, builder.operation("list", "list", "", "", &names.list_schema));
    let create = builder.with(WRITE, builder.operation("create", "post", "", "", own));
    let clear =
        builder.with(LIST, builder.operation("deletecollection", "deletecollection", "", "", &status));
    let operations = [("get", list), ("post", create), ("delete", clear)];
    paths.insert(collection.as_str(), builder.path(operations, &["pretty"]));

    let delete = builder.with(DELETE, builder.operation("delete", "delete", "", "", &status));
    let object = format!("{collection}/{{name}}");
    let mut operations = builder.object_operations("", own);
    operations.push(("delete", delete));
    paths.insert(object.as_str(), builder.path(operations, &["name", "pretty"]));
    for (has, subresource, title, schema) in
        [(doc.status, "status", "Status", own), (doc.scale, "scale", "Scale", SCALE)]
    {
        if has {
            let operations = builder.object_operations(title, schema);
            paths.insert(format!("{object}/{subresource}"), builder.path(operations, &["name", "pretty"]));
        }
    }
}

struct Builder<'a> {
    gv: &'a GroupVersionDoc<'a>,
    doc: &'a TypeDoc<'a>,
    parameters: &'a Value,
}

impl Builder<'_> {
    /// Reading and writing an object, or its subresource of this title.
    fn object_operations(&self, subresource: &str, schema: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("get", self.with(&["resourceVersion"], self.operation("read", "get", "", subresource, schema))),
            ("put", self.with(WRITE, self.operation("replace", "put", "", subresource, schema))),
            (
                "patch",
                self.with(
                    &["dryRun", "fieldManager(patch)", "fieldValidation", "force"],
                    self.operation("patch", "patch", "", subresource, schema),
                ),
            ),
        ]
    }

    /// A path with its operations and the parameters that all of them take.
    fn path(&self, operations: impl IntoIterator<Item = (&'static str, Value)>, shared: &[&str]) -> Value {
        let mut path: Map = operations.into_iter().collect();
        let mut shared: Vec<&str> = shared.to_vec();
        // The path across all namespaces alone has the parameters of lists on it.
        if self.doc.namespaced && !shared.contains(&"watch") {
            shared.push("namespace");
        }
        shared.sort_unstable();
        path.insert("parameters", self.parameters_named(&shared));
        path.into()
    }

    fn with(&self, parameters: &[&str], mut operation: Value) -> Value {
        if let Some(map) = operation.as_object_mut() {
            map.insert("parameters", self.parameters_named(parameters));
        }
        operation
    }

    fn parameters_named(&self, names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| self.parameter(name)).collect()
    }

    fn parameter(&self, name: &str) -> Value {
        if name == "name" {
            return object! {
                "name": "name",
                "in": "path",
                "description": format!("name of the {}", self.doc.kind),
                "required": true,
                "schema": object! { "type": "string", "uniqueItems": true },
            };
        }
        self.parameters.get(name).cloned().unwrap_or_default()
    }

    /// An operation without its parameters. `verb` is that of its name, `action` what Kubernetes calls it.
    fn operation(&self, verb: &str, action: &str, suffix: &str, subresource: &str, schema: &str) -> Value {
        let mut operation = object! {
            "tags": vec![format!(
                "{}_{}",
                identifier(self.gv.group.trim_end_matches(".k8s.io"), false),
                identifier(self.gv.version, false)
            )],
            "description": self.description(verb, subresource),
            "operationId": self.id(verb, suffix, subresource),
            "responses": responses(action, schema),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(self.gv, self.doc.kind),
        };
        if let (Some(body), Some(map)) = (self.body(action, schema), operation.as_object_mut()) {
            map.insert("requestBody", body);
        }
        operation
    }

    /// `listExampleComV1NamespacedWidget`.
    fn id(&self, verb: &str, suffix: &str, subresource: &str) -> String {
        let (verb, collection) =
            if verb == "deletecollection" { ("delete", "Collection") } else { (verb, "") };
        let scope = if self.doc.namespaced && suffix.is_empty() { "Namespaced" } else { "" };
        let group = if self.gv.group.is_empty() { "core" } else { self.gv.group.trim_end_matches(".k8s.io") };
        let group = identifier(group, true);
        let version = identifier(self.gv.version, true);
        format!("{verb}{group}{version}{collection}{scope}{}{suffix}{subresource}", self.doc.kind)
    }

    fn description(&self, verb: &str, subresource: &str) -> String {
        let kind = self.doc.kind;
        let sub = if subresource.is_empty() {
            String::new()
        } else {
            format!(" {} of", subresource.to_ascii_lowercase())
        };
        match verb {
            "list" => format!("list{sub} objects of kind {kind}"),
            "read" | "replace" => format!("{verb}{sub} the specified {kind}"),
            "patch" => format!("partially update{sub} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            verb => format!("{verb}{sub}{}{kind}", article(kind)),
        }
    }

    fn body(&self, action: &str, schema: &str) -> Option<Value> {
        Some(match action {
            "post" | "put" => object! { "content": content(&BODY_TYPES, schema), "required": true },
            "patch" => {
                let strategic = self.doc.strategic_merge_patch.then_some(STRATEGIC_MERGE_PATCH);
                let types: Vec<&str> = PATCH_TYPES.into_iter().chain(strategic).collect();
                object! { "content": content(&types, &format!("{META}.Patch")), "required": true }
            }
            "delete" => object! { "content": content(&BODY_TYPES, &format!("{META}.DeleteOptions")) },
            _ => return None,
        })
    }
}

fn responses(action: &str, schema: &str) -> Value {
    let response = |text: &str| object! { "description": text, "content": content(&BODY_TYPES, schema) };
    let mut responses: Map =
        [("200", response("OK")), ("401", object! { "description": "Unauthorized" })].into_iter().collect();
    if matches!(action, "post" | "put") {
        responses.insert("201", response("Created"));
    }
    if matches!(action, "post" | "delete") {
        responses.insert("202", response("Accepted"));
    }
    responses.into()
}

fn content(types: &[&str], schema: &str) -> Value {
    Value::Object(types.iter().map(|media| (*media, object! { "schema": reference(schema) })).collect())
}

/// A text with only letters, digits and underscores; what follows another character is capitalized.
fn identifier(text: &str, capitalize_first: bool) -> String {
    let mut capitalize = capitalize_first;
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        if c.is_alphabetic() || c == '_' || (i != 0 && c.is_numeric()) {
            if capitalize {
                out.extend(c.to_uppercase())
            } else {
                out.push(c)
            }
            capitalize = false;
        } else {
            capitalize = true;
        }
    }
    out
}

/// What stands before a noun, with its spaces. A plural has none.
fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        " "
    } else if noun.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) {
        " an "
    } else {
        " a "
    }
}
