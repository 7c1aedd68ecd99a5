//! The fields of a new object in their wire form, in one walk: what [`super::validate`], [`super::compare`] with nothing
//! and the encoding of a set make of it. Every create needs it.

use kindom_api::json::Key;
use kindom_api::{Map, Value};
use kindom_schema::merge::{ListRelation, ListType, MapType, MergeType};

use super::validate::scalar_error;
use super::{Atom, atom, field_type, items};
use crate::{fields_v1, unmanaged};

/// The fields that a new object sets and its writer manages: all but those of `reset`, and those that nobody manages.
/// None where the object is not of its type; [`super::validate`] says why.
pub(crate) fn created(object: &Value, ty: MergeType<'_>, reset: &[&str]) -> Option<Value> {
    let (Some(Atom::Map(ty)), Value::Object(object)) = (atom(ty, Some(object)).0, object) else {
        return None;
    };
    if ty.is_atomic() {
        return None;
    }
    let mut out = Vec::with_capacity(object.len());
    for (name, value) in object.iter() {
        let field = field_type(ty, name)?;
        let below = match (value, field.map()) {
            (Value::Object(map), Some(ty)) if name == "metadata" && !ty.is_atomic() => {
                let below = fields(map, ty, false, |name| !unmanaged::in_metadata(name))?;
                (!below.is_empty()).then_some(below)
            }
            _ => Some(contents(value, field)?).filter(|_| !unmanaged::at_top(name)),
        };
        if !reset.contains(&name) {
            out.extend(below.map(|below| (fields_v1::field_key(name), below.into())));
        }
    }
    Some(Value::Object(Map::from_entries(out)))
}

/// The fields at and below a value that is a member itself, as everything in a new object is.
fn contents(value: &Value, ty: MergeType<'_>) -> Option<Map> {
    match (atom(ty, Some(value)).0?, value) {
        (Atom::Scalar(scalar), value) => scalar_error(scalar, value).is_none().then(Map::new),
        (Atom::Map(_) | Atom::List(_), Value::Null) => Some(Map::new()),
        (Atom::Map(ty), Value::Object(map)) => fields(map, ty, true, |_| true),
        (Atom::List(ty), Value::Array(list)) => list_items(list, ty),
        _ => None,
    }
}

fn fields(map: &Map, ty: MapType<'_>, member: bool, keep: impl Fn(&str) -> bool) -> Option<Map> {
    let leaf = ty.is_atomic();
    let mut out = Vec::with_capacity(if leaf { 0 } else { map.len() + 1 });
    for (name, value) in map.iter() {
        let below = contents(value, field_type(ty, name)?)?;
        if !leaf && keep(name) {
            out.push((fields_v1::field_key(name), below.into()));
        }
    }
    Some(with_self(out, member))
}

/// Adds the member itself (`.`) to the fields below it; without fields below, the entry alone means that.
fn with_self(mut out: Vec<(Key, Value)>, member: bool) -> Map {
    if member && !out.is_empty() {
        out.insert(0, (fields_v1::SELF, Map::new().into()));
    }
    Map::from_entries(out)
}

fn list_items(list: &[Value], ty: ListType<'_>) -> Option<Map> {
    if matches!(ty.relation(), ListRelation::Atomic) {
        list.iter().try_for_each(|item| contents(item, ty.element()).map(drop))?;
        return Some(Map::new());
    }
    let mut out: Vec<(Key, Value)> = Vec::with_capacity(list.len() + 1);
    for item in list {
        let key = fields_v1::key(&items::element_of(ty, item).ok()?);
        // A zero with a sign is the same element as one without, which only a set sees.
        if key == "v:-0" || key.starts_with("k:") && key.contains(":-0") {
            return None;
        }
        out.push((key, contents(item, ty.element())?.into()));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    // Items that occur twice are owned as a whole.
    out.dedup_by(|later, first| {
        let twice = later.0 == first.0;
        if twice {
            first.1 = Map::new().into();
        }
        twice
    });
    Some(with_self(out, true))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use kindom_api::{Map, Value, json};
    use kindom_schema::Schema;
    use proptest::prelude::*;

    use super::super::{Duplicates, compare, validate};
    use super::created;
    use crate::fields_v1;
    use crate::unmanaged::strip;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "n":{"type":"integer"},"s":{"type":"string"},"i":{"x-kubernetes-int-or-string":true},
        "m":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}},
        "a":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"n":{"type":"integer"}}},
        "o":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
        "l":{"type":"array","items":{"type":"integer"}},
        "e":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},
        "k":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n","s"],"items":{
            "type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string","default":"d"},
                "m":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}}"#;

    static THINGS: LazyLock<Schema> =
        LazyLock::new(|| Schema::compile(Some(&json::parse(SCHEMA.as_bytes()).unwrap()), false).unwrap());

    fn anything() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), (0_i64..3).prop_map(Value::from), "[ab]?".prop_map(Value::from)];
        leaf.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                object("[nsimo]", inner)
            ]
        })
    }

    fn object(names: &'static str, of: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        prop::collection::vec((names, of), 0..4).prop_map(|fields| fields.into_iter().collect::<Map>().into())
    }

    fn number() -> impl Strategy<Value = Value> {
        prop_oneof![9 => (0_i64..3).prop_map(Value::from), 1 => Just(Value::Float(1.0)), 1 => Just(Value::Null)]
    }

    fn text() -> impl Strategy<Value = Value> {
        "[d-f]?".prop_map(Value::from)
    }

    fn list(of: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        prop::collection::vec(of, 0..4).prop_map(Value::from)
    }

    /// Items of the keyed list, some without a key, some alike.
    fn item() -> impl Strategy<Value = Value> {
        let key = prop::option::weighted(0.8, (0_i64..2).prop_map(Value::from));
        (key, prop::option::of(text()), prop::option::of(object("n", number()))).prop_map(|(n, s, m)| {
            let fields = [("n", n), ("s", s), ("m", m)];
            Value::Object(fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
        })
    }

    /// A field that is mostly of its type.
    fn field() -> impl Strategy<Value = (&'static str, Value)> {
        let field =
            |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| (name, value));
        prop_oneof![
            4 => field("n", number().boxed()),
            4 => field("s", text().boxed()),
            2 => field("i", prop_oneof![number(), text()].boxed()),
            4 => field("m", object("[no]", number()).boxed()),
            4 => field("a", object("[no]", number()).boxed()),
            4 => field("o", anything().boxed()),
            4 => field("l", list(number()).boxed()),
            4 => field("e", list((0_i64..3).prop_map(Value::from)).boxed()),
            8 => field("k", list(item()).boxed()),
            1 => field("k", anything().boxed()),
            1 => anything().prop_map(|value| ("unknown", value)),
        ]
    }

    proptest! {
        #[test]
        fn one_walk_comes_to_what_three_do(fields in prop::collection::vec(field(), 0..6)) {
            let ty = THINGS.merge_type();
            let object = Value::Object(fields.into_iter().collect());
            let nothing = Value::Object([("kind", "Thing")].into_iter().collect());
            let three = validate(&object, ty, Duplicates::Allowed).ok().map(|()| {
                let added = compare(&nothing, &object, ty).unwrap().added;
                fields_v1::encode(&strip(added.without_fields(&["s"])))
            });
            prop_assert_eq!(created(&object, ty, &["s"]), three, "{}", object);
        }
    }
}
