//! From a structural schema to the declarations for the checker and the estimate of cost
//! (`apiserver/pkg/cel/common/schemas.go`, `SchemaDeclType`; `types.go`, `MaybeAssignTypeName`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kindom_api::Value;
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::types::Type;

use crate::crd::props::{
    OrBool, additional_properties, entries, flag, has, item, list, property, text, type_of,
};
use kindom_cel::value::escape;

/// A request's most bytes. Upstream's number is part of what registrations may say, so it is fixed, whatever this server
/// accepts.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// Bytes of the longest name of an object.
const NAME_MAX: u64 = 253;

/// The longest that the name of a type gets, in bytes.
const NAME_BYTES_MAX: usize = 2_048;

const STRING_MIN: u64 = 2;
const DURATION_MIN: u64 = 3;
const DATE_SIZE: u64 = 12;
const DATE_TIME_MIN: u64 = 21;
const DATE_TIME_MAX: u64 = 32;

/// The name of the type of `self` in messages; upstream adds random digits, so that nobody relies on it.
pub(crate) const SELF_TYPE: &str = "selfType";

/// The declaration that expressions see at some place.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) decl: Decl,
    /// The prefix of the names of its object types: [`SELF_TYPE`], and the steps from the place of declaration.
    pub(crate) name: String,
}

impl Declared {
    /// The declaration of a schema, if expressions can see it at all. `is_root`: it is that of a resource, embedded or not.
    pub(crate) fn new(schema: &Value, is_root: bool) -> Option<Self> {
        let mut name = Name { text: SELF_TYPE.to_owned(), cut: 0 };
        Some(Self { decl: below(schema, is_root, &mut name)?, name: name.text })
    }

    /// That of a property with this schema.
    pub(crate) fn property(&self, name: &str, schema: &Value) -> Option<Self> {
        let Some(escaped) = escape(name) else {
            return Self::new(schema, is_resource(schema));
        };
        let Kind::Object(object) = &self.decl.kind else { return None };
        let decl = object.fields.get(&*escaped)?.clone();
        Some(Self { decl, name: self.step(&escaped) })
    }

    /// That of the items of a list, or the values of a map.
    pub(crate) fn element(&self) -> Option<Self> {
        let (decl, step) = match &self.decl.kind {
            Kind::List(item) => ((**item).clone(), "@idx"),
            Kind::Map(parts) => (parts.1.clone(), "@elem"),
            _ => return None,
        };
        Some(Self { decl, name: self.step(step) })
    }

    fn step(&self, step: &str) -> String {
        // A name of that length was cut when it was declared.
        if self.name.len() + step.len() > NAME_BYTES_MAX {
            SELF_TYPE.to_owned()
        } else {
            format!("{}.{step}", self.name)
        }
    }

    /// A text that names types by where they were declared, naming them by where `self` is.
    pub(crate) fn rename(&self, text: String) -> String {
        if self.name == SELF_TYPE { text } else { text.replace(&self.name, SELF_TYPE) }
    }
}

/// The name of the next object. Each object has its own, so those that follow from long names of fields are cut, and
/// counted instead.
struct Name {
    text: String,
    cut: u32,
}

/// With one more step in the name.
fn step(schema: &Value, name: &mut Name, step: &str) -> Option<Decl> {
    let mark = name.text.len();
    name.text.push('.');
    if mark + step.len() > NAME_BYTES_MAX {
        name.cut += 1;
        name.text.push_str(&name.cut.to_string());
    } else {
        name.text.push_str(step);
    }
    let decl = below(schema, is_resource(schema), name);
    name.text.truncate(mark);
    decl
}

/// The declaration of a schema under a name of its own; see [`Declared::new`].
pub(crate) fn declaration(schema: &Value, is_root: bool, name: &str) -> Option<Decl> {
    below(schema, is_root, &mut Name { text: name.to_owned(), cut: 0 })
}

