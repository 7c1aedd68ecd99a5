//! Paths and operations.

use kindom_api::{Map, Value, object};

use super::{Form, GroupVersionDoc, META, Names, SCALE, TypeDoc, gvk};

const BODY_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// The parameters of lists, and of deletions of collections.
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

/// Parameters that v2 does not share: kubectl up to 1.26 looks for `dryRun` and `fieldValidation` to learn a server's
/// features, and follows no references (kube-openapi `builder/parameters.go`).
const NOT_SHARED: [&str; 3] = ["name", "dryRun", "fieldValidation"];

/// The parameters that v2 shares, by the names that they are referred to by.
pub(super) fn shared_parameters(shared: &Value) -> Map {
    let names = shared.get("v2Parameters").and_then(Value::as_object);
    let parameter = |(key, name): (&str, &Value)| {
        let parameter = match key {
            "body(delete)" => body_v2(&format!("{META}.DeleteOptions"), false),
            "body(patch)" => body_v2(&format!("{META}.Patch"), true),
            key => parameter_v2(shared.at(&["parameters", key]).cloned().unwrap_or_default()),
        };
        (name.as_str().unwrap_or_default().to_owned(), parameter)
    };
    names.into_iter().flat_map(Map::iter).map(parameter).collect()
}

/// A parameter of v3 in v2's form: the members of its `schema` are in the parameter itself.
fn parameter_v2(mut parameter: Value) -> Value {
    if let Some(map) = parameter.as_object_mut()
        && let Some(Value::Object(schema)) = map.remove("schema")
    {
        for (keyword, value) in schema {
            map.insert(keyword, value);
        }
    }
    parameter
}

fn body_v2(schema: &str, required: bool) -> Value {
    let mut body = object! { "name": "body", "in": "body", "schema": Form::V2.reference(schema) };
    if let Some(body) = body.as_object_mut().filter(|_| required) {
        body.insert("required", true);
    }
    body
}

/// Adds the paths of a type.
pub(super) fn add(
    gv: &GroupVersionDoc<'_>,
    doc: &TypeDoc<'_>,
    names: &Names,
    shared: &Value,
    form: Form,
    paths: &mut Map,
) {
    let root = if gv.group.is_empty() {
        format!("/api/{}", gv.version)
    } else {
        format!("/apis/{}/{}", gv.group, gv.version)
    };
    let builder = Builder { gv, doc, shared, form };
    let own = names.schema.as_str();
    let collection = if doc.namespaced {
        if !doc.only_created {
            // The one operation there has its parameters on the path.
            let list = builder.operation("list", "list", "ForAllNamespaces", "", &names.list_schema);
            let shared: Vec<&str> = LIST.iter().copied().chain(["pretty"]).collect();
            paths.insert(format!("{root}/{}", doc.plural), builder.path([("get", list)], &shared));
        }
        format!("{root}/namespaces/{{namespace}}/{}", doc.plural)
    } else {
        format!("{root}/{}", doc.plural)
    };
    let status = format!("{META}.Status");
    let list = builder.with(LIST, builder.operation("list", "list", "", "", &names.list_schema));
    let create = builder.with(WRITE, builder.operation("create", "post", "", "", own));
    let clear =
        builder.with(LIST, builder.operation("deletecollection", "deletecollection", "", "", &status));
    if doc.only_created {
        paths.insert(collection.as_str(), builder.path([("post", create)], &["pretty"]));
        return;
    }
    let clear = doc.clears.then_some(("delete", clear));
    let operations = [("get", list), ("post", create)].into_iter().chain(clear);
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
    for of in &doc.declared {
        let title = titled(&of.name);
        let path = format!("{object}/{}", of.name);
        if of.is_part {
            let mut operations = builder.object_operations(&title, own);
            operations.retain(|(method, _)| of.verbs.contains(&"update") || *method == "get");
            paths.insert(path, builder.path(operations, &["name", "pretty"]));
            continue;
        }
        let connects = METHODS.iter().filter(|(verb, _)| of.verbs.contains(verb));
        let connects = connects.map(|(_, method)| (*method, builder.connect(method, &title)));
        paths.insert(path, builder.path(connects, &["name"]));
    }
}

/// The methods of verbs.
const METHODS: [(&str, &str); 5] =
    [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];

