//! JSON to tree.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU8;

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::json::MAX_DEPTH;
use kindom_api::{Map, Value};
use kindom_formats::{Format, Pattern};

use crate::choices::Choices;
use crate::node::{
    Additional, Atom, Below, Fields, Junctors, ListKind, Node, Numbers, Rules, Sizes, Text, Types,
};

/// Compiles a schema document; says also whether there is a word in it that is no type.
pub(crate) fn compile(schema: &Value) -> Result<(Node, bool), ErrorList> {
    compile_with(schema, &References::new())
}

/// The schemas that others refer to: their numbers by the text of `$ref`.
pub(crate) type References = HashMap<String, NonZeroU8>;

/// The same for a schema that refers to others; registered ones never do.
pub(crate) fn compile_with(schema: &Value, references: &References) -> Result<(Node, bool), ErrorList> {
    let mut compiler = Compiler { errors: ErrorList::new(), unknown_types: false, references };
    let node = compiler.node(schema, &Path::new("openAPIV3Schema"), 0);
    if compiler.errors.is_empty() { Ok((node, compiler.unknown_types)) } else { Err(compiler.errors) }
}

struct Compiler<'r> {
    errors: ErrorList,
    unknown_types: bool,
    references: &'r References,
}

impl Compiler<'_> {
    fn node(&mut self, schema: &Value, path: &Path<'_>, depth: usize) -> Node {
        let Some(map) = schema.as_object() else {
            self.errors.push(Error::type_invalid(path, schema.clone(), "must be an object"));
            return Node::default();
        };
        if depth > MAX_DEPTH {
            self.errors.push(Error::forbidden(path, format!("must not nest deeper than {MAX_DEPTH} levels")));
            return Node::default();
        }
        let mut node = Node {
            nullable: self.bool(map, "nullable", path),
            preserve: self.bool(map, "x-kubernetes-preserve-unknown-fields", path),
            embedded: self.bool(map, "x-kubernetes-embedded-resource", path),
            atomic_map: self.str(map, "x-kubernetes-map-type", path) == Some("atomic"),
            reference: self.reference(map),
            default: map.get("default").filter(|v| !v.is_null()).cloned().map(Box::new),
            ..Node::default()
        };
        self.types(map, path, &mut node);
        self.children(map, path, depth, &mut node);
        node.rules = self.rules(map, path, depth);
        match self.str(map, "x-kubernetes-list-type", path) {
            Some("set") => node.list = ListKind::Set,
            Some("map") => node.list = ListKind::Map,
            // `atomic`, or a word that the registration's validation refuses.
            _ => {}
        }
        node.below = below(&node);
        node
    }

    /// The schema that this one refers to, itself or through the one branch of its `allOf`.
    fn reference(&self, map: &Map) -> Option<NonZeroU8> {
        if self.references.is_empty() {
            return None;
        }
        let one = match map.get("allOf") {
            Some(Value::Array(branches)) if branches.len() == 1 => branches.first(),
            _ => None,
        };
        let target = map.get("$ref").or_else(|| one?.get("$ref")).and_then(Value::as_str)?;
        self.references.get(target).copied()
    }

    fn types(&mut self, map: &Map, path: &Path<'_>, node: &mut Node) {
        if let Some(text) = self.str(map, "type", path).filter(|text| !text.is_empty()) {
            node.types = Types::parse(text).unwrap_or(Types::UNKNOWN);
            self.unknown_types |= node.types == Types::UNKNOWN;
            node.atom = atom(text);
        }
        if self.bool(map, "x-kubernetes-int-or-string", path) {
            node.types = Types::INT_OR_STRING;
        }
        if let Some(text) = self.str(map, "format", path) {
            if node.atom == Atom::String && !matches!(text, "" | "byte") {
                node.atom = Atom::Formatted;
            }
            node.format = Format::named(text).filter(|format| node.types.may_have(*format));
        }
    }

    fn children(&mut self, map: &Map, path: &Path<'_>, depth: usize, node: &mut Node) {
        let mut nodes = Vec::new();
        match map.get("properties") {
            None | Some(Value::Null) => {}
            Some(Value::Object(properties)) => {
                let at = path.child("properties");
                nodes.reserve_exact(properties.len());
                nodes.extend(
                    properties
                        .iter()
                        .map(|(name, schema)| (name, self.node(schema, &at.key(name), depth + 1))),
                );
            }
            Some(other) => {
                self.errors.push(Error::type_invalid(
                    &path.child("properties"),
                    other.clone(),
                    "must be a map",
                ));
            }
        }
        if let Some(items) = map.get("items").filter(|v| !v.is_null()) {
            node.items = Some(Box::new(self.node(items, &path.child("items"), depth + 1)));
        }
        let additional = match map.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unset,
            Some(Value::Bool(true)) => Additional::Any,
            Some(Value::Bool(false)) => Additional::No,
            Some(schema) => Additional::Schema(Box::new(self.node(
                schema,
                &path.child("additionalProperties"),
                depth + 1,
            ))),
        };
        let required = self.strings(map, "required", path);
        if !(nodes.is_empty() && required.is_empty() && matches!(additional, Additional::Unset)) {
            node.fields = Some(Box::new(Fields::new(nodes, &required, additional)));
        }
    }

    fn rules(&mut self, map: &Map, path: &Path<'_>, depth: usize) -> Option<Box<Rules>> {
        let numbers = Numbers {
            multiple_of: self.float(map, "multipleOf", path),
            maximum: self.float(map, "maximum", path),
            exclusive_maximum: self.bool(map, "exclusiveMaximum", path),
            minimum: self.float(map, "minimum", path),
            exclusive_minimum: self.bool(map, "exclusiveMinimum", path),
        };
        let text = Text {
            max_length: self.int(map, "maxLength", path),
            min_length: self.int(map, "minLength", path),
            pattern: self.str(map, "pattern", path).filter(|p| !p.is_empty()).map(Pattern::shared),
        };
        let sizes = Sizes {
            max_items: self.int(map, "maxItems", path),
            min_items: self.int(map, "minItems", path),
            unique_items: self.bool(map, "uniqueItems", path),
            max_properties: self.int(map, "maxProperties", path),
            min_properties: self.int(map, "minProperties", path),
        };
        let junctors = Junctors {
            all_of: self.branches(map, "allOf", path, depth),
            any_of: self.branches(map, "anyOf", path, depth),
            one_of: self.branches(map, "oneOf", path, depth),
            not: map
                .get("not")
                .filter(|v| !v.is_null())
                .map(|schema| Box::new(self.node(schema, &path.child("not"), depth + 1))),
        };
        let has_numbers =
            numbers.multiple_of.is_some() || numbers.maximum.is_some() || numbers.minimum.is_some();
        let has_text = text.max_length.is_some() || text.min_length.is_some() || text.pattern.is_some();
        let has_sizes = sizes.unique_items
            || [sizes.max_items, sizes.min_items, sizes.max_properties, sizes.min_properties]
                .iter()
                .any(Option::is_some);
        let has_junctors = junctors.not.is_some()
            || [&junctors.all_of, &junctors.any_of, &junctors.one_of].iter().any(|list| !list.is_empty());
        let rules = Rules {
            choices: Choices::new(self.list(map, "enum", path)),
            numbers: has_numbers.then(|| Box::new(numbers)),
            text: has_text.then(|| Box::new(text)),
            sizes: has_sizes.then(|| Box::new(sizes)),
            junctors: has_junctors.then(|| Box::new(junctors)),
            map_keys: self
                .strings(map, "x-kubernetes-list-map-keys", path)
                .into_iter()
                .map(Into::into)
                .collect(),
            unknown_type: unknown_type(map),
            expressions: None,
        };
        let any = has_numbers
            || has_text
            || has_sizes
            || has_junctors
            || !rules.choices.is_empty()
            || !rules.map_keys.is_empty()
            || rules.unknown_type.is_some();
        any.then(|| Box::new(rules))
    }

    fn branches(&mut self, map: &Map, keyword: &str, path: &Path<'_>, depth: usize) -> Box<[Node]> {
        let at = path.child(keyword);
        self.list(map, keyword, path)
            .iter()
            .enumerate()
            .map(|(i, schema)| self.node(schema, &at.index(i), depth + 1))
            .collect()
    }

    fn list<'m>(&mut self, map: &'m Map, keyword: &str, path: &Path<'_>) -> &'m [Value] {
        match map.get(keyword) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.errors.push(Error::type_invalid(&path.child(keyword), other.clone(), "must be a list"));
                &[]
            }
        }
    }

    /// A list of strings, each once.
    fn strings<'m>(&mut self, map: &'m Map, keyword: &str, path: &Path<'_>) -> Vec<&'m str> {
        let items = self.list(map, keyword, path);
        let mut texts = Vec::with_capacity(items.len());
        // A list may be as long as a hostile document; most have a few.
        let mut seen = HashSet::new();
        for item in items {
            match item.as_str() {
                Some(text) if items.len() <= 16 && texts.contains(&text) => {}
                Some(text) if items.len() > 16 && !seen.insert(text) => {}
                Some(text) => texts.push(text),
                None => self.wrong(path, keyword, item, "must be a list of strings"),
            }
        }
        texts
    }

    fn str<'m>(&mut self, map: &'m Map, keyword: &str, path: &Path<'_>) -> Option<&'m str> {
        match map.get(keyword) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                self.wrong(path, keyword, other, "must be a string");
                None
            }
        }
    }

    fn bool(&mut self, map: &Map, keyword: &str, path: &Path<'_>) -> bool {
        match map.get(keyword) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(b)) => *b,
            Some(other) => {
                self.wrong(path, keyword, other, "must be a boolean");
                false
            }
        }
    }

    fn int(&mut self, map: &Map, keyword: &str, path: &Path<'_>) -> Option<i64> {
        match map.get(keyword) {
            None | Some(Value::Null) => None,
            Some(Value::Int(n)) => Some(*n),
            Some(other) => {
                self.wrong(path, keyword, other, "must be an integer");
                None
            }
        }
    }

    fn float(&mut self, map: &Map, keyword: &str, path: &Path<'_>) -> Option<f64> {
        match map.get(keyword) {
            None | Some(Value::Null) => None,
            Some(other) => {
                let number = other.as_f64();
                if number.is_none() {
                    self.wrong(path, keyword, other, "must be a number");
                }
                number
            }
        }
    }

    fn wrong(&mut self, path: &Path<'_>, keyword: &str, value: &Value, detail: &str) {
        self.errors.push(Error::type_invalid(&path.child(keyword), value.clone(), detail));
    }
}

