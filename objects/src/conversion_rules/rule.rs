//! One rule, and its inverse.

use std::collections::BTreeMap;

use kindom_api::{Map, Value};

use super::Kept;
use super::expression::{Allowance, ValueExpression};
use crate::field_path::{Path, get_mut, put, take};

/// The most pairs of a table of values.
const PAIRS_MAX: usize = 256;

/// A step from a version to the hub. The rules of a version are taken in their order, and back in the other.
#[derive(Debug)]
pub(super) enum Rule {
    /// A field of the version is another one of the hub.
    Move { from: Path, to: Path },
    /// A value of the version is the one item of a list of the hub. Another list is kept in an annotation of the version's object.
    Wrap { from: Path, to: Path },
    /// The one item of a list of the version is a value of the hub. Another list is kept in an annotation of the hub's object, under
    /// this key.
    Unwrap { from: Path, to: Path, key: String },
    /// Texts of the version are other texts of the hub. `there` and `back` are a permutation and its inverse.
    Values { at: Path, there: BTreeMap<String, String>, back: BTreeMap<String, String> },
    /// A field that the version lacks: it has this value in the hub unless it has another there, which is another rule's to keep.
    Default { at: Path, value: Value },
    /// A field that the hub lacks: it has this value in the version; another one there is another rule's to keep.
    Constant { at: Path, value: Value },
    /// A field that the version lacks, kept in an annotation of the version's object.
    KeepOfHub { at: Path },
    /// A field that the hub lacks, kept in an annotation of the hub's object, under this key.
    KeepOfVersion { at: Path, key: String },
    /// A value of the version is made the hub's by an expression, and back by another.
    Express { from: Path, to: Path, to_hub: Box<ValueExpression>, to_version: Box<ValueExpression> },
}

impl Rule {
    /// The rule of a version that a tree describes.
    ///
    /// # Errors
    /// The mistake, behind the place of the rule.
    pub(super) fn parse(version: &str, tree: &Value) -> Result<Self, String> {
        const NAMES: [&str; 9] =
            ["move", "wrap", "unwrap", "map", "default", "constant", "keep", "keepOwn", "cel"];
        let map = tree.as_object().ok_or(" must be a map")?;
        let mut names = NAMES.iter().filter(|name| map.contains_key(name));
        let (Some(name), None) = (names.next(), names.next()) else {
            return Err(format!(" must have exactly one of {}", NAMES.join(", ")));
        };
        let arguments: &[&str] = match *name {
            "move" | "wrap" | "unwrap" => &["to"],
            "map" => &["values"],
            "default" | "constant" => &["value"],
            "cel" => &["to", "toHub", "toVersion"],
            _ => &[],
        };
        if let Some(other) = map.keys().find(|key| key != name && !arguments.contains(key)) {
            return Err(format!(".{other} is not of a rule {name:?}"));
        }
        let at = path(map, name)?;
        match *name {
            "move" | "wrap" | "unwrap" => {
                let to = path_as(map, &at)?;
                let from = at;
                let (inner, outer) = (from.fields(), to.fields());
                if *name == "move" && (inner.starts_with(outer) || outer.starts_with(inner)) {
                    return Err(format!(".to must not be in {from}, nor around it"));
                }
                Ok(match *name {
                    "move" => Self::Move { from, to },
                    "wrap" => Self::Wrap { from, to },
                    _ => Self::Unwrap { key: format!("{version} {from}"), from, to },
                })
            }
            "cel" => Self::express(map, at),
            "map" => {
                let (there, back) = permutation(map.get("values"))?;
                Ok(Self::Values { at, there, back })
            }
            _ if !at.is_single() => Err(format!(
                ".{name} must not lead through lists or maps, where one value of the rule would be many"
            )),
            "default" | "constant" => {
                let value = map.get("value").filter(|value| !value.is_null());
                let value = value.ok_or(".value is needed")?.clone();
                Ok(if *name == "default" {
                    Self::Default { at, value }
                } else {
                    Self::Constant { at, value }
                })
            }
            "keep" => Ok(Self::KeepOfHub { at }),
            _ => Ok(Self::KeepOfVersion { key: format!("{version} {at}"), at }),
        }
    }

    /// The expressions of a value at this place.
    fn express(map: &Map, from: Path) -> Result<Self, String> {
        let to = if map.contains_key("to") { path_as(map, &from)? } else { from.clone() };
        let expression = |field: &str| {
            let source = map.get(field).and_then(Value::as_str);
            let source = source.ok_or_else(|| format!(".{field} must be an expression"))?;
            ValueExpression::parse(source).map(Box::new).map_err(|why| format!(".{field}{why}"))
        };
        Ok(Self::Express { from, to, to_hub: expression("toHub")?, to_version: expression("toVersion")? })
    }

