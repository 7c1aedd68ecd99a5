//! Advice for a rule that may cost too much: the missing bound, and a value for it.

use std::cell::RefCell;

use kindom_api::Value;
use kindom_api::field::Path;
use kindom_cel::check::Checked;
use kindom_cel::cost::{Bounds, estimate};
use kindom_cel::decl::Decl;

use super::declare::REQUEST_BYTES_MAX;
use crate::crd::props::{OrBool, additional_properties, entries, flag, has, item, list, text, type_of};
use kindom_cel::value::escape;

/// The most missing bounds to try, and the largest expression to try them for: advice must stay cheap.
const CANDIDATES_MAX: usize = 8;
const EXPRESSIONS_MAX: usize = 2_000;

/// From where on one bound is good advice although several are missing.
const ALONE_MIN: u64 = 200;

/// A list or a map around a rule: the rule runs once for each item or value in it.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// The field path of its schema.
    path: String,
    keyword: &'static str,
    max: Option<u64>,
}

impl Level {
    /// None if a schema is neither list nor map. Any `additionalProperties` makes a map, as upstream has it
    /// (`extractMaxElements`).
    pub(crate) fn of(schema: &Value, path: &Path<'_>) -> Option<Self> {
        let keyword = match type_of(schema) {
            "object" if has(schema, "additionalProperties") => "maxProperties",
            "array" => "maxItems",
            _ => return None,
        };
        let max = schema.get(keyword).and_then(Value::as_i64).map(|max| u64::try_from(max).unwrap_or(0));
        Some(Self { path: path.to_string(), keyword, max })
    }
}

/// An expression and all that its cost depends on.
#[derive(Debug)]
pub(crate) struct Costing {
    expression: Checked,
    declaration: Decl,
    levels: Vec<Level>,
    /// The missing bounds, once they were searched.
    missing: Vec<Missing>,
}

#[derive(Debug)]
struct Missing {
    path: String,
    keyword: &'static str,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The level of this place.
    Level(usize),
    /// A value of the expression: the steps to it, and how many elements one of the bound's is.
    Value(Vec<String>, u64),
}

impl Costing {
    /// An expression on values that are declared so, in such lists and maps.
    pub(crate) fn new(expression: Checked, declaration: &Decl, levels: &[Level]) -> Self {
        Self { expression, declaration: declaration.clone(), levels: levels.to_vec(), missing: Vec::new() }
    }

    /// The most that the expression costs in one object.
    pub(crate) fn cost(&self) -> u64 {
        self.cost_with(&[], 0)
    }

    /// The same if these bounds were `value`.
    fn cost_with(&self, bounds: &[&Missing], value: u64) -> u64 {
        let assumed = Assumed { declaration: &self.declaration, bounds, value };
        let once = estimate(&self.expression, &assumed).max;
        let times = self.levels.iter().enumerate().try_fold(1_u64, |times, (i, level)| {
            let here = bounds.iter().any(|bound| matches!(bound.what, What::Level(at) if at == i));
            Some(times.saturating_mul(if here { value } else { level.max? }))
        });
        let times = times.unwrap_or(REQUEST_BYTES_MAX / (self.declaration.min_serialized_size + 1));
        once.saturating_mul(times)
    }

    /// Looks for what [`Self::advice`] could be about. The values have this schema, which stands at this path.
    pub(crate) fn find_missing(&mut self, schema: &Value, path: &Path<'_>) {
        let asked = Asked { declaration: &self.declaration, steps: RefCell::new(Vec::new()) };
        let _ = estimate(&self.expression, &asked);
        let own = path.to_string();
        let mut missing: Vec<Missing> = asked
            .steps
            .into_inner()
            .into_iter()
            .filter_map(|steps| {
                let mut path = own.clone();
                let (keyword, factor) = missing_bound(follow(schema, &steps, &mut path)?)?;
                Some(Missing { path, keyword, what: What::Value(steps, factor) })
            })
            .collect();
        for (i, level) in self.levels.iter().enumerate().filter(|(_, level)| level.max.is_none()) {
            let what = What::Level(i);
            missing.push(Missing { path: level.path.clone(), keyword: level.keyword, what });
        }
        missing.truncate(CANDIDATES_MAX);
        self.missing = missing;
    }

