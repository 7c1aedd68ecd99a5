//! All fields of a new object: what [`super::validate`] and [`super::compare`] with nothing come to, in one walk.

use kindom_api::Value;
use kindom_schema::merge::{ListRelation, ListType, MergeType};

use super::validate::scalar_error;
use super::{Atom, atom, field_type, items};
use crate::set::Node;
use crate::{PathElement, Set};

/// All fields of a value: each place in it, down to what has one owner. None if it is not of its type, which
/// [`super::validate`] can tell more of. Items of sets and keyed lists may stand twice.
pub(crate) fn whole<'a>(value: &'a Value, ty: MergeType<'a>) -> Option<Set<'a>> {
    node(value, ty).map(|node| node.below)
}

fn node<'a>(value: &'a Value, ty: MergeType<'a>) -> Option<Node<'a>> {
    match (atom(ty, Some(value)).0, value) {
        (Some(Atom::Scalar(scalar)), value) => scalar_error(scalar, value).is_none().then_some(Node::LEAF),
        (Some(Atom::Map(_) | Atom::List(_)), Value::Null) | (None, _) => Some(Node::LEAF),
        (Some(Atom::Map(ty)), Value::Object(fields)) => {
            let is_atomic = ty.is_atomic();
            let mut below = Set::with_room(if is_atomic { 0 } else { fields.len() });
            for (name, value) in fields.iter() {
                let node = node(value, field_type(ty, name)?)?;
                if !is_atomic {
                    below.push(PathElement::Field(name), node);
                }
            }
            Some(Node { member: true, below })
        }
        (Some(Atom::List(ty)), Value::Array(items)) => list(items, ty),
        (Some(Atom::Map(_) | Atom::List(_)), _) => None,
    }
}

fn list<'a>(list: &'a [Value], ty: ListType<'a>) -> Option<Node<'a>> {
    if matches!(ty.relation(), ListRelation::Atomic) {
        for item in list {
            node(item, ty.element())?;
        }
        return Some(Node::LEAF);
    }
    let mut known = Vec::with_capacity(list.len());
    for item in list {
        known.push((items::element_of(ty, item).ok()?, node(item, ty.element())?));
    }
    known.sort_by(|(a, _), (b, _)| a.cmp(b));
    // What stands twice is owned as a whole.
    known.dedup_by(|(later, _), (first, node)| {
        let same = later == first;
        if same {
            *node = Node::LEAF;
        }
        same
    });
    let mut below = Set::with_room(known.len());
    for (element, node) in known {
        below.push(element, node);
    }
    Some(Node { member: true, below })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use kindom_api::{Map, Value, json};
    use kindom_schema::Schema;
    use proptest::prelude::*;

    use super::super::{Duplicates, compare, validate};
    use super::whole;

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
        let of = |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| (name, value));
        prop_oneof![
            4 => of("n", number().boxed()),
            4 => of("s", text().boxed()),
            2 => of("i", prop_oneof![number(), text()].boxed()),
            4 => of("m", object("[no]", number()).boxed()),
            4 => of("a", object("[no]", number()).boxed()),
            4 => of("o", anything().boxed()),
            4 => of("l", list(number()).boxed()),
            4 => of("e", list((0_i64..3).prop_map(Value::from)).boxed()),
            8 => of("k", list(item()).boxed()),
            1 => of("k", anything().boxed()),
            1 => anything().prop_map(|value| ("unknown", value)),
        ]
    }

    proptest! {
        #[test]
        fn one_walk_comes_to_what_two_do(fields in prop::collection::vec(field(), 0..6)) {
            let ty = THINGS.merge_type();
            let object = Value::Object(fields.into_iter().collect());
            let nothing = Value::Object([("kind", "Thing")].into_iter().collect());
            let two = validate(&object, ty, Duplicates::Allowed, None).ok().map(|()| {
                compare(&nothing, &object, ty).unwrap().added
            });
            prop_assert_eq!(whole(&object, ty), two, "{}", object);
        }
    }
}
