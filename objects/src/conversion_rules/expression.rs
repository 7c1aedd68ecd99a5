//! Values that are converted by expressions (CEL), one for each way. They have no inverse by construction: whether they are each other's is tried
//! on made-up objects, as the other rules are.

use kindom_api::{Value, field};
use kindom_cel::check::compile;
use kindom_cel::eval::{Program, Shared};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::Value as CelValue;

use crate::made::{Budget, object_value};

/// The cost that the expressions of an object's conversion may have together, and the bytes of the object that allow one more: objects
/// are converted wherever they are read, by steps that are measured by bytes.
const COST: usize = 500;
const COST_BYTES: usize = 4;
/// The steps of regular expressions, and the items that are compared and copied, for each unit of cost.
const WORK: usize = 10;
/// The bytes that they may make together, and for each byte of the object.
const MADE: usize = 4096;
const MADE_BY_BYTE: usize = 4;

/// An expression on `self`, the value at a place.
#[derive(Debug)]
pub(super) struct ValueExpression {
    program: Program,
}

impl ValueExpression {
    /// # Errors
    /// Why it does not compile.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        let checked = compile(source, &[("self", Type::Dyn)]).map_err(|issues| issues.to_string())?;
        Ok(Self { program: Program::plan(&checked).map_err(|why| why.to_string())? })
    }

    /// What it makes of a value; `None` if that is null or an empty optional.
    ///
    /// # Errors
    /// It fails, or the object's [`Allowance`] is spent.
    pub(super) fn of(&self, value: &Value, allowance: &mut Allowance) -> Result<Option<Value>, String> {
        let own = CelValue::of(value, &Untyped).map_err(|why| why.to_string())?;
        let outcome = self.program.run_sharing(&[Ok(own)], allowance.cost, &mut allowance.shared);
        allowance.cost = allowance.cost.saturating_sub(outcome.cost);
        match outcome.result.map_err(|why| why.to_string())? {
            CelValue::Null | CelValue::Optional(None) => Ok(None),
            made => object_value(&made, &mut allowance.made).map(Some),
        }
    }
}

/// What the expressions of one object's conversion may still do.
pub(super) struct Allowance {
    cost: u64,
    shared: Shared,
    made: Budget,
}

impl Allowance {
    pub(super) fn of(object: &Value) -> Self {
        let bytes = field::bytes(object);
        let cost = COST + bytes / COST_BYTES;
        let work = cost.saturating_mul(WORK);
        let made = Budget::of(MADE.saturating_add(bytes.saturating_mul(MADE_BY_BYTE)));
        Self { cost: cost as u64, shared: Shared::of(work as u64, work), made }
    }
}
