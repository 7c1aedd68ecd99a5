//! Values that are converted by expressions (CEL), one for each way. They have no inverse by construction: whether they are each
//! other's is tried on made-up objects, as the other rules are.

use std::sync::OnceLock;

use kindom_api::json::MAX_DEPTH;
use kindom_api::{Value, field};
use kindom_cel::check::compile;
use kindom_cel::eval::{Program, Shared};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::Value as CelValue;

use crate::made::{Budget, object_value};

/// The most bytes of an expression: it is compiled wherever its registration is used for the first time.
const SOURCE_BYTES_MAX: usize = 4096;
/// The cost that the expressions of an object's conversion may have together, and the bytes of the object that allow one more: objects
/// are converted wherever they are read, by steps that are measured by bytes.
const COST: usize = 500;
const COST_BYTES: usize = 4;
/// The bytes that take as long to read as expressions may, whatever the object is.
pub(super) const EXPRESSION_BYTES: usize = COST * COST_BYTES;
/// The steps of regular expressions, and the items that are compared and copied, for each unit of cost.
const WORK: usize = 4;
/// The bytes that they may make together, and for each byte of the object.
const MADE: usize = 4096;
const MADE_BY_BYTE: usize = 4;

/// An expression on `self`, the value at a place.
#[derive(Debug)]
pub(super) struct ValueExpression {
    source: String,
    /// Compiled when it is first needed: whoever routes requests reads the rules of all types.
    program: OnceLock<Result<Program, String>>,
}

impl ValueExpression {
    /// # Errors
    /// It is empty or too long.
    pub(super) fn parse(source: &str) -> Result<Self, String> {
        match source.len() {
            1..=SOURCE_BYTES_MAX => Ok(Self { source: source.to_owned(), program: OnceLock::new() }),
            _ => Err(format!(" must have from 1 to {SOURCE_BYTES_MAX} bytes")),
        }
    }

    pub(super) fn source_bytes(&self) -> usize {
        self.source.len()
    }

    /// # Errors
    /// The reason why it does not compile.
    pub(super) fn program(&self) -> Result<&Program, &str> {
        let compiled = self.program.get_or_init(|| {
            let checked =
                compile(&self.source, &[("self", Type::Dyn)]).map_err(|issues| issues.to_string())?;
            Program::plan(&checked).map_err(|why| why.to_string())
        });
        compiled.as_ref().map_err(String::as_str)
    }

    /// The value that it makes of another; `None` if that is null or an empty optional.
    ///
    /// # Errors
    /// It fails, or the object's [`Allowance`] is spent.
    pub(super) fn evaluate(&self, value: &Value, allowance: &mut Allowance) -> Result<Option<Value>, String> {
        let program = self.program()?;
        // Rules may have nested it deeper than anything that is parsed, and functions walk it.
        if !value.nests_within(MAX_DEPTH) {
            return Err("its value exceeds max depth".to_owned());
        }
        let own = CelValue::of(value, &Untyped).map_err(|why| why.to_string())?;
        let outcome = program.run_sharing(&[Ok(own)], allowance.cost, &mut allowance.shared);
        allowance.cost = allowance.cost.saturating_sub(outcome.cost);
        match outcome.result.map_err(|why| why.to_string())? {
            CelValue::Null | CelValue::Optional(None) => Ok(None),
            made => object_value(&made, &mut allowance.made).map(Some),
        }
    }
}

/// The cost, work and bytes that are left to the expressions of one object's conversion.
pub(super) struct Allowance {
    cost: u64,
    shared: Shared,
    made: Budget,
}

impl Allowance {
    pub(super) fn for_object(object: &Value) -> Self {
        let bytes = field::bytes(object);
        let cost = COST + bytes / COST_BYTES;
        let work = cost.saturating_mul(WORK);
        let made = Budget::with_bytes(MADE.saturating_add(bytes.saturating_mul(MADE_BY_BYTE)));
        Self { cost: cost as u64, shared: Shared::with_work(work as u64, work), made }
    }
}
