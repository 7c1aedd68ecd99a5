//! The cost of calls, function by function.

use crate::ast::{Id, Kind, Literal};
use crate::types::Type;

use super::{Call, Estimator, LIST, Operand, PER_BYTE, PER_REGEX_CHAR, Range, union_of};

/// A call that only looks something up.
const NOMINAL: Call = Call { cost: Range::fixed(1), size: None };
/// The bytes of an IP address.
const ADDRESS: Range = Range { min: 4, max: 16 };
/// `cel.MaxFormatSize`
const FORMAT_SIZE_MAX: u64 = 64;
/// `cel.MaxNameFormatRegexSize`
const FORMAT_REGEX_SIZE_MAX: f64 = 128.0;

fn cost(cost: Range) -> Option<Call> {
    Some(Call { cost, size: None })
}

impl<'a> Estimator<'a> {
    /// The cost of a call of an overload, with its arguments and without its target. The extension libraries' estimates come
    /// first, then Kubernetes', then the language's own.
    pub(super) fn overload(
        &mut self,
        id: Id,
        function: &str,
        overload: &str,
        target: Option<&Operand<'a>>,
        args: &[Operand<'a>],
        costs: &[Range],
    ) -> Call {
        let sum = costs.iter().fold(Range::default(), |sum, cost| sum.add(*cost));
        let library = self
            .extension(overload, target, args)
            .or_else(|| self.kubernetes(function, overload, target, args));
        if let Some(call) = library {
            return Call { cost: call.cost.add(sum), size: call.size };
        }
        match (overload, costs) {
            ("logical_or" | "logical_and", [left, right]) => {
                // The right side may be spared.
                return Call { cost: Range { min: left.min, max: left.add(*right).max }, size: None };
            }
            ("conditional", [condition, one, other]) => {
                if let [_, left, right] = args {
                    let entry = union_of(self.entry(left.id), self.entry(right.id));
                    self.set_entry(id, entry);
                    let size =
                        left.size.unwrap_or(Range::UNKNOWN).union(right.size.unwrap_or(Range::UNKNOWN));
                    return Call { cost: condition.add(one.union(*other)), size: Some(size) };
                }
            }
            _ => {}
        }
        let call = self.standard(id, overload, target, args).unwrap_or(NOMINAL);
        Call { cost: call.cost.add(sum), size: call.size }
    }

    /// `functionCost`
    fn standard(
        &mut self,
        id: Id,
        overload: &str,
        target: Option<&Operand<'a>>,
        args: &[Operand<'a>],
    ) -> Option<Call> {
        let size = |operand: &Operand<'_>| operand.size.unwrap_or(Range::UNKNOWN);
        match (overload, target, args) {
            ("string_format", Some(target), _) => cost(size(target).by_factor(PER_BYTE)),
            ("string_to_bytes", _, [text]) => {
                let size = size(text);
                let result = Range { min: size.min, max: size.max.wrapping_mul(4) };
                Some(Call { cost: size.by_factor(PER_BYTE), size: Some(result) })
            }
            ("bytes_to_string", _, [bytes]) => {
                let size = size(bytes);
                let result = Range { min: size.min / 4, max: size.max };
                Some(Call { cost: size.by_factor(PER_BYTE), size: Some(result) })
            }
            ("strings_quote", _, [text]) => {
                let size = size(text);
                let result =
                    Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                Some(Call { cost: size.by_factor(PER_BYTE), size: Some(result) })
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => cost(size(arg).by_factor(PER_BYTE)),
            ("in_list", _, [_, list]) => cost(size(list).by_factor(1.0)),
            // `matches(text, regex)` is not here: see the module.
            ("matches_string", Some(text), [regex]) => {
                let text = size(text).add(Range::fixed(1)).by_factor(PER_BYTE);
                cost(text.multiply(size(regex).by_factor(PER_REGEX_CHAR)))
            }
            ("contains_string", Some(text), [part]) => {
                cost(size(text).by_factor(PER_BYTE).multiply(size(part).by_factor(PER_BYTE)))
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let result = size(left).add(size(right));
                let entry = union_of(self.entry(left.id), self.entry(right.id));
                self.set_entry(id, entry);
                let cost = if overload == "add_list" { Range::fixed(1) } else { result.by_factor(PER_BYTE) };
                Some(Call { cost, size: Some(result) })
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = size(left).max.min(size(right).max);
                cost(Range { min: u64::from(max > 0), max }.by_factor(PER_BYTE))
            }
            _ => None,
        }
    }

    /// The estimates that `ext.Lists` and `ext.Sets` bring.
    fn extension(&self, overload: &str, target: Option<&Operand<'a>>, args: &[Operand<'a>]) -> Option<Call> {
        let list = |factor: f64, size: Range| {
            Some(Call { cost: size.by_factor(factor).add(Range::fixed(1)).add(LIST), size: Some(size) })
        };
        let squared = |size: Range| size.multiply(size);
        match (overload, target, args) {
            ("list_slice", Some(list_), [start, end]) => {
                let size = self.size_of(list_);
                let (start, end) = (as_uint(start, 0), as_uint(end, size.max));
                list(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            #[allow(clippy::cast_precision_loss, reason = "a factor is a float")]
            ("list_flatten" | "list_flatten_int", Some(list_), [] | [_]) => {
                let depth = args.first().map_or(1, |depth| as_uint(depth, u64::MAX));
                list(depth as f64, self.size_of(list_))
            }
            ("lists_range", None, [count]) => list(1.0, Range::fixed(as_uint(count, u64::MAX))),
            ("list_reverse", Some(list_), []) => list(1.0, self.size_of(list_)),
            ("list_distinct", Some(list_), []) => list(2.0, squared(self.size_of(list_))),
            ("list_sets_contains_list" | "list_sets_intersects_list", _, [one, other]) => {
                cost(self.size_of(one).multiply(self.size_of(other)).by_factor(1.0).add(Range::fixed(1)))
            }
            ("list_sets_equivalent_list", _, [one, other]) => {
                cost(self.size_of(one).multiply(self.size_of(other)).by_factor(2.0).add(Range::fixed(1)))
            }
            _ => {
                let name = overload.strip_prefix("list_")?;
                let (of, sorted) =
                    match (name.strip_suffix("_sort"), name.strip_suffix("_sortByAssociatedKeys")) {
                        (Some(of), _) => (of, target.filter(|_| args.is_empty())?),
                        (_, Some(of)) if target.is_some() && args.len() == 1 => (of, args.first()?),
                        _ => return None,
                    };
                let factor = if matches!(of, "string" | "bytes") { 2.0 + PER_BYTE } else { 2.0 };
                list(factor, squared(self.size_of(sorted)))
            }
        }
    }

    /// `library.CostEstimator.EstimateCallCost`
    fn kubernetes(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Operand<'a>>,
        args: &[Operand<'a>],
    ) -> Option<Call> {
        let parsed = |operand: &Operand<'_>, factor: f64| self.size_of(operand).by_factor(factor);
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                let target = target?;
                let size = self.size_of(target);
                match self.items_of(target) {
                    Some((ty, item)) => {
                        let mut each = Range::fixed(1);
                        if matches!(ty, Type::String | Type::Bytes) {
                            each = each.add(item.by_factor(PER_BYTE));
                        }
                        cost(size.multiply(each))
                    }
                    None if function == "includes" => cost(size),
                    None => cost(size.by_factor(PER_BYTE)),
                }
            }
            "url" | "jsonpatch.escapeKey" => match args {
                [text] => Some(Call { cost: parsed(text, PER_BYTE), size: Some(self.size_of(text)) }),
                _ => None,
            },
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let target = target?;
                Some(Call { cost: parsed(target, PER_BYTE), size: Some(self.size_of(target)) })
            }
            "replace" => match (target, args) {
                (Some(target), [old, new, ..]) => {
                    let size = self.size_of(target);
                    let result = replaced(size, self.size_of(old), self.size_of(new));
                    Some(Call { cost: size.by_factor(2.0 * PER_BYTE), size: Some(result) })
                }
                _ => None,
            },
            "split" => {
                let size = self.size_of(target?);
                let limit = args.get(1).and_then(|limit| match limit.expr.kind {
                    #[allow(clippy::cast_sign_loss, reason = "upstream converts a negative limit so")]
                    Kind::Literal(Literal::Int(n)) => Some(n as u64),
                    _ => None,
                });
                let result = Range { min: 0, max: limit.unwrap_or(size.max) };
                Some(Call { cost: size.by_factor(2.0 * PER_BYTE), size: Some(result) })
            }
            "join" => {
                let target = target?;
                let list = self.size_of(target);
                let mut result = Range::default();
                if let Some((_, item)) = self.items_of(target) {
                    result = list.multiply(item);
                }
                if let Some(separator) = args.first() {
                    let count = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                    result = result.add(self.size_of(separator).multiply(count));
                }
                Some(Call { cost: result.by_factor(PER_BYTE), size: Some(result) })
            }
            "find" | "findAll" => {
                let (text, regex) = (self.size_of(target?), args.first()?);
                let each = text.add(Range::fixed(1)).by_factor(PER_BYTE);
                let cost = each.multiply(parsed(regex, PER_REGEX_CHAR));
                Some(Call { cost, size: Some(Range { min: 0, max: text.max }) })
            }
            "ip" if overload == "cidr_ip" => Some(NOMINAL),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                cost(parsed(args.first()?, PER_BYTE))
            }
            "ip.isCanonical" => cost(parsed(args.first()?, 2.0 * PER_BYTE)),
            "containsIP" | "containsCIDR" => {
                let other = args.first()?;
                let mut sum = ADDRESS.add(ADDRESS).by_factor(PER_BYTE);
                if function == "containsCIDR" {
                    sum = sum.add(ADDRESS.by_factor(PER_BYTE)).add(Range::fixed(1));
                }
                if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                    sum = sum.add(parsed(other, PER_BYTE));
                }
                cost(sum)
            }
            "validate" => {
                cost(parsed(args.first()?, PER_BYTE).by_factor(FORMAT_REGEX_SIZE_MAX * PER_REGEX_CHAR))
            }
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => Some(NOMINAL),
            "_==_" => match args {
                [left, right] => equality(left, right),
                _ => None,
            },
            _ => None,
        }
    }