/// The atom that the field manager sees for a type; an unknown word counts as no type.
fn atom(text: &str) -> Atom {
    match text {
        "object" => Atom::Map,
        "array" => Atom::List,
        "integer" | "number" => Atom::Numeric,
        "string" => Atom::String,
        "boolean" => Atom::Boolean,
        _ => Atom::Any,
    }
}

/// The word that stands where a type should, if that is what decides.
fn unknown_type(map: &Map) -> Option<Box<str>> {
    let text = map.get("type").and_then(Value::as_str).filter(|text| !text.is_empty())?;
    let is_unknown =
        Types::parse(text).is_none() && map.get("x-kubernetes-int-or-string") != Some(&true.into());
    is_unknown.then(|| text.into())
}

/// A summary of a node and its children; of junctors it counts negations only.
fn below(node: &Node) -> Below {
    let junctors = node.rules.as_deref().and_then(|rules| rules.junctors.as_deref());
    let negated =
        junctors.into_iter().flat_map(|junctors| junctors.one_of.iter().chain(junctors.not.as_deref()));
    let joined = junctors.into_iter().flat_map(|junctors| junctors.all_of.iter().chain(&junctors.any_of));
    let own = Below {
        defaults: node.default.is_some(),
        lists: node.list != ListKind::Atomic,
        embedded: node.embedded,
        negations: negated.clone().any(looks_below)
            || negated.chain(joined).any(|branch| branch.below.negations),
        // Rules are put in later.
        expressions: false,
    };
    node.properties()
        .map(|(_, child)| child)
        .chain(node.items.as_deref())
        .chain(node.additional().schema())
        .fold(own, |all, child| all.or(child.below))
}

