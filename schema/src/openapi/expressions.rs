//! The types that expressions see of objects, by their published schemas (`apiserver/pkg/cel/openapi/resolver/refs.go`,
//! `pkg/cel/common/schemas.go`, 1.37).

use kindom_api::{Map, Value, object};
use kindom_cel::decl::Decl;

use super::document::own_schemas;
use super::{Form, GroupVersionDoc, Names, TypeDoc, published, shared};
use crate::rules::declaration;

/// The format of an integer or a string, in schemas of built-in kinds.
const INT_OR_STRING: &str = "int-or-string";

/// The type of a kind's objects, whose name in messages is the kind's; none if expressions cannot see them.
#[must_use]
pub fn type_of_objects(gv: &GroupVersionDoc<'_>, doc: &TypeDoc<'_>) -> Option<Decl> {
    let names = Names::of(gv, doc);
    let (own, shared) = (own_schemas(gv, doc, &names), shared());
    let schemas = Schemas { own: &own, shared: shared.get("schemas").and_then(Value::as_object) };
    let mut within = Vec::new();
    let whole = match doc.built_in {
        true => {
            within.push(names.schema.clone());
            schemas.whole(schemas.get(&names.schema)?, &mut within)
        }
        false => schemas.whole(&published::object(gv, doc, Form::V3), &mut within),
    };
    declaration(&whole, true, doc.kind)
}

/// The schemas that others refer to.
struct Schemas<'a> {
    own: &'a Map,
    shared: Option<&'a Map>,
}

impl<'a> Schemas<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.own.get(name).or_else(|| self.shared?.get(name))
    }

    /// A schema with those that it refers to in their places (`populateRefs`), and what types depend on. `within`: the schemas that
    /// it is a part of, of which none is in itself again.
    fn whole(&self, schema: &Value, within: &mut Vec<String>) -> Value {
        let Some(name) = referred(schema) else { return self.parts(schema, within) };
        let found = self.get(name).filter(|_| !within.iter().any(|outer| outer == name));
        let Some(found) = found else {
            return object! { "type": "object" };
        };
        within.push(name.to_owned());
        let whole = self.parts(found, within);
        within.pop();
        whole
    }

    fn parts(&self, schema: &Value, within: &mut Vec<String>) -> Value {
        let mut out = Map::new();
        for (keyword, value) in schema.as_object().into_iter().flat_map(Map::iter) {
            match (keyword, value) {
                ("properties", Value::Object(fields)) => {
                    let fields = fields.iter().map(|(name, schema)| (name, self.whole(schema, within)));
                    out.insert(keyword, fields.collect::<Map>());
                }
                ("items" | "additionalProperties", Value::Object(_)) => {
                    out.insert(keyword, self.whole(value, within));
                }
                ("format", Value::String(format)) if format == INT_OR_STRING => {
                    out.insert("x-kubernetes-int-or-string", true);
                }
                ("description" | "allOf" | "anyOf" | "oneOf" | "not" | "x-kubernetes-validations", _) => {}
                _ => drop(out.insert(keyword, value.clone())),
            }
        }
        out.into()
    }
}

/// The name of the schema that one refers to, perhaps by an `allOf` that keeps its description beside it.
fn referred(schema: &Value) -> Option<&str> {
    let own = schema.get("$ref").and_then(Value::as_str);
    let own = own.map(|reference| reference.strip_prefix(Form::V3.schemas()).unwrap_or(reference));
    own.or_else(|| schema.get("allOf")?.as_array()?.iter().find_map(referred))
}
