//! Quantities: `quantity('1.5Gi')` (`apiserver/pkg/cel/library/quantity.go`, 1.37).

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use kindom_api::quantity::Quantity as Amount;

use super::arguments::{int, made, opaque, text};
use super::cost::traverse;
use super::{Cost, Function, Functions, Overload};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// `kubernetes.Quantity`
pub(super) const QUANTITY: Type = Type::Opaque("kubernetes.Quantity");

pub(super) fn declare(functions: &mut Functions) {
    let quantity = || QUANTITY;
    let compares = |name, id, result, run| {
        Function::new(name).overload(Overload::member(id, [quantity(), quantity()], result).run(run))
    };
    for function in [
        Function::new("quantity")
            .overload(Overload::global("string_to_quantity", [Type::String], quantity()).run(of_string))
            .cost(Cost::Of(traverse)),
        Function::new("isQuantity")
            .overload(Overload::global("is_quantity_string", [Type::String], Type::Bool).run(is_quantity))
            .cost(Cost::Of(traverse)),
        Function::new("sign").overload(Overload::global("quantity_sign", [quantity()], Type::Int).run(sign)),
        compares("isGreaterThan", "quantity_is_greater_than", Type::Bool, is_greater),
        compares("isLessThan", "quantity_is_less_than", Type::Bool, is_less),
        compares("compareTo", "quantity_compare_to", Type::Int, compare),
        Function::new("asApproximateFloat")
            .overload(Overload::member("quantity_get_float", [quantity()], Type::Double).run(as_float)),
        Function::new("asInteger")
            .overload(Overload::member("quantity_get_int", [quantity()], Type::Int).run(as_integer)),
        Function::new("isInteger")
            .overload(Overload::member("quantity_is_integer", [quantity()], Type::Bool).run(is_integer)),
        Function::new("add")
            .overload(Overload::member("quantity_add", [quantity(), quantity()], quantity()).run(add))
            .overload(Overload::member("quantity_add_int", [quantity(), Type::Int], quantity()).run(add_int)),
        Function::new("sub")
            .overload(Overload::member("quantity_sub", [quantity(), quantity()], quantity()).run(sub))
            .overload(Overload::member("quantity_sub_int", [quantity(), Type::Int], quantity()).run(sub_int)),
    ] {
        functions.add(function);
    }
}

/// A quantity.
struct Quantity {
    amount: Amount,
    /// `true` if `add` or `sub` made it. Upstream these return a pointer, and a pointer on the right of `==` is not equal to
    /// anything: `quantity('2') == quantity('1').add(1)` is an error, the other way round it is true.
    computed: bool,
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quantity({:?})", self.amount.to_string())
    }
}

impl Opaque for Quantity {
    fn type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }

    fn go_type(&self) -> &'static str {
        if self.computed { "*cel.Quantity" } else { "cel.Quantity" }
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        (!other.computed).then(|| self.amount.equals(&other.amount))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let amount = Amount::parse(text(args, 0)?).map_err(EvalError::message)?;
    Ok(made(Quantity { amount, computed: false }))
}

fn is_quantity<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(Amount::parse(text(args, 0)?).is_ok()))
}

fn amount<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Amount, EvalError> {
    Ok(&opaque::<Quantity>(args, at)?.amount)
}

fn sign<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(amount(args, 0)?.sign()))
}

fn ordered(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    Ok(amount(args, 0)?.compare(amount(args, 1)?))
}

fn is_greater<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(ordered(args)? == Ordering::Greater))
}

fn is_less<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(ordered(args)? == Ordering::Less))
}

fn compare<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(ordered(args)? as i64))
}

fn as_float<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Double(amount(args, 0)?.as_f64()))
}

fn as_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    amount(args, 0)?
        .as_i64()
        .map(Value::Int)
        .ok_or_else(|| EvalError::message("cannot convert value to integer"))
}

fn is_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(amount(args, 0)?.as_i64().is_some()))
}

fn computed<'a>(amount: Option<Amount>) -> Result<Value<'a>, EvalError> {
    let amount = amount.ok_or_else(|| EvalError::message("quantity has too many digits"))?;
    Ok(made(Quantity { amount, computed: true }))
}

fn add<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    computed(amount(args, 0)?.add(amount(args, 1)?))
}

fn add_int<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    computed(amount(args, 0)?.add(&Amount::of_int(int(args, 1)?)))
}

fn sub<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    computed(amount(args, 0)?.sub(amount(args, 1)?))
}

fn sub_int<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    computed(amount(args, 0)?.sub(&Amount::of_int(int(args, 1)?)))
}
