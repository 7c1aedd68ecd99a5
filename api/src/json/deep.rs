//! Dropping, cloning, comparing and measuring a tree of any depth on a small stack.

use std::cell::Cell;
use std::slice;

use super::{Key, List, Map, Value};

/// So many levels are walked by recursion, which is fastest; what lies deeper is walked with a list on the heap.
const RECURSED_LEVELS_MAX: usize = 64;

thread_local! {
    /// The number of maps and lists, one within the other, that this thread is dropping.
    static DROPPING: Cell<usize> = const { Cell::new(0) };
}

/// Drops the contents of a map or list without recursion.
fn drop_contents<T>(contents: Vec<T>, value: fn(T) -> Value) {
    if contents.is_empty() {
        return;
    }
    let level = DROPPING.get();
    if level < RECURSED_LEVELS_MAX {
        DROPPING.set(level + 1);
        drop(contents);
        DROPPING.set(level);
        return;
    }
    let mut left: Vec<Value> = contents.into_iter().map(value).collect();
    while let Some(mut value) = left.pop() {
        match &mut value {
            Value::Array(items) => left.append(items),
            Value::Object(map) => left.extend(std::mem::take(&mut map.0).into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        drop_contents(std::mem::take(&mut self.0), |value| value);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        drop_contents(std::mem::take(&mut self.0), |(_, value)| value);
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        copy(self, RECURSED_LEVELS_MAX)
    }
}

impl Clone for List {
    fn clone(&self) -> Self {
        copy_list(self, RECURSED_LEVELS_MAX)
    }
}

impl Clone for Map {
    fn clone(&self) -> Self {
        copy_map(self, RECURSED_LEVELS_MAX)
    }
}

fn copy(value: &Value, levels: usize) -> Value {
    let Some(below) = levels.checked_sub(1) else { return copy_deep(value) };
    match value {
        Value::Null => Value::Null,
        Value::Bool(b) => Value::Bool(*b),
        Value::Int(n) => Value::Int(*n),
        Value::Float(x) => Value::Float(*x),
        Value::String(s) => Value::String(s.clone()),
        Value::Array(items) => Value::Array(copy_list(items, below)),
        Value::Object(map) => Value::Object(copy_map(map, below)),
    }
}

fn copy_list(items: &List, levels: usize) -> List {
    let mut copied = Vec::with_capacity(items.0.len());
    for value in &items.0 {
        copied.push(copy(value, levels));
    }
    List(copied)
}

fn copy_map(map: &Map, levels: usize) -> Map {
    let mut copied = Vec::with_capacity(map.0.len());
    for (key, value) in &map.0 {
        copied.push((key.clone(), copy(value, levels)));
    }
    Map(copied)
}

/// A map or list of which a part is copied.
enum Copying<'a> {
    List(slice::Iter<'a, Value>, Vec<Value>),
    /// The key is that of the map or list that is being copied.
    Map(slice::Iter<'a, (Key, Value)>, Vec<(Key, Value)>, Key),
}

impl<'a> Copying<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Array(items) => Some(Self::List(items.0.iter(), Vec::new())),
            Value::Object(map) => Some(Self::Map(map.0.iter(), Vec::new(), Key::default())),
            _ => None,
        }
    }

    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Self::List(rest, _) => rest.next(),
            Self::Map(rest, _, at) => rest.next().map(|(key, value)| {
                at.clone_from(key);
                value
            }),
        }
    }

    fn push(&mut self, value: Value) {
        match self {
            Self::List(_, copied) => copied.push(value),
            Self::Map(_, copied, at) => copied.push((std::mem::take(at), value)),
        }
    }

    fn copied(self) -> Value {
        match self {
            Self::List(_, copied) => Value::Array(List(copied)),
            Self::Map(_, copied, _) => Value::Object(Map(copied)),
        }
    }
}

fn copy_deep(root: &Value) -> Value {
    let Some(mut innermost) = Copying::of(root) else { return copy(root, 1) };
    let mut outer: Vec<Copying<'_>> = Vec::new();
    loop {
        match innermost.next().map(|value| (value, Copying::of(value))) {
            Some((_, Some(deeper))) => outer.push(std::mem::replace(&mut innermost, deeper)),
            Some((scalar, None)) => innermost.push(copy(scalar, 1)),
            None => {
                let copied = innermost.copied();
                let Some(around) = outer.pop() else { return copied };
                innermost = around;
                innermost.push(copied);
            }
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        is_same(self, other, RECURSED_LEVELS_MAX)
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        are_same(self, other, RECURSED_LEVELS_MAX)
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        have_same(self, other, RECURSED_LEVELS_MAX)
    }
}

fn is_same(a: &Value, b: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return is_same_deep(a, b) };
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => are_same(a, b, below),
        (Value::Object(a), Value::Object(b)) => have_same(a, b, below),
        _ => false,
    }
}

