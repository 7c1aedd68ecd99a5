//! Numbers (`numberValidator`). Bounds are floats in Go even where values are integers, and are converted to the
//! value's type first.

use kindom_api::Value;

use super::trail::Trail;
use super::walk::Walk;
use crate::node::{Node, Types};
use kindom_formats::Format;
use kindom_formats::go;

/// The largest relative distance from a whole number at which a float counts as one.
const EPSILON: f64 = 1e-9;
/// Beyond this floats are not exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// `true` if a float counts as a whole number (`swag.IsFloat64AJSONInteger`).
pub(super) fn is_whole(x: f64) -> bool {
    let rounded = x.round();
    x.abs() <= WHOLE_MAX
        && (x == rounded || (rounded != 0.0 && (x - rounded).abs() < EPSILON * rounded.abs()))
}

/// A bound that is checked, after conversion to the value's type.
#[derive(Clone, Copy)]
enum Bound {
    Multiple,
    Minimum { exclusive: bool },
    Maximum { exclusive: bool },
}

impl Walk<'_> {
    pub(super) fn number(&mut self, node: &Node, value: &Value, at: &Trail<'_>) {
        self.in_range(node, value, "Checked", at);
        let Some(numbers) = node.rules.as_deref().and_then(|rules| rules.numbers.as_deref()) else { return };
        let bounds = [
            (numbers.multiple_of, Bound::Multiple, "MultipleOf"),
            (numbers.minimum, Bound::Minimum { exclusive: numbers.exclusive_minimum }, "Minimum boundary"),
            (numbers.maximum, Bound::Maximum { exclusive: numbers.exclusive_maximum }, "Maximum boundary"),
        ];
        for (limit, bound, what) in bounds {
            let Some(limit) = limit else { continue };
            // A bound that is no value of the type is an error of its own, and is then compared as a float.
            let native = self.in_range(node, &Value::Float(limit), what, at);
            match (value, native) {
                (Value::Int(n), true) => self.whole_bound(bound, *n, limit, at),
                (value, _) => self.float_bound(bound, value.as_f64().unwrap_or(0.0), limit, at),
            }
        }
    }

    /// Returns true if a number fits the node's type and format; otherwise adds an error.
    fn in_range(&mut self, node: &Node, number: &Value, what: &str, at: &Trail<'_>) -> bool {
        let (fits, name) = if node.types == Types::INTEGER {
            let narrow = node.format == Some(Format::Int32);
            let fits = match number {
                Value::Int(n) => !narrow || i32::try_from(*n).is_ok(),
                Value::Float(x) => {
                    let bits = if narrow { 2_f64.powi(31) } else { 2_f64.powi(63) };
                    x.fract() == 0.0 && (-bits..bits).contains(x)
                }
                _ => true,
            };
            (fits, "integer")
        } else {
            // A 32-bit float is too narrow if rounding to it gives infinity.
            #[allow(clippy::cast_possible_truncation, reason = "the loss is what is asked for")]
            let fits = node.types != Types::NUMBER
                || node.format != Some(Format::Float)
                || !number.as_f64().is_some_and(|x| (x as f32).is_infinite());
            (fits, "number")
        };
        if !fits {
            let format =
                node.format.map_or("(default format)".to_owned(), |f| format!("with format {}", f.text()));
            self.fail(|walk| walk.plain(format!("{what} value must be of type {name} {format} in {at}")));
        }
        fits
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "Go cuts fractions off; out of range it takes the nearest"
    )]
    fn whole_bound(&mut self, bound: Bound, n: i64, limit: f64, at: &Trail<'_>) {
        let limit = limit as i64;
        match bound {
            Bound::Multiple if limit <= 0 => self.not_positive(limit.into(), &limit.to_string(), at),
            Bound::Multiple if n % limit != 0 => {
                self.invalid(at, n.into(), |name| format!("{name} in body should be a multiple of {limit}"));
            }
            Bound::Minimum { exclusive } if n < limit || (exclusive && n == limit) => {
                self.too_small(exclusive, n.into(), &limit.to_string(), at);
            }
            Bound::Maximum { exclusive } if n > limit || (exclusive && n == limit) => {
                self.too_large(exclusive, n.into(), &limit.to_string(), at);
            }
            _ => {}
        }
    }

    fn float_bound(&mut self, bound: Bound, x: f64, limit: f64, at: &Trail<'_>) {
        let text = || go::float(limit);
        match bound {
            Bound::Multiple if limit <= 0.0 => self.not_positive(Value::Float(limit), &text(), at),
            Bound::Multiple => {
                let times = if limit < 1.0 { 1.0 / limit * x } else { x / limit };
                if !is_whole(times) {
                    self.invalid(at, Value::Float(x), |name| {
                        format!("{name} in body should be a multiple of {}", text())
                    });
                }
            }
            Bound::Minimum { exclusive } if x < limit || (exclusive && x == limit) => {
                self.too_small(exclusive, Value::Float(x), &text(), at);
            }
            Bound::Maximum { exclusive } if x > limit || (exclusive && x == limit) => {
                self.too_large(exclusive, Value::Float(x), &text(), at);
            }
            _ => {}
        }
    }

    fn not_positive(&mut self, factor: Value, text: &str, at: &Trail<'_>) {
        self.invalid(at, factor, |name| {
            format!("factor MultipleOf declared for {name} must be positive: {text}")
        });
    }

    fn too_small(&mut self, exclusive: bool, value: Value, limit: &str, at: &Trail<'_>) {
        let or_equal = if exclusive { "" } else { " or equal to" };
        self.invalid(at, value, |name| format!("{name} in body should be greater than{or_equal} {limit}"));
    }

    fn too_large(&mut self, exclusive: bool, value: Value, limit: &str, at: &Trail<'_>) {
        let or_equal = if exclusive { "" } else { " or equal to" };
        self.invalid(at, value, |name| format!("{name} in body should be less than{or_equal} {limit}"));
    }
}
