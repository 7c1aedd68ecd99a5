//! The changes that a MutatingAdmissionPolicy makes (`policy/mutating/compilation.go`, `patch/{json_patch,smd}.go`).

use kindom_api::{Map, Value};
use kindom_cel::value::{Message, Value as CelValue};
use kindom_codec::json_patch::{self, ApplyError, Operation};
use kindom_managed_fields::merge_untracked;
use kindom_schema::merge::MergeType;

use super::environment::Expression;
use super::evaluation::{Evaluation, Inputs, OUT_OF_BUDGET, Pending, Stop};
use super::policy::{BUDGET, Compiled, Policy};
use crate::made::{Budget, check_names, configuration, patch_value};

/// A change that a policy makes, if it can.
#[derive(Debug)]
pub struct Mutation {
    expression: Expression,
    makes_patch: bool,
}

/// The change that an expression has made for a write.
#[derive(Debug)]
pub enum PolicyChange {
    /// A configuration is applied.
    Apply(Value),
    /// A JSON patch.
    Patch(Vec<Operation>),
}

impl Mutation {
    pub(super) fn of(compiled: &Compiled<'_>, mutation: &Value) -> Self {
        let makes_patch = mutation.text_at(&["patchType"]) == "JSONPatch";
        let field = if makes_patch { "jsonPatch" } else { "applyConfiguration" };
        let source = mutation.text_at(&[field, "expression"]);
        Self { expression: compiled.mutation(makes_patch, source), makes_patch }
    }
}

impl Policy {
    /// The change that one of the policy's mutations makes of a write, or the reason why there is none.
    ///
    /// # Errors
    /// A decision is yet to be asked for.
    pub fn change(
        &self,
        mutation: &Mutation,
        inputs: &Inputs<'_>,
    ) -> Result<Result<PolicyChange, String>, Pending> {
        if let Some(why) = mutation.expression.error() {
            return Ok(Err(why.to_owned()));
        }
        let mut evaluation = Evaluation::new(inputs, &self.composed, BUDGET, self.names_authorizer);
        let value = match evaluation.evaluate(&mutation.expression) {
            Ok(value) => value,
            Err(Stop::Failed(why)) => return Ok(Err(why)),
            Err(Stop::OutOfBudget) => return Ok(Err(OUT_OF_BUDGET.to_owned())),
            Err(Stop::Pending(pending)) => return Err(pending),
        };
        Ok(match mutation.makes_patch {
            true => operations(&value).map(PolicyChange::Patch),
            false => applied(&value).map(PolicyChange::Apply),
        })
    }
}

/// The configuration that a value is.
fn applied(value: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Message(message) = value else {
        let found = value.type_name();
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
    };
    let mut budget = Budget::default();
    check_names(message, &mut budget).map_err(|why| format!("type mismatch: {why}"))?;
    configuration(message, &mut budget).map_err(|why| format!("error applying patch: {why}"))
}

/// The operations that a value lists.
fn operations(value: &CelValue<'_>) -> Result<Vec<Operation>, String> {
    let CelValue::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let (mut patch, mut budget): (Vec<Value>, _) = (Vec::new(), Budget::default());
    for item in list.iter() {
        match item {
            Ok(CelValue::Message(message)) if message.is_patch() => {
                patch.push(operation(&message, &mut budget)?)
            }
            _ => {
                let why = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
                return Err(why.to_owned());
            }
        }
    }
    json_patch::operations(patch.into()).map_err(|why| format!("JSON Patch: {why}"))
}

fn operation(message: &Message<'_>, budget: &mut Budget) -> Result<Value, String> {
    let text = |field| message.text(field);
    budget.spend(["op", "path", "from"].map(|field| text(field).len()).iter().sum())?;
    let mut operation = Map::new();
    operation.insert("op", text("op"));
    operation.insert("path", text("path"));
    if !text("from").is_empty() {
        operation.insert("from", text("from"));
    }
    if let Some(value) = message.get("value") {
        if let CelValue::Message(message) = value {
            check_value(message, budget)?;
        }
        let value = patch_value(value, budget).map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        operation.insert("value", value);
    }
    Ok(Value::Object(operation))
}

fn check_value(message: &Message<'_>, budget: &mut Budget) -> Result<(), String> {
    match message.is_patch() {
        true => Ok(()),
        false => check_names(message, budget).map_err(|why| format!("type mismatch: {why}")),
    }
}

impl PolicyChange {
    /// An object as the change makes it; `None` if it leaves it as it is. `ty` is that of the object, if it can be merged.
    ///
    /// # Errors
    /// The change cannot be made; the reason.
    pub fn of(self, object: &Value, ty: Option<MergeType<'_>>) -> Result<Option<Value>, String> {
        let changed = match self {
            Self::Patch(operations) => match json_patch::apply(&operations, object.clone()) {
                Err(ApplyError::TestFailed(_)) => return Ok(None),
                Err(why) => return Err(format!("JSON Patch: {why}")),
                Ok(changed) => changed,
            },
            Self::Apply(mut configuration) => {
                let failed = |why| format!("error applying patch: {why}");
                let text = |field| object.text_at(&[field]);
                let Some(ty) = ty else {
                    let (api_version, kind) = (text("apiVersion"), text("kind"));
                    let why = format!(
                        "failed to convert patch object to typed object: no corresponding type for {api_version}, Kind={kind}"
                    );
                    return Err(failed(why));
                };
                if let Some(fields) = configuration.as_object_mut() {
                    fields.insert("apiVersion", text("apiVersion"));
                    fields.insert("kind", text("kind"));
                }
                merge_untracked(object, &configuration, ty).map_err(failed)?
            }
        };
        Ok((changed != *object).then_some(changed))
    }
}