fn are_same(a: &List, b: &List, levels: usize) -> bool {
    a.0.len() == b.0.len() && a.0.iter().zip(&b.0).all(|(a, b)| is_same(a, b, levels))
}

fn have_same(a: &Map, b: &Map, levels: usize) -> bool {
    a.0.len() == b.0.len()
        && a.0.iter().zip(&b.0).all(|((key, a), (other, b))| key == other && is_same(a, b, levels))
}

fn is_same_deep(a: &Value, b: &Value) -> bool {
    let mut left = vec![(a, b)];
    while let Some(pair) = left.pop() {
        match pair {
            (Value::Array(a), Value::Array(b)) if a.0.len() == b.0.len() => left.extend(a.0.iter().zip(&b.0)),
            (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
                left.extend(a.values().zip(b.values()));
            }
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => return false,
            (a, b) if !is_same(a, b, 1) => return false,
            _ => {}
        }
    }
    true
}

/// See [`Value::nests_within_counting`]. Maps and lists of one level stand together.
pub(super) fn nests_within(root: &Value, levels_max: usize, looked_at: &mut usize) -> bool {
    let deep = |value: &&Value| matches!(value, Value::Array(_) | Value::Object(_));
    let mut level: Vec<&Value> = Some(root).filter(deep).into_iter().collect();
    for _ in 0..levels_max {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => {
                    *looked_at += items.0.len();
                    next.extend(items.0.iter().filter(deep));
                }
                Value::Object(map) => {
                    *looked_at += map.0.len();
                    next.extend(map.values().filter(deep));
                }
                _ => {}
            }
        }
        if next.is_empty() {
            return true;
        }
        level = next;
    }
    level.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::json::{List, MAX_DEPTH, Map, OWN_DEPTH_MAX, TooDeep, Value, parse, parse_own};

    /// Deep enough for any stack to overflow if a walk recursed.
    const DEEP: usize = 20_000;

    /// Runs something on a stack of 64 KiB.
    fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(64 << 10).spawn(run).unwrap().join().unwrap();
    }

    /// A tree of so many levels, which are `around`'s.
    fn nested(levels: usize, around: fn(Value) -> Value) -> Value {
        (0..levels).fold(Value::Int(1), |inner, _| around(inner))
    }

    const CONSTRUCTORS: [fn(Value) -> Value; 9] = [
        |inner| vec![inner].into(),
        |inner| Value::Array([Value::Null, inner].into_iter().collect()),
        |inner| Value::Array(vec![inner, Value::from("after")].into()),
        |inner| Value::Object(Map::from_entries(vec![("a".into(), inner), ("b".into(), Value::Null)])),
        |inner| Value::Object([("a longer key than stands in a map", inner)].into_iter().collect()),
        |inner| {
            let mut map = Map::new();
            map.insert("x", inner);
            map.into()
        },
        |inner| {
            let mut map = Map::new();
            map.entry_or_insert_with("x", || inner);
            map.into()
        },
        |inner| {
            let mut items = List::default();
            items.push(inner);
            items.into()
        },
        |inner| crate::object! { "a": vec![inner, Value::Bool(true)] },
    ];

    #[test]
    fn a_tree_of_any_depth_from_any_constructor_takes_no_stack() {
        on_a_small_stack(|| {
            for around in CONSTRUCTORS {
                let tree = nested(DEEP, around);
                assert!(!tree.nests_within(MAX_DEPTH));
                let copy = tree.clone();
                assert!(copy == tree);
                assert!(copy != nested(DEEP - 1, around));
                let text = tree.to_vec();
                assert!(format!("{tree:?}").len() == text.len() && format!("{tree}").len() == text.len());
                assert_eq!(tree.to_vec_within(DEEP / 2), Err(TooDeep(DEEP / 2)));
                drop(copy);
                // Also a part of it, and what holds it.
                match tree {
                    Value::Array(items) => drop((items.clone() == items, items.into_iter().next())),
                    Value::Object(map) => drop((map.clone() == map, map.into_iter().next())),
                    _ => unreachable!(),
                }
            }
        });
    }

    #[test]
    fn serde_refuses_what_it_would_recurse_into() {
        on_a_small_stack(|| {
            assert!(crate::json::from_value::<serde::de::IgnoredAny>(&nested(DEEP, CONSTRUCTORS[0])).is_ok());
        });
        let deep = serde_json::to_string(&nested(DEEP, CONSTRUCTORS[0])).unwrap_err().to_string();
        assert_eq!(deep, "exceeded max depth: maps and lists nest deeper than 1000 levels");
        let read = crate::json::from_value::<Value>(&nested(DEEP, CONSTRUCTORS[5])).unwrap_err().to_string();
        assert_eq!(read, "exceeded max depth");
    }

    #[test]
    fn the_deepest_that_parsers_let_through_fits_half_a_stack() {
        let run = || {
            let deepest = "[".repeat(OWN_DEPTH_MAX) + &"]".repeat(OWN_DEPTH_MAX);
            assert!(parse(deepest.as_bytes()).is_err());
            let tree = parse_own(deepest.as_bytes()).unwrap();
            assert!(tree.nests_within(OWN_DEPTH_MAX) && !tree.nests_within(OWN_DEPTH_MAX - 1));
            assert_eq!(crate::json::to_value(&tree), tree);
            assert!(parse_own(format!("[{deepest}]").as_bytes()).is_err());
            let deepest = r#"{"a":"#.repeat(MAX_DEPTH) + "1" + &"}".repeat(MAX_DEPTH);
            let tree = parse(deepest.as_bytes()).unwrap();
            assert_eq!(tree.to_vec_within(MAX_DEPTH), Ok(deepest.clone().into_bytes()));
            assert_eq!(tree.to_vec_within(MAX_DEPTH - 1), Err(TooDeep(MAX_DEPTH - 1)));
            assert!(crate::json::from_value::<Value>(&tree).is_ok());
            assert!(parse(format!("[{deepest}]").as_bytes()).is_err());
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-3i64..3).prop_map(Value::Int),
            // A whole float prints as the integer does, and is another value.
            (-3i64..3).prop_map(|n| Value::Float(n as f64 + 0.5)),
            "[a-c<\"\u{2028}]{0,3}".prop_map(Value::String),
        ];
        leaf.prop_recursive(8, 60, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-d]{0,2}", inner), 0..4)
                    .prop_map(|entries| entries.into_iter().collect::<Map>().into()),
            ]
        })
    }

    /// Around a value, so many levels that it is walked without recursion.
    fn below(value: Value) -> Value {
        (0..70).fold(value, |inner, _| vec![inner].into())
    }

    proptest! {
        #[test]
        fn deep_and_flat_trees_are_walked_alike(a in value(), b in value()) {
            let (deep_a, deep_b) = (below(a.clone()), below(b.clone()));
            prop_assert_eq!(a == b, deep_a == deep_b);
            prop_assert_eq!(a == b, a.to_vec() == b.to_vec() && format!("{a:?}") == format!("{b:?}"));
            prop_assert!(deep_a.clone() == deep_a && a.clone() == a);
            let (text, deep) = (a.to_string(), deep_a.to_string());
            prop_assert_eq!(deep, "[".repeat(70) + &text + &"]".repeat(70));
            for levels in 0..10 {
                prop_assert_eq!(a.nests_within(levels), a.to_vec_within(levels).is_ok(), "{}", levels);
                prop_assert_eq!(a.nests_within(levels), deep_a.to_vec_within(levels + 70).is_ok(), "{}", levels);
            }
        }

        #[test]
        fn indented_output_is_the_same_value(value in value()) {
            let indented = value.to_vec_indented();
            prop_assert_eq!(parse(&indented).unwrap(), parse(&value.to_vec()).unwrap());
            let lines = String::from_utf8(indented).unwrap();
            prop_assert!(lines.lines().all(|line| !line.is_empty() && !line.ends_with([' ', ':', '\t'])));
        }
    }

    #[test]
    fn indented_output_is_gos() {
        let tree = parse(br#"{"a":[],"b":{},"c":[1,{"d":"<"},[true]],"e":1e21}"#).unwrap();
        let want = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"\\u003c\"\n    },\n    [\n      true\n    ]\n  ],\n  \"e\": 1e+21\n}";
        assert_eq!(String::from_utf8(tree.to_vec_indented()).unwrap(), want);
    }
}
