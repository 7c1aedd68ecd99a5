//! The shape of a type's field: its schema, and values for it.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// The kinds of fields that merge differently.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Text,
    Whole,
    Truth,
    Number,
    IntOrText,
    /// Named fields, each merged for itself.
    Map(Vec<(String, Shape)>),
    /// Named fields that are one value.
    AtomicMap(Vec<(String, Shape)>),
    /// Any keys.
    Dict(Box<Shape>),
    AtomicDict(Box<Shape>),
    /// A list that is one value.
    List(Box<Shape>),
    Set(Box<Shape>),
    /// A list by keys. The keys come first; a key may have a default.
    Keyed(Vec<(String, Shape)>, Vec<(String, Shape)>),
    /// Some known fields, and whatever else.
    Open(Vec<(String, Shape)>),
    /// No type at all.
    Any,
    /// Null is a value.
    Nullable(Box<Shape>),
    Default(Box<Shape>, Value),
}

use Shape::{
    Any, AtomicDict, AtomicMap, Default, Dict, IntOrText, Keyed, List, Map as Fields, Nullable, Number, Open,
    Set, Text, Truth, Whole,
};

fn properties(fields: &[(String, Shape)]) -> Value {
    fields.iter().map(|(name, shape)| (name.clone(), shape.schema())).collect::<Map<_, _>>().into()
}

impl Shape {
    /// The structural schema.
    pub(super) fn schema(&self) -> Value {
        match self {
            Text => json!({"type": "string"}),
            Whole => json!({"type": "integer"}),
            Truth => json!({"type": "boolean"}),
            Number => json!({"type": "number"}),
            IntOrText => json!({"x-kubernetes-int-or-string": true}),
            Fields(fields) => json!({"type": "object", "properties": properties(fields)}),
            AtomicMap(fields) => {
                json!({"type": "object", "properties": properties(fields), "x-kubernetes-map-type": "atomic"})
            }
            Dict(of) => json!({"type": "object", "additionalProperties": of.schema()}),
            AtomicDict(of) => {
                json!({"type": "object", "additionalProperties": of.schema(), "x-kubernetes-map-type": "atomic"})
            }
            List(of) => json!({"type": "array", "items": of.schema()}),
            Set(of) => json!({"type": "array", "items": of.schema(), "x-kubernetes-list-type": "set"}),
            Keyed(keys, fields) => {
                let names: Vec<&String> = keys.iter().map(|(name, _)| name).collect();
                let required: Vec<&String> = keys
                    .iter()
                    .filter(|(_, key)| !matches!(key, Default(..)))
                    .map(|(name, _)| name)
                    .collect();
                let all: Vec<_> = keys.iter().chain(fields).cloned().collect();
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": names,
                    "items": {"type": "object", "required": required, "properties": properties(&all)}})
            }
            Open(fields) => json!({"type": "object", "properties": properties(fields),
                "x-kubernetes-preserve-unknown-fields": true}),
            Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
            Nullable(of) => with(of.schema(), "nullable", Value::Bool(true)),
            Default(of, value) => with(of.schema(), "default", value.clone()),
        }
    }

    /// The same fields, with the other way of merging: granular ones as one value and atomic ones by their parts.
    pub(super) fn flipped(&self) -> Self {
        match self {
            Fields(fields) => AtomicMap(fields.clone()),
            AtomicMap(fields) => Fields(fields.clone()),
            Dict(of) => AtomicDict(of.clone()),
            AtomicDict(of) => Dict(of.clone()),
            Set(of) => List(of.clone()),
            Nullable(of) => Nullable(Box::new(of.flipped())),
            other => other.clone(),
        }
    }

    /// A value for it, now and then one that it cannot have.
    pub(super) fn value(&self, random: &mut Random) -> Value {
        if random.below(150) == 0 && !matches!(self, Any) {
            return odd(random);
        }
        match self {
            Text => random.text(&["x", "y", "z", ""]).into(),
            Whole => random.below(3).into(),
            Truth => random.percent(50).into(),
            Number => random.one(&[json!(0), json!(1), json!(1.5), json!(1.0)]).cloned().unwrap_or_default(),
            IntOrText => random.one(&[json!(1), json!("1"), json!("a")]).cloned().unwrap_or_default(),
            Fields(fields) | AtomicMap(fields) => some(fields, 50, random).into(),
            Dict(of) | AtomicDict(of) => {
                let mut members = Map::new();
                for _ in 0..random.below(3) {
                    members.insert(random.text(&["a", "b", "c.d/e"]).to_owned(), of.value(random));
                }
                members.into()
            }
            List(of) => (0..random.below(3)).map(|_| of.value(random)).collect(),
            Set(of) => {
                let mut items: Vec<Value> = Vec::new();
                for _ in 0..random.below(4) {
                    let item = of.value(random);
                    if !items.contains(&item) || random.percent(2) {
                        items.push(item);
                    }
                }
                items.into()
            }
            Keyed(keys, fields) => {
                let mut items: Vec<Map<String, Value>> = Vec::new();
                for _ in 0..random.below(4) {
                    // A key with a default may be left out, and any by mistake.
                    let mut item = Map::new();
                    for (name, key) in keys {
                        if random.percent(if matches!(key, Default(..)) { 50 } else { 99 }) {
                            item.insert(name.clone(), key.value(random));
                        }
                    }
                    let known = keys.iter().map(|(name, _)| name);
                    let twice =
                        items.iter().any(|other| known.clone().all(|name| other.get(name) == item.get(name)));
                    if !twice || random.percent(2) {
                        item.extend(some(fields, 50, random));
                        items.push(item);
                    }
                }
                items.into_iter().map(Value::Object).collect()
            }
            Open(fields) => {
                let mut members = some(fields, 50, random);
                for _ in 0..random.below(3) {
                    members.insert(random.text(&["p", "q", "r"]).to_owned(), anything(random, 2));
                }
                members.into()
            }
            // Upstream stores such a null and drops it whenever it reads it.
            Any => match anything(random, 2) {
                Value::Null => json!({}),
                other => other,
            },
            Nullable(of) => {
                if random.percent(15) {
                    Value::Null
                } else {
                    of.value(random)
                }
            }
            Default(of, _) => of.value(random),
        }
    }

    /// A shape of chance, so deep at most.
    pub(super) fn random(random: &mut Random, depth: usize) -> Self {
        let leaf = |random: &mut Random| match random.below(5) {
            0 => Whole,
            1 => Truth,
            2 => IntOrText,
            _ => Text,
        };
        if depth == 0 {
            return leaf(random);
        }
        let inner = |random: &mut Random| Box::new(Self::random(random, depth - 1));
        match random.below(13) {
            0 | 1 => Fields(Self::fields(random, depth - 1)),
            2 => AtomicMap(Self::fields(random, depth - 1)),
            3 | 4 => Dict(inner(random)),
            5 => AtomicDict(inner(random)),
            6 => List(inner(random)),
            7 => Set(Box::new(if random.percent(70) { Text } else { Whole })),
            8 | 9 => {
                let mut keys = vec![("k".to_owned(), Text)];
                if random.percent(40) {
                    keys.push(("n".to_owned(), Default(Box::new(Whole), json!(1))));
                }
                Keyed(keys, Self::fields(random, depth - 1))
            }
            10 => Open(Self::fields(random, depth - 1)),
            11 => Nullable(match random.below(3) {
                0 => Box::new(Dict(Box::new(Text))),
                1 => Box::new(Set(Box::new(Text))),
                _ => Box::new(Fields(Self::fields(random, depth - 1))),
            }),
            _ => leaf(random),
        }
    }

    pub(super) fn fields(random: &mut Random, depth: usize) -> Vec<(String, Shape)> {
        let names = ["a", "b", "c", "d"];
        let count = 2 + random.below(3);
        names.iter().take(count).map(|name| ((*name).to_owned(), Self::random(random, depth))).collect()
    }
}

