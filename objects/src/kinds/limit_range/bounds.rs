//! The bounds of a limit (`plugin/pkg/admission/limitranger/admission.go`, 1.37). Amounts are compared as they are, which upstream
//! does to a thousandth; the amounts of pods and ranges have no more digits.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use kindom_api::Value;
use kindom_api::field::aggregate_texts;
use kindom_api::quantity::Quantity;

use super::quantities;
use crate::kinds::fields::text;
use crate::kinds::resources::Amounts;

/// The amounts that a limit bounds.
pub(in crate::kinds) struct Bounded {
    pub(in crate::kinds) requests: Amounts,
    pub(in crate::kinds) limits: Amounts,
}

/// The bounds of a limit, read once for all that they bound.
pub(in crate::kinds) struct LimitBounds<'l> {
    kind: &'l str,
    min: BTreeMap<&'l str, Quantity>,
    max: BTreeMap<&'l str, Quantity>,
    ratio: BTreeMap<&'l str, Quantity>,
}

impl<'l> LimitBounds<'l> {
    pub(in crate::kinds) fn of(limit: &'l Value) -> Self {
        // By name, as upstream's order is a map's.
        let read = |field| {
            let parsed = |(name, amount): (&'l str, &str)| Some((name, Quantity::parse(amount).ok()?));
            quantities(limit, field).filter_map(parsed).collect()
        };
        Self {
            kind: text(limit, "type"),
            min: read("min"),
            max: read("max"),
            ratio: read("maxLimitRequestRatio"),
        }
    }

    /// Adds the violations.
    pub(in crate::kinds) fn violations(&self, of: &Bounded, errors: &mut Vec<String>) {
        let kind = self.kind;
        let found = |name: &str| (of.requests.get(name), of.limits.get(name));
        for (name, bound) in &self.min {
            let (request, most) = found(name);
            let of = [("request", request), ("limit", most)];
            errors.extend(violation("minimum", (name, kind), bound, &of, Ordering::is_lt));
        }
        for (name, bound) in &self.max {
            let (request, most) = found(name);
            let of = [("limit", most), ("request", request)];
            errors.extend(violation("maximum", (name, kind), bound, &of, Ordering::is_gt));
        }
        for (name, bound) in &self.ratio {
            let (request, most) = found(name);
            errors.extend(beyond_ratio(kind, name, bound, request, most));
        }
    }

    /// Adds the violations of what has requests alone: claims (`minConstraint`, `maxRequestConstraint`).
    pub(in crate::kinds) fn violations_of_requests(&self, requests: &Amounts, errors: &mut Vec<String>) {
        let mut add = |end, bounds: &BTreeMap<&str, Quantity>, is_beyond: fn(Ordering) -> bool| {
            for (name, bound) in bounds {
                let of = [("request", requests.get(*name))];
                errors.extend(violation(end, (name, self.kind), bound, &of, is_beyond));
            }
        };
        add("minimum", &self.min, Ordering::is_lt);
        add("maximum", &self.max, Ordering::is_gt);
    }
}

/// The first of some amounts that violates a bound; the first one has to be there (`minConstraint`, `maxConstraint`).
fn violation(
    end: &str,
    (name, kind): (&str, &str),
    bound: &Quantity,
    amounts: &[(&str, Option<&Quantity>)],
    is_beyond: fn(Ordering) -> bool,
) -> Option<String> {
    let wrong = amounts.iter().enumerate().find_map(|(at, (of, amount))| match amount {
        None => (at == 0).then(|| format!(".  No {of} is specified")),
        Some(amount) => is_beyond(amount.compare(bound)).then(|| format!(", but {of} is {amount}")),
    })?;
    Some(format!("{end} {name} usage per {kind} is {bound}{wrong}"))
}

/// `limitRequestRatioConstraint`
fn beyond_ratio(
    kind: &str,
    name: &str,
    bound: &Quantity,
    request: Option<&Quantity>,
    most: Option<&Quantity>,
) -> Option<String> {
    let some = |amount: Option<&Quantity>| amount.filter(|amount| amount.sign() != 0).map(milli);
    let prefix = format!("{name} max limit to request ratio per {kind} is {bound}, but");
    let Some(request) = some(request) else {
        return Some(format!("{prefix} no request is specified or request is 0"));
    };
    let Some(most) = some(most) else {
        return Some(format!("{prefix} no limit is specified or limit is 0"));
    };
    let ratio = most / request;
    (ratio * 1000.0 > milli(bound)).then(|| format!("{prefix} provided ratio is {ratio:.6}"))
}

/// `Quantity.MilliValue`, of an amount without more digits.
fn milli(amount: &Quantity) -> f64 {
    (amount.as_f64() * 1000.0).round()
}

/// # Errors
/// There are some: all as one.
pub(in crate::kinds) fn refuse_any(errors: Vec<String>) -> Result<(), String> {
    match errors.is_empty() {
        true => Ok(()),
        false => Err(aggregate_texts(errors)),
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    fn wrong(limit: &str, requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Result<(), String> {
        let amounts = |all: &[(&str, &str)]| {
            all.iter().map(|(name, amount)| ((*name).to_owned(), Quantity::parse(amount).unwrap())).collect()
        };
        let mut errors = Vec::new();
        let of = Bounded { requests: amounts(requests), limits: amounts(limits) };
        LimitBounds::of(&json::parse(limit.as_bytes()).unwrap()).violations(&of, &mut errors);
        refuse_any(errors)
    }

    #[test]
    fn bounds_hold_for_requests_and_limits() {
        let limit = r#"{"type":"Container","min":{"cpu":"100m"},"max":{"cpu":"1"}}"#;
        let one = |request: &str, most: &str| wrong(limit, &[("cpu", request)], &[("cpu", most)]);
        assert_eq!(one("100m", "1"), Ok(()));
        let [min, max] = [("minimum", "100m"), ("maximum", "1")]
            .map(|(end, bound)| format!("{end} cpu usage per Container is {bound}"));
        assert_eq!(one("99m", "1"), Err(format!("{min}, but request is 99m")));
        assert_eq!(one("100m", "50m"), Err(format!("{min}, but limit is 50m")));
        assert_eq!(one("1", "1001m"), Err(format!("{max}, but limit is 1001m")));
        assert_eq!(one("2", "1"), Err(format!("{max}, but request is 2")));
        let none = wrong(limit, &[], &[]).unwrap_err();
        assert_eq!(none, format!("[{min}.  No request is specified, {max}.  No limit is specified]"));
    }

    #[test]
    fn a_ratio_bounds_the_limit_by_the_request() {
        let limit = r#"{"type":"Pod","maxLimitRequestRatio":{"memory":"3"}}"#;
        let one = |request: &str, most: &str| wrong(limit, &[("memory", request)], &[("memory", most)]);
        let text = "memory max limit to request ratio per Pod is 3, but";
        assert_eq!(one("100m", "300m"), Ok(()));
        assert_eq!(one("1Gi", "10Gi"), Err(format!("{text} provided ratio is 10.000000")));
        assert_eq!(one("3", "10"), Err(format!("{text} provided ratio is 3.333333")));
        assert_eq!(one("0", "10"), Err(format!("{text} no request is specified or request is 0")));
        assert_eq!(
            wrong(limit, &[("memory", "1")], &[]),
            Err(format!("{text} no limit is specified or limit is 0"))
        );
    }

    #[test]
    fn each_error_is_named_once() {
        let twice = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(refuse_any(twice), Err("[a, b]".to_owned()));
        assert_eq!(refuse_any(vec!["a".to_owned(), "a".to_owned()]), Err("a".to_owned()));
    }
}