    /// The text to add to the refusal of a cost, after [`Self::find_missing`]; empty without advice.
    pub(crate) fn advice(&self, cost_max: u64) -> String {
        if self.missing.is_empty() || self.expression.ast.exprs.len() > EXPRESSIONS_MAX {
            return String::new();
        }
        let single = self
            .missing
            .iter()
            .filter_map(|missing| Some((missing, self.largest(&[missing], cost_max)?)))
            .reduce(|best, other| if other.1 > best.1 { other } else { best });
        let all: Vec<&Missing> = self.missing.iter().collect();
        let together = self.largest(&all, cost_max).filter(|_| all.len() > 1);
        let named = |all: &[&Missing]| -> String {
            let named =
                all.iter().map(|missing| format!("{} is missing at {}", missing.keyword, missing.path));
            named.collect::<Vec<_>>().join(", ")
        };
        match (single, together) {
            // One bound is easier to live with than several, unless it leaves next to nothing.
            (Some((missing, value)), together) if value >= ALONE_MIN || together.is_none() => {
                format!("; {}: {value} would fit", named(&[missing]))
            }
            (_, Some(value)) => format!("; {}: {value} each would fit", named(&all)),
            (_, None) => format!("; {}, but no bound alone would make it fit", named(&all)),
        }
    }

    /// The largest value of these bounds that keeps the cost within its limit, in two digits that count.
    fn largest(&self, bounds: &[&Missing], cost_max: u64) -> Option<u64> {
        let fits = |value: u64| self.cost_with(bounds, value) <= cost_max;
        if !fits(1) {
            return None;
        }
        let (mut fitting, mut too_large) = (1, REQUEST_BYTES_MAX);
        while too_large - fitting > 1 {
            let middle = fitting.midpoint(too_large);
            if fits(middle) {
                fitting = middle;
            } else {
                too_large = middle;
            }
        }
        let mut unit = 1;
        while fitting / unit >= 100 {
            unit *= 10;
        }
        Some(fitting / unit * unit)
    }
}

/// The declared bounds, and those that are assumed instead.
struct Assumed<'a> {
    declaration: &'a Decl,
    bounds: &'a [&'a Missing],
    value: u64,
}

impl Bounds for Assumed<'_> {
    fn max_elements(&self, steps: &[&str]) -> Option<u64> {
        let declared = self.declaration.max_elements(steps)?;
        let assumed = self.bounds.iter().find_map(|bound| match &bound.what {
            What::Value(at, factor) if *at == *steps => Some(self.value.saturating_mul(*factor)),
            _ => None,
        });
        Some(assumed.map_or(declared, |assumed| assumed.min(declared)))
    }
}

/// The declared bounds; remembers the ones that were read.
struct Asked<'a> {
    declaration: &'a Decl,
    steps: RefCell<Vec<Vec<String>>>,
}

impl Bounds for Asked<'_> {
    fn max_elements(&self, steps: &[&str]) -> Option<u64> {
        let max = self.declaration.max_elements(steps)?;
        let mut asked = self.steps.borrow_mut();
        if asked.len() < CANDIDATES_MAX * 4 && !asked.iter().any(|known| *known == *steps) {
            asked.push(steps.iter().map(|step| (*step).to_owned()).collect());
        }
        Some(max)
    }
}

/// The schema of a value, and its path.
fn follow<'a>(schema: &'a Value, steps: &[String], path: &mut String) -> Option<&'a Value> {
    let mut at = schema;
    for step in steps {
        at = match step.as_str() {
            "@keys" => return None,
            "@items" | "@values" => match (item(at), additional_properties(at)) {
                (Some(item), _) => {
                    path.push_str(".items");
                    item
                }
                (None, Some(OrBool::Schema(values))) => {
                    path.push_str(".additionalProperties");
                    values
                }
                _ => return None,
            },
            field => {
                let (name, property) =
                    entries(at, "properties").find(|(name, _)| escape(name).as_deref() == Some(field))?;
                path.push_str(&format!(".properties[{name}]"));
                property
            }
        };
    }
    Some(at)
}

/// The bound that a schema could have and has not, and how many elements one of it is.
fn missing_bound(schema: &Value) -> Option<(&'static str, u64)> {
    let bound = match type_of(schema) {
        _ if flag(schema, "x-kubernetes-int-or-string") => ("maxLength", 4),
        "array" => ("maxItems", 1),
        "object" if matches!(additional_properties(schema), Some(OrBool::Schema(_))) => ("maxProperties", 1),
        "string" if list(schema, "enum").is_empty() => match text(schema, "format") {
            "duration" | "date" | "date-time" => return None,
            "byte" => ("maxLength", 1),
            _ => ("maxLength", 4),
        },
        _ => return None,
    };
    (!has(schema, bound.0)).then_some(bound)
}