fn below(schema: &Value, is_root: bool, name: &mut Name) -> Option<Decl> {
    let plain = |ty: Type, min_serialized_size: u64, max_elements: u64| {
        Some(Decl { kind: Kind::Plain(ty), max_elements, min_serialized_size })
    };
    let max_length = || bound(schema, "maxLength");
    if flag(schema, "x-kubernetes-int-or-string") {
        return plain(Type::Dyn, 1, max_length().map_or(REQUEST_BYTES_MAX - 2, |max| max.saturating_mul(4)));
    }
    match type_of(schema) {
        "array" => {
            let item = step(item(schema)?, name, "@idx")?;
            let max =
                bound(schema, "maxItems").unwrap_or((REQUEST_BYTES_MAX - 2) / (item.min_serialized_size + 1));
            Some(Decl { kind: Kind::List(Arc::new(item)), max_elements: max, min_serialized_size: 2 })
        }
        "object" => match additional_properties(schema) {
            Some(OrBool::Schema(of)) => map(schema, of, name),
            _ => Some(object(schema, is_root, name)),
        },
        "string" => match text(schema, "format") {
            "byte" => plain(Type::Bytes, STRING_MIN, max_length().unwrap_or(REQUEST_BYTES_MAX - 2)),
            "duration" => plain(Type::Duration, DURATION_MIN, DATE_TIME_MAX),
            "date" => plain(Type::Timestamp, DATE_SIZE, DATE_SIZE),
            "date-time" => plain(Type::Timestamp, DATE_TIME_MIN, DATE_TIME_MAX),
            // A character has up to four bytes.
            _ => plain(
                Type::String,
                STRING_MIN,
                max_length().map_or_else(|| longest(schema), |max| max.saturating_mul(4)),
            ),
        },
        "boolean" => plain(Type::Bool, 4, 0),
        "number" => plain(Type::Double, 1, 0),
        "integer" => plain(Type::Int, 1, 0),
        _ => None,
    }
}

fn map(schema: &Value, of: &Value, name: &mut Name) -> Option<Decl> {
    let value = step(of, name, "@elem")?;
    let max =
        bound(schema, "maxProperties").unwrap_or((REQUEST_BYTES_MAX - 2) / (value.min_serialized_size + 6));
    let key = Decl { kind: Kind::Plain(Type::String), max_elements: 0, min_serialized_size: STRING_MIN };
    Some(Decl { kind: Kind::Map(Arc::new((key, value))), max_elements: max, min_serialized_size: 2 })
}