    /// The bytes of its expressions.
    pub(super) fn source_bytes(&self) -> usize {
        match self {
            Self::Express { to_hub, to_version, .. } => to_hub.source_bytes() + to_version.source_bytes(),
            _ => 0,
        }
    }

    /// The levels that it may add to an object on the way to the hub, and on the way back.
    pub(super) fn deepens(&self) -> (usize, usize) {
        match self {
            Self::Move { from, to } | Self::Express { from, to, .. } => {
                (to.levels().saturating_sub(from.levels()), from.levels().saturating_sub(to.levels()))
            }
            Self::Wrap { from, to } | Self::Unwrap { from, to, .. } => (
                (to.levels() + 1).saturating_sub(from.levels()),
                (from.levels() + 1).saturating_sub(to.levels()),
            ),
            _ => (0, 0),
        }
    }

    /// # Errors
    /// The mistake in an expression, behind the place of the rule.
    pub(super) fn compile(&self) -> Result<(), String> {
        let Self::Express { to_hub, to_version, .. } = self else { return Ok(()) };
        [(".toHub", to_hub), (".toVersion", to_version)].into_iter().try_for_each(|(field, expression)| {
            expression.program().map(drop).map_err(|why| format!("{field}: {why}"))
        })
    }

    /// Turns an object of the version into one of the hub.
    ///
    /// # Errors
    /// The reason why an expression has no value.
    pub(super) fn to_hub(
        &self,
        object: &mut Value,
        kept: &mut Kept,
        allowance: &mut Allowance,
    ) -> Result<(), String> {
        match self {
            Self::Express { from, to, to_hub, .. } => return express(object, from, to, to_hub, allowance),
            Self::Move { from, to } => shift(object, from, to),
            Self::Wrap { from, to } => wrap(object, from, to, &to.to_string(), kept),
            Self::Unwrap { from, to, key } => unwrap(object, from, to, key, kept),
            Self::Values { at, there, .. } => replace(object, at, there),
            Self::Default { at, value } => fill(object, at, value),
            Self::Constant { at, value } => leave_out(object, at, value),
            Self::KeepOfHub { at } => restore(object, at, &at.to_string(), kept),
            Self::KeepOfVersion { at, key } => keep(object, at, key, kept),
        }
        Ok(())
    }

    /// Turns an object of the hub into one of the version.
    ///
    /// # Errors
    /// The reason why an expression has no value.
    pub(super) fn to_version(
        &self,
        object: &mut Value,
        kept: &mut Kept,
        allowance: &mut Allowance,
    ) -> Result<(), String> {
        match self {
            Self::Express { from, to, to_version, .. } => {
                return express(object, to, from, to_version, allowance);
            }
            Self::Move { from, to } => shift(object, to, from),
            Self::Wrap { from, to } => unwrap(object, to, from, &to.to_string(), kept),
            Self::Unwrap { from, to, key } => wrap(object, to, from, key, kept),
            Self::Values { at, back, .. } => replace(object, at, back),
            Self::Default { at, value } => leave_out(object, at, value),
            Self::Constant { at, value } => fill(object, at, value),
            Self::KeepOfHub { at } => keep(object, at, &at.to_string(), kept),
            Self::KeepOfVersion { at, key } => restore(object, at, key, kept),
        }
        Ok(())
    }
}

fn path(map: &Map, field: &str) -> Result<Path, String> {
    match map.get(field).map(|value| value.as_str().unwrap_or_default()) {
        Some(text) => Path::parse(text).map_err(|why| format!(".{field} {why}")),
        None => Err(format!(".{field} is needed")),
    }
}

/// The path `to`, which branches as another one.
fn path_as(map: &Map, from: &Path) -> Result<Path, String> {
    let to = path(map, "to")?;
    match from.branches_as(&to) {
        true => Ok(to),
        false => Err(format!(".to must lead through the same lists and maps as {from}")),
    }
}

/// Moves a value. One that has no room at its place stays.
fn shift(object: &mut Value, from: &Path, to: &Path) {
    from.visit(object, &mut |map| {
        if let Some(value) = take(map, from.fields())
            && let Err(value) = put(map, to.fields(), value)
        {
            let _ = put(map, from.fields(), value);
        }
    });
}

