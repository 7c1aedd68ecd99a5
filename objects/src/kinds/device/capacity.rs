//! The errors in the capacity of a device that several claims may share (`validateRequestPolicy`).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::quantity::Quantity;

use crate::kinds::fields::{items, present};

const OPTIONS_MAX: usize = 10;

/// An amount, with its text.
struct Amount<'a> {
    text: &'a str,
    quantity: Quantity,
}

impl<'a> Amount<'a> {
    /// The amount of a decoded object, which is one.
    fn of(value: &'a Value) -> Option<Self> {
        let text = value.as_str()?;
        Some(Self { text, quantity: Quantity::parse(text).ok()? })
    }

    fn at(of: &'a Value, field: &str) -> Option<Self> {
        Self::of(present(of, field)?)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.quantity.compare(&other.quantity)
    }

    /// `Quantity.Value`
    fn value(&self) -> Option<i64> {
        self.quantity.as_i64_rounded_up()
    }
}

/// `validateMultiAllocatableDeviceCapacity`, `validateSingleAllocatableDeviceCapacity`
pub(super) fn validate(capacity: &Value, several: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = present(capacity, "requestPolicy") else { return };
    let at = at.child("requestPolicy");
    if !several {
        return errors.push(Error::forbidden(&at, "allowMultipleAllocations must be true"));
    }
    let values = items(policy, "validValues");
    let range = present(policy, "validRange");
    if !values.is_empty() && range.is_some() {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        return errors.push(Error::forbidden(&at, detail));
    }
    let Some(most) = Amount::at(capacity, "value") else { return };
    let default = Amount::at(policy, "default");
    let missing = |of: &str| Error::required(&at.child("default"), format!("required when {of} is defined"));
    match (range, default) {
        (None, None) if values.is_empty() => {}
        (None, None) => errors.push(missing("validValues")),
        (None, Some(_)) if values.is_empty() => {}
        (None, Some(default)) => {
            validate_values(values, &default, &most, &at.child("validValues"), errors);
        }
        (Some(_), None) => errors.push(missing("validRange")),
        (Some(range), Some(default)) => {
            validate_range(range, &default, &most, &at.child("validRange"), errors);
        }
    }
}

/// `validateRequestPolicyValidValues`
fn validate_values(
    values: &[Value],
    default: &Amount<'_>,
    most: &Amount<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let amounts: Vec<Amount<'_>> = values.iter().filter_map(Amount::of).collect();
    for (index, (before, amount)) in amounts.iter().zip(amounts.iter().skip(1)).enumerate() {
        if before.compare(amount) == Ordering::Greater {
            let detail = "values must be sorted in ascending order";
            errors.push(Error::invalid(&at.index(index + 1), amount.text, detail));
        }
    }
    let mut has_default = false;
    if amounts.len() > OPTIONS_MAX {
        errors.push(Error::too_many(at, amounts.len(), OPTIONS_MAX));
    } else {
        let mut seen = BTreeSet::new();
        for (index, amount) in amounts.iter().enumerate() {
            let at = at.index(index);
            if amount.compare(most) == Ordering::Greater {
                let detail = format!("option is larger than capacity value: {}", most.text);
                errors.push(Error::invalid(&at, amount.text, detail));
            }
            has_default |= amount.compare(default) == Ordering::Equal;
            let key = amount.value().map_or_else(|| amount.text.to_owned(), |value| value.to_string());
            if !seen.insert(key.clone()) {
                errors.push(Error::duplicate(&at, key));
            }
        }
    }
    if !has_default {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(Error::invalid(at, default.text, detail));
    }
}

/// `validateRequestPolicyRange`
fn validate_range(
    range: &Value,
    default: &Amount<'_>,
    most: &Amount<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let [least, largest, step] = ["min", "max", "step"].map(|field| Amount::at(range, field));
    let Some(least) = least else {
        return errors.push(Error::required(&at.child("min"), "required when validRange is defined"));
    };
    let mut wrong = |field: &str, amount: &Amount<'_>, detail: String| {
        errors.push(Error::invalid(&at.child(field), amount.text, detail));
    };
    if least.compare(most) == Ordering::Greater {
        wrong("min", &least, format!("min is larger than capacity value: {}", most.text));
    }
    if default.compare(&least) == Ordering::Less {
        wrong("default", default, format!("default is less than min: {}", least.text));
    }
    if let Some(largest) = &largest {
        if least.compare(largest) == Ordering::Greater {
            wrong("max", &least, format!("min is larger than max: {}", largest.text));
        }
        if largest.compare(most) == Ordering::Greater {
            wrong("max", largest, format!("max is larger than capacity value: {}", most.text));
        }
        if default.compare(largest) == Ordering::Greater {
            wrong("default", default, format!("default is more than max: {}", largest.text));
        }
    }
    let Some(step) = step else { return };
    if step.quantity.sign() <= 0 {
        return wrong("step", &step, "must be greater than zero".to_owned());
    }
    if let Some(added) = least.quantity.add(&step.quantity)
        && added.compare(&most.quantity) == Ordering::Greater
    {
        let detail = format!("one step {added} is larger than capacity value: {}", most.text);
        wrong("step", &step, detail);
    }
    let max = Quantity::of_int(i64::MAX);
    let mut is_unsafe = false;
    let all =
        [("default", Some(default)), ("min", Some(&least)), ("max", largest.as_ref()), ("step", Some(&step))];
    for (field, amount) in all {
        let Some(amount) = amount else { continue };
        if amount.quantity.sign() < 0 {
            wrong(field, amount, "must be greater than or equal to 0".to_owned());
            is_unsafe = true;
        } else if amount.quantity.compare(&max) == Ordering::Greater {
            wrong(field, amount, format!("must not be larger than {}", i64::MAX));
            is_unsafe = true;
        }
    }
    let (Some(of_step), Some(of_least)) = (step.value(), least.value()) else { return };
    for amount in [Some(default), largest.as_ref()].into_iter().flatten().filter(|_| !is_unsafe) {
        let rest = amount.value().and_then(|value| value.wrapping_sub(of_least).checked_rem(of_step));
        if rest.is_some_and(|rest| rest != 0) {
            let detail =
                format!("value is not a multiple of a given step ({}) from ({})", step.text, least.text);
            wrong("step", amount, detail);
        }
    }
}