/// Some of the fields, each so likely.
pub(super) fn some(fields: &[(String, Shape)], percent: usize, random: &mut Random) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, shape) in fields {
        if random.percent(percent) {
            members.insert(name.clone(), shape.value(random));
        }
    }
    if random.below(150) == 0 {
        members.insert("unknown".to_owned(), anything(random, 1));
    }
    members
}

/// A value of no type.
fn anything(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 4 } else { 7 }) {
        0 => random.text(&["x", "y"]).into(),
        1 => random.below(2).into(),
        2 => random.percent(50).into(),
        3 => Value::Null,
        4 => (0..random.below(3)).map(|_| anything(random, depth - 1)).collect(),
        _ => {
            let mut members = Map::new();
            for _ in 0..random.below(3) {
                members.insert(random.text(&["s", "t", "u"]).to_owned(), anything(random, depth - 1));
            }
            members.into()
        }
    }
}

fn odd(random: &mut Random) -> Value {
    random
        .one(&[Value::Null, json!("odd"), json!(7), json!([]), json!({}), json!([null]), json!({"odd": 1})])
        .cloned()
        .unwrap_or_default()
}

fn with(mut schema: Value, key: &str, value: Value) -> Value {
    put(&mut schema, &[key], value);
    schema
}

/// Sets a member of a member, making the objects on the way.
pub(super) fn put(object: &mut Value, path: &[&str], value: Value) {
    let (Some((first, rest)), Value::Object(members)) = (path.split_first(), object) else { return };
    if rest.is_empty() {
        members.insert((*first).to_owned(), value);
    } else {
        put(members.entry(*first).or_insert_with(|| json!({})), rest, value);
    }
}
