//! Equality and order (`types.Equal`, `traits.Comparer`, and the lists and maps of
//! `apiserver/pkg/cel/common/valuesunstructured.go`).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::HashSet;

use kindom_api::Value as Json;
use kindom_formats::pattern::Budget;

use crate::shape::{Shape, ShapeKind};
use crate::value::{EvalError, List, Map, Value, runtime_name, tree};

/// The integer that a double is, if it is one (`doubleToInt64Lossless`).
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the bounds are checked before"
)]
pub(crate) fn whole(x: f64) -> Option<i64> {
    (x > i64::MIN as f64 && x < i64::MAX as f64 && x.trunc() == x).then_some(x as i64)
}

/// As [`whole`], without a sign.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked before")]
pub(crate) fn whole_unsigned(x: f64) -> Option<u64> {
    ((0.0..18_446_744_073_709_551_616.0).contains(&x) && x.trunc() == x).then_some(x as u64)
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
fn double_int(x: f64, n: i64) -> Option<Ordering> {
    if x < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if x > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    x.partial_cmp(&(n as f64))
}

#[allow(clippy::cast_precision_loss, reason = "as Go's conversion does")]
fn double_uint(x: f64, n: u64) -> Option<Ordering> {
    if x < 0.0 {
        return Some(Ordering::Less);
    }
    if x > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    x.partial_cmp(&(n as f64))
}

fn int_uint(a: i64, b: u64) -> Ordering {
    u64::try_from(a).map_or(Ordering::Less, |a| a.cmp(&b))
}

/// The order of two numbers, whatever their types; `None` if one is NaN, `Some(None)` never. Not numbers: an error.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>, EvalError> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(int_uint(*a, *b)),
        (Value::Uint(a), Value::Int(b)) => Some(int_uint(*b, *a).reverse()),
        (Value::Double(a), Value::Int(b)) => double_int(*a, *b),
        (Value::Int(a), Value::Double(b)) => double_int(*b, *a).map(Ordering::reverse),
        (Value::Double(a), Value::Uint(b)) => double_uint(*a, *b),
        (Value::Uint(a), Value::Double(b)) => double_uint(*b, *a).map(Ordering::reverse),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

/// Steps that one evaluation on its own may take for regular expressions, which upstream does not count.
pub(crate) const PATTERNS_MAX: usize = 10_000_000;

/// The budget for comparing values, and for compiling and matching regular expressions.
#[derive(Debug)]
pub(crate) struct Work {
    left: u64,
    pub(crate) patterns: Budget,
}

impl Work {
    pub(crate) fn new(left: u64) -> Self {
        Self::with(left, Budget::new(PATTERNS_MAX))
    }

    pub(crate) fn with(left: u64, patterns: Budget) -> Self {
        Self { left, patterns }
    }

    /// The rest of it.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// # Errors
    /// If there is no more.
    pub(crate) fn spend(&mut self, work: usize) -> Result<(), EvalError> {
        self.left = self.left.checked_sub(work as u64).ok_or(EvalError::CostExceeded)?;
        Ok(())
    }
}

/// The work of reaching an item or entry that an expression made: each is counted by whoever holds it, where those of an object
/// are walked in place. Few values can hold each other so often that they are compared without end.
const MADE_WORK: usize = 4;

/// In lists and maps that an expression made, values that cannot be compared count as equal.
fn forgiving(same: Result<bool, EvalError>) -> Result<bool, EvalError> {
    if same.as_ref().is_err_and(EvalError::ends) { same } else { Ok(same.unwrap_or(true)) }
}

/// Returns true if two trees without a schema are equal: integers and floats differ.
fn same_json(a: &Json, b: &Json, work: &mut Work) -> Result<bool, EvalError> {
    work.spend(1)?;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                if !same_json(a, b, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Object(a), Json::Object(b)) if a.len() == b.len() => {
            for ((name, a), (other, b)) in a.iter().zip(b.iter()) {
                if name != other || !same_json(a, b, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => Ok(false),
        (a, b) => Ok(a == b),
    }
}

impl<'a> Value<'a> {
    /// The order of two values.
    ///
    /// # Errors
    /// `no such overload` for values that have none; NaN has none either.
    pub fn compare(&self, other: &Self) -> Result<Ordering, EvalError> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Ok(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Ok(a.as_str().cmp(b.as_str())),
            (Self::Bytes(a), Self::Bytes(b)) => Ok(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Ok(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Ok(a.cmp(b)),
            // Upstream looks at this before it looks at the other.
            (Self::Double(x), _) if x.is_nan() => {
                Err(EvalError::Message("NaN values cannot be ordered".to_owned()))
            }
            _ => numbers(self, other)?
                .ok_or_else(|| EvalError::Message("NaN values cannot be ordered".to_owned())),
        }
    }

    /// `true` if two values are the same (`types.Equal`).
    ///
    /// # Errors
    /// `no such overload` where a list or map of the object, or a library's value, meets a value of another type.
    pub fn equals(&self, other: &Self) -> Result<bool, EvalError> {
        self.equals_within(other, &mut Work::new(u64::MAX))
    }

    /// As [`Value::equals`], for at most as much work.
    pub(crate) fn equals_within(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        match (self, other) {
            (Self::Null, Self::Null) => Ok(true),
            (Self::Null, _) | (_, Self::Null) => Ok(false),
            _ => self.is(other, work),
        }
    }

    /// As [`Value::equals`], where null is no exception (`ref.Val.Equal`).
    fn is(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        work.spend(1)?;
        Ok(match (self, other) {
            (Self::Null, other) => matches!(other, Self::Null),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a.as_str() == b.as_str(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => runtime_name(a) == runtime_name(b),
            (Self::Optional(None), Self::Optional(b)) => b.is_none(),
            (Self::Optional(Some(_)), Self::Optional(None)) => false,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => return a.is(b, work),
            (Self::List(a), Self::List(b)) => return a.equals(b, work),
            (Self::Map(a), Self::Map(b)) => return a.equals(b, work),
            (Self::Message(a), Self::Message(b)) => return a.is(b, work),
            (Self::Opaque(a), Self::Opaque(b)) => return a.equals(&**b).ok_or(EvalError::NoSuchOverload),
            (
                Self::List(List::Tree(..) | List::Added(..)) | Self::Map(Map::Tree(..)) | Self::Opaque(_),
                _,
            ) => {
                return Err(EvalError::NoSuchOverload);
            }
            (
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
                Self::Int(_) | Self::Uint(_) | Self::Double(_),
            ) => numbers(self, other)? == Some(Ordering::Equal),
            _ => false,
        })
    }
}

/// A scalar of the tree as a key of Go's maps: numbers differ by type. Lists and maps cannot be keys.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Scalar<'k> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(&'k str),
    Bytes(&'k [u8]),
    Duration(i64),
    Timestamp(i64, u32, i32),
}

fn scalar<'k>(value: &'k Value<'_>) -> Result<Scalar<'k>, EvalError> {
    Ok(match value {
        Value::Null => Scalar::Null,
        Value::Bool(b) => Scalar::Bool(*b),
        Value::Int(n) => Scalar::Int(*n),
        Value::Uint(n) => Scalar::Uint(*n),
        Value::Double(x) => Scalar::Double((x + 0.0).to_bits()),
        Value::String(text) => Scalar::String(text.as_str()),
        Value::Bytes(bytes) => Scalar::Bytes(bytes),
        Value::Duration(span) => Scalar::Duration(span.0),
        Value::Timestamp(at) => Scalar::Timestamp(at.seconds, at.nanos, at.offset),
        _ => {
            return Err(EvalError::Message(
                "listSet operations are only supported on lists of scalar values".to_owned(),
            ));
        }
    })
}

/// The keys of an item of a list of type map, absent ones as null.
fn item_key(item: &Value<'_>, keys: &[Box<str>]) -> Option<Vec<Json>> {
    match item {
        Value::Map(Map::Tree(map, _)) => {
            Some(keys.iter().map(|key| map.get(key).cloned().unwrap_or_default()).collect())
        }
        Value::Map(map @ Map::Owned(_)) => Some(
            keys.iter()
                .map(|key| match map.find(&Value::borrowed(key)) {
                    Ok(Some(Value::String(text))) => Json::from(text.as_str()),
                    Ok(Some(Value::Int(n))) => Json::from(n),
                    Ok(Some(Value::Bool(b))) => Json::from(b),
                    Ok(Some(Value::Double(x))) => Json::Float(x),
                    _ => Json::Null,
                })
                .collect(),
        ),
        _ => None,
    }
}

/// Keys as text, for hashing.
fn key_text(keys: &[Json]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join("\0")
}

impl<'a> List<'a> {
    /// `true` if two lists are the same, as the type of the first says.
    ///
    /// # Errors
    /// As [`Value::equals`].
    fn equals(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        let shape = self.shape();
        match shape.map(Shape::kind) {
            Some(ShapeKind::Set) => {
                work.spend(self.len())?;
                self.equals_as_set(other)
            }
            Some(ShapeKind::ListMap) => self.equals_by_key(other, shape.map_or(&[], Shape::map_keys), work),
            Some(_) => {
                for (a, b) in self.iter().zip(other.iter()) {
                    if !a?.is(&b?, work)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // A list that an expression made takes what cannot be compared for equal.
            None => {
                work.spend(MADE_WORK * self.len())?;
                for (a, b) in self.iter().zip(other.iter()) {
                    if let (Ok(a), Ok(b)) = (a, b)
                        && !forgiving(a.equals_within(&b, work))?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn equals_as_set(&self, other: &Self) -> Result<bool, EvalError> {
        let items = self.iter().collect::<Result<Vec<_>, _>>()?;
        let set = items.iter().map(scalar).collect::<Result<HashSet<_>, _>>()?;
        let mut seen = 0;
        let others = other.iter().collect::<Result<Vec<_>, _>>()?;
        let mut met = HashSet::with_capacity(others.len());
        for item in &others {
            let key = scalar(item)?;
            if !set.contains(&key) {
                return Ok(false);
            }
            if met.insert(key) {
                seen += 1;
            }
        }
        Ok(seen == set.len())
    }

    fn equals_by_key(&self, other: &Self, keys: &[Box<str>], work: &mut Work) -> Result<bool, EvalError> {
        let mut by_key = HashMap::with_capacity(self.len());
        for item in self.iter() {
            let item = item?;
            let key = item_key(&item, keys).map(|key| key_text(&key));
            by_key.insert(key, item);
        }
        let mut seen = HashSet::with_capacity(by_key.len());
        for item in other.iter() {
            let item = item?;
            let key = item_key(&item, keys).map(|key| key_text(&key));
            let Some(known) = by_key.get(&key) else { return Ok(false) };
            if !known.is(&item, work)? {
                return Ok(false);
            }
            seen.insert(key);
        }
        Ok(seen.len() == by_key.len())
    }

    /// `true` if a value is in the list.
    ///
    /// # Errors
    /// If an item of the object cannot be compared with it and no other is the same.
    pub fn contains(&self, value: &Value<'_>) -> Result<bool, EvalError> {
        self.contains_within(value, &mut Work::new(u64::MAX))
    }

    /// As [`List::contains`], for at most as much work.
    pub(crate) fn contains_within(&self, value: &Value<'_>, work: &mut Work) -> Result<bool, EvalError> {
        let mut failed = None;
        for item in self.iter() {
            let same = match (&item, self) {
                // The order of the two matters only for values that cannot be compared.
                (Ok(item), Self::Tree(..)) => item.is(value, work),
                (Ok(item), _) => match value.is(item, work) {
                    Err(error) if error.ends() => return Err(error),
                    same => Ok(same.unwrap_or(false)),
                },
                (Err(error), _) => Err(error.clone()),
            };
            match same {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.ends() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    /// The list with the items of another one after its own: those of a set that it lacks, those of a list of type map
    /// that have new keys, while known keys are overwritten in place.
    ///
    /// # Errors
    /// As [`Value::equals`].
    pub fn add(&self, other: &Self) -> Result<Self, EvalError> {
        let mut items = Vec::with_capacity(self.len() + other.len());
        let shape = self.shape();
        match shape.map(|shape| (shape, shape.kind())) {
            Some((shape, ShapeKind::Set)) => {
                for item in self.iter() {
                    items.push(item?);
                }
                let own = items.len();
                let others = other.iter().collect::<Result<Vec<_>, _>>()?;
                let mut set = items.iter().map(scalar).collect::<Result<HashSet<_>, _>>()?;
                let mut new = Vec::new();
                for item in &others {
                    if set.insert(scalar(item)?) {
                        new.push(item.clone());
                    }
                }
                drop(set);
                debug_assert_eq!(own, items.len());
                items.append(&mut new);
                Ok(Self::Added(items.into(), shape))
            }
            Some((shape, ShapeKind::ListMap)) => {
                let keys = shape.map_keys();
                let mut places = HashMap::with_capacity(self.len());
                for item in self.iter() {
                    let item = item?;
                    places.insert(item_key(&item, keys).map(|key| key_text(&key)), items.len());
                    items.push(item);
                }
                for item in other.iter() {
                    let item = item?;
                    let key = item_key(&item, keys).map(|key| key_text(&key));
                    match places.get(&key).and_then(|place| items.get_mut(*place)) {
                        Some(known) => *known = item,
                        None => items.push(item),
                    }
                }
                Ok(Self::Added(items.into(), shape))
            }
            plain => {
                if plain.is_none() && self.is_empty() {
                    return Ok(other.clone());
                }
                if plain.is_none() && other.is_empty() {
                    return Ok(self.clone());
                }
                for item in self.iter().chain(other.iter()) {
                    items.push(item?);
                }
                Ok(Self::Owned(items.into()))
            }
        }
    }
}

impl<'a> Map<'a> {
    /// `true` if two maps or objects are the same.
    ///
    /// # Errors
    /// As [`Value::equals`].
    fn equals(&self, other: &Self, work: &mut Work) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self {
            Self::Owned(entries) => {
                work.spend(MADE_WORK * entries.len())?;
                for (key, value) in entries.iter() {
                    match other.find(key) {
                        // As in lists that an expression made.
                        Ok(Some(found)) if forgiving(value.equals_within(&found, work))? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            Self::Tree(map, shape) => equals_tree(map, *shape, other, work),
        }
    }
}

fn equals_tree<'a>(
    map: &'a kindom_api::Map,
    shape: &'a dyn Shape,
    other: &Map<'a>,
    work: &mut Work,
) -> Result<bool, EvalError> {
    // Both are sorted: nearly always their fields are the same ones, in the same places.
    let beside = match other {
        Map::Tree(other, theirs) => Some((*other, *theirs)),
        Map::Owned(_) => None,
    };
    for (place, (name, json)) in map.iter().enumerate() {
        let found = beside.and_then(|(other, _)| match other.at(place) {
            Some((same, json)) if same == name => Some(json),
            _ => other.get(name),
        });
        let Some(of) = tree::value_shape(shape, name) else {
            // Fields that the schema does not have are compared as plain JSON, and only if both objects have them.
            if beside.is_none() {
                return Err(EvalError::NoSuchOverload);
            }
            if let Some(found) = found
                && !same_json(found, json, work)?
            {
                return Ok(false);
            }
            continue;
        };
        let Some((_, theirs)) = beside else {
            let Map::Owned(entries) = other else { return Ok(false) };
            let mine = tree::field(map, shape, name)?;
            match (mine, entries.get(&Value::borrowed(name))) {
                (None, None) => {}
                (Some(mine), Some(found)) if mine.is(found, work)? => {}
                _ => return Ok(false),
            }
            continue;
        };
        if of.kind() == ShapeKind::Dyn {
            match found {
                Some(found) if same_json(found, json, work)? => continue,
                _ => return Ok(false),
            }
        }
        // Nearly always they have the same schema too.
        let theirs = if tree::same_shape(shape, theirs) { Some(of) } else { tree::value_shape(theirs, name) };
        let null_is_absent = shape.kind() == ShapeKind::Object;
        let found = found.filter(|found| !(null_is_absent && found.is_null())).zip(theirs);
        match (null_is_absent && json.is_null(), found) {
            (true, None) => {}
            (false, Some((found, theirs))) => {
                if !Value::of(json, of)?.is(&Value::of(found, theirs)?, work)? {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}