fn object(schema: &Value, is_root: bool, name: &mut Name) -> Decl {
    let required: HashSet<&str> = list(schema, "required").iter().filter_map(Value::as_str).collect();
    let mut fields: BTreeMap<Box<str>, Decl> = BTreeMap::new();
    let mut min_serialized_size = 2;
    let mut add = |field: &str, decl: Decl, has_default: bool| {
        if required.contains(field) && !has_default {
            min_serialized_size += field.len() as u64 + decl.min_serialized_size + 4;
        }
        if let Some(escaped) = escape(field) {
            fields.insert(escaped.into(), decl);
        }
    };
    let describes_itself = !is_root || has_type_and_object_meta(schema);
    for (field, property) in entries(schema, "properties") {
        if !describes_itself && matches!(field, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        // A name that cannot be written still takes its bytes.
        if let Some(decl) = step(property, name, escape(field).as_deref().unwrap_or_default()) {
            add(field, decl, has_default(property));
        }
    }
    if !describes_itself {
        let string = |max_elements: u64| Decl {
            kind: Kind::Plain(Type::String),
            max_elements,
            min_serialized_size: STRING_MIN,
        };
        add("apiVersion", string(REQUEST_BYTES_MAX - 2), false);
        add("kind", string(REQUEST_BYTES_MAX - 2), false);
        add(
            "metadata",
            metadata(property(schema, "metadata"), &format!("{}.metadata", name.text), &string),
            false,
        );
    }
    let object = Object { name: name.text.clone(), fields };
    Decl { kind: Kind::Object(Arc::new(object)), max_elements: 0, min_serialized_size }
}

/// The metadata of a resource: its names, no longer than they can be.
fn metadata(schema: Option<&Value>, name: &str, string: &impl Fn(u64) -> Decl) -> Decl {
    let fields = [("name", NAME_MAX), ("generateName", NAME_MAX - 1)].into_iter().map(|(field, max)| {
        let own = schema.and_then(|s| property(s, field)).and_then(|s| bound(s, "maxLength"));
        (field.into(), string(own.unwrap_or(max).min(max).saturating_mul(4)))
    });
    let object = Object { name: name.to_owned(), fields: fields.collect() };
    Decl { kind: Kind::Object(Arc::new(object)), max_elements: 0, min_serialized_size: 2 }
}

/// `true` if the schema of a resource describes all that rules may always see (`model.WithTypeAndObjectMeta`).
pub(crate) fn has_type_and_object_meta(schema: &Value) -> bool {
    let is = |schema: Option<&Value>, kind: &str| schema.is_some_and(|s| type_of(s) == kind);
    let metadata = property(schema, "metadata");
    is(property(schema, "kind"), "string")
        && is(property(schema, "apiVersion"), "string")
        && is(metadata, "object")
        && ["name", "generateName"]
            .iter()
            .all(|field| is(metadata.and_then(|m| property(m, field)), "string"))
}

fn is_resource(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

fn has_default(schema: &Value) -> bool {
    has(schema, "default") && schema.get("default") != Some(&Value::Null)
}

fn bound(schema: &Value, keyword: &str) -> Option<u64> {
    match schema.get(keyword) {
        Some(Value::Int(n)) => Some(u64::try_from(*n).unwrap_or(0)),
        _ => None,
    }
}

/// The most bytes of a string without `maxLength`.
fn longest(schema: &Value) -> u64 {
    let choices = list(schema, "enum");
    if choices.is_empty() {
        return REQUEST_BYTES_MAX - 2;
    }
    choices.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;
    use kindom_cel::cost::Bounds;
    use kindom_cel::decl::{Decl, Kind};

    use super::Declared;

    fn decl(schema: &str, is_root: bool) -> Option<Decl> {
        Declared::new(&parse(schema.as_bytes()).unwrap(), is_root).map(|declared| declared.decl)
    }

    /// The most elements and the least bytes.
    fn check(schema: &str, want: Option<(u64, u64)>) {
        let got = decl(schema, false).map(|decl| (decl.max_elements, decl.min_serialized_size));
        assert_eq!(got, want, "{schema}");
    }

    #[test]
    fn bounds() {
        check(r#"{"type":"string"}"#, Some((3_145_726, 2)));
        check(r#"{"type":"string","maxLength":10}"#, Some((40, 2)));
        check(r#"{"type":"string","maxLength":-1}"#, Some((0, 2)));
        check(r#"{"type":"string","enum":["a","abc"]}"#, Some((3, 2)));
        check(r#"{"type":"string","format":"byte","maxLength":10}"#, Some((10, 2)));
        check(r#"{"type":"string","format":"date-time"}"#, Some((32, 21)));
        check(r#"{"type":"string","format":"date"}"#, Some((12, 12)));
        check(r#"{"type":"string","format":"duration"}"#, Some((32, 3)));
        check(r#"{"type":"boolean"}"#, Some((0, 4)));
        check(r#"{"x-kubernetes-int-or-string":true,"maxLength":3}"#, Some((12, 1)));
        check(r#"{"type":"array","items":{"type":"boolean"}}"#, Some((629_145, 2)));
        check(r#"{"type":"array","maxItems":7,"items":{"type":"boolean"}}"#, Some((7, 2)));
        check(r#"{"type":"object","additionalProperties":{"type":"integer"}}"#, Some((449_389, 2)));
        check(
            r#"{"type":"object","required":["ab","d"],"properties":{"ab":{"type":"integer"},"c":{"type":"string"},"d":{"type":"string","default":""}}}"#,
            Some((0, 9)),
        );
    }

    #[test]
    fn what_no_expression_sees() {
        check(r#"{"x-kubernetes-preserve-unknown-fields":true}"#, None);
        check(r#"{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}}"#, None);
        let object = decl(
            r#"{"type":"object","properties":{"a-b":{"type":"integer"},"é":{"type":"integer"},"any":{}}}"#,
            false,
        );
        let Kind::Object(object) = object.unwrap().kind else { panic!("an object") };
        assert_eq!(object.fields.keys().map(|k| &**k).collect::<Vec<_>>(), ["a__dash__b"]);
    }

    #[test]
    fn long_names_of_fields_make_no_long_names_of_types() {
        let long = "a".repeat(10_000);
        let object = r#"{"type":"object"}"#;
        let schema = format!(
            r#"{{"type":"object","properties":{{"{long}":{{"type":"object","properties":{{"b":{object},"c":{object}}}}}}}}}"#
        );
        let Kind::Object(root) = decl(&schema, false).unwrap().kind else { panic!("an object") };
        let Kind::Object(inner) = &root.fields[&*long].kind else { panic!("an object") };
        let name = |field: &str| match &inner.fields[field].kind {
            Kind::Object(object) => object.name.clone(),
            _ => panic!("an object"),
        };
        assert_eq!(
            [inner.name.clone(), name("b"), name("c")],
            ["selfType.1", "selfType.1.b", "selfType.1.c"]
        );
    }

    #[test]
    fn a_resource_has_names_whatever_its_schema_says() {
        let root = decl(
            r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":5}}},
                "spec":{"type":"object","properties":{"list":{"type":"array","items":{"type":"object"}}}}}}"#,
            true,
        )
        .unwrap();
        assert_eq!(root.max_elements(&["metadata", "name"]), Some(20));
        assert_eq!(root.max_elements(&["metadata", "generateName"]), Some(1008));
        assert_eq!(root.max_elements(&["metadata", "labels"]), None);
        assert_eq!(root.max_elements(&["kind"]), Some(3_145_726));
        let Kind::Object(object) = &root.kind else { panic!("an object") };
        let Kind::Object(spec) = &object.fields["spec"].kind else { panic!("an object") };
        let Kind::List(items) = &spec.fields["list"].kind else { panic!("a list") };
        let Kind::Object(item) = &items.kind else { panic!("an object") };
        assert_eq!(item.name, "selfType.spec.list.@idx");
    }
}