/// A name as operations have it: `CanaryPause` for `canary-pause`.
fn titled(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

struct Builder<'a> {
    gv: &'a GroupVersionDoc<'a>,
    doc: &'a TypeDoc<'a>,
    shared: &'a Value,
    form: Form,
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
            // The body, which in v2 is a parameter, comes first.
            let known = map.entry_or_insert_with("parameters", || Value::Array(Vec::new().into()));
            if let Some(known) = known.as_array_mut() {
                known.extend(self.parameters_named(parameters));
            }
        }
        operation
    }

    fn parameters_named(&self, names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| self.parameter(name)).collect()
    }

    fn parameter(&self, name: &str) -> Value {
        let parameter = if name == "name" {
            object! {
                "name": "name",
                "in": "path",
                "description": format!("name of the {}", self.doc.kind),
                "required": true,
                "schema": object! { "type": "string", "uniqueItems": true },
            }
        } else if self.form == Form::V2 && !NOT_SHARED.contains(&name) {
            return self.shared_parameter(name);
        } else {
            self.shared.at(&["parameters", name]).cloned().unwrap_or_default()
        };
        if self.form == Form::V2 { parameter_v2(parameter) } else { parameter }
    }

    fn shared_parameter(&self, name: &str) -> Value {
        let known = self.shared.at(&["v2Parameters", name]).and_then(Value::as_str).unwrap_or_default();
        object! { "$ref": format!("#/parameters/{known}") }
    }

    /// An operation of a subresource that another program serves: upstream's `connect`, as of `pods/exec`.
    fn connect(&self, method: &str, subresource: &str) -> Value {
        let text = object! { "type": "string" };
        let any = ["*/*"];
        let answer = match self.form {
            Form::V2 => object! { "description": "OK", "schema": text },
            Form::V3 => {
                object! { "description": "OK", "content": object! { "*/*": object! { "schema": text } } }
            }
        };
        let of = (subresource.to_ascii_lowercase(), self.doc.kind);
        let mut operation = object! {
            "tags": vec![self.tag()],
            "description": format!("connect {} requests to {} of {}", method.to_ascii_uppercase(), of.0, of.1),
            "operationId": self.id_of("connect", &titled(method), "", subresource),
            "responses": object! { "200": answer, "401": object! { "description": "Unauthorized" } },
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": gvk(self.gv, self.doc.kind),
        };
        if let Some(map) = operation.as_object_mut().filter(|_| self.form == Form::V2) {
            map.insert("schemes", vec!["https"]);
            map.insert("produces", any.to_vec());
            map.insert("consumes", any.to_vec());
        }
        operation
    }

    fn tag(&self) -> String {
        let group = identifier(self.gv.group.trim_end_matches(".k8s.io"), false);
        format!("{group}_{}", identifier(self.gv.version, false))
    }

    /// An operation without its parameters. `verb` is that of its name, `action` what Kubernetes calls it.
    fn operation(&self, verb: &str, action: &str, suffix: &str, subresource: &str, schema: &str) -> Value {
        let mut operation = object! {
            "tags": vec![self.tag()],
            "description": self.description(verb, subresource),
            "operationId": self.id(verb, suffix, subresource),
            "responses": self.responses(action, schema),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(self.gv, self.doc.kind),
        };
        let Some(map) = operation.as_object_mut() else { return operation };
        match self.form {
            Form::V3 => {
                if let Some(body) = self.body(action, schema) {
                    map.insert("requestBody", body);
                }
            }
            Form::V2 => {
                map.insert("schemes", vec!["https"]);
                map.insert("produces", BODY_TYPES.to_vec());
                let consumes = if action == "patch" { self.patch_types() } else { BODY_TYPES.to_vec() };
                map.insert("consumes", consumes);
                let body = match action {
                    "post" | "put" => Some(body_v2(schema, true)),
                    "patch" => Some(self.shared_parameter("body(patch)")),
                    "delete" => Some(self.shared_parameter("body(delete)")),
                    _ => None,
                };
                if let Some(body) = body {
                    map.insert("parameters", vec![body]);
                }
            }
        }
        operation
    }

    /// `listExampleComV1NamespacedWidget`.
    fn id(&self, verb: &str, suffix: &str, subresource: &str) -> String {
        let (verb, collection) =
            if verb == "deletecollection" { ("delete", "Collection") } else { (verb, "") };
        self.id_of(verb, collection, suffix, subresource)
    }

    fn id_of(&self, verb: &str, collection: &str, suffix: &str, subresource: &str) -> String {
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
                let content = content(&self.patch_types(), &format!("{META}.Patch"));
                object! { "content": content, "required": true }
            }
            "delete" => object! { "content": content(&BODY_TYPES, &format!("{META}.DeleteOptions")) },
            _ => return None,
        })
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let strategic = self.doc.strategic_merge_patch.then_some(STRATEGIC_MERGE_PATCH);
        PATCH_TYPES.into_iter().chain(strategic).collect()
    }

    fn responses(&self, action: &str, schema: &str) -> Value {
        let response = |text: &str| match self.form {
            Form::V2 => object! { "description": text, "schema": Form::V2.reference(schema) },
            Form::V3 => object! { "description": text, "content": content(&BODY_TYPES, schema) },
        };
        let mut responses: Map =
            [("200", response("OK")), ("401", object! { "description": "Unauthorized" })]
                .into_iter()
                .collect();
        if matches!(action, "post" | "put") {
            responses.insert("201", response("Created"));
        }
        if matches!(action, "post" | "delete") {
            responses.insert("202", response("Accepted"));
        }
        responses.into()
    }
}

fn content(types: &[&str], schema: &str) -> Value {
    Value::Object(
        types.iter().map(|media| (*media, object! { "schema": Form::V3.reference(schema) })).collect(),
    )
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

/// The article of a noun, with its spaces; one space for a plural.
fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        " "
    } else if noun.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) {
        " an "
    } else {
        " a "
    }
}
