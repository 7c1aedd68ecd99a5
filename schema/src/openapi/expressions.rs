//! The types that expressions see of objects, by their published schemas (`apiserver/pkg/cel/openapi/resolver/refs.go`,
//! `pkg/cel/common/schemas.go`, 1.37).

use kindom_api::{Map, Value, object};
use kindom_cel::decl::Decl;

use super::document::own_schemas;
use super::{Form, GroupVersionDoc, Names, TypeDoc, published, shared};
use crate::rules::declaration;

/// The format of an integer or a string, in schemas of built-in kinds.
const INT_OR_STRING: &str = "int-or-string";

/// The most schemas that one is made of. Those of built-in kinds have some thousands; a registration may refer to the schema of
/// metadata very often.
const SCHEMAS_MAX: usize = 20_000;

/// The type of a kind's objects, under a name for messages; none if its schema is not known, or too large.
#[must_use]
pub fn type_of_objects(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>, name: &str) -> Option<Decl> {
    let names = Names::of(gv, doc);
    let (own, shared) = (own_schemas(gv, doc, &names), shared());
    let shared = shared.get("schemas").and_then(Value::as_object);
    let mut expansion = Expansion { own: &own, shared, within: Vec::new(), left: SCHEMAS_MAX };
    let whole = match doc.built_in {
        true => expansion.named(&names.schema)?,
        false => expansion.whole(&published::object(gv, doc, Form::V3))?,
    };
    declaration(&whole, true, name)
}

/// A schema that gets those that it refers to in their places.
struct Expansion<'a> {
    own: &'a Map,
    shared: Option<&'a Map>,
    /// The names of the schemas around.
    within: Vec<&'a str>,
    /// The number of schemas that it may still be made of.
    left: usize,
}

impl<'a> Expansion<'a> {
    /// A schema with those that it refers to in their places (`populateRefs`), and what types depend on; none if it is too large.
    fn whole(&mut self, schema: &Value) -> Option<Value> {
        match referred(schema) {
            Some(name) => self.named(name),
            None => self.parts(schema),
        }
    }

    /// The schema of a name. None is within itself.
    fn named(&mut self, name: &str) -> Option<Value> {
        let of = |schemas: &'a Map| schemas.iter().find(|(known, _)| *known == name);
        let (name, schema) = of(self.own).or_else(|| self.shared.and_then(of))?;
        if self.within.contains(&name) {
            return Some(object! { "type": "object" });
        }
        self.within.push(name);
        let whole = self.parts(schema);
        self.within.pop();
        whole
    }

    fn parts(&mut self, schema: &Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let mut out = Map::new();
        for (keyword, value) in schema.as_object().into_iter().flat_map(Map::iter) {
            match (keyword, value) {
                ("properties", Value::Object(fields)) => {
                    let fields = fields.iter().map(|(name, schema)| Some((name, self.whole(schema)?)));
                    out.insert(keyword, fields.collect::<Option<Map>>()?);
                }
                ("items" | "additionalProperties", Value::Object(_)) => {
                    out.insert(keyword, self.whole(value)?);
                }
                ("format", Value::String(format)) if format == INT_OR_STRING => {
                    out.insert("x-kubernetes-int-or-string", true);
                }
                (
                    "type"
                    | "format"
                    | "x-kubernetes-int-or-string"
                    | "x-kubernetes-embedded-resource"
                    | "x-kubernetes-preserve-unknown-fields",
                    _,
                ) => drop(out.insert(keyword, value.clone())),
                _ => {}
            }
        }
        Some(out.into())
    }
}

/// The name of the schema that one refers to, perhaps by an `allOf` that keeps its description beside it.
fn referred(schema: &Value) -> Option<&str> {
    let own = schema.get("$ref").and_then(Value::as_str);
    let own = own.map(|reference| reference.strip_prefix(Form::V3.schemas()).unwrap_or(reference));
    own.or_else(|| schema.get("allOf")?.as_array()?.iter().find_map(referred))
}
