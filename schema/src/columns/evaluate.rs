//! Kubernetes' JSONPath, followed (`client-go/util/jsonpath/jsonpath.go`, missing keys allowed).

use std::cmp::Ordering;

use kindom_api::Value;

use super::path::{Path, Slice, Step};

/// The most values that one path may pass through: `..` repeated multiplies them.
const VISITS_MAX: usize = 100_000;

/// The path cannot be followed: an index out of range, a comparison of different types, too many values.
struct Unreachable;

type Values<'v> = Vec<&'v Value>;

/// The first value that a path leads to. `room` is how many values all paths of an object may pass through together.
pub(super) fn first<'v>(path: &'v Path, object: &'v Value, room: &mut usize) -> Option<&'v Value> {
    if *room == 0 {
        return None;
    }
    let mut walk = Walk { visits: 0 };
    let found = walk.steps(&path.steps, vec![object]);
    *room = room.saturating_sub(walk.visits);
    found.ok()?.first().copied()
}

struct Walk {
    visits: usize,
}

impl Walk {
    fn visit(&mut self, count: usize) -> Result<(), Unreachable> {
        self.visits = self.visits.saturating_add(count);
        if self.visits > VISITS_MAX { Err(Unreachable) } else { Ok(()) }
    }

    fn steps<'v>(&mut self, steps: &'v [Step], from: Values<'v>) -> Result<Values<'v>, Unreachable> {
        steps.iter().try_fold(from, |values, step| {
            let next = self.step(step, &values)?;
            self.visit(next.len() + 1)?;
            Ok(next)
        })
    }

    fn step<'v>(&mut self, step: &'v Step, from: &[&'v Value]) -> Result<Values<'v>, Unreachable> {
        match step {
            // Text replaces whatever came before; numbers and truth values do so for each.
            Step::Literal(literal @ Value::String(_)) => Ok(vec![literal]),
            Step::Literal(literal) => Ok(from.iter().map(|_| literal).collect()),
            Step::Field(name) => Ok(from.iter().filter_map(|value| value.get(name)).collect()),
            Step::Wildcard => Ok(from.iter().flat_map(|value| children(value)).collect()),
            Step::Recursive => {
                let mut all = Vec::new();
                for value in from {
                    self.descend(value, &mut all)?;
                }
                Ok(all)
            }
            Step::Slice(slice) => {
                let mut all = Vec::new();
                for value in from.iter().filter(|value| !value.is_null()) {
                    all.extend(cut(slice, value.as_array().ok_or(Unreachable)?)?);
                }
                Ok(all)
            }
            Step::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(self.steps(part, from.to_vec())?);
                }
                Ok(all)
            }
            Step::Filter { left, operator, right } => {
                let mut kept = Vec::new();
                for value in from {
                    for item in value.as_array().ok_or(Unreachable)? {
                        if self.keeps(left, operator, right, item)? {
                            kept.push(item);
                        }
                    }
                }
                Ok(kept)
            }
            Step::Word => Err(Unreachable),
        }
    }

    /// All maps and lists that are not empty, a container before its content.
    fn descend<'v>(&mut self, value: &'v Value, all: &mut Values<'v>) -> Result<(), Unreachable> {
        let children = children(value);
        if children.is_empty() {
            return Ok(());
        }
        self.visit(1)?;
        all.push(value);
        children.into_iter().try_for_each(|child| self.descend(child, all))
    }

    fn keeps<'v>(
        &mut self,
        left: &'v [Step],
        operator: &str,
        right: &'v [Step],
        item: &'v Value,
    ) -> Result<bool, Unreachable> {
        let lefts = self.steps(left, vec![item]);
        if operator == "exists" {
            // Upstream takes a path that cannot be followed for one that leads somewhere.
            return Ok(lefts.map_or(true, |values| !values.is_empty()));
        }
        let one = |values: Values<'v>| match values.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(Unreachable),
        };
        let Some(left) = one(lefts?)? else { return Ok(false) };
        let Some(right) = one(self.steps(right, vec![item])?)? else { return Ok(false) };
        compare(left, operator, right).ok_or(Unreachable)
    }
}

fn children(value: &Value) -> Values<'_> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn cut<'v>(slice: &Slice, items: &'v [Value]) -> Result<Values<'v>, Unreachable> {
    let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let mut from = slice.from.unwrap_or(0);
    if from < 0 {
        from = from.saturating_add(len);
    }
    let mut to = slice.to.unwrap_or(len);
    if to < 0 || (to == 0 && slice.single) {
        to = to.saturating_add(len);
    }
    if from == to {
        return Ok(Vec::new());
    }
    if from < 0 || from >= len || to < 0 || to > len || from > to {
        return Err(Unreachable);
    }
    let step = slice.step.unwrap_or(1);
    let index = |n: i64| usize::try_from(n).map_err(|_| Unreachable);
    if step <= 0 {
        return Err(Unreachable);
    }
    let range = items.get(index(from)?..index(to)?).unwrap_or_default();
    Ok(range.iter().step_by(index(step)?).collect())
}

/// `None` if the two cannot be compared so.
fn compare(left: &Value, operator: &str, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b)?,
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => a.cmp(b),
        _ => return None,
    };
    Some(match operator {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        ">" => order == Ordering::Greater,
        "<=" => order != Ordering::Greater,
        ">=" => order != Ordering::Less,
        _ => return None,
    })
}