/// Puts what an expression makes of each value at its other place. Of null it makes nothing.
fn express(
    object: &mut Value,
    from: &Path,
    to: &Path,
    expression: &ValueExpression,
    allowance: &mut Allowance,
) -> Result<(), String> {
    let mut result = Ok(());
    from.visit(object, &mut |map| {
        if result.is_ok()
            && let Some(value) = take(map, from.fields()).filter(|value| !value.is_null())
        {
            result = expression.evaluate(&value, allowance).and_then(|made| match made {
                Some(made) => put(map, to.fields(), made).map_err(|_| format!("there is no room at {to}")),
                None => Ok(()),
            });
        }
    });
    result
}

/// Puts a value where there is none.
fn fill(object: &mut Value, at: &Path, value: &Value) {
    at.visit(object, &mut |map| {
        if get_mut(map, at.fields()).is_none() {
            // Where there is no room for it, there is none for the other version's field either.
            let _ = put(map, at.fields(), value.clone());
        }
    });
}

/// Takes a value away where it is this one.
fn leave_out(object: &mut Value, at: &Path, value: &Value) {
    at.visit(object, &mut |map| {
        if get_mut(map, at.fields()).is_some_and(|found| found == value) {
            take(map, at.fields());
        }
    });
}

/// Makes a value a list of it, or takes the list that was kept where there is none.
fn wrap(object: &mut Value, from: &Path, to: &Path, key: &str, kept: &mut Kept) {
    // Of a list or map nothing is kept, whatever a client writes there.
    let list = kept.remove(key).filter(|_| from.is_single());
    from.visit(object, &mut |map| {
        let wrapped = take(map, from.fields()).map(|value| vec![value].into());
        if let Some(list) = wrapped.or_else(|| list.clone()) {
            let _ = put(map, to.fields(), list);
        }
    });
}

/// Makes a list its one item; keeps another one. In a list or map there is no name to keep it under: it stays.
fn unwrap(object: &mut Value, from: &Path, to: &Path, key: &str, kept: &mut Kept) {
    from.visit(object, &mut |map| match take(map, from.fields()) {
        Some(Value::Array(mut items)) if items.len() == 1 => {
            if let Some(item) = items.pop() {
                let _ = put(map, to.fields(), item);
            }
        }
        Some(Value::Array(items)) if items.is_empty() => {}
        Some(other) if from.is_single() => drop(kept.insert(key, other)),
        Some(other) => drop(put(map, from.fields(), other)),
        None => {}
    });
}

fn replace(object: &mut Value, at: &Path, table: &BTreeMap<String, String>) {
    at.visit(object, &mut |map| {
        if let Some(Value::String(text)) = get_mut(map, at.fields())
            && let Some(other) = table.get(text.as_str())
        {
            *text = other.as_str().into();
        }
    });
}

fn keep(object: &mut Value, at: &Path, key: &str, kept: &mut Kept) {
    at.visit(object, &mut |map| {
        if let Some(value) = take(map, at.fields()) {
            kept.insert(key, value);
        }
    });
}

fn restore(object: &mut Value, at: &Path, key: &str, kept: &mut Kept) {
    let mut value = kept.remove(key);
    at.visit(object, &mut |map| {
        if let Some(value) = value.take() {
            let _ = put(map, at.fields(), value);
        }
    });
}

/// A table of pairs, completed so that no two texts become one: a text that others become, and that does not become another, becomes the
/// one at the beginning of its chain.
type Tables = (BTreeMap<String, String>, BTreeMap<String, String>);

fn permutation(pairs: Option<&Value>) -> Result<Tables, String> {
    let pairs = pairs.and_then(Value::as_object).ok_or(".values must be a map of texts")?;
    if pairs.len() > PAIRS_MAX {
        return Err(format!(".values must have at most {PAIRS_MAX} pairs"));
    }
    let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
    for (from, to) in pairs.iter() {
        let to = to.as_str().ok_or_else(|| format!(".values.{from} must be a text"))?;
        if let Some(other) = back.insert(to.to_owned(), from.to_owned()) {
            return Err(format!(".values has {to:?} for {other:?} and for {from:?}"));
        }
        there.insert(from.to_owned(), to.to_owned());
    }
    let ends: Vec<String> = back.keys().filter(|to| !there.contains_key(*to)).cloned().collect();
    for end in ends {
        let mut begin = end.clone();
        while let Some(before) = back.get(&begin) {
            begin.clone_from(before);
        }
        back.insert(begin.clone(), end.clone());
        there.insert(end, begin);
    }
    Ok((there, back))
}