    /// `library.CostEstimator.sizeEstimate`
    fn size_of(&self, operand: &Operand<'_>) -> Range {
        operand.size.or_else(|| self.size_at(operand.path)).unwrap_or(Range::UNKNOWN)
    }

    /// The type and the size of the items of a list, or of another type's parameter.
    fn items_of(&self, list: &Operand<'a>) -> Option<(&'a Type, Range)> {
        let ty = match list.ty {
            Type::List(of) | Type::Optional(of) | Type::Type(of) => &**of,
            Type::Map(parts) => &parts.0,
            _ => return None,
        };
        let size = self.arrays.steps(list.path).split_first().and_then(|(_, steps)| {
            let steps: Vec<&str> = steps.iter().copied().chain(["@items"]).collect();
            self.bounds.max_elements(&steps)
        });
        Some((ty, size.map_or(Range::UNKNOWN, |max| Range { min: 0, max })))
    }
}

/// The cost of comparing two values of Kubernetes' own types.
fn equality(left: &Operand<'_>, right: &Operand<'_>) -> Option<Call> {
    match (left.ty, right.ty) {
        (Type::Opaque(one), Type::Opaque(other)) if one == other => match *one {
            "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Some(NOMINAL),
            "kubernetes.NamedFormat" => cost(Range { min: 1, max: FORMAT_SIZE_MAX }.by_factor(PER_BYTE)),
            "kubernetes.URL" => {
                let max = right.size.map_or(1, |size| size.max);
                cost(Range { min: 1, max }.by_factor(PER_BYTE))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The length of a text after a replacement of parts of it.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let (mut count, mut retained) = (Range::default(), Range::default());
    if old.min == 0 {
        // Nothing is replaced around each character.
        count.max = text.max.saturating_add(1);
        retained.max = text.max;
    } else if new.max <= old.min {
        retained.max = text.max;
    } else {
        count.max = parts(text.max, old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        retained.min = text.min;
    } else if old.max <= new.min {
        retained.min = text.min;
    } else {
        count.min = parts(text.min, old.max);
    }
    count.multiply(new).add(retained)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "upstream calculates in floats too; a cast saturates"
)]
fn parts(whole: u64, part: u64) -> u64 {
    (whole as f64 / part as f64).ceil() as u64
}

/// A number that stands there, else the other one.
fn as_uint(operand: &Operand<'_>, otherwise: u64) -> u64 {
    match operand.expr.kind {
        Kind::Literal(Literal::Int(n)) => u64::try_from(n).unwrap_or(0),
        _ => otherwise,
    }
}
