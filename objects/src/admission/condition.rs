//! The match conditions of webhooks and policies: expressions on a write (`matchconditions/matcher.go`).

use kindom_api::Value;
use kindom_api::field::aggregate_texts;
use kindom_cel::eval::COST_MAX;
use kindom_cel::value::Value as CelValue;

use super::environment::{Composition, Expression, Wanted};
use super::evaluation::{Evaluation, Inputs, OUT_OF_BUDGET, Pending, Stop};

/// The most that all conditions of one webhook or policy may cost (`RuntimeCELCostBudgetMatchConditions`).
const BUDGET: u64 = 2_500_000;

/// The match conditions of a webhook or a policy.
#[derive(Debug)]
pub struct Conditions {
    conditions: Vec<Expression>,
    fails_open: bool,
    names_authorizer: bool,
}

/// The reason why nobody knows if conditions hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Undecided {
    /// The write, or the policy, fails for that.
    Failed(String),
    /// A decision is yet to be asked for.
    Pending,
}

impl Conditions {
    /// Those of a configuration, and if they may name parameters.
    pub(super) fn of(conditions: &[Value], has_params: bool, fails_open: bool) -> Self {
        let composition = Composition::new(has_params, false);
        let condition = |of: &Value| composition.compile(of.text_at(&["expression"]), Wanted::Bool, true);
        let names_authorizer = conditions.iter().any(names_authorizer);
        Self { conditions: conditions.iter().map(condition).collect(), fails_open, names_authorizer }
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Returns true if all of them hold for a write.
    ///
    /// # Errors
    /// See [`Undecided`].
    pub fn hold(&self, inputs: &Inputs<'_>) -> Result<bool, Undecided> {
        // Conditions know no namespace, and the resource of the request, whatever a rule has named it by.
        let own = own_resource(inputs.request);
        let inputs = Inputs { namespace: None, request: own.as_ref().unwrap_or(inputs.request), ..*inputs };
        let undecided = |why: String| if self.fails_open { Ok(false) } else { Err(Undecided::Failed(why)) };
        let (mut errors, mut holds) = (Vec::new(), true);
        let mut evaluation = Evaluation::new(&inputs, &[], BUDGET, self.names_authorizer);
        for (condition, rest) in self.conditions.iter().zip((1..self.conditions.len() as u64 + 1).rev()) {
            // One that does not hold decides, whatever fails; unless all together cost too much.
            if !holds && rest.saturating_mul(COST_MAX) <= evaluation.left() {
                break;
            }
            match evaluation.evaluate(condition) {
                Ok(CelValue::Bool(false)) => holds = false,
                Ok(_) => {}
                Err(Stop::Failed(why)) => errors.push(why),
                Err(Stop::OutOfBudget) => return undecided(OUT_OF_BUDGET.to_owned()),
                Err(Stop::Pending(Pending)) => return Err(Undecided::Pending),
            }
        }
        if !holds {
            return Ok(false);
        }
        match errors.is_empty() {
            true => Ok(true),
            false => undecided(aggregate_texts(errors)),
        }
    }
}

/// Returns true if an expression in a configuration may name the authorizer.
pub(super) fn names_authorizer(configuration: &Value) -> bool {
    configuration.to_string().contains("authorizer")
}

/// A request with the resource that it asked for, if a rule has named that by an equivalent one (`matcher.Match`).
fn own_resource(request: &Value) -> Option<Value> {
    let own = request.get("requestResource").filter(|own| request.get("resource") != Some(own))?;
    let mut changed = request.clone();
    changed.as_object_mut()?.insert("resource", own.clone());
    Some(changed)
}

/// Checks that a condition compiles.
///
/// # Errors
/// The reason why not, in upstream's words.
pub(crate) fn check_condition(expression: &str, has_params: bool) -> Result<(), String> {
    let composition = Composition::new(has_params, false);
    composition.compile(expression, Wanted::Bool, true).program.map(drop)
}