/// Returns true if a branch looks at values of fields or at items, itself or in a branch of its own.
fn looks_below(branch: &Node) -> bool {
    branch.items.is_some()
        || branch.properties().next().is_some()
        || branch.additional().schema().is_some()
        || branch.rules.as_deref().is_some_and(|rules| rules.junctors.is_some())
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::compile;

    fn check(schema: &str, want: &[&str]) {
        let got: Vec<String> = match compile(&parse(schema.as_bytes()).unwrap()) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(got, want);
    }

    #[test]
    fn what_is_unusable_is_named() {
        check(r#"{"type":"object"}"#, &[]);
        check(r#"{"properties":null,"items":null,"enum":null,"maxLength":null,"default":null}"#, &[]);
        check(r#"[]"#, &["openAPIV3Schema: Invalid value: []: must be an object"]);
        check(
            r#"{"properties":{"a":{"maxLength":"x"}}}"#,
            &[r#"openAPIV3Schema.properties[a].maxLength: Invalid value: "x": must be an integer"#],
        );
        check(r#"{"allOf":[{},{"not":{"type":"thing"}}]}"#, &[]);
        check(
            r#"{"allOf":[{},{"not":{"type":[]}}]}"#,
            &["openAPIV3Schema.allOf[1].not.type: Invalid value: []: must be a string"],
        );
    }
}
